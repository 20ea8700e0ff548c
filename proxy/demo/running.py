"""The embedded provider and the proxy in front of it, each on a free port, in one loop of a background thread.

Both go by one clock that stands still until it is moved: pauses cost no time, and figures repeat to the token.
"""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from ..gateway.app import Gateway
from ..gateway.conversations import Conversations
from ..gateway.settings import resolve
from ..policy import Policies
from ..simulator import Clock, Exchange, Provider, Server, Settings
from ..turns import Turn
from .plan import model

HOST = "127.0.0.1"
BEGINS = 1_796_082_840.0
"""2026-11-30 23:54 UTC: midnight falls into a pause that the cache outlives."""

DAY = 86_400.0

T = TypeVar("T")


class Running:
    """Use it as a context manager; then `provider_port` and `port` are open.

    `body` is the newest request body the provider received.
    """

    def __init__(self, policies: Policies) -> None:
        self.clock = Clock(BEGINS, frozen=True)
        self.body = b""
        self._evenings = 0
        settings = Settings(binding="error", keep_bodies=False)
        self.provider = Provider(settings, model, hook=self._see)
        self._server = Server(self.provider, HOST, 0, self.clock)
        self._policies = policies
        self._gateway: Gateway | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="demo", daemon=True)

    @property
    def provider_port(self) -> int:
        """Where the provider listens."""
        return self._server.port

    @property
    def port(self) -> int:
        """Where the proxy listens."""
        assert self._gateway is not None
        return self._gateway.port

    def __enter__(self) -> Self:
        """Start both. Raises OSError or SettingsError where a port cannot be had."""
        self._thread.start()
        try:
            self._do(self._start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop both."""
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def next_evening(self) -> float:
        """Move the clock to the next evening, for a new session to begin; return that time."""
        self._evenings += 1
        self.clock.advance(BEGINS - self.clock() + DAY * self._evenings)
        return self.clock()

    def turns(self, since: float, count: int) -> list[Turn]:
        """The proxy's own records of the `count` requests since a time, oldest first."""
        return self._do(self._turns(since, count))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        await self._server.start()
        url = f"{self._server.url}#anthropic"
        flags = {"listen": f"{HOST}:0", "admin": "off", "state": "memory", "upstreams": [f"anthropic={url}"]}
        settings = resolve(flags, {})
        rewriter = Conversations(
            self._policies, upstreams={name: known.url for name, known in settings.upstreams.items()}
        )
        self._gateway = Gateway(settings, rewriter, stream=io.StringIO(), env={}, clock=self.clock)
        await self._gateway.start()

    async def _stop(self) -> None:
        if self._gateway is not None:
            await self._gateway.stop(drain=0)
        await self._server.stop()

    async def _turns(self, since: float, count: int) -> list[Turn]:
        """A record is written once its client has the last byte: the newest may be a moment away."""
        assert self._gateway is not None
        async with asyncio.timeout(10):
            while True:
                found = [turn for turn in self._gateway.journal.recent() if turn.started_at >= since]
                if len(found) >= count:
                    return found[::-1]
                await asyncio.sleep(0.001)

    def _see(self, record: Exchange) -> None:
        self.body = record.body
