"""YAML -> `msgspec.Struct`, where every mistake has a place: `file:line:column: what (where), did you mean ...`.

    load(path, Policy)                 the whole way; raises ConfigErrors with all mistakes of the file
    document = parse(text, name)       the text with its places
    document.convert(Policy)           typed; unknown keys are mistakes, also inside
    document.over(base)                for files that extend others: key by key, places kept
    document.error(("stages", "stale", "window"), "...")   a mistake that a type cannot express

Types: Struct, list, tuple, set, dict with text keys, Literal, Enum, int, float, str, bool, None, Any, unions of them
that differ in kind (`Stale | Literal["off"]`), and the bounds of `msgspec.Meta`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect
from yaml import MappingNode, Node, SequenceNode

from .errors import ConfigError
from .yamlnodes import YamlPath, compose, entries, fault_at, overlay
from .yamlstruct import MOST_ERRORS, ConfigErrors, Reading, suggestion

__all__ = ["ConfigErrors", "Document", "load", "parse", "read", "schema", "suggestion"]

T = TypeVar("T")


class Document:
    """A YAML file with the place of every node."""

    def __init__(self, root: Node) -> None:
        self._root = root

    @property
    def name(self) -> str:
        """The file's name as messages give it."""
        return str(self._root.start_mark.name)

    def convert(self, kind: type[T]) -> T:
        """The document as `kind`. Raises ConfigErrors."""
        reading = Reading()
        value = reading.value(self._root, inspect.type_info(kind), ())
        if reading.errors:
            ordered = sorted(reading.errors, key=lambda e: (e.path != self.name, e.path, e.line, e.column))
            raise ConfigErrors(ordered[:MOST_ERRORS])
        return value  # type: ignore[no-any-return]  # built by type_info(kind)

    def over(self, base: Document) -> Document:
        """This document laid over `base`: mappings key by key, anything else replaces. Raises ConfigError."""
        return Document(overlay(self._root, base._root))

    def plain(self, path: YamlPath = ()) -> Any:
        """The plain value at `path`, None where there is none. Raises ConfigErrors."""
        found = self._find(path)
        if found is None:
            return None
        reading = Reading()
        value = reading.value(found[1], inspect.AnyType(), path)
        if reading.errors:
            raise ConfigErrors(reading.errors[:MOST_ERRORS])
        return value

    def error(self, path: YamlPath, message: str, *, at_key: bool = False) -> ConfigError:
        """An error that points at the value at `path` (or its key), or at the deepest part of the path there is."""
        for end in range(len(path), 0, -1):
            found = self._find(path[:end])
            if found is not None:
                key, value = found
                return fault_at((key if at_key and key is not None else value).start_mark, message)
        return fault_at(self._root.start_mark, message)

    def _find(self, path: YamlPath) -> tuple[Node | None, Node] | None:
        key: Node | None = None
        node = self._root
        for step in path:
            if isinstance(node, MappingNode):
                pair = next(((k, v) for k, v in entries(node) if k.value == step), None)
                if pair is None:
                    return None
                key, node = pair
            elif isinstance(node, SequenceNode) and isinstance(step, int) and 0 <= step < len(node.value):
                key, node = None, node.value[step]
            else:
                return None
        return key, node


def parse(text: str, name: str) -> Document:
    """The document in `text`; `name` is what messages call it. Raises ConfigError for bad syntax."""
    return Document(compose(text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}"), name))


def read(path: Path) -> Document:
    """The document in a file. Raises ConfigError where it cannot be read, is not UTF-8, or is not YAML."""
    try:
        raw = path.read_bytes()
    except OSError as fault:
        raise ConfigError(str(path), 1, 1, f"cannot be read: {fault.strerror or fault}") from fault
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as fault:
        before = raw[: fault.start]
        line, column = before.count(b"\n") + 1, fault.start - (before.rfind(b"\n") + 1) + 1
        raise ConfigError(str(path), line, column, "not UTF-8") from fault
    return parse(text, str(path))


def load(source: Path | tuple[str, str], kind: type[T]) -> T:
    """A file, or (name, text), as `kind`. Raises ConfigError, ConfigErrors."""
    document = read(source) if isinstance(source, Path) else parse(source[1], source[0])
    return document.convert(kind)


def schema(kind: Any) -> dict[str, Any]:
    """JSON Schema of a file, for editors. As in `convert`, no key is allowed that the Structs do not name."""
    made = msgspec.json.schema(kind)
    for definition in made.get("$defs", {}).values():
        if "properties" in definition:
            definition["additionalProperties"] = False
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
