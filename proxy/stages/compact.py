"""A long history becomes a summary, when the window is nearly full and a person begins something new.

What stays as it is: tools and system, all before the first answer (the goal), and the newest turns of people with what
came of them. What stands between is left out, and one assistant message says what it came to (see `summary`). Of the
reminders in it the newest of each kind stays where it stands, for it may limit what the agent may do; so do system
messages, and what later calls rest on.

A compaction breaks the cache once, so it must be worth it: it waits for a message of a person with no call open, and
where tools, system and what has to stay are above the mark by themselves it does nothing and says so.

What it came to is told from the history alone, or, in `mode: model`, by the model: then the stage asks, once there is
nothing but the answer to wait for, and proposes nothing yet. Its next call has what was heard. Where no words came, the
history speaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from ..conversation import (
    Conversation,
    Message,
    Opaque,
    Part,
    Reminder,
    Role,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from ..economics import size_of, weight
from ..edits import Edit, InsertAfter, Move, Remove, target_of
from ..identity import derived
from .batch import speaks, tail, theirs
from .paying import Purse, held, short
from .reasoning import demanded, stand_in
from .results import survey
from .room import room
from .stubs import SAYS, meant
from .summary import summary
from .telling import is_told
from .view import NOTHING, Heard, Proposal, View

NAME = "compact"

WORTH = 0.1
"""Share of the window that a compaction must give back at least: else every message of a person would bring one."""


MOST = 0.25
"""Share of what leaves that the model's words about it may take at most."""

