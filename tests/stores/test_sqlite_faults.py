"""What goes wrong with a file ends in the store: one warning, and memory from then on."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from msgspec import structs

from proxy.errors import StoreError
from proxy.branch import Branch
from proxy.stores.database import NAME, VERSION
from proxy.stores.sqlite import Limits, SqliteStore
from tests.stores.branches import NOW, all_promises, branch, key, promise

OLD = branch("old", promises=[promise("a")])
NEW = branch("new", promises=[promise("b")], touched=NOW + 1)


class Opened:
    """A store that is let go at the end, and what it warned of."""

    def __init__(self) -> None:
        self.warnings: list[StoreError] = []
        self.stores: list[SqliteStore] = []

    def __call__(self, state: Path, **limits: float) -> SqliteStore:
        store = SqliteStore(state, self.warnings.append, limits=Limits(**limits), clock=lambda: NOW)
        self.stores.append(store)
        return store

    @property
    def warning(self) -> str:
        """The one there is."""
        [only] = self.warnings
        return str(only)


@pytest.fixture
def opened() -> Iterator[Opened]:
    made = Opened()
    yield made
    for store in made.stores:
        store.close()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with a branch in it."""
    store = SqliteStore(tmp_path, pytest.fail, clock=lambda: NOW)
    store.save(OLD, all_promises(OLD))
    store.keep_policy(key("policy"), b"policy")
    store.close()
    return tmp_path


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A directory of our own, worked in without root's right to write anywhere."""
    home = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    try:
        if root:
            os.chown(home, 65534, 65534)
            os.seteuid(65534)
        yield home
    finally:
        if root:
            os.seteuid(0)
        for path in home.rglob("*"):
            path.chmod(0o700)
        home.chmod(0o700)
        shutil.rmtree(home)


def mounted(*command: str) -> int:
    """The exit code of a command that needs rights a test may not have."""
    return (
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode
        if shutil.which(command[0])
        else 1
    )


def load(store: SqliteStore) -> list[Branch]:
    return sorted(store.load(key("root")), key=lambda one: one.touched)


def goes_on_in_memory(store: SqliteStore, held: list[Branch]) -> None:
    """All the protocol works, on top of what is `held`, as if nothing were wrong."""
    more = branch("more", promises=[promise("c")], touched=NOW + 99)
    store.save(more, all_promises(more))
    assert load(store) == [*held, more]
    grown = structs.replace(more, promises={**more.promises, key("d"): (promise("d"),)})
    store.save(grown, [promise("d")])
    assert load(store) == [*held, grown]
    store.strike(more, [promise("d")])
    assert load(store) == [*held, more]
    for one in (*held, more):
        store.strike(structs.replace(one, keys=b""), all_promises(one))
    assert load(store) == []
    for one in held:
        store.save(one, all_promises(one))
    assert load(store) == held
    store.keep_policy(key("memory"), b"kept")
    assert store.policy(key("memory")) == b"kept"
    assert not store.flush()


def fell(store: SqliteStore, opened: Opened, why: str) -> None:
    """One warning, which names the file, the cause and what follows."""
    assert not store.flush()
    assert why in opened.warning
    assert NAME in opened.warning
    assert opened.warning.endswith("conversations stay in memory until the next start")
    assert store.fault is opened.warnings[0]


