"""Regret: what was taken out of the prompt and fetched again.

A call that asks for the same once more, while what it got before is cleared, says that clearing it was a mistake; so
does one that reads an output back from the spool. It is remembered in the ledger, under the result that came, and from
then on the window of that tool is wider and its results cost more to clear. Nothing already sent is undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..branch import Promise
from ..conversation import ToolCall
from ..edits import target_of
from ..spool import HANDLE
from .files import use_of
from .results import Seen, Survey
from .view import Region, View

NAME = "regret"


def widened(window: int, regretted: int) -> int:
    """A tool's window after so many regrets: one wider for each, at most twice as wide (and one for a window of none)."""
    return min(window + regretted, max(1, 2 * window))


def regrets(view: View, survey: Survey) -> Iterator[Promise]:
    """One promise for each new result that brings what was taken out before."""
    for tool, shelf in survey.shelves.items():
        for at in range(len(shelf) - 1, -1, -1):
            seen = shelf[at]
            if seen.turn < survey.turns:
                break
            if seen.result.is_error or view.region(seen.result) is not Region.NEW:
                continue
            of = tool if _cleared(view, survey, shelf[:at], seen) else _spooled(survey, seen.call)
            if of:
                target = target_of(seen.result)
                yield Promise(anchor=target.key, nth=target.nth, stage=NAME, regret=of)


def fetched_again(view: View, tool: str, shelf: Sequence[Seen]) -> float:
    """The share of a tool's cleared results that were fetched again."""
    times = view.regrets.get(tool, 0)
    if not times:
        return 0.0
    gone = sum(seen.result.raw is None and target_of(seen.result) in view.cleared for seen in shelf)
    return min(1.0, times / max(1, gone))


def _cleared(view: View, survey: Survey, earlier: Sequence[Seen], seen: Seen) -> bool:
    """Whether the newest result of an equal call before it is cleared, and its file was not written since."""
    if not view.cleared:
        return False
    agent = view.facts.agent
    use = use_of(agent, seen.call)
    path = use.path if use is not None and use.does == "read" else None
    for one in reversed(earlier):
        alike = one.call.input == seen.call.input
        if not alike and path is not None:
            other = use_of(agent, one.call)
            alike = other is not None and other.path == path
        if alike:
            gone = one.result.raw is None and target_of(one.result) in view.cleared
            return gone and not (path is not None and _written(view, survey, path, one.turn))
    return False


def _written(view: View, survey: Survey, path: str, since: int) -> bool:
    for shelf in survey.shelves.values():
        for seen in reversed(shelf):
            if seen.turn <= since:
                break
            use = None if seen.result.is_error else use_of(view.facts.agent, seen.call)
            if use is not None and use.does == "write" and use.path == path:
                return True
    return False


def _spooled(survey: Survey, call: ToolCall) -> str:
    """The tool whose output a call reads back from the spool; "" where it reads none of this conversation."""
    handle = HANDLE.search(call.input.decode(errors="replace")) if b"spool-" in call.input else None
    if handle is None:
        return ""
    name = handle[0].encode()
    return next(
        (
            tool
            for tool, shelf in survey.shelves.items()
            if any(name in (seen.result.content or b"") and name not in seen.call.input for seen in shelf)
        ),
        "",
    )
