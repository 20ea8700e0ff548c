"""Parts back to chat messages.

A message is one or several on the wire: calls leave in an assistant message, each result in a tool message of its
own right behind, and whatever else stands with them behind those [A101 A105]. Parts that nothing changed leave
as their slices, and members that nothing knows about stay where they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

import msgspec
from msgspec import Raw

from ..conversation import (
    Image,
    Message,
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
from ..inline import Inline, base_of
from ..rawjson import closed_array, closed_object, encoded, is_array, is_string, items, members
from .chat_calls import is_legacy, origin_of, written_call, written_function, written_result
from .chat_marks import ABSENT, Pairs, put, put_mark, says_nothing
from .chat_parts import REASONING, system_parts

_SPOKEN = ("content", "refusal", "audio", "function_call", "tool_calls", *REASONING)
"""Members of an assistant message that are made of parts."""

_SPEAKS = ("tool_calls", "function_call", "refusal", "audio")
"""Members beside which the content may be null [A103]."""

_ROLE_NAMES = {Role.USER: "user", Role.ASSISTANT: "assistant", Role.SYSTEM: "system"}
_string = msgspec.json.Decoder(str)


def written(message: Message) -> list[bytes]:
    """The wire messages of a changed message, in their order."""
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    rest = [part for part in message.parts if not isinstance(part, ToolCall | ToolResult)]
    answered = [written_result(result) for result in results]
    if message.role is Role.ASSISTANT:
        spoken = [_assistant(message.frame, [*rest, *calls], bare=message.bare)] if rest or calls else []
        return [*spoken, *answered]
    thought = [part for part in rest if isinstance(part, Reasoning)] if calls else []
    asked = [_assistant((), [*thought, *calls], bare=False)] if calls else []
    said = [part for part in rest if not any(part is other for other in thought)]
    own = [_turn(message, said)] if said or not message.parts else []
    return [*asked, *answered, *own]


def joined_system(parts: Sequence[Part], lead: Sequence[Raw]) -> Iterator[Raw | bytes]:
    """One leading message with all these parts, in the frame of the first: a string where all of them are text."""
    if parts:
        frame = tuple(members(lead[0]))
        yield _framed(frame, "system", plain_text(parts) or _content(parts, bare=False))


def plain_text(parts: Sequence[Part]) -> bytes | None:
    """The parts as one string, as which it is spelt whether the client wrote strings or lists, with empty texts or
    without; None where one of them is more than text."""
    texts = [part.text for part in parts if isinstance(part, Text | Reminder) and _is_plain(part)]
    # The model reads what stands between. Changing it invalidates prompt caches.
    return encoded("\n\n".join(filter(None, texts))) if len(texts) == len(parts) else None


def _is_plain(part: Part) -> bool:
    origin = origin_of(part)
    if part.mark is not None or origin is None or is_string(origin):
        return part.mark is None
    return {key for key, _ in members(origin)} <= {"type", "text"}


def written_system(parts: Sequence[Part], lead: Sequence[Raw]) -> Iterator[Raw | bytes]:
    """The leading messages with these parts: each part in the message it came in, a new one beside its neighbour."""
    origins = [(at, bytes(part.raw or b"")) for at, raw in enumerate(lead) for part in system_parts(raw)]
    placed = _placed(parts, origins)
    for at, raw in enumerate(lead):
        came = [part for home, part in origins if home == at]
        now = [part for home, part in zip(placed, parts, strict=True) if home == at]
        if [bytes(part.raw) if part.raw is not None else None for part in now] == came:
            yield raw
        elif now:
            frame = tuple(members(raw))
            bare = is_string(dict(frame).get("content", ABSENT))
            yield _framed(frame, "system", _content(now, bare=bare))


def _placed(parts: Sequence[Part], origins: Sequence[tuple[int, bytes]]) -> list[int]:
    """For each part the leading message it belongs to."""
    left = list(enumerate(origins))
    homes: list[int | None] = []
    for part in parts:
        origin = part.raw if part.raw is not None else part.base
        found = next((one for one in left if origin is not None and one[1][1] == bytes(origin)), None)
        if found is not None:
            left.remove(found)
        homes.append(None if found is None else found[1][0])
    known = next((home for home in homes if home is not None), 0)
    placed: list[int] = []
    for home in homes:
        known = known if home is None else home
        placed.append(known)
    return placed


# -- messages --------------------------------------------------------------------------------------------


def _turn(message: Message, parts: Sequence[Part]) -> bytes:
    """A message of anybody but the model."""
    old = dict(message.frame).get("content", ABSENT)
    content = _content(parts, bare=message.bare or not message.frame)
    if content is None:
        content = bytes(old) if len(old) and says_nothing(old) else b'""'
    return _framed(message.frame, _ROLE_NAMES.get(message.role, "user"), content)


def _framed(frame: Sequence[tuple[str, Raw]], role: str, content: bytes | None) -> bytes:
    pairs: Pairs = [*frame] or [("role", encoded(role))]
    put(pairs, "content", content or b'""')
    return closed_object(pairs)


def _assistant(frame: Sequence[tuple[str, Raw]], parts: Sequence[Part], *, bare: bool) -> bytes:
    """A message of the model: members keep their places, new ones go to the end."""
    new = _spoken(parts, bare=bare or not frame)
    old = dict(frame)
    if "content" not in new and (not frame or "content" in old):
        content = old.get("content", ABSENT)
        says_else = any(not says_nothing(new.get(name, b"")) for name in _SPEAKS)
        stays = says_nothing(content) and len(content) and (says_else or bytes(content) != b"null")
        new["content"] = bytes(content) if stays else b"null" if says_else else b'""'
    pairs: Pairs = [
        (name, raw)
        for name, raw in frame
        if name in new or name not in _SPOKEN or (says_nothing(raw) and not _is_void(name, raw))
    ]
    if not frame:
        pairs = [("role", b'"assistant"')]
    for name, value in new.items():
        put(pairs, name, value)
    return closed_object(pairs)


def _is_void(name: str, raw: Raw) -> bool:
    """Whether the member is one that is a part though it holds nothing [A103]."""
    return name == "tool_calls" and is_array(raw)


def _spoken(parts: Sequence[Part], *, bare: bool) -> dict[str, bytes]:
    """The members of an assistant message that these parts are."""
    made: dict[str, bytes] = {}
    content: list[Part] = []
    calls: list[Raw | bytes] = []
    for part in parts:
        if isinstance(part, ToolCall):
            if is_legacy(part) and "function_call" not in made:
                made["function_call"] = written_function(part)
            else:
                calls.append(written_call(part))
            continue
        own = _members_of(part)
        if own is None:
            content.append(part)
        for name, value in own or ():
            made[name] = _joined(made[name], value) if name in made else value
    said = _content(content, bare=bare)
    if said is not None:
        made["content"] = said
    if calls:
        made["tool_calls"] = closed_array(calls)
    return made


def _members_of(part: Part) -> list[tuple[str, bytes]] | None:
    """The members of its message that a part is; None for a part of the content."""
    origin = origin_of(part)
    if origin is None or is_string(origin):
        return None
    pairs = members(origin)
    if any(name == "type" for name, _ in pairs) or not all(name in _SPOKEN for name, _ in pairs):
        return None
    if isinstance(part, Text | Reminder) and part.raw is None:
        return [("refusal", encoded(part.text))]
    return [(name, bytes(raw)) for name, raw in pairs]


def _joined(one: bytes, other: bytes) -> bytes:
    """A member that two parts are, where messages were made one."""
    if is_string(one) and is_string(other):
        return encoded(_string.decode(one) + _string.decode(other))
    if is_array(one) and is_array(other):
        return closed_array([*items(one), *items(other)])
    return other


# -- content ---------------------------------------------------------------------------------------------


def _content(parts: Sequence[Part], *, bare: bool) -> bytes | None:
    """A content; None where nothing is left to say."""
    match [part for part in parts if not _is_nothing(part)]:
        case []:
            return None
        case [Text() | Reminder() as only] if bare and only.mark is None:
            return bytes(only.raw) if only.raw is not None and is_string(only.raw) else encoded(only.text)
        case kept:
            return closed_array(map(_block, kept))


def _is_nothing(part: Part) -> bool:
    return isinstance(part, Text) and not part.text and part.raw is None and part.base is None


def _block(part: Part) -> Raw | bytes:
    """A part of a content, as an object: never a string inside a list."""
    match part:
        case Text(text=text) | Reminder(text=text):
            return _text_block(part, text)
        case Image() | Opaque() | Reasoning() | ToolDefinition():
            if part.raw is not None:
                return part.raw
            base = (
                base_of(part.base, Inline(part.media_type, part.data))
                if isinstance(part, Image)
                else part.base
            )
            pairs: Pairs = [*members(base)] if base is not None else []
            put_mark(pairs, part.mark)
            return closed_object(pairs)
        case ToolCall() | ToolResult():
            raise AssertionError("calls and results are no content")
        case _:
            assert_never(part)


def _text_block(part: Text | Reminder, text: str) -> Raw | bytes:
    """A text part. One that came as a refusal stays one."""
    origin = origin_of(part)
    pairs: Pairs = [*members(origin)] if origin is not None and not is_string(origin) else []
    kind = next((bytes(raw) for name, raw in pairs if name == "type"), b"")
    if part.raw is not None and kind:
        return part.raw
    if kind not in (b'"text"', b'"refusal"'):
        pairs, kind = [("type", b'"text"')], b'"text"'
        if origin is not None and is_string(origin):
            pairs.append(("text", origin))
    put(pairs, _string.decode(kind), encoded(text))
    put_mark(pairs, part.mark)
    return closed_object(pairs)


def written_part(part: Part) -> Raw | bytes:
    """A tool, or another part that stands alone."""
    return _block(part)
