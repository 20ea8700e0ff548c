"""The ledger: where a request stands, what is remembered when it leaves, and what is taken back when it fails.

A history is written as a word: each letter is a part that says something. `Talk` sends histories along.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from proxy.conversation import (
    Conversation,
    Mark,
    Message,
    Opaque,
    Reasoning,
    Role,
    Text,
    ToolDefinition,
)
from proxy.edits import Remove, Target
from proxy.branch import (
    PROMISE_BYTES,
    SHORT,
    Branch,
    Frontier,
    Frozen,
    Place,
    Promise,
    Spelling,
    keyed,
    packed,
    standing,
)
from proxy.identity import head, setting
from proxy.ledger import Commit, Ledger, Ticket
from proxy.recall import Recent
from proxy.usage import Usage

ROOT = b"root" * 4
USAGE = Usage(prompt=10, cached=5)


def key(letter: str) -> bytes:
    return letter.encode() * 16


def keys(word: str) -> bytes:
    return b"".join(key(letter)[:SHORT] for letter in word)


def promise(anchor: str, stage: str = "test", *, says: str = "", **more: Any) -> Promise:
    edit = Remove(stage=stage, reason=says, target=Target(key(anchor)))
    return Promise(anchor=key(anchor), stage=stage, edits=(edit,), **more)


def frontier(at: float, **more: Any) -> Frontier:
    made = {"upstream": "here", "model": "m", "setting": b"s", "parts": 0, "estimate": 0, **more}
    return Frontier(at=at, **made)


class Talk:
    """A client and its requests, one second apart."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.ledger = ledger or Ledger()
        self.now = 0.0

    def place(
        self, word: str, session: str = "", ids: Iterable[str] = (), *, opening: bool | None = None
    ) -> Place:
        """Where a history stands; one letter is an opening, unless said otherwise."""
        opening = len(word) == 1 if opening is None else opening
        return self.ledger.place(keys(word), ROOT, session, ids, opening=opening)

    def prepare(
        self, word: str, *promises: Promise, session: str = "", ids: Iterable[str] = (), **more: Any
    ) -> Commit:
        """A rewrite of a history, ready to be sent."""
        self.now += 1
        place = self.place(word, session, ids, opening=more.pop("opening", None))
        made: dict[str, Any] = {
            "root": ROOT,
            "base": place.branch.id if place.branch else None,
            "fork": place.broke,
            "session": session,
            "keys": keys(word),
            "policy": b"policy",
            "promises": promises,
            "frozen": Frozen(),
            "rewritten": bool(promises),
            "frontier": frontier(self.now),
            "recent": None,
            "recall": b"",
        }
        return Commit(**{**made, **more})

    def leave(self, word: str, *promises: Promise, **more: Any) -> Ticket:
        """A request leaves."""
        return self.ledger.commit(self.prepare(word, *promises, **more))

    def answer(self, ticket: Ticket, *answers: str) -> None:
        self.ledger.settle(ticket, USAGE, answers, success=True)

    def fail(self, ticket: Ticket) -> None:
        self.ledger.settle(ticket, None, (), success=False)

    def say(self, word: str, *promises: Promise, answers: Sequence[str] = (), **more: Any) -> Branch:
        """A request leaves and is answered."""
        ticket = self.leave(word, *promises, **more)
        self.answer(ticket, *answers)
        return self.branch(ticket)

    def branch(self, ticket: Ticket) -> Branch:
        return self.ledger.branches(ROOT)[ticket.branch]

    def held(self, word: str) -> list[tuple[bytes, str]]:
        """What is promised along the branch where a history stands."""
        branch = self.place(word, opening=False).branch
        assert branch is not None
        return [(p.anchor, p.stage) for group in branch.promises.values() for p in group]


# -- where a request stands ----------------------------------------------------------------------------------


def test_what_was_never_seen_stands_nowhere() -> None:
    """No branch, nothing in common, nothing broken."""
    assert Talk().place("abc") == Place(branch=None, common=0, broke=False)


