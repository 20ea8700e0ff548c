"""What a chat request used, in the fields of the service [B107 B401 B410 B501 B521]."""

from typing import Any

import msgspec

from ..usage import Usage
from .cache import Hit
from .flavours import Caching, Flavour

Json = dict[str, Any]


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one request: the whole prompt, what of it was read and written, the answer, the reasoning in it."""

    prompt: int
    hit: Hit
    output: int
    reasoning: int = 0

    @property
    def plain(self) -> Usage:
        """In the form all providers' records have."""
        return Usage(
            input_tokens=self.prompt - self.hit.read - self.hit.written,
            cache_read_input_tokens=self.hit.read,
            write_5m=self.hit.written,
            output_tokens=self.output,
        )


def wire(count: Count, flavour: Flavour, *, writes: bool) -> Json:
    """The `usage` member of an answer. `writes`: the model charges for writing, and says how much."""
    usage: Json = {
        "prompt_tokens": count.prompt,
        "completion_tokens": count.output,
        "total_tokens": count.prompt + count.output,
    }
    match flavour.reporting:
        case "details":
            details = {"cached_tokens": count.hit.read, "audio_tokens": 0}
            written = {"cache_write_tokens": count.hit.written} if writes else {}
            usage["prompt_tokens_details"] = details | written
        case "hits":
            usage["prompt_cache_hit_tokens"] = count.hit.read
            usage["prompt_cache_miss_tokens"] = count.prompt - count.hit.read
            usage["prompt_tokens_details"] = {"cached_tokens": count.hit.read}
        case "top":
            usage["cached_tokens"] = count.hit.read
        case "timings":
            usage["prompt_tokens_details"] = {"cached_tokens": count.hit.read}
        case "none":
            pass
    if flavour.thinks or flavour.name == "openai":
        usage["completion_tokens_details"] = {"reasoning_tokens": count.reasoning}
    return usage


def timings(count: Count, flavour: Flavour) -> Json | None:
    """What llama.cpp says beside `usage`; None for all others [B521]."""
    if flavour.reporting != "timings":
        return None
    return {"cache_n": count.hit.read, "prompt_n": count.prompt - count.hit.read, "predicted_n": count.output}


def price(count: Count, caching: Caching) -> float:
    """Cost of the prompt in units of one base input token."""
    rest = count.prompt - count.hit.read - count.hit.written
    return rest + count.hit.read * caching.read + count.hit.written * caching.write
