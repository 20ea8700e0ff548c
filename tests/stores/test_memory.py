"""The store in memory: a restart without a file, and bounds."""

from msgspec import structs

from proxy.branch import Branch, Frontier, Frozen, Promise
from proxy.ledger import Commit, Ledger
from proxy.stores.memory import MemoryStore
from tests.stores.branches import branch, key, promise


def commit(
    *promises: Promise, base: Branch | None = None, keys: bytes, at: float = 1.0, fork: bool = False
) -> Commit:
    """A request about to leave."""
    return Commit(
        root=key("root"),
        base=base.id if base else None,
        fork=fork,
        session="session",
        keys=keys,
        policy=key("policy"),
        promises=promises,
        frozen=Frozen(values={"date": ("today",)}),
        rewritten=True,
        frontier=Frontier(upstream="a", model="m", setting=b"s", at=at, parts=len(keys) // 8, estimate=9),
        recent=None,
        recall=b"r",
    )


def test_a_second_ledger_holds_what_the_first_promised():
    """Turns, an answer, a fork and a refused request: the ledger of after the restart equals the one before."""
    store = MemoryStore()
    first = Ledger(store)
    one = first.commit(commit(promise("a"), keys=b"1" * 8))
    first.settle(one, None, ("toolu_1",), success=True)
    [base] = first.branches(key("root")).values()
    two = first.commit(commit(promise("b"), base=base, keys=b"1" * 8 + b"2" * 8, at=2.0))
    first.settle(two, None, (), success=True)
    forked = first.commit(commit(promise("c"), base=base, keys=b"1" * 8 + b"3" * 8, at=3.0, fork=True))
    first.settle(forked, None, (), success=True)
    refused = first.commit(commit(promise("d"), base=base, keys=b"1" * 8 + b"2" * 8 + b"4" * 8, at=4.0))
    first.settle(refused, None, (), success=False)
    unborn = first.commit(commit(promise("e"), keys=b"9" * 8, at=5.0))
    first.settle(unborn, None, (), success=False)
    first.keep_policy(key("policy"), lambda: b"stages: {}")

    second = Ledger(store)
    assert second.branches(key("root")) == first.branches(key("root"))
    assert len(second.branches(key("root"))) == 2
    assert second.policy(key("policy")) == b"stages: {}"
    assert second.policy(key("other")) is None


def test_a_promise_is_written_once():
    """What stands under an anchor and a stage stays, until it is struck."""
    store = MemoryStore()
    whole = branch(promises=[promise("a", text="first")])
    store.save(whole, ())
    store.save(whole, [promise("a", text="second")])
    assert list(store.load(key("root"))) == [whole]
    store.strike(structs.replace(whole, promises={}), [promise("a")])
    store.save(whole, [promise("a", text="second")])
    assert list(store.load(key("root"))) == [branch(promises=[promise("a", text="second")])]


def test_nothing_is_known_of_other_roots():
    """A root never saved has no branches; a branch struck before it was saved is no fault."""
    store = MemoryStore()
    store.strike(structs.replace(branch(), keys=b""), ())
    assert list(store.load(key("root"))) == []
    assert store.size == 0


def test_the_root_saved_longest_ago_leaves_first():
    """The bytes are bounded, and counted right through saves, strikes and evictions."""
    one = MemoryStore()
    one.save(branch(root="a"), ())
    store = MemoryStore(limit=one.size * 2)
    for root in ("a", "b", "a", "c"):
        store.save(branch(root, root=root), ())
    assert [len(list(store.load(key(root)))) for root in "abc"] == [1, 0, 1]
    for root in ("a", "c"):
        store.strike(structs.replace(branch(root, root=root), keys=b""), ())
    assert store.size == 0


def test_what_has_no_bytes_is_skipped():
    """Text that is no Unicode is left out and counted; the rest of the branch is kept."""
    store = MemoryStore()
    store.save(branch(promises=[promise("a"), promise("b", text="\ud800")]), ())
    assert list(store.load(key("root"))) == [branch(promises=[promise("a")])]
    store.save(structs.replace(branch("other"), session="\ud800"), ())
    assert store.skipped == 2
    assert list(store.load(key("root"))) == [branch(promises=[promise("a")])]
