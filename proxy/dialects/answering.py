"""What a request says of its answer: how long it may be, and whether it can be words. Data, one line a format."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from ..errors import BodyError
from ..rawjson import closed_object, encoded, members

Path = tuple[str, ...]
Pairs = list[tuple[str, Raw]]


class Answering(Struct, frozen=True):
    """Paths of members: `limits` bound an answer's tokens, `choices` may demand a call, `forms` another form than
    words. A name stands for its spellings with and without underscores."""

    limits: tuple[Path, ...]
    choices: tuple[Path, ...]
    forms: tuple[Path, ...]

    def bounded(self, envelope: Sequence[tuple[str, Raw]], least: int, most: int) -> Pairs | None:
        """The members with each limit between `least` and `most`; None where no words are to be expected."""
        pairs = [*envelope]
        if any(_demands(_at(pairs, path), _LEFT_FREE) for path in self.choices):
            return None
        if any(_demands(_at(pairs, path), _WORDS) for path in self.forms):
            return None
        for path in self.limits:
            limit = _value(_at(pairs, path))
            if isinstance(limit, int) and limit > 0 and not least <= limit <= most:
                pairs = _put(pairs, path, min(max(limit, least), most))
        return pairs


ANTHROPIC = Answering(
    limits=(("max_tokens",),),  # [A5]
    choices=(("tool_choice",),),  # [A28]
    forms=(("output_config", "format"), ("output_format",)),
)
OPENAI_CHAT = Answering(
    limits=(("max_tokens",), ("max_completion_tokens",)),
    choices=(("tool_choice",), ("function_call",)),
    forms=(("response_format",),),
)
OPENAI_RESPONSES = Answering(
    limits=(("max_output_tokens",),),
    choices=(("tool_choice",),),
    forms=(("text", "format"),),
)
GEMINI = Answering(
    limits=(("generationConfig", "maxOutputTokens"),),
    choices=(("toolConfig", "functionCallingConfig"),),
    forms=(("generationConfig", "responseMimeType"),),
)

_LEFT_FREE = frozenset({"", "auto", "none", "validated", "mode_unspecified"})
_WORDS = frozenset({"", "text", "text/plain"})


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _at(pairs: Pairs, path: Path) -> Raw | None:
    """The value at a path; None where there is none."""
    raw = next((raw for name, raw in pairs if _plain(name) == _plain(path[0])), None)
    if raw is None or len(path) == 1:
        return raw
    try:
        return _at(members(raw), path[1:])
    except BodyError:
        return None


def _put(pairs: Pairs, path: Path, value: int) -> Pairs:
    """The members with another value at a path where there is one."""
    name = _plain(path[0])
    return [
        (known, raw)
        if _plain(known) != name
        else (
            known,
            Raw(encoded(value) if len(path) == 1 else closed_object(_put(members(raw), path[1:], value))),
        )
        for known, raw in pairs
    ]


def _value(raw: Raw | None) -> object:
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _demands(raw: Raw | None, free: frozenset[str]) -> bool:
    """Whether a choice, a word or an object with a `mode` or `type`, is none of those that demand nothing."""
    value = _value(raw)
    if isinstance(value, dict):
        value = value.get("mode") or value.get("type") or ""
    return isinstance(value, str) and value.lower() not in free