TOO_LONG = "the model's summary is too long for what it is of"
NOTHING_YET = Heard(fault="not asked yet")


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`high_water`: the share of the window above which a history is compacted; `target`: the share it should come down
    to: as many of the newest turns of people stay whole as fit below it, at least `keep`, the newest one included. `mode`:
    what says what it came to, the history's own words or the `model`, whose answer is waited for `wait` seconds at most.
    """

    high_water: Annotated[float, Meta(gt=0, le=1)] = 0.8
    target: Annotated[float, Meta(gt=0, le=1)] = 0.4
    keep: Annotated[int, Meta(ge=1, le=1000)] = 1
    mode: Literal["extractive", "model"] = "extractive"
    wait: Annotated[float, Meta(ge=1, le=600)] = 60


class _Plan(Struct, frozen=True):
    """Messages `first` to `cut` are to go; `before`: bytes that stand before them."""

    first: int
    cut: int
    before: int


def propose(view: View, config: Config) -> Proposal:
    """One compaction, or why there is none."""
    conversation, model = view.conversation, view.facts.model
    sizes = [size_of(message, model) for message in conversation.messages]
    head = sum(weight(part, model) for part in (*conversation.tools, *conversation.system))
    purse = Purse.of(view, head + sum(sizes), 1.0)
    unit = purse.unit
    total = purse.total * unit
    mark = min(config.high_water * model.window, model.window - room(conversation, model.window))
    if total <= mark or not any(speaks(view, message) for message in tail(conversation)):
        return NOTHING
    plan = _plan(conversation, sizes, head, config, config.target * model.window / unit)
    leaving = [*_leaving(view, plan)] if plan is not None else []
    gone = sum(weight(part, model) for part in leaving)
    if plan is None or gone < WORTH * model.window / unit:
        fixed = (head + sum(sizes) - gone) * unit
        reason = (
            f"the prompt of {short(total)} tokens is above the mark of {short(mark)}, and {short(fixed)} of it (tools, system, "
            "the first message and the newest turn) have to stay"
        )
        return held(NAME, reason, 0, 0.0)
    going = conversation.messages[plan.first : plan.cut]
    if _is_open(going, conversation.messages[plan.cut :]):
        return held(NAME, "a call is still open", len(going), gone * unit)
    heard = _heard(view.facts.heard or NOTHING_YET, config, gone)
    edits = [*_edits(view, plan, leaving, unit, heard)]
    if not edits:
        return NOTHING
    forced = purse.forced(purse.kept(plan.before, plan.before, 0), gone)
    proposal = purse.decide(NAME, forced, edits, len(going), keep_thinking=False, spent=heard.cost)
    if proposal.promises and config.mode == "model" and view.facts.heard is None:
        return Proposal(asks=config.wait)
    return proposal


def _heard(heard: Heard, config: Config, gone: int) -> Heard:
    """What was heard, as far as it serves as a summary in place of `gone` bytes."""
    if config.mode == "extractive":
        return Heard()
    text = heard.text.replace("\0", "").strip()  # the provider reads no further than a NUL [A4]
    if len(text.encode()) > MOST * gone:
        return structs.replace(heard, text="", fault=TOO_LONG)
    return structs.replace(heard, text=text, fault="" if text else heard.fault or "the model said nothing")


def _plan(
    conversation: Conversation, sizes: list[int], head: int, config: Config, target: float
) -> _Plan | None:
    """What goes: from the first answer up to a message of a person. None where there is nothing between them."""
    messages = conversation.messages
    first = next((at for at, message in enumerate(messages) if message.role is Role.ASSISTANT), len(messages))
    people = [
        at for at in range(first + 1, len(messages)) if _is_person(messages[at]) and _begins(messages, at)
    ]
    if len(people) < config.keep:
        return None
    before = head + sum(sizes[:first])
    cut = people[-config.keep]
    for earlier in reversed(people[: -config.keep]):
        if before + sum(sizes[earlier:]) > target:
            break
        cut = earlier
    return _Plan(first, cut, before)


def _is_person(message: Message) -> bool:
    return (
        message.written
        and message.role is Role.USER
        and any(isinstance(part, Text) and part.text.strip() for part in message.parts)
    )


def _begins(messages: tuple[Message, ...], at: int) -> bool:
    """Whether a turn of a person begins here: no result of a call before it stands in it or directly before it."""
    return not any(isinstance(part, ToolResult) for part in messages[at].parts) and (
        messages[at - 1].role not in (Role.USER, Role.TOOL) or not messages[at - 1].written
    )


def _is_open(going: tuple[Message, ...], staying: tuple[Message, ...]) -> bool:
    """Whether a call that goes has no result there, or its result stays."""
    answered = {result.call_id for message in going for result, _ in message.tally.results}
    called = {call.id for message in going for call in message.tally.calls if not call.server}
    later = {call.id for message in staying for call in message.tally.calls}
    stays = {result.call_id for message in staying for result, _ in message.tally.results} - later
    return bool(called - answered or stays & called)


def _edits(view: View, plan: _Plan, leaving: Sequence[Part], unit: float, heard: Heard) -> Iterator[Edit]:
    """The removals, and the summary behind what stands before them."""
    messages = view.conversation.messages
    original = _original(view, plan)
    count = len(original)
    text = summary(original, view.facts.agent, count, heard.text)
    goal = _goal(messages[: plan.first])
    by = (
        " by the model"
        if heard.text
        else f" of the history's own words: {heard.fault}"
        if heard.fault
        else ""
    )
    why = f"the window is nearly full: {count} messages become a summary{by}"
    if goal is None:
        return
    if view.rules.system_follows_user:
        yield from _brought_forward(messages[plan.first : plan.cut], goal, why)
    if demanded(view, calls=False):
        # Reasoning says nothing: without a name of its own it would be taken for that of the summary before this one.
        named = derived(goal.key, f"{NAME}.reasoning.{count}")
        yield InsertAfter(
            stage=NAME,
            reason=why,
            target=target_of(goal),
            part=structs.replace(stand_in(view), key=named),
            role=Role.ASSISTANT,
            committed=True,
        )
    yield InsertAfter(
        stage=NAME,
        reason=why,
        target=target_of(goal),
        part=Text(text=text, size=len(text.encode())),
        role=Role.ASSISTANT,
        tokens_after=round(len(text.encode()) * unit),
        committed=True,
    )
    for part in leaving:
        yield Remove(
            stage=NAME,
            reason=why,
            target=target_of(part),
            tokens_before=round(weight(part, view.facts.model) * unit),
            committed=True,
            blanks=True,
        )
    if view.facts.model.merge_same_role:
        yield from _joined(messages, plan, {id(part) for part in leaving}, why)


def _goal(messages: Sequence[Message]) -> Part | None:
    """The last part before the first answer that a client sends again: blank ones come and go."""
    return next(
        (
            part
            for message in reversed(messages)
            for part in reversed(message.parts)
            if not part.nth and theirs(part)
        ),
        None,
    )


def _brought_forward(going: Sequence[Message], goal: Part, why: str) -> Iterator[Move]:
    """System messages of the stretch, in front of the summary: behind it they would follow the model [A60]."""
    for message in going:
        for part in message.parts if message.role is Role.SYSTEM else ():
            yield Move(
                stage=NAME,
                reason=why,
                target=target_of(part),
                to=target_of(goal),
                before=False,
                role=Role.SYSTEM,
                committed=True,
            )


def _joined(messages: Sequence[Message], plan: _Plan, leaving: set[int], why: str) -> Iterator[Move]:
    """Where turns must alternate, what a harness said to the user's side goes to the turn that stays."""
    to = next(target_of(part) for part in messages[plan.cut].parts if not part.nth)
    for message in messages[plan.first : plan.cut]:
        if message.role is not Role.USER or any(isinstance(part, ToolResult) for part in message.parts):
            continue
        for part in message.parts:
            if id(part) not in leaving:
                yield Move(stage=NAME, reason=why, target=target_of(part), to=to, before=True, committed=True)


