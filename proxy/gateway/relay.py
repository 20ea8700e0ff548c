"""Back to the client: status, headers and bytes as they came, each chunk at once.

The client is served first and the tap after it. An answer that breaks off upstream breaks off here too: ending it
cleanly would dress half an answer up as a whole one [C6].
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection

from aiohttp import hdrs, web
from multidict import CIMultiDict

from ..answer import AnswerReader
from ..errors import BodyError, UpstreamError
from .asking import taking
from .draft import Draft
from .headers import end_to_end, value_of
from .journal import Journal
from .tap import Tap
from .upstream import Reply

_LIBRARY_HEADERS = (hdrs.DATE, hdrs.SERVER, hdrs.CONTENT_TYPE)


class Relayed(web.StreamResponse):
    """An answer of the provider's, less `dropped` headers. `exact_headers` takes out again what the library adds."""

    def __init__(self, reply: Reply, dropped: Collection[str] = ()) -> None:
        kept = (pair for pair in end_to_end(reply.headers) if pair[0].lower() not in dropped)
        super().__init__(status=reply.status, reason=reply.reason, headers=CIMultiDict(kept))
        self.added = tuple(name for name in _LIBRARY_HEADERS if name not in self.headers)


async def exact_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Run when headers are about to go out: of a relayed answer, only the provider's own and our framing go."""
    del request
    if isinstance(response, Relayed):
        for name in response.added:
            response.headers.pop(name, None)
    else:
        response.headers.pop(hdrs.SERVER, None)


def tap_for(reply: Reply, dialect: str, journal: Journal, reader: AnswerReader | None = None) -> Tap:
    """Return the tap for an answer in this dialect; `reader` where it is not the usual one."""
    return Tap(
        dialect,
        reply.status,
        value_of(reply.headers, "content-type") or "",
        value_of(reply.headers, "content-encoding") or "",
        journal,
        reader,
    )


async def relay(request: web.Request, reply: Reply, tap: Tap | None, draft: Draft) -> web.StreamResponse:
    """Hand the answer on, chunk by chunk, and note in the draft how it went.

    What `asking` put the question for is taken out on the way; the tap reads it all the same. A client that is gone raises ConnectionResetError here, or cancels the task that runs this.
    """
    draft.status = reply.status
    take = taking(reply)
    response = Relayed(reply, take.dropped if take else ())
    whole = False
    draft.begun = True
    try:
        await response.prepare(request)
        async for chunk in reply.chunks():
            await _hand_on(response, take.feed(chunk) if take else chunk, draft)
            if tap is not None:
                tap.feed(chunk)
        if take is not None:
            await _hand_on(response, take.finish(), draft)
        whole = True
    except (UpstreamError, BodyError) as fault:
        draft.error_type = fault.reason if isinstance(fault, UpstreamError) else "encoding"
        draft.end("truncated")
        if take is not None:
            await _hand_on(response, take.release(), draft)
        _break_off(request, response)
    finally:
        if take is not None and take.fault is not None:
            draft.fail_open("usage", take.fault)
        if tap is not None:
            draft.answer = tap.answer(whole=whole)
            draft.streamed = tap.streamed and reply.status < 400
            draft.usage_fault = tap.fault
            draft.refusal = draft.refusal or tap.refusal
    if whole:
        await response.write_eof()
    return response


async def _hand_on(response: Relayed, data: bytes, draft: Draft) -> None:
    if data:
        await response.write(data)
        draft.first_byte()
        draft.response_bytes += len(data)


def _break_off(request: web.Request, response: web.StreamResponse) -> None:
    """End the client's connection so that nobody takes what was sent for a whole answer.

    Where the framing shows the missing rest, closing is enough and loses nothing. An answer framed by the end of
    the connection alone (HTTP/1.0) can only be broken by a reset.
    """
    transport = request.transport
    if transport is None:
        return
    framed = hdrs.TRANSFER_ENCODING in response.headers or hdrs.CONTENT_LENGTH in response.headers
    sock = transport.get_extra_info("socket")
    if not framed and sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    else:
        transport.close()
