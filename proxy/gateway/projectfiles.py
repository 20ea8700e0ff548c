"""Project files that a policy tells the model about, read from one folder and from nowhere else.

No part of a name may be a symbolic link and the file must be a regular one, so that a repository cannot make the proxy
read, and send away, what lies outside it. A file is read again when it changed.
"""

from __future__ import annotations

import os
import platform
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from ..errors import StetError

LARGEST = 256 * 1024
"""Bytes: what is longer is no file of conventions, and is not told at all."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Known(Struct, frozen=True):
    """A file as it was last read, and by what it is known to be the same."""

    seal: tuple[int, int, int, int]
    text: str


class ProjectFiles:
    """Files below `root`. Safe to call from several threads. What cannot be read is warned of once."""

    def __init__(self, root: Path, warn: Callable[[StetError], None]) -> None:
        self._root = root
        self._warn = warn
        self._known: dict[str, _Known] = {}
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def texts(self, names: Iterable[str]) -> Mapping[str, str]:
        """The contents of those files that are there, by the names they are asked for."""
        found: dict[str, str] = {}
        for name in names:
            try:
                found[name] = self._text(name)
            except FileNotFoundError:
                self._tell(name, "is not there, so nothing of it is told")
            except OSError as fault:
                self._tell(name, f"is not told: {fault.strerror or fault}")
            except ValueError as fault:
                self._tell(name, f"is not told: {fault}")
        return found

    def _text(self, name: str) -> str:
        descriptor = self._opened(name)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise ValueError("it is no regular file")
            if found.st_size > LARGEST:
                raise ValueError(f"it has {found.st_size} bytes, and at most {LARGEST} are read")
            seal = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
            with self._lock:
                known = self._known.get(name)
            if known is None or known.seal != seal:
                with os.fdopen(os.dup(descriptor), "rb") as file:
                    known = _Known(seal, file.read(LARGEST).decode("utf-8", "replace"))
                with self._lock:
                    self._known[name] = known
            return known.text
        finally:
            os.close(descriptor)

    def _opened(self, name: str) -> int:
        """A descriptor of the file, each folder on the way opened without following links."""
        *folders, last = name.split("/")
        at = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folder in folders:
                below = os.open(folder, _DIRECTORY, dir_fd=at)
                os.close(at)
                at = below
            return os.open(last, _FILE, dir_fd=at)
        finally:
            os.close(at)

    def _tell(self, name: str, what: str) -> None:
        with self._lock:
            new = name not in self._warned
            self._warned.add(name)
        if new:
            self._warn(StetError(what, f"project file {name!r} in {self._root}"))


def environment(now: float) -> Mapping[str, str]:
    """What is told of the machine: the day, by its own clock, and the system."""
    day = time.strftime("%Y-%m-%d", time.localtime(now))
    return {"Today's date": day, "Platform": f"{platform.system()} {platform.machine()}".strip()}
