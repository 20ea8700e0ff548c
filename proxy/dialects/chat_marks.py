"""Cache marks and members of chat messages: read, and set where they stand without respelling what stays [B104 B440]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from ..conversation import Mark
from ..rawjson import closed_array, closed_object, encoded, is_array, is_string, items, members

Pairs: TypeAlias = list[tuple[str, Raw | bytes]]

ABSENT = Raw(b"")
NOTHING = (b"", b"null", b'""', b"[]")
"""Values of a member that say nothing; they are no parts, and stay as they are."""

MARKS = ("cache_control", "prompt_cache_breakpoint")
"""Members by which a content part is marked [B104 B440]."""


class _Control(Struct):
    ttl: str | None = None


_control = msgspec.json.Decoder(_Control | None)
_string = msgspec.json.Decoder(str)


def says_nothing(raw: Raw | bytes) -> bool:
    """Whether a member's value is null or empty: then it is no part, and stays as it is."""
    return len(raw) <= 4 and bytes(raw) in NOTHING


def read_mark(control: Raw, breakpoint: Raw = ABSENT) -> Mark | None:  # noqa: A002  the field's own word
    """The mark that one of these values is; None where none is. Raises ValidationError for what is no mark."""
    for raw, explicit in ((control, False), (breakpoint, True)):
        read = _control.decode(raw) if len(raw) else None
        if read is not None:
            return Mark(read.ttl, explicit=explicit)
    return None


def top_mark(raw: Raw) -> Mark | None:
    """The automatic mark of a request that a router passes on [B4 B440]; None where there is none it could be."""
    try:
        return read_mark(raw)
    except msgspec.ValidationError:
        return None


def put(pairs: Pairs, name: str, value: bytes) -> None:
    """Set a member where it stands, else at the end. An equal value is not respelt."""
    for at, (known, raw) in enumerate(pairs):
        if known == name:
            if not _equal(raw, value):
                pairs[at] = (name, value)
            return
    pairs.append((name, value))


def _equal(raw: Raw | bytes, value: bytes) -> bool:
    if bytes(raw) == value:
        return True
    return is_string(raw) and is_string(value) and _string.decode(raw) == _string.decode(value)


def put_mark(pairs: Pairs, mark: Mark | None, names: Sequence[str] = MARKS) -> None:
    """Set the mark. One that stands keeps its spelling, and members that this version knows nothing about. `names`: the
    members that are marks in this format."""
    at = next((at for at, (name, raw) in enumerate(pairs) if name in names and not says_nothing(raw)), None)
    if at is None:
        if mark is not None:
            put(pairs, *_new_mark(mark))
        return
    if mark is None:
        pairs[:] = [(name, raw) for name, raw in pairs if name not in names]
        return
    if (pairs[at][0] == "prompt_cache_breakpoint") != mark.explicit:
        pairs[:] = [(name, raw) for name, raw in pairs if name not in names]
        put(pairs, *_new_mark(mark))
        return
    control: Pairs = [*members(pairs[at][1])]
    ttl = next((_string.decode(raw) for name, raw in control if name == "ttl" and is_string(raw)), None)
    if ttl == mark.ttl:
        return
    if mark.ttl is None:
        control = [(name, raw) for name, raw in control if name != "ttl"]
    else:
        put(control, "ttl", encoded(mark.ttl))
    pairs[at] = (pairs[at][0], closed_object(control))


def marked_content(
    content: bytes, mark: Mark | None, kind: str = "text", names: Sequence[str] = MARKS
) -> bytes:
    """The content of a tool result with this mark on its last part; `kind` is what a text part is called."""
    if is_string(content):
        if mark is None:
            return content
        pairs: Pairs = [("type", encoded(kind)), ("text", content)]
        put_mark(pairs, mark, names)
        return closed_array([closed_object(pairs)])
    if not is_array(content) or not items(content):
        return content
    *blocks, last = items(content)
    pairs = [*members(last)]
    put_mark(pairs, mark, names)
    return closed_array([*blocks, closed_object(pairs)])


def _new_mark(mark: Mark) -> tuple[str, bytes]:
    """A mark of ours in its spelling [B104 B440]."""
    if mark.explicit:
        told = {"mode": "explicit"} if mark.ttl is None else {"mode": "explicit", "ttl": mark.ttl}
        return "prompt_cache_breakpoint", encoded(told)
    return "cache_control", encoded(
        {"type": "ephemeral"} if mark.ttl is None else {"type": "ephemeral", "ttl": mark.ttl}
    )
