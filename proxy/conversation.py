"""What a request says, in parts.

A request body is a `Conversation`: an envelope (every top-level member, as the client spelt it), the
parts of `tools` and `system`, and messages made of parts. The order is *prompt order* - tools, system,
turns - whatever order the JSON members come in, for that is the order in which providers cache [B1].

Every value here is immutable. `raw` is the client's own bytes and leaves as it came; `raw` is None where
the proxy made or changed the part, and then `base` holds the client's bytes it started from, so that
members this version knows nothing about survive the change.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cached_property
from typing import assert_never

from msgspec import Raw, Struct

Key = bytes
"""Identity of the prefix that ends at a part: 16 bytes, chained (see `identity`)."""

NO_KEY: Key = b""


class Role(StrEnum):
    """Who speaks. `meta` is whatever carries no turn of its own (unknown roles, directives)."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"
    META = "meta"


class Source(StrEnum):
    """Where text in a prompt comes from: people, the model, tools, or one of the harness' injections."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOLS = "tools"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    MEDIA = "media"
    ENVIRONMENT = "environment"
    PROJECT_FILES = "project_files"
    EDITOR = "editor"
    EXPANDED_INPUT = "expanded_input"
    REMINDER = "reminder"
    OTHER = "other"


class Mark(Struct, frozen=True):
    """A cache breakpoint at the end of a part [B3]. `ttl` as the provider spells it; None is its default. `explicit`: in
    the spelling of OpenAI's own models, beside the marks that these set themselves [B104]."""

    ttl: str | None = None
    explicit: bool = False


class Piece(Struct, frozen=True, kw_only=True, tag=True):
    """What all parts have in common.

    `key` is the identity of the prefix that ends with this part. Parts that say nothing (reasoning, empty
    text) share the key of what stands before them and are told apart by `nth`, counted for each kind of
    them; 0 is the part that gave the key. `size` is the part's length on the wire in bytes.
    """

    raw: Raw | None = None
    base: Raw | None = None
    key: Key = NO_KEY
    nth: int = 0
    mark: Mark | None = None
    size: int = 0


class Text(Piece, frozen=True, kw_only=True):
    """Text of a person, the model, or the system prompt."""

    text: str


class Reminder(Piece, frozen=True, kw_only=True):
    """Text that a harness or the proxy put in, recognised as such: `source` says what it is."""

    text: str
    source: Source
    name: str


class Image(Piece, frozen=True, kw_only=True):
    """An image or document. `media_type` as declared, `data_bytes` its length as sent (base64).

    `data`: the image that leaves instead of the one in `base`, as base64; "" in the client's.
    """

    media_type: str
    data_bytes: int
    data: str = ""


class ToolCall(Piece, frozen=True, kw_only=True):
    """A call of a tool. `input` is the argument object as JSON. `server` calls are answered upstream [A30].

    `signature`: what a model signed the call with, where calls themselves are signed [A304].
    `kind`: its form where a format has several, each with an answer of its own [A201].
    """

    id: str
    name: str
    input: bytes
    server: bool = False
    signature: str = ""
    kind: str = ""


class ToolResult(Piece, frozen=True, kw_only=True):
    """The answer to a call. `content` is JSON as sent (string or list of blocks), None where absent.

    `name`: the tool's, where results say it; what is made in a result's place says it too.
    `kind`: in one of ours the form of the call it answers; nothing is to be known of it in the client's.
    """

    call_id: str
    content: bytes | None
    is_error: bool = False
    server: bool = False
    images: int = 0
    name: str = ""
    kind: str = ""


class Reasoning(Piece, frozen=True, kw_only=True):
    """Thinking of the model. `signature` is what binds it to its prefix [A45], "" where there is none.

    `named`: it is an id alone, and what it says is kept at the server [A204].
    """

    signature: str
    redacted: bool = False
    named: bool = False


class ToolDefinition(Piece, frozen=True, kw_only=True):
    """A tool on offer. A `deferred` one is not part of the rendered prefix until referenced [A29 B12]."""

    name: str
    deferred: bool = False


class Opaque(Piece, frozen=True, kw_only=True):
    """A block this version knows nothing about: a new feature of a provider passes as it came.

    `unsaid` are members that do not count for what it says: ids and states that differ from session to session.
    `void`: it is there and holds nothing, which some refuse [A103].
    """

    kind: str
    unsaid: tuple[str, ...] = ()
    void: bool = False


Part = Text | Reminder | Image | ToolCall | ToolResult | Reasoning | ToolDefinition | Opaque


class Tally(Struct, frozen=True, kw_only=True):
    """What a message adds up to.

    `size` is bytes, `keyed` the number of parts that say something, `media` whether an image stands in it or in a
    result of it, `nothing` whether a part (or a text of a result) without anything in it may. `marked`: a part carries a mark, or
    a result may hold one. `calls` and `results` in order, a result with the bytes before it in the message.
    `shares`: bytes by source.
    """

    size: int
    keyed: int
    media: bool
    nothing: bool
    marked: bool
    calls: tuple[ToolCall, ...]
    results: tuple[tuple[ToolResult, int], ...]
    shares: tuple[tuple[Source, int], ...]


