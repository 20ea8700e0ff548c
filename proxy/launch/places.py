"""What a user has set already: variables and configuration files, read and never written.

A file that is not there says nothing. One that cannot be read or understood says nothing either, and is named to the
user: the agent will have its own opinion of it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import yaml
from msgspec import Struct

Plain: TypeAlias = object
"""A parsed document: mappings, lists, texts, numbers, None."""

Path_: TypeAlias = tuple[str | int, ...]

_REFERENCE = re.compile(r"\$\{(\w+)(?::-([^${}]*))?\}")


class Places(Struct, frozen=True):
    """The user's environment, working directory, and files; `faults` gathers files that could not be understood."""

    env: Mapping[str, str]
    cwd: Path
    faults: list[str]

    @property
    def home(self) -> Path:
        """The home directory."""
        return Path(self.env["HOME"]) if self.env.get("HOME") else Path("~").expanduser()

    def path(self, written: str) -> Path | None:
        """The file that a recipe speaks of; None where it speaks of an unset variable, or nothing is found upwards."""
        while (reference := _REFERENCE.search(written)) is not None:
            value = self.env.get(reference[1]) or reference[2] or ""
            written = written[: reference.start()] + value + written[reference.end() :]
        if not written:
            return None
        if written.startswith("^"):
            wanted = (folder / written[1:] for folder in (self.cwd, *self.cwd.parents))
            return next((file for file in wanted if file.is_file()), None)
        if written.startswith("~"):
            return self.home / written[1:].lstrip("/")
        return self.cwd / written

    def document(self, written: str) -> Plain:
        """The file's content, None where there is none to read."""
        file = self.path(written)
        if file is None or not file.is_file():
            return None
        try:
            return parsed(file.name, file.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as fault:
            # Never the fault's own text: a parser may quote the line, and a line may hold a key.
            self.faults.append(f"{file} cannot be read ({type(fault).__name__}), it is left aside")
            return None

    def values(self, document: Plain, at: Sequence[str]) -> Iterator[tuple[Path_, Plain]]:
        """Every value at a path of a document with the path it really stands at; `*` goes through all of a level."""
        yield from _values(document, document, tuple(at), ())


def _values(whole: Plain, here: Plain, at: tuple[str, ...], before: Path_) -> Iterator[tuple[Path_, Plain]]:
    if not at:
        yield before, here
        return
    step, rest = at[0], at[1:]
    if step.startswith("{") and step.endswith("}"):
        named = next((value for _, value in _values(whole, whole, (step[1:-1],), ())), None)
        if not isinstance(named, str):
            return
        step = named
    if isinstance(here, dict):
        for key, value in here.items():
            if step in ("*", key):
                yield from _values(whole, value, rest, (*before, str(key)))
    elif isinstance(here, list) and step == "*":
        for index, value in enumerate(here):
            yield from _values(whole, value, rest, (*before, index))


def value_at(document: Plain, at: Path_) -> Plain:
    """The value at exactly this path, None where there is none."""
    for step in at:
        match document:
            case dict() if step in document:
                document = document[step]
            case list() if isinstance(step, int) and step < len(document):
                document = document[step]
            case _:
                return None
    return document


def parsed(name: str, text: str) -> Plain:
    """A document by the form its name implies. Raises ValueError, YAMLError."""
    match name.rpartition(".")[2]:
        case "json" | "jsonc":
            return json.loads(without_comments(text)) if text.strip() else None
        case "toml":
            return tomllib.loads(text)
        case "yaml" | "yml":
            return yaml.safe_load(text)
        case _:
            return dotenv(text)


_JSONC = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


def without_comments(text: str) -> str:
    """JSON from JSON with comments and trailing commas, as agents allow it in their configuration."""
    once = _JSONC.sub(lambda found: found[1] or (" " if found[0] != "," else ""), text)
    return _JSONC.sub(lambda found: found[1] or "", once)  # a comma that a comment stood behind


_ASSIGNMENT = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=[ \t]*("[^"\n]*"|'[^'\n]*'|[^\s#]*)""", re.MULTILINE
)


def dotenv(text: str) -> dict[str, Plain]:
    """The assignments of a `.env` file."""
    return {name: value.strip("\"'") for name, value in _ASSIGNMENT.findall(text) if value.strip("\"'")}
