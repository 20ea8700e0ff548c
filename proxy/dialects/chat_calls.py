"""Calls, their results and the tools on offer, read and written back [A101-A105].

A call's own bytes are its element of `tool_calls`, or the member `function_call`; a result's are its whole tool message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from ..conversation import Mark, Message, Part, ToolCall, ToolDefinition, ToolResult
from ..errors import BodyError
from ..rawjson import closed_array, closed_object, encoded, is_array, is_string, items, members
from .chat_marks import ABSENT, MARKS, Pairs, marked_content, put, read_mark, says_nothing

MEDIA = ("image_url", "input_audio", "file", "video_url")
"""Content parts that are no text; the member of the same name holds the data."""

_DERIVED = re.compile(r"(function|unnamed)-\d+-\d+-(.*)", re.DOTALL)


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


class _Marked(Struct):
    cache_control: Raw = ABSENT
    prompt_cache_breakpoint: Raw = ABSENT


class _Typed(Struct):
    type: str = ""


_named = msgspec.json.Decoder(_Named)
_call = msgspec.json.Decoder(_Call)
_result = msgspec.json.Decoder(_Result)
_tool = msgspec.json.Decoder(_Tool)
_marked = msgspec.json.Decoder(_Marked)
_inner = msgspec.json.Decoder(list[_Typed])
_string = msgspec.json.Decoder(str)


# -- read ------------------------------------------------------------------------------------------------


def read_call(raw: Raw, place: int, nth: int) -> ToolCall:
    """An element of `tool_calls`; one of a kind this version does not know is named by its kind."""
    call = _call.decode(raw)
    inner = call.function or call.custom
    name = inner.name if inner else call.type or ""
    given = call.function.arguments if call.function else call.custom.input if call.custom else ABSENT
    call_id = call.id or _derived("unnamed", place, nth, name)
    return ToolCall(raw=raw, size=len(raw), id=call_id, name=name, input=_argument_bytes(given))


def read_function(value: Raw, place: int) -> ToolCall:
    """The value of a legacy `function_call`; the call's own bytes are the member."""
    call = _named.decode(value)
    raw = Raw(closed_object([("function_call", value)]))
    call_id = _derived("function", place, 0, call.name)
    return ToolCall(raw=raw, size=len(raw), id=call_id, name=call.name, input=_argument_bytes(call.arguments))


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


def read_results(raw: Raw, place: int, before: Message | None) -> Iterator[ToolResult]:
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
        marked = _marked.decode(blocks[-1])
        mark = read_mark(marked.cache_control, marked.prompt_cache_breakpoint)
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


def read_tool(raw: Raw) -> ToolDefinition:
    """An element of `tools`; a tool of the provider's own is named by its type."""
    tool = _tool.decode(raw)
    inner = tool.function or tool.custom
    name = (inner.name if inner else "") or tool.name or tool.type
    return ToolDefinition(
        raw=raw, mark=read_mark(tool.cache_control, tool.prompt_cache_breakpoint), size=len(raw), name=name
    )


# -- written ---------------------------------------------------------------------------------------------


def origin_of(part: Part) -> Raw | None:
    return part.raw if part.raw is not None else part.base


def is_legacy(part: ToolCall) -> bool:
    origin = origin_of(part)
    if origin is None:
        return (derived_from(part.id) or ("",))[0] == "function"
    return [name for name, _ in members(origin)] == ["function_call"]


def written_function(part: ToolCall) -> bytes:
    """The value of `function_call`."""
    origin = origin_of(part)
    pairs: Pairs = [*members(dict(members(origin))["function_call"])] if origin is not None else []
    return closed_object(_written_name(pairs, part, "arguments"))


def written_call(part: ToolCall) -> Raw | bytes:
    """An element of `tool_calls`."""
    base = None if is_legacy(part) else origin_of(part)
    if base is None:
        return closed_object(
            (
                ("id", encoded(part.id)),
                ("type", b'"function"'),
                ("function", closed_object(_written_name([], part, "arguments"))),
            )
        )
    if part.raw is not None:
        return part.raw
    pairs: Pairs = [*members(base)]
    named = dict(pairs)
    if not says_nothing(named.get("id", ABSENT)) or derived_from(part.id) is None:
        put(pairs, "id", encoded(part.id))
    for kind, given in (("function", "arguments"), ("custom", "input")):
        if kind in named and not says_nothing(named[kind]):
            put(pairs, kind, closed_object(_written_name([*members(named[kind])], part, given)))
    return closed_object(pairs)


def _written_name(pairs: Pairs, part: ToolCall, given: str) -> Pairs:
    """Name and arguments of a call where they stand; arguments are a string unless they came as an object."""
    put(pairs, "name", encoded(part.name))
    old = dict(pairs).get(given, ABSENT)
    if part.input or not says_nothing(old):
        plain = is_string(old) or says_nothing(old)
        put(pairs, given, encoded(part.input.decode()) if plain else part.input)
    elif not len(old):
        put(pairs, given, b'""')
    return pairs


def written_result(part: ToolResult) -> bytes:
    """The tool message of a result."""
    if part.raw is not None:
        return bytes(part.raw)
    if part.base is None:
        return closed_object(_new_tool_message(part))
    pairs: Pairs = [*members(part.base)]
    old = dict(pairs).get("content", ABSENT)
    if not says_nothing(dict(pairs).get("tool_call_id", ABSENT)):
        put(pairs, "tool_call_id", encoded(part.call_id))
    content, mark = result_content(old)
    if content != part.content or mark != part.mark:
        value = part.content if content != part.content else bytes(old)
        put(pairs, "content", marked_content(value or b'""', part.mark))
    return closed_object(pairs)


def _new_tool_message(part: ToolResult) -> Pairs:
    content = ("content", marked_content(part.content or b'""', part.mark))
    match derived_from(part.call_id):
        case ("function", name):
            return [("role", b'"function"'), ("name", encoded(name)), content]
        case ("unnamed", name):
            return [("role", b'"tool"'), *([("name", encoded(name))] if name else []), content]
        case _:
            return [("role", b'"tool"'), ("tool_call_id", encoded(part.call_id)), content]
