"""The file behind the SQLite store: permissions, schema, rows, and what is thrown away.

Two connections: one writes, in transactions that each leave a whole state behind; one reads beside it, which in
WAL mode never waits for a writer. Every fault leaves here as a StoreError that names the file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from threading import Lock

from ..branch import Branch, Promise
from ..conversation import Key
from ..errors import StoreError
from .backlog import Backlog, Unwritten
from .records import assemble, encode_head, encode_promise, encode_tools

NAME = "ledger.sqlite3"
VERSION = 1
"""Of the schema, in `PRAGMA user_version`."""

_SCHEMA = (
    """CREATE TABLE branches (
        id BLOB PRIMARY KEY, root BLOB NOT NULL, touched REAL NOT NULL,
        policy BLOB NOT NULL, tools BLOB NOT NULL, head BLOB NOT NULL)""",
    "CREATE INDEX branches_root ON branches (root)",
    "CREATE INDEX branches_touched ON branches (touched)",
    """CREATE TABLE promises (
        number INTEGER PRIMARY KEY, branch BLOB NOT NULL, anchor BLOB NOT NULL, stage TEXT NOT NULL,
        nth INTEGER NOT NULL, record BLOB NOT NULL, UNIQUE (branch, anchor, stage, nth))""",
    "CREATE TABLE tools (digest BLOB PRIMARY KEY, record BLOB NOT NULL)",
    "CREATE TABLE policies (digest BLOB PRIMARY KEY, kept REAL NOT NULL, record BLOB NOT NULL)",
    f"PRAGMA user_version = {VERSION}",
)

_READ_BUSY_S = 0.25
"""How long a request may wait for a file that another program has locked as a whole."""

_WAL_BYTES = 16 << 20
_KEEP_SHARE = 0.9
"""A purge by bytes goes somewhat below the limit, so that the next one is not due at once."""


class Database:
    """An open ledger file. One thread writes; any may read. Every method raises StoreError."""

    def __init__(self, directory: Path, *, busy_s: float) -> None:
        """Open or create the file in `directory`; `busy_s` is how long a write waits for another process."""
        self.path = directory / NAME
        self.unwritable = 0
        """Records that could not be encoded."""
        self.unreadable = 0
        """Rows that could not be decoded."""
        self._reading = Lock()
        with self._named("opened"):
            _make_private(self.path)
            self._writer = _connect(self.path, busy_s)
            try:
                _prepare(self._writer)
                self._reader = _connect(self.path, min(busy_s, _READ_BUSY_S))
            except BaseException:
                self._writer.close()
                raise
            self._inode = _inode(self.path)

    # -- reading --------------------------------------------------------------------------------------

    def read(self, root: Key) -> dict[Key, Branch]:
        """The branches of a root as last written; rows that are unreadable are counted and left out."""
        with self._reading, self._named("read"), _transaction(self._reader, "BEGIN"):
            heads = self._reader.execute(
                """SELECT id, head, record FROM branches LEFT JOIN tools ON tools.digest = branches.tools
                WHERE root = ? ORDER BY touched""",
                (root,),
            ).fetchall()
            rows = self._reader.execute(
                "SELECT branch, record FROM promises WHERE branch IN (SELECT id FROM branches WHERE root = ?) ORDER BY number",
                (root,),
            ).fetchall()
        promises: dict[Key, list[bytes]] = {}
        for branch, record in rows:
            promises.setdefault(branch, []).append(record)
        found: dict[Key, Branch] = {}
        for id_, head, tools in heads:
            one, skipped = assemble(head, tools, promises.get(id_, ()))
            self.unreadable += skipped
            if one is not None:
                found[id_] = one
        return found

    def policy(self, digest: bytes) -> bytes | None:
        """A policy as it was encoded."""
        with self._reading, self._named("read"):
            row = self._reader.execute("SELECT record FROM policies WHERE digest = ?", (digest,)).fetchone()
        return row[0] if row is not None and isinstance(row[0], bytes) else None

    # -- writing --------------------------------------------------------------------------------------

    def write(self, backlog: Backlog, now: float) -> None:
        """All changes, or none of them. `now`: seconds since the epoch."""
        with self._named("written"):
            self._in_place()
            with _transaction(self._writer, "BEGIN IMMEDIATE"):
                self._writer.executemany(
                    "INSERT OR IGNORE INTO policies VALUES (?, ?, ?)",
                    [(digest, now, record) for digest, record in backlog.policies.items()],
                )
                for id_, unwritten in backlog.branches.items():
                    self._write_branch(id_, unwritten)

    def purge(self, now: float, *, age_s: float, limit: int) -> None:
        """Throw away what was not touched for `age_s` seconds, then the oldest roots until `limit` bytes hold the rest."""
        before = now - age_s
        with self._named("written"):
            self._in_place()
            with _transaction(self._writer, "BEGIN IMMEDIATE"):
                self._drop("touched < ?", before)
                if self._used() > limit:
                    roots = self._writer.execute(
                        "SELECT root FROM branches GROUP BY root ORDER BY MAX(touched)"
                    ).fetchall()
                    for (root,) in roots:
                        self._drop("root = ?", root)
                        if self._used() <= limit * _KEEP_SHARE:
                            break
                self._writer.execute("DELETE FROM tools WHERE digest NOT IN (SELECT tools FROM branches)")
                self._writer.execute(
                    "DELETE FROM policies WHERE kept < ? AND digest NOT IN (SELECT policy FROM branches)",
                    (before,),
                )
            # One page is freed at each step of the statement, and only a script is run to its end.
            self._writer.executescript("PRAGMA incremental_vacuum")

    def close_writer(self) -> None:
        """The thread that writes is done."""
        with self._named("closed"):
            self._writer.close()

    def close_reader(self) -> None:
        """Nothing will be read any more."""
        with self._reading, self._named("closed"):
            self._reader.close()

    def _write_branch(self, id_: Key, unwritten: Unwritten) -> None:
        if unwritten.anew:
            self._drop("id = ?", id_)
        branch = unwritten.branch
        if branch is None:
            return
        try:
            head, tools = encode_head(branch), encode_tools(branch.frozen.tools)
        except StoreError:
            self.unwritable += 1
            return
        digest = blake2b(tools, digest_size=16).digest()
        self._writer.execute("INSERT OR IGNORE INTO tools VALUES (?, ?)", (digest, tools))
        known = self._writer.execute(
            "UPDATE branches SET touched = ?, policy = ?, tools = ?, head = ? WHERE id = ?",
            (branch.touched, branch.policy, digest, head, id_),
        )
        added: Iterable[Promise] = unwritten.added.values()
        if known.rowcount == 0:
            self._writer.execute(
                "INSERT INTO branches (id, root, touched, policy, tools, head) VALUES (?, ?, ?, ?, ?, ?)",
                (id_, branch.root, branch.touched, branch.policy, digest, head),
            )
            added = [promise for group in branch.promises.values() for promise in group]
        self._writer.executemany(
            "DELETE FROM promises WHERE branch = ? AND anchor = ? AND stage = ? AND nth = ?",
            [(id_, *struck) for struck in unwritten.struck],
        )
        self._writer.executemany(
            "INSERT OR IGNORE INTO promises (branch, anchor, stage, nth, record) VALUES (?, ?, ?, ?, ?)",
            self._rows(id_, added),
        )

    def _rows(self, id_: Key, promises: Iterable[Promise]) -> Iterator[tuple[Key, Key, str, int, bytes]]:
        for promise in promises:
            try:
                yield id_, *promise.id, encode_promise(promise)
            except StoreError:
                self.unwritable += 1

    def _drop(self, condition: str, value: object) -> None:
        """Branches and their promises leave. `condition` is one of ours, never a value."""
        chosen = f"SELECT id FROM branches WHERE {condition}"  # noqa: S608  ours
        self._writer.execute(f"DELETE FROM promises WHERE branch IN ({chosen})", (value,))  # noqa: S608  ours
        self._writer.execute(f"DELETE FROM branches WHERE {condition}", (value,))  # noqa: S608  ours

    def _used(self) -> int:
        pages, free, size = (
            int(self._writer.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def _in_place(self) -> None:
        """Writing on into a file that was deleted would go well, and to nobody's use."""
        if _inode(self.path) != self._inode:
            raise StoreError("another file has taken its place")

    @contextmanager
    def _named(self, done: str) -> Iterator[None]:
        try:
            yield
        except StoreError as fault:
            raise self._fault(done, fault.message) from fault
        except sqlite3.Error as fault:
            raise self._fault(done, str(fault)) from fault
        except OSError as fault:
            raise self._fault(done, fault.strerror or type(fault).__name__) from fault

    def _fault(self, done: str, why: str) -> StoreError:
        return StoreError(
            f"the ledger cannot be {done}: {why}",
            str(self.path),
            "conversations stay in memory until the next start",
        )


