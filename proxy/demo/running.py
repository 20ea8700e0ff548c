"""The embedded provider and the proxy in front of it, each on a free port, in one loop of a background thread.

Both go by one clock that stands still until it is moved: pauses cost no time, and figures repeat to the token.
"""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from ..dialects import DIALECTS
from ..gateway.app import Gateway
from ..gateway.conversations import Conversations
from ..gateway.settings import resolve
from ..policy import Policies
from ..simulator import Clock, Exchange, Provider, Server, Settings
from ..simulator.chat import ChatProvider
from ..simulator.gemini import GeminiProvider, GeminiSettings
from ..simulator.responses import ResponsesProvider
from ..simulator.responses.codex import explorer
from ..simulator.server import Service
from ..turns import Turn
from .plan import model
from .project import ROOT

HOST = "127.0.0.1"
BEGINS = 1_796_082_840.0
"""2026-11-30 23:54 UTC: midnight falls into a pause that the cache outlives."""

DAY = 86_400.0

PROFILES = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "gemini",
}
"""By dialect: as what the proxy knows the provider."""

T = TypeVar("T")


def upstream_of(dialect: str) -> str:
    """The name of a format's provider in the proxy."""
    return dialect.replace("_", "-")


class Running:
    """Use it as a context manager; then the ports of the providers, one a format, and `port` are open.

    `body` is the newest request body a provider received, `log` has all requests to all of them.
    """

    def __init__(self, policies: Policies) -> None:
        self.clock = Clock(BEGINS, frozen=True)
        self.body = b""
        self._evenings = 0
        self._servers = {
            dialect: Server(service, HOST, 0, self.clock) for dialect, service in self._services().items()
        }
        self._policies = policies
        self._gateway: Gateway | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="demo", daemon=True)

    def _services(self) -> dict[str, Service]:
        """A provider for each format that the proxy reads."""
        strict = Settings(binding="error", keep_bodies=False)
        files = [f"{ROOT}/billing/{name}.py" for name in ("invoice", "money", "tax")]
        self.provider = Provider(strict, model, hook=self._see)
        self._providers: dict[str, Any] = {
            "anthropic": self.provider,
            "openai_chat": ChatProvider(settings=strict, script=model, hook=self._see),
            "openai_responses": ResponsesProvider(strict, explorer(files, turns=8), hook=self._see),
            "gemini": GeminiProvider(GeminiSettings(keep_bodies=False), model, hook=self._see),
        }
        return {name: one for name, one in self._providers.items() if name in DIALECTS}

    def port_of(self, dialect: str) -> int:
        """Where the provider of a format listens."""
        return self._servers[dialect].port

    def log(self, dialect: str) -> list[Exchange]:
        """What the provider of a format noted so far."""
        noted: list[Exchange] = self._providers[dialect].log
        return noted

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
        upstreams = []
        for dialect, server in self._servers.items():
            await server.start()
            upstreams.append(f"{upstream_of(dialect)}={server.url}#{PROFILES[dialect]}")
        flags = {"listen": f"{HOST}:0", "admin": "off", "state": "memory", "upstreams": upstreams}
        settings = resolve(flags, {})
        rewriter = Conversations(
            self._policies, upstreams={name: known.url for name, known in settings.upstreams.items()}
        )
        self._gateway = Gateway(settings, rewriter, stream=io.StringIO(), env={}, clock=self.clock)
        await self._gateway.start()

    async def _stop(self) -> None:
        if self._gateway is not None:
            await self._gateway.stop(drain=0)
        for server in self._servers.values():
            await server.stop()

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
