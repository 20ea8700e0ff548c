"""The store of `stet serve`: one SQLite file, written behind by one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread
from typing import TypeVar

from msgspec import Struct

from ..branch import Branch, Promise
from ..conversation import Key
from ..errors import StoreError
from .backlog import Backlog
from .database import Database
from .memory import MemoryStore

Answer = TypeVar("Answer")


class Limits(Struct, frozen=True, kw_only=True):
    """How much is kept, and for how long anything is waited for.

    `age_s`: branches not touched for so many seconds leave; `bytes`: above this the oldest roots leave;
    `purge_every`: after so many written branches both are looked at, and every `purge_s` seconds without any.
    `waiting`: branches that may wait for a slow disk; `busy_s`: how long a write waits for another process;
    `gather_s`: how long changes gather before they are written, so that writing stays out of the way of the request
    that caused them, and a turn is written once; `memory`: bytes kept once the file is out of reach.
    """

    age_s: float = 30 * 86400.0
    bytes: int = 512 << 20
    purge_every: int = 2000
    purge_s: float = 3600.0
    waiting: int = 4096
    busy_s: float = 5.0
    gather_s: float = 0.1
    memory: int = 64 << 20


class SqliteStore:
    """Branches in `ledger.sqlite3` under a state directory. Nothing here raises or waits for a write.

    The first fault (locked, full, read-only, corrupt or vanished file, schema of a newer version) is told to
    `warn`, once and from whichever thread meets it; from then on changes stay in memory. What the file held
    before can still be read as long as it can be read at all.
    """

    def __init__(
        self,
        directory: Path,
        warn: Callable[[StoreError], None],
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._limits = limits or Limits()
        self._warn = warn
        self._clock = clock
        self._state = Condition()
        self._backlog = Backlog()
        self._writing = Backlog()
        self._memory = MemoryStore(self._limits.memory)
        self._gone: set[Key] = set()
        self._fault: StoreError | None = None
        self._closing = False
        self._hurry = 0
        self._database: Database | None = None
        self._readable = False
        self._writer: Thread | None = None
        try:
            self._database = Database(directory, busy_s=self._limits.busy_s)
        except StoreError as fault:
            self._fall(fault)
        else:
            self._readable = True
            self._writer = Thread(target=self._write, args=(self._database,), name="stet-ledger", daemon=True)
            self._writer.start()

    @property
    def fault(self) -> StoreError | None:
        """Why changes no longer reach the file; None while they do."""
        return self._fault

    @property
    def skipped(self) -> int:
        """Records that could not be read or written so far."""
        database = self._database
        return self._memory.skipped + (database.unreadable + database.unwritable if database else 0)

    # -- the protocol of the ledger ------------------------------------------------------------------

    def load(self, root: Key) -> Iterable[Branch]:
        """The branches of a conversation root, changes that still wait included."""
        with self._state:
            # Before the file is read: what is written meanwhile is then in both, never in neither.
            changed = {**self._writing.under(root), **self._backlog.under(root)}
        stored = self._read(lambda database: database.read(root)) or {}
        with self._state:
            if self._fault is not None:
                changed |= dict.fromkeys(self._gone)
                changed |= {branch.id: branch for branch in self._memory.load(root)}
        merged: dict[Key, Branch | None] = {**stored, **changed}
        return [branch for branch in merged.values() if branch is not None]

    def save(self, branch: Branch, added: Sequence[Promise]) -> None:
        """A branch changed; `added` are its new promises."""

        def keep(memory: MemoryStore) -> None:
            self._gone.discard(branch.id)
            memory.save(branch, added)

        self._change(lambda backlog: backlog.of(branch).save(branch, added), keep)

    def strike(self, branch: Branch, struck: Sequence[Promise]) -> None:
        """Promises leave; with its keys gone the branch leaves altogether."""

        def keep(memory: MemoryStore) -> None:
            memory.strike(branch, struck)
            if not branch.keys:
                self._gone.add(branch.id)

        self._change(lambda backlog: backlog.of(branch).strike(branch, struck), keep)

    def policy(self, digest: bytes) -> bytes | None:
        """A policy that a branch is pinned to, as it was encoded."""
        with self._state:
            for waiting in (self._backlog.policies, self._writing.policies):
                if digest in waiting:
                    return waiting[digest]
            if (kept := self._memory.policy(digest)) is not None:
                return kept
        return self._read(lambda database: database.policy(digest))

    def keep_policy(self, digest: bytes, encoded: bytes) -> None:
        """Remember a policy for the branches pinned to it."""
        self._change(
            lambda backlog: backlog.policies.setdefault(digest, encoded),
            lambda memory: memory.keep_policy(digest, encoded),
        )

    # -- the life of the store ------------------------------------------------------------------------

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until every change so far is in the file; False where it took longer or there is no file."""
        with self._state:
            self._hurry += 1
            self._state.notify_all()
            self._state.wait_for(
                lambda: self._fault is not None or not (len(self._backlog) or len(self._writing)), timeout
            )
            self._hurry -= 1
            return self._fault is None and not (len(self._backlog) or len(self._writing))

    def close(self, timeout: float = 10.0) -> None:
        """Write what waits, for at most `timeout` seconds, and let go of the file. Later changes are lost."""
        with self._state:
            self._closing = True
            self._state.notify_all()
        if self._writer is not None:
            self._writer.join(timeout)
            if self._writer.is_alive():
                self._fall(StoreError("the ledger's newest changes are lost: the disk took too long"))
        self._let_go()

    # -- inside ---------------------------------------------------------------------------------------

    def _change(self, queue: Callable[[Backlog], object], keep: Callable[[MemoryStore], object]) -> None:
        with self._state:
            if self._closing:
                return
            if self._fault is not None:
                keep(self._memory)
                return
            queue(self._backlog)
            full = len(self._backlog) > self._limits.waiting
            self._state.notify_all()
        if full:
            self._fall(StoreError("the ledger cannot be written: the disk is too slow"))

    def _read(self, ask: Callable[[Database], Answer]) -> Answer | None:
        if self._database is None or not self._readable:
            return None
        try:
            return ask(self._database)
        except StoreError as fault:
            self._let_go()
            if not self._closing:
                self._fall(fault)
            return None

    def _let_go(self) -> None:
        self._readable = False
        if self._database is not None:
            with suppress(StoreError):
                self._database.close_reader()

    def _write(self, database: Database) -> None:
        """Body of the thread that writes: ends when the store closes or has fallen back."""
        try:
            self._purge(database)
            due = self._limits.purge_every
            while (batch := self._next()) is not None:
                database.write(batch, self._clock())
                with self._state:
                    self._writing = Backlog()
                    self._state.notify_all()
                due -= len(batch.branches)
                if due <= 0 or not len(batch):
                    self._purge(database)
                    due = self._limits.purge_every
        except StoreError as fault:
            self._fall(fault)
        except BaseException as fault:
            self._fall(
                StoreError(f"the ledger cannot be written: {type(fault).__name__} in the store itself")
            )
            raise
        finally:
            with suppress(StoreError):
                database.close_writer()

    def _purge(self, database: Database) -> None:
        database.purge(self._clock(), age_s=self._limits.age_s, limit=self._limits.bytes)

    def _next(self) -> Backlog | None:
        """What waits to be written, an empty backlog after a long pause, None at the end."""
        with self._state:
            self._state.wait_for(
                lambda: len(self._backlog) or self._closing or self._fault is not None, self._limits.purge_s
            )
            if len(self._backlog):
                self._state.wait_for(
                    lambda: self._closing or self._hurry or self._fault is not None, self._limits.gather_s
                )
            if self._fault is not None or (self._closing and not len(self._backlog)):
                return None
            self._writing, self._backlog = self._backlog, Backlog()
            return self._writing

    def _fall(self, fault: StoreError) -> None:
        """From now on changes stay in memory, those that still wait among them."""
        with self._state:
            if self._fault is not None:
                return
            self._fault = fault
            for id_, unwritten in {**self._writing.branches, **self._backlog.branches}.items():
                if unwritten.branch is None:
                    self._gone.add(id_)
                else:
                    self._memory.save(unwritten.branch, ())
            for digest, encoded in {**self._writing.policies, **self._backlog.policies}.items():
                self._memory.keep_policy(digest, encoded)
            self._writing, self._backlog = Backlog(), Backlog()
            self._state.notify_all()
        self._warn(fault)
