"""The provider on a socket: the thin shell around `Provider`."""

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol, Self

from aiohttp import web

from .clock import Clock
from .embedded import Headers
from .exchange import Answer
from .refusal import envelope

_LIMIT = 96 * 1024 * 1024


MODELS = ("/v1/models", "/v1beta/models")
"""Where clients ask for the list of models."""


class Delays(Protocol):
    """The settings of a provider that its server keeps, in seconds."""

    @property
    def latency_s(self) -> float:
        """Before the first byte."""

    @property
    def event_delay_s(self) -> float:
        """Behind each event."""


class Service(Protocol):
    """What can be put on a socket: a provider of any format."""

    @property
    def settings(self) -> Delays:
        """Its delays, among others."""

    def models(self) -> bytes:
        """The list of models."""

    def prepare(self, headers: Headers, body: bytes, now: float, path: str) -> Answer:
        """Answer a POST without its cache entries being visible yet. `path` is the raw target, query and all."""

    def begin(self, answer: Answer) -> None:
        """The first byte of an answer goes out."""


class Server:
    """Serves one provider on one port; port 0 takes a free one.

    Use it in a loop with `start` and `stop`, or as a context manager, which runs it in a thread of
    its own.
    """

    def __init__(
        self,
        provider: Service,
        host: str = "127.0.0.1",
        port: int = 0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.provider = provider
        self.host = host
        self.port = port
        self.clock = clock or Clock()
        self._runner: web.ServerRunner | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    async def start(self) -> Self:
        """Listen; afterwards `port` is the real one.

        Raises:
            OSError: the port is taken.
        """
        server = web.Server(self._handle, auto_decompress=False, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="simulator", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.start(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET" and request.path in MODELS:
            return web.Response(body=self.provider.models(), content_type="application/json")
        if request.method in ("GET", "HEAD") and request.path == "/":
            return web.Response(body=b"", content_type="text/plain")
        if request.headers.get("upgrade", "").lower() == "websocket":
            # No provider here speaks it; clients that try it first go on over HTTP at this answer [D102].
            return web.Response(status=426, headers={"upgrade": "HTTP/1.1"}, body=b"")
        if request.method != "POST":
            return web.Response(status=404, body=envelope(404, "Not found"), content_type="application/json")
        raw = await _body(request)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers]
        answer = self.provider.prepare(headers, raw, self.clock(), request.raw_path)
        if self.provider.settings.latency_s:
            await asyncio.sleep(self.provider.settings.latency_s)
        self.provider.begin(answer)
        return await self._send(request, answer)

    async def _send(self, request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        if answer.events is None:
            return web.Response(status=answer.status, headers=list(answer.headers), body=answer.body)
        response = web.StreamResponse(status=answer.status, headers=list(answer.headers))
        await response.prepare(request)
        try:
            for event in answer.events:
                await response.write(event)
                if self.provider.settings.event_delay_s:
                    await asyncio.sleep(self.provider.settings.event_delay_s)
        except ConnectionResetError:
            return response  # the client left, as clients do
        if answer.abort and request.transport is not None:
            request.transport.abort()
            return response
        await response.write_eof()
        return response


async def _body(request: web.BaseRequest) -> bytes:
    """The whole body, as sent; reading stops behind the largest size anyone would accept."""
    parts = bytearray()
    async for chunk in request.content.iter_any():
        parts += chunk
        if len(parts) > _LIMIT:
            break
    return bytes(parts)
