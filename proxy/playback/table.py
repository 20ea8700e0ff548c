"""What the person sees: a row for each path of each session, and each request where that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from ..demo.table import aligned
from .figures import Line, Step

_HEAD = (
    "session",
    "path",
    "requests",
    "refused",
    "prompt",
    "cached",
    "cost",
    "$",
    "breaks",
    "batches",
    "left out",
)

_NOTE = (
    "cost: of all prompts, in base input tokens, and in dollars where prices are known; answers are not in it. breaks: "
    "requests that read less from the cache than it held. batches: turns in which old results were cleared, and what was "
    "written anew for that, in base input tokens. left out: tokens, over all requests. hindsight: default, but "
    "clearing in the best turns, for who knows how the session goes on. All by the embedded provider's count."
)


def report(
    sessions: Sequence[tuple[str, Sequence[Line]]],
    steps: Sequence[tuple[str, Sequence[Step]]],
    notes: Sequence[str],
    columns: int,
) -> str:
    """The tables, and what is to be said of them."""
    rows = [_HEAD, *(row for name, lines in sessions for row in _session(name, lines))]
    used = [at for at in range(len(_HEAD)) if at < 2 or any(row[at] for row in rows[1:])]
    lines = aligned([tuple(row[at] for at in used) for row in rows], left=2)
    for name, session in steps:
        lines += ["", f"{name}: prompt, of it cached, and cost of each request", *_steps(session)]
    lines.append("")
    for said in (_NOTE, *notes):
        lines += wrap(said, columns)
    return "\n".join(lines)


def _session(name: str, lines: Sequence[Line]) -> list[tuple[str, ...]]:
    return [(name if at == 0 else "", *_row(line, lines[0])) for at, line in enumerate(lines)]


def _row(line: Line, direct: Line) -> tuple[str, ...]:
    change = (
        f" ({line.cost / direct.cost - 1:+.1%})"
        if line is not direct and direct.cost and line.requests == direct.requests
        else ""
    )
    anew = f" ({line.batches_cost:,.0f})" if line.batches and line.batches_cost is not None else ""
    return (
        line.path,
        f"{line.requests}",
        _number(line.refused),
        _number(line.prompt),
        "" if line.cached is None else f"{line.cached:.1%}",
        f"{line.cost:,.0f}{change}",
        "" if line.dollars is None else f"{line.dollars:,.4f}",
        _number(line.breaks),
        f"{_number(line.batches)}{anew}",
        _number(line.left_out),
    )


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _steps(steps: Sequence[Step]) -> list[str]:
    paths = list(steps[0].paths) if steps else []
    rows = [("request", "model", *paths)]
    for step in steps:
        shown = [step.paths[path] for path in paths]
        cells = ["refused" if one is None else f"{one[0]:,} {one[1]:,} {one[2]:,.0f}" for one in shown]
        rows.append((f"{step.number}", step.model, *cells))
    return aligned(rows, left=2)
