"""Retroactive batches: what several stages need to change what the provider has already seen.

A batch is *one* promise, anchored at the last thing the model said: every later history that holds it gets the
same edits, and a rewind to before it is not bound by them. On a model with preserved thinking [A45] a batch takes
along all signed thinking behind its first edit, for that thinking is bound to what is being changed. Leaving it out
is legal, a gap in the middle is not; what the model thinks later is bound to the history without it [A45 A47].
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct, structs

from ..branch import Break, Frontier, Promise
from ..conversation import Conversation, Key, Message, Part, Reasoning, Role, Text, ToolResult
from ..economics import BYTES_PER_TOKEN, Terms, terms, weight
from ..edits import Edit, Remove, Target, target_of
from ..identity import setting
from .view import Region, View

REASONING = "reasoning"
"""The stage in whose name thinking leaves."""


class Obstacle(Struct, frozen=True):
    """Why a batch that would pay is not made in this request."""

    reason: str


def frontier(view: View) -> Frontier | None:
    """Where the upstream and model of this request last saw the conversation, with tools and system as they are now."""
    branch = view.place.branch
    if branch is None:
        return None
    return branch.frontier(view.facts.upstream, view.conversation.model, setting(view.conversation))


def terms_of(view: View) -> Terms:
    """What a break costs in this request. What stands behind the client's own break is cached no more.

    Of a conversation met in mid-life nobody knows when it was last sent: all that may be cached is taken to be.
    """
    found = terms(frontier(view), view.facts.model, view.facts.now, view.facts.scale)
    if view.place.branch is None:
        return structs.replace(found, cached=_adopted(view) * found.scale)
    if not view.place.broke or not found.cached:
        return found
    kept = tokens_before(view, view.place.common) * found.scale
    return Terms(cached=min(found.cached, kept), read=found.read, write=found.write, scale=found.scale)


def _adopted(view: View) -> float:
    """Estimated tokens that the provider may hold of a conversation we did not send: all before its last answer.

    Where only marked prefixes are cached, nothing of the turns is if the client marks nothing there.
    """
    answer = view.client.last(Role.ASSISTANT)
    if answer < 0 or view.facts.model.regime == "none":
        return 0.0
    marked = view.client.automatic_mark is not None or any(
        part.mark is not None for message in view.client.messages for part in message.parts
    )
    if view.facts.model.regime == "breakpoints" and not marked:
        return 0.0
    keyed = sum(not part.nth for message in view.client.messages[:answer] for part in message.parts)
    held = tokens_before(view, keyed)
    return held if held * view.facts.scale >= view.facts.model.minimum else 0.0


def tokens_before(view: View, keyed: int) -> float:
    """Estimated tokens in front of the keyed part with this number, counted over the client's own parts."""
    model, conversation = view.facts.model, view.conversation
    spent = sum(weight(part, model) for part in (*conversation.tools, *conversation.system))
    for message in conversation.messages:
        for part in message.parts:
            if not part.nth and theirs(part):
                if not keyed:
                    return spent / BYTES_PER_TOKEN
                keyed -= 1
            spent += weight(part, model)
    return spent / BYTES_PER_TOKEN


def theirs(part: Part) -> bool:
    """Whether the client sent the part, changed since or not."""
    return part.raw is not None or part.base is not None


def anchor(conversation: Conversation) -> Key | None:
    """Key of the last part in which the model says something; None before its first answer."""
    for message in reversed(conversation.messages):
        if message.role is Role.ASSISTANT:
            for part in reversed(message.parts):
                if not part.nth and theirs(part):
                    return part.key
    return None


def tail(conversation: Conversation) -> tuple[Message, ...]:
    """The messages behind the model's last one: what this request asks."""
    return conversation.messages[conversation.last(Role.ASSISTANT) + 1 :]


def thinking_behind(conversation: Conversation, targets: Collection[Target]) -> list[Reasoning]:
    """All signed thinking behind the first of `targets`, in prompt order."""
    found: list[Reasoning] = []
    behind = False
    for message in conversation.messages:
        for part in message.parts:
            if not behind:
                behind = target_of(part) in targets
            elif isinstance(part, Reasoning) and part.signature:
                found.append(part)
    return found


def batch(
    view: View,
    stage: str,
    edits: Sequence[Edit],
    broke: Break,
    *,
    forced: bool = False,
    keep_thinking: bool = False,
) -> Promise | Obstacle:
    """The promise that commits `edits` (not none, each `committed`) with this request, or why not now. `broke`: what
    it costs.

    Where thinking must go, the batch waits for a message of a person, unless the window forces it: in the middle
    of a task the model would plan all over again [A47]. With manual thinking the open round must begin with
    the thinking it began with [A41], whatever the window says. `keep_thinking`: a batch that would cost
    thinking is never made.
    """
    anchored = anchor(view.conversation)
    if anchored is None:
        return Obstacle("the model has not answered yet")
    branch = view.place.branch
    if branch is not None and any(promise.stage == stage for promise in branch.promises.get(anchored, ())):
        return Obstacle("a batch was made at this turn already")
    thinking: list[Reasoning] = []
    if view.facts.model.prefix_check:
        thinking = thinking_behind(view.conversation, {edit.target for edit in edits})
    if thinking:
        obstacle = _obstacle(view, forced=forced, keep_thinking=keep_thinking)
        if obstacle is not None:
            return obstacle
    return Promise(anchor=anchored, stage=stage, edits=(*edits, *map(_removal, thinking)), broke=broke)


def _obstacle(view: View, *, forced: bool, keep_thinking: bool) -> Obstacle | None:
    asked = tail(view.conversation)
    if keep_thinking:
        return Obstacle("signed thinking stands behind it, which the policy keeps")
    if view.conversation.thinking == "enabled" and any(
        isinstance(part, ToolResult) for message in asked for part in message.parts
    ):
        return Obstacle("signed thinking stands behind it, and the open tool round must keep its own")
    if not forced and not any(speaks(view, message) for message in asked):
        return Obstacle("signed thinking stands behind it: waits for a message of a person")
    return None


def speaks(view: View, message: Message) -> bool:
    """Whether a person says something new in this message; what a harness puts in is a `Reminder`."""
    return message.role is Role.USER and any(
        isinstance(part, Text) and part.text.strip() != "" and view.region(part) is Region.NEW
        for part in message.parts
    )


def _removal(part: Reasoning) -> Remove:
    return Remove(
        stage=REASONING,
        reason="bound to a prefix that a batch changes",
        target=target_of(part),
        tokens_before=part.size // BYTES_PER_TOKEN,
        committed=True,
    )
