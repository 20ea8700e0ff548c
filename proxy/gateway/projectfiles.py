"""Project files that a policy tells the model about, read from below one folder and from nowhere else.

That folder may be a project, or hold many: then a file is looked for where the agent says it works, and from there
upwards, the nearest one counts. Of an agent that works elsewhere, or does not say where, it is the folder's own.

No part of a path may be a symbolic link and the file must be a regular one, so that a repository cannot make the proxy
read, and send away, what lies outside. A file is read again when it changed.
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

_LONGEST_PATH = 4096
"""Characters of a directory that is looked into."""

_MOST_KNOWN = 1000
"""Files that are remembered, and that are warned of: agents name the directories."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Known(Struct, frozen=True):
    """A file as it was last read, and by what it is known to be the same."""

    seal: tuple[int, int, int, int]
    text: str


class ProjectFiles:
    """Files below `root`, an absolute path. Safe to call from several threads. What cannot be read is warned of once."""

    def __init__(self, root: Path, warn: Callable[[StetError], None]) -> None:
        self._root = root
        self._warn = warn
        self._known: dict[str, _Known] = {}
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def texts(self, names: Iterable[str], workplace: str = "") -> Mapping[str, str]:
        """The contents of those files that are there, by the names they are asked for. `workplace`: where the agent
        says it works, "" where it does not."""
        found: dict[str, str] = {}
        below = self._below(workplace)
        for name in names:
            try:
                found[name] = self._nearest(name, below)
            except FileNotFoundError:
                self._tell(name, below, "is not there, so nothing of it is told")
            except OSError as fault:
                self._tell(name, below, f"is not told: {fault.strerror or fault}")
            except ValueError as fault:
                self._tell(name, below, f"is not told: {fault}")
        return found

    def _below(self, workplace: str) -> tuple[str, ...]:
        """The folders on the way from the root to where the agent works; none where that is not below it.

        Nothing is looked at outside: a path has to begin like the root before it is asked where it leads.
        """
        if len(workplace) > _LONGEST_PATH or "\0" in workplace or ".." in workplace.split("/"):
            return ()
        real = os.path.realpath(self._root)
        if not any(_is_below(workplace, root) for root in (str(self._root), real)):
            return ()
        there = os.path.realpath(workplace)
        return Path(there).relative_to(real).parts if _is_below(there, real) else ()

    def _nearest(self, name: str, below: tuple[str, ...]) -> str:
        """The contents of the file in the last of these folders that has one, else in the root."""
        for depth in range(len(below), 0, -1):
            try:
                return self._text("/".join((*below[:depth], name)))
            except (FileNotFoundError, NotADirectoryError):
                continue
        return self._text(name)

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
                    if len(self._known) >= _MOST_KNOWN:
                        self._known.clear()
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

    def _tell(self, name: str, below: tuple[str, ...], what: str) -> None:
        place = f"project file {name!r} in {self._root.joinpath(*below)}"
        with self._lock:
            new = place not in self._warned and len(self._warned) < _MOST_KNOWN
            if new:
                self._warned.add(place)
        if new:
            self._warn(StetError(what, place))


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def environment(now: float) -> Mapping[str, str]:
    """What is told of the machine: the day, by its own clock, and the system."""
    day = time.strftime("%Y-%m-%d", time.localtime(now))
    return {"Today's date": day, "Platform": f"{platform.system()} {platform.machine()}".strip()}
