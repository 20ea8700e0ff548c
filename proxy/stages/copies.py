"""Messages that stand in a history twice, told by their names: where names are given they must be unique [A207 F18].

A copy leaves as a whole. Two messages of one name that say different things are left alone: which of them is meant is
not ours to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..conversation import Message, Part, Reasoning
from ..identity import plainly, says
from .walk import Walk, drop


def note_names(walk: Walk, messages: Iterable[Message]) -> None:
    """Remember who has which name."""
    for message in messages:
        if message.name and message.written:
            walk.named.setdefault(message.name, message)


def without_copies(walk: Walk, places: Sequence[int]) -> list[int]:
    """The places of messages that are no copies; copies not sent before are dropped."""
    messages = walk.view.conversation.messages
    kept: list[int] = []
    for at in places:
        message = messages[at]
        first = walk.named.get(message.name) if message.name else None
        fresh = all(walk.view.region(part) is not None for part in message.parts)
        if first is not None and fresh and _says_the_same(message, first):
            for part in message.parts:
                drop(walk, part, "the same item again [A207 F18]")
            continue
        note_names(walk, (message,))
        kept.append(at)
    return kept


def _says_the_same(message: Message, other: Message) -> bool:
    return (
        message.role is other.role
        and len(message.parts) == len(other.parts)
        and all(map(alike, message.parts, other.parts))
    )


def alike(one: Part, other: Part) -> bool:
    """Whether two parts say the same; thinking is what it is, byte for byte."""
    if isinstance(one, Reasoning) or isinstance(other, Reasoning):
        return one.raw is not None and one.raw == other.raw
    return type(one) is type(other) and says(one, plainly) == says(other, plainly)
