"""What a request used, in the provider's own fields, and what that costs."""

from typing import Any

import msgspec

from .models import Model


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one request. The three inputs add up to the whole prompt [B8]."""

    input_tokens: int = 0
    cache_read_input_tokens: int = 0
    write_5m: int = 0
    write_1h: int = 0
    output_tokens: int = 0

    @property
    def written(self) -> int:
        return self.write_5m + self.write_1h

    @property
    def total(self) -> int:
        """All tokens of the prompt."""
        return self.input_tokens + self.cache_read_input_tokens + self.written

    def wire(self, output_tokens: int | None = None) -> dict[str, Any]:
        """As the `usage` member of an answer."""
        return {
            "input_tokens": self.input_tokens,
            "cache_creation_input_tokens": self.written,
            "cache_read_input_tokens": self.cache_read_input_tokens,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.write_5m,
                "ephemeral_1h_input_tokens": self.write_1h,
            },
            "output_tokens": self.output_tokens if output_tokens is None else output_tokens,
            "service_tier": "standard",
        }


def price(usage: Usage, model: Model) -> float:
    """Cost of the prompt in units of one base input token; output is not in it [B14]."""
    return (
        usage.input_tokens
        + usage.write_5m * model.write_5m
        + usage.write_1h * model.write_1h
        + usage.cache_read_input_tokens * model.read
    )