def test_a_conversation_that_goes_on_stands_at_its_end() -> None:
    """All of what was sent is common, and nothing broke."""
    talk = Talk()
    branch = talk.say("abc")
    assert talk.place("abcde") == Place(branch=branch, common=3, broke=False)


def test_a_retry_stands_where_the_request_stood() -> None:
    """The same history again is no break."""
    talk = Talk()
    branch = talk.say("abc")
    assert talk.place("abc") == Place(branch=branch, common=3, broke=False)


def test_a_rewind_breaks() -> None:
    """The branch had gone on behind what is left of it."""
    talk = Talk()
    branch = talk.say("abcde")
    assert talk.place("abc") == Place(branch=branch, common=3, broke=True)
    assert talk.place("abx") == Place(branch=branch, common=2, broke=True)


@given(st.text("ab", min_size=2, max_size=40), st.text("ab", min_size=2, max_size=40))
def test_the_common_beginning_is_found_whatever_its_length(one: str, other: str) -> None:
    """Part by part."""
    talk = Talk()
    talk.say(one)
    common = next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    assert talk.place(other).common == common


def test_the_longest_common_beginning_wins() -> None:
    """Before sessions and times."""
    talk = Talk()
    near = talk.say("abcd", session="one")
    talk.say("abx", session="two")
    assert talk.place("abcde", session="two").branch == near


def test_among_equals_the_same_session_wins() -> None:
    """A nightly job says the same each night."""
    talk = Talk()
    mine = talk.say("abc", session="mine")
    talk.say("abc", session="theirs", base=None)
    assert talk.place("abcd", session="mine").branch == mine


def test_then_the_answer_that_goes_on_wins() -> None:
    """Where nothing names the session, the ids of the calls in the answer do."""
    talk = Talk()
    mine = talk.say("abc", answers=["call_1"])
    other = talk.say("abc", base=None, answers=["call_2"])
    assert talk.place("abcd", ids=["call_1"]).branch == mine
    assert talk.place("abcd", ids=["call_2"]).branch == other


def test_else_the_newest_wins() -> None:
    """It is the likeliest to go on."""
    talk = Talk()
    talk.say("abc")
    newest = talk.say("abc", base=None)
    assert talk.place("abcd").branch == newest


def test_a_branch_that_ends_there_wins_over_one_that_went_on() -> None:
    """Going on from an end breaks nothing."""
    talk = Talk()
    end = talk.say("abc")
    talk.say("abcx", base=None)
    assert talk.place("abcd").branch == end


def test_an_opening_is_a_conversation_of_its_own() -> None:
    """Another one may have begun with the same words: its date must not come back."""
    talk = Talk()
    talk.say("a")
    assert talk.place("a").branch is None


def test_an_opening_joins_as_its_own_retry() -> None:
    """Before an answer came."""
    talk = Talk()
    ticket = talk.leave("a")
    assert talk.place("a").branch == talk.branch(ticket)


def test_an_opening_that_only_begins_like_another_is_new() -> None:
    """Though that one still waits for its answer."""
    talk = Talk()
    talk.leave("ab", opening=True)
    assert talk.place("ac", opening=True).branch is None


def test_an_opening_joins_its_own_session() -> None:
    """By name, also after an answer."""
    talk = Talk()
    branch = talk.say("a", session="mine")
    assert talk.place("a", session="mine").branch == branch
    assert talk.place("a", session="theirs").branch is None


# -- what is remembered ----------------------------------------------------------------------------------------


def test_a_conversation_is_one_branch() -> None:
    """It grows with each request, and remembers how each was answered."""
    talk = Talk()
    talk.say("abc", promise("a"), session="mine")
    branch = talk.say("abcde", promise("d"), answers=["call_1"])
    assert [*talk.ledger.branches(ROOT)] == [branch.id]
    assert branch == Branch(
        id=branch.id,
        root=ROOT,
        session="mine",
        keys=keys("abcde"),
        policy=b"policy",
        touched=2.0,
        turns=2,
        made=2,
        promises={key("a"): (promise("a", number=0),), key("d"): (promise("d", number=1),)},
        frontiers=(structs.replace(frontier(2.0), usage=USAGE, ends=((0, 1.0), (0, 2.0))),),
        answers=("call_1",),
        answered=True,
        rewritten=True,
    )


