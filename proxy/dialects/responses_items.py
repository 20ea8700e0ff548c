"""Items of a Responses input, from the wire and back [A200-A209].

Each item is one message: a flat list only ever grows at its end, and so does the history that is made of it. What
is no message is a message of one part, whose bytes are the whole item. The model's items in a row are one turn of it
all the same, and so are outputs in a row: whoever asks for turns looks at the roles.

Ids of items are new in every session and say nothing (see `responses_ids`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw, Struct

from ..conversation import Conversation, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from ..errors import BodyError
from ..rawjson import closed_object, encoded, is_string, members
from ..runs import runs
from .chat_marks import ABSENT, Pairs, put, says_nothing
from .responses_calls import (
    FORMS,
    OUTPUTS,
    answered_id,
    read_call,
    read_result,
    written_call,
    written_result,
)
from .responses_content import INSIDE, read_content, written_content
from .responses_ids import is_misnamed, spared, without_id

MESSAGE, REASONING, REFERENCE, TOOLS = "message", "reasoning", "item_reference", "additional_tools"

_ROLES = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
}
_ROLE_NAMES = {Role.ASSISTANT: "assistant", Role.SYSTEM: "developer"}
_LEADING = ("system", "developer")

_SPOKEN = re.compile(r".*_call|mcp_list_tools|mcp_approval_request|compaction|compaction_summary|program")
"""Items without a form of their own here that the model or its provider made."""

_ANSWERED = re.compile(r".*_output|mcp_approval_response")
"""Items without a form of their own here that answer one."""


_UNSAID = ("id", "status")
"""What items say nothing with: they are new in every session [A207]."""


class Head(Struct):
    """What tells items apart."""

    type: str | None = None
    role: str | None = None
    id: str | None = None


class _Thought(Struct):
    id: str | None = None
    content: Raw = ABSENT
    encrypted_content: str | None = None

    def part(self, raw: Raw) -> Reasoning:
        """The item's part. A service that hides nothing says in `content` what was thought."""
        sealed, said = self.encrypted_content or "", len(self.content) > 2 and not says_nothing(self.content)
        return Reasoning(
            raw=raw, size=len(raw), signature=sealed, named=bool(self.id and not sealed and not said)
        )


_head = msgspec.json.Decoder(Head)
_thought = msgspec.json.Decoder(_Thought)
_string = msgspec.json.Decoder(str)


def head_of(raw: Raw) -> Head:
    """Type and role of an item; a type of no known kind where they are spelt in no known way.

    Raises BodyError where it is no item.
    """
    if bytes(memoryview(raw)[:1]) != b"{":
        raise BodyError("not an item")
    try:
        head = _head.decode(raw)
    except msgspec.ValidationError:
        return Head(type="?")
    except (msgspec.DecodeError, RecursionError) as error:
        raise BodyError(f"not an item: {error}") from None
    if head.type is None:  # what has a role is a message, what has an id alone is named by it
        head.type = MESSAGE if head.role is not None else REFERENCE if head.id is not None else "?"
    return head


def leads(head: Head) -> bool:
    """Whether the item belongs to the system prompt where nothing else stands in front of it."""
    return head.type == TOOLS or (head.type == MESSAGE and head.role in _LEADING)


# -- read ------------------------------------------------------------------------------------------------


def read_item(raw: Raw, place: int, before: Sequence[Message]) -> Message:
    """An item, or the string that stands for a user's message, as a message. `before`: those in front of it.

    Raises BodyError where it is none, or cannot be opened and closed again.
    """
    if is_string(raw):
        return Message(role=Role.USER, parts=tuple(read_content(raw)), raw=raw, bare=True, index=place)
    head = head_of(raw)
    if head.type == MESSAGE:
        return _message(raw, head, place)
    kind = head.type or ""
    part = _part(raw, kind, before)
    return Message(
        role=_role(part, kind),
        parts=(part,),
        raw=raw,
        frame=(("type", Raw(encoded(kind))),),
        index=place,
        name=head.id or "",
        misnamed=is_misnamed(kind, head.id or "", part),
    )


def _message(raw: Raw, head: Head, place: int) -> Message:
    frame = tuple(members(raw))
    content = dict(frame).get("content", ABSENT)
    # A message that says nothing still is something an edit can name.
    parts = tuple(read_content(content)) or (Text(text=""),)
    bare = len(content) > 0 and is_string(content)
    return Message(
        role=_ROLES.get(head.role or "", Role.META),
        parts=parts,
        raw=raw,
        frame=frame,
        bare=bare,
        index=place,
        name=head.id or "",
        misnamed=is_misnamed(MESSAGE, head.id or ""),
    )


def _part(raw: Raw, kind: str, before: Sequence[Message]) -> Part:
    try:
        if kind == REASONING:
            return _thought.decode(raw).part(raw)
        if kind in FORMS or kind in OUTPUTS:
            members(raw)  # refuses what could not be closed again
            return read_call(raw, kind) if kind in FORMS else _result(raw, kind, before)
    except msgspec.ValidationError:
        pass
    return Opaque(raw=raw, size=len(raw), kind=kind, unsaid=() if kind == REFERENCE else _UNSAID)


def _result(raw: Raw, kind: str, before: Sequence[Message]) -> ToolResult:
    """An output. Where it names its call by the id of the item alone, that is looked for."""
    call_id, item_id = answered_id(raw)
    return read_result(raw, kind, call_id or next(_called(item_id, before), item_id))


