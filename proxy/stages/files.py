"""What calls did to files: a reading is out of date once its file was read or written again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import Struct

from ..agents import Agent, FileUse
from ..conversation import ToolCall, ToolResult
from ..memo import Memo
from .results import Seen, Survey

REMEMBERED_BYTES = 4096
"""Longer arguments are looked at each time: they would be kept alive by what is remembered."""


_remembering: Memo[Agent, Callable[[str, bytes], FileUse | None]] = Memo(
    lambda agent: lru_cache(maxsize=2048)(agent.file_use), limit=64
)


def use_of(agent: Agent, call: ToolCall) -> FileUse | None:
    """What a call does to a file."""
    if len(call.input) > REMEMBERED_BYTES:
        return agent.file_use(call.name, call.input)
    return _remembering(agent)(call.name, call.input)


class Later(Struct, frozen=True):
    """Turns, in their order, in which files were read as a whole, or by the same arguments, and written."""

    whole: dict[str, list[int]]
    alike: dict[tuple[str, bytes], list[int]]
    written: dict[str, list[int]]

    def outdated(self, seen: Seen, use: FileUse, *, by_writes: bool) -> int | None:
        """The first turn after a reading that makes it out of date; None where it still holds."""
        lists = [self.whole.get(use.path, ()), self.alike.get((use.path, seen.call.input), ())]
        if by_writes:
            lists.append(self.written.get(use.path, ()))
        first = [turns[at] for turns in lists if (at := bisect_right(turns, seen.turn)) < len(turns)]
        return min(first, default=None)


def later(survey: Survey, agent: Agent, since: int, says_nothing: Callable[[ToolResult], bool]) -> Later:
    """What was done to files after the turn `since`. Errors did nothing; a result that `says_nothing` is no reading."""
    found = Later({}, {}, {})
    for seen in sorted(_recent(survey, since), key=lambda one: one.turn):
        use = None if seen.result.is_error else use_of(agent, seen.call)
        if use is None or (use.does == "read" and says_nothing(seen.result)):
            continue
        if use.does == "write":
            found.written.setdefault(use.path, []).append(seen.turn)
            continue
        if use.whole:
            found.whole.setdefault(use.path, []).append(seen.turn)
        found.alike.setdefault((use.path, seen.call.input), []).append(seen.turn)
    return found


def _recent(survey: Survey, since: int) -> Iterator[Seen]:
    for shelf in survey.shelves.values():
        for seen in reversed(shelf):
            if seen.turn <= since:
                break
            yield seen
