"""The SQLite store on real files: what is saved comes back, is bounded, private and shared by two processes."""

import os
import random
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from proxy.errors import StoreError
from proxy.branch import Branch
from proxy.stores.database import NAME
from proxy.stores.sqlite import Limits, SqliteStore
from tests.stores import branches as made
from tests.stores.branches import NOW, all_promises, branch, key, promise

DAY = 86400.0


@contextmanager
def opened(state: Path, *, now: float = NOW, **limits: float) -> Iterator[SqliteStore]:
    """A store that has no reason to warn."""
    warnings: list[StoreError] = []
    store = SqliteStore(state, warnings.append, limits=Limits(**limits), clock=lambda: now)
    try:
        yield store
    finally:
        store.close()
    assert warnings == []


def load(store: SqliteStore, root: object = "root") -> dict[bytes, Branch]:
    return {one.id: one for one in store.load(key(root))}


def after_restart(state: Path, root: object = "root", **limits: float) -> list[Branch]:
    with opened(state, **limits) as store:
        return list(store.load(key(root)))


def rows(state: Path, table: str) -> int:
    with closing(sqlite3.connect(state / NAME)) as file:
        return file.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def test_a_restart_loses_nothing(tmp_path):
    """Branches, their promises in order, tools and policies are there again, and those of other roots apart."""
    first = branch("one", promises=[promise("b"), promise("a"), promise("b", "balance")])
    second = branch("two", promises=[promise("b")], touched=NOW + 1)
    with opened(tmp_path) as store:
        for one in (first, second, branch("three", root="other")):
            store.save(one, all_promises(one))
        store.keep_policy(key("policy"), b"stages: {}")
    with opened(tmp_path) as store:
        assert list(store.load(key("root"))) == [first, second]
        assert list(store.load(key("root")))[0].promises.keys() == first.promises.keys()
        assert list(store.load(key("nothing"))) == []
        assert store.policy(key("policy")) == b"stages: {}"
        assert store.policy(key("nothing")) is None
        assert store.skipped == 0


def without(one: Branch, struck: list) -> Branch:
    """A branch as the ledger has it after a strike."""
    gone = {promise.id for promise in struck}
    left = {anchor: tuple(p for p in group if p.id not in gone) for anchor, group in one.promises.items()}
    return structs.replace(one, promises={anchor: group for anchor, group in left.items() if group})


@given(st.lists(made.branches(), min_size=1, max_size=3, unique_by=lambda one: one.id), st.data())
def test_any_sequence_of_changes_is_held(tmp_path_factory, several, data):
    """Saves, strikes, departures and returns, written at once or together, seen at once and after a restart."""
    state = tmp_path_factory.mktemp("state")
    several = [structs.replace(one, root=key("root")) for one in several]
    expected: dict[bytes, Branch] = {}
    with opened(state, age_s=NOW * 9) as store:
        for _ in range(data.draw(st.integers(1, 6))):
            one = data.draw(st.sampled_from(several))
            held = expected.get(one.id)
            step = data.draw(st.sampled_from(["save", "strike", "leave", "flush"]))
            if step == "save":
                store.save(
                    one,
                    all_promises(one)
                    if held is None
                    else [p for p in all_promises(one) if p not in all_promises(held)],
                )
                expected[one.id] = one
            elif step == "strike" and held is not None:
                struck = [promise for promise in all_promises(held) if data.draw(st.booleans())]
                expected[one.id] = without(held, struck)
                store.strike(expected[one.id], struck)
            elif step == "leave" and held is not None:
                store.strike(structs.replace(held, keys=b""), all_promises(held))
                del expected[one.id]
            elif step == "flush":
                assert store.flush()
            assert load(store) == expected
        assert store.flush()
        assert load(store) == expected
    with opened(state, age_s=NOW * 9) as store:
        assert load(store) == expected


