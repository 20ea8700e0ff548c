"""How much is sent: counted before it is, and never cleared where something still points at it."""

import pytest

from tests.cases.bodies import (
    Proxy,
    assistant,
    body,
    bytes_of,
    call,
    case,
    complaint,
    result,
    sent,
    turns,
    user,
)

EAGER = "extends: careful\nstale: {keep: 1, min_bytes: 512, min_batch_bytes: 0}\n"
NOTE = "[Note on this conversation: the output of an earlier read_file call"
PUMP, FAN = "speed = 3\n" * 200, "rpm = 9\n" * 200
STUBS = [
    "File unchanged since your last read; refer to that result.",
    "<system-reminder>File unchanged since last read. The content from the earlier Read tool_result in this "
    "conversation is still current - refer to that instead of re-reading.</system-reminder>",
    "This file has already been read and is UNCHANGED.",
]


@pytest.fixture
def eager(tmp_path):
    """A policy that clears all but the newest result of a tool as soon as it can."""
    (tmp_path / "eager.yaml").write_text(EAGER)
    return Proxy(tmp_path / "eager.yaml")


def reads(*found):
    """Files read one after the other: (id, path, what it said)."""
    for ident, path, said in found:
        yield assistant(call(ident, path=path))
        yield user(result(ident, said))


def said(made):
    return {
        block["tool_use_id"]: block["content"]
        for message in sent(made)["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    }


# -- counting ----------------------------------------------------------------------------------------------


@case("B41")
@pytest.mark.parametrize("kind", ["nothing to do", "a batch is due", "a repair", "a marked prompt"])
def test_a_count_is_of_what_would_be_sent_and_changes_nothing(kind, eager, tmp_path):
    """The same body counted and sent leaves as the same bytes, and a later one as if nobody had counted."""
    more = {
        "nothing to do": [assistant("Fine."), user("Go on.")],
        "a batch is due": [
            *reads(("A", "pump.py", PUMP), ("B", "fan.py", FAN), ("C", "lamp.py", "on\n" * 400))
        ],
        "a repair": [assistant(call("B"), call("C")), user(result("B"))],
        "a marked prompt": [assistant("Fine."), user("Go on." * 2000)],
    }[kind]
    request = body(user("Read."), *more)
    longer = turns(request, assistant("Fine."), user("And now?"))
    uncounted = Proxy(tmp_path / "eager.yaml")
    plain = [uncounted.send(each, wait=0).body for each in (request, longer)]
    for each, expected in zip((request, longer), plain, strict=True):
        assert [eager.rewrite(each).body for _ in range(2)] == [expected, expected]
        assert eager.send(each, wait=0).body == expected
    assert (plain[0] != bytes_of(request)) is (kind != "nothing to do")


# -- what a later result points at -------------------------------------------------------------------------


@case("B43")
@pytest.mark.parametrize("stub", STUBS)
@pytest.mark.parametrize("between", [1, 3])
@pytest.mark.parametrize("spelling", ["string", "blocks"])
def test_a_read_that_a_stub_points_at_is_not_cleared(stub, between, spelling, eager):
    """The stub alone would send the model round in a circle: what it means stays; others go."""
    found = stub if spelling == "string" else [{"type": "text", "text": stub}]
    others = [(f"B{at}", f"fan{at}.py", FAN) for at in range(between)]
    request = body(user("Check."), *reads(("A", "pump.py", PUMP), *others, ("D", "pump.py", found)))
    for _ in range(3):
        made = eager.send(request, wait=400)
        kept = said(made)
        assert kept["A"] == PUMP
        assert kept["D"] == found
        assert complaint(made.body) is None
        request = turns(request, assistant("Fine."), user("Go on."))
    assert any(str(kept[ident]).startswith(NOTE) for ident, _, _ in others)


@case("B43")
@pytest.mark.parametrize("stub", STUBS)
def test_a_stub_that_comes_too_late_is_given_its_content(stub, eager):
    """The read was cleared before the client, which does not know it, pointed at it."""
    request = body(
        user("Check."), *reads(("A", "pump.py", PUMP), ("B", "fan.py", FAN), ("C", "lamp.py", FAN))
    )
    request = turns(request, assistant("Fine."), user("Go on."))
    assert said(eager.send(request, wait=400))["A"].startswith(NOTE)
    request = turns(request, *reads(("D", "pump.py", stub)))
    made = eager.send(request)
    kept = said(made)
    assert kept["A"].startswith(NOTE)
    assert kept["D"] == PUMP
    assert complaint(made.body) is None
    for _ in range(2):
        request = turns(request, assistant("Fine."), user("Go on."))
        kept = said(eager.send(request))
        assert kept["D"] == PUMP
