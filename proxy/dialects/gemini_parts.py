"""Parts of Gemini contents, from the wire and back [A300-A309].

A part is an object with one data member (`text`, `functionCall`, ...) and members about it (`thought`,
`thoughtSignature`, ...). Every member has two spellings, camelCase and snake_case; the client's stays. A signature
belongs to its very part [A305]: it stays in the part's bytes, and so survives what is changed beside it.
"""

from __future__ import annotations

from typing import assert_never

import msgspec
from msgspec import Raw, Struct, field

from ..conversation import (
    Image,
    Opaque,
    Part,
    Reasoning,
    Reminder,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from ..inline import Inline, with_inline
from ..rawjson import closed_object, encoded, is_string, members
from .gemini_pairing import inward, outward

ABSENT = Raw(b"")

Pairs = list[tuple[str, Raw | bytes]]
"""Members of an object, in order."""

_ABOUT = frozenset({"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"})
"""Members that say something about a part, and are not what it says."""


class _Call(Struct):
    id: str | None = None
    name: str | None = None
    args: Raw = ABSENT


class _Response(Struct):
    id: str | None = None
    name: str | None = None
    response: Raw = ABSENT
    parts: list[dict[str, Raw]] | None = None


class _Media(Struct):
    mime: str | None = field(name="mimeType", default=None)
    mime_snake: str | None = field(name="mime_type", default=None)
    data: Raw = ABSENT


class _Part(Struct):
    """The members of a part that this file reads, in both spellings; all others stay in its bytes."""

    text: str | None = None
    thought: bool | None = None
    signature: str | None = field(name="thoughtSignature", default=None)
    signature_snake: str | None = field(name="thought_signature", default=None)
    call: _Call | None = field(name="functionCall", default=None)
    call_snake: _Call | None = field(name="function_call", default=None)
    response: _Response | None = field(name="functionResponse", default=None)
    response_snake: _Response | None = field(name="function_response", default=None)
    inline: _Media | None = field(name="inlineData", default=None)
    inline_snake: _Media | None = field(name="inline_data", default=None)
    file: _Media | None = field(name="fileData", default=None)
    file_snake: _Media | None = field(name="file_data", default=None)


_part = msgspec.json.Decoder(_Part)
_opened = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)