def _make_private(path: Path) -> None:
    """The directory and the file exist and are their owner's alone.

    A directory that was there before is left as it is. SQLite gives its -wal and -shm the file's own mode. The
    file is never opened here once it exists: closing it would drop the locks of this process on it.
    """
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        mode = path.stat().st_mode & 0o777
        if mode & 0o077:
            path.chmod(mode & 0o700)


def _connect(path: Path, busy_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=busy_s, isolation_level=None, check_same_thread=False, cached_statements=32
    )
    try:
        for pragma in ("synchronous = NORMAL", "secure_delete = FAST", f"journal_size_limit = {_WAL_BYTES}"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """WAL mode and our schema. Raises StoreError for the schema of a newer version."""
    version = _version(connection)
    if version not in (0, VERSION):
        raise StoreError(f"its schema is version {version}, this version knows {VERSION}")
    if version == 0:
        # Has to come before anything else is in the file.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    if version == 0:
        with _transaction(connection, "BEGIN IMMEDIATE"):
            # Another process may have been first.
            if _version(connection) == 0:
                for statement in _SCHEMA:
                    connection.execute(statement)


def _version(connection: sqlite3.Connection) -> int:
    with closing(connection.execute("PRAGMA user_version")) as cursor:
        return int(cursor.fetchone()[0])


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _inode(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