def test_what_is_read_again_lives_on_from_then() -> None:
    """The end of that very request; of a branch that is gone nothing is known."""
    talk = Talk()
    talk.say("abc", session="mine")
    ticket = talk.leave("abcde", session="mine")
    talk.ledger.settle(ticket, USAGE, (), success=True)
    talk.ledger.refreshed(ticket, 500.0)
    [branch] = talk.ledger.branches(ROOT).values()
    [kept] = branch.frontiers
    assert (kept.at, kept.ends[-1]) == (500.0, (kept.turns, 500.0))
    Ledger().refreshed(ticket, 500.0)


def test_a_fork_starts_with_the_promises_about_what_it_shares() -> None:
    """The old branch stays as it is. Else a client that goes back again and again would be remembered ever longer."""
    talk = Talk()
    old = talk.say("abc", promise("a"), promise("c"))
    fork = talk.say("abx", promise("x"))
    assert fork.id != old.id
    assert talk.ledger.branches(ROOT)[old.id] == old
    assert {*fork.promises} == {key("a"), key("x")}
    assert talk.place("abcd").branch == old


def test_a_fork_keeps_what_ends_with_a_turn_that_it_shares() -> None:
    """Such an anchor is no part of the history; the parts that its edits name are."""
    talk = Talk()
    ended = structs.replace(promise("b"), anchor=b"the end of b's turn")
    talk.say("abc", ended)
    assert {*talk.say("abx").promises} == {ended.anchor}


def test_another_session_that_only_begins_alike_is_none_of_ours() -> None:
    """Whole projects open with one reminder; what was frozen in one session must not get into another."""
    talk = Talk()
    old = talk.say("abc", session="one")

    def place(word: str, session: str, asked: int) -> Place:
        return talk.ledger.place(keys(word), ROOT, session, (), opening=False, asked=asked)

    nowhere = Place(branch=None, common=0, broke=False)
    assert place("axy", "two", 1) == nowhere
    assert place("axy", "one", 1) == Place(branch=old, common=1, broke=True)
    assert place("axy", "", 1) == Place(branch=old, common=1, broke=True)
    assert place("abx", "two", 1) == Place(branch=old, common=2, broke=True)
    assert place("abcd", "two", 3) == Place(branch=old, common=3, broke=False)


def test_promises_are_written_once() -> None:
    """What stands under an anchor, a stage and a number stays as it was first."""
    talk = Talk()
    first = promise("a", says="first")
    talk.say("ab", first)
    branch = talk.say(
        "abcd", promise("a", says="second"), promise("a", "other"), structs.replace(first, nth=3)
    )
    assert [(p.stage, p.nth, p.edits[0].reason) for p in branch.promises[key("a")]] == [
        ("test", 0, "first"),
        ("other", 0, ""),
        ("test", 3, "first"),
    ]


def test_promises_are_numbered_in_the_order_in_which_they_were_made() -> None:
    """Edits build on each other."""
    talk = Talk()
    talk.say("abc", promise("b"), promise("a"))
    branch = talk.say("abcd", promise("b"), promise("c"))
    assert [p.number for anchor in "bac" for p in branch.promises[key(anchor)]] == [0, 1, 2]


def test_what_was_rewritten_once_stays_so() -> None:
    """One bit a conversation, also in its forks."""
    talk = Talk()
    assert not talk.say("ab").rewritten
    assert talk.say("abc", promise("c")).rewritten
    assert talk.say("abcd").rewritten
    assert talk.say("abx").rewritten


