"""Websockets, handed on frame by frame between client and provider, where the setting says `tunnel`.

Both ends are the HTTP library's, so fragments and compression are each connection's own; messages, pings, pongs and
closes pass as they come, in order, unchanged. Requests on a websocket carry what is new and leave the rest to the
server [D102], so nothing is rewritten here; responses are metered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Literal, TypeAlias

from aiohttp import ClientWebSocketResponse, WSCloseCode, WSMsgType, web
from msgspec import Struct, structs
from multidict import CIMultiDict

from .draft import Draft
from .headers import Pairs, end_to_end, for_upstream, value_of
from .journal import Journal
from .lanes import Lanes
from .routes import Route
from .upgrade import Refused
from .upstream import Call, UpstreamClient

Inner: TypeAlias = web.WebSocketResponse[Literal[False]]
Outer: TypeAlias = ClientWebSocketResponse[Literal[False]]
Note: TypeAlias = Callable[[bytes], None]

_DEFLATE_BITS = 15
_NO_CODE = frozenset({0, 1005, 1006, 1015})
"""Codes that stand for a close without one; no frame may carry them."""

# The library would log the subprotocols a client offers, and browsers put keys there.
logging.getLogger("aiohttp.websocket").addFilter(lambda _: False)


class Closed(Struct, frozen=True):
    """How one side ended: with a close frame, or by being gone (`code` None)."""

    by: Literal["client", "upstream", "server"]
    code: int | None = None
    reason: bytes = b""


class Tunnels:
    """All websockets under way. `drain` lets each end after the responses it is in."""

    def __init__(self, upstreams: UpstreamClient, journal: Journal, clock: Callable[[], float]) -> None:
        self._upstreams = upstreams
        self._journal = journal
        self._clock = clock
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """End every websocket once no response is under way on it."""
        self._draining.set()

    async def serve(
        self, request: web.Request, to: Route, draft: Draft, largest: int
    ) -> web.StreamResponse | None:
        """Open the way to the provider, then to the client, and hand on until either ends.

        `largest` bounds a client's message, in bytes. None where the client's handshake is none. Raises UpstreamError
        where the provider cannot be reached; what it says to a refused upgrade is the answer.
        """
        offered = tuple(
            name.strip()
            for name in (value_of(request.raw_headers, "sec-websocket-protocol") or "").split(",")
            if name.strip()
        )
        if request.method != "GET" or not web.WebSocketResponse(protocols=offered).can_prepare(request):
            return None
        deflate = "permessage-deflate" in (value_of(request.raw_headers, "sec-websocket-extensions") or "")
        call = Call(
            to.upstream,
            "GET",
            to.url,
            _offer(for_upstream(request.raw_headers, to.upstream.host, None)),
            None,
        )
        opened = await self._upstreams.upgrade(call, offered, _DEFLATE_BITS if deflate else 0)
        if isinstance(opened, Refused):
            draft.status = opened.status
            return _refusal(opened)
        outer = opened.socket
        inner: Inner = web.WebSocketResponse(
            protocols=(outer.protocol,) if outer.protocol else (),
            autoping=False,
            autoclose=False,
            max_msg_size=largest,
            decode_text=False,
        )
        inner.headers.extend(_offer(end_to_end(opened.headers)))
        try:
            await inner.prepare(request)
            draft.status, draft.begun = int(inner.status), True
            draft.first_byte()
            await self._hand_on(request, inner, outer, to, draft)
        finally:
            await _shut(outer, WSCloseCode.GOING_AWAY)
        return inner

    async def _hand_on(
        self, request: web.Request, inner: Inner, outer: Outer, to: Route, draft: Draft
    ) -> None:
        lanes = Lanes(
            structs.replace(to, dialect="openai_responses"),
            request.raw_path.partition("?")[0],
            self._journal,
            self._clock,
        )
        metered = to.path.endswith("/responses")
        pumps = {
            asyncio.ensure_future(_pump("client", inner, outer, lanes.sent if metered else _unread)),
            asyncio.ensure_future(_pump("upstream", outer, inner, lanes.came if metered else _unread)),
            asyncio.ensure_future(self._leave(lanes)),
        }
        first = Closed("client")
        try:
            done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            first = next(iter(done)).result()
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            lanes.end("client" if first.by == "client" else "upstream")
        if first.by == "upstream" and first.code is None:
            # It broke off, so it breaks off here: a close frame would make an end of it.
            draft.end("truncated")
            if request.transport is not None:
                request.transport.close()
        else:
            await _pass_on(inner, outer, first)

    async def _leave(self, lanes: Lanes) -> Closed:
        await self._draining.wait()
        await lanes.idle.wait()
        return Closed("server", WSCloseCode.GOING_AWAY)


async def _pump(
    by: Literal["client", "upstream"], source: Inner | Outer, sink: Inner | Outer, note: Note
) -> Closed:
    """Hand messages on until the source ends. The other side is served first, the note comes after it."""
    while True:
        message = await source.receive()
        match message.type:
            case WSMsgType.TEXT | WSMsgType.BINARY:
                data = bytes(message.data)
                try:
                    await sink.send_frame(data, message.type)
                except ConnectionError:
                    return Closed("upstream" if by == "client" else "client")
                note(data)
            case WSMsgType.PING | WSMsgType.PONG:
                with contextlib.suppress(ConnectionError):
                    await sink.send_frame(bytes(message.data), message.type)
            case WSMsgType.CLOSE:
                return Closed(by, int(message.data or 0), str(message.extra or "").encode())
            case _:
                return Closed(by)


async def _pass_on(inner: Inner, outer: Outer, first: Closed) -> None:
    """End both sides as the first one did."""
    code = WSCloseCode.OK if first.code in _NO_CODE else first.code
    await _shut(outer, code or WSCloseCode.GOING_AWAY, first.reason)
    await _shut(inner, code or WSCloseCode.GOING_AWAY, first.reason)


async def _shut(socket: Inner | Outer, code: int, reason: bytes = b"") -> None:
    with contextlib.suppress(ConnectionError, RuntimeError):
        await socket.close(code=code, message=reason)


def _offer(pairs: Pairs) -> Pairs:
    """Headers but for those of the websocket handshake, which each connection has of its own."""
    return [(name, value) for name, value in pairs if not name.lower().startswith("sec-websocket-")]


def _refusal(refused: Refused) -> web.Response:
    kept = [pair for pair in end_to_end(refused.headers) if pair[0].lower() != "content-length"]
    return web.Response(status=refused.status, body=refused.body, headers=CIMultiDict(kept))


def _unread(data: bytes) -> None:
    """Frames of a kind we do not meter."""
    del data
