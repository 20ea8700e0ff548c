"""`stet doctor`: whether an agent would come through, and what a custom base URL changes in it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version as version_of
from pathlib import Path
from platform import python_version
from textwrap import wrap
from typing import Any

from ..errors import StetError
from ..gateway.console import columns
from ..gateway.settings import resolve
from ..models import Models
from .checks import Examined, Finding, examined, proxy_findings, version
from .recipe import OTHER, Recipe, recipe_for, recipes
from .session import found

_WIDEST = 110
_MARK = 6


def diagnose(
    agent: str | None, flags: Mapping[str, Any], config: Path | None = None, models: Path | None = None
) -> int:
    """Print what is found; the exit code: 1 where something is at fault. Raises StetError for wrong settings."""
    table = Models.load(models)
    settings = resolve(flags, None, config, table.profiles)
    report = Report(columns(sys.stdout))
    report.head(f"stet {version_of('stet-proxy')}, Python {python_version()}")
    report.findings(proxy_findings(settings))
    if agent is None:
        report.head("agents")
        report.findings(_overview())
    else:
        recipe, program = _asked(agent)
        given = [str(pair).partition("=")[0].strip() for pair in flags.get("upstreams") or ()]
        try:
            looked_at = examined(recipe, program, settings, table, given)
        except StetError as fault:
            looked_at = Examined(recipe=recipe, path="", version="", findings=(Finding("FAIL", str(fault)),))
        _agent(report, looked_at, program)
    sys.stdout.write(f"{report.text()}\n")
    return 1 if report.faults else 0


def _asked(agent: str) -> tuple[Recipe, str]:
    """The recipe and the program: of an agent's name, or of any program."""
    known = recipes()
    recipe = recipe_for(agent, known, agent) or recipe_for(agent, known)
    if recipe is None or recipe.agent == OTHER:
        return next(one for one in known if one.agent == OTHER), agent
    return recipe, agent if recipe_for(agent, known) is recipe else recipe.programs[0]


def _overview() -> Iterator[Finding]:
    for recipe in recipes():
        for program in recipe.programs:
            path = found(program)
            if isinstance(path, int):
                yield Finding("", f"{recipe.name}: {program} is not found on PATH")
            else:
                told = version(recipe, path)
                yield Finding("ok", f"{recipe.name} {told} ({path})".replace("  ", " "))
    yield Finding("", "`stet doctor AGENT` says more")


def _agent(report: Report, looked_at: Examined, program: str) -> None:
    recipe = looked_at.recipe
    name = recipe.name if recipe.agent != OTHER else program
    where = f" ({looked_at.path})" if looked_at.path else ""
    report.head(f"{name} {looked_at.version}".rstrip() + where)
    report.findings(looked_at.findings)
    if recipe.notes:
        report.head("what a base URL of its own changes in it, and how that is known")
        report.notes([(note.text, note.checked) for note in recipe.notes])


class Report:
    """Plain text, folded to the terminal; counts faults."""

    def __init__(self, width: int | None) -> None:
        self._width = max(40, min(width, _WIDEST)) if width is not None else None
        self._lines: list[str] = []
        self.faults = 0

    def head(self, text: str) -> None:
        """A title, with a blank line above."""
        self._lines += ["", text] if self._lines else [text]

    def findings(self, found: Iterable[Finding]) -> None:
        """One finding after the other, its mark in front."""
        for one in found:
            self.faults += one.mark == "FAIL"
            self._add(f"  {one.mark:<{_MARK}}{one.text}", " " * (_MARK + 2))

    def notes(self, notes: Sequence[tuple[str, str]]) -> None:
        """What was written down about an agent, with its source."""
        for text, checked in notes:
            self._add(f"  - {text} [{checked}]", "    ")

    def text(self) -> str:
        """All of it."""
        return "\n".join(self._lines)

    def _add(self, line: str, indent: str) -> None:
        if self._width is None:  # to a file or a pipe: each can be found as one
            self._lines.append(line)
            return
        self._lines += wrap(
            line, self._width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
