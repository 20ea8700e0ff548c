"""When a retroactive edit pays.

Everything is counted in units of the base input price: one token of input at full price costs 1, a cached token
costs `read` (0.1, say), a token that goes into the cache costs `write` (1.25) [B14]. Nothing here asks whose money
it is: on a local server `read` is 0, `write` is 1, and the unit is the time to prefill a token [B530].

Let the provider have C tokens of the conversation in its cache. An edit at a place with p tokens before it loses
what is cached behind that place, and a batch of edits loses what its *first* edit loses. (Where only what is marked is
kept, p is where an earlier request ended: nothing else can be read.)

    S = max(0, C - p)                          cached tokens behind the first edit
    R                                          tokens that the batch reclaims, Rc of them cached
    cost = write * (S - Rc) - read * S + A     what the batch costs more than leaving all as it is, once
    gain = read * R                            what it saves in each later turn
    rent = sum of read * R_j * turns_j         what carrying the results has cost since each became stale

A is what has to be expected of results that are fetched again (`Candidate.again`, nothing where nothing is known), less
what it saves at once not to write those that are not cached.

(A result that is not cached adds nothing to the cost, so no rent need be counted for it at more than `read`.)

**The best suffix.** With the candidates in prompt order only suffixes are sensible batches: once the prefix is
broken at a place, all that stands behind it can be reclaimed for nothing. Of all suffixes the best is the one with
the greatest `rent - cost`: an earlier candidate joins only where its own rent covers what the earlier break loses
more, so that a tiny early result never holds back large late ones.

**The rule** is that of ski rental: the best suffix goes when its rent has reached its cost. A cold cache needs no
rule of its own: C is 0, the cost is 0, all candidates go. Three things follow, and are tested:

  * A session costs at most what leaving everything costs, plus the rent that was paid for what was cleared. Each
    batch costs at most the rent its members have paid, each member pays for one batch only, and behind a batch
    every turn costs no more than it would have. Rent is part of what leaving everything costs, so the whole costs
    less than twice as much whenever the session ends, and far less when it goes on.
  * Where `read` is 0 rent is never paid: only a cold cache or the window admits a batch.
  * Where nothing is cached everything goes at once, as it should.

**The overdraft.** Twice is far too much for somebody whose session happens to end behind a batch. What the batches of
a conversation have cost, less what they have saved since, is its overdraft; a batch that would take it beyond `LIMIT`
of what leaving everything would have cost so far waits. Behind a batch the overdraft only shrinks and that cost only
grows, so it holds in every turn: a session costs at most `1 + LIMIT` times what leaving everything costs, wherever it
ends. With prompts of P_1 ... P_n tokens, each the beginning of the next, leaving everything has cost

    write * P_n + read * (P_1 + ... + P_(n-1))

for each token is written once and read in every later turn. Pauses only make it more.

**The high-water mark.** Near the end of the window the choice is no longer between prices. A suffix is then taken
though its rent is not paid, if it reclaims enough to be worth one break (`needed`); else the first result to become
stale in every turn would break the cache again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import assert_never

from msgspec import Struct

from .branch import Break, Frontier
from .conversation import Conversation, Image, Message, Part, ToolDefinition, ToolResult
from .models import ModelFacts
from .runs import runs

BYTES_PER_TOKEN = 4
"""Of a raw estimate. Calibration by the provider's own counts makes up for what is wrong about it."""

LIMIT = 0.08
"""How far the overdraft of a conversation may go, as a share of what leaving everything would have cost so far."""

WORTH = 0.25
"""Share of the room between high-water mark and window that a batch forced by the mark must reclaim."""


class Terms(Struct, frozen=True, kw_only=True):
    """What a break costs at one upstream and model, now.

    `cached`: tokens of the prompt that the provider still holds. `read`, `write`: prices in units of base input.
    `scale`: the provider's tokens for one of our estimated tokens.
    """

    cached: float
    read: float
    write: float
    scale: float


class Candidate(Struct, frozen=True):
    """A result that could be cleared: tokens before it and tokens it would give back, both as the provider
    counts; `turns`: how many requests have carried it since it became stale; `again`: what has to be expected of its
    being fetched again, in units of base input."""

    before: float
    saves: float
    turns: int
    again: float = 0.0


class Suffix(Struct, frozen=True, kw_only=True):
    """The candidates from `start` on, as one batch. Tokens, and prices in units of base input.

    `breaks`: cached tokens that stand behind its first edit; `saves`: tokens it reclaims.
    """

    start: int
    breaks: float
    saves: float
    cost: float
    rent: float

    @property
    def paid(self) -> bool:
        """Whether the rent already paid has reached the cost of breaking."""
        return self.rent >= self.cost


class Account(Struct, frozen=True):
    """What leaving everything would have cost a conversation so far, and its overdraft, in units of base input."""

    whole: float
    overdraft: float

    @property
    def left(self) -> float:
        """What a batch may cost now."""
        return LIMIT * self.whole - self.overdraft


