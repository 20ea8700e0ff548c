"""OpenAI Chat Completions, and the many that speak it: /v1/chat/completions [A100-A108 A400-A440 A521].

The system prompt stands in the list of messages: the leading system and developer messages are
`Conversation.system`, the rest are the turns. A run of tool messages is one message of results, for it is one
turn: its `raw` is the run as it stands in the list, with its commas, and each result's own bytes are a whole tool
message. So a result leaves as the tool message it came as, wherever it was moved.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

import msgspec
from msgspec import Raw, Struct, structs

from ..conversation import Conversation, Message, Part, Reasoning, Role, ToolDefinition
from ..errors import BodyError
from ..memo import remembered
from ..rawjson import (
    closed_array,
    closed_object,
    holds_nul,
    is_array,
    is_string,
    items,
    members,
    owned,
    placed,
)
from ..rules import Rules
from ..runs import leaving
from . import Opened
from .answering import OPENAI_CHAT
from .chat_calls import read_tool
from .chat_marks import ABSENT, says_nothing, top_mark
from .chat_parts import message, system_parts
from .chat_wire import joined_system, written, written_part, written_system

RULES = Rules(
    results_first=True,  # [A101]
    calls_last=True,  # what a message says stands in front of its calls, whatever the order of its members
    adjacent=True,  # [A101]
    call_id=r".+",
    call_id_max=512,  # models say less [A104 A430]
    blank_text=True,  # [A103]
    opens_with_user=False,  # [A100]
    system_follows_user=False,  # [A100]
    marks=4,  # [B103 B440]
    result_role=Role.TOOL,
    results_apart=True,  # [A101 A105]
    unique_ids=False,  # some count from call_0 in every turn
    short_ids=True,  # [A104]
    reasoning_placed=False,  # it is a member, wherever it stands
    lost_reasoning=b'{"reasoning_content":"(not kept)"}',  # [A400 A410]
    call_marks=False,
)

_LEADING = ("system", "developer")
_RESULTS = ("tool", "function")
_ELSEWHERE = ("previous_response_id", "conversation")
"""Members that tell a server with more than chat that it has the history itself [A210]."""

_role_first = re.compile(rb'\s*\{\s*"role"\s*:\s*"([a-z]+)"')


class _Roled(Struct):
    role: str = ""


class _Head(Struct):
    """What of the envelope matters to the pipeline."""

    model: str = ""
    stream: bool | None = None


class _Effort(Struct):
    effort: str | None = None
    type: str | None = None


_roled = msgspec.json.Decoder(_Roled)
_head = msgspec.json.Decoder(_Head)
_effort = msgspec.json.Decoder(_Effort | str | None)


class OpenAIChat:
    """The dialect. It has no state."""

    name = "openai_chat"
    turns = (("messages",),)
    rules = RULES

    def open(self, body: bytes) -> Opened:
        """See `Dialect.open`. A run of tool messages is one of the slices."""
        envelope = tuple(members(body))
        raw = dict(envelope).get("messages", ABSENT)
        if not is_array(raw):
            raise BodyError("messages is missing" if raw == ABSENT else "messages is not a list")
        listed = items(raw)
        roles = [_role(one) for one in listed]
        first = next((at for at, role in enumerate(roles) if role not in _LEADING), len(roles))
        spans = [*placed(raw, listed)]
        turns: list[Raw] = []
        for answers, places in groupby(range(first, len(listed)), key=lambda at: roles[at] in _RESULTS):
            run = [*places]
            whole = slice(spans[run[0]][0], spans[run[-1]][1])
            turns += [Raw(memoryview(raw)[whole])] if answers else [listed[at] for at in run]
        return Opened(envelope, tuple(turns), tuple(listed[:first]))

    def model(self, opened: Opened, path: str) -> str:  # noqa: ARG002  it stands in the body
        """See `Dialect.model`."""
        return opened.text("model")

    def read(self, opened: Opened, known: Sequence[Message] = ()) -> Conversation:
        """See `Dialect.read`."""
        envelope = dict(opened.envelope)
        for name, raw in opened.envelope:
            if name != "messages":
                _refuse_nul(raw)
        try:
            head = _head.decode(
                closed_object(pair for pair in opened.envelope if pair[0] in ("model", "stream"))
            )
            system = _system(closed_array(opened.lead))
            return Conversation(
                envelope=opened.envelope,
                tools=_tools(bytes(envelope.get("tools", ABSENT))),
                system=system,
                system_bare=bool(system) and all(part.raw and is_string(part.raw) for part in system),
                messages=_messages(opened, known),
                partial=any(not says_nothing(envelope.get(name, ABSENT)) for name in _ELSEWHERE),
                model=head.model,
                stream=bool(head.stream),
                thinking=_thinking(envelope),
                automatic_mark=top_mark(envelope.get("cache_control", ABSENT)),
                lead=opened.lead,
                leads=len(opened.lead),
            )
        except msgspec.DecodeError as error:
            raise BodyError(f"not a request of this format: {error}") from None

    def sealed(self, message: Message) -> Message:
        """See `Dialect.sealed`."""
        return structs.replace(message, raw=Raw(b",".join(written(message))))

    def write(self, conversation: Conversation) -> bytes:
        """See `Dialect.write`."""
        lead = conversation.lead
        written_lead = joined_system if conversation.joined else written_system
        leads = written_lead(conversation.system, lead) if conversation.system_changed else lead
        changed: dict[str, bytes | list[Raw | bytes]] = {
            "messages": [*leads, *leaving(conversation, written)]
        }
        if conversation.tools_changed:
            changed["tools"] = closed_array(map(written_part, conversation.tools))
        return closed_object((name, changed.get(name, raw)) for name, raw in conversation.envelope)

    def bounded(self, conversation: Conversation, least: int, most: int) -> Conversation | None:
        """See `Dialect.bounded`."""
        envelope = OPENAI_CHAT.bounded(conversation.envelope, least, most)
        return None if envelope is None else structs.replace(conversation, envelope=tuple(envelope))

    def without_reasoning(self, body: bytes) -> bytes:
        """See `Dialect.without_reasoning`. What is unsigned stays: who reads it wants all of it back [A400]."""
        conversation = self.read(self.open(body))
        messages = tuple(map(_unsigned, conversation.messages))
        if all(new is old for new, old in zip(messages, conversation.messages, strict=True)):
            return body
        return self.write(structs.replace(conversation, messages=messages))


def _role(raw: Raw) -> str:
    """The role of a wire message, "" where it has none. Raises BodyError where it is no message."""
    found = _role_first.match(memoryview(raw))
    if found is not None:
        return found[1].decode()
    try:
        return _roled.decode(raw).role
    except (msgspec.DecodeError, RecursionError) as error:
        raise BodyError(f"not a message: {error}") from None


def _role_of_run(raw: Raw) -> str:
    """The role of a wire message, or of the first of a run."""
    try:
        return _role(raw)
    except BodyError:
        return _role(items(b"[%b]" % raw)[0])


def _messages(opened: Opened, known: Sequence[Message]) -> tuple[Message, ...]:
    read = list(known)
    for place in range(len(known), len(opened.messages)):
        raw = opened.messages[place]
        _refuse_nul(raw)
        read.append(message(raw.copy(), _role_of_run(raw), place, read[-1] if read else None))
    return tuple(read)


@remembered
def _system(lead: bytes) -> tuple[Part, ...]:
    parts: list[Part] = []
    for raw in items(lead):
        _refuse_nul(raw)
        parts += system_parts(owned(raw))
    return tuple(parts)


@remembered
def _tools(raw: bytes) -> tuple[ToolDefinition, ...]:
    return tuple(read_tool(owned(one)) for one in _list(Raw(raw)))


def _list(raw: Raw) -> list[Raw]:
    return items(raw) if len(raw) and is_array(raw) else []


def _refuse_nul(raw: Raw) -> None:
    """Raise BodyError for what must be mended first: a provider may read no further than a NUL [A4]."""
    if holds_nul(bytes(raw)):
        raise BodyError("a string holds U+0000")


def _thinking(envelope: dict[str, Raw]) -> str:
    """How much reasoning is asked for, in the words of the upstream; "" where nothing is said [B106 A400 A411]."""
    for name in ("reasoning_effort", "reasoning", "thinking"):
        try:
            said = _effort.decode(envelope[name]) if name in envelope else None
        except msgspec.ValidationError:
            continue
        if isinstance(said, _Effort):
            said = said.effort or (f"thinking {said.type}" if said.type else None)
        if said:
            return said
    return ""


def _unsigned(message: Message) -> Message:
    kept = tuple(part for part in message.parts if not (isinstance(part, Reasoning) and part.signature))
    return message if len(kept) == len(message.parts) else structs.replace(message, parts=kept, raw=None)
