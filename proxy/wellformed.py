"""Is a history one that the provider takes? The check at the end of every rewrite.

Small and independent of the stages: it names faults, it mends nothing. A rewrite that adds a fault which the
client's own body did not have is never sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .conversation import Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from .identity import is_user_side
from .models import ModelFacts
from .rules import Rules


def faults(messages: Sequence[Message], rules: Rules, model: ModelFacts, since: int = 0) -> frozenset[str]:
    """Names of what is wrong with the written messages from place `since` on."""
    written = [message for message in messages[since:] if message.written]
    return frozenset(
        (
            *_pairing(written, rules, whole=since == 0),
            *_ends(written, rules, model, whole=since == 0),
            *_order(written, rules, model),
            *_blocks(written, rules, model),
        )
    )


def _says(message: Message) -> list[Part]:
    return [
        part for part in message.parts if not (isinstance(part, Text) and not part.text and part.raw is None)
    ]


def _pairing(messages: Sequence[Message], rules: Rules, *, whole: bool) -> Iterator[str]:
    if not rules.adjacent:
        yield from _anywhere(messages, whole=whole)
        yield from ("reasoning that leads to nothing" for _ in _bereft(messages) if rules.reasoning_bound)
        return
    waiting: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        if is_user_side(message.role):
            yield from _answers(message, waiting if place or whole else None, rules)
            waiting = []
            continue
        if waiting:
            yield "call without a result"
        if rules.calls_follow_user and message.tally.calls and _is_behind_model(messages, place, whole=whole):
            yield "call not behind the user"
        waiting = [part.id for part in message.parts if isinstance(part, ToolCall) and not part.server]
        if len(set(waiting)) < len(waiting) or (rules.unique_ids and seen.intersection(waiting)):
            yield "call id twice"
        seen.update(waiting)
        if rules.calls_last and waiting and _text_behind_call(message.parts):
            yield "text behind a call"
    if waiting:
        yield "call without a result"


def _is_behind_model(messages: Sequence[Message], place: int, *, whole: bool) -> bool:
    """Whether the message opens the history, or stands behind one of the model's [A302]."""
    return messages[place - 1].role is Role.ASSISTANT if place else whole


def _anywhere(messages: Sequence[Message], *, whole: bool) -> Iterator[str]:
    """Faults of pairs that need not be neighbours [A201]. Not `whole`: calls may stand before the first message."""
    made: set[str] = set()
    answered: set[str] = set()
    for part in (part for message in messages for part in message.parts):
        match part:
            case ToolCall(id=call_id, server=False):
                if call_id in made:
                    yield "call id twice"
                made.add(call_id)
            case ToolResult(call_id=call_id, server=False):
                if call_id not in made and whole:
                    yield "result without a call"
                if call_id in answered:
                    yield "two results for a call"
                answered.add(call_id)
            case _:
                pass
    if made - answered:
        yield "call without a result"


def _bereft(messages: Sequence[Message]) -> Iterator[Part]:
    """Reasoning at the end of the model's turn [A202]."""
    for place, message in enumerate(messages):
        last = message.parts[-1] if message.parts else None
        if isinstance(last, Reasoning) and (
            place + 1 == len(messages) or messages[place + 1].role is not Role.ASSISTANT
        ):
            yield last


def _answers(message: Message, waiting: list[str] | None, rules: Rules) -> Iterator[str]:
    """Faults of a user's message behind calls; None where the message before it is not looked at."""
    results = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
    if waiting is not None and set(results) - set(waiting):
        yield "result without a call"
    if len(set(results)) < len(results):
        yield "two results for a call"
    if waiting is not None and set(waiting) - set(results):
        yield "call without a result"
    if rules.results_first and _result_behind_text(message.parts):
        yield "result not first"


def _text_behind_call(parts: Sequence[Part]) -> bool:
    first = next(at for at, part in enumerate(parts) if isinstance(part, ToolCall) and not part.server)
    behind = (part for part in parts[first:] if not isinstance(part, Text) or part.text.strip())
    return any(isinstance(part, Text | Reasoning) for part in behind)


def _result_behind_text(parts: Sequence[Part]) -> bool:
    other = False
    for part in parts:
        if not isinstance(part, ToolResult):
            other = True
        elif other:
            return True
    return False


def _ends(messages: Sequence[Message], rules: Rules, model: ModelFacts, *, whole: bool) -> Iterator[str]:
    if not messages:
        yield "no message"
        return
    if whole and (rules.opens_with_user or model.opens_with_user) and messages[0].role is Role.ASSISTANT:
        yield "opens with the assistant"
    if messages[-1].role is Role.ASSISTANT and not model.prefill:
        yield "ends with the assistant"


def _order(messages: Sequence[Message], rules: Rules, model: ModelFacts) -> Iterator[str]:
    """Who speaks after whom, where the upstream's template looks at it [A420 A430 A521]."""
    for before, message in pairwise(messages):
        if (
            model.merge_same_role
            and before.role is message.role
            and message.role in (Role.USER, Role.ASSISTANT)
        ):
            yield "two turns of one speaker"
        apart = rules.results_apart and not model.user_after_results
        if apart and before.role is Role.TOOL and message.role is Role.USER:
            yield "user behind results"
    if rules.system_follows_user:
        yield from ("system message out of place" for _ in _misplaced(messages))


def _misplaced(messages: Sequence[Message]) -> Iterator[Message]:
    """System messages behind the model's turn, or in front of the user's; several in a row count as one [A60]."""
    before: Message | None = None
    for place, message in enumerate(messages):
        if message.role is not Role.SYSTEM:
            before = message
            continue
        after = messages[place + 1] if place + 1 < len(messages) else None
        behind_model = before is not None and before.role is Role.ASSISTANT
        served = before is not None and before.parts and isinstance(before.parts[-1], ToolResult)
        if (behind_model and not served) or (after is not None and is_user_side(after.role)):
            yield message


def _blocks(messages: Sequence[Message], rules: Rules, model: ModelFacts) -> Iterator[str]:
    for message in messages:
        if message.role in (Role.USER, Role.ASSISTANT) and not _says(message):
            yield "empty message"
        for part in message.parts:
            match part:
                case Text(text=text) if (rules.refuses(text) or not (model.blank_text or text.strip())) and (
                    part.raw is not None or part.base is not None
                ):
                    yield "blank text"
                case ToolCall(id=name, server=False) | ToolResult(call_id=name, server=False):
                    if not re.fullmatch(model.tool_id_pattern, name) or len(name) > (
                        model.chat_tool_id_max if rules.short_ids else rules.call_id_max
                    ):
                        yield "id refused"
                case _:
                    pass
