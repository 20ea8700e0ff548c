"""Where results go: a table on the terminal, and the same with all numbers in `benchmarks/results/`."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("stet-proxy", "aiohttp", "msgspec", "orjson", "uvloop")


class Table:
    """Rows under a title; the first row given sets the columns."""

    def __init__(self, title: str, columns: Sequence[str], note: str = "") -> None:
        self.title, self.columns, self.note = title, list(columns), note
        self.rows: list[list[str]] = []

    def add(self, *cells: object) -> None:
        """Add a row and print it, so that a long run shows what it has."""
        self.rows.append([_shown(cell) for cell in cells])
        if len(self.rows) == 1:
            print(f"\n{self.title}\n  {self._line(self.columns)}")
        print(f"  {self._line(self.rows[-1])}", flush=True)

    def _line(self, cells: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(26) if at == 0 else cell.rjust(max(9, len(self.columns[at])))
            for at, cell in enumerate(cells)
        )

    def markdown(self) -> str:
        """The table for a README."""
        head = [f"| {' | '.join(self.columns)} |", f"|{'---|' * len(self.columns)}"]
        body = [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join([f"### {self.title}", "", *head, *body, *(["", self.note] if self.note else []), ""])


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.2f}" if abs(cell) < 100 else f"{cell:.1f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def machine() -> dict[str, Any]:
    """What the numbers were taken on."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M %Z"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": [round(one, 2) for one in os.getloadavg()],
        "versions": {name: version(name) for name in PACKAGES},
        "commit": _commit(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _commit() -> str:
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=RESULTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip()


def save(name: str, tables: Sequence[Table], numbers: Mapping[str, Any], *, quick: bool) -> None:
    """Write `name.json` and `name.md`; a quick run is for looking and is not kept."""
    if quick:
        return
    RESULTS.mkdir(exist_ok=True)
    where = machine()
    (RESULTS / f"{name}.json").write_text(
        json.dumps({"machine": where, **numbers}, indent=1) + "\n", encoding="utf-8"
    )
    about = f"{where['date']}, {where['cpu']}, {where['cores']} cores, load {where['load'][0]}, {where['system']}, Python {where['python']}"
    with_ = ", ".join(f"{package} {number}" for package, number in where["versions"].items())
    text = "\n".join(
        [
            f"## {name}",
            "",
            f"{about}; {with_}; commit {where['commit']}.",
            "",
            *(t.markdown() for t in tables),
        ]
    )
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    print(f"\nwritten to {RESULTS / name}.json and .md")
