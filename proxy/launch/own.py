"""The proxy that an agent speaks to: one of the run's own, in a thread of this process, or one that runs already."""

from __future__ import annotations

import asyncio
import gc
import http.client
import io
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, TextIO

from msgspec import structs

from ..errors import SettingsError, StetError
from ..gateway.app import Gateway
from ..gateway.banner import base_url
from ..gateway.log import make_logger
from ..gateway.reload import watch
from ..gateway.service import build
from ..gateway.settings import Settings
from ..gateway.values import Address
from ..models import Models
from .cost import Cost
from .untouched import Compared

_START_SECONDS = 30.0
_DRAIN_SECONDS = 2.0
"""Behind an agent that has ended nobody waits for answers."""

_KEPT_LOGS = 100


class Own:
    """A proxy in a background thread. A context manager: on entry it listens, on exit it has stopped.

    `stream` takes the log, one JSON object a line. `more`, known on exit: what the requests would have cost more
    directly.
    """

    def __init__(self, settings: Settings, models: Models, stream: TextIO) -> None:
        self._settings = structs.replace(settings, admin=None, log="json", drain=_DRAIN_SECONDS)
        self._stream = stream
        self._logger = make_logger("json", stream)
        rewriter, self._store = build(self._settings, models, self._warn, Compared)
        assert isinstance(rewriter, Compared)
        self._rewriter = rewriter
        self.more: Cost | None = None
        self._gateway: Gateway | None = None
        self._fault: BaseException | None = None
        self._up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._serve, name="stet", daemon=True)

    @property
    def base(self) -> str:
        """Its URL."""
        assert self._gateway is not None
        return base_url(self._gateway.address)

    def __enter__(self) -> Self:
        """Listen. Raises SettingsError where the port cannot be had."""
        self._thread.start()
        if not self._up.wait(_START_SECONDS):
            raise SettingsError(
                "the proxy did not start in time", "run", "look whether this machine is overloaded"
            )
        if self._fault is not None:
            self._close()
            raise self._fault
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and keep what is to be kept."""
        if self._loop is not None and self._over is not None:
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_START_SECONDS)
        self.more = self._rewriter.difference()
        self._close()

    def _close(self) -> None:
        self._rewriter.close()
        if self._store is not None:
            self._store.close()

    def _serve(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_loops()) as runner:
                runner.run(self._live())
        except BaseException as fault:  # noqa: BLE001  told by whoever waits for the start
            self._fault = fault
        finally:
            self._up.set()

    async def _live(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        gateway = Gateway(self._settings, self._rewriter, stream=self._stream, spool=self._rewriter.spool)
        await gateway.start()
        self._gateway = gateway
        watching = asyncio.ensure_future(watch(self._settings.policy, self._rewriter, gateway.journal.logger))
        gc.freeze()  # as in the service: what is remembered has no cycles, and looking for them would hold up streams
        gc.set_threshold(50_000, 20, 100)
        self._up.set()
        await self._over.wait()
        watching.cancel()
        await gateway.stop()

    def _warn(self, fault: StetError) -> None:
        self._logger.warning("warning", message=str(fault))


def _loops() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415  not there on Windows
    except ImportError:
        return None
    return uvloop.new_event_loop


# -- one that runs already ------------------------------------------------------------------------------


def answers(listen: Address) -> bool | None:
    """Whether a proxy of ours answers at an address: None where nothing does, False where something else does."""
    try:
        status, body = _get(listen, "/stet/")
    except ConnectionRefusedError:
        return None
    except (OSError, http.client.HTTPException):
        return False
    return status == http.client.NOT_FOUND and b"stet: nothing is served at /stet/" in body


def turns_page(admin: Address, token: str | None) -> bytes | None:
    """The admin page of recent turns, None where it cannot be had."""
    try:
        status, body = _get(admin, "/turns?limit=500", token)
    except (OSError, http.client.HTTPException):
        return None
    return body if status == http.client.OK else None


def _get(address: Address, path: str, token: str | None = None) -> tuple[int, bytes]:
    anywhere = address.host in {"0.0.0.0", "::", ""}  # noqa: S104  compared with, not bound to
    connection = http.client.HTTPConnection(
        "127.0.0.1" if anywhere else address.host, address.port, timeout=5
    )
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        reply = connection.getresponse()
        return reply.status, reply.read(16 * 1024 * 1024)
    finally:
        connection.close()


# -- the log of a run -----------------------------------------------------------------------------------


class LogFile(io.TextIOBase):
    """The log of a run: a file that only its owner can read, and an ear for each of its lines."""

    def __init__(self, folder: Path, name: str, hear: Callable[[str], None]) -> None:
        """Raises SettingsError where the file cannot be made."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        self.path = folder / f"{stamp}-{name}-{os.getpid()}.log"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _thin_out(folder)
            opened = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as fault:
            why = fault.strerror or str(fault)
            raise SettingsError(
                f"the log cannot be written: {why}", str(self.path), "choose --state"
            ) from fault
        self._file = os.fdopen(opened, "a", encoding="utf-8")
        self._hear = hear

    def write(self, text: str) -> int:
        """Take a piece of the log, in whole lines."""
        for line in filter(None, text.splitlines()):
            self._hear(line)
        return self._file.write(text)

    def flush(self) -> None:
        """Hand everything to the file."""
        self._file.flush()

    def isatty(self) -> bool:
        """It is no terminal."""
        return False

    def close(self) -> None:
        """Write the rest."""
        self._file.close()


def _thin_out(folder: Path) -> None:
    """Of old logs the newest stay."""
    logs = sorted(folder.glob("*.log"))
    for old in logs[: max(0, len(logs) - _KEPT_LOGS + 1)]:
        old.unlink(missing_ok=True)