def test_a_change_is_seen_before_it_is_written(tmp_path):
    """While another process holds the file, what waits is loaded over what is stored."""
    with opened(tmp_path) as store:
        old, other = branch("one", promises=[promise("a")]), branch("two")
        store.save(old, all_promises(old))
        store.save(other, ())
        assert store.flush()
        with closing(sqlite3.connect(tmp_path / NAME, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            new = branch("one", promises=[promise("a"), promise("b")], keys=5)
            store.save(new, [promise("b")])
            store.keep_policy(key("new"), b"policy")
            store.strike(structs.replace(other, keys=b""), ())
            assert load(store) == {new.id: new}
            assert store.policy(key("new")) == b"policy"
            holder.execute("ROLLBACK")
        assert store.flush()
        assert load(store) == {new.id: new}


def test_closing_writes_what_waits(tmp_path):
    """A graceful end loses nothing, however much was queued a moment before."""
    whole = [branch(n, promises=[promise(m) for m in range(20)]) for n in range(200)]
    with opened(tmp_path) as store:
        for one in whole:
            store.save(one, all_promises(one))
    assert after_restart(tmp_path) == whole


def test_a_closed_store_is_silent(tmp_path):
    """After the end nothing is remembered, nothing raises, and closing again is no fault."""
    with opened(tmp_path) as store:
        store.save(branch(), ())
        store.close()
        store.save(branch("late"), ())
        store.strike(branch("late"), ())
        store.keep_policy(key("late"), b"")
        assert list(store.load(key("root"))) == []
        assert store.policy(key("late")) is None
    assert after_restart(tmp_path) == [branch()]


def test_a_crash_leaves_whole_turns(tmp_path):
    """A process that is killed amid writing leaves heads with exactly the promises they were sent with."""
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from proxy.stores.sqlite import SqliteStore\n"
        "from tests.stores.branches import branch, promise\n"
        "store = SqliteStore(Path(sys.argv[1]), print, clock=lambda: 1_800_000_000.0)\n"
        "held = []\n"
        "for n in range(100_000):\n"
        "    held = [*held[-50:], promise(n)] if n % 60 else [promise(n)]\n"
        "    store.save(branch(n // 60, promises=held, keys=len(held)), held[-1:])\n"
        "    if n == 200: store.flush(); print('started', flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    child.kill()
    child.wait()
    child.stdout.close()
    found = after_restart(tmp_path)
    assert len(found) >= 3
    assert [len(all_promises(one)) for one in found if len(one.keys) <= 8 * 50] == [
        len(one.keys) // 8 for one in found if len(one.keys) <= 8 * 50
    ]


def test_the_state_is_private(tmp_path):
    """Directory 0700, file, -wal and -shm 0600, whatever the umask; a file found open to others is closed to them."""
    state = tmp_path / "a" / "stet"
    before = os.umask(0)
    try:
        with opened(state) as store:
            store.save(branch(), ())
            assert store.flush()
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (state, *state.iterdir())}
        (state / NAME).chmod(0o664)
        with opened(state) as store:
            store.save(branch(), ())
            assert store.flush()
            again = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (state, *state.iterdir())}
    finally:
        os.umask(before)
    assert modes == again == {"stet": 0o700, NAME: 0o600, f"{NAME}-wal": 0o600, f"{NAME}-shm": 0o600}


def test_a_directory_that_was_there_keeps_its_mode(tmp_path):
    """A user's own directory is not closed to those who share it; the file in it is."""
    tmp_path.chmod(0o755)
    with opened(tmp_path):
        assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_what_is_old_leaves_at_start(tmp_path):
    """Branches not touched for the age leave with promises, tools and policy; one of the same root stays."""
    old = branch("old", promises=[promise("a")], touched=NOW - 31 * DAY, tools=b"old")
    new = branch("new", promises=[promise("a")], touched=NOW - 29 * DAY, tools=b"new")
    with opened(tmp_path, now=NOW - 31 * DAY) as store:
        for one in (old, new):
            store.save(structs.replace(one, policy=one.id), all_promises(one))
            store.keep_policy(one.id, b"policy")
    with opened(tmp_path) as store:
        store.save(branch("third", root="other"), ())
        assert store.flush()
        assert load(store) == {new.id: structs.replace(new, policy=new.id)}
        assert (store.policy(old.id), store.policy(new.id)) == (None, b"policy")
    assert [rows(tmp_path, table) for table in ("branches", "promises", "tools", "policies")] == [2, 1, 2, 1]


def test_a_running_store_purges_after_so_many_writes(tmp_path):
    """Age is looked at again while the process runs, not at its start alone."""
    old, new = branch("old", touched=NOW - 31 * DAY), branch("new")
    with opened(tmp_path, purge_every=3) as store:
        for one in (old, new):
            store.save(one, ())
            assert store.flush()
        assert load(store).keys() == {old.id, new.id}
        for _ in range(2):
            store.save(new, ())
            assert store.flush()
    assert after_restart(tmp_path, age_s=NOW * 9) == [new]


def test_a_quiet_store_purges_too(tmp_path):
    """Without any write, what is old leaves after the pause."""
    now = [NOW - 31 * DAY]
    store = SqliteStore(tmp_path, pytest.fail, limits=Limits(purge_s=0.02), clock=lambda: now[0])
    old = branch("old", touched=now[0])
    store.save(old, ())
    assert store.flush()
    assert load(store) == {old.id: old}
    now[0] = NOW
    gone = Thread(target=lambda: any(iter(lambda: not load(store), True)), daemon=True)
    gone.start()
    gone.join(20)
    assert not gone.is_alive()
    store.close()


