"""Room that a request asks to be left for its answer."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ..conversation import Conversation

NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Members that say how many tokens an answer may have [A5 A100 A200]; Gemini's stands in `generationConfig` [A300]."""

MOST = 0.25
"""Share of the window that is left free at most: many clients ask for all that a model can, and seldom get it."""

_number = msgspec.json.Decoder(int)
_members = msgspec.json.Decoder(dict[str, Raw])


def room(conversation: Conversation, window: int) -> int:
    """Tokens to leave free of a window of so many."""
    given = dict(conversation.envelope)
    asked = [given[name] for name in NAMES if name in given]
    for name in ("generationConfig", "generation_config"):
        try:
            inner = _members.decode(given[name]) if name in given else {}
        except msgspec.DecodeError:
            continue
        asked += [inner[key] for key in ("maxOutputTokens", "max_output_tokens") if key in inner]
    return min(round(MOST * window), max((_tokens(raw) for raw in asked), default=0))


def _tokens(raw: Raw) -> int:
    try:
        return max(0, _number.decode(raw))
    except msgspec.DecodeError:
        return 0
