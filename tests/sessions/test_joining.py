"""The proxy comes late, looks on first, forgets everything, or has two requests in the air."""

import pytest

from proxy.ledger import Ledger
from tests.sessions.transcript import (
    BOTH,
    CHECKED,
    EAGER,
    Canned,
    Transcript,
    World,
    long,
    policy_file,
    read,
    texts,
)

LOST = "No result: the tool call was interrupted before it returned."
MON, TUE = "2025-12-01", "2025-12-02"


def reminder(day):
    return f"<system-reminder>\nToday's date is {day}.\n</system-reminder>"


@pytest.mark.parametrize("model", BOTH)
def test_first_seen_at_turn_twenty(model):
    """What the provider has seen before us it has seen raw: nothing in it is touched, the date in it is frozen."""
    t = Transcript(World(), model, agent="claude-code")
    t.user(reminder(MON), "Check everything.").model(read("f0")).past()
    for number in range(19):
        t.clock(5).results({f"f{number}": long(f"file {number}", 800)}).model(read(f"f{number + 1}")).past()
    first = t.clock(5).results({"f19": "end"}).model("All is well.").send()
    assert first.broke is None
    assert {edit.stage for edit in first.edits} <= {"breakpoints"}
    t.messages[0]["content"][0]["text"] = reminder(TUE)
    told = t.clock(5).user("And now?").model("Still well.").send()
    assert told.broke is None
    assert MON in texts(told.body) and texts(told.body).count(f"date is now: {TUE}") == 1
    # The older model's provider drops thinking of rounds that are over, and with it what was cached behind it [A47].
    assert told.cached >= (first.exchange.total - 100 if model == CHECKED else 1000)


@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("turn", [1, 2, 5])
def test_looking_on_first_and_then_applying(model, turn, tmp_path):
    """Two ledgers: the one that applies first sees the conversation in its middle and takes it as it stands."""
    t = Transcript(World(policy_file(tmp_path, EAGER)), model, agent="claude-code")
    watching = Ledger()
    t.user(reminder(MON), "Check everything.").model(read("f0")).observe(watching)
    for number in range(turn):
        t.clock(5).results({f"f{number}": long(f"file {number}", 800)}).model(read(f"f{number + 1}"))
        seen = t.observe(watching)
        assert seen.broke is None
    applied = t.clock(5).results({f"f{turn}": "end"}).model("All is well.").send()
    assert applied.broke is None or applied.committed
    t.messages[0]["content"][0]["text"] = reminder(TUE)
    for words in ("And now?", "And now?", "And now?"):
        sent = t.clock(5).user(words).model("Well.").send()
        assert MON in texts(sent.body)
        assert texts(sent.body).count(f"date is now: {TUE}") == 1


@pytest.mark.parametrize("model", BOTH)
def test_two_in_flight_and_the_first_refused(model):
    """What the refused request promised stands as long as the other carries it."""
    world = World()
    t = Transcript(world, model)
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    t.clock(5).results({"pump": "3 l/min"}).user("Stop.")
    one, two = t.fork(), t.fork().user("At once!")
    first, second = one.leave(), two.leave()
    world.provider.canned.append(Canned.error(529, "Overloaded"))
    assert one.arrive(first).status == 529
    assert two.model("Stopped.").arrive(second).error is None
    for client in (two, one, two, one):
        assert client.clock(5).user("Well?").model("Yes.").send().broke is None
        assert client.result("fan") == LOST


@pytest.mark.parametrize("model", BOTH)
def test_two_in_flight_and_the_last_refused(model):
    """A retry that is refused after the first one was answered takes nothing back."""
    world = World()
    t = Transcript(world, model)
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    t.clock(5).results({"pump": "3 l/min"}).user("Stop.")
    one, two = t.fork(), t.fork()
    first, second = one.leave(), two.leave()
    assert one.model("Stopped.").arrive(first).error is None
    world.provider.canned.append(Canned.error(529, "Overloaded"))
    assert two.arrive(second).status == 529
    for _ in range(2):
        assert one.clock(5).user("Well?").model("Yes.").send().broke is None
        assert one.result("fan") == LOST


@pytest.mark.parametrize("model", BOTH)
def test_both_refused(model):
    """Nobody carries what they promised any more: the turn comes again with its real result."""
    world = World()
    t = Transcript(world, model)
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    place = t.here()
    t.clock(5).results({"pump": "3 l/min"}).user("Stop.")
    one, two = t.fork(), t.fork()
    flights = one.leave(), two.leave()
    world.provider.canned += [Canned.error(529, "Overloaded"), Canned.error(529, "Overloaded")]
    assert (one.arrive(flights[0]).status, two.arrive(flights[1]).status) == (529, 529)
    t.rewind(place).clock(5).results({"pump": "3 l/min", "fan": "900 rpm"}).model("Well.").send()
    assert t.result("fan") == "900 rpm"


@pytest.mark.parametrize("model", BOTH)
def test_the_store_is_lost_and_nothing_had_been_changed(model):
    """A new ledger takes an unchanged conversation as it stands: not one token is written again."""
    t = Transcript(World(), model)
    t.user("Check everything.").model(read("f0")).send()
    for number in range(14):
        t.clock(5).results({f"f{number}": long(f"file {number}", 800)}).model(read(f"f{number + 1}")).send()
    t.world.ledger = Ledger()
    sent = t.clock(5).results({"f14": "end"}).model("All is well.").send()
    assert sent.broke is None
    assert sent.cached > 1000
    assert t.clock(5).user("Good.").model("Yes.").send().broke is None


