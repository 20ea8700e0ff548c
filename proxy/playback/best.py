"""The row of the best schedule: what `default` sends, but with old results left out in the best turns there were.

The schedule is found in the model of `hindsight`; what it costs is the provider's own count of the requests that it
makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..conversation import Part, Reasoning, ToolCall, ToolResult
from ..dialects import DIALECTS
from ..edits import Edit, Remove, Replace, apply, target_of
from ..hindsight import Course, Schedule, hindsight, reclaimed
from ..rawjson import encoded
from ..simulator import Exchange
from ..stages import stale
from .course import Charged, Reader, Row, calls_of, charged, courses
from .figures import Line, added, dollars, left_out, rounded
from .path import BASE, Played
from .providers import Binding, Providers


def in_hindsight(base: Played, binding: Binding) -> Line:
    """The row; figures of its own where the schedule clears anything, else those of `base`."""
    requests = charged(base.sent)
    changed: dict[int, bytes] = {}
    batches, less = 0, sum(map(left_out, base.sent))
    for course, row in courses(requests):
        schedule = hindsight(course)
        batches += len(schedule)
        less += reclaimed(course, schedule)
        changed |= _bodies(row, course, schedule)
    exchanges = [(one, one.exchange) for one in requests]
    if changed:
        providers = Providers(binding)
        exchanges = [
            (one, providers.answer(one.request, changed.get(one.request.number, one.body)).exchange)
            for one in requests
        ]
    return _line(exchanges, batches, less)


def _line(exchanges: Sequence[tuple[Charged, Exchange]], batches: int, less: int) -> Line:
    taken = [(one, exchange) for one, exchange in exchanges if exchange.status == 200]
    prompt = sum(exchange.usage.total for _, exchange in taken)
    return Line(
        path=BASE,
        requests=len(taken),
        refused=len(exchanges) - len(taken),
        prompt=prompt,
        cached=round(sum(exchange.read for _, exchange in taken) / prompt, 4) if prompt else 0.0,
        cost=round(sum(exchange.cost for _, exchange in taken), 1),
        dollars=rounded(added(dollars(exchange, one.request.facts) for one, exchange in taken), 6),
        batches=batches,
        left_out=less,
    )


def _bodies(row: Row, course: Course, schedule: Schedule) -> dict[int, bytes]:
    """The bodies that a schedule changes, by the number of the request."""
    if not schedule:
        return {}
    reader, calls = Reader(), calls_of(row)
    gone: set[int] = set()
    made: dict[int, bytes] = {}
    for turn, one in enumerate(row.requests):
        if turn in schedule:
            gone |= {
                at
                for at, item in enumerate(course.items)
                if at >= schedule[turn] and item.saves and max(item.stale, item.arrives) <= turn
            }
        if gone:
            made[one.request.number] = _without(reader, one, gone, calls)
    return made


def _without(reader: Reader, one: Charged, gone: set[int], calls: Mapping[str, ToolCall]) -> bytes:
    """A body without the parts at these places of its prompt."""
    dialect = DIALECTS[one.request.incoming.dialect]
    conversation = reader.read(one)
    turns = [part for message in conversation.messages for part in message.parts]
    parts = [*conversation.tools, *conversation.system, *turns]
    edits = [edit for at in sorted(gone) if (edit := _edit(parts[at], calls)) is not None]
    changed, _ = apply(conversation, edits)
    return dialect.write(changed)


def _edit(part: Part, calls: Mapping[str, ToolCall]) -> Edit | None:
    match part:
        case ToolResult(call_id=call_id):
            content = encoded(stale.placeholder(calls[call_id], part))
            left = ToolResult(call_id=call_id, content=content, size=len(content))
            return Replace(stage=BASE, reason="", target=target_of(part), part=left)
        case Reasoning():
            return Remove(stage=BASE, reason="", target=target_of(part))
        case _:
            return None
