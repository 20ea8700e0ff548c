"""From HTTP to a websocket, on the provider's side."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Literal

import aiohttp
from msgspec import Struct
from multidict import CIMultiDict
from yarl import URL

from .exchange import RawHeaders
from .headers import Pairs


class Refused(Struct, frozen=True):
    """An upgrade that was not made, and what was said to it."""

    status: int
    headers: RawHeaders
    body: bytes


class Upgraded(Struct, frozen=True):
    """A websocket to the provider, which neither answers pings nor closes by itself."""

    socket: aiohttp.ClientWebSocketResponse[Literal[False]]
    headers: RawHeaders


async def upgraded(
    session: aiohttp.ClientSession,
    url: str,
    headers: Pairs,
    protocols: Sequence[str],
    *,
    deflate: int,
    proxy: str | None,
) -> Upgraded | Refused:
    """Open a websocket. `deflate` is the window of compression in bits, 0 for none. Raises what the library raises."""
    said: list[Refused] = []
    _HANDSHAKE.set(said)
    try:
        socket = await session.ws_connect(
            URL(url, encoded=True),
            protocols=protocols,
            autoclose=False,
            autoping=False,
            headers=CIMultiDict(headers),
            proxy=proxy,
            compress=deflate,
            max_msg_size=0,
            decode_text=False,
        )
    except aiohttp.WSServerHandshakeError:
        if said and said[0].status != _SWITCHING:
            return said[0]
        raise
    return Upgraded(socket, said[0].headers if said else ())


_SWITCHING = 101
_HANDSHAKE: ContextVar[list[Refused]] = ContextVar("handshake")


async def note_handshake(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """The library forgets what a provider says to an upgrade; keep it. Runs for websockets alone."""
    response = await handler(request)
    body = b"" if response.status == _SWITCHING else await response.read()
    _HANDSHAKE.get([]).append(Refused(response.status, response.raw_headers, body))
    return response
