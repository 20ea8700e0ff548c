"""The laws of the rewrite for flat lists of items, each a property of whole sessions."""

from __future__ import annotations

from hypothesis import given, note, settings
from hypothesis import strategies as st

from proxy.ledger import Ledger
from proxy.rewrite import rewrite
from proxy.stores.memory import MemoryStore
from tests.laws.codex import DIALECT, FAULTS, World, play, wire

seeds = st.integers(0, 10**6)
faults = st.frozensets(st.sampled_from(FAULTS), max_size=4)
policies = st.sampled_from(("careful", "frugal"))
few = settings(max_examples=settings.default.max_examples // 4)
"""Each example is a whole session."""


def told(world: World) -> None:
    """For people who read a failure."""
    for sent in world.sent[-2:]:
        note(f"client {sent.body.decode()}")
        note(f"ours   {sent.made.body.decode()}")
        for edit in sent.made.edits:
            note(f"  {edit}")


@few
@given(policies, seeds)
def test_a_session_without_faults_is_not_touched(policy, seed):
    """The very bytes object, turn by turn, for as long as nothing pays to be cleared [law 2]."""
    world = World(policy)
    play(world, seed, frozenset(), bytes_=40)
    assert all(sent.made.body is sent.body for sent in world.sent)
    assert all(sent.status == 200 for sent in world.sent)


@few
@given(policies, seeds, faults)
def test_what_leaves_is_accepted(policy, seed, wrong):
    """Whatever the client lost, repeated or got too late, the provider takes every request [law 6]."""
    world = World(policy)
    play(world, seed, wrong)
    told(world)
    assert [sent.answer.get("error") for sent in world.sent if sent.status != 200] == []
    assert not any(sent.made.broken for sent in world.sent)


@few
@given(policies, seeds, faults, st.sampled_from((500, 4000)))
def test_what_was_sent_is_sent_again(policy, seed, wrong, size):
    """Each request begins with the one before it, but for what a committed edit changes [law 4]."""
    world = World(policy)
    play(world, seed, wrong, bytes_=size)
    told(world)
    before: list[object] = []
    for sent in world.sent:
        now = wire(sent.made.body)
        committed = any(getattr(edit, "committed", False) for edit in sent.made.edits)
        assert committed or now[: len(before)] == before
        before = now


@few
@given(policies, seeds, faults)
def test_our_own_output_needs_no_repair(policy, seed, wrong):
    """Fed back to somebody who knows nothing of the session, it is taken as it is [law 10]."""
    world = World(policy)
    play(world, seed, wrong)
    last = world.sent[-1]
    facts = world.facts(last.made.read.model)
    again = rewrite(
        last.made.body, DIALECT, world.policies.choose("openai", "", facts.model.model), Ledger(), facts
    )
    assert [edit for edit in again.edits if edit.required] == []


class Forgetful(Ledger):
    """A ledger that has let go of every recent request."""

    def recall(self, name):
        """Nothing."""
        del name
        return ()


@few
@given(policies, seeds, faults)
def test_neither_memory_nor_restart_changes_what_is_sent(policy, seed, wrong):
    """Without the memory of recent requests, and with a ledger read anew from its store each time, the same bytes
    come out [laws 1 and 10]."""
    one, two = World(policy), World(policy, ledger=Forgetful())
    store = MemoryStore()
    three = World(policy, ledger=Ledger(store), between=lambda _: Ledger(store))
    for world in (one, two, three):
        play(world, seed, wrong)
    told(one)
    outs = [[sent.made.body for sent in world.sent] for world in (one, two, three)]
    assert outs[0] == outs[1]
    assert outs[0] == outs[2]
