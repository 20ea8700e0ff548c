"""Agents for the tests: installed on first use, and missed out loud where they cannot be had."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from . import playing
from .lineup import Kind
from .npm import Unavailable, installed

MISSING = "agent not available"


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> Callable[[str, str], Path]:
    """Installs a version of an npm package; the test is skipped, with a line in the summary, where that fails."""

    def get(package: str, version: str) -> Path:
        try:
            return installed(package, version)
        except Unavailable as why:
            _miss(request, str(why))

    return get


@pytest.fixture
def programs(request: pytest.FixtureRequest) -> Callable[[Kind], list[Path]]:
    """The same for an agent of the line-up, with what it needs beside its own package."""

    def get(kind: Kind) -> list[Path]:
        try:
            return playing.programs(kind)
        except Unavailable as why:
            _miss(request, str(why))

    return get


@pytest.fixture
def git(request: pytest.FixtureRequest) -> str:
    """The git program, which agents look for in their project."""
    return shutil.which("git") or _miss(request, "git is not on PATH")


def _miss(request: pytest.FixtureRequest, why: str) -> NoReturn:
    request.node.user_properties.append((MISSING, why))
    pytest.skip(f"{MISSING}: {why}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says in the summary which agents no test of this run has met."""
    reports = terminalreporter.getreports("skipped")
    missing = {str(value) for report in reports for name, value in report.user_properties if name == MISSING}
    for why in sorted(missing):
        terminalreporter.write_line(
            f"WARNING: {MISSING}, its tests did not run: {why}", yellow=True, bold=True
        )
