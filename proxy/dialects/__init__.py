"""Wire formats: bytes to parts and back, one file each, one line each in the tables here.

A dialect knows how a provider spells things; what may be done to them is data (`Rules`), so that a stage
never has to ask which provider it serves. Every rule is cited by its number in RULES.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from ..conversation import Conversation, Message
from ..rules import Rules

PREFACE = 2048
"""Bytes of a system prompt that tell whose it is."""

_SYSTEM = ("system", "systemInstruction", "system_instruction", "instructions")


class Opened(Struct, frozen=True):
    """A body opened one level: every top-level member, and the messages as slices. Both pin the body.

    `lead`: elements of the list in front of the messages, where a format has its system prompt there.
    """

    envelope: tuple[tuple[str, Raw], ...]
    messages: tuple[Raw, ...]
    lead: tuple[Raw, ...] = ()

    @property
    def preface(self) -> str:
        """The first characters of the system prompt, or of the first message where it has none apart, as spelt."""
        named = dict(self.envelope)
        raw = next((named[name] for name in _SYSTEM if name in named), next(iter(self.messages), Raw(b"")))
        return bytes(memoryview(raw)[:PREFACE]).decode(errors="replace")

    def text(self, name: str) -> str:
        """A top-level string, "" where there is none."""
        try:
            return next((_string.decode(raw) for known, raw in self.envelope if known == name), "")
        except msgspec.DecodeError:
            return ""


_string = msgspec.json.Decoder(str)


class Dialect(Protocol):
    """One wire format."""

    @property
    def name(self) -> str:
        """Its name in settings, logs and the route table."""

    @property
    def turns(self) -> Sequence[Sequence[str]]:
        """Where the list of what leads and of the messages may stand: paths of keys, of which the first counts that
        is there. Messages behind one of the model's are read alike, whatever stands in front of it.
        """

    @property
    def rules(self) -> Rules:
        """What it asks of a history."""

    def open(self, body: bytes) -> Opened:
        """Open a request one level. Raises BodyError where it cannot be read without guessing."""

    def model(self, opened: Opened, path: str) -> str:
        """The model a request asks for, in its body or in its raw `path` (no query); "" where neither says."""

    def read(self, opened: Opened, known: Sequence[Message] = ()) -> Conversation:
        """The parts. `known` are messages of a whole history, read before, whose bytes stand at the beginning of
        this body.

        Raises BodyError where a message is no message, or holds what `rawjson.repair` must mend first.
        """

    def sealed(self, message: Message) -> Message:
        """A changed message with the bytes it will leave in as its `raw`."""

    def write(self, conversation: Conversation) -> bytes:
        """The body again: verbatim but for what was changed."""

    def bounded(self, conversation: Conversation, least: int, most: int) -> Conversation | None:
        """The request with a limit of its own on the answer between `least` and `most` tokens; where it states none, none
        is put there. None where its answer would not be words: a call or a form is demanded.
        """

    def without_reasoning(self, body: bytes) -> bytes:
        """The body without any signed reasoning: what a provider that checks prefixes cannot refuse [A45 A47]."""


from .anthropic import Anthropic  # noqa: E402  they need the protocol above
from .gemini import Gemini  # noqa: E402
from .openai_chat import OpenAIChat  # noqa: E402
from .openai_responses import OpenAIResponses  # noqa: E402

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect for dialect in (Anthropic(), OpenAIChat(), OpenAIResponses(), Gemini())
}
"""All dialects by name, one line each. What is not here passes through."""


class _Spoken(Struct):
    role: str = ""
    tool_calls: list[Raw] = []


class _Typed(Struct):
    type: str = ""


class _Turns(Struct):
    messages: list[_Spoken] = []
    tools: list[_Typed] = []


def likely(body: bytes) -> str:
    """The dialect a body looks like, where no path tells it; Anthropic's, which has no member of its own, for any other."""
    try:
        named = msgspec.json.decode(body, type=dict[str, Raw])
    except (msgspec.DecodeError, RecursionError):
        return "anthropic"
    if "contents" in named or "request" in named:
        return "gemini"
    if "input" in named:
        return "openai_responses"
    if "max_completion_tokens" in named or "stream_options" in named:
        return "openai_chat"
    try:
        read = msgspec.json.decode(body, type=_Turns)
    except (msgspec.DecodeError, RecursionError):
        return "anthropic"
    leads = any(one.role in ("system", "developer") for one in read.messages[:1])
    calls = any(one.role in ("tool", "function") or one.tool_calls for one in read.messages)
    return (
        "openai_chat"
        if leads or calls or any(tool.type == "function" for tool in read.tools)
        else "anthropic"
    )
