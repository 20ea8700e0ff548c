"""Log lines for people: short columns, details behind them, folded to the terminal's width.

Where lines go to a file or a pipe they are not folded, so that each can be found as one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, TextIO, TypeAlias

Event: TypeAlias = Mapping[str, Any]

_RED, _YELLOW, _GREEN, _DIM, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[0m"
_COLOURS = {
    "ok": _GREEN,
    "passed": _DIM,
    "cancelled": _YELLOW,
    "refused": _YELLOW,
    "rejected": _YELLOW,
    "truncated": _RED,
    "error": _RED,
    "unreachable": _RED,
}

_NARROW = 116
"""Below this many columns a line is not padded, and says less."""

_INDENT = " " * 9
"""Where a folded line goes on: behind the time."""

_VENDORS = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "gemini",
}
"""The upstream that goes without saying, by dialect."""

_SHORT_ID = 6
_LONGEST_MODEL = 24


def lively(stream: TextIO, env: Mapping[str, str] | None = None) -> bool:
    """Whether a stream takes colours: a terminal that is not a dumb one, unless NO_COLOR says no."""
    env = os.environ if env is None else env
    return stream.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def columns(stream: TextIO) -> int | None:
    """Columns of the terminal behind a stream; None where there is none."""
    if not stream.isatty():
        return None
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def folded(pieces: Iterable[str], width: int | None) -> str:
    """Pieces in a line, and in indented lines behind it where they do not fit; a piece is broken only at its blanks."""
    lines = [""]
    for piece in filter(None, pieces):
        joined = f"{lines[-1]}  {piece}" if lines[-1].strip() else lines[-1] + piece
        if width is None or len(joined) <= width:
            lines[-1] = joined
            continue
        if len(_INDENT) + len(piece) <= width:
            lines.append(_INDENT + piece)
            continue
        for at, word in enumerate(piece.split(" ")):
            blank = ("  " if at == 0 else " ") if lines[-1].strip() else ""
            if len(lines[-1]) + len(blank) + len(word) <= width or not lines[-1].strip():
                lines[-1] += blank + word
            else:
                lines.append(_INDENT + word)
    return "\n".join(lines)


def console(stream: TextIO) -> Callable[[object, str, MutableMapping[str, Any]], str]:
    """What renders an event for `stream`."""
    colour = lively(stream)

    def render(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
        clock, width = time.strftime("%H:%M:%S"), columns(stream)
        if event.get("event") == "turn":
            if width is not None and width < _NARROW:
                said = [_narrow_head(event), _tokens(event), *_details(event)]
            else:
                said = [_head(event), _tokens(event), *_times(event), *_details(event)]
            line = folded([f"{clock} {said[0]}", *said[1:]], width)
            tint = _COLOURS.get(str(event.get("outcome", "")), "")
            return f"{tint}{line}{_PLAIN}" if colour and tint else line
        shown = {k: v for k, v in event.items() if k not in {"time", "event", "level"}}
        name = f"{clock} {event.get('level', '')} {event.get('event', '')}"
        return folded([name, *(f"{name}={value}" for name, value in shown.items())], width)

    return render


def _conversation(event: Event) -> str:
    if "conversation" not in event:
        return ""
    return f"{event['conversation'][:_SHORT_ID]}:{event.get('turn', '')}"


def _what(event: Event) -> str:
    """The model, or the path of what is no turn of a conversation."""
    return str(event["model"])[:_LONGEST_MODEL] if "model" in event else str(event.get("path", ""))


def _head(event: Event) -> str:
    return (
        f"{event.get('outcome', ''):<11} {event.get('status', '-')!s:<3} {_conversation(event) or '-':<10} "
        f"{event.get('upstream', '-'):<9} {_what(event):<18} {event.get('duration_ms', 0) / 1000:>6.2f}s"
    )


def _narrow_head(event: Event) -> str:
    upstream = event.get("upstream", "")
    said = "" if upstream == _VENDORS.get(str(event.get("dialect"))) else upstream
    head = (event.get("outcome", ""), str(event.get("status", "-")), _conversation(event), said, _what(event))
    return " ".join([*filter(None, head), f"{event.get('duration_ms', 0) / 1000:.2f}s"])


def _details(event: Event) -> list[str]:
    """What else there is to say, the most telling first. Nothing that is zero."""
    would = "would " if event.get("observed") else ""
    named = [
        f"{label} {_short(event[name])}"
        for label, name in (
            ("error", "error"),
            ("refusal", "refusal"),
            ("failed open", "failed_open"),
            ("fault", "fault"),
            ("unread", "unread"),
            ("asked for a summary:", "asked"),
            ("summary by", "summary"),
            ("reasoning withheld", "withheld"),
            (f"{would}edit" if would else "edits", "edits"),
            (f"{would}reclaim", "reclaimed_tokens"),
            ("held", "held"),
            ("fetched again", "regrets"),
            ("would save", "would_save_tokens"),
        )
        if name in event
    ]
    flags = [
        name.replace("_", " ") for name in ("warm", "retried", "fallback", "would_repair") if event.get(name)
    ]
    return [*_miss(event), *named, *flags]


def _times(event: Event) -> list[str]:
    added = [f"+{event['added_ms']:.1f}ms"] if event.get("added_ms") else []
    return added + ([f"ttfb {event['ttfb_ms'] / 1000:.2f}s"] if "ttfb_ms" in event else [])


def _tokens(event: Event) -> str:
    known = [
        f"{label} {_thousands(event[name])}"
        for label, name in (("in", "prompt"), ("out", "output"))
        if event.get(name)
    ]
    if "hit_ratio" in event:
        known.insert(1, f"hit {event['hit_ratio']:.0%}")
    return " ".join(known)


def _miss(event: Event) -> list[str]:
    if "miss" not in event:
        return []
    foreseen = f" (expected {event['expected_ratio']:.0%})" if event.get("expected_ratio") else ""
    detail = f": {event['miss_detail']}" if "miss_detail" in event else ""
    return [f"miss {event['miss']}{foreseen}{detail}"]


def _thousands(number: int) -> str:
    return f"{number / 1000:.1f}k" if abs(number) >= 10_000 else str(number)


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{number}" for name, number in value.items())
    return _thousands(value) if isinstance(value, int) else str(value)
