"""Anthropic Messages, back to the wire: what nothing touched as it came, what was changed member by member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec
from msgspec import Raw, Struct

from ..conversation import (
    Conversation,
    Image,
    Mark,
    Message,
    Opaque,
    Part,
    Reasoning,
    Reminder,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from ..inline import Inline, base_of
from ..rawjson import closed_array, closed_object, encoded, is_string, members


class Control(Struct):
    """A cache mark as spelt; other members of it stay in its bytes [B3]."""

    ttl: str | None = None


_string = msgspec.json.Decoder(str)
_control = msgspec.json.Decoder(Control | None)


def mark_of(raw: Raw | bytes) -> Mark | None:
    """The mark that `cache_control` sets; None where it is absent or null. Raises msgspec.DecodeError."""
    if not len(raw):
        return None
    control = _control.decode(raw)
    return None if control is None else Mark(control.ttl)


def written_message(message: Message) -> bytes:
    content = _written_content(message.parts, bare=message.bare)
    if not message.frame:
        return closed_object((("role", encoded(message.role.value)), ("content", content)))
    pairs = [(name, content if name == "content" else raw) for name, raw in message.frame]
    if all(name != "content" for name, _ in pairs):
        pairs.append(("content", content))
    return closed_object(pairs)


def _written_content(parts: Sequence[Part], *, bare: bool) -> bytes:
    match parts:
        case [Text() | Reminder() as only] if bare and only.mark is None:
            if only.raw is not None and is_string(only.raw):
                return bytes(only.raw)
            return encoded(only.text)
        case _:
            return closed_array(written_part(part) for part in parts if not _is_nothing(part))


def _is_nothing(part: Part) -> bool:
    return isinstance(part, Text) and not part.text and part.raw is None and part.base is None


def written_system(conversation: Conversation) -> bytes:
    return _written_content(conversation.system, bare=conversation.system_bare)


def written_part(part: Part) -> Raw | bytes:
    if part.raw is not None:
        return closed_object(_text_members(part.raw)) if is_string(part.raw) else part.raw
    own = _own_members(part)
    pairs = _base_members(part, own)
    for name, value in own.items():
        _put(pairs, name, value)
    _put_mark(pairs, part.mark)
    return closed_object(pairs)


def _text_members(raw: Raw | bytes) -> list[tuple[str, Raw | bytes]]:
    """A bare string as a block: it must never stand as a string inside a list of blocks."""
    return [("type", b'"text"'), ("text", raw)]


def _base_members(part: Part, own: dict[str, bytes | None]) -> list[tuple[str, Raw | bytes]]:
    """What of the bytes the part started from still holds: all members if it is the same kind of block."""
    base = base_of(part.base, Inline(part.media_type, part.data)) if isinstance(part, Image) else part.base
    if base is None:
        return []
    pairs: list[tuple[str, Raw | bytes]] = _text_members(base) if is_string(base) else [*members(base)]
    kind = next((bytes(raw) for name, raw in pairs if name == "type"), None)
    return pairs if "type" not in own or kind == own["type"] else []


def _put(pairs: list[tuple[str, Raw | bytes]], name: str, value: bytes | None) -> None:
    """Set a member where it stands, else at the end; None takes it away. An equal value is not respelt."""
    for at, (known, raw) in enumerate(pairs):
        if known == name:
            if value is None and bytes(raw) != b"null":
                del pairs[at]
            elif value is not None and not _equal(raw, value):
                pairs[at] = (name, value)
            return
    if value is not None:
        pairs.append((name, value))


def _put_mark(pairs: list[tuple[str, Raw | bytes]], mark: Mark | None) -> None:
    """Set the mark. One that stands keeps its spelling, and members that this version knows nothing about."""
    raw = next((raw for name, raw in pairs if name == "cache_control"), b"null")
    if mark_of(raw) == mark:
        return
    if mark is None:
        _put(pairs, "cache_control", None)
        return
    if bytes(raw) == b"null":
        _put(pairs, "cache_control", _control_of(mark))
        return
    control: list[tuple[str, Raw | bytes]] = [*members(raw)]
    _put(control, "ttl", None if mark.ttl is None else encoded(mark.ttl))
    _put(pairs, "cache_control", closed_object(control))


def _equal(raw: Raw | bytes, value: bytes) -> bool:
    if bytes(raw) == value:
        return True
    return is_string(raw) and is_string(value) and _string.decode(raw) == _string.decode(value)


def _own_members(part: Part) -> dict[str, bytes | None]:
    """The members that the part's fields speak for; None takes a member away."""
    match part:
        case Text(text=text) | Reminder(text=text):
            return {"type": b'"text"', "text": encoded(text)}
        case ToolCall(server=False):
            return {
                "type": b'"tool_use"',
                "id": encoded(part.id),
                "name": encoded(part.name),
                "input": part.input,
            }
        case ToolResult(server=False):
            own: dict[str, bytes | None] = {
                "type": b'"tool_result"',
                "tool_use_id": encoded(part.call_id),
                "content": part.content,
            }
            return own | {"is_error": b"true"} if part.is_error else own
        case Reasoning(redacted=False, signature=signature) if signature:
            return {"signature": encoded(signature)}
        case ToolCall() | ToolResult() | Image() | Reasoning() | ToolDefinition() | Opaque():
            return {}
        case _:
            assert_never(part)


def _control_of(mark: Mark) -> bytes:
    return encoded({"type": "ephemeral"} if mark.ttl is None else {"type": "ephemeral", "ttl": mark.ttl})
