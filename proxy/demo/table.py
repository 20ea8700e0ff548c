"""What the person sees: progress while it runs, then the figures, what the proxy did, and what it comes to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from textwrap import wrap
from typing import TextIO

from . import short
from .figures import Edited, Figures
from .plan import TURNS


class Progress:
    """Says how far it is: one line that changes on a terminal, else a line for each session."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"

    def turn(self, session: str, turn: int, turns: int = TURNS) -> None:
        """Say that so many turns of `turns` are over."""
        if self._live:
            self._write(f"\r\033[K  {session}: {turn}/{turns} turns")
        elif turn == turns:
            self._write(f"{session}: {turns} turns played\n")

    def done(self) -> None:
        """Clear the line."""
        if self._live:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


_HEAD = ("session", "path", "turns", "refused", "prompt", "cached", "cost", "breaks", "added")
_DID_HEAD = ("session", "edits, by stage: turns in force", "left out", "held", "thinking")

_WIDE = 100
"""Columns that the report takes at most; with fewer the names of the sessions stand in lines of their own."""
_STAGES = (48, 28)
"""Characters that the list of stages may take in a line, wide and narrow."""

_TIED = "\N{NO-BREAK SPACE}"

_NOTE = (
    "prompt (tokens), cached, refused: what the provider counted. cost: of all prompts, in base input tokens (a cache "
    "write 1.25, on gemini 1; a read 0.1, on the prefix-checked model and on responses 0.05). breaks: turns that read "
    "less from the cache than it held. added: how much longer the client waited for the first byte through stet, median."
)
_DID_NOTE = (
    "left out: tokens, over all turns. held: turns in which clearing old results did not pay yet. thinking: blocks "
    "that the last request still had, of those the model had made."
)
_THINKING_NOTE = (
    "Thinking that is missing for the {names} left with the batch that cleared old results after the long pause, when "
    "the cache was cold anyway: that model takes thinking back only behind what it was made from. The policy careful "
    "clears nothing and keeps all."
)
_SHORT_TITLE = (
    "The same in other formats, {turns} turns each. The careless clients have the time of day in front of the "
    "conversation, and lose the results of what the person stops."
)
_DEARER = 0.02


def report(policy: str, sessions: Sequence[Figures], edits: Sequence[Edited], columns: int = _WIDE) -> str:
    """The tables and the closing words; no line is longer than `columns`, where these are 80 or more."""
    wide = min(columns, _WIDE)
    names = {one.name for one in short.SHORT}
    long = [one for one in sessions if one.name not in names]
    others = [one for one in sessions if one.name in names]
    clients = len(long) // 2
    title = (
        f"A scripted coding agent, {TURNS} turns, as {clients} clients: directly, and through stet ({policy})"
    )
    lines = [*wrap(title, wide), "", *_figures(long, sessions, narrow=columns < _WIDE), ""]
    if others:
        lines += wrap(_SHORT_TITLE.format(turns=short.TURNS), wide)
        lines += ["", *_figures(others, sessions, narrow=columns < _WIDE), ""]
    lines += [*wrap(_NOTE, wide), ""]
    did = [row for one in edits for row in _did(one, _STAGES[columns < _WIDE])]
    lines += [*aligned([_DID_HEAD, *did], left=2), "", *wrap(_DID_NOTE, wide)]
    lost = ", ".join(one.name for one in edits if one.thinking < one.thinking_given and one.batches)
    lines += wrap(_THINKING_NOTE.format(names=lost), wide) if lost else []
    return "\n".join([*_failures(edits, wide), *lines, "", *_sum(sessions, wide)])


def _failures(edits: Sequence[Edited], columns: int) -> list[str]:
    """What went wrong in the proxy itself, before anything else is said."""
    failed = sum(one.failed_open for one in edits)
    if not failed:
        return []
    said = f"FAILED: in {failed} turns stet failed, and the request went out as the client sent it."
    faults = [f"  {one.name}: {fault}" for one in edits for fault in one.faults]
    return [part for line in (said, *faults) for part in wrap(line, columns, subsequent_indent="    ")] + [""]


def _figures(shown: Sequence[Figures], every: Sequence[Figures], *, narrow: bool) -> list[str]:
    """The table of some sessions, with columns as wide as the table of all would have them."""
    rows = aligned([_HEAD, *map(_named, every)], left=2)
    narrowed = [f"  {row}" for row in aligned([_HEAD[1:], *map(_row, every)], left=1)]
    lines = (narrowed if narrow else rows)[:2]
    for line, row in zip(every, (narrowed if narrow else rows)[2:], strict=True):
        if line in shown:
            lines += [line.name] * (narrow and line.path == "direct") + [row]
    return lines


def _named(line: Figures) -> tuple[str, ...]:
    return (line.name if line.path == "direct" else "", *_row(line))


def _row(line: Figures) -> tuple[str, ...]:
    return (
        line.path,
        f"{line.turns}" if line.stuck_at is None else f"stuck at {line.stuck_at}",
        f"{line.refused}",
        f"{line.prompt_tokens:,}",
        f"{line.cached_share:.1%}",
        f"{line.cost:,.0f}",
        f"{line.breaks}",
        "" if line.path == "direct" else f"{line.added_ms:.1f} ms",
    )


def _did(one: Edited, width: int) -> list[tuple[str, ...]]:
    stages = ", ".join(f"{stage}{_TIED}{turns}" for stage, turns in one.stages.items()) or "none"
    first, *more = (line.replace(_TIED, " ") for line in wrap(stages, width))
    thinking = f"{one.thinking}/{one.thinking_given}" if one.thinking_given else ""
    return [
        (one.name, first, f"{one.left_out:,}", f"{one.held}", thinking),
        *(("", line, "", "", "") for line in more),
    ]


def aligned(rows: Sequence[tuple[str, ...]], left: int) -> list[str]:
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


def _sum(sessions: Sequence[Figures], columns: int) -> list[str]:
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
    return [part for line in lines for part in wrap(line, columns)]