def test_each_upstream_model_and_setting_has_its_frontier() -> None:
    """The newest replaces its own kind; of the others the last three stay."""
    talk = Talk()
    word = "a"
    for at, model in enumerate(["m", "n", "m", "o", "p", "q"]):
        word += chr(ord("b") + at)
        talk.say(word, frontier=frontier(float(at), model=model))
    branch = talk.say(word + "z", frontier=frontier(9.0, setting=b"other"))
    assert [(f.model, f.setting, f.at) for f in branch.frontiers] == [
        ("o", b"s", 3.0),
        ("p", b"s", 4.0),
        ("q", b"s", 5.0),
        ("m", b"other", 9.0),
    ]
    assert branch.frontier("here", "q") == branch.frontiers[2]
    assert branch.frontier("here", "q", b"s") == branch.frontiers[2]
    assert branch.frontier("here", "q", b"other") is None
    assert branch.frontier("there", "q") is None


def test_a_named_session_finds_where_it_was() -> None:
    """By its name alone: its history may have been replaced."""
    talk = Talk()
    assert talk.ledger.latest("mine") is None
    talk.say("ab", session="mine")
    newest = talk.say("ax", session="mine")
    assert talk.ledger.latest("mine") == newest
    assert talk.ledger.latest("theirs") is None


# -- what fails ------------------------------------------------------------------------------------------------


def test_a_first_request_that_failed_leaves_nothing() -> None:
    """Nobody has seen it."""
    talk = Talk()
    talk.fail(talk.leave("ab", promise("a")))
    assert talk.ledger.branches(ROOT) == {}


def test_a_later_request_that_failed_is_taken_back() -> None:
    """The branch is as long as it was, and what was promised with the request goes; the frontier has not moved."""
    talk = Talk()
    before = talk.say("ab", promise("a"), answers=["call_1"])
    ticket = talk.leave("abcd", promise("d"))
    talk.fail(ticket)
    after = talk.branch(ticket)
    assert (after.keys, after.promises, after.frontiers, after.answers, after.answered) == (
        before.keys,
        before.promises,
        before.frontiers,
        ("call_1",),
        True,
    )


def test_the_retry_of_what_failed_may_decide_anew() -> None:
    """Nothing of the first try binds it."""
    talk = Talk()
    talk.say("ab")
    talk.fail(talk.leave("abcd", promise("d", says="first")))
    branch = talk.say("abcd", promise("d", says="second"))
    assert branch.promises[key("d")][0].edits[0].reason == "second"


def test_a_retry_while_the_first_is_in_flight_carries_its_promises() -> None:
    """The provider may take either."""
    talk = Talk()
    talk.say("ab")
    first = talk.leave("abcd", promise("d"))
    second = talk.leave("abcd", promise("d", says="another"))
    talk.fail(first)
    assert talk.held("abcd") == [(key("d"), "test")]
    talk.answer(second)
    assert talk.branch(second).promises[key("d")][0].edits[0].reason == ""


def test_what_a_successful_request_carries_is_not_struck() -> None:
    """Even when the one that first promised it fails later: the provider has seen it."""
    talk = Talk()
    talk.say("ab")
    first = talk.leave("abcd", promise("d"))
    second = talk.leave("abcd")
    talk.answer(second)
    talk.fail(first)
    assert talk.held("abcd") == [(key("d"), "test")]
    assert talk.branch(second).keys == keys("abcd")


def test_what_both_carried_and_neither_brought_home_is_struck() -> None:
    """In either order."""
    for order in ((0, 1), (1, 0)):
        talk = Talk()
        talk.say("ab")
        flights = [talk.leave("abcd", promise("d")), talk.leave("abcd", promise("c"))]
        for at in order:
            talk.fail(flights[at])
        assert talk.held("abcd") == []


def test_a_failure_behind_which_the_conversation_went_on_takes_nothing_back() -> None:
    """The branch is longer by now."""
    talk = Talk()
    talk.say("ab")
    first = talk.leave("abcd")
    second = talk.leave("abcdef")
    talk.fail(first)
    assert talk.branch(second).keys == keys("abcdef")


