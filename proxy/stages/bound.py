"""Reasoning that led to nothing: where it and what it led to come together or not at all, it goes as well [A202 F16].

So it is where the model was cut off behind it, and where what stood behind it leaves as a copy. The end of the turn
decides, and it is promised under that. And reasoning that is an id alone where the client has nothing kept, for
then the id finds nothing; what stands behind it goes on without its own [A204].

Where the client loses reasoning that the provider has stored, and keeps what it led to, that goes on without its id. It
is known by its answer, seen in passing, or by an earlier request in which both stood; and of a conversation first met
in its middle, where the model is told to reason and nothing of it is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..branch import Promise
from ..conversation import Message, Reasoning, Text, ToolCall
from ..edits import Edit, Remove, Unname, target_of
from .view import View, weight
from .walk import NAME, Walk, drop, lasting, left


def remove_unkept(walk: Walk, run: Sequence[int]) -> None:
    """Remove the reasoning of the model's turn, a run of messages, that nobody has, if it was not sent before."""
    if not walk.view.conversation.unstored:
        return
    for at in run:
        for part in left(walk, walk.view.conversation.messages[at]):
            if isinstance(part, Reasoning) and part.named:
                drop(walk, part, "reasoning that is not kept [A204]")


def free_bereft(walk: Walk, run: Sequence[int]) -> None:
    """Promise that what came behind stored reasoning leaves without its id wherever that reasoning is gone."""
    view = walk.view
    if view.conversation.unstored:
        return
    branch = view.place.branch
    lost = _ANY if branch is None and _lost_all(view) else ""
    given = {one.name: one.value for one in branch.signed if one.kind == "led"} if branch is not None else {}
    before: Message | None = None
    for at in run:
        message = view.conversation.messages[at]
        led = given.get(message.name) or (_thought(before) if before is not None else "") or lost
        first = message.parts[0] if message.parts else None
        if led and first is not None and _goes_unnamed(message) and view.region(first) is not None:
            edit = Unname(
                stage=NAME,
                reason="its reasoning is gone [A202 F16]",
                target=target_of(first),
                required=True,
                led=(message.name, led),
            )
            walk.promises.append(Promise(anchor=first.key, nth=first.nth, stage=f"{NAME}.led", edits=(edit,)))
        before = message


_ANY = "?"
"""In place of the id of reasoning: no item has it, so what it led goes without its own wherever it stands."""


def _lost_all(view: View) -> bool:
    """Whether a client must have lost all that the model reasoned."""
    return view.conversation.thinking not in ("", "none") and not any(
        isinstance(part, Reasoning) for message in view.client.messages for part in message.parts
    )


def _thought(message: Message) -> str:
    """The id of reasoning that a provider may have stored; "" for all else."""
    leaves = not (message.misnamed or message.nameless)
    return message.name if leaves and any(isinstance(part, Reasoning) for part in message.parts) else ""


def _goes_unnamed(message: Message) -> bool:
    """Whether it is one that needs no id: words of the model, or a call that the client answers [A207]."""
    return bool(message.name) and all(
        isinstance(part, Text) or (isinstance(part, ToolCall) and not part.server) for part in message.parts
    )


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
