"""Results that are lost, come late, or come in another branch of the conversation."""

import pytest

from tests.sessions.transcript import BOTH, Transcript, World, read, texts

LOST = "No result: the tool call was interrupted before it returned."


@pytest.fixture(params=BOTH)
def session(request):
    """The model asked for the pump and the fan."""
    t = Transcript(World(), request.param)
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    return t


def test_a_fork_brings_the_real_result(session):
    """A placeholder is promised to the turn that lacked the result: where the result came in time it is not there."""
    t, other = session, session.fork()
    filled = t.clock(5).results({"pump": "3 l/min"}).user("Stop.").model("Stopped.").send()
    assert (t.result("pump"), t.result("fan")) == ("3 l/min", LOST)
    assert filled.reasons("balance") == ["call without a result [A20 F1]"]
    real = other.clock(5).results({"pump": "3 l/min", "fan": "900 rpm"}).model("All is well.").send()
    assert (other.result("fan"), real.reasons("balance")) == ("900 rpm", [])
    for client in (t, other, t):
        assert client.clock(5).user("Go on.").model("Going on.").send().broke is None
    assert (t.result("fan"), other.result("fan")) == (LOST, "900 rpm")


def test_a_retry_of_the_same_turn_brings_the_real_result(session):
    """The client gives up a turn that lacked a result and sends it again with it."""
    t = session
    place = t.here()
    t.clock(5).results({"pump": "3 l/min"}).user("Stop.").model("Stopped.").send()
    t.clock(5).rewind(place).results({"pump": "3 l/min", "fan": "900 rpm"}).model("All is well.").send()
    assert t.result("fan") == "900 rpm"
    assert t.clock(5).user("Good.").model("Yes.").send().broke is None


@pytest.mark.parametrize("later", ["alone", "before the words", "behind the words"])
def test_a_late_result_stays_where_it_stands_as_text(session, later):
    """Its slot was sent filled, and what was sent stands: so the late result becomes labelled text."""
    t = session
    t.clock(5).results({"pump": "3 l/min"}).user("Stop.").model("Stopped.").send()
    if later == "behind the words":
        t.user("The fan is back.")
    t.results({"fan": "900 rpm"})
    if later == "before the words":
        t.user("The fan is back.")
    late = t.clock(5).model("I see.").send()
    assert late.broke is None
    assert t.result("fan") == LOST
    assert "[Result of the earlier tool call read (fan), which arrived late]\n900 rpm" in texts(late.body)
    assert t.clock(5).user("Go on.").model("Going on.").send().broke is None
    assert "900 rpm" in texts(t.sent[-1].body)


def test_all_results_lost_and_all_of_them_late(session):
    """The person interrupts before anything returns; both results come with the next message."""
    t = session
    t.clock(5).user("Stop.").model("Stopped.").send()
    assert (t.result("pump"), t.result("fan")) == (LOST, LOST)
    late = t.clock(5).results({"fan": "900 rpm", "pump": "3 l/min"}).model("I see.").send()
    assert late.broke is None
    assert "900 rpm" in texts(late.body) and "3 l/min" in texts(late.body)
    assert t.clock(5).user("Go on.").model(read("lamp")).send().broke is None
    assert t.clock(5).results({"lamp": "on"}).model("Fine.").send().broke is None


def test_interrupted_again_and_again(session):
    """A placeholder for each lost result; none of them moves when the next one is needed."""
    t = session
    t.clock(5).user("Stop.").model(read("lamp"), read("door")).send()
    t.clock(5).results({"door": "shut"}).user("Stop that too.").model(read("vent")).send()
    t.clock(5).user("And that.").model("Stopped for good.").send()
    assert t.clock(5).user("Fine.").model("Yes.").send().broke is None
    lost = [ident for ident in ("pump", "fan", "lamp", "door", "vent") if t.result(ident) == LOST]
    assert lost == ["pump", "fan", "lamp", "vent"]
    assert all(sent.broke is None for sent in t.sent)


def test_a_refused_turn_leaves_no_placeholder_behind(session):
    """The provider was overloaded when the turn without a result came: it comes again whole."""
    t = session
    place = t.here()
    failed = t.clock(5).results({"pump": "3 l/min"}).user("Stop.").fails()
    assert failed.status == 529
    t.rewind(place).clock(5).results({"pump": "3 l/min", "fan": "900 rpm"}).model("All is well.").send()
    assert t.result("fan") == "900 rpm"
    assert t.clock(5).user("Good.").model("Yes.").send().broke is None