def test_two_at_once_from_one_history_conflict_where_they_promise_otherwise() -> None:
    """The second must be rewritten again, on what the first has promised."""
    talk = Talk()
    talk.say("ab")
    same, otherwise = talk.prepare("abc", promise("b")), talk.prepare("abd", promise("b", says="other"))
    talk.leave("abc", promise("b"))
    assert not talk.ledger.conflicts(same)
    assert talk.ledger.conflicts(structs.replace(otherwise, base=same.base))
    assert not talk.ledger.conflicts(talk.prepare("xyz", promise("b", says="other"), base=None))


def test_an_answer_to_what_is_no_longer_known_is_ignored() -> None:
    """Its conversation was forgotten meanwhile."""
    talk = Talk(Ledger(conversations=1))
    ticket = talk.leave("ab")
    other = structs.replace(talk.prepare("xy", base=None), root=b"other")
    talk.ledger.commit(other)
    talk.answer(ticket)
    talk.fail(ticket)
    talk.ledger.abandon(ticket)
    assert talk.ledger.branches(ROOT) == {}


def test_a_refused_chain_is_left_alone() -> None:
    """Its promises go, but for what the fallback did; forks of it are left alone too."""
    talk = Talk()
    talk.say("ab", promise("a"))
    ticket = talk.leave("abcd", promise("d"), bare=(promise("c", "reasoning"),))
    talk.ledger.abandon(ticket)
    branch = talk.branch(ticket)
    assert branch.alone
    assert {*branch.promises} == {key("c")}
    assert branch.frozen == Frozen()
    assert talk.say("abcde").alone
    assert talk.say("abx").alone


def test_a_chain_whose_fallback_recovers_goes_on() -> None:
    """Nothing of ours was at fault but that we had forgotten: all promises stay."""
    talk = Talk()
    talk.say("ab", promise("a"))
    ticket = talk.leave("abcd", promise("d"), bare=(promise("c", "reasoning"),), recovers=True)
    talk.ledger.abandon(ticket)
    branch = talk.branch(ticket)
    assert not branch.alone
    assert {*branch.promises} == {key("a"), key("d"), key("c")}


# -- what is kept in memory ------------------------------------------------------------------------------------


def recent(size: int = 10) -> Recent:
    return Recent((), (), b"", (), (), (), 0, b"", size)


def test_the_last_request_of_each_branch_is_kept() -> None:
    """A new one takes the place of the one before."""
    talk = Talk()
    first = talk.leave("ab", recent=recent(), recall=b"name")
    talk.answer(first)
    second = talk.leave("abcd", recent=recent(20), recall=b"name")
    fork = talk.leave("abx", recent=recent(30), recall=b"name", opening=False)
    assert [(one.branch, one.size) for one in talk.ledger.recall(b"name")] == [
        (second.branch, 20),
        (fork.branch, 30),
    ]
    assert talk.ledger.recent_of(fork.branch) == talk.ledger.recall(b"name")[1]
    assert talk.ledger.recent_of(b"nobody") is None
    assert talk.ledger.recall(b"nobody") == ()


def test_recent_requests_are_bounded_by_bytes() -> None:
    """The oldest go first; the newest stays however large it is."""
    talk = Talk(Ledger(recent_bytes=100))
    tickets = [
        talk.leave(f"a{letter}", base=None, recent=recent(40), recall=letter.encode()) for letter in "bcd"
    ]
    assert [talk.ledger.recent_of(ticket.branch) is not None for ticket in tickets] == [False, True, True]
    assert talk.ledger.recall(b"b") == ()
    huge = talk.leave("ae", base=None, recent=recent(500), recall=b"e")
    assert [talk.ledger.recent_of(ticket.branch) is not None for ticket in (*tickets, huge)] == [
        False,
        False,
        False,
        True,
    ]


def test_branches_are_bounded_by_bytes() -> None:
    """The one longest not used goes first, with its root where it was the last of it; the newest stays."""
    ledger = Ledger(branch_bytes=2 * (len(keys("ab")) + PROMISE_BYTES))
    talk = Talk(ledger)
    tickets = [
        ledger.commit(structs.replace(talk.prepare(word, promise(word[0]), base=None), root=root))
        for word, root in (("ab", b"one"), ("cd", b"two"), ("ef", b"two"))
    ]
    assert [*ledger.branches(b"one")] == []
    assert [*ledger.branches(b"two")] == [ticket.branch for ticket in tickets[1:]]
    large = talk.say("ghijk", *(promise(letter) for letter in "ghijk"))
    assert [*ledger.branches(b"two")] == []
    assert [*ledger.branches(ROOT)] == [large.id]


