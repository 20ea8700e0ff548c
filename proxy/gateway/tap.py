"""The passive tap: reads a copy of an answer for its usage, and can never touch the answer itself.

It is fed after the client was, opens the copy where the provider compressed it, and stops for good at the first
thing it cannot read; then the turn says so and has no figures.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from ..answer import READERS, Answer, AnswerReader
from ..errors import BodyError, BodyTooLarge
from ..jsonarray import ArrayParser
from ..sse import Event, SseParser
from .encoding import Opener, opener_for
from .refusals import structural_class

_LONGEST_DOCUMENT = 32 * 1024 * 1024


class Faults(Protocol):
    """Where a fault of ours is reported that the client must not notice."""

    def failed_open(self, where: str, fault: BaseException) -> None:
        """Count and log a fault."""
        ...


class _Events:
    """Server-sent events."""

    def __init__(self, reader: AnswerReader) -> None:
        self._reader = reader
        self._parser = SseParser()

    def feed(self, piece: bytes) -> None:
        for event in self._parser.feed(piece):
            self._reader.event(event)

    def finish(self) -> None:
        for event in self._parser.finish():
            self._reader.event(event)


class _Elements:
    """One JSON array of what would otherwise be events: Gemini without `alt=sse` [C300]."""

    def __init__(self, reader: AnswerReader) -> None:
        self._reader = reader
        self._parser = ArrayParser()

    def feed(self, piece: bytes) -> None:
        for element in self._parser.feed(piece):
            self._reader.event(Event("message", element))

    def finish(self) -> None:
        return


class _Document:
    """One JSON document, an error body among others."""

    def __init__(self, reader: AnswerReader) -> None:
        self._reader = reader
        self.body = bytearray()

    def feed(self, piece: bytes) -> None:
        self.body += piece
        if len(self.body) > _LONGEST_DOCUMENT:
            self.body.clear()
            raise BodyTooLarge(f"an answer of more than {_LONGEST_DOCUMENT} bytes")

    def finish(self) -> None:
        if self.body:
            self._reader.document(bytes(self.body))


_Form: TypeAlias = _Events | _Elements | _Document


class Tap:
    """Reads one answer. `fault` says why there are no figures."""

    def __init__(
        self,
        dialect: str,
        status: int,
        content_type: str,
        content_encoding: str,
        faults: Faults,
        reader: AnswerReader | None = None,
    ) -> None:
        self.fault: str | None = None
        self.refusal: str | None = None
        self._dialect = dialect
        self._status = status
        self._faults = faults
        self._reader = reader or READERS[dialect]()
        self._form: _Form | None = _Events(self._reader) if "event-stream" in content_type.lower() else None
        self._opener: Opener | None = None
        try:
            self._opener = opener_for(content_encoding)
        except BodyError as fault:
            self.fault = str(fault)

    @property
    def streamed(self) -> bool:
        """Whether the answer is made of events, as far as is known; it then has an end that can be missing."""
        return isinstance(self._form, _Events | _Elements)

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes as they came over the wire. Never raises."""
        if self.fault is not None or self._opener is None:
            return
        try:
            for piece in self._opener.feed(chunk):
                self._take(piece)
        except BodyError as fault:
            self.fault = str(fault)
        except Exception as fault:  # noqa: BLE001  a bug here must not end somebody's answer
            self._give_up(fault)

    def answer(self, *, whole: bool) -> Answer:
        """Return what was seen. `whole` says that the body came to its end. Never raises."""
        if self.fault is None and whole:
            try:
                self._finish()
            except Exception as fault:  # noqa: BLE001  as above
                self._give_up(fault)
        return self._reader.answer()

    def _take(self, piece: bytes) -> None:
        if self._form is None:
            piece = piece.lstrip()
            if not piece:
                return
            parts = self._dialect == "gemini" and self._status < 400 and piece.startswith(b"[")
            self._form = _Elements(self._reader) if parts else _Document(self._reader)
        self._form.feed(piece)

    def _finish(self) -> None:
        if self._form is None:
            return
        self._form.finish()
        if isinstance(self._form, _Document):
            self.refusal = structural_class(self._status, bytes(self._form.body))

    def _give_up(self, fault: Exception) -> None:
        self.fault = "the answer could not be read"
        self._faults.failed_open("tap", fault)
