"""How much is sent: counted before it is, and never cleared where something still points at it."""

import pytest

from tests.cases.bodies import (
    READ,
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


# -- the end of the window -----------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    """A proxy with a policy of so many words before a model with a window of so many tokens."""

    def made(policy, window):
        (tmp_path / "small.yaml").write_text(policy)
        return Proxy(tmp_path / "small.yaml", window=window)

    return made


def texts(message):
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [block["text"] for block in blocks if block["type"] == "text"]


@case("B35")
def test_tools_and_system_above_the_mark_are_said_once_and_nothing_is_done(small):
    """It can never help: the request leaves as it came, and what was held names both sizes, in each turn alike."""
    proxy = small("extends: careful\nbreakpoints: off\ncompact: {high_water: 0.5}\n", 8_000)
    talk = [user("Hello."), assistant("Hello."), user("Go on.")]
    for _ in range(2):
        asked = body(*talk, system="rule. " * 6000)
        made = proxy.send(asked)
        assert bytes_of(asked) == made.body
        [held] = made.held
        assert "is above the mark of 4000" in held.reason
        assert "have to stay" in held.reason
        talk += [assistant("Done."), user("And now?")]


@case("B39")
def test_after_a_compaction_the_goal_stands_and_what_is_done_is_not_open(small):
    """First and last words of the person are whole, and of two lists of tasks the newest is told."""
    proxy = small("extends: careful\ncompact: {high_water: 0.5, target: 0.3}\n", 2_400)
    todo = {"name": "todo", "description": "Write the list.", "input_schema": {"type": "object"}}
    talk = [
        user("Goal: quiet fan in bay 3. Never touch bay 1."),
        assistant(call("t1", "todo", op="write")),
        user(result("t1", "pump: open; fan: open")),
        assistant(call("t2", path="src/pump.py")),
        user(result("t2", "x = 1\n" * 900)),
        assistant(call("t3", "todo", op="write")),
        user(result("t3", "pump: done; fan: open")),
        assistant("Pump is done."),
        user("Good. Go on with the fan only."),
    ]
    made = proxy.send(body(*talk, tools=[READ, todo]))
    messages = sent(made)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert texts(messages[0]) == ["Goal: quiet fan in bay 3. Never touch bay 1."]
    assert texts(messages[-1]) == ["Good. Go on with the fan only."]
    [told] = texts(messages[1])
    assert "- pump: done; fan: open" in told
    assert "pump: open" not in told
    assert complaint(made.body) is None


@case("B95")
def test_no_call_is_written_out_for_the_model_to_imitate(small):
    """A summary names files and outcomes, never a tool with its arguments; calls that stay are calls."""
    proxy = small("extends: careful\ncompact: {high_water: 0.3, target: 0.2}\n", 2_400)
    talk = [user("Check all bays.")]
    for at in range(10):
        talk += [assistant(call(f"t{at}", path=f"bay{at}")), user(result(f"t{at}", "ok\n" * 80))]
    talk += [assistant("All are fine."), user("Once more, bay 3.")]
    made = proxy.send(body(*talk))
    told = [words for message in sent(made)["messages"] for words in texts(message)]
    assert any("- bay9" in words for words in told)
    assert not any("read_file" in words or '"path"' in words for words in told)
    assert complaint(made.body) is None


@case("B96")
def test_a_cut_takes_old_output_first_and_leaves_a_mode_where_it_is(small):
    """Read-only mode is what the agent may do: the reminder is the same bytes at the same place."""
    proxy = small("extends: careful\nbreakpoints: off\nbudget: {fill: 0.6, keep: 1}\n", 2_400)
    limit = {"type": "text", "text": "<reminder>Read-only mode: no edits.</reminder>"}
    last = {"role": "user", "content": [limit, {"type": "text", "text": "Show me the plan."}]}
    talk = [
        user("Plan the change."),
        assistant(call("A", path="src/pump.py")),
        user(result("A", "row\n" * 1_500)),
        assistant("Plan ready."),
        last,
    ]
    made = proxy.send(body(*talk))
    messages = sent(made)["messages"]
    assert messages[-1] == last
    assert said(made)["A"].startswith(NOTE)
    assert complaint(made.body) is None


@case("B37")
def test_an_output_longer_than_the_window_is_cut_and_stays_as_it_was_cut(small):
    """Head and tail stay, the note says how much is gone, and the next request has the same bytes."""
    proxy = small("extends: careful\nbreakpoints: off\nbudget: {result_bytes: 65536}\n", 200_000)
    talk = [user("Show the build log."), assistant(call("c1", path="log"))]
    log = "begin\n" + "step ok\n" * 262_144 + "end"
    talk.append(user(result("c1", log)))
    first = said(proxy.send(body(*talk)))["c1"]
    assert len(first.encode()) <= 65_536
    assert first.startswith("begin\n")
    assert first.endswith("step ok\nend")
    assert f"{len(log)} bytes" in first
    talk += [assistant("It is fine."), user("Thanks.")]
    assert said(proxy.send(body(*talk)))["c1"] == first
