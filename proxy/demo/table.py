"""What the person sees: progress while it runs, then the figures, what the proxy did, and what it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TextIO

from .figures import Edited, Figures
from .plan import TURNS


class Progress:
    """Says how far it is: one line that changes on a terminal, else a line for each session."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty()

    def turn(self, session: str, turn: int) -> None:
        """Say that so many turns are over."""
        if self._live:
            self._write(f"\r\033[K  {session}: {turn}/{TURNS} turns")
        elif turn == TURNS:
            self._write(f"{session}: {TURNS} turns played\n")

    def done(self) -> None:
        """Clear the line."""
        if self._live:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


_HEAD = ("session", "path", "turns", "refused", "prompt tokens", "cached", "cost", "breaks", "added")
_DID_HEAD = ("session", "edits, by stage: turns in which they were in force", "left out", "held", "thinking")
_WIDTH = 48
"""Characters that the list of stages may take in a line."""

_TIED = "\N{NO-BREAK SPACE}"

_NOTE = (
    "prompt tokens, cached, refused: what the provider counted. cost: of all prompts, in base input tokens (a cache "
    "write 1.25, a read 0.1; 0.05 on the prefix-checked model). breaks: turns that read less from the cache than it "
    "held. added: how much longer the client waited for the first byte through stet, median."
)
_DID_NOTE = (
    "left out: tokens, over all turns. held: turns in which clearing old results did not pay yet. thinking: blocks "
    "that the last request still had, of those the model had made."
)
_COLUMNS = 100
_DEARER = 0.02


def report(policy: str, sessions: Sequence[Figures], edits: Sequence[Edited]) -> str:
    """The tables and the closing words; none is too long for a terminal."""
    title = f"A scripted coding agent, {TURNS} turns, as {len(edits)} clients: directly, and through stet ({policy})"
    lines = [title, "", *_aligned([_HEAD, *map(_row, sessions)], left=2), "", *wrap(_NOTE, _COLUMNS), ""]
    did = [row for one in edits for row in _did(one)]
    lines += [*_aligned([_DID_HEAD, *did], left=2), "", *wrap(_DID_NOTE, _COLUMNS), ""]
    return "\n".join([*_failures(edits), *lines, *_sum(sessions)])


def _failures(edits: Sequence[Edited]) -> list[str]:
    """What went wrong in the proxy itself, before anything else is said."""
    failed = sum(one.failed_open for one in edits)
    if not failed:
        return []
    said = f"FAILED: in {failed} turns stet failed, and the request went out as the client sent it."
    return [*wrap(said, _COLUMNS), *(f"  {one.name}: {fault}" for one in edits for fault in one.faults), ""]


def _row(line: Figures) -> tuple[str, ...]:
    return (
        line.name if line.path == "direct" else "",
        line.path,
        f"{line.turns}",
        f"{line.refused}",
        f"{line.prompt_tokens:,}",
        f"{line.cached_share:.1%}",
        f"{line.cost:,.0f}",
        f"{line.breaks}",
        "" if line.path == "direct" else f"{line.added_ms:.1f} ms",
    )


def _did(one: Edited) -> list[tuple[str, ...]]:
    stages = ", ".join(f"{stage}{_TIED}{turns}" for stage, turns in one.stages.items()) or "none"
    first, *more = (line.replace(_TIED, " ") for line in wrap(stages, _WIDTH))
    thinking = f"{one.thinking}/{one.thinking_given}"
    return [
        (one.name, first, f"{one.left_out:,}", f"{one.held}", thinking),
        *(("", line, "", "", "") for line in more),
    ]


def _aligned(rows: Sequence[tuple[str, ...]], left: int) -> list[str]:
    """Columns as wide as their widest cell, the first `left` to the left; a rule under the head."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if at < left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
    return lines


def _sum(sessions: Sequence[Figures]) -> list[str]:
    """What it comes to: refusals of all sessions, costs of those that both paths played to the end."""
    pairs = list(zip(sessions[::2], sessions[1::2], strict=True))
    refused = [sum(pair[at].refused for pair in pairs) for at in (0, 1)]
    stuck = [direct.name for direct, _ in pairs if direct.refused]
    whole = [(direct.name, through.cost / direct.cost - 1) for direct, through in pairs if not direct.refused]
    costs = ", ".join(f"{name} {change:+.1%}" for name, change in whole)
    lines = [
        f"Refused turns: {refused[0]} directly, {refused[1]} through stet.",
        f"Cost through stet: {costs}.",
    ]
    if stuck:
        lines.append(f"Stuck directly: {', '.join(stuck)}; their direct figures are of the turns before.")
    lines += [f"Dearer through stet: {name}, {change:+.1%}." for name, change in whole if change > _DEARER]
    return [part for line in lines for part in wrap(line, _COLUMNS)]
