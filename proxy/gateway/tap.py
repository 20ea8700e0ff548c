"""The passive tap: reads a copy of an answer for its usage, and can never touch the answer itself.

It is fed after the client was, opens the copy where the provider compressed it, and stops for good at the first
thing it cannot read; then the turn says so and has no figures.
"""

from __future__ import annotations

from typing import Protocol

from ..answer import READERS, Answer
from ..errors import BodyError, BodyTooLarge
from ..sse import SseParser
from .encoding import Opener, opener_for
from .refusals import structural_class

_LONGEST_DOCUMENT = 32 * 1024 * 1024


class Faults(Protocol):
    """Where a fault of ours is reported that the client must not notice."""

    def failed_open(self, where: str, fault: BaseException) -> None:
        """Count and log a fault."""
        ...


class Tap:
    """Reads one answer. `fault` says why there are no figures; `streamed` whether the answer is an event stream."""

    def __init__(
        self, dialect: str, status: int, content_type: str, content_encoding: str, faults: Faults
    ) -> None:
        self.fault: str | None = None
        self.refusal: str | None = None
        self.streamed = "event-stream" in content_type.lower()
        self._status = status
        self._faults = faults
        self._reader = READERS[dialect]()
        self._events = SseParser()
        self._document = bytearray()
        self._opener: Opener | None = None
        try:
            self._opener = opener_for(content_encoding)
        except BodyError as fault:
            self.fault = str(fault)

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
        if self.streamed:
            for event in self._events.feed(piece):
                self._reader.event(event)
            return
        self._document += piece
        if len(self._document) > _LONGEST_DOCUMENT:
            self._document.clear()
            raise BodyTooLarge(f"an answer of more than {_LONGEST_DOCUMENT} bytes")

    def _finish(self) -> None:
        if self.streamed:
            for event in self._events.finish():
                self._reader.event(event)
        elif self._document:
            body = bytes(self._document)
            self._reader.document(body)
            self.refusal = structural_class(self._status, body)

    def _give_up(self, fault: Exception) -> None:
        self.fault = "the answer could not be read"
        self._faults.failed_open("tap", fault)
