"""Policy, version, model and upstream change while a conversation lives."""

import pytest

from proxy.policy import load_policy
from proxy.stages import answers, normalize, relocate, stale
from tests.sessions.transcript import (
    BOTH,
    CHECKED,
    EAGER,
    PLAIN,
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


@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("after", ["transparent", "frugal"])
def test_a_policy_reloaded_in_mid_session(model, after):
    """A living conversation keeps the policy it began with; one that begins now takes the new one."""
    world = World("careful")
    t = Transcript(world, model, system=dated(MON))
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    t.clock(5).results({"pump": "3 l/min"}).user("Stop.").model("Stopped.").send()
    world.policies = load_policy(after)
    t.system = dated(TUE)
    for _ in range(2):
        sent = t.clock(5).user("Go on.").model("Going on.").send()
        assert sent.broke is None
        assert sent.rewrite.policy.name == "careful"
        assert MON in str(sent.body["system"])
    fresh = Transcript(world, model, system=dated(TUE))
    sent = fresh.user("Good morning.").model("Good morning.").send()
    assert sent.rewrite.policy.name == after


def test_a_reloaded_policy_takes_over_where_nothing_is_bound_any_more():
    """Without thinking and with a cold cache there is nothing to lose."""
    world = World("transparent")
    t = Transcript(world, PLAIN, system=dated(MON), thinking=False)
    t.user("Check the pump.").model(read("pump")).send()
    t.clock(5).results({"pump": "3 l/min"}).model("Fine.").send()
    world.policies = load_policy("careful")
    assert t.clock(5).user("Go on.").model("Yes.").send().rewrite.policy.name == "transparent"
    taken = t.clock(400).user("Go on.").model("Yes.").send()
    assert taken.rewrite.policy.name == "careful"
    t.system = dated(TUE)
    assert t.clock(5).user("Go on.").model("Yes.").send().broke is None
    assert MON in str(t.sent[-1].body["system"])


@pytest.mark.parametrize("model", BOTH)
def test_an_upgrade_that_words_its_placeholders_otherwise(model, monkeypatch, tmp_path):
    """What was sent is stored as it was sent: old places keep the old words, new ones get the new."""
    t = Transcript(World(policy_file(tmp_path, EAGER)), model, system=dated(MON))
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    t.clock(5).results({"pump": long("pump ok"), "fan": long("fan ok")}).model(read("lamp")).send()
    t.system = dated(TUE)
    t.clock(5).user("Stop.").model("Stopped.").send()
    t.clock(400).user("And now?").model(read("door")).send()
    before = t.sent[-1]
    assert t.result("pump").startswith("[Note on") and t.result("lamp").startswith("No result")
    monkeypatch.setattr(answers, "MISSING", "Lost.")
    monkeypatch.setattr(stale, "PLACEHOLDER", "[cleared: {tool}{argument}, {size}]")
    monkeypatch.setattr(relocate, "LINE", "{name}={value}")
    monkeypatch.setattr(normalize, "BLANK", "(nothing)")
    after = t.clock(5).user("Stop.").model("Stopped.").send()
    assert after.broke is None
    for ident in ("pump", "fan", "lamp"):
        assert t.result(ident) == t.result(ident, before)
    assert t.result("door") == "Lost."
    assert "date is now: 2025-12-02" in texts(after.body)
    t.system = dated(MON)
    assert t.clock(5).user("Go on.").model("Yes.").send().broke is None
    assert "date=2025-12-01" in texts(t.sent[-1].body)


@pytest.mark.parametrize(("model", "other"), [(PLAIN, "claude-haiku-4-5"), (CHECKED, "claude-sonnet-5-5")])
def test_another_model_for_a_while(model, other):
    """The placeholders and the frozen date hold on every model: the first one's cache is whole when it returns."""
    t = Transcript(World("careful"), model, system=dated(MON))
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    t.clock(5).results({"pump": long("pump ok")}).user("Stop.").model("Stopped.").send()
    t.system = dated(TUE)
    t.model_name = other
    assert t.clock(5).user("Quickly!").model("Quick.").send().broke is None
    assert t.clock(5).user("Quicker!").model("Quicker.").send().broke is None
    t.model_name = model
    back = t.clock(5).user("Now think.").model("Thinking.").send()
    assert back.broke is None
    assert back.cached > 1000


@pytest.mark.parametrize("model", BOTH)
def test_another_upstream_for_a_while(model):
    """The same conversation at another service: what was promised holds there too, and here again afterwards."""
    t = Transcript(World("careful"), model, system=dated(MON))
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    t.clock(5).results({"pump": long("pump ok")}).user("Stop.").model("Stopped.").send()
    t.upstream = "vertex"
    t.system = dated(TUE)
    there = t.clock(5).user("Go on.").model("Yes.").send()
    assert (there.broke, there.cached) == (None, 0)
    again = t.clock(5).user("Go on.").model("Yes.").send()
    assert again.broke is None and again.cached >= there.exchange.total - 100
    t.upstream = "anthropic"
    back = t.clock(5).user("Go on.").model("Yes.").send()
    assert back.broke is None and back.cached > 1000


def test_from_a_plain_model_to_one_that_checks():
    """A batch on the plain model leaves thinking alone; the model that checks finds nothing bound to what is gone."""
    t = Transcript(World("careful"), PLAIN)
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    t.clock(5).results({"pump": "3 l/min"}).user("Stop.").model("Stopped.").send()
    t.model_name = CHECKED
    for words in ("Think.", "Think more."):
        assert t.clock(5).user(words).model("Thought.").send().broke is None


@pytest.mark.parametrize("model", [PLAIN, "claude-opus-5", "claude-opus-4-8"])
@pytest.mark.parametrize("then", ["a person speaks", "tools return"])
def test_a_batch_on_a_plain_model_and_then_one_that_checks(model, then, tmp_path):
    """The thinking that stood behind what was cleared leaves with the first request to the model that would miss it."""
    t = Transcript(World(policy_file(tmp_path, EAGER)), model)
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    t.clock(5).results({"pump": long("pump ok"), "fan": long("fan ok")}).model(read("lamp")).send()
    t.clock(5).results({"lamp": long("lamp ok", 900)}).model("All is well.").send()
    t.clock(400).user("And now?").model("Still well.").send()
    assert t.result("pump").startswith("[Note on")
    t.clock(5).user("The door too.").model(read("door")).send()
    t.model_name = CHECKED
    t.clock(5).results({"door": "closed"})
    if then == "a person speaks":
        t.user("Think about it.")
    switched = t.model(read("vent")).send()
    assert "bound to a prefix that a batch changed" in switched.reasons("reasoning")
    assert t.result("pump").startswith("[Note on")
    assert t.clock(5).results({"vent": "open"}).model("Well.").send().broke is None
    t.model_name = model
    assert t.clock(5).user("Go on.").model("Yes.").send().broke is None
    t.model_name = CHECKED
    assert t.clock(5).user("Go on.").model("Yes.").send().broke is None
