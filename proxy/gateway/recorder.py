"""`record`: what clients send is written to a directory, one file a session.

Bodies are written whole, so it is off unless asked for, said aloud at the start, and kept from others. Keys are not
written: see `recording`. Writing happens in a thread of its own; a request never waits for it, and whatever goes wrong
ends the recording, once and with a warning, never a request.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from threading import Lock

from msgspec import structs

from ..agents import Agents
from ..errors import SettingsError, StetError, StoreError
from ..recording import SUFFIX, Recorded, kept_headers, kept_path, line, spelt
from .conversations import COUNTING
from .exchange import Incoming, Outcome, Prepared
from .headers import text_of
from .private import opened_folder

_WAITING = 256 * 1024 * 1024
"""Bytes of bodies that may wait to be written."""

_ANSWERED = ("ok", "refused", "error", "truncated")
"""Outcomes whose status is the provider's."""


class Recorder:
    """Writes requests to `directory`, until `limit` bytes are in it.

    `profiles` name by upstream what is known of it. Raises SettingsError where the directory cannot be used.
    """

    def __init__(
        self,
        directory: Path,
        limit: int,
        agents: Agents,
        warn: Callable[[StetError], None],
        profiles: Mapping[str, str] | None = None,
    ) -> None:
        self._profiles = dict(profiles or {})
        self.directory = directory
        self._limit = limit
        self._warn = warn
        self._allowed = frozenset(
            name.lower()
            for agent in agents.known
            for name in (*(name for name, _ in agent.detect), *agent.session, *agent.subagent)
        )
        self._lock = Lock()
        self._waiting = 0
        self._stopped = False
        self._writing = ThreadPoolExecutor(1, "recording")
        try:
            with opened_folder(directory) as folder:
                self._size = _size(folder)
        except (OSError, StoreError) as fault:
            why = fault.message if isinstance(fault, StoreError) else fault.strerror or str(fault)
            raise SettingsError(
                f"{directory}: {why}", "record", "name a directory that is yours alone"
            ) from fault

    def take(self, request: Incoming, prepared: Prepared, outcome: Outcome) -> None:
        """Have a request that is over written. Never raises, never waits."""
        if self._stopped or prepared.report is None or request.path.endswith(COUNTING):
            return
        if not self._has_room(len(request.body)):
            self._stop("the disk does not keep up")
            return
        name = _name(prepared, request.dialect)
        try:
            done = self._writing.submit(self._write, name, request, outcome, prepared.changed)
        except RuntimeError:  # closed: the request outlived the server
            return
        done.add_done_callback(lambda one: self._written(one, len(request.body)))

    def close(self) -> None:
        """Write what waits, and no more."""
        self._writing.shutdown(wait=True)
        self._stopped = True

    def _has_room(self, change: int) -> bool:
        with self._lock:
            self._waiting += change
            return self._waiting <= _WAITING

    def _written(self, done: Future[None], size: int) -> None:
        self._has_room(-size)
        fault = done.exception()
        if fault is not None:
            self._stop(fault.strerror or str(fault) if isinstance(fault, OSError) else str(fault))

    def _stop(self, why: str) -> None:
        if not self._stopped:
            self._stopped = True
            self._warn(
                StoreError(f"recording ends here: {why}", str(self.directory), "requests go on unrecorded")
            )

    def _write(self, name: str, request: Incoming, outcome: Outcome, changed: bool) -> None:
        if self._stopped:
            return
        profile = request.profile or self._profiles.get(request.upstream, "")
        recorded = structs.replace(
            _recorded(request, outcome, self._allowed, profile),
            changed=changed and not outcome.retried_with_fallback,
        )
        written = line(recorded)
        if self._size + len(written) > self._limit:
            raise OSError(errno.EFBIG, f"{self._limit} bytes are in it, as many as `record_size` allows")
        with opened_folder(self.directory, create=False) as folder:
            _append(folder, name, written)
        self._size += len(written)


def _recorded(request: Incoming, outcome: Outcome, allowed: frozenset[str], profile: str) -> Recorded:
    headers = ((text_of(name), value.decode("latin-1")) for name, value in request.headers)
    body = spelt(request.body)
    return Recorded(
        path=kept_path(request.path, request.query),
        headers=kept_headers(headers, allowed),
        at=request.started_at,
        dialect=request.dialect,
        upstream=request.upstream,
        profile=profile,
        status=outcome.status if outcome.name in _ANSWERED else None,
        usage=outcome.usage,
        calls=outcome.answer.call_ids,
        body=body.get("body", ""),
        base64=body.get("base64", ""),
    )


def _name(prepared: Prepared, dialect: str) -> str:
    """One file for what an agent calls a session; a conversation where it names none."""
    report = prepared.report
    assert report is not None
    named = prepared.session or report.conversation or dialect
    agent = re.sub(r"[^a-z0-9]+", "-", (report.agent or "session").lower()).strip("-")
    return f"{agent}-{blake2b(named.encode('utf-8', 'surrogatepass'), digest_size=6).hexdigest()}{SUFFIX}"


def _append(folder: int, name: str, written: bytes) -> None:
    """Add a line whole, or not at all. Raises OSError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        before = os.fstat(descriptor)
        if not S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, f"{name} is no file")
        rest = memoryview(written)
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, before.st_size)
            raise
    finally:
        os.close(descriptor)


def _size(folder: int) -> int:
    """Bytes of recordings in a directory."""
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries if entry.is_file())
