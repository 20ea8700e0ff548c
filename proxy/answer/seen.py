"""What every reader of answers gathers, and the small ways in which it takes JSON that may be anything."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal, cast

import msgspec
from msgspec import Struct

from ..usage import JsonObject, Usage


class Diagnosis(Struct, frozen=True):
    """What the provider itself says of this prompt and its cache.

    reason   its word for why the cache missed [B20 B108]; None where it gave none
    missed   tokens that missed, by its count
    removed  its words for why it withheld reasoning from the model, each once [A45 A206]
    """

    reason: str | None = None
    missed: int | None = None
    removed: tuple[str, ...] = ()


class Signed(Struct, frozen=True):
    """What the model gave with its answer so that it comes back, and clients lose [F4 F9].

    `kind`: what it belongs to. A `call`: `place` counts the answer's calls, `name` is the tool's. `thinking`: `name`
    is a digest of its words. An `item`: `name` is its id. `words`: what was thought itself, of the whole answer. `led`:
    `name` is the id of an item right behind reasoning.
    `value`: the signature, the encrypted content, the words, the id of that reasoning.
    """

    kind: Literal["call", "thinking", "item", "words", "led"]
    place: int
    name: str
    value: str


class Answer(Struct, frozen=True):
    """The provider's answer as far as it was seen.

    `signatures` are digests of the reasoning signatures, in order; `signed` is what has to come back. `complete` says that the answer's own end was
    seen (`message_stop`, `[DONE]`, `response.completed`, a finish reason); a stream without it was cut [C4 C6].
    `error_type` is the provider's word for an error, in an error body or in the middle of a stream [C4].
    """

    usage: Usage | None = None
    message_id: str | None = None
    model: str | None = None
    call_ids: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    signed: tuple[Signed, ...] = ()
    stop_reason: str | None = None
    error_type: str | None = None
    complete: bool = False
    diagnosis: Diagnosis | None = None


def signature_digest(signature: str) -> str:
    """Return the digest under which a reasoning signature is remembered; the signature itself never is."""
    return blake2b(signature.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def decode(data: bytes) -> object:
    """The value of a JSON text, None where it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def object_of(value: object) -> JsonObject:
    """The value if it is an object, else an empty one."""
    return cast(JsonObject, value) if isinstance(value, Mapping) else {}


def objects_of(value: object) -> list[JsonObject]:
    """The elements of an array as objects; of anything else, none."""
    return [object_of(item) for item in value] if isinstance(value, list) else []


def text_of(value: object) -> str | None:
    """The value if it is a text that is not empty."""
    return value if isinstance(value, str) and value else None


_LONGEST_NAME = 80
"""Characters of a provider's word that go into a log line."""

_MOST_WORDS = 8
"""Different words for withheld reasoning that are kept."""


_LONGEST_VALUE = 256 * 1024
"""Characters of what has to come back, in one answer; an answer with more is remembered without it."""


def words_digest(words: str) -> str:
    """What names thinking by its words."""
    return blake2b(words.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Seen:
    """What every reader gathers."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.message_id: str | None = None
        self.model: str | None = None
        self.calls: dict[str, None] = {}
        self.signatures: list[str] = []
        self.signed: dict[tuple[str, int, str], Signed] = {}
        self.stop_reason: str | None = None
        self.error_type: str | None = None
        self.complete = False
        self._reason: str | None = None
        self._missed: int | None = None
        self._removed: dict[str, None] = {}

    def answer(self) -> Answer:
        """Return what was seen so far."""
        diagnosis = Diagnosis(self._reason, self._missed, tuple(self._removed))
        return Answer(
            usage=self.usage,
            message_id=self.message_id,
            model=self.model,
            call_ids=tuple(self.calls),
            signatures=tuple(self.signatures),
            signed=self._signed(),
            stop_reason=self.stop_reason,
            error_type=self.error_type,
            complete=self.complete,
            diagnosis=None if diagnosis == Diagnosis() else diagnosis,
        )

    def call(self, call_id: object) -> None:
        """Note the id of a tool call."""
        if text := text_of(call_id):
            self.calls[text] = None

    def sign(self, signature: object) -> None:
        """Note a reasoning signature by its digest."""
        if text := text_of(signature):
            self.signatures.append(signature_digest(text))

    def returns(self, signed: Signed) -> None:
        """Note what has to come back with the next request."""
        if signed.value:
            self.signed[signed.kind, signed.place, signed.name] = signed

    def _signed(self) -> tuple[Signed, ...]:
        found = tuple(self.signed.values())
        return found if sum(len(one.value) for one in found) <= _LONGEST_VALUE else ()

    def failed(self, error: object) -> bool:
        """Note the type of an error object, in the words each provider has for it."""
        if not error:
            return False
        if isinstance(error, str):
            self.error_type = "error"
            return True
        names = object_of(error)
        words = (text_of(names.get(key)) for key in ("type", "status", "code"))
        self.error_type = next((word[:_LONGEST_NAME] for word in words if word), "error")
        return True

    def missed(self, reason: object, missed: int | None) -> None:
        """Note the provider's own reason of a missed cache."""
        if text := text_of(reason):
            self._reason, self._missed = text[:_LONGEST_NAME], missed

    def transformed(self, transformations: object) -> None:
        """Note why reasoning was withheld. What else a provider may come to transform is not known to concern us."""
        for one in objects_of(transformations):
            withheld = one.get("type") == "thinking_dropped" or one.get("action") == "removed"
            if withheld and (reason := text_of(one.get("reason"))) and len(self._removed) < _MOST_WORDS:
                self._removed[reason[:_LONGEST_NAME]] = None
