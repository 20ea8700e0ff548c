"""Files and directories that are their owner's alone: opened without following a link, and refused otherwise.

A directory of others' making that others may look into is refused, not closed: somebody may have named one that is
shared for good reason.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import StoreError

_KEY_BYTES = 32


@contextmanager
def opened_folder(path: Path, *, create: bool = True) -> Iterator[int]:
    """A descriptor of a directory, to name files in it by; made, 0700, where there is none.

    Raises OSError, and StoreError where others may look into it. A link in its place is refused.
    """
    _must_be_supported()
    if create:
        with suppress(FileExistsError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if _others(folder):
            raise StoreError("others may look into it; make it 0700, or name another")
        yield folder
    finally:
        os.close(folder)


def private_key(path: Path) -> bytes:
    """The secret in a file, made up where there is none. All who ask at once get the same. Raises StoreError."""
    _must_be_supported()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _key(path) or _new_key(path)
    except OSError as fault:
        raise StoreError(f"cannot be had ({fault.strerror or fault})", str(path)) from fault


def _key(path: Path) -> bytes | None:
    """The secret; None where there is none, or less than one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StoreError("is no file", str(path))
        if _others(descriptor):
            os.fchmod(descriptor, 0o600)
        key = file.read(_KEY_BYTES + 1)
    return key if len(key) == _KEY_BYTES else None


def _new_key(path: Path) -> bytes:
    key = secrets.token_bytes(_KEY_BYTES)
    whole = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(whole, flags, 0o600), "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(whole, path)  # fails where another process was first; its secret is then everybody's
        except FileExistsError:
            first = _key(path)
            if first is not None:
                return first
            whole.replace(path)  # what stands there is damaged
        return key
    finally:
        whole.unlink(missing_ok=True)


def _others(descriptor: int) -> bool:
    """Whether others may do anything with it. Raises StoreError where the owner is not this user."""
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        raise StoreError("it belongs to another user")
    return bool(stat.S_IMODE(found.st_mode) & 0o077)


def _must_be_supported() -> None:
    """Raises StoreError where a link in a file's place could not be told from the file."""
    if os.open not in os.supports_dir_fd:
        raise StoreError("this system cannot name files relative to an open directory")