def test_what_the_store_brings_counts_from_the_next_request_on() -> None:
    """The oldest of it goes."""
    old, new = (Talk().say(word, promise(word[0])) for word in ("ab", "cd"))
    new = structs.replace(new, touched=9.0)
    ledger = Ledger(Notes(new, old), branch_bytes=2 * (len(keys("ab")) + PROMISE_BYTES))
    newest = Talk(ledger).say("ef", promise("e"))
    assert {*ledger.branches(ROOT)} == {new.id, newest.id}


def test_conversations_are_bounded_by_number() -> None:
    """The one longest not used goes first."""
    ledger = Ledger(conversations=2)
    talk = Talk(ledger)
    for root in (b"one", b"two", b"one", b"three"):
        ledger.commit(structs.replace(talk.prepare("ab", base=None, session=root.decode()), root=root))
    assert [bool(ledger.branches(root)) for root in (b"one", b"two", b"three")] == [True, False, True]
    assert [ledger.latest(name) is not None for name in ("one", "two", "three")] == [True, False, True]


# -- the store -------------------------------------------------------------------------------------------------


class Notes:
    """A store that writes down what it is told."""

    def __init__(self, *branches: Branch) -> None:
        self.known = branches
        self.told: list[tuple[Any, ...]] = []
        self.policies: dict[bytes, bytes] = {}

    def load(self, root: bytes) -> Iterable[Branch]:
        self.told.append(("load", root))
        return [branch for branch in self.known if branch.root == root]

    def save(self, branch: Branch, added: Sequence[Promise]) -> None:
        self.told.append(("save", branch, [p.anchor for p in added]))

    def strike(self, branch: Branch, struck: Sequence[Promise]) -> None:
        self.told.append(("strike", branch, [p.anchor for p in struck]))

    def policy(self, digest: bytes) -> bytes | None:
        self.told.append(("policy", digest))
        return self.policies.get(digest)

    def keep_policy(self, digest: bytes, encoded: bytes) -> None:
        self.policies[digest] = encoded


def test_a_conversation_is_loaded_once() -> None:
    """Then memory is the truth."""
    branch = Talk().say("abc", promise("a"))
    notes = Notes(branch)
    talk = Talk(Ledger(notes))
    assert talk.place("abcd").branch == branch
    talk.place("abcd")
    assert notes.told == [("load", ROOT)]


def test_two_that_load_at_once_share_what_is_known() -> None:
    """A request that waits for the store does not undo what another one committed meanwhile."""
    talk = Talk()
    branch = talk.say("abc", promise("a"))

    class Slow(Notes):
        def load(self, root: bytes) -> Iterable[Branch]:
            found = [*super().load(root)]
            if len(self.told) == 1:  # while the first request waits, a second one is served
                Talk(ledger).say("abcd", promise("d"))
            return found

    ledger = Ledger(Slow(branch))
    after = Talk(ledger)
    assert after.place("abcde").branch is not None
    assert after.held("abcde") == [(key("a"), "test"), (key("d"), "test")]


def test_a_new_branch_never_takes_the_name_of_a_stored_one() -> None:
    """Another process may have made one at the same time from the same history."""
    branch = Talk().say("abc")
    talk = Talk(Ledger(Notes(branch)))
    ticket = talk.leave("abc", base=None)
    assert ticket.branch != branch.id
    assert {*talk.ledger.branches(ROOT)} == {branch.id, ticket.branch}


