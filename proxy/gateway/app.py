"""The server: two listeners around one handler, started and stopped as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TextIO, TypeAlias

from aiohttp import HttpVersion11, hdrs, web

from ..errors import SettingsError
from .admin import Admin
from .exchange import PassThrough, Rewriter
from .handler import Handler
from .journal import Journal
from .log import make_logger
from .metrics import Metrics
from .recorder import Recorder
from .relay import exact_headers
from .rewriting import Rewriting
from .settings import Settings
from .spool import SpoolDirectory
from .upstream import MAX_HEADER, UpstreamClient
from .values import Address
from .warm import Sleep

Routed: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_KEEPALIVE_SECONDS = 3600.0
"""An agent's idle connection outlives its human's thinking."""

# The library's own log would quote request lines and headers; nothing of it is wanted.
_SILENT = logging.getLogger("proxy.gateway.silent")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


class Gateway:
    """One running proxy, for `stet serve` and for tests alike.

    Without a rewriter every body passes unchanged and is only metered. `stream` takes the log (standard error by
    default), `env` stands for the environment's proxy and certificate variables, `clock` for the wall clock: seconds
    since the epoch, by which a cache is taken to be warm or cold. Out of `spool` agents may read what it keeps;
    `recorder` writes down what they send. `sleep` waits for so many seconds where a cache is kept warm.
    """

    def __init__(
        self,
        settings: Settings,
        rewriter: Rewriter | None = None,
        *,
        stream: TextIO | None = None,
        env: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        spool: SpoolDirectory | None = None,
        recorder: Recorder | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.journal = Journal(make_logger(settings.log, stream), self.metrics)
        self._upstreams = UpstreamClient(settings.upstreams, env)
        rewriting = Rewriting(rewriter or PassThrough(), self.journal)
        self._handler = Handler(
            settings, rewriting, self._upstreams, self.journal, clock, spool, recorder, sleep
        )
        self._admin = Admin(settings, self.journal)
        self._busy: set[asyncio.Task[object]] = set()
        self._runner: web.AppRunner | None = None
        self._admin_runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self.address = settings.listen
        self.admin_address = settings.admin

    @property
    def port(self) -> int:
        """The agents' port."""
        return self.address.port

    @property
    def answering(self) -> int:
        """Requests under way."""
        return len(self._busy)

    async def start(self) -> int:
        """Listen; return the agents' port. Raises SettingsError where a port cannot be had."""
        await self._upstreams.open()
        try:
            if self.settings.admin is not None:
                self._admin_runner = web.AppRunner(
                    self._admin.application(), access_log=None, logger=_SILENT, max_field_size=MAX_HEADER
                )
                _, self.admin_address = await _listen(self._admin_runner, self.settings.admin, "admin")
            self._runner = web.AppRunner(
                self._application(),
                access_log=None,
                logger=_SILENT,
                handler_cancellation=True,
                auto_decompress=False,
                keepalive_timeout=_KEEPALIVE_SECONDS,
                max_line_size=MAX_HEADER,
                max_field_size=MAX_HEADER,
                max_headers=1024,
                shutdown_timeout=0.1,
            )
            self._site, self.address = await _listen(self._runner, self.settings.listen, "listen")
        except BaseException:
            await self.stop(drain=0)
            raise
        return self.port

    async def stop(self, drain: float | None = None) -> None:
        """Take no new connections, let answers under way finish for `drain` seconds, then cut the rest.

        `drain` is the setting's by default. Readiness goes off first; admin stays up until the end.
        """
        self._admin.draining = True
        self._handler.tunnels.drain()
        self._handler.warm.drain()
        seconds = self.settings.drain if drain is None else drain
        if self._site is not None:
            await self._site.stop()
            self._site = None
        if self._busy and seconds > 0:
            await asyncio.wait(set(self._busy), timeout=seconds)
        for task in self._busy:
            task.cancel()
        for runner in (self._runner, self._admin_runner):
            if runner is not None:
                await runner.cleanup()
        self._runner = self._admin_runner = None
        await self._upstreams.close()

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._everything])
        app.router.add_route("*", "/{path:.*}", self._handler.handle, expect_handler=self._continue)
        app.on_response_prepare.append(exact_headers)
        app.on_response_prepare.append(self._last_answers)
        return app

    @web.middleware
    async def _everything(self, request: web.Request, handler: Routed) -> web.StreamResponse:
        """Every request, also one the library's router has no route for."""
        del handler
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            return await self._handler.handle(request)
        finally:
            self._busy.discard(task)

    async def _last_answers(self, request: web.Request, response: web.StreamResponse) -> None:
        """While draining, each answer is the last on its connection."""
        del request
        if self._admin.draining:
            response.force_close()
            response.headers[hdrs.CONNECTION] = "close"

    async def _continue(self, request: web.Request) -> None:
        """Answer `Expect: 100-continue` at once, unless the announced body is refused anyway."""
        length = request.content_length
        if request.version >= HttpVersion11 and (length is None or length <= self.settings.max_body):
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0  # the answer proper has not begun


async def _listen(runner: web.AppRunner, address: Address, setting: str) -> tuple[web.TCPSite, Address]:
    await runner.setup()
    site = web.TCPSite(runner, address.host, address.port)
    try:
        await site.start()
    except OSError as fault:
        taken = fault.errno == errno.EADDRINUSE
        why = "the port is taken" if taken else f"cannot listen ({fault.strerror or fault})"
        cure = (
            "stop the other process or choose another port" if taken else "choose an address of this machine"
        )
        raise SettingsError(f"{address}: {why}", setting, cure) from fault
    port = next(int(name[1]) for name in runner.addresses)
    return site, Address(address.host, port)


async def serve(
    settings: Settings,
    rewriter: Rewriter | None = None,
    *,
    ready: Callable[[Gateway], None] | None = None,
    stopping: Callable[[Gateway], None] | None = None,
    stream: TextIO | None = None,
    spool: SpoolDirectory | None = None,
    recorder: Recorder | None = None,
) -> None:
    """Run until SIGTERM or SIGINT, then drain; a second signal cuts the drain short.

    `ready` is called once both listeners are up, `stopping` at the first signal. Raises SettingsError where the
    listeners cannot be.
    """
    gateway = Gateway(settings, rewriter, stream=stream, spool=spool, recorder=recorder)
    asked = [asyncio.Event(), asyncio.Event()]

    def ask() -> None:
        next((event for event in asked if not event.is_set()), asked[-1]).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, ask)
    await gateway.start()
    if ready is not None:
        ready(gateway)
    await asked[0].wait()
    if stopping is not None:
        stopping(gateway)
    draining = asyncio.ensure_future(gateway.stop())
    hurry = asyncio.ensure_future(asked[1].wait())
    await asyncio.wait({draining, hurry}, return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    if not draining.done():
        draining.cancel()
        await asyncio.wait({draining})
        await gateway.stop(drain=0)
    await draining if not draining.cancelled() else None


def run(
    settings: Settings,
    rewriter: Rewriter | None = None,
    *,
    ready: Callable[[Gateway], None] | None = None,
    stopping: Callable[[Gateway], None] | None = None,
    spool: SpoolDirectory | None = None,
    recorder: Recorder | None = None,
) -> None:
    """Run `serve` in a loop of its own, on uvloop where it is installed."""
    try:
        import uvloop  # noqa: PLC0415  not there on Windows
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(settings, rewriter, ready=ready, stopping=stopping, spool=spool, recorder=recorder))
