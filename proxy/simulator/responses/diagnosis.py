"""Why a prompt missed the cache, against an earlier response [B108]."""

from typing import Any

import msgspec
import orjson

from ..chat.render import Piece

Json = dict[str, Any]


class Footprint(msgspec.Struct, frozen=True):
    """What of a request decides about its cache."""

    settings: dict[str, bytes]
    pieces: tuple[tuple[bytes, int], ...]
    """Names of the beginnings of the prompt, and the tokens each adds."""


_REASONS = {
    "model": "model_changed",
    "prompt_cache_key": "prompt_cache_key_changed",
    "tools": "tools_changed",
    "format": "text_format_changed",
    "effort": "reasoning_effort_changed",
    "verbosity": "verbosity_changed",
    "service_tier": "service_tier_changed",
}


def footprint(body: Json, pieces: list[Piece]) -> Footprint:
    """The footprint of a valid request."""
    text = body.get("text") or {}
    values = {
        "model": body["model"],
        "prompt_cache_key": body.get("prompt_cache_key"),
        "tools": [body.get("tools"), body.get("parallel_tool_calls")],
        "format": text.get("format"),
        "effort": (body.get("reasoning") or {}).get("effort"),
        "verbosity": text.get("verbosity"),
        "service_tier": body.get("service_tier"),
    }
    return Footprint(
        {name: orjson.dumps(value) for name, value in values.items()},
        tuple((piece.chain, piece.tokens) for piece in pieces),
    )


def diagnosed(now: Footprint, before: Footprint | None, read: int) -> Json:
    """The `prompt_cache_diagnostics` member. `read`: tokens that came from the cache."""
    if before is None:
        return {"type": "comparison_response_not_found"}
    shared = 0
    for (mine, tokens), (theirs, _) in zip(now.pieces, before.pieces, strict=False):
        if mine != theirs:
            break
        shared += tokens
    changed = next((name for name in _REASONS if now.settings[name] != before.settings[name]), None)
    whole = shared == _weight(before)
    if changed is None and whole:
        return {"type": "cache_hit"} if read else {"type": "unavailable"}
    return {
        "type": "cache_miss",
        "reason": "input_changed" if changed is None else _REASONS[changed],
        "cache_missed_tokens": _weight(now) - read,
        "comparison_reusable_tokens": shared if changed is None else 0,
    }


def _weight(one: Footprint) -> int:
    return sum(tokens for _, tokens in one.pieces)
