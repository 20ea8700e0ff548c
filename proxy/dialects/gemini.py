"""Gemini generateContent: `:generateContent`, `:streamGenerateContent`, `:countTokens` [A300-A309].

The same request comes bare (AI Studio, Vertex), inside `request` with the project beside it (Code Assist [D301]), or
inside `generateContentRequest` (countTokens). The inner one is read; what is around it leaves as it came.

The wire is opened only as deep as an edit goes: a content that nothing touched leaves as the client's slice, in one
that was touched the parts that were not, in a part that was changed the members that were not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw, structs

from ..conversation import Conversation, Message, Part, Reasoning, Role, Text
from ..errors import BodyError
from ..memo import remembered
from ..rawjson import closed_array, closed_object, encoded, holds_nul, is_array, items, members
from ..rules import Rules
from ..runs import leaving
from . import Opened
from .answering import GEMINI
from .gemini_pairing import Pairing
from .gemini_parts import ABSENT, Pairs, camel, put, read_part, written_part
from .gemini_tools import read_tools, written_tools

RULES = Rules(
    results_first=False,  # text may stand beside responses [A303]
    calls_last=False,
    adjacent=True,  # [A302 A303]
    call_id=r"(?s).+",
    call_id_max=65_536,  # clients hide signatures in ids [A306]
    blank_text=False,  # [A301]
    opens_with_user=False,  # but for calls [A302]
    system_follows_user=False,
    marks=0,
    calls_follow_user=True,  # [A302]
    white_text=True,  # [A301]
    unique_ids=False,
    stripped_prefill=False,
    stand_in="skip_thought_signature_validator",  # [A306]
)

_ROLES = {"": Role.USER, "user": Role.USER, "function": Role.USER, "model": Role.ASSISTANT}
_SPOKEN = {Role.ASSISTANT: "model"}
_WRAPS = ("request", "generateContentRequest", "generate_content_request")
NULL = b"null"
_READ = frozenset({"contents", "systemInstruction", "tools", "cachedContent"})
_IN_PATH = re.compile(r"/(?:models|tunedModels|endpoints)/([^/:]+):[A-Za-z]+$")

_string = msgspec.json.Decoder(str)


class _Request(NamedTuple):
    """The request itself, and the member it is wrapped in, "" where it is not."""

    wrap: str
    members: Sequence[tuple[str, Raw]]

    def named(self) -> Mapping[str, Raw]:
        """The members that are read, in camelCase. Raises BodyError where one stands in both spellings."""
        found: dict[str, Raw] = {}
        for name, raw in self.members:
            if camel(name) in _READ:
                if camel(name) in found:
                    raise BodyError(f"{camel(name)} stands twice, in two spellings")
                found[camel(name)] = raw
        return found


class Gemini:
    """The dialect. It has no state."""

    name = "gemini"
    turns = (("contents",), *((wrap, "contents") for wrap in _WRAPS))
    rules = RULES

    def open(self, body: bytes) -> Opened:
        """See `Dialect.open`."""
        envelope = tuple(members(body))
        raw = _request(envelope).named().get("contents", ABSENT)
        if is_array(raw):
            return Opened(envelope, tuple(items(raw)))
        if not _is_object(raw):
            raise BodyError("contents is missing" if raw == ABSENT else "contents is not a list")
        return Opened(envelope, (raw,))  # one content may stand for a list of one

    def model(self, opened: Opened, path: str) -> str:
        """The model a request asks for: it stands in the path, else in the body; "" where it is in neither."""
        found = _IN_PATH.search(path)
        if found is not None:
            return found[1]
        inner = Opened(tuple(_request(opened.envelope).members), ())
        return (inner.text("model") or opened.text("model")).rpartition("/")[2]

    def read(self, opened: Opened, known: Sequence[Message] = ()) -> Conversation:
        """See `Dialect.read`."""
        request = _request(opened.envelope)
        named = request.named()
        for name, raw in (*opened.envelope, *request.members):
            if name not in (request.wrap, "contents"):
                _refuse_nul(raw)
        try:
            pairing = Pairing(known)
            fresh = [
                _message(raw.copy(), place, pairing)
                for place, raw in enumerate(opened.messages[len(known) :], len(known))
            ]
            return Conversation(
                envelope=opened.envelope,
                tools=_tools(bytes(named.get("tools", ABSENT))),
                system=_system(bytes(named.get("systemInstruction", ABSENT))),
                messages=(*known, *fresh),
                partial=bytes(named.get("cachedContent", NULL)) not in (NULL, b'""'),  # [B303 B304]
                model=self.model(opened, ""),
                named=("contents", "parts"),
            )
        except msgspec.DecodeError as error:
            raise BodyError(f"not a request of this format: {error}") from None

    def sealed(self, message: Message) -> Message:
        """See `Dialect.sealed`."""
        return structs.replace(message, raw=Raw(*_written(message)))

    def write(self, conversation: Conversation) -> bytes:
        """See `Dialect.write`."""
        request = _request(conversation.envelope)
        changed: dict[str, bytes | list[Raw | bytes]] = {"contents": leaving(conversation, _written)}
        named = request.named()
        if conversation.tools_changed:
            changed["tools"] = written_tools(conversation.tools, named.get("tools", ABSENT))
        if conversation.system_changed:
            changed["systemInstruction"] = _written_system(conversation, named["systemInstruction"])
        inner = closed_object((name, changed.get(camel(name), raw)) for name, raw in request.members)
        if not request.wrap:
            return inner
        return closed_object(
            (name, inner if name == request.wrap else raw) for name, raw in conversation.envelope
        )

    def bounded(self, conversation: Conversation, least: int, most: int) -> Conversation | None:
        """See `Dialect.bounded`."""
        request = _request(conversation.envelope)
        inner = GEMINI.bounded(request.members, least, most)
        if inner is None:
            return None
        whole = Raw(closed_object(inner)) if request.wrap else ABSENT
        envelope = [(name, whole if name == request.wrap else raw) for name, raw in conversation.envelope]
        return structs.replace(conversation, envelope=tuple(envelope if request.wrap else inner))

    def without_reasoning(self, body: bytes) -> bytes:
        """See `Dialect.without_reasoning`. Calls keep their signatures: they are validated, not compared [A304]."""
        conversation = self.read(self.open(body))
        messages = tuple(_unreasoned(message) for message in conversation.messages)
        if all(new is old for new, old in zip(messages, conversation.messages, strict=True)):
            return body
        return self.write(structs.replace(conversation, messages=messages))


def _request(envelope: Sequence[tuple[str, Raw]]) -> _Request:
    names = dict(envelope)
    if "contents" not in names:
        for wrap in _WRAPS:
            if _is_object(names.get(wrap, ABSENT)):
                return _Request(wrap, members(names[wrap]))
    return _Request("", envelope)


def _is_object(raw: Raw) -> bool:
    return bytes(memoryview(raw)[:1]) == b"{"


def _refuse_nul(raw: Raw) -> None:
    """Raise BodyError for what must be mended first: it may be read no further than a NUL [A4]."""
    if holds_nul(bytes(raw)):
        raise BodyError("a string holds U+0000")


def _unreasoned(message: Message) -> Message:
    kept = tuple(part for part in message.parts if not isinstance(part, Reasoning))
    return message if len(kept) == len(message.parts) else structs.replace(message, parts=kept, raw=None)


# -- contents --------------------------------------------------------------------------------------------


def _message(raw: Raw, index: int, pairing: Pairing) -> Message:
    _refuse_nul(raw)
    frame = tuple(members(raw))
    named = dict(frame)
    role = _role(named.get("role", ABSENT))
    # A content that says nothing still is something an edit can name.
    parts = [*_parts(named.get("parts", ABSENT))] or [Text(text="")]
    return Message(role=role, parts=pairing.paired(role, parts), raw=raw, frame=frame, index=index)


def _role(raw: Raw) -> Role:
    """Who speaks; a content without a role is the user's."""
    if bytes(raw) in (b"", NULL):
        return Role.USER
    return _ROLES.get(_string.decode(raw).lower(), Role.META)


def _parts(raw: Raw) -> Iterator[Part]:
    if is_array(raw):
        yield from map(read_part, items(raw))
    elif _is_object(raw):
        yield read_part(raw)


@remembered
def _system(raw: bytes) -> tuple[Part, ...]:
    """The parts of the system instruction. What is no content of the known form is left as it came."""
    return tuple(_parts(dict(members(raw)).get("parts", ABSENT))) if _is_object(Raw(raw)) else ()


@remembered
def _tools(raw: bytes) -> tuple[Part, ...]:
    return read_tools(Raw(raw))


def _written(message: Message) -> tuple[bytes]:
    pairs: Pairs = [*message.frame] or [("role", encoded(_SPOKEN.get(message.role, "user")))]
    put(pairs, "parts", closed_array(written_part(part) for part in message.parts if not _is_nothing(part)))
    return (closed_object(pairs),)


def _written_system(conversation: Conversation, raw: Raw) -> bytes:
    pairs: Pairs = [*members(raw)]
    put(pairs, "parts", closed_array(map(written_part, conversation.system)))
    return closed_object(pairs)


def _is_nothing(part: Part) -> bool:
    return isinstance(part, Text) and not part.text and part.raw is None and part.base is None