def account(prompts: Sequence[float], breaks: Sequence[Break], at: Terms) -> Account:
    """The account of a conversation with these prompts, in tokens and with nothing left out, the present one last."""
    whole = at.write * prompts[-1] + at.read * sum(prompts[:-1])
    turns = len(prompts) - 1
    overdraft = sum(one.cost - at.read * one.saves * max(0, turns - one.turn) for one in breaks)
    return Account(whole, overdraft)


def weight(part: Part, model: ModelFacts) -> int:
    """Bytes that stand for a part in an estimate. An image costs what the model charges at most, not its base64 [A38];
    a deferred tool is not in the prompt [A29]."""
    match part:
        case Image(size=size):
            return min(size, model.image_tokens * BYTES_PER_TOKEN)
        case ToolResult(size=size, images=images) if images:
            return min(size, images * model.image_tokens * BYTES_PER_TOKEN)
        case ToolDefinition(deferred=True):
            return 0
        case _:
            return part.size


def size_of(message: Message, model: ModelFacts) -> int:
    """Bytes that stand for all parts of a message in an estimate."""
    tally = message.tally
    return sum(weight(part, model) for part in message.parts) if tally.media else tally.size


def estimated(conversation: Conversation, model: ModelFacts) -> int:
    """Tokens of the whole prompt before calibration: what `Frontier.estimate` holds of a request as sent."""
    front = sum(weight(part, model) for part in (*conversation.tools, *conversation.system))
    turns = sum(
        sum(size_of(message, model) for message in run.messages) if run.media else run.size
        for run in runs(conversation)
    )
    return (front + turns) // BYTES_PER_TOKEN


def terms(frontier: Frontier | None, model: ModelFacts, now: float, scale: float) -> Terms:
    """What the provider holds of a conversation last seen at `frontier`, and its prices.

    No frontier: this upstream, model and setting was never asked, nothing is cached. `now` in seconds as
    `Frontier.at`; `scale` serves where the provider did not count.
    """
    if frontier is None:
        return Terms(cached=0.0, read=model.read, write=model.write_5m, scale=scale)
    usage = frontier.usage
    if usage is not None and usage.prompt and frontier.estimate:
        scale = usage.prompt / frontier.estimate
    lifetime = _lifetime(frontier, model)
    cold = lifetime is not None and now - frontier.at > lifetime
    cached = 0.0 if cold else _held(frontier, model, scale)
    long = lifetime is not None and lifetime >= model.ttl_long_s
    return Terms(
        cached=cached if cached >= model.minimum else 0.0,
        read=model.read,
        write=model.write_1h if long else model.write_5m,
        scale=scale,
    )


def _lifetime(frontier: Frontier, model: ModelFacts) -> float | None:
    """Seconds from the start of the last request to a cold cache [B10]; None: never taken for cold."""
    return model.ttl_s if frontier.ttl_s is None else frontier.ttl_s


def _held(frontier: Frontier, model: ModelFacts, scale: float) -> float:
    """Tokens cached when the last successful request had been read.

    Where a cache takes every prefix, that is the whole prompt, whatever part of it was a hit. Where it holds what
    is marked, it is what was read and written [B8]; a provider that says nothing of it holds what was marked.
    """
    usage = frontier.usage
    prompt = float(usage.prompt) if usage is not None and usage.prompt else frontier.estimate * scale
    match model.regime:
        case "none":
            return 0.0
        case "prefix":
            return prompt
        case "automatic":
            return (
                prompt
                if usage is None or usage.written is None
                else float((usage.cached or 0) + usage.written)
            )
        case "breakpoints":
            if usage is None or (usage.cached is None and usage.written is None):
                return 0.0 if frontier.tail is None else prompt
            return float((usage.cached or 0) + (usage.written or 0))
        case _:
            assert_never(model.regime)


def best(candidates: Sequence[Candidate], at: Terms, needed: float = 0.0, most: float = inf) -> Suffix | None:
    """Of the suffixes that reclaim at least `needed` tokens and cost at most `most` the one with the greatest
    `rent - cost`.

    `candidates` in prompt order. Among equals the longest. None where there is no such suffix.
    """
    cached, read, write = at.cached, at.read, at.write
    saves = within = rent = again = 0.0
    found: tuple[float, int, float, float, float, float] | None = None
    for start in range(len(candidates) - 1, -1, -1):
        one = candidates[start]
        behind = max(0.0, cached - one.before)
        saves += one.saves
        within += min(one.saves, behind)
        rent += read * one.saves * one.turns
        again += one.again
        cost = write * (behind - within) - read * behind + max(0.0, again - write * (saves - within))
        if saves >= needed and cost <= most and (found is None or rent - cost >= found[0]):
            found = (rent - cost, start, behind, saves, cost, rent)
    if found is None:
        return None
    _, start, behind, saves, cost, rent = found
    return Suffix(start=start, breaks=behind, saves=saves, cost=cost, rent=rent)


def needed_at(prompt: float, high_water: float, window: int) -> float | None:
    """Tokens that a batch must reclaim for the window's sake; None below the high-water mark.

    `prompt` in tokens, `high_water` a share of `window`. Whatever is left when the window itself is near is worth it.
    """
    mark = high_water * window
    if prompt <= mark:
        return None
    room = window - mark
    return 0.0 if prompt >= window - room * WORTH else room * WORTH
