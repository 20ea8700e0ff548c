"""The spool on disk: outputs that were taken out of prompts, each in a file named by its handle.

Whoever can read a file here reads what an agent's tools said, so the directory is its owner's alone (0700, files 0600)
and every step is taken relative to the directory as opened: a link in its place, or in that of a file, is refused and
never followed. It is bounded in bytes and age; what was there longest leaves first. A file appears whole or not at
all. It is not forced to the platter: after a power cut an output may be gone like an expired one, while a request would
have waited for the disk each time.

Several servers may share a directory. Equal outputs have equal names where they share the secret beside the ledger, and
what another one removed meanwhile is gone like any expired file.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

from msgspec import Struct

from ..errors import StetError, StoreError
from ..spool import HANDLE, SUFFIX, Spool, Spooled
from .private import opened_folder, private_key

KEY = "spool.key"
"""The secret, beside the ledger."""

_BEGUN = ".begun-"
"""What the name of a file begins with that is still being written."""

_STRAY_S = 3600.0
"""After so many seconds nobody writes on."""

_LOOK_S = 300.0
"""Seconds after which the directory is looked through again, though nothing of ours would need it."""

_KEEP_SHARE = 0.9
"""A purge by bytes goes somewhat below the limit, so that the next one is not due at once."""


class Bounds(Struct, frozen=True, kw_only=True):
    """How much is kept: `bytes` of all files together, and for how many seconds each."""

    bytes: int = 512 << 20
    age_s: float = 30 * 86400.0


class _File(Struct, frozen=True):
    at: float
    name: str
    size: int


class SpoolDirectory:
    """Keeps outputs and gives them out again. Safe to use from several threads.

    `shown` is the path under which agents find `directory`, "" where they do not. `state` is the directory that the
    secret is kept in; without one it is made up anew each time. Raises StoreError where the secret cannot be had.
    """

    def __init__(
        self,
        directory: Path,
        state: Path | None,
        warn: Callable[[StetError], None],
        *,
        shown: str = "",
        bounds: Bounds | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.directory = directory
        self.shown = shown
        self.bounds = bounds or Bounds()
        self._key = secrets.token_bytes(32) if state is None else private_key(state / KEY)
        self._warn = warn
        self._clock = clock
        self._lock = Lock()
        self._bytes = 0
        self._looked: float | None = None
        self._failing = False

    def seen_from(self, url: str) -> Spool | None:
        """The spool as an agent sees it that reaches us at `url`; None where it could read nothing of it."""
        if not url and not self.shown:
            return None
        return Spool(key=self._key, directory=self.shown, url=url)

    def hold(self, outputs: Sequence[Spooled]) -> bool:
        """Keep these; False where not all of them are kept. The first such time is told to `warn`."""
        try:
            with self._lock, opened_folder(self.directory) as folder:
                for one in outputs:
                    self._keep(folder, one)
        except (OSError, StoreError) as fault:
            if not self._failing:
                self._failing = True
                self._warn(_told(fault, self.directory))
            return False
        self._failing = False
        return True

    def read(self, handle: str) -> bytes | None:
        """What is kept under a handle; None where nothing is, or nothing any more."""
        if not HANDLE.fullmatch(handle):
            return None
        try:
            with opened_folder(self.directory, create=False) as folder:
                return _read(folder, handle + SUFFIX, self._clock() - self.bounds.age_s)
        except (OSError, StoreError):
            return None

    def purge(self) -> None:
        """Let go of what is too old or too much."""
        with suppress(OSError, StoreError), self._lock, opened_folder(self.directory, create=False) as folder:
            self._look(folder, 0)

    def _keep(self, folder: int, output: Spooled) -> None:
        size = len(output.data)
        if size > self.bounds.bytes:
            raise StoreError(f"an output of {size} bytes is more than all of it may take")
        name, now = output.handle + SUFFIX, self._clock()
        if _size(folder, name) == size:
            os.utime(name, (now, now), dir_fd=folder, follow_symlinks=False)
            return
        due = self._looked is None or not 0 <= now - self._looked < _LOOK_S
        if due or self._bytes + size > self.bounds.bytes:
            self._look(folder, size)
        _write(folder, name, output.data)
        os.utime(name, (now, now), dir_fd=folder, follow_symlinks=False)
        self._bytes += size

    def _look(self, folder: int, coming: int) -> None:
        """Count what is there, and make room for so many bytes."""
        self._looked = now = self._clock()
        files = sorted(_files(folder, now), key=lambda file: (file.at, file.name))
        old = [file for file in files if file.at < now - self.bounds.age_s]
        left = files[len(old) :]
        total = sum(file.size for file in left)
        if total + coming > self.bounds.bytes:
            while left and total + coming > self.bounds.bytes * _KEEP_SHARE:
                old.append(left.pop(0))
                total -= old[-1].size
        for file in old:
            with suppress(FileNotFoundError):
                os.unlink(file.name, dir_fd=folder)
        self._bytes = total


def _told(fault: OSError | StoreError, directory: Path) -> StoreError:
    said = fault.message if isinstance(fault, StoreError) else fault.strerror or str(fault)
    return StoreError(
        f"huge outputs cannot be put into the spool ({said})", str(directory), "they stay in the prompt"
    )


def _size(folder: int, name: str) -> int | None:
    """The size of a regular file, None where there is none."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _write(folder: int, name: str, data: bytes) -> None:
    begun = _BEGUN + secrets.token_hex(8)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(begun, flags, 0o600, dir_fd=folder), "wb", buffering=0) as file:
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
        os.replace(begun, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(begun, dir_fd=folder)
        raise


def _read(folder: int, name: str, since: float) -> bytes | None:
    """A file that is none older than `since`. What is no regular file is not read, and a pipe not waited for."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_mtime < since:
            return None
        return file.read() or None


def _files(folder: int, now: float) -> Iterator[_File]:
    """What is ours in the directory; what somebody stopped writing in the middle leaves."""
    for name in os.listdir(folder):
        begun = name.startswith(_BEGUN)
        if not begun and not HANDLE.fullmatch(name.removesuffix(SUFFIX)):
            continue
        with suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not begun:
                yield _File(found.st_mtime, name, found.st_size)
            elif found.st_mtime < now - _STRAY_S:
                os.unlink(name, dir_fd=folder)
