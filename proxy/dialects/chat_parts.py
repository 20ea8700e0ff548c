"""The parts of a chat message: content, reasoning, calls, results, tools [A100-A108].

Each part's bytes can stand alone: a call is its element of `tool_calls`, a result its whole tool message, and what
is a member of its message (reasoning, a refusal, audio, a legacy function call) is an object of just that member.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from ..conversation import (
    Image,
    Mark,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from ..errors import BodyError
from ..rawjson import closed_array, closed_object, is_array, is_string, items, members

ABSENT = Raw(b"")
NOTHING = (b"", b"null", b'""', b"[]")
"""Values of a member that say nothing; they are no parts, and stay as they are."""

MARKS = ("cache_control", "prompt_cache_breakpoint")
"""Members by which a content part is marked [B104 B440]."""

REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Members of an assistant message in which upstreams give and take back reasoning [A400 A410 A440]."""

MEDIA = ("image_url", "input_audio", "file", "video_url")
"""Content parts that are no text; the member of the same name holds the data."""

_ROLES = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}
_DATA_URL = re.compile(rb'"data:([^;,"]*)[^,"]*,')
_DERIVED = re.compile(r"(function|unnamed)-\d+-\d+-(.*)", re.DOTALL)


class _Block(Struct):
    """The members of a content part that this file reads; all others stay in its bytes."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    cache_control: Raw = ABSENT
    prompt_cache_breakpoint: Raw = ABSENT


class _Control(Struct):
    ttl: str | None = None


class _Typed(Struct):
    type: str = ""


class _Named(Struct):
    name: str = ""
    arguments: Raw = ABSENT
    input: Raw = ABSENT


class _Call(Struct):
    id: str | None = None
    type: str | None = None
    function: _Named | None = None
    custom: _Named | None = None


class _Result(Struct):
    tool_call_id: str | None = None
    name: str | None = None
    content: Raw = ABSENT


class _Tool(Struct):
    type: str = ""
    function: _Named | None = None
    custom: _Named | None = None
    name: str | None = None
    cache_control: Raw = ABSENT
    prompt_cache_breakpoint: Raw = ABSENT


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
_control = msgspec.json.Decoder(_Control | None)
_typed = msgspec.json.Decoder(_Typed)
_inner = msgspec.json.Decoder(list[_Typed])
_named = msgspec.json.Decoder(_Named)
_call = msgspec.json.Decoder(_Call)
_result = msgspec.json.Decoder(_Result)
_tool = msgspec.json.Decoder(_Tool)
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
        return Message(role=kind, parts=tuple(_results(raw, place, before)), raw=raw, index=place)
    frame = tuple(members(raw))
    named = dict(frame)
    content = named.get("content", ABSENT)
    parts = tuple(_spoken(frame, place) if kind is Role.ASSISTANT else _content(content))
    if not parts:
        parts = (Text(text=""),)  # a message that says nothing still is something an edit can name
    bare = len(content) > 0 and is_string(content)
    return Message(role=kind, parts=parts, raw=raw, frame=frame, bare=bare, index=place)


def system_parts(raw: Raw) -> tuple[Part, ...]:
    """The parts of a leading system message."""
    return tuple(_content(dict(members(raw)).get("content", ABSENT)))


def says_nothing(raw: Raw | bytes) -> bool:
    """Whether a member's value is null or empty: then it is no part, and stays as it is."""
    return len(raw) <= 4 and bytes(raw) in NOTHING


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
    for nth, raw in enumerate(items(calls) if len(calls) and is_array(calls) else ()):
        yield _called(raw, place, nth)


def _member(name: str, value: Raw, place: int) -> Part:
    """A member of an assistant message that is a part of its own."""
    raw = Raw(closed_object([(name, value)]))
    match name:
        case "refusal" if is_string(value):
            return Text(raw=raw, size=len(raw), text=_string.decode(value))
        case "function_call":
            call = _named.decode(value)
            given = _argument_bytes(call.arguments)
            call_id = _derived("function", place, 0, call.name)
            return ToolCall(raw=raw, size=len(raw), id=call_id, name=call.name, input=given)
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
        mark = _mark(block)
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


def _mark(block: _Block | _Tool) -> Mark | None:
    for raw in (block.cache_control, block.prompt_cache_breakpoint):
        control = _control.decode(raw) if len(raw) else None
        if control is not None:
            return Mark(control.ttl)
    return None


