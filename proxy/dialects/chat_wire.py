"""Parts back to chat messages.

A message is one or several on the wire: calls leave in an assistant message, each result in a tool message of its
own right behind, and whatever else stands with them behind those [A101 A105]. Parts that nothing changed leave
as their slices, and members that nothing knows about stay where they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, assert_never

import msgspec
from msgspec import Raw

from ..conversation import (
    Image,
    Mark,
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
from ..rawjson import closed_array, closed_object, encoded, is_array, is_string, items, members
from .chat_parts import (
    ABSENT,
    MARKS,
    REASONING,
    derived_from,
    result_content,
    says_nothing,
    system_parts,
)

Pairs: TypeAlias = list[tuple[str, Raw | bytes]]

_SPOKEN = ("content", "refusal", "audio", "function_call", "tool_calls", *REASONING)
"""Members of an assistant message that are made of parts."""

_ROLE_NAMES = {Role.USER: "user", Role.ASSISTANT: "assistant", Role.SYSTEM: "system"}
_LONG_TTLS = ("30m", "12h")
"""Lifetimes that only the explicit breakpoints of OpenAI's own models have [B104]."""

_string = msgspec.json.Decoder(str)


def written(message: Message) -> list[bytes]:
    """The wire messages of a changed message, in their order."""
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    rest = [part for part in message.parts if not isinstance(part, ToolCall | ToolResult)]
    answered = [_tool_message(result) for result in results]
    if message.role is Role.ASSISTANT:
        spoken = [_assistant(message.frame, [*rest, *calls], bare=message.bare)] if rest or calls else []
        return [*spoken, *answered]
    thought = [part for part in rest if isinstance(part, Reasoning)] if calls else []
    asked = [_assistant((), [*thought, *calls], bare=False)] if calls else []
    said = [part for part in rest if not any(part is other for other in thought)]
    own = [_turn(message, said)] if said or not message.parts else []
    return [*asked, *answered, *own]


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
    _put(pairs, "content", content or b'""')
    return closed_object(pairs)


def _assistant(frame: Sequence[tuple[str, Raw]], parts: Sequence[Part], *, bare: bool) -> bytes:
    """A message of the model: members keep their places, new ones go to the end."""
    new = _spoken(parts, bare=bare or not frame)
    old = dict(frame)
    if "content" not in new and (not frame or "content" in old):
        content = old.get("content", Raw(b"null"))
        calls = "tool_calls" in new or "function_call" in new
        new["content"] = bytes(content) if says_nothing(content) else b"null" if calls else b'""'
    pairs: Pairs = [
        (name, raw) for name, raw in frame if name in new or name not in _SPOKEN or says_nothing(raw)
    ]
    if not frame:
        pairs = [("role", b'"assistant"')]
    for name, value in new.items():
        _put(pairs, name, value)
    return closed_object(pairs)


def _spoken(parts: Sequence[Part], *, bare: bool) -> dict[str, bytes]:
    """The members of an assistant message that these parts are."""
    made: dict[str, bytes] = {}
    content: list[Part] = []
    calls: list[Raw | bytes] = []
    for part in parts:
        if isinstance(part, ToolCall):
            if _is_legacy(part) and "function_call" not in made:
                made["function_call"] = _function(part)
            else:
                calls.append(_call(part))
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
    origin = _origin(part)
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
            pairs: Pairs = [*members(part.base)] if part.base is not None else []
            _put_mark(pairs, part.mark)
            return closed_object(pairs)
        case ToolCall() | ToolResult():
            raise AssertionError("calls and results are no content")
        case _:
            assert_never(part)


def _text_block(part: Text | Reminder, text: str) -> Raw | bytes:
    """A text part. One that came as a refusal stays one."""
    origin = _origin(part)
    pairs: Pairs = [*members(origin)] if origin is not None and not is_string(origin) else []
    kind = next((bytes(raw) for name, raw in pairs if name == "type"), b"")
    if part.raw is not None and kind:
        return part.raw
    if kind not in (b'"text"', b'"refusal"'):
        pairs, kind = [("type", b'"text"')], b'"text"'
        if origin is not None and is_string(origin):
            pairs.append(("text", origin))
    _put(pairs, _string.decode(kind), encoded(text))
    _put_mark(pairs, part.mark)
    return closed_object(pairs)


# -- calls, results, tools -------------------------------------------------------------------------------


def _origin(part: Part) -> Raw | None:
    return part.raw if part.raw is not None else part.base


def _is_legacy(part: ToolCall) -> bool:
    origin = _origin(part)
    if origin is None:
        return (derived_from(part.id) or ("",))[0] == "function"
    return [name for name, _ in members(origin)] == ["function_call"]


def _function(part: ToolCall) -> bytes:
    """The value of `function_call`."""
    origin = _origin(part)
    pairs: Pairs = [*members(dict(members(origin))["function_call"])] if origin is not None else []
    return closed_object(_named(pairs, part, "arguments"))


