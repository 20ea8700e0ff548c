"""Dates and other values that change: frozen where they stand, told at the tail, and no other session's."""

import pytest

from tests.sessions.transcript import BOTH, DAY, SYSTEM, Transcript, World, read, texts

MON, TUE, WED = "2025-12-01", "2025-12-02", "2025-12-03"


def dated(day):
    return f"{SYSTEM}\nToday's date: {day}\n"


def reminder(day):
    return f"<system-reminder>\nToday's date is {day}.\n</system-reminder>"


def says(sent, day):
    return day in sent.rewrite.body.decode()


@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("agent", ["", "claude-code"])
@pytest.mark.parametrize("named", [False, True])
def test_the_same_first_prompt_on_two_days(model, agent, named):
    """A nightly job begins with the same words: yesterday's date does not come back, today's is frozen."""
    world = World()

    def job(day, number):
        name = f"session-{number}" if named else ""
        t = Transcript(world, model, agent=agent, session=name, system=SYSTEM if agent else dated(day))
        opening = (reminder(day), "Water the plants.") if agent else ("Water the plants.",)
        return t.user(*opening).model(read(f"plan{number}", "plan.py"))

    monday = job(MON, 1)
    assert says(monday.send(), MON)
    monday.clock(5).results({"plan1": "two litres"}).model("Watered.").send()
    world.now += DAY
    tuesday = job(TUE, 2)
    first = tuesday.send()
    assert says(first, TUE) and not says(first, MON)
    assert first.edits == () or {edit.stage for edit in first.edits} == {"breakpoints"}
    second = tuesday.clock(5).results({"plan2": "one litre"}).model("Watered.").send()
    assert not says(second, MON)
    assert second.broke is None
    # Both go on, by turns, on the third day: each keeps its own date and is told the new one once.
    world.now += DAY
    for t, own, other in ((monday, MON, TUE), (tuesday, TUE, MON), (monday, MON, TUE)):
        if agent:
            t.messages[0]["content"][0]["text"] = reminder(WED)
        else:
            t.system = dated(WED)
        sent = t.clock(60).user("And the lamp?").model("The lamp is on.").send()
        assert sent.broke is None
        assert says(sent, own) and not says(sent, other)
        assert texts(sent.body).count(f"date is now: {WED}") == 1


@pytest.mark.parametrize("model", BOTH)
def test_midnight_in_the_middle_of_a_task(model):
    """The changed date is told behind the results of the round it came in, and stays there."""
    t = Transcript(World(), model, system=dated(MON))
    t.user("Check everything.").model(read("pump")).send()
    t.system = dated(TUE)
    told = t.clock(60).results({"pump": "3 l/min"}).model(read("fan")).send()
    assert told.broke is None
    assert [block["type"] for block in told.body["messages"][2]["content"]] == ["tool_result", "text"]
    again = t.clock(60).results({"fan": "900 rpm"}).model("All is well.").send()
    assert again.broke is None
    assert texts(again.body).count("date is now") == 1
    assert again.cached >= told.exchange.total - 100


@pytest.mark.parametrize("model", BOTH)
def test_the_date_goes_back_and_forth(model):
    """A client that renders its date in two time zones: each change is told, no prefix breaks."""
    t = Transcript(World(), model, system=dated(MON))
    for day in (MON, TUE, MON, MON, TUE):
        t.system = dated(day)
        assert t.clock(60).user(f"It is {day[-2:]}?").model("Yes.").send().broke is None
    told = [line for line in texts(t.sent[-1].body).splitlines() if line.startswith("date is now")]
    assert [line[13:23] for line in told] == [TUE, MON, TUE]


@pytest.mark.parametrize("model", BOTH)
def test_a_refused_first_turn_freezes_nothing(model):
    """The provider took nothing on Monday: the same words on Tuesday carry Tuesday's date."""
    t = Transcript(World(), model, system=dated(MON))
    assert t.user("Water the plants.").fails().status == 529
    t.system = dated(TUE)
    sent = t.clock(DAY).model("Watered.").send()
    assert says(sent, TUE) and not says(sent, MON)
