"""Thinking of the model is kept as it came; what an upstream cannot read of it does not go there.

A block without a signature fails where signatures are checked, and takes the request with it; so does all that
stands behind it in the same run of thinking [A43]. Everything else stays where it is for ever, in every stretch of
the history: removing thinking later restarts the cache and, on models that check the prefix, may break what
stands behind it [A42 A45 B23]. What a retroactive batch has to take along leaves with that batch (see `batch`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from ..conversation import Message, Reasoning
from ..edits import Edit, Remove, target_of
from .view import Proposal, View, causal, weight

NAME = "reasoning"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`mode: keep` sends thinking back as it came: a decision for the whole conversation, never for its middle."""

    mode: Literal["keep"] = "keep"


def propose(view: View, config: Config) -> Proposal:  # noqa: ARG001  one mode: the policy says it aloud
    """Remove unsigned thinking not sent before, in whatever region: with it the request is refused."""
    if view.facts.model.reasoning != "signed":
        return Proposal()
    edits: list[Edit] = [
        Remove(
            stage=NAME,
            reason="thinking without a signature",
            target=target_of(part),
            tokens_before=weight(part),
            required=True,
        )
        for message in view.conversation.messages[view.start :]
        for part in _unreadable(message)
        if view.region(part) is not None
    ]
    return causal(NAME, edits)


def _unreadable(message: Message) -> Iterator[Reasoning]:
    """In each run of thinking, the first block without a signature and all behind it."""
    broken = False
    for part in message.parts:
        if not isinstance(part, Reasoning):
            broken = False
            continue
        broken = broken or not part.signature
        if broken:
            yield part
