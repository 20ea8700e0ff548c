"""Thinking of the model is kept as it came, or as the policy has it; what an upstream cannot read does not go there.

A block without a signature fails where signatures are checked, and takes the request with it; so does all that
stands behind it in the same run of thinking [A43]. Everything else stays where it is for ever, in every stretch of
the history: removing thinking later restarts the cache and, on models that check the prefix, may break what
stands behind it [A42 A45 B23]. What a retroactive batch has to take along leaves with that batch (see `batch`); where
it was made for a model that does not check the prefix, with the first request to one that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Raw, Struct

from ..branch import Promise
from ..conversation import Message, Reasoning, Role, ToolCall
from ..edits import Edit, InsertBefore, Remove, Target, target_of
from . import closed, signatures
from .batch import anchor
from .view import Proposal, View, causal, weight

NAME = "reasoning"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of signed thinking of turns that are over; a decision for the whole conversation [B23].

    `keep` sends it back as it came. `provider` leaves out what the provider leaves out itself [A47]. `strip` takes it
    out elsewhere too, in batches that pay.
    """

    mode: Literal["keep", "provider", "strip"] = "keep"


def propose(view: View, config: Config) -> Proposal:
    """Remove unsigned thinking not sent before, in whatever region, and what is bound to words that are gone:
    with it the request is refused. And, by the mode, what is thought of no more."""
    required = _required(view)
    if config.mode == "keep":
        return required
    gone = closed.stripped(view, paid=config.mode == "strip")
    return Proposal(promises=(*required.promises, *gone.promises), held=gone.held)


def _required(view: View) -> Proposal:
    if view.facts.model.reasoning == "required":
        return causal(NAME, [*_lost(view)])
    stand_ins = causal(NAME, [*signatures.stand_ins(view)]).promises
    if view.facts.model.reasoning != "signed":
        return Proposal(promises=stand_ins)
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
    return Proposal(promises=(*causal(NAME, edits).promises, *stand_ins, *_unbound(view)))


def _unbound(view: View) -> tuple[Promise, ...]:
    """What stood in a batch's range when it was made, if the model is another one now and checks the prefix [A45]."""
    branch, anchored = view.place.branch, anchor(view.conversation)
    if not view.facts.model.prefix_check or branch is None or not branch.frontiers or anchored is None:
        return ()
    last = max(branch.frontiers, key=lambda frontier: frontier.at)
    if (last.upstream, last.model) == (view.facts.upstream, view.conversation.model):
        return ()
    batches = [
        (promise.anchor, {edit.target for edit in promise.edits if edit.committed})
        for group in branch.promises.values()
        for promise in group
        if any(edit.committed for edit in promise.edits)
    ]
    edits = tuple(_bound(part) for part in _within(view, batches)) if batches else ()
    return (Promise(anchor=anchored, stage=NAME, edits=edits),) if edits else ()


def _within(view: View, batches: list[tuple[bytes, set[Target]]]) -> Iterator[Reasoning]:
    """Signed thinking between the first edit of a batch and the part it is anchored at, and all before that.

    What is kept must be one window that reaches to the newest [A45a].
    """
    parts = [part for message in view.conversation.messages for part in message.parts]
    places = {target_of(part): at for at, part in enumerate(parts)}
    ranges = [
        (min(places[target] for target in targets if target in places), places[Target(end)])
        for end, targets in batches
        if Target(end) in places and not targets.isdisjoint(places)
    ]
    signed = [at for at, part in enumerate(parts) if isinstance(part, Reasoning) and part.signature]
    last = max((at for at in signed if any(a < at < b for a, b in ranges)), default=-1)
    for part in parts[: last + 1]:
        if isinstance(part, Reasoning) and part.signature:
            yield part


def _bound(part: Reasoning) -> Remove:
    return Remove(
        stage=NAME,
        reason="bound to a prefix that a batch changed",
        target=target_of(part),
        tokens_before=weight(part),
        required=True,
        committed=True,
    )


def wanted(view: View, message: Message) -> bool:
    """Whether the upstream refuses this answer for the reasoning that it has lost [A400 A410 F9]."""
    if message.role is not Role.ASSISTANT or not message.parts or message.index < 0:
        return False
    if any(isinstance(part, Reasoning) for part in message.parts):
        return False
    return demanded(view, calls=any(isinstance(part, ToolCall) for part in message.parts))


def demanded(view: View, *, calls: bool) -> bool:
    """Whether the upstream wants reasoning in an answer, one with `calls` or one without."""
    conversation, model = view.conversation, view.facts.model
    if model.reasoning != "required" or not view.rules.lost_reasoning:
        return False
    if conversation.thinking in ("none", "thinking disabled"):
        return False
    return calls if model.reasoning_turns == "calls" else bool(conversation.tools)


def stand_in(view: View) -> Reasoning:
    """What stands for reasoning that is not there."""
    stands = view.rules.lost_reasoning
    return Reasoning(raw=Raw(stands), signature="", size=len(stands))


def _lost(view: View) -> Iterator[Edit]:
    """A constant where an answer has lost its reasoning and the upstream wants it back [A400 A410 F9]."""
    # A client may take reasoning out of what was sent with it: then the request is refused for an old answer.
    for message in filter(lambda message: wanted(view, message), view.conversation.messages):
        first = message.parts[0]
        yield InsertBefore(
            stage=NAME,
            reason="reasoning the upstream wants back",
            target=target_of(first),
            part=stand_in(view),
            required=True,
            tokens_after=len(view.rules.lost_reasoning) // 4,
        )


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