def _leaving(view: View, plan: _Plan) -> Iterator[Part]:
    """The parts that leave. What a provider or a harness put between the turns stays, and what stays rests on."""
    going, staying = view.conversation.messages[plan.first : plan.cut], view.conversation.messages[plan.cut :]
    newest: dict[str, Reminder] = {}
    needed = _rested_on(view, going, staying)
    for message in going:
        for part in message.parts:
            if isinstance(part, Reminder) and (part.source is Source.REMINDER or is_told(part)):
                newest[part.name] = part
            elif isinstance(part, ToolResult) and b'"tool_reference"' in (part.content or b""):
                needed.add(part.call_id)  # it brings the definitions of tools [A29]
    limits = {id(part) for part in newest.values()}
    for message in going:
        if message.role in (Role.SYSTEM, Role.META):
            continue
        for part in message.parts:
            stays = (
                id(part) in limits
                or (isinstance(part, ToolCall) and part.id in needed)
                or (isinstance(part, ToolResult) and part.call_id in needed)
                or (isinstance(part, Opaque) and "compaction" in part.kind)
            )
            if not stays:
                yield part


def _rested_on(view: View, going: Sequence[Message], staying: Sequence[Message]) -> set[str]:
    """Ids of calls whose results a pointer or a stub means that stays."""
    results = [result for message in staying for result, _ in message.tally.results]
    pointed = {to for pointer in map(target_of, results) if (to := view.pointers.get(pointer)) is not None}
    said = meant(survey(view), SAYS, {id(result) for result in results})
    return {
        result.call_id
        for message in going
        for result, _ in message.tally.results
        if target_of(result) in pointed or id(result) in said
    }


def _original(view: View, plan: _Plan) -> list[Message]:
    """The stretch as the client wrote it, what earlier batches took out of it included."""
    messages = view.conversation.messages
    begin = next((message.index for message in messages[plan.first :] if message.index >= 0), 0)
    end = next((message.index for message in messages[plan.cut :] if message.index >= 0), 0)
    answer = next(
        (at for at, message in enumerate(view.client.messages) if message.role is Role.ASSISTANT), begin
    )
    return list(view.client.messages[min(begin, answer) : end])
