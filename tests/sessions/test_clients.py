"""What clients do to their own history: strip, compact, clear. The break is theirs, and the rest holds."""

import pytest

from tests.sessions.transcript import (
    BOTH,
    CHECKED,
    EAGER,
    SYSTEM,
    Transcript,
    World,
    long,
    policy_file,
    read,
    texts,
)

MON, TUE = "2025-12-01", "2025-12-02"


def dated(day):
    return f"{SYSTEM}\nToday's date: {day}\n"


@pytest.fixture(params=BOTH)
def session(request, tmp_path):
    """Three files were read; the date changed and was told; one result is missing."""
    t = Transcript(World(policy_file(tmp_path, EAGER)), request.param, system=dated(MON))
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    t.clock(5).results({"pump": long("pump ok"), "fan": long("fan ok")}).model(
        read("lamp"), read("door")
    ).send()
    t.system = dated(TUE)
    t.clock(5).results({"lamp": long("lamp ok")}).user("Stop.").model("Stopped.").send()
    return t


def test_a_client_that_strips_thinking(session):
    """Nothing that was promised is lost with the thinking that stood between."""
    t = session
    before = {ident: t.result(ident) for ident in ("pump", "fan", "lamp", "door")}
    stripped = t.strips_thinking().clock(5).user("Go on.").model("Yes.").send()
    assert stripped.broke is None or stripped.named
    assert {ident: t.result(ident) for ident in before} == before or stripped.committed
    assert texts(stripped.body).count(f"date is now: {TUE}") == 1
    for _ in range(2):
        later = t.strips_thinking().clock(5).user("Go on.").model("Yes.").send()
        assert texts(later.body).count(f"date is now: {TUE}") == 1


def test_a_client_that_strips_thinking_behind_a_batch(session):
    """The cleared results stay cleared."""
    t = session
    t.clock(400).user("And now?").model("Well.").send()
    assert t.result("pump").startswith("[Note on")
    before = t.result("pump")
    t.strips_thinking().clock(5).user("Go on.").model("Yes.").send()
    assert t.result("pump") == before
    assert t.clock(5).user("Go on.").model("Yes.").send().broke is None


def test_a_client_that_compacts(session):
    """A summary is another conversation: nothing of the old one comes along, the date is today's."""
    t = session
    after = t.compacts("Summary: the pump and the fan are fine. Go on with the lamp.").clock(5)
    sent = after.model(read("lamp2", "lamp.py")).send()
    assert sent.named.startswith("client: ")
    assert TUE in str(sent.body["system"]) and "date is now" not in texts(sent.body)
    assert t.clock(5).results({"lamp2": "on"}).model("Done.").send().broke is None


def test_a_client_that_compacts_and_keeps_its_tail(session):
    """Its newest messages stand behind the summary, one of them a result whose call is gone."""
    t = session
    kept = t.messages[-2:]
    t.compacts("Summary: the pump and the fan are fine.").messages.append(
        {"role": "assistant", "content": "Understood."}
    )
    t.messages += kept
    t.strips_thinking()
    sent = t.clock(5).user("Go on.").model("Yes.").send()
    assert sent.named.startswith("client: ")
    assert "lamp ok" in texts(sent.body)
    assert t.clock(5).user("Go on.").model("Yes.").send().broke is None


def test_a_client_that_clears_old_results(session):
    """Its own words stand in its own place; our placeholder for the lost result stays."""
    t = session
    t.clears("pump", "fan")
    if t.model_name == CHECKED:
        t.strips_thinking()
    sent = t.clock(5).user("Go on.").model("Yes.").send()
    assert sent.named.startswith("client: ")
    assert (t.result("pump"), t.result("fan")) == ("[old result]", "[old result]")
    assert t.result("door").startswith("No result")
    assert t.clock(5).user("Go on.").model("Yes.").send().broke is None


def test_a_client_that_clears_what_we_cleared(session):
    """Its words stand where ours stood: it broke the prefix itself, and may say what it likes there."""
    t = session
    t.clock(400).user("And now?").model("Well.").send()
    assert t.result("pump").startswith("[Note on")
    t.clears("pump", "fan")
    if t.model_name == CHECKED:
        t.strips_thinking()
    t.clock(5).user("Go on.").model("Yes.").send()
    assert t.result("pump") == "[old result]"
    assert t.clock(5).user("Go on.").model("Yes.").send().broke is None
