"""What a request cost in tokens, in one form for every provider.

Providers count differently: Anthropic's `input_tokens` leaves out what was read from or written to the cache
[B8], OpenAI's and Gemini's counts include it [B107 B302], servers of the OpenAI shape report the cached part in
four places [B401 B410 B440 B521], and some report it only when told to [B501 B510]. A figure that was not reported
is None, never 0: a missing number must not look like a missed cache.
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
    written_1h of these, at the long lifetime with its dearer price [B8]
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
        return self.cached / self.prompt


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


def _rest(prompt: int | None, cached: int | None, written: int | None) -> int | None:
    if prompt is None or cached is None:
        return None
    return max(0, prompt - cached - (written or 0))


def anthropic_usage(usage: JsonObject) -> Usage:
    """Read an Anthropic `usage` object [B8 C2]. The total is the sum of the three input counts."""
    uncached = count(usage, "input_tokens")
    cached = count(usage, "cache_read_input_tokens")
    written_5m = count(usage, "cache_creation", "ephemeral_5m_input_tokens")
    written_1h = count(usage, "cache_creation", "ephemeral_1h_input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    if written is None and (written_5m is not None or written_1h is not None):
        written = (written_5m or 0) + (written_1h or 0)
    return Usage(
        prompt=None if uncached is None else uncached + (cached or 0) + (written or 0),
        uncached=uncached,
        cached=cached,
        written=written,
        written_1h=written_1h,
        output=count(usage, "output_tokens"),
        reasoning=count(usage, "output_tokens_details", "thinking_tokens"),
    )


def openai_chat_usage(usage: JsonObject, timings: JsonObject | None = None) -> Usage:
    """Read the `usage` of a chat completion and its kin.

    The cached part stands in the details [B107 B440 B501 B510], in DeepSeek's hit count [B401], at the top level
    (Kimi [B410]) or in llama.cpp's `timings` [B521], which also serve where `usage` is missing.
    """
    times: JsonObject = timings or {}
    slot_cached = count(times, "cache_n")
    slot_new = count(times, "prompt_n")
    slot_prompt = None if slot_new is None else slot_new + (slot_cached or 0)
    prompt = _first(count(usage, "prompt_tokens"), slot_prompt)
    cached = _first(
        count(usage, "prompt_tokens_details", "cached_tokens"),
        count(usage, "prompt_cache_hit_tokens"),
        count(usage, "cached_tokens"),
        slot_cached,
    )
    written = count(usage, "prompt_tokens_details", "cache_write_tokens")
    return Usage(
        prompt=prompt,
        uncached=_rest(prompt, cached, written),
        cached=cached,
        written=written,
        output=_first(count(usage, "completion_tokens"), count(times, "predicted_n")),
        reasoning=count(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def openai_responses_usage(usage: JsonObject) -> Usage:
    """Read the `usage` of a Responses object; `input_tokens` includes what was cached and written [B107]."""
    prompt = count(usage, "input_tokens")
    cached = count(usage, "input_tokens_details", "cached_tokens")
    written = count(usage, "input_tokens_details", "cache_write_tokens")
    return Usage(
        prompt=prompt,
        uncached=_rest(prompt, cached, written),
        cached=cached,
        written=written,
        output=count(usage, "output_tokens"),
        reasoning=count(usage, "output_tokens_details", "reasoning_tokens"),
    )


def gemini_usage(metadata: JsonObject) -> Usage:
    """Read `usageMetadata` [B302]: a key is absent where its count is zero, and thoughts are no candidates."""
    prompt = count(metadata, "promptTokenCount")
    if prompt is None:
        return Usage()
    cached = count(metadata, "cachedContentTokenCount") or 0
    thoughts = count(metadata, "thoughtsTokenCount") or 0
    return Usage(
        prompt=prompt,
        uncached=max(0, prompt - cached),
        cached=cached,
        output=(count(metadata, "candidatesTokenCount") or 0) + thoughts,
        reasoning=thoughts,
    )
