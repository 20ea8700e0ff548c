"""Server-sent events without IO: bytes in, events out.

Follows the event stream format of the HTML standard: a line ends in CRLF, LF or CR; a line that starts with a
colon is a comment; one space after the colon is optional; several `data` lines are joined by LF; an empty line
ends the event; a byte order mark may open the stream. A chunk may end anywhere, also inside a character or between
CR and LF. Providers frame differently [C1 C100 C101 C300]; nothing here knows a provider.
"""

from __future__ import annotations

import re

from msgspec import Struct

from .errors import BodyTooLarge

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_MIB = 1024 * 1024


class Event(Struct, frozen=True):
    """One event: `name` is `message` where the stream gives none; `data` is the joined data lines, undecoded."""

    name: str
    data: bytes


class SseParser:
    """An incremental parser. `limit` bounds, in bytes, what an unfinished event may hold."""

    def __init__(self, limit: int = 32 * _MIB) -> None:
        self._limit = limit
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._held = 0
        self._name = ""
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that `chunk` completes. Raises BodyTooLarge when one event outgrows the limit."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return []
        if b"\r" in chunk:
            lines = _LINE_END.split(chunk)
            self._after_cr = chunk.endswith(b"\r")
        else:
            lines = chunk.split(b"\n")
        events: list[Event] = []
        self._hold(lines[0])
        for following in lines[1:]:
            self._end_line(events)
            self._hold(following)
        return events

    def finish(self) -> list[Event]:
        """Return what stands unfinished when the stream ends: some servers leave out the last empty line."""
        events: list[Event] = []
        self._end_line(events)
        self._dispatch(events)
        return events

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._held > self._limit:
            raise BodyTooLarge(f"an event of more than {self._limit} bytes")
        if piece:
            self._line.append(piece)

    def _end_line(self, events: list[Event]) -> None:
        line = self._line[0] if len(self._line) == 1 else b"".join(self._line)
        self._line.clear()
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:
            events.append(Event(self._name or "message", b"\n".join(self._data)))
        self._data.clear()
        self._name = ""
        self._held = 0
