"""The wire formats the laws are asked over, one file each: how a client spells its history, who answers, what is said.

A client holds its history in the blocks of Anthropic's format, whatever it speaks; `Wire.body` spells them, and
`Wire.heard` brings an answer back into them. The rest is a second opinion on a body, from the embedded provider.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from proxy.rawjson import repair
from proxy.dialects import Dialect
from proxy.simulator import Reply
from proxy.simulator.exchange import Answer, Canned
from proxy.usage import Usage
from tests.laws.spelling import Style

Json = dict[str, Any]


class Asked(Struct, frozen=True, kw_only=True):
    """A request as a client means it: its parts in Anthropic's blocks, before any spelling."""

    model: str
    thinks: bool
    unknown: bool
    system: list[Json]
    tools: list[Json]
    messages: list[Json]


class Spot(Struct, frozen=True):
    """A place in the prompt: `chain` names all up to it, `turn` is its message, -1 in front of the messages."""

    path: str
    chain: bytes
    turn: int


class Heard(Struct, frozen=True):
    """An answer: its blocks, its usage, and the ids of its calls."""

    content: list[Json]
    usage: Usage
    calls: tuple[str, ...]


class Service(Protocol):
    """The part of an embedded provider that the driver needs."""

    canned: Any
    script: Any

    def answer(self, headers: Any, body: bytes, now: float, path: str) -> Answer:
        """Answer a request."""


class Wire(Protocol):
    """One format."""

    name: str
    dialect: Dialect
    headers: Sequence[tuple[str, str]]
    upstreams: tuple[str, ...]
    moves: frozenset[str]
    """What clients of this format do to their history beyond what all do."""

    def models(self, upstream: str) -> tuple[str, ...]:
        """Models of an upstream; a client may change between the first two."""

    def provider(self, upstream: str) -> Service:
        """The embedded provider of that upstream."""

    def path(self, model: str) -> str:
        """Where a request for this model goes."""

    def body(self, asked: Asked, style: Style) -> bytes:
        """The request in this format and style."""

    def heard(self, answer: Answer) -> Heard:
        """An answer with status 200."""

    def complaints(self, body: bytes, upstream: str, model: str) -> frozenset[str]:
        """What the provider has against a body for this model: one word for each of its checks that fails.

        Every check is asked, not only up to the first that says no. What thinking is bound to is not looked at.
        """

    def prompt(self, body: bytes, *, hidden: bool) -> list[Spot]:
        """The prompt a body becomes; `hidden` without what the vendor takes out itself."""

    def last_answer(self, body: bytes) -> int:
        """The place of the model's last message, -1 without one."""

    def slices(self, body: bytes) -> Counter[bytes] | None:
        """The bytes of every block of a body, or None where they are just looked for."""

    def pieces(self, raw: bytes) -> list[bytes]:
        """The client's own bytes that a part's bytes are made of."""

    def said(self, body: bytes) -> set[object]:
        """What people and the model said, as `said` of the laws has it."""


def text(words: str) -> Json:
    """A text block."""
    return {"type": "text", "text": words}


def canonical(arguments: str | bytes) -> str:
    """Arguments of a call as they are whatever their spelling; a lone half of a character is mended in them [A4]."""
    raw = arguments.encode("utf-8", "surrogatepass") if isinstance(arguments, str) else arguments
    return json.dumps(json.loads(repair(raw)[0]), sort_keys=True)


def kind_of(message: str) -> str:
    """A provider's wording without what names places and ids."""
    words = message.split(": ", 1)[-1]
    return " ".join(word for word in words.split() if word.isascii() and word.isalpha())[:60]


__all__ = [
    "WIRES",
    "Answer",
    "Asked",
    "Canned",
    "Heard",
    "Reply",
    "Spot",
    "Wire",
    "canonical",
    "kind_of",
    "text",
]

from tests.laws.wires.anthropic import AnthropicWire  # noqa: E402  they need the protocol above
from tests.laws.wires.chat import ChatWire  # noqa: E402
from tests.laws.wires.gemini import GeminiWire  # noqa: E402
from tests.laws.wires.responses import ResponsesWire  # noqa: E402

WIRES: Mapping[str, Wire] = {
    wire.name: wire for wire in (AnthropicWire(), ChatWire(), ResponsesWire(), GeminiWire())
}
