"""The user's side of a turn: results in their place, placeholders for those that never came [A20-A23].

A result that is missing becomes a fixed placeholder, promised under the *end* of the turn that lacks it: in a
history where that turn went on and the real result came, the placeholder is not. A result that comes when its slot
was already sent filled stays where it stands, as labelled text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import structs

from ..conversation import Message, Part, Reminder, Role, Source, ToolCall, ToolResult
from ..edits import Edit, InsertAfter, InsertBefore, Move, Replace, target_of
from ..identity import content_says
from ..rawjson import encoded
from ..rules import Rules
from .contents import images, split, text_inside
from .view import weight
from .walk import NAME, Walk, drop, is_blank, lasting, standing

# The model reads these. Changing one invalidates every prompt cache and thinking block behind it.
MISSING = "No result: the tool call was interrupted before it returned."
LATE = "[Result of the earlier tool call {name} ({call_id}), which arrived late]"
ORPHAN = "[Result of an earlier tool call ({call_id}) that is no longer part of this conversation]"


def place_answers(walk: Walk, run: list[int], answers: list[int], waiting: dict[str, ToolCall]) -> None:
    messages = walk.view.conversation.messages
    first = walk.view.rules.results_first
    given: list[ToolResult] = []
    misplaced: list[ToolResult] = []
    for at in answers:
        leading = at == (run[-1] + 1 if walk.view.rules.results_apart and run else answers[0])
        for part in messages[at].parts:
            if not isinstance(part, ToolResult):
                leading = leading and (is_blank(part) or not first)
                continue
            if part.server:
                if part.call_id not in walk.calls:
                    drop(walk, part, "result without its call, in a form of its own [A201]")
                continue
            fate = _fate(walk, part, run, waiting, given)
            leading = leading and (fate is not _Fate.TEXT or not first)
            if fate is _Fate.ANSWER:
                given.append(part)
                if not leading:
                    misplaced.append(part)
    if walk.config.order and walk.view.rules.adjacent:
        placed = [result for result in given if not any(result is other for other in misplaced)]
        _lead(walk, run, answers, misplaced, placed)
    if walk.config.missing:
        _fill(
            walk,
            run,
            answers,
            [call for call_id, call in waiting.items() if _is_lost(walk, call_id, [*run, *answers])],
            given,
        )


def _is_lost(walk: Walk, call_id: str, turn: list[int]) -> bool:
    """Whether no result of a call of this turn came; where pairs need not be neighbours, or is to come [A201]."""
    if call_id in walk.answered or not turn:
        return call_id not in walk.answered
    wire = next((old for old, new in walk.renamed.items() if new == call_id), call_id)
    return walk.view.rules.adjacent or walk.coming.get(wire, -1) <= turn[-1]


class _Fate(Enum):
    """What becomes of a result: it answers a waiting call, is kept as text, or is none of this turn's."""

    ANSWER = "answer"
    TEXT = "text"
    NEITHER = "neither"


def _fate(
    walk: Walk, part: ToolResult, run: list[int], waiting: dict[str, ToolCall], given: list[ToolResult]
) -> _Fate:
    """A result answers a waiting call once; what else comes for it leaves if it is the same, or becomes text."""
    call_id = walk.renamed.get(part.call_id, part.call_id)
    asked = call_id in waiting or (not walk.view.rules.adjacent and call_id in walk.calls)
    if asked and call_id not in walk.answered:
        if call_id != part.call_id and walk.view.region(part) is not None:
            renamed = structs.replace(part, call_id=call_id)
            walk.edits.append(
                Replace(
                    stage=NAME,
                    reason="id of its renamed call [A23 F13]",
                    target=target_of(part),
                    part=renamed,
                    required=True,
                )
            )
        walk.answered.add(call_id)
        return _Fate.ANSWER
    if walk.view.region(part) is None or not walk.config.orphans:
        return _Fate.NEITHER
    if any(_again(part, other) for other in _before(walk, part, given)):
        drop(walk, part, "a second, equal result [A23 F20]")
        return _Fate.NEITHER
    _to_text(walk, part)
    if walk.view.rules.results_apart and walk.view.rules.adjacent and run:
        _out_of_results(walk, part, given[-1] if given else standing(walk, run)[-1])
    return _Fate.TEXT


def _out_of_results(walk: Walk, part: ToolResult, behind: Part) -> None:
    walk.edits.append(
        Move(
            stage=NAME,
            reason="text is the user's, not a tool's [A101]",
            target=target_of(part),
            to=target_of(behind),
            role=Role.USER,
            required=True,
        )
    )


