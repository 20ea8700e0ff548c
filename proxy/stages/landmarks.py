"""Places in a prompt that the next request will share: where a mark is worth its slot.

All of them are found from what is recorded about the last request and from the shape of the turns; none
depends on what the client marks.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..agents import Field
from ..conversation import Part, Role, text_of
from ..edits import Target
from .marks import Spot, Zone, carries, is_cleared, last_carrier, refuses
from .view import View

SURELY_SHORT = 0.6
"""A prompt estimated below this share of the model's minimum is not cached, however wrong the estimate [B13]."""

BYTES_PER_TOKEN = 4

CHANGING = ("nonce", "clock", "counter")
"""Kinds of volatile fields that differ in every request; a date stands long enough to be read."""


def pays(view: View) -> bool:
    """Whether anything this request writes will be read: not a side call, not below the minimum [B13].

    A side call is a first request without tools: a title, a summary, a count.
    """
    conversation = view.conversation
    if not conversation.tools and conversation.last(Role.ASSISTANT) < 0:
        return False
    size = _size(conversation.tools) + _size(conversation.system)
    for message in conversation.messages:
        if _is_long(view, size):
            return True
        size += _size(message.parts)
    return _is_long(view, size)


def _size(parts: tuple[Part, ...]) -> int:
    return sum(part.size for part in parts)


def _is_long(view: View, size: int) -> bool:
    return size / BYTES_PER_TOKEN * view.facts.scale >= view.facts.model.minimum * SURELY_SHORT


def recorded_tail(view: View) -> Spot | None:
    """Where the last request of this branch had its last mark, if that part still stands behind what was sent."""
    if view.batch is not None:
        return None
    branch = view.place.branch
    frontier = branch.frontier(view.facts.upstream, view.conversation.model) if branch is not None else None
    found = _find(view, frontier.tail) if frontier is not None and frontier.tail is not None else None
    if found is None or refuses(found.part) or is_cleared(view.conversation.messages[found.at]):
        return None
    return found


def _find(view: View, target: Target) -> Spot | None:
    messages, key = view.conversation.messages, target.key
    for at in range(len(messages) - 1, -1, -1):
        for nth, part in enumerate(messages[at].parts):
            if part.key == key and part.nth == target.nth:
                return Spot(Zone.TURNS, at, nth, part)
    return None


def previous_tail(view: View, recorded: Spot | None) -> Spot | None:
    """Where the last request ended: by what is recorded, else before the newest answer."""
    if recorded is not None:
        return recorded
    answer = view.conversation.last(Role.ASSISTANT)
    return last_carrier(view.conversation.messages, answer, answers=False) if answer >= 0 else None


def before_current(view: View, recorded: Spot | None) -> Spot | None:
    """The previous tail; where the client changed its history, the end of what it left as it was sent.

    A client that puts new turns before a block it always sends last never sends an old tail again, but it
    does send again what stands before its changes. Where a batch of this request changes an old part, what can
    be read is the end of an earlier request, the last one before that part [B5 B6].
    """
    changed = _find(view, view.batch[0]) if view.batch is not None else None
    if changed is not None:
        return last_carrier(view.conversation.messages, changed.at, answers=False)
    if recorded is None and view.place.broke:
        first = next(((at, part) for at, part, _ in view.fresh()), None)
        kept = _last_sent(view, *first) if first is not None else None
        if kept is not None:
            return kept
    return previous_tail(view, recorded)


def end_of_batch(view: View) -> Spot | None:
    """The end of the last message that a batch of this request changes: what the next batch will leave as it is.

    The next one begins with the results behind it. What stands before them can be read then, if it is written now.
    """
    changed = _find(view, view.batch[1]) if view.batch is not None else None
    return last_carrier(view.conversation.messages, changed.at + 1) if changed is not None else None


def _last_sent(view: View, at: int, first: Part) -> Spot | None:
    """The last part before `first`, the first one that was not sent before, where a mark may stand."""
    message = view.conversation.messages[at]
    if message.role is not Role.META and not is_cleared(message):
        for nth in range(message.parts.index(first) - 1, -1, -1):
            if carries(message.parts[nth]):
                return Spot(Zone.TURNS, at, nth, message.parts[nth])
    return last_carrier(view.conversation.messages, at)


def lagging(view: View, recorded: Spot | None, marked: Iterable[Spot], most: int) -> Spot | None:
    """The last part, at most `most` behind the previous tail, from which the lookback still finds it [B6].

    None where a marked part finds it anyway, or nothing is known of a request before.
    """
    start = previous_tail(view, recorded)
    if start is None:
        return None
    messages, reach = view.conversation.messages, view.facts.model.lookback - 1
    taken = {spot.order for spot in marked}
    found, steps = None, 0
    for at in range(start.at, len(messages)):
        for nth in range(start.nth if at == start.at else 0, len(messages[at].parts)):
            part = messages[at].parts[nth]
            if steps > reach:
                return found
            if (Zone.TURNS, at, nth) in taken:
                return None
            if steps <= most and carries(part) and not is_cleared(messages[at]):
                found = Spot(Zone.TURNS, at, nth, part)
            steps += 1
    return found


def system_end(view: View) -> Spot | None:
    """The last system part that can carry a mark, before anything that changes with every request.

    The attribution block of a client stays unmarked [D14]. Fields that another stage keeps still do not change.
    """
    agent, size, end = view.facts.agent, _size(view.conversation.tools), None
    still = {field.rule.name for field in view.fields}
    changing = [f.pattern for f in agent.fields if _changes(f) and f.rule.name not in still]
    for nth, part in enumerate(view.conversation.system):
        size += part.size
        text = text_of(part) or ""
        if agent.attribution is not None and agent.attribution.match(text):
            continue
        if any(pattern.search(text) for pattern in changing):
            break
        if carries(part) and _is_long(view, size):
            end = Spot(Zone.SYSTEM, 0, nth, part)
    return end


def _changes(field: Field) -> bool:
    return field.rule.kind in CHANGING and "system" in field.rule.where


def tools_end(view: View) -> Spot | None:
    """The last tool on offer that is not deferred [A29]."""
    tools = view.conversation.tools
    offered = [Spot(Zone.TOOLS, 0, nth, part) for nth, part in enumerate(tools) if carries(part)]
    return offered[-1] if offered and _is_long(view, _size(tools)) else None