def test_a_lock_that_lasts(state, opened):
    """Held longer than a write may wait: the file can still be read, the rest goes on in memory."""
    store = opened(state, busy_s=0.05)
    assert load(store) == [OLD]
    with closing(sqlite3.connect(state / NAME, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        store.save(NEW, all_promises(NEW))
        fell(store, opened, "cannot be written: database is locked")
        assert load(store) == [OLD, NEW]
        holder.execute("ROLLBACK")
    goes_on_in_memory(store, [OLD, NEW])
    assert store.policy(key("policy")) == b"policy"
    assert len(opened.warnings) == 1


def test_a_lock_that_passes(state, opened):
    """Held shorter than that: the write waits in its thread, a load does not, and nothing is lost."""
    store = opened(state, busy_s=60)
    with closing(sqlite3.connect(state / NAME, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        store.save(NEW, all_promises(NEW))
        assert load(store) == [OLD, NEW]
        assert not store.flush(0.01)
        holder.execute("ROLLBACK")
    assert store.flush()
    assert opened.warnings == []


def test_a_file_locked_as_a_whole(state, opened):
    """A program that has the file for itself keeps the store out from the start."""
    with closing(sqlite3.connect(state / NAME, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN IMMEDIATE")
        holder.execute("UPDATE branches SET touched = touched")
        holder.execute("COMMIT")
        store = opened(state, busy_s=0.05)
        fell(store, opened, "cannot be opened: database is locked")
        goes_on_in_memory(store, [])


def test_a_full_disk(state, opened):
    """What fits stays in the file, what does not goes on in memory, and the file is sound."""
    store = opened(state)
    assert store.flush()
    assert store._database is not None
    pages = store._database._writer.execute("PRAGMA page_count").fetchone()[0]
    store._database._writer.execute(f"PRAGMA max_page_count = {pages + 8}")
    big = branch("new", promises=[promise("b", text="x" * 100_000)], touched=NOW + 1)
    store.save(big, all_promises(big))
    fell(store, opened, "cannot be written: database or disk is full")
    goes_on_in_memory(store, [OLD, big])
    store.close()
    again = opened(state)
    assert load(again) == [OLD]
    assert len(opened.warnings) == 1
    with closing(sqlite3.connect(state / NAME)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_full_file_system(opened):
    """The same on a file system that really is full, where one can be mounted."""
    mount = Path(tempfile.mkdtemp())
    if mounted("mount", "-t", "tmpfs", "-o", "size=512k", "stet-test", str(mount)) != 0:
        mount.rmdir()
        pytest.skip("no right to mount a file system")
    try:
        store = opened(mount)
        store.save(OLD, all_promises(OLD))
        assert store.flush()
        big = branch("new", promises=[promise("b", text="x" * 600_000)], touched=NOW + 1)
        store.save(big, all_promises(big))
        assert not store.flush()
        assert "disk" in opened.warning
        goes_on_in_memory(store, [OLD, big])
        store.close()
    finally:
        mounted("umount", str(mount))
        mount.rmdir()


def test_a_read_only_file(unprivileged, opened):
    """It is read as before; the first write turns to memory."""
    first = opened(unprivileged)
    first.save(OLD, all_promises(OLD))
    first.close()
    (unprivileged / NAME).chmod(0o400)
    store = opened(unprivileged)
    store.save(NEW, all_promises(NEW))
    fell(store, opened, "readonly database")
    goes_on_in_memory(store, [OLD, NEW])


def test_a_read_only_directory(unprivileged, opened):
    """No file can be made: memory from the start."""
    unprivileged.chmod(0o500)
    for state in (unprivileged, unprivileged / "below"):
        store = opened(state)
        fell(store, opened, "cannot be opened: Permission denied")
        goes_on_in_memory(store, [])
        opened.warnings.clear()


def test_a_file_where_the_directory_should_be(tmp_path, opened):
    """A state directory that is none is named, not traced."""
    (tmp_path / "state").write_text("")
    store = opened(tmp_path / "state")
    assert "cannot be opened" in opened.warning
    goes_on_in_memory(store, [])


@pytest.mark.parametrize(
    "vanish", [Path.unlink, lambda path: path.rename(path.with_name("away"))], ids=["deleted", "moved"]
)
def test_a_vanished_file(state, opened, vanish: Callable[[Path], object]):
    """Writing into a file that nobody can find any more is noticed."""
    store = opened(state)
    assert store.flush()
    assert load(store) == [OLD]
    vanish(state / NAME)
    store.save(NEW, all_promises(NEW))
    fell(store, opened, "cannot be written: No such file or directory")
    goes_on_in_memory(store, [OLD, NEW])


def test_a_file_in_its_place(state, opened):
    """So is another file under the same name, whose own -wal is left alone."""
    store = opened(state)
    assert store.flush()
    for path in state.iterdir():
        path.rename(path.with_name(f"old-{path.name}"))
    other = SqliteStore(state, pytest.fail, clock=lambda: NOW)
    other.save(NEW, all_promises(NEW))
    assert other.flush()
    store.save(branch("lost", root="lost"), ())
    fell(store, opened, "another file has taken its place")
    store.close()
    assert load(other) == [NEW]
    other.close()
    again = SqliteStore(state, pytest.fail, clock=lambda: NOW)
    assert load(again) == [NEW]
    again.close()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda whole: b"not a database at all, whatever its name says" * 99, "file is not a database"),
        (lambda whole: whole[:100] + bytes(len(whole) - 100), "malformed"),
        (lambda whole: whole[: len(whole) // 2], "malformed"),
    ],
    ids=["something else", "zeros", "cut off"],
)
def test_a_corrupt_file(state, opened, spoil, why):
    """It is neither repaired nor thrown away, and no request sees anything of it."""
    path = state / NAME
    damaged = spoil(path.read_bytes())
    path.write_bytes(damaged)
    store = opened(state)
    store.save(NEW, all_promises(NEW))
    assert load(store)[-1] == NEW
    assert not store.flush()
    assert why in opened.warning
    store.close()
    assert path.read_bytes()[100:] == damaged[100:]


def test_a_file_that_goes_bad_while_it_is_read(state, opened):
    """A load that meets damage gives what memory has, and the writer ends too."""
    store = opened(state)
    assert store.flush()
    store.save(NEW, all_promises(NEW))
    assert store.flush()
    with closing(sqlite3.connect(state / NAME, isolation_level=None)) as other:
        other.execute("DROP TABLE promises")
    assert load(store) == []
    fell(store, opened, "cannot be read: no such table: promises")
    goes_on_in_memory(store, [])
    assert store._writer is not None
    store._writer.join(20)
    assert not store._writer.is_alive()


def test_a_newer_schema(state, opened):
    """A file of a later version is left as it is."""
    with closing(sqlite3.connect(state / NAME)) as file:
        file.execute(f"PRAGMA user_version = {VERSION + 1}")
    store = opened(state)
    fell(store, opened, f"its schema is version {VERSION + 1}, this version knows {VERSION}")
    goes_on_in_memory(store, [])
    with closing(sqlite3.connect(state / NAME)) as file:
        assert file.execute("SELECT count(*) FROM branches").fetchone() == (1,)


def test_corrupt_rows_are_skipped(state, opened):
    """Rows that hold something else are counted; the others are loaded, and the store goes on writing."""
    first = opened(state)
    for one in (NEW, branch("headless", promises=[promise("x")])):
        first.save(one, all_promises(one))
    first.close()
    with closing(sqlite3.connect(state / NAME, isolation_level=None)) as file:
        file.execute("UPDATE branches SET head = 5 WHERE id = ?", (key("headless"),))
        file.execute("UPDATE promises SET record = x'c1' WHERE branch = ?", (key("old"),))
        file.execute("UPDATE policies SET record = 7")
    store = opened(state)
    assert load(store) == [structs.replace(OLD, promises={}), NEW]
    assert store.skipped == 2
    assert store.policy(key("policy")) is None
    store.save(branch("more"), ())
    assert store.flush()
    assert opened.warnings == []


def test_what_has_no_bytes_is_skipped(tmp_path, opened):
    """Text that is no Unicode cannot be stored: it is counted, and costs nothing but itself."""
    store = opened(tmp_path)
    part = branch("old", promises=[promise("a"), promise("b", text="\ud800")])
    store.save(part, all_promises(part))
    store.save(structs.replace(NEW, session="\ud800"), ())
    assert store.flush()
    assert load(store) == [OLD]
    assert store.skipped == 2
    assert opened.warnings == []


def test_a_disk_that_is_too_slow(state, opened):
    """What waits is bounded; above that memory takes all of it."""
    store = opened(state, waiting=3, busy_s=60)
    assert store.flush()
    with closing(sqlite3.connect(state / NAME, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        several = [branch(n, touched=NOW + n) for n in range(1, 6)]
        for one in several:
            store.save(one, ())
        assert "too slow" in opened.warning
        assert load(store) == [OLD, *several]
        holder.execute("ROLLBACK")
    goes_on_in_memory(store, [OLD, *several])


def test_closing_does_not_wait_for_ever(state, opened):
    """A writer that is stuck is left behind, with a warning."""
    store = opened(state, busy_s=60)
    assert store.flush()
    with closing(sqlite3.connect(state / NAME, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        store.save(NEW, ())
        store.close(timeout=0.05)
        assert "took too long" in opened.warning
        holder.execute("ROLLBACK")


def test_a_bug_in_the_writer_turns_to_memory(state, opened, monkeypatch):
    """An error of our own ends the thread, loudly, and no conversation."""
    seen: list[type[BaseException]] = []
    monkeypatch.setattr("threading.excepthook", lambda args: seen.append(args.exc_type))
    store = opened(state)
    assert store.flush()
    monkeypatch.setattr("proxy.stores.database.encode_head", lambda branch: 1 / 0)
    store.save(NEW, all_promises(NEW))
    assert not store.flush()
    assert store._writer is not None
    store._writer.join(20)
    assert seen == [ZeroDivisionError]
    assert "ZeroDivisionError in the store itself" in opened.warning
    goes_on_in_memory(store, [OLD, NEW])


def test_threads_may_meet_the_fault_together(state, opened):
    """Eight threads saving and loading while the file is lost: one warning, and each finds what it saved."""
    store = opened(state, busy_s=0.05)
    wrong: list[object] = []

    def turns(name: int) -> None:
        for n in range(40):
            one = branch(name, root=f"root {name % 2}", keys=n + 1)
            store.save(one, ())
            if one not in store.load(key(f"root {name % 2}")):
                wrong.append((name, n))

    with closing(sqlite3.connect(state / NAME, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        threads = [Thread(target=turns, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not store.flush()
        holder.execute("ROLLBACK")
    assert wrong == []
    assert "locked" in opened.warning
    assert sum(len(list(store.load(key(f"root {n}")))) for n in range(2)) == 8


def test_what_waits_when_the_file_is_lost(state, opened):
    """A departure and a policy that were never written hold in memory too, over what the file says."""
    store = opened(state, busy_s=0.2)
    assert store.flush()
    with closing(sqlite3.connect(state / NAME, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        store.keep_policy(key("first"), b"one")
        store.strike(structs.replace(OLD, keys=b""), all_promises(OLD))
        store.save(NEW, all_promises(NEW))
        store.keep_policy(key("second"), b"two")
        fell(store, opened, "database is locked")
        holder.execute("ROLLBACK")
    assert load(store) == [NEW]
    assert [store.policy(key(name)) for name in ("first", "second", "policy")] == [b"one", b"two", b"policy"]
