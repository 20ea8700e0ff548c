"""What a provider would have held and read, had requests gone out as they were rewritten. By estimate.

Where requests are only observed, nothing is known of that: the provider sees what the client wrote. So what stands
from one would-be request to the next is weighed, and measured by what the provider counted of the client's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from .conversation import Conversation, Message
from .economics import BYTES_PER_TOKEN, estimated, size_of, weight
from .edits import Target, target_of
from .identity import setting
from .misses import batch, outlived
from .models import ModelFacts
from .rewrite import Rewrite
from .stages import Facts
from .stages.marks import last_mark
from .usage import Usage


def would_read(rewrite: Rewrite, facts: Facts) -> float | None:
    """The share of the client's prompt that would come from the cache, had this and all before it been rewritten.

    To whole messages: what stands unchanged from the last request as it would have been sent, up to where that
    would have been marked. None where the request cannot be judged.
    """
    if rewrite.sent is None or rewrite.read is None or rewrite.place is None:
        return None
    branch = rewrite.place.branch
    last = branch.frontier(facts.upstream, rewrite.sent.model, setting(rewrite.sent)) if branch else None
    if last is None or outlived(last, facts) is not None:
        return 0.0
    fresh = _fresh(rewrite, rewrite.read, rewrite.place.common)
    standing = [message for message in rewrite.sent.messages if message.index < fresh]
    return _share(rewrite.read, rewrite.sent, standing, (last.tail, last.tail_parts), facts)


def would_be(rewrite: Rewrite, read: float | None, usage: Usage, facts: Facts) -> Usage:
    """The usage of what was not sent, from the usage of what was; `read` as `would_read` has it."""
    if rewrite.sent is None or rewrite.read is None or read is None or not usage.prompt:
        return usage
    last = last_mark(rewrite.sent)
    mark = (last.target, last.parts) if last else (None, 0)
    held = _share(rewrite.read, rewrite.sent, rewrite.sent.messages, mark, facts)
    size = estimated(rewrite.sent, facts.model) / max(1, estimated(rewrite.read, facts.model))
    cached = round(read * usage.prompt)
    prompt = round(size * usage.prompt)
    if (
        usage.written is None and facts.model.regime != "breakpoints"
    ):  # no writes are told of, nor charged for
        return structs.replace(usage, prompt=prompt, cached=cached, uncached=max(0, prompt - cached))
    written = max(0, min(prompt, round(held * usage.prompt)) - cached)
    return structs.replace(
        usage, prompt=prompt, cached=cached, written=written, uncached=max(0, prompt - cached - written)
    )


def _fresh(rewrite: Rewrite, read: Conversation, common: int) -> int:
    """The first message of the client's that was not sent before as it would be sent now."""
    broken = {edit.target for edit in batch(rewrite)}
    seen = 0
    for at, message in enumerate(read.messages):
        seen += message.tally.keyed
        if seen > common or not broken.isdisjoint(map(target_of, message.parts)):
            return at
    return len(read.messages)


def _share(
    read: Conversation,
    sent: Conversation,
    standing: Sequence[Message],
    mark: tuple[Target | None, int],
    facts: Facts,
) -> float:
    """How much of the client's prompt the cache holds of tools, system and these messages.

    `mark`: the part with the last mark, and how many parts stand up to it (0: in tools or system).
    """
    tail, parts = mark
    marked = facts.model.regime == "breakpoints"
    if facts.model.regime == "none" or (marked and tail is None):
        return 0.0
    size = sum(weight(part, facts.model) for part in (*sent.tools, *sent.system))
    if not marked or parts:
        size += _up_to(standing, tail if marked else None, facts.model)
    tokens = size / BYTES_PER_TOKEN
    return (
        tokens / max(1, estimated(read, facts.model)) if tokens * facts.scale >= facts.model.minimum else 0.0
    )


def _up_to(messages: Sequence[Message], tail: Target | None, model: ModelFacts) -> int:
    """Bytes, weighed as in an estimate, of messages up to the one with the part `tail`; of all where none has."""
    size = 0
    for message in messages:
        size += size_of(message, model)
        if any(target_of(part) == tail for part in message.parts):
            break
    return size
