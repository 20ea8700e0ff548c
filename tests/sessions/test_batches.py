"""Old results are cleared in batches; histories that part before a batch are not bound by it."""

import pytest

from tests.sessions.transcript import BOTH, CHECKED, EAGER, Transcript, World, long, policy_file, read

NOTE = "[Note on this conversation"


DATED = ("claude-sonnet-4-5-20250929", "claude-opus-5-5-20260601")
"""As clients spell them: facts are found for the name without its date, what was sent is remembered by the whole."""


@pytest.fixture(params=[*BOTH, *DATED])
def session(request, tmp_path):
    """A pump and a fan were read, then a lamp; after a pause the first two results are cleared."""
    t = Transcript(World(policy_file(tmp_path, EAGER)), request.param)
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    t.clock(5).results({"pump": long("pump ok"), "fan": long("fan ok")}).model(read("lamp")).send()
    return t


def cleared(t):
    return {ident for ident in ("pump", "fan", "lamp") if str(t.result(ident)).startswith(NOTE)}


def test_a_batch_is_named_and_then_stands_for_good(session):
    """The turn that clears says so in its edits; all turns after it go on from what that turn sent."""
    t = session
    t.clock(5).results({"lamp": long("lamp ok")}).model("All is well.").send()
    batch = t.clock(400).user("And now?").model("Still well.").send()
    assert cleared(t) == {"pump", "fan"}
    assert {edit.stage for edit in batch.committed} <= {"stale", "reasoning"}
    assert all(edit.reason for edit in batch.committed)
    for words in ("Good.", "Thanks.", "Bye."):
        later = t.clock(5).user(words).model("Yes.").send()
        assert later.broke is None
        assert cleared(t) == {"pump", "fan"}
        assert later.cached > 0


def test_a_rewind_to_before_the_batch_brings_the_results_back(session):
    """The batch was decided behind an answer that is no longer in the history: it does not hold."""
    t = session
    place = t.here() - 1
    t.clock(5).results({"lamp": long("lamp ok")}).model("All is well.").send()
    t.clock(400).user("And now?").model("Still well.").send()
    assert cleared(t) == {"pump", "fan"}
    back = t.clock(5).rewind(place).user("Only the pump, please.").model("The pump is fine.").send()
    assert cleared(t) == set()
    assert back.committed == ()
    assert back.named.startswith("client: ")
    assert t.clock(5).user("Thank you.").model("Welcome.").send().broke is None


def test_a_rewind_to_behind_the_batch_keeps_it(session):
    """The answer that the batch stands behind is still there: so is the batch, byte for byte."""
    t = session
    t.clock(5).results({"lamp": long("lamp ok")}).model("All is well.").send()
    place = t.here()
    first = t.clock(400).user("And now?").model("Still well.").send()
    other = t.clock(5).rewind(place).user("Something else.").model("Gladly.").send()
    assert cleared(t) == {"pump", "fan"}
    assert without_marks(other.body["messages"][:place]) == without_marks(first.body["messages"][:place])
    assert other.cached > 2000


def without_marks(messages):
    """What messages say: marks are no part of the prompt, and a string is one text block."""
    made = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        made.append(
            message | {"content": [{k: v for k, v in b.items() if k != "cache_control"} for b in blocks]}
        )
    return made


def test_a_fork_from_before_the_batch_is_not_bound_by_it(session):
    """Two clients go on from one history: one clears, the other keeps, and neither disturbs the other."""
    t = session
    other = t.fork(t.here() - 1)
    t.clock(5).results({"lamp": long("lamp ok")}).model("All is well.").send()
    t.clock(400).user("And now?").model("Still well.").send()
    other.clock(1).user("Never mind the lamp.").model("Good.").send()
    assert (cleared(t), cleared(other)) == ({"pump", "fan"}, set())
    for words in ("Go on.", "And then?"):
        assert t.clock(5).user(words).model("Yes.").send().broke is None
        assert other.clock(5).user(words).model("No.").send().broke is None
    assert (cleared(t), cleared(other)) == ({"pump", "fan"}, set())