def heavy(name: object, touched: float) -> Branch:
    return branch(
        name, root=name, promises=[promise(n, text="x" * 1000) for n in range(100)], touched=touched
    )


def test_the_oldest_roots_leave_above_the_bytes(tmp_path):
    """The file is cut to its limit, oldest root first, and gives the space back."""
    several = [heavy(n, NOW - 100 + n) for n in range(20)]
    random.Random(5).shuffle(several)
    with opened(tmp_path) as store:
        for one in several:
            store.save(one, all_promises(one))
    before = (tmp_path / NAME).stat().st_size
    limit = before // 2
    with opened(tmp_path, bytes=limit) as store:
        store.save(branch("probe"), ())
        assert store.flush()
        kept = [n for n in range(20) if load(store, n)]
    assert kept == list(range(20 - len(kept), 20))
    assert 5 <= len(kept) <= 10
    assert (tmp_path / NAME).stat().st_size <= limit


def test_a_branch_that_was_purged_comes_back_whole(tmp_path):
    """A conversation that lives on after its rows were thrown away is written with all its promises again."""
    one = heavy("one", NOW)
    with opened(tmp_path, bytes=1, purge_every=1) as store:
        store.save(one, all_promises(one))
        assert store.flush()
    assert after_restart(tmp_path, "one", bytes=512 << 20) == []
    grown = structs.replace(one, promises={**one.promises, key("new"): (promise("new"),)})
    with opened(tmp_path) as store:
        store.save(grown, [promise("new")])
    assert after_restart(tmp_path, "one") == [grown]


def test_conversations_share_their_tools(tmp_path):
    """The tools of an agent, the same in every conversation, are stored once."""
    with opened(tmp_path) as store:
        for n in range(20):
            store.save(branch(n, tools=b"x" * 10_000), ())
    assert (rows(tmp_path, "branches"), rows(tmp_path, "tools")) == (20, 1)


def test_two_stores_share_a_file(tmp_path):
    """Each sees what the other wrote; the last head wins, a promise is the first one written."""
    with opened(tmp_path) as one, opened(tmp_path) as two:
        mine = branch(promises=[promise("a", text="mine")], keys=1)
        one.save(mine, all_promises(mine))
        assert one.flush()
        assert load(two) == {mine.id: mine}
        theirs = branch(promises=[promise("a", text="theirs")], keys=2)
        two.save(theirs, all_promises(theirs))
        assert two.flush()
        assert load(one) == {mine.id: branch(promises=[promise("a", text="mine")], keys=2)}


def test_two_processes_write_at_once(tmp_path):
    """Started together on a new directory and writing all the time, they lose nothing and leave a sound file."""
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from proxy.stores.sqlite import SqliteStore\n"
        "from tests.stores.branches import all_promises, branch, promise\n"
        "faults = []\n"
        "store = SqliteStore(Path(sys.argv[1]), faults.append, clock=lambda: 1_800_000_000.0)\n"
        "for n in range(150):\n"
        "    one = branch(f'{sys.argv[2]}{n}', promises=[promise(n)])\n"
        "    store.save(one, all_promises(one))\n"
        "    store.flush()\n"
        "store.close()\n"
        "sys.exit(str(faults[0]) if faults else 0)\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", program, tmp_path, name], stderr=subprocess.PIPE, text=True)
        for name in "abc"
    ]
    assert [(child.communicate(timeout=120)[1], child.returncode) for child in children] == [("", 0)] * 3
    assert len(after_restart(tmp_path)) == 450
    with closing(sqlite3.connect(tmp_path / NAME)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_threads_see_their_own_writes(tmp_path):
    """Eight threads saving and loading at once: each finds what it saved, and so does the next process."""
    wrong: list[object] = []

    def turns(store: SqliteStore, name: int) -> None:
        held: list = []
        for n in range(40):
            held.append(promise(n))
            one = branch(name, root=name % 3, promises=held, keys=n + 1)
            store.save(one, held[-1:])
            if (found := load(store, name % 3)[one.id]) != one:
                wrong.append((name, n, found))

    with opened(tmp_path) as store:
        threads = [Thread(target=turns, args=(store, name)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
    found = [one for root in range(3) for one in after_restart(tmp_path, root)]
    assert sorted(len(all_promises(one)) for one in found) == [40] * 8