def _before(walk: Walk, part: ToolResult, given: list[ToolResult]) -> list[ToolResult]:
    """The results that this one may be once more: of its turn, or as the client has them the first of its call."""
    if walk.view.rules.adjacent or any(other.call_id == part.call_id for other in given):
        return given
    client = (result for message in walk.view.client.messages for result, _ in message.tally.results)
    first = next((result for result in client if result.call_id == part.call_id), None)
    return given if first is None or target_of(first) == target_of(part) else [*given, first]


def _again(part: ToolResult, first: ToolResult) -> bool:
    """Whether a result is one of this turn once more. Where ids are optional its name and content say so [A303]."""
    same = part.call_id == first.call_id or (bool(part.name) and part.name == first.name)
    return same and content_says(first.content) == content_says(part.content)


def _to_text(walk: Walk, part: ToolResult) -> None:
    call = walk.calls.get(part.call_id)
    label = LATE.format(name=call.name, call_id=part.call_id) if call else ORPHAN.format(call_id=part.call_id)
    text = text_inside(part)
    said = f"{label}\n{text}" if text else label
    walk.edits.append(
        Replace(
            stage=NAME,
            reason="result without a call, kept as text [A22 F20]",
            target=target_of(part),
            part=Reminder(text=said, source=Source.TOOL_RESULT, name="late result", size=len(said)),
            required=True,
            tokens_before=weight(part),
            tokens_after=len(said) // 4,
        )
    )
    walk.edits += [
        InsertAfter(
            stage=NAME,
            reason="media of a result kept as text",
            target=target_of(part),
            part=image,
            required=True,
            tokens_after=weight(image),
        )
        for image in images(split(part)[1])
    ]


def _lead(
    walk: Walk,
    run: list[int],
    answers: list[int],
    misplaced: list[ToolResult],
    placed: list[ToolResult],
) -> None:
    """Results open the first message behind their calls [A20 A21]; those that do not go there, in their order."""
    messages, rules = walk.view.conversation.messages, walk.view.rules
    for result in misplaced:
        if walk.view.region(result) is None:
            continue
        role = None
        if placed:
            goal: Part = placed[-1]
            before = False
        elif rules.results_apart:
            goal, before, role = standing(walk, run)[-1], False, rules.result_role
        else:
            goal, before = messages[answers[0]].parts[0], True
        walk.edits.append(
            Move(
                stage=NAME,
                reason="results first [A21 F1]",
                target=target_of(result),
                to=target_of(goal),
                before=before,
                role=role,
                required=True,
            )
        )
        if before or role is not None:
            placed = [result]


def _fill(
    walk: Walk, run: list[int], answers: list[int], lost: list[ToolCall], given: list[ToolResult]
) -> None:
    """Placeholders for results that never came, promised under the end of the turn that lacks them."""
    if not lost or not run:
        return
    messages = walk.view.conversation.messages
    last = standing(walk, run)[-1]
    ours = _fills(walk.view.rules, lost, given, messages, last, answers)
    client = walk.view.client.messages
    place = messages[run[-1]].index
    # The turn behind the calls as the client has it: what we put there may have no place in it.
    if place + 1 < len(client) and client[place + 1].role is not Role.ASSISTANT:
        place += 1
    walk.promises.append(lasting(walk, place, NAME, tuple(ours)))
    walk.answered.update(call.id for call in lost)


def _fills(
    rules: Rules,
    lost: list[ToolCall],
    given: list[ToolResult],
    messages: Sequence[Message],
    last: Part,
    answers: list[int],
) -> Iterator[Edit]:
    for call in lost:
        part = ToolResult(
            call_id=call.id,
            content=encoded(MISSING),
            is_error=True,
            size=len(MISSING),
            name=call.name,
            kind=call.kind,
        )
        common = {
            "stage": NAME,
            "reason": "call without a result [A20 F1]",
            "part": part,
            "required": True,
            "tokens_after": len(MISSING) // 4,
        }
        if given:
            yield InsertAfter(target=target_of(given[-1]), **common)  # type: ignore[arg-type]
        elif answers and not rules.results_apart:
            yield InsertBefore(target=target_of(messages[answers[0]].parts[0]), **common)  # type: ignore[arg-type]
        else:
            yield InsertAfter(target=target_of(last), role=rules.result_role, **common)  # type: ignore[arg-type]
