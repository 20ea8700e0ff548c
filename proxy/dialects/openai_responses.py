"""OpenAI Responses: /v1/responses and what speaks it [A200-A214].

The input is a flat list: messages, the model's reasoning and calls, and what answers them are items side by side.
Each is a message here (see `responses_items`). The system prompt is `instructions` and the leading system and
developer messages, with the tools that came as an item among them; all later ones are turns.

Where history is kept on the server, by `previous_response_id`, a conversation, a stored prompt or by items that
only name others, the body is a delta, and nothing may be judged by what it lacks [A210].
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct, structs

from ..conversation import (
    Conversation,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    ToolDefinition,
)
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
)
from ..rules import Rules
from . import Opened
from .answering import OPENAI_RESPONSES
from .chat_marks import ABSENT, says_nothing
from .responses_calls import read_tool
from .responses_content import read_content
from .responses_items import (
    REFERENCE,
    head_of,
    leads,
    listed_item,
    read_item,
    system_parts,
    without_ids,
    written,
)
from .responses_system import joined_system, leads_of, written_system

RULES = Rules(
    system_marks=False,  # `instructions` carries none [B104]
    results_first=False,  # outputs are items of their own
    calls_last=False,
    adjacent=False,  # paired by `call_id` anywhere behind the call [A201]
    call_id=r".+",
    call_id_max=64,  # [A207]
    blank_text=True,
    opens_with_user=False,
    system_follows_user=False,
    marks=4,  # [B103]
    result_role=Role.TOOL,
    results_apart=True,
    call_marks=False,  # [B104]
    reasoning_bound=True,  # [A202]
)

_ELSEWHERE = ("previous_response_id", "conversation", "prompt")
"""Members that name a history, or a beginning of it, which the server has."""


class _Reasoning(Struct):
    effort: str | None = None


class _Head(Struct):
    """What of the envelope matters to the pipeline."""

    model: str = ""
    stream: bool | None = None


_head = msgspec.json.Decoder(_Head)
_effort = msgspec.json.Decoder(_Reasoning | None)
_string = msgspec.json.Decoder(str)


class OpenAIResponses:
    """The dialect. It has no state."""

    name = "openai_responses"
    turns = (("input",),)
    rules = RULES

    def open(self, body: bytes) -> Opened:
        """See `Dialect.open`. An item is a slice; so is an input that is a string."""
        envelope = tuple(members(body))
        named = dict(envelope)
        raw = named.get("input", ABSENT)
        if len(raw) and is_string(raw):
            return Opened(envelope, (raw,))
        if says_nothing(raw) and _is_elsewhere(named):
            return Opened(envelope, ())
        if not is_array(raw):
            raise BodyError("input is missing" if raw == ABSENT else "input is neither a string nor a list")
        listed = items(raw)
        first = next((at for at, one in enumerate(listed) if not leads(head_of(one))), len(listed))
        return Opened(envelope, tuple(listed[first:]), tuple(listed[:first]))

    def model(self, opened: Opened, path: str) -> str:  # noqa: ARG002  it stands in the body
        """See `Dialect.model`."""
        return opened.text("model")

    def read(self, opened: Opened, known: Sequence[Message] = ()) -> Conversation:
        """See `Dialect.read`."""
        envelope = dict(opened.envelope)
        for name, raw in opened.envelope:
            if name != "input":
                _refuse_nul(raw)
        try:
            head = _head.decode(
                closed_object(pair for pair in opened.envelope if pair[0] in ("model", "stream"))
            )
            system = _system(bytes(envelope.get("instructions", ABSENT)), closed_array(opened.lead))
            messages = _messages(opened, known)
            return Conversation(
                envelope=opened.envelope,
                tools=_tools(bytes(envelope.get("tools", ABSENT))),
                system=system,
                messages=messages,
                system_bare=bool(system) and all(part.raw and is_string(part.raw) for part in system),
                unstored=bytes(envelope.get("store", ABSENT)) == b"false",
                partial=_is_elsewhere(envelope) or any(map(_is_reference, messages[len(known) :])),
                model=head.model,
                stream=bool(head.stream),
                thinking=_thinking(envelope.get("reasoning", ABSENT)),
                lead=opened.lead,
                leads=leads_of(system, envelope.get("instructions", ABSENT), opened.lead),
                named=("input", "content"),
            )
        except msgspec.DecodeError as error:
            raise BodyError(f"not a request of this format: {error}") from None

    def sealed(self, message: Message) -> Message:
        """See `Dialect.sealed`. A message may be several items, joined by commas."""
        listed = written(message)
        return structs.replace(message, raw=Raw(b",".join(listed))) if listed else message

    def write(self, conversation: Conversation) -> bytes:
        """See `Dialect.write`."""
        lead = conversation.lead
        written_lead = joined_system if conversation.joined else written_system
        changed: dict[str, bytes | list[Raw | bytes]] = {}
        if conversation.system_changed:
            instructions, changed_lead = written_lead(
                conversation.system, dict(conversation.envelope).get("instructions", ABSENT), lead
            )
            changed |= {"instructions": instructions, "input": _input(conversation, changed_lead)}
        else:
            changed["input"] = _input(conversation, lead)
        if conversation.tools_changed:
            changed["tools"] = closed_array(part.raw or part.base or b"{}" for part in conversation.tools)
        return closed_object((name, changed.get(name, raw)) for name, raw in conversation.envelope)

    def bounded(self, conversation: Conversation, least: int, most: int) -> Conversation | None:
        """See `Dialect.bounded`."""
        envelope = OPENAI_RESPONSES.bounded(conversation.envelope, least, most)
        return None if envelope is None else structs.replace(conversation, envelope=tuple(envelope))

    def without_reasoning(self, body: bytes) -> bytes:
        """See `Dialect.without_reasoning`. All reasoning goes, and ids by which other items ask for it [A202 A205]."""
        conversation = self.read(self.open(body))
        messages = tuple(map(_unreasoned, conversation.messages))
        if all(new is old for new, old in zip(messages, conversation.messages, strict=True)):
            return body
        return self.write(structs.replace(conversation, messages=messages))


def _is_elsewhere(envelope: dict[str, Raw]) -> bool:
    return any(not says_nothing(envelope.get(name, ABSENT)) for name in _ELSEWHERE)


def _is_reference(message: Message) -> bool:
    return any(isinstance(part, Opaque) and part.kind == REFERENCE for part in message.parts)


def _list(raw: Raw) -> list[Raw]:
    return items(raw) if len(raw) and is_array(raw) else []


def _refuse_nul(raw: Raw) -> None:
    """Raise BodyError for what must be mended first: a provider may read no further than a NUL [A4]."""
    if holds_nul(bytes(raw)):
        raise BodyError("a string holds U+0000")


def _messages(opened: Opened, known: Sequence[Message]) -> tuple[Message, ...]:
    read = list(known)
    for place in range(len(known), len(opened.messages)):
        raw = opened.messages[place]
        _refuse_nul(raw)
        read.append(read_item(raw.copy(), place, read))
    return tuple(read)


def _thinking(raw: Raw) -> str:
    """How much reasoning is asked for, in the words of the upstream; "" where nothing is said [B106]."""
    try:
        said = _effort.decode(raw) if len(raw) else None
    except msgspec.ValidationError:
        return ""
    return (said.effort or "") if said is not None else ""


def _unreasoned(message: Message) -> Message:
    kept = tuple(part for part in message.parts if not isinstance(part, Reasoning))
    return message if len(kept) == len(message.parts) else structs.replace(message, parts=kept, raw=None)


def _input(conversation: Conversation, lead: Sequence[Raw | bytes]) -> bytes | list[Raw | bytes]:
    listed = [*lead, *without_ids(conversation)]
    came = dict(conversation.envelope).get("input", ABSENT)
    if listed == [came] or (not listed and not is_array(came)):
        return bytes(came)
    return [*map(listed_item, listed)] if is_string(came) else listed


# -- the system prompt -----------------------------------------------------------------------------------


@remembered
def _system(instructions: bytes, lead: bytes) -> tuple[Part, ...]:
    """The parts of the instructions and of the leading items."""
    parts: list[Part] = []
    if instructions and is_string(instructions) and not says_nothing(instructions):
        parts += read_content(Raw(instructions))
    for raw in items(lead):
        _refuse_nul(raw)
        parts += system_parts(owned(raw))
    return tuple(parts)


@remembered
def _tools(raw: bytes) -> tuple[ToolDefinition, ...]:
    return tuple(read_tool(owned(one)) for one in _list(Raw(raw)))