def top_mark(raw: Raw) -> Mark | None:
    """The automatic mark of a request that a router passes on [B4 B440]; None where there is none it could be."""
    try:
        control = _control.decode(raw) if len(raw) else None
    except msgspec.ValidationError:
        return None
    return None if control is None else Mark(control.ttl)


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


# -- calls, results, tools -------------------------------------------------------------------------------


def _called(raw: Raw, place: int, nth: int) -> ToolCall:
    """An element of `tool_calls`; one of a kind this version does not know is named by its kind."""
    call = _call.decode(raw)
    inner = call.function or call.custom
    name = inner.name if inner else call.type or ""
    given = call.function.arguments if call.function else call.custom.input if call.custom else ABSENT
    call_id = call.id or _derived("unnamed", place, nth, name)
    return ToolCall(raw=raw, size=len(raw), id=call_id, name=name, input=_argument_bytes(given))


def _argument_bytes(raw: Raw) -> bytes:
    """The arguments: what the string says, inner spelling and all; some clients send the object itself."""
    if says_nothing(raw):
        return b""
    return _string.decode(raw).encode() if is_string(raw) else bytes(raw)


def _derived(kind: str, place: int, nth: int, name: str) -> str:
    """An id for a call that has none, made of its place, which does not change while the history grows."""
    return f"{kind}-{place}-{nth}-{name}"


def derived_from(call_id: str) -> tuple[str, str] | None:
    """Kind (`function` of the legacy form, or `unnamed`) and name of a call whose id is derived; else None."""
    found = _DERIVED.fullmatch(call_id)
    return (found[1], found[2]) if found else None


def _results(raw: Raw, place: int, before: Message | None) -> Iterator[ToolResult]:
    """The results of a run of tool messages. Those without an id answer the calls without one, in order."""
    calls = [part for part in before.parts if isinstance(part, ToolCall)] if before is not None else []
    unnamed = [call for call in calls if derived_from(call.id)]
    for nth, one in enumerate(items(b"[" + bytes(raw) + b"]")):
        members(one)  # refuses what could not be closed again
        read = _result.decode(one)
        call_id = read.tool_call_id or ""
        if not call_id:
            call = next((call for call in unnamed if read.name in (None, call.name)), None)
            if call is not None:
                unnamed.remove(call)
            call_id = call.id if call is not None else _derived("unnamed", place, nth, read.name or "")
        content, mark = result_content(read.content)
        yield ToolResult(
            raw=one, mark=mark, size=len(one), call_id=call_id, content=content, images=_images(content)
        )


def result_content(raw: Raw | bytes) -> tuple[bytes | None, Mark | None]:
    """Content and mark of a tool message: a list of one plain text is that text, the last part's mark the result's."""
    if not len(raw) or bytes(memoryview(raw)[:5]) == b"null":
        return None, None
    if not is_array(raw):
        return bytes(raw), None
    blocks: list[Raw | bytes] = [*items(raw)]
    if not blocks:
        return bytes(raw), None
    try:
        mark = _mark(_block.decode(blocks[-1]))
        last = [(name, value) for name, value in members(blocks[-1]) if mark is None or name not in MARKS]
    except (msgspec.ValidationError, BodyError):
        return bytes(raw), None
    text = dict(last).get("text", ABSENT)
    if (
        len(blocks) == 1
        and len(last) == 2
        and is_string(text)
        and bytes(dict(last).get("type", ABSENT)) == b'"text"'
    ):
        return bytes(text), mark
    if mark is None:
        return bytes(raw), None
    return closed_array([*blocks[:-1], closed_object(last)]), mark


def _images(content: bytes | None) -> int:
    if content is None or not is_array(content):
        return 0
    try:
        return sum(inner.type in MEDIA for inner in _inner.decode(content))
    except msgspec.ValidationError:
        return 0


def definition(raw: Raw) -> ToolDefinition:
    """An element of `tools`; a tool of the provider's own is named by its type."""
    tool = _tool.decode(raw)
    inner = tool.function or tool.custom
    name = (inner.name if inner else "") or tool.name or tool.type
    return ToolDefinition(raw=raw, mark=_mark(tool), size=len(raw), name=name)
