"""Edits, and `apply`, which alone changes anything.

An edit names its target by key, says which stage wants it and why, and what it costs or saves in tokens.
Every difference between the client's body and ours is one. Applied to an equal history, an edit gives equal
bytes, for ever: what it puts in is fixed when it is made.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from msgspec import Raw, Struct, structs

from .conversation import (
    NO_KEY,
    Conversation,
    Key,
    Mark,
    Message,
    Part,
    Reasoning,
    Reminder,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from .identity import derived, digest, plainly, says
from .runs import follow


class Target(Struct, frozen=True):
    """The part with this key; `nth` tells apart those that say nothing and share it."""

    key: Key
    nth: int = 0


class Change(Struct, frozen=True, kw_only=True, tag=True):
    """What all edits say. Tokens are estimates of the target before and after.

    `required`: without it the provider would refuse the request. `committed`: the edit reaches into what the
    provider has cached; the ledger holds it as part of a batch that pays.
    """

    stage: str
    reason: str
    target: Target
    tokens_before: int = 0
    tokens_after: int = 0
    required: bool = False
    committed: bool = False


class Replace(Change, frozen=True, kw_only=True):
    """The target says something else. The new part takes over place, key, mark and unknown members.

    `rests_on`: the earlier part that it points the model at, which therefore has to stay as it is.
    """

    part: Part
    rests_on: Target | None = None


class InsertBefore(Change, frozen=True, kw_only=True):
    """A part of ours before the target; with `role`, as a message of its own."""

    part: Part
    role: Role | None = None


class InsertAfter(Change, frozen=True, kw_only=True):
    """A part of ours behind the target; with `role`, as a message of its own."""

    part: Part
    role: Role | None = None


class Remove(Change, frozen=True, kw_only=True):
    """The target leaves; with `blanks`, so does what says nothing where no more is left of its message: clients put blank
    parts in and take them out again."""

    blanks: bool = False


class Move(Change, frozen=True, kw_only=True):
    """The target goes to stand right behind (or before) another part, in that part's message; with `role`, in a message
    of its own behind (or before) that message."""

    to: Target
    before: bool = False
    role: Role | None = None


class PlaceMark(Change, frozen=True, kw_only=True):
    """A cache breakpoint is set on the target, or taken away (None). Marks are no part of the prompt [B1]."""

    mark: Mark | None


class Mend(Change, frozen=True, kw_only=True):
    """Bytes mended before the body was read, `count` of them: lone surrogates and NUL [A4]."""

    count: int


class Unname(Change, frozen=True, kw_only=True):
    """The target's message leaves without its id, which says nothing [A207].

    `led`: where it has that id, and the message right before it is not the one named here, which it came behind [A202].
    """

    led: tuple[str, str] = ("", "")


class AddMember(Change, frozen=True, kw_only=True):
    """The request gets a member the client did not send. It is no part of the prompt, so it has no target."""

    target: Target = Target(NO_KEY)
    name: str
    value: bytes


class JoinSystem(Change, frozen=True, kw_only=True):
    """The system prompt, which came as several messages, leaves as one. Its parts stay what they are."""

    target: Target = Target(NO_KEY)


class Sign(Change, frozen=True, kw_only=True):
    """The target, a call or thinking, has the signature that the model gave it. `of`: what a call says, by which it is
    known again in a history that goes otherwise."""

    signature: str
    of: str = ""


Edit = (
    Sign
    | Replace
    | InsertBefore
    | InsertAfter
    | Remove
    | Move
    | PlaceMark
    | AddMember
    | Mend
    | Unname
    | JoinSystem
)


class Held(Struct, frozen=True, kw_only=True):
    """A retroactive edit that was wanted and not made: what it would have broken and saved, in tokens."""

    stage: str
    reason: str
    targets: int
    breaks_tokens: int
    saves_tokens: int


def target_of(part: Part) -> Target:
    """The target that names `part`."""
    return Target(part.key, part.nth)


class _Bench:
    """The conversation while edits are applied: lists where an edit touches, the client's tuples elsewhere."""

    def __init__(self, conversation: Conversation, since: int) -> None:
        self.conversation = conversation
        self.messages: list[Message] = list(conversation.messages)
        self.parts: dict[int, list[Part]] = {}
        self.behind: dict[tuple[str, Target], int] = {}
        self.lead: dict[int, list[int]] = {}
        self.trail: dict[int, list[int]] = {}
        self.added: list[tuple[str, Raw]] = []
        self.joined = False
        self.own: dict[tuple[str, Target, bool, Role], int] = {}
        self.since = since
        self.places: dict[Target, int] = {}
        self._index(since, len(self.messages))
        for place, parts in ((TOOLS, conversation.tools), (SYSTEM, conversation.system)):
            for part in parts:
                self.places[target_of(part)] = place

    def _index(self, start: int, stop: int) -> None:
        for place in range(start, stop):
            for part in self.messages[place].parts:
                self.places[Target(part.key, part.nth)] = place

    def find(self, target: Target) -> tuple[int, list[Part], int] | None:
        place = self.places.get(target)
        while place is None and self.since:
            # Most targets stand at the end; a batch, which reaches further, comes seldom.
            stop, self.since = self.since, max(0, self.since - 64)
            self._index(self.since, stop)
            place = self.places.get(target)
        if place is None:
            return None
        parts = self.opened(place)
        for at, part in enumerate(parts):
            if part.key == target.key and part.nth == target.nth:
                return place, parts, at
        return None

    def further(self, stage: str, target: Target) -> int:
        """How far behind `target` the next part goes that `stage` puts there: behind those it put there before.

        Other stages do not count, so that edits applied at once give what they gave stage by stage.
        """
        at = self.behind[stage, target] = self.behind.get((stage, target), 0) + 1
        return at

    def opened(self, place: int) -> list[Part]:
        if place not in self.parts:
            source = {TOOLS: self.conversation.tools, SYSTEM: self.conversation.system}.get(place)
            self.parts[place] = list(self.messages[place].parts if source is None else source)
        return self.parts[place]

    def insert(self, part: Part, place: int, parts: list[Part], at: int) -> None:
        """A part of ours stands here from now on, and later edits can name it."""
        parts.insert(at, part)
        self.places[target_of(part)] = place

    def add(self, part: Part, role: Role, edit: Edit, beside: int, *, before: bool) -> None:
        """A message of ours before or behind another; what one stage puts at one place is one message."""
        at = edit.to if isinstance(edit, Move) else edit.target
        known = self.own.get((edit.stage, at, before, role))
        if known is None:
            known = self.own[edit.stage, at, before, role] = len(self.messages)
            self.messages.append(Message(role=role, parts=()))
            (self.lead if before else self.trail).setdefault(beside, []).append(known)
        parts = self.opened(known)
        self.insert(part, known, parts, len(parts))

    def spread(self, places: Iterable[int]) -> Iterator[Message]:
        """The messages at these places, each between those that were put around it: results right behind [A101], then
        what a harness says, which may not follow the model [A60]."""
        for place in places:
            yield from self.spread(self.lead.get(place, ()))
            yield self.messages[place]
            trail = self.trail.get(place, ())
            yield from self.spread(
                sorted(trail, key=lambda at: _BEHIND.get(self.messages[at].role, len(_BEHIND)))
            )

    def add_member(self, edit: AddMember) -> bool:
        """A member behind the client's; one that is there is the client's to say."""
        if any(name == edit.name for name, _ in (*self.conversation.envelope, *self.added)):
            return False
        self.added.append((edit.name, Raw(edit.value)))
        return True

    def join_system(self) -> bool:
        """The system prompt leaves as one message, where it is several."""
        self.joined = self.conversation.leads > 1
        return self.joined

    def unname(self, place: int, led: tuple[str, str]) -> bool:
        """The message loses its id; what is no message has none."""
        if place < 0:
            return False
        message = self.messages[place]
        if led[0] and (message.nameless or message.name != led[0] or self.name_before(place) == led[1]):
            return False
        self.messages[place] = structs.replace(message, nameless=True, raw=None)
        return True

    def name_before(self, place: int) -> str:
        """The id of the message that stands in front of this one; "" where none does, or it leaves without."""
        for at in range(place - 1, -1, -1):
            message = self.messages[at]
            if self.parts.get(at, message.parts):
                return "" if message.nameless else message.name
        return ""

    def closed(self) -> Conversation:
        changes: dict[str, object] = {}
        if self.added:
            changes["envelope"] = (*self.conversation.envelope, *self.added)
        tools = self.parts.pop(TOOLS, None)
        if tools is not None and not _equal(tools, self.conversation.tools):
            changes |= {"tools": tuple(tools), "tools_changed": True}
        if self.joined:
            changes |= {"joined": True, "system_changed": True}
        system = self.parts.pop(SYSTEM, None)
        if system is not None and not _equal(system, self.conversation.system):
            changes |= {"system": tuple(system), "system_changed": True}
        for place, parts in self.parts.items():
            message = self.messages[place]
            if not _equal(parts, message.parts):  # else only looked at
                role = _speaker(message.role, parts)
                self.messages[place] = structs.replace(message, role=role, parts=tuple(parts), raw=None)
        if self.own:
            self.messages = [*self.spread(range(len(self.conversation.messages)))]
        conversation = structs.replace(self.conversation, messages=tuple(self.messages), **changes)
        return follow(conversation, self.conversation)