def test_a_fork_from_behind_the_batch_shares_it(session):
    """The answer that the batch stands behind is in both histories: both send the same bytes up to there."""
    t = session
    t.clock(5).results({"lamp": long("lamp ok")}).model("All is well.").send()
    other = t.fork()
    t.clock(400).user("And now?").model("Still well.").send()
    sent = other.clock(5).user("And the door?").model("Closed.").send()
    assert cleared(other) == cleared(t) == {"pump", "fan"}
    assert sent.cached > 1000
    assert other.clock(5).user("Good.").model("Yes.").send().broke is None


def test_one_batch_after_another(session):
    """Each batch is committed once, each break has its name, and what was cleared stays cleared the same way."""
    t = session
    t.clock(5).results({"lamp": long("lamp ok")}).model("All is well.").send()
    seen = {}
    for number in range(4):
        t.clock(400).user(f"Door {number}?").model(read(f"door{number}")).send()
        t.clock(5).results({f"door{number}": long(f"door {number}")}).model("Closed.").send()
        for ident in ("pump", "fan", "lamp", *(f"door{n}" for n in range(number))):
            said = t.result(ident)
            if said.startswith(NOTE):
                assert seen.setdefault(ident, said) == said
    assert set(seen) >= {"pump", "fan", "lamp", "door0"}
    assert {sent.named for sent in t.sent if sent.broke} == {"a batch"}


def test_no_batch_in_the_middle_of_a_task_where_thinking_is_bound(tmp_path):
    """On a model that checks the prefix a batch waits for a person, and says that it waits."""
    t = Transcript(World(policy_file(tmp_path, EAGER)), CHECKED)
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    t.clock(400).results({"pump": long("pump ok"), "fan": long("fan ok")}).model(read("lamp")).send()
    waiting = t.clock(400).results({"lamp": long("lamp ok")}).model(read("door")).send()
    assert cleared(t) == set()
    assert waiting.broke is None
    assert "waits for a message of a person" in waiting.rewrite.held[0].reason
    t.clock(400).results({"door": long("closed")}).user("Well?").model("All is well.").send()
    assert cleared(t) == {"pump", "fan", "lamp"}
    answers = [m["content"] for m in t.sent[-1].body["messages"] if m["role"] == "assistant"]
    assert [block["type"] for answer in answers for block in answer] == [
        *("thinking", "tool_use", "tool_use"),  # made before anything that is cleared
        *("tool_use", "tool_use"),
    ]


@pytest.mark.parametrize("model", [*BOTH, *DATED])
def test_a_batch_that_does_not_pay_is_held(model, tmp_path):
    """A small early result in front of much that is cached: it stays, and we say what it would have cost."""
    t = Transcript(World(policy_file(tmp_path, EAGER)), model)
    t.user("Check everything.").model(read("pump")).send()
    t.clock(5).results({"pump": long("pump ok", 900)}).model(read("plan")).send()
    t.clock(5).results({"plan": long("plan", 40_000)}).model("Read.").send()
    sent = t.clock(5).user("And now?").model("Well.").send()
    assert sent.broke is None
    (held,) = sent.rewrite.held
    assert held.breaks_tokens > 8000 > held.saves_tokens


@pytest.mark.parametrize("model", BOTH)
def test_a_person_who_tries_again_and_again(model, tmp_path):
    """Each try is a branch of its own, with batches of its own; each goes on as it began."""
    t = Transcript(World(policy_file(tmp_path, EAGER)), model)
    t.user("Check everything.").model(read("pump"), read("fan")).send()
    place = t.here()
    for number in range(4):
        t.rewind(place).clock(400).results({"pump": long("pump ok")}).user(f"Try {number}.").model(
            "Ok."
        ).send()
        t.clock(5).user("Go on.").model(read("lamp")).send()
        t.clock(5).results({"lamp": long("lamp ok")}).model("Ok.").send()
        for _ in range(2):
            assert t.clock(5).user("Go on.").model("Ok.").send().broke in (None, "messages.2.content.0")
        assert t.clock(5).user("Go on.").model("Ok.").send().broke is None
        assert t.result("fan").startswith("No result")