def worked(t):
    """Ten turns in which the date changed, a result was lost, and old results were cleared."""
    t.user(reminder(MON), "Check everything.").model(read("f0"), read("g0")).send()
    t.clock(5).results({"f0": long("file 0")}).user("Stop.").model("Stopped.").send()
    t.messages[0]["content"][0]["text"] = reminder(TUE)
    for number in range(1, 5):
        t.clock(400).user(f"Step {number}.").model(read(f"f{number}")).send()
        t.clock(5).results({f"f{number}": long(f"file {number}")}).model("Done.").send()
    assert t.result("f1").startswith("[Note on") and t.result("g0") == LOST
    return t


@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("then", ["a person speaks", "tools return"])
def test_the_store_is_lost_at_turn_ten(model, then, tmp_path):
    """What was cleared and frozen is forgotten: one break, at most one refusal behind the scenes, and it goes on."""
    t = worked(Transcript(World(policy_file(tmp_path, EAGER)), model, agent="claude-code"))
    t.clock(5).user("One more.").model(read("f9")).send()
    t.world.ledger = Ledger()
    t.clock(5).results({"f9": long("file 9")})
    if then == "a person speaks":
        t.user("And what do you make of it?")
    sent = t.model("It is well.").arrive(t.leave())
    assert sent.error is None
    assert sent.fell_back is (model == CHECKED)
    for _ in range(3):
        after = t.clock(5).user("Go on.").model("Yes.").send()
        assert after.broke is None or after.named
    assert after.cached > 1000


def test_nothing_is_recovered_where_no_policy_is_at_work():
    """With all stages off no conversation was ever sent otherwise: a refusal is the client's own."""
    t = Transcript(World("transparent"), CHECKED)
    t.user("Check everything.").model(read("f0")).past()
    t.results({"f0": "ok"}).model("Well.").past()
    t.messages[0]["content"] = "Check nothing."
    t.user("Go on.")
    flight = t.leave()
    assert flight.rewrite.body is flight.client and flight.rewrite.fallback is flight.client
    assert "bound to a different conversation" in t.arrive(flight).error


def test_a_refused_chain_that_is_left_alone_is_not_left_stuck(tmp_path):
    """A batch at the first sight of a conversation we had forgotten is refused: from then on the client's own words go out."""
    t = worked(Transcript(World(policy_file(tmp_path, EAGER)), CHECKED, agent="claude-code"))
    t.world.ledger = Ledger()
    for number in range(3):
        t.messages[0]["content"][0]["text"] = reminder(f"2025-12-0{3 + number}")
        sent = t.clock(400).user("Go on.").model(read(f"h{number}")).arrive(t.leave())
        assert sent.error is None
        sent = t.clock(5).results({f"h{number}": "ok"}).model("Yes.").arrive(t.leave())
        assert sent.error is None


@pytest.mark.parametrize("model", BOTH)
def test_what_may_be_cached_of_a_conversation_met_in_mid_life_is_taken_to_be(model, tmp_path):
    """The client's own marks cached it a moment ago: a batch has to pay for breaking that, from the first turn on."""
    t = Transcript(World(policy_file(tmp_path, EAGER)), model, marks=True)
    t.user("Check everything.").model(read("f0")).past()
    t.clock(5).results({"f0": long("file 0", 800)}).model(read("f1")).past()
    t.clock(5).results({"f1": long("file 1", 20_000)}).model("Well.").past()
    first = t.clock(5).user("And now?").model("Well.").send()
    assert first.broke is None
    assert [held.breaks_tokens > 4000 for held in first.rewrite.held] == [True]
    assert first.cached > (4000 if model == CHECKED else 1000)


@pytest.mark.parametrize("model", BOTH)
def test_a_conversation_met_in_mid_life_that_nobody_marked(model, tmp_path):
    """Nothing of its turns is cached: the batch that costs nothing is made at once."""
    t = Transcript(World(policy_file(tmp_path, EAGER)), model)
    t.user("Check everything.").model(read("f0")).past()
    t.clock(5).results({"f0": long("file 0", 4000)}).model(read("f1")).past()
    t.clock(5).results({"f1": long("file 1", 20_000)}).model("Well.").past()
    first = t.clock(5).user("And now?").model("Well.").send()
    assert first.named == "a batch"
    assert t.clock(5).user("And now?").model("Well.").send().broke is None


@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("session", ["", "one"])
def test_two_that_begin_alike_at_the_same_time(model, session):
    """Sub-agents are given the same words in one session: what one of them lost is not missing in the other."""
    world = World()
    one, two = (Transcript(world, model, session=session).user("Explore.") for _ in range(2))
    flights = one.leave(), two.leave()
    one.model(read("a1")).arrive(flights[0])
    two.model(read("b1")).arrive(flights[1])
    for number in (1, 2):
        assert one.clock(5).user("Stop.").model("Stopped.").send().broke is None
        assert two.clock(5).results({f"b{number}": "ok"}).model("Seen.").send().broke is None
        assert one.clock(5).user("Go on.").model(read(f"a{number + 1}")).send().broke is None
        assert two.clock(5).user("Go on.").model(read(f"b{number + 1}")).send().broke is None
    assert (one.result("a1"), one.result("a2")) == (LOST, LOST)
    assert (two.result("b1"), two.result("b2")) == ("ok", "ok")