def camel(name: str) -> str:
    """The camelCase spelling of a member's name."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


# -- from the wire ---------------------------------------------------------------------------------------


def read_part(raw: Raw) -> Part:
    """A part; one in a form that this version does not know passes as it came."""
    try:
        part = _part.decode(raw)
    except msgspec.ValidationError:
        return _opaque(raw)
    said = (
        part.text,
        part.call,
        part.call_snake,
        part.response,
        part.response_snake,
        part.inline,
        part.inline_snake,
        part.file,
        part.file_snake,
    )
    match [data for data in said if data is not None]:
        case [str() as text]:
            return _text(raw, part, text)
        case [_Call() as call]:
            return _call(raw, part, call)
        case [_Response() as response]:
            return _result(raw, response)
        case [_Media() as media]:
            return _image(raw, media)
        case [] if _kind(raw) is None:
            return _text(raw, part, "")
        case _:
            return _opaque(raw)


def _opaque(raw: Raw) -> Opaque:
    return Opaque(raw=raw, size=len(raw), kind=_kind(raw) or "")


def _kind(raw: Raw) -> str | None:
    """What an unknown part calls itself: the first member that is not about another; None where there is none."""
    try:
        named = _opened.decode(raw)
    except msgspec.ValidationError:
        return ""
    return next((name for name in named if camel(name) not in _ABOUT), None)


def _text(raw: Raw, part: _Part, text: str) -> Part:
    """A text, or thinking: said aloud, or a signature that came on a text without words [A305 C300]."""
    signature = _signature(part)
    if (part.thought and text) or (signature and not text.strip()):
        return Reasoning(raw=raw, size=len(raw), signature=signature)
    return Text(raw=raw, size=len(raw), text=text)


def _signature(part: _Part) -> str:
    return part.signature or part.signature_snake or ""


def _call(raw: Raw, part: _Part, call: _Call) -> ToolCall:
    arguments = bytes(call.args)
    return ToolCall(
        raw=raw,
        size=len(raw),
        id=inward(call.id),
        name=call.name or "",
        input=b"{}" if arguments in (b"", b"null") else arguments,
        signature=_signature(part),
    )


def _result(raw: Raw, response: _Response) -> ToolResult:
    content, is_error = _content(response.response)
    return ToolResult(
        raw=raw,
        size=len(raw),
        call_id=inward(response.id),
        content=content,
        is_error=is_error,
        images=sum(camel(name) == "inlineData" for part in response.parts or () for name in part),
        name=response.name or "",
    )


def _content(response: Raw | bytes) -> tuple[bytes | None, bool]:
    """What a response says, and whether it is an error: a text under `output` or `error` alone, else the object.

    These are the names the API gives to what a function returns; any other object is all output [A309].
    """
    if bytes(response) in (b"", b"null"):
        return None, False
    try:
        named = _opened.decode(response)
    except msgspec.ValidationError:
        return bytes(response), False
    match [*named.items()]:
        case [("output" | "error" as name, text)] if is_string(text):
            return bytes(text), name == "error"
        case [("error", _)]:
            return bytes(response), True
        case _:
            return bytes(response), False


def _image(raw: Raw, media: _Media) -> Image:
    return Image(
        raw=raw,
        size=len(raw),
        media_type=media.mime or media.mime_snake or "",
        data_bytes=max(0, len(media.data) - 2),
    )


# -- back to the wire ------------------------------------------------------------------------------------


def written_part(part: Part) -> Raw | bytes:
    """The bytes a part leaves in: its own, or those it started from with what it says now.

    Raises BodyError where those name a member twice, so that nobody can say which is meant.
    """
    if part.raw is not None:
        return part.raw
    base: Pairs = [] if part.base is None else [*members(part.base)]
    match part:
        case Text(text=text) | Reminder(text=text):
            name, value = "text", encoded(text)
            # What a text of ours says is no thought.
            base = [(known, raw) for known, raw in base if known != "thought"]
        case ToolCall():
            name, value = "functionCall", _written_call(part, _inner(base, "functionCall"))
        case ToolResult():
            name, value = "functionResponse", _written_result(part, _inner(base, "functionResponse"))
        case Image(media_type=kind, data=data) if data and part.base is not None:
            return with_inline(part.base, Inline(kind, data))
        case Image() | Reasoning() | ToolDefinition() | Opaque():
            return closed_object(base)
        case _:
            assert_never(part)
    if all(camel(known) != name for known, _ in base):
        base = []  # it was another kind of part: what was said about that does not hold
    put(base, name, value)
    if isinstance(part, ToolCall) and part.signature:
        put(base, "thoughtSignature", encoded(part.signature))
    return closed_object(base)


def _inner(pairs: Pairs, name: str) -> Pairs:
    """The members of the data member `name`, none where there is none."""
    raw = next((raw for known, raw in pairs if camel(known) == name), None)
    return [] if raw is None else [*members(raw)]


def _written_call(part: ToolCall, pairs: Pairs) -> bytes:
    _put_id(pairs, part.id)
    put(pairs, "name", encoded(part.name))
    if part.input != b"{}" or _value(pairs, "args") not in (None, b"null"):
        put(pairs, "args", part.input)
    return closed_object(pairs)


def _written_result(part: ToolResult, pairs: Pairs) -> bytes:
    _put_id(pairs, part.call_id)
    if part.name or not pairs:
        put(pairs, "name", encoded(part.name))
    response = _written_response(part, _value(pairs, "response") or b"")
    if response is not None:
        put(pairs, "response", response)
    return closed_object(pairs)


def _written_response(part: ToolResult, base: bytes) -> bytes | None:
    """The response as an object [A309]; the client's own bytes where they say the same."""
    if part.content is None or _content(base) == (part.content, part.is_error):
        return None
    if bytes(part.content[:1]) == b"{":
        return part.content
    return closed_object([("error" if part.is_error else "output", part.content)])


def _put_id(pairs: Pairs, call_id: str) -> None:
    """Say the id, unless it is one of ours: then what stands there, if anything, still holds."""
    wire = outward(call_id)
    if wire is not None:
        put(pairs, "id", encoded(wire), first=True)


def _value(pairs: Pairs, name: str) -> bytes | None:
    return next((bytes(raw) for known, raw in pairs if known == name), None)


def put(pairs: Pairs, name: str, value: Raw | bytes, *, first: bool = False) -> None:
    """Set a member where it stands, in its spelling there, else at the end. An equal value is not respelt."""
    for at, (known, raw) in enumerate(pairs):
        if camel(known) == name:
            if not _equal(raw, value):
                pairs[at] = (known, value)
            return
    pairs.insert(0 if first else len(pairs), (name, value))


def _equal(raw: Raw | bytes, value: Raw | bytes) -> bool:
    if bytes(raw) == bytes(value):
        return True
    return is_string(raw) and is_string(value) and _string.decode(raw) == _string.decode(value)
