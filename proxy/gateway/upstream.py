"""Towards the provider: one pool of connections, one request, every failure with a name.

The HTTP library is kept from helping: no cookie jar, no redirects, no headers of its own, no decompression, no
requoting of paths, no reading of the environment. What leaves has exactly the headers it is given, in order.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TypeAlias

import aiohttp
from aiohttp import hdrs
from msgspec import Struct
from multidict import CIMultiDict
from yarl import URL

from ..errors import UpstreamError
from .exchange import RawHeaders
from .headers import Pairs
from .outbound import proxy_for, tls_context
from .unreachable import CONNECT_SECONDS, named
from .upgrade import Refused, Upgraded, note_handshake, upgraded
from .values import Upstream

_POOL_SECONDS = 75.0
"""An idle connection is kept this long; agents think between turns, providers close after a minute or more."""
_STALE_SECONDS = 5.0
"""A kept connection that the provider has closed shows itself within a round trip, not after a minute of work."""
MAX_HEADER = 64 * 1024
_SLICE = 256 * 1024

Body: TypeAlias = bytes | AsyncIterator[bytes] | None


class Call(Struct, frozen=True):
    """One request to an upstream. A body that is an iterator streams through and cannot be sent twice.

    `asked`: it asks for usage that the client did not ask for.
    """

    upstream: Upstream
    method: str
    url: str
    headers: Pairs
    body: Body
    asked: bool = False


class Reply:
    """An answer whose headers are read. `chunks` gives the body as it comes, after what `peek` has read of it."""

    def __init__(self, response: aiohttp.ClientResponse, call: Call) -> None:
        self._response = response
        self._call = call
        self._kept: list[bytes] = []
        self._broken: UpstreamError | None = None
        self.status = response.status
        self.reason = response.reason or ""
        self.headers: RawHeaders = response.raw_headers
        self.asked = call.asked

    async def peek(self, limit: int) -> bytes:
        """Read and keep up to about `limit` bytes of the body, for a look before anything goes to the client."""
        size = 0
        try:
            while size <= limit and (chunk := await self._response.content.readany()):
                self._kept.append(chunk)
                size += len(chunk)
        except (aiohttp.ClientError, OSError) as fault:
            self._broken = named(fault, self._call.upstream)
        return b"".join(self._kept)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body, each chunk as it arrives. Raises UpstreamError where it ends before its end."""
        for kept in self._kept:
            yield kept
        if self._broken is not None:
            raise self._broken
        try:
            while chunk := await self._response.content.readany():
                yield chunk
        except (aiohttp.ClientError, OSError) as fault:
            raise named(fault, self._call.upstream) from fault

    def close(self) -> None:
        """Give the connection back where the body was read to its end, else cut it."""
        if self._response.content.at_eof() and self._response.content.exception() is None:
            self._response.release()
        else:
            self._response.close()


class _BrokenError(Exception):
    """A connection broke. Not one of the library's errors, or it would try again by its own rules."""

    def __init__(self, fault: aiohttp.ClientOSError | aiohttp.ServerDisconnectedError) -> None:
        super().__init__()
        self.fault = fault


class _Attempt:
    """What the pool did for one attempt."""

    def __init__(self) -> None:
        self.reused = False


class UpstreamClient:
    """The pool. `open` before use, `close` after; requests in flight are cut by `close`."""

    def __init__(self, upstreams: Mapping[str, Upstream], env: Mapping[str, str] | None = None) -> None:
        env = os.environ if env is None else env
        self._env = env
        self._proxies = {name: proxy_for(upstream.url, env) for name, upstream in upstreams.items()}
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the pool. Raises SettingsError for certificates that cannot be read."""
        watch = aiohttp.TraceConfig()
        watch.on_connection_reuseconn.append(_note_reuse)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=_POOL_SECONDS,
                ssl=tls_context(self._env),
                socket_factory=_kept_alive,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=(hdrs.USER_AGENT, hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE),
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=None),
            auto_decompress=False,
            trust_env=False,
            max_line_size=MAX_HEADER,
            max_field_size=MAX_HEADER,
            max_headers=1024,
            trace_configs=[watch],
            middlewares=(note_handshake,),
        )

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, call: Call) -> tuple[Reply, bool]:
        """Send the request; return the reply, and whether it took a second attempt.

        A second attempt is made once, where a connection kept from an earlier request turned out to be closed
        before any byte came back. Raises UpstreamError, UpstreamTimeout.
        """
        attempt = _Attempt()
        started = asyncio.get_running_loop().time()
        try:
            return await self._once(call, attempt), False
        except _BrokenError as broken:
            soon = asyncio.get_running_loop().time() - started < _STALE_SECONDS
            if not (attempt.reused and soon and isinstance(call.body, bytes | None)):
                raise named(broken.fault, call.upstream) from broken.fault
        except (aiohttp.ClientError, OSError) as fault:
            raise named(fault, call.upstream) from fault
        try:
            return await self._once(call, _Attempt()), True
        except _BrokenError as broken:
            raise named(broken.fault, call.upstream) from broken.fault
        except (aiohttp.ClientError, OSError) as fault:
            raise named(fault, call.upstream) from fault

    async def upgrade(self, call: Call, protocols: Sequence[str], deflate: int) -> Upgraded | Refused:
        """Open a websocket, offering these subprotocols, and compression with a window of `deflate` bits, 0 for none.

        Raises UpstreamError, UpstreamTimeout.
        """
        proxy = self._proxies.get(call.upstream.name)
        try:
            return await upgraded(
                self._pool(), call.url, call.headers, protocols, deflate=deflate, proxy=proxy
            )
        except (aiohttp.ClientError, OSError) as fault:
            raise named(fault, call.upstream) from fault

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the pool is not open")
        return self._session

    async def _once(self, call: Call, attempt: _Attempt) -> Reply:
        async def exact(
            request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:
            # The library has put its own Host first and merged headers by name; put back what the client sent.
            chunked = request.headers.get(hdrs.TRANSFER_ENCODING)
            request.headers.clear()
            request.headers.extend(call.headers)
            if chunked is not None:
                request.headers[hdrs.TRANSFER_ENCODING] = chunked
            try:
                return await handler(request)
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as fault:
                raise _BrokenError(fault) from fault

        # The library frames the body by the length it is told here; `exact` then writes the headers.
        length = next((value for name, value in call.headers if name.lower() == "content-length"), None)
        framing = CIMultiDict({hdrs.CONTENT_LENGTH: length} if length is not None else {})
        response = await self._pool().request(
            call.method,
            URL(call.url, encoded=True),
            data=_sliced(call.body),
            headers=framing,
            allow_redirects=False,
            proxy=self._proxies.get(call.upstream.name),
            middlewares=(exact,),
            trace_request_ctx=attempt,
        )
        return Reply(response, call)


def _sliced(body: Body) -> Body:
    """Large bodies go out in slices: one write of 60 MB would hold up every other stream."""
    return _slices(body) if isinstance(body, bytes) and len(body) > _SLICE else body


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    view = memoryview(body)
    for start in range(0, len(body), _SLICE):
        yield bytes(view[start : start + _SLICE])


async def _note_reuse(
    session: aiohttp.ClientSession,
    context: SimpleNamespace,
    params: aiohttp.TraceConnectionReuseconnParams,
) -> None:
    del session, params
    if isinstance(context.trace_request_ctx, _Attempt):  # there is none for a websocket
        context.trace_request_ctx.reused = True


def _kept_alive(address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """A socket whose silence is probed: there is no time limit on an answer, so a dead peer must be noticed."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 30)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
    return made
