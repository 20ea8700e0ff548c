"""What a request used, in the fields of the API [B107]."""

from typing import Any

from ..chat.usage import Count

Json = dict[str, Any]


def wire(count: Count, *, writes: bool, ttl: str | None) -> Json:
    """The `usage` member of a response. `writes`: the model charges for writing, for `ttl` where one is asked."""
    details: Json = {"cached_tokens": count.hit.read}
    if writes:
        kept = {"ttl_30m_tokens": 0, "ttl_12h_tokens": 0}
        kept["ttl_12h_tokens" if ttl == "12h" else "ttl_30m_tokens"] = count.hit.written
        details |= {"cache_write_tokens": count.hit.written, "cache_write_tokens_details": kept}
    return {
        "input_tokens": count.prompt,
        "input_tokens_details": details,
        "output_tokens": count.output,
        "output_tokens_details": {"reasoning_tokens": count.reasoning},
        "total_tokens": count.prompt + count.output,
    }
