"""Content parts of Responses messages and outputs, with their cache marks [A208 B104].

What people and tools say is `input_text`, what the model says `output_text` or `refusal`; a content may also be a
string, which says the same as one text part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import assert_never

import msgspec
from msgspec import Raw, Struct

from ..conversation import (
    Image,
    Mark,
    Opaque,
    Part,
    Reasoning,
    Reminder,
    Role,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from ..errors import BodyError
from ..inline import Inline, base_of
from ..rawjson import closed_array, closed_object, encoded, is_array, is_string, items, members
from .chat_marks import ABSENT, Pairs, put, put_mark

MEDIA = ("input_image", "input_file", "input_audio")
"""Content parts that are no text."""

MARK = "prompt_cache_breakpoint"

_SPOKEN = ("output_text", "refusal")
"""What the model says; everybody else says `input_text` [A208]."""

_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""Types of text parts, and the member that holds the text."""

INSIDE = "content "
"""Begins the kind of an unknown content part, to tell it from an unknown item."""

_DATA_URL = re.compile(rb'"data:([^;,"]*)[^,"]*,')


class _Block(Struct):
    """The members of a content part that this file reads; all others stay in its bytes."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    image_url: Raw = ABSENT
    file_data: Raw = ABSENT
    prompt_cache_breakpoint: Raw = ABSENT


class _Typed(Struct):
    type: str = ""


class _Breakpoint(Struct):
    ttl: str | None = None


_block = msgspec.json.Decoder(_Block)
_typed = msgspec.json.Decoder(_Typed)
_breakpoint = msgspec.json.Decoder(_Breakpoint | None)
_string = msgspec.json.Decoder(str)


# -- read ------------------------------------------------------------------------------------------------


def read_content(raw: Raw) -> Iterator[Part]:
    """The parts of a content: a string is one text part."""
    if is_string(raw):
        yield Text(raw=raw, text=_string.decode(raw), size=len(raw))
    elif is_array(raw):
        for block in items(raw):
            yield _part(block)


def _part(raw: Raw) -> Part:
    """A content part. One with members of other types than known passes as it came."""
    size = len(raw)
    try:
        block = _block.decode(raw)
        mark = _read_mark(block.prompt_cache_breakpoint)
    except msgspec.ValidationError:
        return Opaque(raw=raw, size=size, kind=INSIDE + _kind(raw))
    if block.type in MEDIA:
        media_type, data_bytes = _data(block.image_url if len(block.image_url) else block.file_data)
        return Image(raw=raw, mark=mark, size=size, media_type=media_type, data_bytes=data_bytes)
    text = block.refusal if block.type == "refusal" else block.text
    if block.type in _TEXTS and text is not None:
        return Text(raw=raw, mark=mark, size=size, text=text)
    return Opaque(raw=raw, mark=mark, size=size, kind=INSIDE + block.type)


def _kind(raw: Raw) -> str:
    try:
        return _typed.decode(raw).type
    except msgspec.ValidationError:
        return ""


def _data(raw: Raw) -> tuple[str, int]:
    """Media type and length of inline data; "" and 0 for what stands elsewhere, behind a URL or an id."""
    head = _DATA_URL.match(bytes(memoryview(raw)[:256]))
    if head is not None:
        return head[1].decode("ascii", "replace"), len(raw) - head.end() - 1
    return "", 0


def _read_mark(raw: Raw) -> Mark | None:
    """The mark a part carries. Raises ValidationError for what is none."""
    spelt = _breakpoint.decode(raw) if len(raw) else None
    return Mark(spelt.ttl, explicit=True) if spelt is not None else None


def result_content(raw: Raw | bytes) -> tuple[bytes | None, Mark | None]:
    """Content and mark of an output: a list of one plain text is that text, the last part's mark the output's."""
    if not len(raw) or bytes(memoryview(raw)[:5]) == b"null":
        return None, None
    if not is_array(raw):
        return bytes(raw), None
    blocks: list[Raw | bytes] = [*items(raw)]
    if not blocks:
        return bytes(raw), None
    try:
        mark = _read_mark(_block.decode(blocks[-1]).prompt_cache_breakpoint)
        came = members(blocks[-1])
        last = [(name, value) for name, value in came if name != MARK]
    except (msgspec.ValidationError, BodyError):
        return bytes(raw), None
    named = dict(last)
    plain = len(last) == 2 and bytes(named.get("type", ABSENT)) == b'"input_text"'
    if len(blocks) == 1 and plain and is_string(named.get("text", ABSENT)):
        return bytes(named["text"]), mark
    if len(last) == len(came):
        return bytes(raw), None
    return closed_array([*blocks[:-1], closed_object(last)]), mark


# -- write -----------------------------------------------------------------------------------------------


def written_content(parts: Sequence[Part], role: Role, old: Raw | bytes, *, bare: bool) -> bytes | None:
    """A content; None where nothing is left to say. `bare`: a single text may be a string. `old`: what it was."""
    match [part for part in parts if not _is_nothing(part)]:
        case []:
            return None
        case [Text() | Reminder() as only] if bare and only.mark is None:
            return bytes(only.raw) if only.raw is not None and is_string(only.raw) else encoded(only.text)
        case kept:
            own = {bytes(raw) for raw in items(old)} if len(old) and is_array(old) else set[bytes]()
            return closed_array(
                part.raw if part.raw is not None and bytes(part.raw) in own else _written(part, role)
                for part in kept
            )


def _is_nothing(part: Part) -> bool:
    return isinstance(part, Text) and not part.text and part.raw is None and part.base is None


def _written(part: Part, role: Role) -> Raw | bytes:
    """A part of a content, as an object: never a string inside a list."""
    match part:
        case Text(text=text) | Reminder(text=text):
            return _text_block(part, text, role)
        case Image() | Opaque():
            if part.raw is not None:
                return part.raw
            base = (
                base_of(part.base, Inline(part.media_type, part.data))
                if isinstance(part, Image)
                else part.base
            )
            pairs: Pairs = [*members(base)] if base is not None else []
            put_mark(pairs, part.mark, (MARK,))
            return closed_object(pairs)
        case ToolCall() | ToolResult() | Reasoning() | ToolDefinition():
            raise AssertionError("calls, outputs and reasoning are items")
        case _:
            assert_never(part)


def _text_block(part: Text | Reminder, text: str, role: Role) -> Raw | bytes:
    """A text part, in the form that who says it speaks in [A208]; a refusal stays one where the model says it."""
    origin = part.raw if part.raw is not None else part.base
    pairs: Pairs = [*members(origin)] if origin is not None and not is_string(origin) else []
    kind = next((_string.decode(raw) for name, raw in pairs if name == "type" and is_string(raw)), "")
    model = role is Role.ASSISTANT
    fits = kind in _TEXTS and kind not in (("input_text",) if model else _SPOKEN)
    if part.raw is not None and fits:
        return part.raw
    if not fits:
        kind = "output_text" if model else "input_text"
        pairs = [("type", encoded(kind))]
        if origin is not None and is_string(origin):
            pairs.append(("text", origin))
    put(pairs, _TEXTS[kind], encoded(text))
    if not model or any(name == MARK for name, _ in pairs):  # the model's own words carry none [B104]
        put_mark(pairs, part.mark, (MARK,))
    return closed_object(pairs)
