"""The tool results of a history, each with its call, on one shelf per tool."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from ..conversation import Conversation, Role, ToolCall, ToolResult
from ..economics import weight
from ..models import ModelFacts
from ..runs import Run, runs
from .view import View

ARGUMENTS = (
    "file_path",
    "path",
    "notebook_path",
    "filename",
    "command",
    "cmd",
    "pattern",
    "query",
    "url",
    "prompt",
)
"""Names of the argument that says most about a call, the strongest first."""

_strings = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)


class Seen(Struct, frozen=True):
    """A result, its call, the bytes that stand before it, and the model's turns before it."""

    result: ToolResult
    call: ToolCall
    before: int
    turn: int


class Survey(Struct, frozen=True):
    """All results by tool, in prompt order; bytes of the whole prompt; turns of the model in it.

    `asked`: for each of these turns the bytes of the request that it answered: what stands before it.
    """

    shelves: dict[str, list[Seen]]
    total: int
    asked: list[int]

    @property
    def turns(self) -> int:
        """How many turns of the model there are."""
        return len(self.asked)

    def asked_before(self, seen: Seen) -> int:
        """Bytes of the last request that did not have a result: that whose answer called for it."""
        return self.asked[seen.turn - 1] if seen.turn else 0


def survey(view: View) -> Survey:
    """The survey of what would be sent."""
    return survey_of(view.conversation, view.facts.model)


def survey_of(conversation: Conversation, model: ModelFacts) -> Survey:
    """All runs of a history. A result belongs to the newest call of its id before it: providers reuse ids."""
    total = sum([weight(part, model) for part in (*conversation.tools, *conversation.system)])
    shelves: defaultdict[str, list[Seen]] = defaultdict(list)
    asked: list[int] = []
    earlier: list[dict[str, ToolCall]] = []
    answering = False
    for run in runs(conversation):
        joined = answering and run.opens
        calls = {name: _made(name, earlier) for name in run.loose}
        part = _surveyed(run, _Before(total, len(asked) - joined, joined, calls), model)
        for tool, shelf in part.shelves.items():
            shelves[tool] += shelf
        asked += part.asked
        total = part.total
        earlier.append(run.calls)
        answering = run.closes
    return Survey(shelves, total, asked)


class _Before(Struct, frozen=True):
    """What stands before a run: bytes, turns of the model, whether one of them goes on in it, and the calls that its
    `loose` results answer."""

    total: int
    turns: int
    joined: bool
    calls: dict[str, ToolCall | None]


_SURVEYED = "survey"


def _surveyed(run: Run, before: _Before, model: ModelFacts) -> Survey:
    """The survey of one run, kept with it: nearly every run stands where it stood in the request before."""
    if run.media:
        return _survey_of(run, before, _heavier(run, model))
    known: tuple[_Before, Survey] | None = run.__dict__.get(_SURVEYED)
    if known is None or known[0] != before:
        known = run.__dict__[_SURVEYED] = (before, _survey_of(run, before, lambda _: 0))
    return known[1]


def _survey_of(run: Run, before: _Before, heavier: Callable[[int], int]) -> Survey:
    shelves: defaultdict[str, list[Seen]] = defaultdict(list)
    for placed in run.placed:
        call = placed.call or before.calls[placed.result.call_id]
        if call is not None:
            ahead = before.total + placed.ahead + heavier(placed.ahead)
            shelves[call.name].append(Seen(placed.result, call, ahead, before.turns + placed.turn))
    asked = [before.total + ahead + heavier(ahead) for ahead in run.turns[before.joined :]]
    return Survey(shelves, before.total + run.size + heavier(run.size), asked)


def _made(call_id: str, earlier: list[dict[str, ToolCall]]) -> ToolCall | None:
    return next((calls[call_id] for calls in reversed(earlier) if call_id in calls), None)


def _heavier(run: Run, model: ModelFacts) -> Callable[[int], int]:
    """By how much the parts of a run up to a place weigh more (or less) than their bytes: what images cost [A38]."""
    places, sums, at = [0], [0], 0
    for message in run.messages:
        for part in message.parts:
            at += part.size
            more = weight(part, model) - part.size
            if more:
                places.append(at)
                sums.append(sums[-1] + more)
    return lambda place: sums[bisect_right(places, place) - 1]


def latest_calls(view: View) -> dict[str, ToolCall]:
    """The calls of the last answers by id: the results of a request stand behind their calls."""
    messages = view.conversation.messages
    begin = max(0, min(view.start, view.conversation.last(Role.ASSISTANT)) - 1)
    return {call.id: call for message in messages[begin:] for call in message.tally.calls}


def main_argument(call: ToolCall) -> tuple[str, str]:
    """Name and value, on one line, of the argument that says most about a call; both empty where none is a string."""
    try:
        given = _strings.decode(call.input)
    except msgspec.DecodeError:
        return "", ""
    for name in (*(name for name in ARGUMENTS if name in given), *given):
        try:
            value = " ".join(_string.decode(given[name]).split())
        except msgspec.DecodeError:
            continue
        if value:
            return name, value
    return "", ""