def _called(item_id: str, before: Sequence[Message]) -> Iterator[str]:
    if not item_id:
        return
    for message in reversed(before):
        for call in message.tally.calls:
            if call.raw is not None and answered_id(call.raw)[1] == item_id:
                yield call.id


def _role(part: Part, kind: str) -> Role:
    """Whose item it is."""
    match part:
        case Reasoning() | ToolCall():
            return Role.ASSISTANT
        case ToolResult():
            return Role.TOOL
        case _ if _SPOKEN.fullmatch(kind):
            return Role.ASSISTANT
        case _ if _ANSWERED.fullmatch(kind):
            return Role.TOOL
        case _:
            return Role.META


def system_parts(raw: Raw) -> tuple[Part, ...]:
    """The parts of a leading item: what a message says, or tools that came as an item."""
    head = head_of(raw)
    if head.type != MESSAGE:
        return (Opaque(raw=raw, size=len(raw), kind=head.type or "", unsaid=_UNSAID),)
    return tuple(read_content(dict(members(raw)).get("content", ABSENT)))


# -- write -----------------------------------------------------------------------------------------------


def written(message: Message) -> list[Raw | bytes]:
    """The items of a changed message, in their order: what it says in messages, all else as an item of its own."""
    listed: list[Raw | bytes] = []
    said: list[Part] = []
    frame = message.frame if _is_message(message) else ()
    for part in message.parts:
        item = _item(part)
        if item is None:
            said.append(part)
            continue
        if said:
            listed.append(_written_message(message, frame, said))
            said, frame = [], ()
        listed.append(item)
    if said:
        listed.append(_written_message(message, frame, said))
    return [spared(item, message.name) for item in listed] if message.nameless else listed


def _is_message(message: Message) -> bool:
    """Whether it came as a message: of all other items the frame is their type alone."""
    return [name for name, _ in message.frame] not in ([], ["type"])


def _item(part: Part) -> Raw | bytes | None:
    """The item that a part is; None for a part of a message's content."""
    match part:
        case ToolCall():
            return written_call(part)
        case ToolResult():
            return written_result(part)
        case Reasoning(raw=None, base=base) if base is not None:
            return _sealed(base, part.signature)
        case Reasoning():
            return part.raw or part.base or b"{}"
        case Opaque(kind=kind) if not kind.startswith(INSIDE):
            return part.raw or part.base or b"{}"
        case _:
            return None


def _sealed(base: Raw, signature: str) -> Raw | bytes:
    """Reasoning with this encrypted content; the same in the same spelling, if it stands there already."""
    pairs: list[tuple[str, Raw | bytes]] = [*members(base)]
    said = next((_string.decode(raw) for name, raw in pairs if name == _SEAL and is_string(raw)), "")
    if said == signature:
        return base
    kept = [(name, raw) for name, raw in pairs if name != _SEAL]
    return closed_object((*kept, (_SEAL, encoded(signature))))


_SEAL = "encrypted_content"


def _written_message(message: Message, frame: Sequence[tuple[str, Raw]], parts: Sequence[Part]) -> bytes:
    if (
        message.bare and not message.frame and message.role is Role.USER
    ):  # the string that stood for it, spelt as it is beside others
        frame = (("role", Raw(b'"user"')),)
    if not frame:
        return new_message(parts, message.role, bare=message.bare)
    old = dict(frame).get("content", ABSENT)
    return framed(frame, written_content(parts, message.role, old, bare=message.bare))


def new_message(parts: Sequence[Part], role: Role, *, bare: bool = False) -> bytes:
    """A message that no client made."""
    name = _ROLE_NAMES.get(role, "user")
    content = written_content(parts, role, b"", bare=bare) or b'""'
    return closed_object((("type", b'"message"'), ("role", encoded(name)), ("content", content)))


def framed(frame: Sequence[tuple[str, Raw]], content: bytes | None) -> bytes:
    """A message of these members with this content, which stays as it was where nothing is said."""
    pairs: Pairs = [*frame]
    if content is not None or "content" not in dict(frame):
        put(pairs, "content", content or b'""')
    return closed_object(pairs)


def listed_item(raw: Raw | bytes) -> Raw | bytes:
    """An element of the list: a string stands alone only, in a list it is the user's message that it stood for."""
    if not is_string(raw):
        return raw
    return closed_object((("role", b'"user"'), ("content", raw)))


# -- reasoning -------------------------------------------------------------------------------------------


def without_ids(conversation: Conversation) -> list[Raw | bytes]:
    """The items as they leave. Behind reasoning that was taken away, the model's items of that turn go without their
    ids, for by these they ask for it [A202]; other reasoning has followers of its own."""
    leaving: list[Raw | bytes] = []
    bereft = False
    for run in runs(conversation):
        if run.raws is not None and not bereft:
            leaving += run.raws
            continue
        for message in run.messages:
            if not message.written:
                bereft = bereft or _was_reasoning(message)
                continue
            listed: list[Raw | bytes] = [message.raw] if message.raw is not None else written(message)
            bereft = bereft and message.role is Role.ASSISTANT and not _was_reasoning(message)
            leaving += map(without_id, listed) if bereft else listed
    return leaving


def _was_reasoning(message: Message) -> bool:
    return dict(message.frame).get("type", ABSENT) == Raw(b'"reasoning"') and not _is_message(message)
