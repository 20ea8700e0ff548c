"""Reasoning that led to nothing: where it and what it led to come together or not at all, it goes as well [A202 F16].

So it is where the model was cut off behind it, and where what stood behind it leaves as a copy. The end of the turn
decides, and it is promised under that. And reasoning that is an id alone where the client has nothing kept, for
then the id finds nothing; what stands behind it goes on without its own [A204].
"""

from __future__ import annotations

from collections.abc import Sequence

from ..conversation import Reasoning
from ..edits import Edit, Remove, target_of
from .view import weight
from .walk import NAME, Walk, drop, lasting, left


def remove_unkept(walk: Walk, run: Sequence[int]) -> None:
    """Remove the reasoning of the model's turn, a run of messages, that nobody has, if it was not sent before."""
    if not walk.view.conversation.unstored:
        return
    for at in run:
        for part in left(walk, walk.view.conversation.messages[at]):
            if isinstance(part, Reasoning) and part.named:
                drop(walk, part, "reasoning that is not kept [A204]")


def remove_bereft(walk: Walk, run: Sequence[int]) -> None:
    """Remove the reasoning at the end of the model's turn, a run of messages, if it was not sent before."""
    messages = walk.view.conversation.messages
    edits: list[Edit] = []
    for at in reversed(run):
        parts = left(walk, messages[at])
        if any(not isinstance(part, Reasoning) or walk.view.region(part) is None for part in parts):
            break
        for part in parts:
            walk.gone.add(target_of(part))
            edits.append(
                Remove(
                    stage=NAME,
                    reason="reasoning that led to nothing [A202 F16]",
                    target=target_of(part),
                    required=True,
                    tokens_before=weight(part),
                )
            )
    if edits:
        walk.promises.append(lasting(walk, messages[run[-1]].index, f"{NAME}.bereft", tuple(edits)))
