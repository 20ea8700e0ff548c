"""The responses of one websocket, each a turn of its own [D102].

A client event `response.create` begins a response, the server's events are those of the event stream, one a frame,
and one of them ends it. A `stream_id` in both tells several apart; those of one stream are answered in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from ..answer import OpenAIResponsesReader
from ..sse import Event
from .draft import Draft
from .journal import Journal
from .routes import Route

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})


class _Frame(Struct, frozen=True):
    """What is read of a frame in either direction."""

    type: str = ""
    stream_id: Raw = Raw(b"")
    status: int | None = None


_frame = msgspec.json.Decoder(_Frame)


class _Response:
    """One response under way."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.reader = OpenAIResponsesReader()


class Lanes:
    """Reads copies of the frames; can touch none of them. `idle` is set while no response is under way."""

    def __init__(self, route: Route, path: str, journal: Journal, clock: Callable[[], float]) -> None:
        self._route = route
        self._path = path
        self._journal = journal
        self._clock = clock
        self._open: dict[bytes, deque[_Response]] = {}
        self.idle = asyncio.Event()
        self.idle.set()

    def sent(self, data: bytes) -> None:
        """Take a frame of the client's. Never raises."""
        frame = _read(data)
        if frame is None or frame.type != "response.create":
            return
        draft = Draft("GET", self._path, self._clock())
        draft.route = self._route
        draft.request_bytes = len(data)
        draft.streamed = True
        self._open.setdefault(bytes(frame.stream_id), deque()).append(_Response(draft))
        self.idle.clear()

    def came(self, data: bytes) -> None:
        """Take a frame of the provider's. Never raises."""
        frame = _read(data)
        if frame is None or not (lane := self._open.get(bytes(frame.stream_id))):
            return
        response = lane[0]
        draft = response.draft
        draft.status = 200 if frame.type != "error" else frame.status or draft.status or 200
        draft.first_byte()
        draft.response_bytes += len(data)
        try:
            response.reader.event(Event(frame.type, data))
        except Exception as fault:  # noqa: BLE001  a bug here must not end somebody's answer
            draft.usage_fault = "the answer could not be read"
            self._journal.failed_open("tap", fault)
        if frame.type in _ENDS:
            lane.popleft()
            self._finish(response)

    def end(self, by: Literal["client", "upstream"]) -> None:
        """Close what is still under way: one side is gone."""
        for lane in self._open.values():
            for response in lane:
                response.draft.end("cancelled" if by == "client" else "truncated")
                self._close(response)
        self._open.clear()
        self.idle.set()

    def _finish(self, response: _Response) -> None:
        self._close(response)
        if not any(self._open.values()):
            self._open.clear()
            self.idle.set()

    def _close(self, response: _Response) -> None:
        response.draft.answer = response.reader.answer()
        self._journal.write(response.draft.turn())


def _read(data: bytes) -> _Frame | None:
    try:
        return _frame.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
