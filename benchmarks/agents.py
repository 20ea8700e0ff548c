"""What unmodified agents read from the cache, directly and through Stet.

    python benchmarks/agents.py [NAME ...] [--steps N] [--quick] [--record DIR]

Each agent of `tests/agents/lineup.py` is installed from npm or PyPI (once, into the cache of the tests), and works on a
small repository in two processes of ten tool steps each, the second one resumed where it can; in between a file is
added. It speaks to the embedded providers, whose own usage the figures are: tokens of all prompts, first calls among
them, and their cost in base input tokens. One after the other, since they start slowly; aider is 690 MB.

A row is kept in the results until its agent is measured again, so that some can be run alone. `--record DIR` keeps the
requests as they came, for recordings.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from report import RESULTS, Table, save

from tests.agents.formats import decompressed
from tests.agents.lineup import KINDS, Kind
from tests.agents.npm import Unavailable
from tests.agents.playing import STEPS, Played, play, programs

COLUMNS = (
    "agent",
    "version",
    "api",
    "calls",
    "direct",
    "stet",
    "cost direct",
    "cost stet",
    "of direct",
    "refused direct",
    "refused stet",
)
NOTE = (
    "Share of all prompts from the cache, first calls among them, and their cost in base input tokens; policy "
    "`default`. *stuck*: directly the session could not be resumed. Where `default` costs more, it cleared old results "
    "in the last turns, which pays in a longer session only."
)
APIS = {"/v1/messages": "Messages", "/v1/chat/completions": "Chat", "/v1/responses": "Responses"}


def main() -> None:
    options = _arguments()
    names = options.names or list(KINDS)
    rows = _known()
    for name in names:
        try:
            rows[name] = measured(KINDS[name], options.steps, options.record)
        except (Unavailable, TimeoutError) as why:
            print(f"{name}: {why}", file=sys.stderr)
            continue
        if not options.quick:
            with contextlib.redirect_stdout(io.StringIO()):
                save("agents", [table(rows)], {"rows": rows}, quick=False)
    table({name: rows[name] for name in names if name in rows})


def measured(kind: Kind, steps: int, record: Path | None) -> dict[str, Any]:
    """A row: the agent played both ways."""
    found = programs(kind)
    row: dict[str, Any] = {"version": version(kind), "date": time.strftime("%Y-%m-%d"), "steps": steps}
    for way in ("direct", "stet"):
        root = Path(tempfile.mkdtemp(prefix="stet-agents-"))
        try:
            began = time.monotonic()
            played = play(kind, way, root, found, steps=steps, between=_touched)
            row[way] = figures(played, time.monotonic() - began)
            if record is not None and way == "direct":
                _recorded(played, root, record / f"{kind.name}.jsonl.gz")
        finally:
            shutil.rmtree(root, ignore_errors=True)
    row["api"] = APIS.get(played.log[-1].path, "Gemini")
    return row


def version(kind: Kind) -> str:
    return ", ".join(
        [f"{package} {number}" for package, number in kind.packages]
        + [one.replace("==", " ") for one in kind.requirements]
    )


def figures(played: Played, seconds: float) -> dict[str, Any]:
    """What one way came to. `ended`: the exit code of each process."""
    calls = played.calls
    total = sum(made.total for made in calls)
    return {
        "ended": [ended.rc for ended in played.ended],
        "calls": len(calls),
        "refused": len(played.refused),
        "prompt": total,
        "cached": sum(made.read for made in calls),
        "ratio": round(played.ratio, 4),
        "cost": round(sum(made.cost for made in calls)),
        "misses": [[turn["turn"], turn["miss"]] for turn in played.turns if turn.get("miss")],
        "seconds": round(seconds, 1),
    }


def table(rows: dict[str, dict[str, Any]]) -> Table:
    made = Table("Agents: share of the prompt from the cache", COLUMNS, NOTE)
    for name in [name for name in KINDS if name in rows]:
        row = rows[name]
        direct, stet = row["direct"], row["stet"]
        stuck = direct["ended"] != stet["ended"]
        made.add(
            name,
            row["version"],
            row["api"],
            stet["calls"],
            f"{direct['ratio']:.1%}",
            f"{stet['ratio']:.1%}",
            "stuck" if stuck else direct["cost"],
            stet["cost"],
            "" if stuck else round(stet["cost"] / direct["cost"], 2),
            direct["refused"],
            stet["refused"],
        )
    return made


def _known() -> dict[str, dict[str, Any]]:
    file = RESULTS / "agents.json"
    return dict(json.loads(file.read_text())["rows"]) if file.exists() else {}


def _touched(folder: Path) -> None:
    (folder / "notes.txt").write_text("seen\n")


def _recorded(played: Played, root: Path, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(file, "wt") as lines:
        for made in played.log:
            body = decompressed(made.headers, made.body).decode().replace(str(root), "/home/someone")
            headers = {name.lower(): value for name, value in made.headers}
            lines.write(json.dumps({"path": made.path, "headers": headers, "body": body}) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what agents read from the cache.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(KINDS)}; default: all")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--quick", action="store_true", help="write no results")
    parser.add_argument("--record", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
