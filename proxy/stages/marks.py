"""Where cache marks stand, where they may stand, and how long they ask for.

A mark is a breakpoint: the provider writes one cache entry there, and from there looks back for older ones
[B5 B6]. Marks are counted on tools, system parts and parts of the turns, inside tool results too, and the
automatic one of the whole request falls on the last block that can carry it [B3 B4].
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from itertools import chain
from typing import assert_never

import msgspec
from msgspec import Struct, structs

from ..branch import keyed
from ..conversation import (
    Conversation,
    Image,
    Mark,
    Message,
    Opaque,
    Part,
    Reasoning,
    Reminder,
    Role,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    may_hold_marks,
)
from ..edits import Target, target_of
from ..models import ModelFacts
from ..rawjson import closed_array, closed_object, items, members
from ..runs import runs, within
from .telling import is_brief

CARRIERS = frozenset({"search_result", "compaction"})
"""Kinds of blocks without a part type of their own that are known to carry a mark [B3]."""

SHORT_SECONDS = 300.0
"""Lifetime of a mark that does not spell one [B10]."""

_INNER = b'"cache_control"'
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Zone(IntEnum):
    """The sections of a prompt, in its order [B1]."""

    TOOLS = 0
    SYSTEM = 1
    TURNS = 2


class Spot(Struct, frozen=True):
    """Where a part stands: `at` is its message, 0 outside the turns; `nth` its place in the list."""

    zone: Zone
    at: int
    nth: int
    part: Part

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts spots in prompt order."""
        return self.zone, self.at, self.nth


class Standing(Struct, frozen=True):
    """Marks that stand on a part, or `inner`: on the blocks inside a tool result."""

    spot: Spot
    marks: tuple[Mark, ...]
    inner: bool = False


class LastMark(Struct, frozen=True):
    """The last cache mark of a request: on which part, how many keyed parts of the turns end with it, its TTL."""

    target: Target
    parts: int
    ttl: str | None


class _Control(Struct):
    ttl: str | None = None


class _Marked(Struct):
    cache_control: _Control | None = None


_marked = msgspec.json.Decoder(list[_Marked])


def standing(conversation: Conversation) -> list[Standing]:
    """All marks of the conversation but the automatic one, in prompt order."""
    found: list[Standing] = []
    for zone, parts in ((Zone.TOOLS, conversation.tools), (Zone.SYSTEM, conversation.system)):
        for nth, part in enumerate(parts):
            if part.mark is not None:
                found.append(Standing(Spot(zone, 0, nth, part), (part.mark,)))
    start = 0
    for run in runs(conversation):
        for at, message in enumerate(run.messages if run.marked else (), start):
            if message.tally.marked:
                found += _in_turn(at, message)
        start += len(run.messages)
    return found


def _in_turn(at: int, message: Message) -> Iterator[Standing]:
    for nth, part in enumerate(message.parts):
        spot = Spot(Zone.TURNS, at, nth, part)
        if part.mark is not None:
            yield Standing(spot, (part.mark,))
        inner = _inner_marks(part)
        if inner:
            yield Standing(spot, inner, inner=True)


def _inner_marks(part: Part) -> tuple[Mark, ...]:
    if not isinstance(part, ToolResult) or part.content is None or not may_hold_marks(part):
        return ()
    try:
        blocks = _marked.decode(part.content)
    except msgspec.DecodeError:  # blocks this version cannot read; their marks are not ours to judge
        return ()
    return tuple(Mark(block.cache_control.ttl) for block in blocks if block.cache_control is not None)


def without_inner_marks(part: ToolResult) -> ToolResult:
    """The result without the marks inside it; all else in it stays as spelt."""
    content = closed_array(
        closed_object((name, raw) for name, raw in members(block) if name != "cache_control")
        if _INNER in bytes(block)
        else block
        for block in items(part.content or b"[]")
    )
    return structs.replace(part, content=content, size=part.size + len(content) - len(part.content or b""))


def spots(messages: tuple[Message, ...]) -> Iterator[Spot]:
    """The parts of `messages`, from the last to the first."""
    for at in range(len(messages) - 1, -1, -1):
        parts = messages[at].parts
        for nth in range(len(parts) - 1, -1, -1):
            yield Spot(Zone.TURNS, at, nth, parts[nth])


def is_cleared(message: Message) -> bool:
    """Whether the message leaves the prompt after one turn; it carries no mark [A61]."""
    return any(name == "clear_at" for name, _ in message.frame)


