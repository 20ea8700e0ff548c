"""The parts of a chat message: content, reasoning, calls, results [A100-A108].

Each part's bytes can stand alone: a call is its element of `tool_calls`, a result its whole tool message, and what
is a member of its message (reasoning, a refusal, audio, a legacy function call) is an object of just that member.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from ..conversation import Image, Message, Opaque, Part, Reasoning, Role, Text
from ..rawjson import closed_object, is_array, is_string, items, members
from .chat_calls import MEDIA, read_call, read_function, read_results
from .chat_marks import ABSENT, read_mark, says_nothing

REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Members of an assistant message in which upstreams give and take back reasoning [A400 A410 A440]."""

_ROLES = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}
_DATA_URL = re.compile(rb'"data:([^;,"]*)[^,"]*,')


class _Block(Struct):
    """The members of a content part that this file reads; all others stay in its bytes."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    cache_control: Raw = ABSENT
    prompt_cache_breakpoint: Raw = ABSENT


class _Typed(Struct):
    type: str = ""


class _Detail(Struct):
    """One of OpenRouter's reasoning details; the last two are what its upstream checks [A440]."""

    signature: str | None = None
    data: str | None = None


class _Media(Struct):
    url: Raw = ABSENT
    data: Raw = ABSENT
    format: str = ""
    file_data: Raw = ABSENT


_block = msgspec.json.Decoder(_Block)
_typed = msgspec.json.Decoder(_Typed)
_details = msgspec.json.Decoder(list[_Detail])
_media = msgspec.json.Decoder(_Media)
_string = msgspec.json.Decoder(str)


# -- messages --------------------------------------------------------------------------------------------


def message(raw: Raw, role: str, place: int, before: Message | None) -> Message:
    """A message of the turns, or a run of tool messages. `before` is the message in front of it.

    Raises BodyError or DecodeError where it is none.
    """
    kind = _ROLES.get(role, Role.META)
    if kind is Role.TOOL:
        return Message(role=kind, parts=tuple(read_results(raw, place, before)), raw=raw, index=place)
    frame = tuple(members(raw))
    named = dict(frame)
    content = named.get("content", ABSENT)
    parts = tuple(_spoken(frame, place) if kind is Role.ASSISTANT else _content(content))
    if all(isinstance(part, Opaque) and part.void for part in parts):
        parts = (Text(text=""), *parts)  # a message that says nothing still is something an edit can name
    bare = len(content) > 0 and is_string(content)
    return Message(role=kind, parts=parts, raw=raw, frame=frame, bare=bare, index=place)


def system_parts(raw: Raw) -> tuple[Part, ...]:
    """The parts of a leading system message."""
    return tuple(_content(dict(members(raw)).get("content", ABSENT)))


def _spoken(frame: tuple[tuple[str, Raw], ...], place: int) -> Iterator[Part]:
    """What an assistant message says, in the order in which a model says it."""
    reasoning = [(name, raw) for name, raw in frame if name in REASONING and not says_nothing(raw)]
    if reasoning:
        raw = Raw(closed_object(reasoning))
        yield Reasoning(raw=raw, size=len(raw), signature=_signature(dict(reasoning)))
    named = {name: raw for name, raw in frame if not says_nothing(raw)}
    yield from _content(named.get("content", ABSENT))
    for name in ("refusal", "audio", "function_call"):
        if name in named:
            yield _member(name, named[name], place)
    calls = named.get("tool_calls", ABSENT)
    if any(name == "tool_calls" and is_array(raw) and not items(raw) for name, raw in frame):
        raw = Raw(closed_object([("tool_calls", b"[]")]))
        yield Opaque(raw=raw, size=len(raw), kind="tool_calls", void=True)
    for nth, raw in enumerate(items(calls) if len(calls) and is_array(calls) else ()):
        yield read_call(raw, place, nth)


def _member(name: str, value: Raw, place: int) -> Part:
    """A member of an assistant message that is a part of its own."""
    raw = Raw(closed_object([(name, value)]))
    match name:
        case "refusal" if is_string(value):
            return Text(raw=raw, size=len(raw), text=_string.decode(value))
        case "function_call":
            return read_function(value, place)
        case _:
            return Opaque(raw=raw, size=len(raw), kind=name)


def _signature(reasoning: dict[str, Raw]) -> str:
    """What binds reasoning to its prefix: signatures and encrypted data of its details [A440]."""
    details = reasoning.get("reasoning_details", ABSENT)
    if not len(details) or not is_array(details):
        return ""
    try:
        read = _details.decode(details)
    except msgspec.ValidationError:
        return ""
    return " ".join(bound for detail in read if (bound := detail.signature or detail.data))


# -- content ---------------------------------------------------------------------------------------------


def _content(raw: Raw) -> Iterator[Part]:
    """The parts of a content: a string is one text part."""
    if is_string(raw):
        yield Text(raw=raw, text=_string.decode(raw), size=len(raw))
    elif is_array(raw):
        for block in items(raw):
            yield _part(block)


def _part(raw: Raw) -> Part:
    """A content part. One with members of other types than known passes as it came."""
    try:
        block = _block.decode(raw)
        mark = read_mark(block.cache_control, block.prompt_cache_breakpoint)
    except msgspec.ValidationError:
        return Opaque(raw=raw, size=len(raw), kind=_kind(raw))
    size = len(raw)
    match block.type:
        case "text" if block.text is not None:
            return Text(raw=raw, mark=mark, size=size, text=block.text)
        case "refusal" if block.refusal is not None:
            return Text(raw=raw, mark=mark, size=size, text=block.refusal)
        case "thinking":
            return Reasoning(raw=raw, mark=mark, size=size, signature="")
        case kind if kind in MEDIA:
            media_type, data_bytes = _data(kind, raw)
            return Image(raw=raw, mark=mark, size=size, media_type=media_type, data_bytes=data_bytes)
        case kind:
            return Opaque(raw=raw, mark=mark, size=size, kind=kind)


def _kind(raw: Raw) -> str:
    try:
        return _typed.decode(raw).type
    except msgspec.ValidationError:
        return ""


def _data(kind: str, raw: Raw) -> tuple[str, int]:
    """Media type and length of the data of a media part; "" and 0 for what stands elsewhere, behind a URL or id."""
    value = dict(members(raw)).get(kind, ABSENT)
    if not len(value):
        return "", 0
    if is_string(value):
        return _of_url(value)
    try:
        media = _media.decode(value)
    except msgspec.ValidationError:
        return "", 0
    if len(media.data):
        return (f"audio/{media.format}" if media.format else ""), max(0, len(media.data) - 2)
    return _of_url(media.url if len(media.url) else media.file_data)


def _of_url(raw: Raw) -> tuple[str, int]:
    head = _DATA_URL.match(bytes(memoryview(raw)[:256]))
    return (head[1].decode("ascii", "replace"), len(raw) - head.end() - 1) if head else ("", 0)
