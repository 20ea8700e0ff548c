"""Thinking of turns that are over: a person has spoken since, and the model answers that now.

It is optional from then on [A47]. Some providers leave it out of the prompt by themselves: then it may as well not be
sent, and nothing changes but the size of the body. With others it is part of the prompt, written to the cache once and read
in every later turn; to take it out restarts the cache at the first block that goes [B23]. So there it leaves as old
results do, in a batch that pays (see `paying`), and all of it: what is kept must be one window that reaches to the
newest [A45].

Where an upstream demands all reasoning back [A400 A410], and where reasoning and what it led to come together or not at all
[A202], it stays.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ..branch import Promise
from ..conversation import Message, Reasoning, Role, ToolResult
from ..economics import Candidate, size_of, weight
from ..edits import Remove, target_of
from ..identity import is_user_side
from .batch import tail, theirs
from .paying import Purse
from .results import Survey, survey
from .view import NOTHING, Proposal, Region, View

NAME = "reasoning"
"""The stage in whose name it leaves."""

HIGH_WATER = 0.8
"""Share of the window from which on it leaves though that does not pay yet."""


class _Block(Struct, frozen=True):
    """Thinking that could go: bytes before it, bytes of the request it answered, and the model's turns since."""

    part: Reasoning
    before: int
    asked: int
    turns: int


def stripped(view: View, *, paid: bool) -> Proposal:
    """Take thinking of closed turns out. `paid`: also where that changes the prompt, once it pays."""
    model = view.facts.model
    if model.reasoning == "required" or view.rules.reasoning_bound:
        return NOTHING
    person = _person(view)
    if person < 0 or _is_open(view):
        return NOTHING
    if model.last_turn_thinking:
        return _unseen(view, person)
    return _batch(view, person) if paid else NOTHING


def _is_open(view: View) -> bool:
    """Whether the newest round of calls must still begin with its thinking: with manual thinking it is open while its
    results are what was sent last, whatever a person says beside them [A41]."""
    return view.conversation.thinking == "enabled" and any(
        isinstance(part, ToolResult) for message in tail(view.conversation) for part in message.parts
    )


def _person(view: View) -> int:
    """The message in which a person says something new behind the last answer; -1 where nobody does."""
    messages = view.conversation.messages
    for at in range(len(messages) - 1, -1, -1):
        if not is_user_side(messages[at].role):
            return -1
        if _speaks(view, messages[at]):
            return at
    return -1


def _speaks(view: View, message: Message) -> bool:
    return any(
        not isinstance(part, ToolResult) and not part.nth and theirs(part) and view.region(part) is Region.NEW
        for part in message.parts
    )


def _unseen(view: View, person: int) -> Proposal:
    """What the provider leaves out itself, promised under what the person said."""
    anchor = next(
        part.key for part in view.conversation.messages[person].parts if not part.nth and theirs(part)
    )
    edits = tuple(
        _remove(part, "thinking of a turn that is over, which the provider leaves out [A47]")
        for message in view.conversation.messages[:person]
        for part in message.parts
        if isinstance(part, Reasoning)
    )
    return Proposal(promises=(Promise(anchor=anchor, stage=NAME, edits=edits),)) if edits else NOTHING


def _batch(view: View, person: int) -> Proposal:
    """All of it or none: a part of it that went would leave a gap [A45]."""
    seen = survey(view)
    blocks = [*_blocks(view, person, seen)]
    if not blocks:
        return NOTHING
    purse = Purse.of(view, seen.total, HIGH_WATER)
    saves = sum(one.part.size for one in blocks)
    carried = sum(one.part.size * one.turns for one in blocks) // max(1, saves)
    first = purse.kept(blocks[0].before, blocks[0].asked, seen.turns - 1 - blocks[0].turns)
    choice = purse.choose([Candidate(first, saves * purse.unit, carried)], 0)
    if choice is None:
        return NOTHING
    edits = [_remove(one.part, choice.why("thinking of turns that are over [B23]")) for one in blocks]
    return purse.decide(NAME, choice, edits, len(blocks), keep_thinking=False)


def _blocks(view: View, person: int, seen: Survey) -> Iterator[_Block]:
    """In prompt order. Turns are counted as the survey counts them: a run of answers is one."""
    model, conversation = view.facts.model, view.conversation
    before = sum(weight(part, model) for part in (*conversation.tools, *conversation.system))
    turn, answering = -1, False
    for message in conversation.messages[:person]:
        answers = message.role is Role.ASSISTANT
        turn += answers and not answering
        answering = answers
        within = before
        for part in message.parts:
            if isinstance(part, Reasoning):
                yield _Block(part, within, seen.asked[turn] if turn >= 0 else 0, seen.turns - 1 - turn)
            within += weight(part, model)
        before += size_of(message, model)


def _remove(part: Reasoning, reason: str) -> Remove:
    return Remove(
        stage=NAME, reason=reason, target=target_of(part), tokens_before=part.size // 4, committed=True
    )
