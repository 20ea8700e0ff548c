"""Agents for the tests: installed on first use, and missed out loud where they cannot be had."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .npm import Unavailable, installed


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> Callable[[str, str], Path]:
    """Installs a version of an npm package; the test is skipped, with a line in the summary, where that fails."""

    def get(package: str, version: str) -> Path:
        try:
            return installed(package, version)
        except Unavailable as why:
            request.node.user_properties.append(("agent not available", str(why)))
            pytest.skip(f"agent not available: {why}")

    return get


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says in the summary which agents no test of this run has met."""
    reports = terminalreporter.getreports("skipped")
    missing = {
        str(value)
        for report in reports
        for name, value in report.user_properties
        if name == "agent not available"
    }
    for why in sorted(missing):
        terminalreporter.write_line(
            f"WARNING: agent not available, its tests did not run: {why}", yellow=True, bold=True
        )
