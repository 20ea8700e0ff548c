"""What a request cost in tokens, in one form for every provider.

Providers count differently: Anthropic's `input_tokens` leaves out what was read from or written to the cache
[B8], OpenAI's and Gemini's counts include it [B107 B302], servers of the OpenAI shape report the cached part in
four places [B401 B410 B440 B521], and some report it only when told to [B501 B510]. A figure that was not reported
is None, never 0: a missing number must not look like a missed cache. Only Gemini leaves out what is zero by rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

JsonObject: TypeAlias = Mapping[str, object]


class Usage(Struct, frozen=True):
    """Tokens of one request; None where the provider does not say.

    prompt     all of the prompt: uncached + cached + written
    uncached   read at full price, neither cached nor written
    cached     read from the cache
    written    written to the cache
    written_1h of these, at the long lifetime with its dearer price: an hour [B8], twelve at OpenAI [B107]
    output     all of the answer, reasoning included
    reasoning  of these, reasoning
    """

    prompt: int | None = None
    uncached: int | None = None
    cached: int | None = None
    written: int | None = None
    written_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None

    @property
    def written_5m(self) -> int | None:
        """The part of `written` at the short lifetime."""
        if self.written is None or self.written_1h is None:
            return self.written
        return self.written - self.written_1h

    @property
    def hit_ratio(self) -> float | None:
        """The share of the prompt that came from the cache, 0 to 1; None where it cannot be known."""
        if self.cached is None or not self.prompt:
            return None
        return min(1.0, self.cached / self.prompt)


def count(source: JsonObject, *path: str) -> int | None:
    """Return the whole number at `path`, or None where there is none: missing, null, or not a count."""
    here: object = source
    for name in path:
        if not isinstance(here, Mapping):
            return None
        here = here.get(name)
    if isinstance(here, bool) or not isinstance(here, int | float) or here < 0 or here != here // 1:
        return None
    return int(here)


def _first(*counts: int | None) -> int | None:
    return next((number for number in counts if number is not None), None)


def _inclusive(prompt: int | None, cached: int | None, written: int | None) -> tuple[int | None, int | None]:
    """The whole prompt and its uncached part, from a count that includes what was cached and written.

    A count smaller than one of its parts cannot include it: some translators in front of Anthropic hand on its
    disjoint `input_tokens` under the inclusive name. Then it is the uncached part, and the three add up.
    """
    if prompt is None or cached is None:
        return prompt, None
    if max(cached, written or 0) > prompt:
        return prompt + cached + (written or 0), prompt
    return prompt, max(0, prompt - cached - (written or 0))


_SPLIT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def anthropic_restated(first: JsonObject, later: JsonObject) -> JsonObject:
    """The `usage` of a stream after a later event has stated it again [C2 C500].

    Figures replace the earlier ones where they are above zero, and fill in those that were missing: a zero in a
    `message_delta` says nothing of a read that `message_start` told of. Local servers know the split only at the
    end: they begin with the whole prompt as `input_tokens`. So a later event that names the uncached and the cached
    part replaces the split as a whole, zeros too, where it adds up to the same prompt, or nothing cached was told
    before.
    """
    said = {name: value for name, value in later.items() if value is not None}
    if _splits_anew(first, later):
        return {**{name: value for name, value in first.items() if name not in _SPLIT or not value}, **said}
    return {**first, **{name: value for name, value in said.items() if value or first.get(name) is None}}


def _splits_anew(first: JsonObject, later: JsonObject) -> bool:
    then = [count(first, name) or 0 for name in _SPLIT]
    now = [count(later, name) for name in _SPLIT]
    if now[0] is None or now[1] is None:
        return False
    total = sum(number or 0 for number in now)
    return total > 0 and (total == sum(then) or (total > now[0] and not any(then[1:])))


def anthropic_usage(usage: JsonObject) -> Usage:
    """Read an Anthropic `usage` object [B8 C2]. The total is the sum of the three input counts.

    A local server that does not report its cache gives the whole prompt as `input_tokens`, and neither of the two
    others [B501]: how much of it was cached is not known then.
    """
    rest = count(usage, "input_tokens")
    cached = count(usage, "cache_read_input_tokens")
    written_5m = count(usage, "cache_creation", "ephemeral_5m_input_tokens")
    written_1h = count(usage, "cache_creation", "ephemeral_1h_input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    if written is None and (written_5m is not None or written_1h is not None):
        written = (written_5m or 0) + (written_1h or 0)
    return Usage(
        prompt=None if rest is None else rest + (cached or 0) + (written or 0),
        uncached=None if cached is None and written is None else rest,
        cached=cached,
        written=written,
        written_1h=written_1h,
        output=count(usage, "output_tokens"),
        reasoning=count(usage, "output_tokens_details", "thinking_tokens"),
    )


def openai_chat_usage(usage: JsonObject, timings: JsonObject | None = None) -> Usage:
    """Read the `usage` of a chat completion and its kin.

    The cached part stands in the details [B107 B440 B501 B510], in DeepSeek's hit count [B401], at the top level
    (Kimi [B410]) or in llama.cpp's `timings` [B521], which also serve where `usage` is missing. What was written has
    OpenAI's name [B107] or that of services that took Anthropic's [B430].
    """
    prompt, cached = _chat_prompt(usage, timings or {})
    written = _first(
        count(usage, "prompt_tokens_details", "cache_write_tokens"),
        count(usage, "prompt_tokens_details", "cache_creation_input_tokens"),
        count(usage, "cache_creation_input_tokens"),
    )
    whole, uncached = _inclusive(prompt, cached, written)
    return Usage(
        prompt=whole,
        uncached=uncached,
        cached=cached,
        written=written,
        written_1h=count(usage, "prompt_tokens_details", "cache_write_tokens_details", "ttl_12h_tokens"),
        output=_first(count(usage, "completion_tokens"), count(timings or {}, "predicted_n")),
        reasoning=count(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def _chat_prompt(usage: JsonObject, timings: JsonObject) -> tuple[int | None, int | None]:
    """The prompt as it is stated, and what of it was cached."""
    hit, fresh = count(usage, "prompt_cache_hit_tokens"), count(usage, "prompt_cache_miss_tokens")
    slot_hit, slot_fresh = count(timings, "cache_n"), count(timings, "prompt_n")
    prompt = _first(count(usage, "prompt_tokens"), _sum(hit, fresh), _sum(slot_hit, slot_fresh))
    cached = _first(
        count(usage, "prompt_tokens_details", "cached_tokens"),
        hit,
        count(usage, "cached_tokens"),
        count(usage, "cache_read_input_tokens"),
        slot_hit,
    )
    return prompt, cached


def _sum(first: int | None, second: int | None) -> int | None:
    """Both together; of a half nothing is known about the whole."""
    return None if first is None or second is None else first + second


def openai_responses_usage(usage: JsonObject) -> Usage:
    """Read the `usage` of a Responses object; `input_tokens` includes what was cached and written [B107]."""
    cached = count(usage, "input_tokens_details", "cached_tokens")
    written = count(usage, "input_tokens_details", "cache_write_tokens")
    whole, uncached = _inclusive(count(usage, "input_tokens"), cached, written)
    return Usage(
        prompt=whole,
        uncached=uncached,
        cached=cached,
        written=written,
        written_1h=count(usage, "input_tokens_details", "cache_write_tokens_details", "ttl_12h_tokens"),
        output=count(usage, "output_tokens"),
        reasoning=count(usage, "output_tokens_details", "reasoning_tokens"),
    )


def gemini_usage(metadata: JsonObject) -> Usage:
    """Read `usageMetadata` [B302]: a key is absent where its count is zero, and thoughts are no candidates.

    What the provider's own tools put into the prompt is counted beside the prompt, and paid like it.
    """
    sent = count(metadata, "promptTokenCount")
    if sent is None:
        return Usage()
    prompt = sent + (count(metadata, "toolUsePromptTokenCount") or 0)
    cached = count(metadata, "cachedContentTokenCount") or 0
    thoughts = count(metadata, "thoughtsTokenCount") or 0
    return Usage(
        prompt=prompt,
        uncached=max(0, prompt - cached),
        cached=cached,
        output=(count(metadata, "candidatesTokenCount") or 0) + thoughts,
        reasoning=thoughts,
    )
