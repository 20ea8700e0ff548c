"""Anthropic Messages: /v1/messages and /v1/messages/count_tokens [A1-A90].

The wire is opened only as deep as an edit goes. A message that nothing touched leaves as the client's slice;
in one that was touched, blocks that were not leave as their slices; in a block that was changed, members that
were not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw, Struct, structs

from ..conversation import (
    Conversation,
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
from ..memo import remembered
from ..rawjson import (
    EMPTY,
    closed_array,
    closed_object,
    holds_nul,
    is_array,
    is_string,
    items,
    members,
    owned,
    without_array,
)
from ..rules import Rules
from ..runs import leaving
from . import Opened
from .answering import ANTHROPIC
from .anthropic_wire import Control, mark_of, written_message, written_part, written_system

ABSENT = Raw(b"")

SHORT_BYTES = 1 << 17
"""Bodies up to this length are opened the plain way: their turns are gone over twice sooner than cut out."""

RULES = Rules(
    results_first=True,  # [A21]
    calls_last=True,  # a text behind a call was refused where the same text before it was not [A20 F1]
    adjacent=True,  # [A20]
    thinking_words="thinking",  # [A43]
    call_id=r"[a-zA-Z0-9_-]+",  # [A24]
    call_id_max=512,
    blank_text=False,  # [A14]
    opens_with_user=True,  # [A11]
    system_follows_user=True,  # [A60]
    marks=4,  # [B3]
)

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")  # [A30]


class _Block(Struct):
    """The members of a content block that this file reads; all others stay in its bytes."""

    type: str
    text: str | None = None
    id: str = ""
    name: str = ""
    input: Raw = ABSENT
    tool_use_id: str = ""
    content: Raw = ABSENT
    is_error: bool | None = None
    signature: str | None = None
    source: Raw = ABSENT
    cache_control: Raw = ABSENT


class _Turns(Struct):
    messages: list[Raw]


class _Definition(Struct):
    name: str = ""
    type: str = ""
    defer_loading: bool | None = None
    cache_control: Raw = ABSENT


class _Media(Struct):
    type: str = ""
    media_type: str = ""
    data: Raw = ABSENT


class _Typed(Struct):
    type: str = ""


class _Head(Struct):
    """What of the envelope matters to the pipeline."""

    model: str = ""
    stream: bool | None = None
    thinking: _Typed | None = None
    cache_control: Control | None = None


_block = msgspec.json.Decoder(_Block)
_turns = msgspec.json.Decoder(_Turns)
_definition = msgspec.json.Decoder(_Definition)
_media = msgspec.json.Decoder(_Media)
_string = msgspec.json.Decoder(str)
_head = msgspec.json.Decoder(_Head)
_typed = msgspec.json.Decoder(_Typed)
_inner = msgspec.json.Decoder(list[_Typed])


CLEARING = b'"clear_tool_uses_'
"""How the strategy begins by which the provider itself clears old results, whatever its date [E1]."""


class Anthropic:
    """The dialect. It has no state."""

    name = "anthropic"
    turns = (("messages",),)
    rules = RULES

    def open(self, body: bytes) -> Opened:
        """See `Dialect.open`."""
        opened = _opened(body) if len(body) > SHORT_BYTES else None
        if opened is not None:
            return opened
        envelope = tuple(members(body))
        raw = dict(envelope).get("messages", ABSENT)
        if not is_array(raw):
            raise BodyError("messages is missing" if raw == ABSENT else "messages is not a list")
        return Opened(envelope, tuple(items(raw)))

    def model(self, opened: Opened, path: str) -> str:  # noqa: ARG002  it stands in the body
        """See `Dialect.model`."""
        return opened.text("model")

    def read(self, opened: Opened, known: Sequence[Message] = ()) -> Conversation:
        """See `Dialect.read`."""
        members_of = dict(opened.envelope)
        wanted = [
            (name, raw)
            for name, raw in opened.envelope
            if name in ("model", "stream", "thinking", "cache_control")
        ]
        for name, raw in opened.envelope:
            if name != "messages":
                _refuse_nul(raw)
        try:
            head = _head.decode(closed_object(wanted))
            system_raw = members_of.get("system", ABSENT)
            fresh = [
                _message(raw.copy(), place)
                for place, raw in enumerate(opened.messages[len(known) :], len(known))
            ]
            return Conversation(
                envelope=opened.envelope,
                tools=_tools(bytes(members_of.get("tools", ABSENT))),
                system=_system(bytes(system_raw)),
                system_bare=len(system_raw) > 0 and is_string(system_raw),
                messages=(*known, *fresh),
                partial="thread" in members_of,  # [A65]
                thinned=CLEARING in bytes(members_of.get("context_management", ABSENT)),  # [E1]
                model=head.model,
                stream=bool(head.stream),
                thinking=head.thinking.type if head.thinking else "",
                automatic_mark=Mark(head.cache_control.ttl) if head.cache_control else None,
            )
        except msgspec.DecodeError as error:
            raise BodyError(f"not a request of this format: {error}") from None

    def sealed(self, message: Message) -> Message:
        """See `Dialect.sealed`."""
        return structs.replace(message, raw=Raw(written_message(message)))

    def write(self, conversation: Conversation) -> bytes:
        """See `Dialect.write`."""
        changed: dict[str, bytes | list[Raw | bytes]] = {"messages": leaving(conversation, _written)}
        if conversation.tools_changed:
            changed["tools"] = closed_array(map(written_part, conversation.tools))
        if conversation.system_changed:
            changed["system"] = written_system(conversation)
        return closed_object((name, changed.get(name, raw)) for name, raw in conversation.envelope)

    def bounded(self, conversation: Conversation, least: int, most: int) -> Conversation | None:
        """See `Dialect.bounded`."""
        if conversation.thinking == "enabled":  # its budget has to be less than the limit
            least, most = 0, 1 << 62
        envelope = ANTHROPIC.bounded(conversation.envelope, least, most)
        return None if envelope is None else structs.replace(conversation, envelope=tuple(envelope))

    def without_reasoning(self, body: bytes) -> bytes:
        """See `Dialect.without_reasoning`."""
        conversation = self.read(self.open(body))
        messages = tuple(_unreasoned(message) for message in conversation.messages)
        if all(new is old for new, old in zip(messages, conversation.messages, strict=True)):
            return body
        return self.write(structs.replace(conversation, messages=messages))


def _opened(body: bytes) -> Opened | None:
    """The body opened going over its turns once; None where it takes the plain way, which goes over them twice."""
    try:
        elements = _turns.decode(body).messages
    except (msgspec.DecodeError, RecursionError):
        return None
    rest = without_array(body, b"messages", elements) if elements else None
    if rest is None:
        return None
    envelope = tuple(members(rest))
    return Opened(envelope, tuple(elements)) if dict(envelope).get("messages") == EMPTY else None


def _written(message: Message) -> tuple[bytes]:
    return (written_message(message),)


def _unreasoned(message: Message) -> Message:
    kept = tuple(part for part in message.parts if not isinstance(part, Reasoning))
    return message if len(kept) == len(message.parts) else structs.replace(message, parts=kept, raw=None)


def _list(raw: Raw) -> list[Raw]:
    return items(raw) if len(raw) and is_array(raw) else []


def _refuse_nul(raw: Raw) -> None:
    """Raise BodyError for what must be mended first: the provider reads no further than a NUL [A4]."""
    if holds_nul(bytes(raw)):
        raise BodyError("a string holds U+0000")


def _message(raw: Raw, index: int) -> Message:
    _refuse_nul(raw)
    frame = tuple(members(raw))
    named = dict(frame)
    role = _ROLES.get(_string.decode(named["role"]), Role.META) if "role" in named else Role.META
    content = named.get("content", ABSENT)
    parts = tuple(_content(content)) if len(content) else ()
    if not parts:
        parts = (Text(text=""),)  # a message that says nothing still is something an edit can name
    return Message(
        role=role,
        parts=parts,
        raw=raw,
        frame=frame,
        bare=len(content) > 0 and is_string(content),
        index=index,
    )


def _content(raw: Raw) -> Iterable[Part]:
    """The parts of a content: a string is one text block [A13]."""
    if is_string(raw):
        yield Text(raw=raw, text=_string.decode(raw), size=len(raw))
    elif is_array(raw):
        for block in items(raw):
            yield _part(block)


def _part(raw: Raw) -> Part:
    """A block. One with members of other types than known, a newer form perhaps, passes as it came."""
    try:
        block = _block.decode(raw)
        return _known(raw, block, mark_of(block.cache_control))
    except msgspec.ValidationError:
        return Opaque(raw=raw, size=len(raw), kind=_typed.decode(raw).type)


def _known(raw: Raw, block: _Block, mark: Mark | None) -> Part:
    size = len(raw)
    match block.type:
        case "text" if block.text is not None:
            return Text(raw=raw, mark=mark, size=size, text=block.text)
        case "tool_use" if len(block.input):
            return ToolCall(
                raw=raw, mark=mark, size=size, id=block.id, name=block.name, input=bytes(block.input)
            )
        case "tool_result":
            return _result(raw, block, mark)
        case "thinking":
            return Reasoning(raw=raw, mark=mark, size=size, signature=block.signature or "")
        case "redacted_thinking":
            return Reasoning(raw=raw, mark=mark, size=size, signature="redacted", redacted=True)
        case "image" | "document":
            media = _media.decode(block.source) if len(block.source) else _Media()
            return Image(
                raw=raw,
                mark=mark,
                size=size,
                media_type=media.media_type,
                data_bytes=max(0, len(media.data) - 2),
            )
        case kind if kind in _SERVER_CALLS:
            return ToolCall(
                raw=raw,
                mark=mark,
                size=size,
                id=block.id,
                name=block.name,
                input=bytes(block.input) or b"{}",
                server=True,
            )
        case kind if kind.endswith("_tool_result"):
            return ToolResult(
                raw=raw,
                mark=mark,
                size=size,
                call_id=block.tool_use_id,
                content=bytes(block.content) or None,
                server=True,
            )
        case kind:
            return Opaque(raw=raw, mark=mark, size=size, kind=kind)


def _result(raw: Raw, block: _Block, mark: Mark | None) -> ToolResult:
    content = b"" if bytes(block.content) == b"null" else block.content
    images = (
        sum(inner.type == "image" for inner in _inner.decode(content))
        if len(content) and is_array(content)
        else 0
    )
    return ToolResult(
        raw=raw,
        mark=mark,
        size=len(raw),
        call_id=block.tool_use_id,
        content=bytes(content) if len(content) else None,
        is_error=bool(block.is_error),
        images=images,
    )


@remembered
def _system(raw: bytes) -> tuple[Part, ...]:
    return tuple(_content(Raw(raw))) if raw else ()


@remembered
def _tools(raw: bytes) -> tuple[ToolDefinition, ...]:
    return tuple(_tool(owned(one)) for one in _list(Raw(raw)))


def _tool(raw: Raw) -> ToolDefinition:
    definition = _definition.decode(raw)
    return ToolDefinition(
        raw=raw,
        mark=mark_of(definition.cache_control),
        size=len(raw),
        name=definition.name or definition.type,
        deferred=bool(definition.defer_loading),
    )