TOOLS, SYSTEM = -1, -2

_BEHIND = {Role.TOOL: 0, Role.SYSTEM: 1}
"""The order of messages of ours behind one of the client's."""


def _speaker(role: Role, parts: Sequence[Part]) -> Role:
    """Whose a message is: results that became text are said by the user."""
    spoken = role is Role.TOOL and parts and not any(isinstance(part, ToolResult) for part in parts)
    return Role.USER if spoken else role


def _equal(parts: Sequence[Part], before: Sequence[Part]) -> bool:
    """Whether the very same parts stand in the same order."""
    return len(parts) == len(before) and all(map(operator.is_, parts, before))


def apply(
    conversation: Conversation, edits: Sequence[Edit], since: int = 0
) -> tuple[Conversation, tuple[Edit, ...]]:
    """`conversation` after `edits` in their order, and those that found their target.

    `since` is the first message an edit is likely to touch, a hint that saves looking at the others.
    """
    if not edits:
        return conversation, ()
    bench = _Bench(conversation, since)
    done = tuple(edit for edit in edits if _apply_one(bench, edit))
    return (bench.closed() if done else conversation), done


def _apply_one(bench: _Bench, edit: Edit) -> bool:  # noqa: C901, PLR0912  one case for each kind of edit
    if isinstance(edit, Mend):
        return True
    if isinstance(edit, AddMember):
        return bench.add_member(edit)
    if isinstance(edit, JoinSystem):
        return bench.join_system()
    found = bench.find(edit.target)
    if found is None:
        return False
    place, parts, at = found
    old = parts[at]
    match edit:
        case Replace(part=part):
            parts[at] = _successor(part, old)
        case InsertBefore(part=part, role=role) if role is not None:
            bench.add(_made(edit, part), role, edit, place, before=True)
        case InsertAfter(part=part, role=role) if role is not None:
            bench.add(_made(edit, part), role, edit, place, before=False)
        case InsertBefore(part=part):
            bench.insert(_made(edit, part), place, parts, at)
        case InsertAfter(part=part):
            further = bench.further(edit.stage, edit.target)
            bench.insert(_made(edit, part), place, parts, at + further)
        case Remove(blanks=blanks):
            del parts[at]
            if blanks and all(part.nth for part in parts):
                parts.clear()
        case Move(to=to, before=before):
            return _move(bench, (parts, at), edit, to, before=before)
        case PlaceMark(mark=mark):
            parts[at] = _marked(old, mark)
        case Unname(led=led):
            return bench.unname(place, led)
        case Sign(signature=signature):
            return _signed(parts, at, signature)
        case _:
            assert_never(edit)
    return True


