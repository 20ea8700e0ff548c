"""The words of an answer that we ourselves asked for, beside all that is read of any other.

What a client asked for is read in passing, and its words are nobody's business; so this stands apart, and is used for
questions of our own alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from ..sse import Event
from ..usage import JsonObject
from .seen import Answer, decode, object_of, objects_of, text_of

LONGEST = 1 << 18
"""Characters of words that are kept; an answer with more is no summary."""

_WORD = 40
"""Characters of a provider's word that go into a log line."""

_ENDS = frozenset({"end_turn", "stop_sequence", "stop", "completed", "eos", "eos_token"})
"""Reasons to stop that say that all was said [C2 C100 C101 C300], in lower case."""


class _Reader(Protocol):
    def event(self, event: Event) -> None: ...
    def document(self, body: bytes) -> None: ...
    def answer(self) -> Answer: ...


class Words:
    """Reads one answer with `reader`, and keeps what it says. `text` is what was said so far."""

    def __init__(self, dialect: str, reader: _Reader) -> None:
        self._reader = reader
        self._said = SAID[dialect]
        self._pieces: list[str] = []
        self._length = 0
        self._called = False

    def event(self, event: Event) -> None:
        """See `AnswerReader`."""
        self._reader.event(event)
        self._take(decode(event.data))

    def document(self, body: bytes) -> None:
        """See `AnswerReader`."""
        self._reader.document(body)
        whole = decode(body)
        for one in whole if isinstance(whole, list) else [whole]:
            self._take(one)

    def answer(self) -> Answer:
        """See `AnswerReader`."""
        return self._reader.answer()

    @property
    def text(self) -> str:
        """All words so far."""
        return "".join(self._pieces)

    @property
    def fault(self) -> str:
        """Why what was said is no answer in words; "" where it is one."""
        answer = self._reader.answer()
        if answer.error_type is not None:
            return f"an error in the answer: {answer.error_type}"
        if answer.call_ids or self._called:
            return "the model called a tool instead"
        if not answer.complete or answer.stop_reason is None:
            return "the answer broke off"
        if answer.stop_reason.lower() not in _ENDS:
            return f"the answer ended before its end: {answer.stop_reason[:_WORD]}"
        if self._length > LONGEST:
            return "the answer is too long"
        return "" if self.text.strip() else "the model said nothing"

    def _take(self, value: object) -> None:
        for piece in self._said(object_of(value)):
            if piece is None:
                self._called = True
                continue
            self._length += len(piece)
            if self._length <= LONGEST:
                self._pieces.append(piece)


def _anthropic(told: JsonObject) -> Iterator[str | None]:
    """A piece of a stream, or the whole message [C1]."""
    delta = object_of(told.get("delta"))
    blocks = [delta] if delta.get("type") == "text_delta" else objects_of(told.get("content"))
    yield from (text for block in blocks if (text := text_of(block.get("text"))))


def _openai_chat(told: JsonObject) -> Iterator[str | None]:
    """A chunk or the whole completion, of its first choice [C100]."""
    for choice in objects_of(told.get("choices"))[:1]:
        for part in ("delta", "message"):
            content = object_of(choice.get(part)).get("content")
            texts = [content] if isinstance(content, str) else [p.get("text") for p in objects_of(content)]
            yield from (text for one in texts if (text := text_of(one)))


def _openai_responses(told: JsonObject) -> Iterator[str | None]:
    """A piece of a stream, or the whole response [C101]. The event that ends a stream repeats all of it."""
    if told.get("type") == "response.output_text.delta" and (text := text_of(told.get("delta"))):
        yield text
    for item in objects_of(told.get("output")):
        for part in objects_of(item.get("content")) if item.get("type") == "message" else []:
            if text := text_of(part.get("text")):
                yield text


def _gemini(told: JsonObject) -> Iterator[str | None]:
    """A chunk, of its first candidate, without what it thinks [C300 D301]. Its calls need no id: None is one."""
    response = object_of(told.get("response")) or told
    for candidate in objects_of(response.get("candidates"))[:1]:
        for part in objects_of(object_of(candidate.get("content")).get("parts")):
            if part.get("functionCall"):
                yield None
            elif not part.get("thought") and (text := text_of(part.get("text"))):
                yield text


SAID: Mapping[str, Callable[[JsonObject], Iterator[str | None]]] = {
    "anthropic": _anthropic,
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
    "gemini": _gemini,
}
"""What an event's data or a whole document says, by dialect; None for a call that the reader may not know of."""