def refuses(part: Part) -> bool:
    """Whether a request with a mark on this part is refused [A15 A29]."""
    match part:
        case Reasoning():
            return True
        case Text(text=text) | Reminder(text=text):
            return not text
        case ToolDefinition(deferred=deferred):
            return deferred
        case ToolCall() | ToolResult() | Image() | Opaque():
            return False
        case _:
            assert_never(part)


def carries(part: Part) -> bool:
    """Whether a mark of ours may stand on this part: known to be accepted, and the same next time.

    A reminder of ours for this request alone is gone then. A call that the server answers is none: without its result it is not done, with it the result is better.
    """
    match part:
        case Reminder() if is_brief(part):
            return False
        case Text(text=text) | Reminder(text=text):
            return not text.isspace() and bool(text)
        case Image() | ToolResult():
            return True
        case ToolCall(server=server):
            return not server
        case ToolDefinition(deferred=deferred):
            return not deferred
        case Opaque(kind=kind):
            return kind in CARRIERS
        case Reasoning():
            return False
        case _:
            assert_never(part)


def last_carrier(
    messages: tuple[Message, ...], stop: int | None = None, *, answers: bool = True
) -> Spot | None:
    """The last part before message `stop` where a mark of ours may stand; `answers=False`: not in the model's."""
    for at in range((len(messages) if stop is None else stop) - 1, -1, -1):
        message = messages[at]
        if (
            message.role is Role.META
            or (message.role is Role.ASSISTANT and not answers)
            or is_cleared(message)
        ):
            continue
        for nth in range(len(message.parts) - 1, -1, -1):
            if carries(message.parts[nth]):
                return Spot(Zone.TURNS, at, nth, message.parts[nth])
    return None


def automatic_spot(conversation: Conversation) -> Spot | None:
    """Where the provider puts the automatic mark; None without one, or where nothing can carry it [B4]."""
    if conversation.automatic_mark is None:
        return None
    turns = (spot for spot in spots(conversation.messages) if not is_cleared(conversation.messages[spot.at]))
    system = reversed([Spot(Zone.SYSTEM, 0, nth, part) for nth, part in enumerate(conversation.system)])
    tools = reversed([Spot(Zone.TOOLS, 0, nth, part) for nth, part in enumerate(conversation.tools)])
    return next((spot for spot in chain(turns, system, tools) if _takes_automatic(spot.part)), None)


def _takes_automatic(part: Part) -> bool:
    return not refuses(part) and not (isinstance(part, Text | Reminder) and part.text.isspace())


def seconds(mark: Mark) -> float:
    """How long the mark asks an entry to live, in seconds; one that does not say asks for the short time [B10]."""
    ttl = mark.ttl or ""
    unit = _UNITS.get(ttl[-1:])
    return float(ttl[:-1]) * unit if unit and ttl[:-1].isdecimal() else SHORT_SECONDS


def lifetime(ttl: str | None, model: ModelFacts) -> float | None:
    """Seconds an entry lives after a mark with this TTL; None where the cache is never taken for cold."""
    return model.ttl_s if ttl is None else seconds(Mark(ttl))


def last_mark(conversation: Conversation) -> LastMark | None:
    """The last breakpoint of a request as it leaves; None where there is none."""
    automatic = automatic_spot(conversation)
    if automatic is not None and conversation.automatic_mark is not None:
        return _last(conversation, automatic, conversation.automatic_mark)
    at = len(conversation.messages)
    for run in reversed(runs(conversation)):
        at -= len(run.messages)
        for place, message in reversed([*enumerate(run.messages, at)]) if run.marked else ():
            marked = [*_in_turn(place, message)] if message.tally.marked else []
            if marked:
                return _last(conversation, marked[-1].spot, marked[-1].marks[-1])
    for parts in (conversation.system, conversation.tools):
        for part in reversed(parts):
            if part.mark is not None:
                return LastMark(target_of(part), 0, part.mark.ttl)
    return None


def _last(conversation: Conversation, spot: Spot, mark: Mark) -> LastMark:
    if spot.zone is not Zone.TURNS:
        return LastMark(target_of(spot.part), 0, mark.ttl)
    before, at = within(runs(conversation), spot.at)
    said = sum(run.keyed for run in before)
    said += sum(message.tally.keyed for message in conversation.messages[at : spot.at])
    said += keyed(conversation.messages[spot.at].parts[: spot.nth + 1])
    return LastMark(target_of(spot.part), said, mark.ttl)