def _move(bench: _Bench, source: tuple[list[Part], int], edit: Move, to: Target, *, before: bool) -> bool:
    parts, at = source
    part = parts[at]
    goal = bench.find(to)
    if goal is None or goal[1][goal[2]] is part:
        return False
    place, others, there = goal
    del parts[at]
    if edit.role is not None:
        bench.add(part, edit.role, edit, place, before=before)
        return True
    if others is parts and at < there:
        there -= 1
    if not before:
        there += bench.further(edit.stage, to)
    others.insert(there, part)
    bench.places[target_of(part)] = place
    return True


def _signed(parts: list[Part], at: int, signature: str) -> bool:
    """A signature that stands there already is no difference, and what carries none gets none."""
    old = parts[at]
    if not isinstance(old, ToolCall | Reasoning) or old.signature == signature:
        return False
    base = old.raw if old.raw is not None else old.base
    size = old.size + len(signature) - len(old.signature)
    if isinstance(old, Reasoning):
        parts[at] = structs.replace(old, signature=signature, named=False, raw=None, base=base, size=size)
    else:
        parts[at] = structs.replace(old, signature=signature, raw=None, base=base, size=size)
    return True


def _successor(part: Part, old: Part) -> Part:
    match part, old:
        case ToolCall(signature=""), ToolCall(signature=signature):
            part = structs.replace(part, signature=signature)
        case ToolResult(name=""), ToolResult(name=name):
            part = structs.replace(part, name=name)
        case _:
            pass
    base = part.base if part.base is not None else old.raw if old.raw is not None else old.base
    return structs.replace(part, raw=None, base=base, key=old.key, nth=old.nth, mark=old.mark)


def _marked(old: Part, mark: Mark | None) -> Part:
    base = old.raw if old.raw is not None else old.base
    return structs.replace(old, raw=None, base=base, mark=mark)


def _made(edit: InsertBefore | InsertAfter, part: Part) -> Part:
    """A part of ours gets a key derived from its place and what it says, so that marks and later edits can name it."""
    if part.key != NO_KEY:
        return part
    said = digest(says(part, plainly) or b"").hex()
    return structs.replace(part, key=derived(edit.target.key, f"{edit.stage}.{edit.target.nth}.{said}"))


def unchanged(edit: Edit, part: Part) -> bool:
    """Whether a replacement says what already stands there, to the byte: then it is none."""
    match edit, part:
        case Replace(part=ToolCall() as new), ToolCall():
            same = (new.id, new.name, new.input) == (part.id, part.name, part.input)
            return same and new.signature in ("", part.signature)
        case Replace(part=Text() | Reminder() as new), Text() | Reminder():
            return new.text == part.text
        case _:
            return False


def by_stage(edits: Iterable[Edit]) -> dict[str, int]:
    """How many edits each stage made."""
    counts: dict[str, int] = {}
    for edit in edits:
        counts[edit.stage] = counts.get(edit.stage, 0) + 1
    return counts