class Message(Struct, frozen=True, kw_only=True, dict=True):
    """One message of the client's list.

    `raw` is the whole message as sent, None once anything in it changed; `frame` are its members other than
    the content; `bare` says that the content was a string. `index` is the place in the client's list, -1
    for a message of ours. `name`: its id, where the format gives messages one that no other may have [A207];
    `misnamed`: it is none that its kind may have, `nameless`: the message leaves without it. A message emptied by edits keeps its place and is not written.
    """

    role: Role
    parts: tuple[Part, ...]
    raw: Raw | None = None
    frame: tuple[tuple[str, Raw], ...] = ()
    bare: bool = False
    index: int = -1
    name: str = ""
    misnamed: bool = False
    nameless: bool = False

    @property
    def written(self) -> bool:
        """Whether the message leaves: it still is as the client sent it, or has something to say."""
        return self.raw is not None or bool(self.parts) or self.role is Role.META

    @cached_property
    def tally(self) -> Tally:
        """What its parts add up to, counted once: nearly all of a history is the same messages turn after turn."""
        return _tally(self)


class Conversation(Struct, frozen=True, kw_only=True, dict=True):
    """A request body, read.

    `envelope` has every top-level member in the client's order. `tools_changed` and `system_changed` say
    that the parts no longer are what the envelope holds. `partial`: the history lives on the server, what we
    see is a delta, and nothing may be judged by what it lacks [A65 A210]. `unstored`: the server keeps nothing, so an
    id alone finds nothing [A204]. `thinned`: the server itself takes old results out before the model reads them [E1].
    `named`: what the format calls the list of messages, and the parts of one. `lead`: what stands in that list in
    front of the messages and is the system prompt, or of it. `leads`: how many messages that came as which could be
    one, `joined`: it leaves as one.
    """

    envelope: tuple[tuple[str, Raw], ...]
    tools: tuple[Part, ...]
    system: tuple[Part, ...]
    messages: tuple[Message, ...]
    system_bare: bool = False
    partial: bool = False
    unstored: bool = False
    thinned: bool = False
    model: str = ""
    stream: bool = False
    thinking: str = ""
    automatic_mark: Mark | None = None
    tools_changed: bool = False
    system_changed: bool = False
    named: tuple[str, str] = ("messages", "content")
    lead: tuple[Raw, ...] = ()
    leads: int = 1
    joined: bool = False

    def last(self, role: Role) -> int:
        """Place of the last message of `role`, -1 where there is none."""
        for place in range(len(self.messages) - 1, -1, -1):
            if self.messages[place].role is role:
                return place
        return -1


def _tally(message: Message) -> Tally:
    size = keyed = 0
    media = nothing = marked = False
    calls: list[ToolCall] = []
    results: list[tuple[ToolResult, int]] = []
    shares: dict[Source, int] = {}
    for part in message.parts:
        keyed += not part.nth
        marked = marked or part.mark is not None
        match part:
            case ToolCall():
                calls.append(part)
            case ToolResult():
                results.append((part, size))
                media = media or part.images > 0
                marked = marked or may_hold_marks(part)
                nothing = nothing or may_hold_blanks(part)
            case Image():
                media = True
            case Text(text=text):
                nothing = nothing or not text.strip()
            case Opaque(void=True):
                nothing = True
            case _:
                pass
        source = source_of(part, message.role)
        shares[source] = shares.get(source, 0) + part.size
        size += part.size
    return Tally(
        size=size,
        keyed=keyed,
        media=media,
        nothing=nothing,
        marked=marked,
        calls=tuple(calls),
        results=tuple(results),
        shares=tuple(shares.items()),
    )


def may_hold_marks(result: ToolResult) -> bool:
    """Whether a result is a list that names marks [B3]; in a string the quotes would be escaped."""
    content = result.content
    return content is not None and content[:1] == b"[" and b'"cache_control"' in content


_BLANK_TEXT = re.compile(rb'"text"\s*:\s*"(?:[^!-~]|\\[nrtbf]|\\u[0-9a-fA-F]{4})*"')


def may_hold_blanks(result: ToolResult) -> bool:
    """Whether a result says nothing, or is a list with a text in it that may be blank."""
    content = result.content
    if content is None or len(content) <= 2:
        return True
    return content[:1] == b"[" and _BLANK_TEXT.search(content) is not None


def source_of(part: Part, role: Role) -> Source:
    """Where a part comes from."""
    match part:
        case Reminder(source=source):
            return source
        case Text():
            return {Role.ASSISTANT: Source.ASSISTANT, Role.SYSTEM: Source.SYSTEM}.get(role, Source.USER)
        case ToolCall():
            return Source.TOOL_CALL
        case ToolResult():
            return Source.TOOL_RESULT
        case Reasoning():
            return Source.REASONING
        case Image():
            return Source.MEDIA
        case ToolDefinition():
            return Source.TOOLS
        case Opaque():
            return Source.OTHER
        case _:
            assert_never(part)


def text_of(part: Part) -> str | None:
    """What a text-like part says; None for everything else."""
    return part.text if isinstance(part, Text | Reminder) else None
