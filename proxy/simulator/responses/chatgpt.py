"""The host behind a ChatGPT login: the same API with demands of its own, and another body of refusals [A211]."""

from typing import Any

import orjson

Json = dict[str, Any]

PATH = "/backend-api/codex/responses"
_REFUSED = (
    "max_output_tokens",
    "previous_response_id",
    "temperature",
    "top_p",
    "metadata",
    "user",
    "truncation",
)


def fault(body: Json) -> str | None:
    """What this host refuses beside all else; None where nothing."""
    if body.get("stream") is not True:
        return "Stream must be set to true"
    if body.get("store") is not False:
        return "Store must be set to false"
    for name in _REFUSED:
        if body.get(name) is not None:
            return f"Unsupported parameter: {name}"
    return None


def envelope(detail: str) -> bytes:
    """The body of such a refusal."""
    return orjson.dumps({"detail": detail})