def test_the_store_is_told_of_every_change() -> None:
    """New promises as they are made; all of them for a branch that it does not know yet."""
    notes = Notes()
    talk = Talk(Ledger(notes))
    first = talk.leave("ab", promise("a"))
    talk.answer(first)
    second = talk.leave("abcd", promise("d"))
    talk.fail(second)
    fork = talk.leave("ax")
    told = [entry for entry in notes.told if entry[0] != "load"]
    assert [(what, branch.keys, anchors) for what, branch, anchors in told] == [
        ("save", keys("ab"), [key("a")]),
        ("save", keys("ab"), []),
        ("save", keys("abcd"), [key("d")]),
        ("strike", keys("ab"), [key("d")]),
        ("save", keys("ax"), [key("a")]),
    ]
    talk.fail(fork)
    what, branch, anchors = notes.told[-1]
    assert (what, branch.keys, anchors) == ("strike", b"", [key("a")])


def test_the_store_is_told_that_a_chain_is_left_alone() -> None:
    """What is struck, and what stands instead."""
    notes = Notes()
    talk = Talk(Ledger(notes))
    ticket = talk.leave("ab", promise("a"), bare=(promise("b", "reasoning"),))
    talk.ledger.abandon(ticket)
    assert [(what, branch.alone, anchors) for what, branch, anchors in notes.told[-2:]] == [
        ("strike", True, [key("a")]),
        ("save", True, [key("b")]),
    ]


def test_policies_are_kept_once_and_found_again() -> None:
    """In memory, else in the store; they are encoded only when they are new."""
    notes = Notes()
    ledger = Ledger(notes)
    ledger.keep_policy(b"d", lambda: b"encoded")
    ledger.keep_policy(b"d", lambda: pytest.fail("encoded twice"))
    assert (ledger.policy(b"d"), notes.policies) == (b"encoded", {b"d": b"encoded"})
    again = Ledger(notes)
    assert [again.policy(b"d"), again.policy(b"d"), again.policy(b"x")] == [b"encoded", b"encoded", None]
    assert notes.told == [("policy", b"d"), ("policy", b"x")]
    alone = Ledger()
    alone.keep_policy(b"d", lambda: b"encoded")
    assert [alone.policy(b"d"), alone.policy(b"x")] == [b"encoded", None]


# -- histories -------------------------------------------------------------------------------------------------


def test_promises_stand_in_the_order_of_the_history() -> None:
    """Those whose anchor is not in it do not stand; a key is looked for at whole places only."""
    made = [promise(anchor) for anchor in "cxab"]
    assert [p.anchor for p in standing(made, keys("abc"))] == [key(letter) for letter in "abc"]
    shifted = b"\0" * 4 + key("a")[:SHORT] + b"\0" * 4
    assert standing([promise("a")], shifted) == ()
    assert standing([promise("a")], shifted + key("a")[:SHORT]) == (promise("a"),)


def test_only_parts_that_say_something_count() -> None:
    """Thinking and blank texts come and go."""
    parts = (Text(text="a", key=key("a")), Reasoning(signature="", key=key("a"), nth=1))
    assert keyed(parts) == 1
    assert packed([Message(role=Role.USER, parts=parts)]) == keys("a")


def test_the_setting_is_what_stands_before_the_turns() -> None:
    """By name and place; marks are no part of it, what only looks like a tool is."""

    def conversation(system: str, **more: Any) -> Conversation:
        return Conversation(
            envelope=(),
            tools=(
                ToolDefinition(raw=Raw(b'{"name":"run"}'), name="run"),
                Opaque(raw=Raw(b"{}"), kind="other"),
            ),
            system=(Text(text=system, **more),),
            messages=(),
        )

    one = conversation("Be brief.")
    assert [name for name, _ in head(one)] == ["tools.run", "system.0"]
    assert setting(one) == setting(conversation("Be brief.", mark=Mark()))
    assert setting(one) != setting(conversation("Be kind."))


def test_first_spellings_and_frozen_values_go_with_the_branch() -> None:
    """As the rewrite leaves them."""
    frozen = Frozen({"date\0system": ("Monday",)}, (Spelling("run", b"says", b"raw"),))
    talk = Talk()
    assert talk.say("ab", frozen=frozen).frozen == frozen