def _call(part: ToolCall) -> Raw | bytes:
    """An element of `tool_calls`."""
    base = None if _is_legacy(part) else _origin(part)
    if base is None:
        return closed_object(
            (
                ("id", encoded(part.id)),
                ("type", b'"function"'),
                ("function", closed_object(_named([], part, "arguments"))),
            )
        )
    if part.raw is not None:
        return part.raw
    pairs: Pairs = [*members(base)]
    named = dict(pairs)
    if not says_nothing(named.get("id", ABSENT)) or derived_from(part.id) is None:
        _put(pairs, "id", encoded(part.id))
    for kind, given in (("function", "arguments"), ("custom", "input")):
        if kind in named and not says_nothing(named[kind]):
            _put(pairs, kind, closed_object(_named([*members(named[kind])], part, given)))
    return closed_object(pairs)


def _named(pairs: Pairs, part: ToolCall, given: str) -> Pairs:
    """Name and arguments of a call where they stand; arguments are a string unless they came as an object."""
    _put(pairs, "name", encoded(part.name))
    old = dict(pairs).get(given, ABSENT)
    if part.input or not says_nothing(old):
        plain = is_string(old) or says_nothing(old)
        _put(pairs, given, encoded(part.input.decode()) if plain else part.input)
    elif not len(old):
        _put(pairs, given, b'""')
    return pairs


def _tool_message(part: ToolResult) -> bytes:
    """The tool message of a result."""
    if part.raw is not None:
        return bytes(part.raw)
    if part.base is None:
        return closed_object(_new_tool_message(part))
    pairs: Pairs = [*members(part.base)]
    old = dict(pairs).get("content", ABSENT)
    if not says_nothing(dict(pairs).get("tool_call_id", ABSENT)):
        _put(pairs, "tool_call_id", encoded(part.call_id))
    content, mark = result_content(old)
    if content != part.content or mark != part.mark:
        value = part.content if content != part.content else bytes(old)
        _put(pairs, "content", _marked_content(value or b'""', part.mark))
    return closed_object(pairs)


def _new_tool_message(part: ToolResult) -> Pairs:
    content = ("content", _marked_content(part.content or b'""', part.mark))
    match derived_from(part.call_id):
        case ("function", name):
            return [("role", b'"function"'), ("name", encoded(name)), content]
        case ("unnamed", name):
            return [("role", b'"tool"'), *([("name", encoded(name))] if name else []), content]
        case _:
            return [("role", b'"tool"'), ("tool_call_id", encoded(part.call_id)), content]


def _marked_content(content: bytes, mark: Mark | None) -> bytes:
    """The content of a tool message with this mark on its last part."""
    if is_string(content):
        if mark is None:
            return content
        pairs: Pairs = [("type", b'"text"'), ("text", content)]
        _put_mark(pairs, mark)
        return closed_array([closed_object(pairs)])
    if not is_array(content) or not items(content):
        return content
    *blocks, last = items(content)
    pairs = [*members(last)]
    _put_mark(pairs, mark)
    return closed_array([*blocks, closed_object(pairs)])


def written_part(part: Part) -> Raw | bytes:
    """A tool, or another part that stands alone."""
    return _block(part)


# -- members ---------------------------------------------------------------------------------------------


def _put(pairs: Pairs, name: str, value: bytes) -> None:
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


def _put_mark(pairs: Pairs, mark: Mark | None) -> None:
    """Set the mark. One that stands keeps its spelling, and members that this version knows nothing about."""
    at = next((at for at, (name, raw) in enumerate(pairs) if name in MARKS and not says_nothing(raw)), None)
    if at is None:
        if mark is not None:
            _put(pairs, *_new_mark(mark))
        return
    if mark is None:
        pairs[:] = [(name, raw) for name, raw in pairs if name not in MARKS]
        return
    control: Pairs = [*members(pairs[at][1])]
    ttl = next((_string.decode(raw) for name, raw in control if name == "ttl" and is_string(raw)), None)
    if ttl == mark.ttl:
        return
    if mark.ttl is None:
        control = [(name, raw) for name, raw in control if name != "ttl"]
    else:
        _put(control, "ttl", encoded(mark.ttl))
    pairs[at] = (pairs[at][0], closed_object(control))


def _new_mark(mark: Mark) -> tuple[str, bytes]:
    """A mark of ours, in the spelling that has its lifetime [B104 B440]."""
    if mark.ttl in _LONG_TTLS:
        return "prompt_cache_breakpoint", encoded({"mode": "explicit", "ttl": mark.ttl})
    return "cache_control", encoded(
        {"type": "ephemeral"} if mark.ttl is None else {"type": "ephemeral", "ttl": mark.ttl}
    )
