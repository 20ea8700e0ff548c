"""Signatures on calls: what a call goes with that the model did not make itself [A304 A306].

Models that sign their calls want the first call of each step of the current turn signed. One that another model
made, or whose signature a client lost, goes with the documented stand-in; every other call is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from ..conversation import Message, Role, ToolCall, ToolResult
from ..edits import Replace, target_of
from ..identity import is_user_side
from .view import View, weight

NAME = "reasoning"
"""The stage in whose name they are set."""


def stand_ins(view: View) -> Iterator[Replace]:
    """The first call of each step of the current turn, where it is not signed and was not sent before."""
    if not view.rules.stand_in or not view.facts.model.signed_calls:
        return
    messages = view.conversation.messages
    begins = True
    for message in messages[_turn(messages) :]:
        if not message.written:
            continue
        if message.role is not Role.ASSISTANT:
            begins = True
            continue
        first = next((part for part in message.parts if isinstance(part, ToolCall)), None)
        if begins and first is not None:
            begins = False
            if not first.signature and view.region(first) is not None:
                yield _signed(first, view.rules.stand_in)


def _turn(messages: tuple[Message, ...]) -> int:
    """Where the current turn begins: the last message in which the user says something."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if is_user_side(message.role) and any(not isinstance(part, ToolResult) for part in message.parts):
            return at
    return 0


def _signed(call: ToolCall, stand_in: str) -> Replace:
    return Replace(
        stage=NAME,
        reason="a call the model did not sign [A304 F4]",
        target=target_of(call),
        part=structs.replace(call, signature=stand_in),
        tokens_before=weight(call),
        tokens_after=weight(call) + len(stand_in) // 4,
        required=True,
    )
