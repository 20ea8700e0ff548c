"""Readings that are out of date, what is fetched again, and what old calls were given."""

from typing import Any

import orjson
import pytest
from msgspec import Raw

from proxy.agents import Agents
from proxy.conversation import Conversation, ToolCall, ToolResult
from proxy.simulator import Call
from proxy.stages.inputs import shortened
from proxy.stages.regret import widened
from proxy.stages.results import Seen, Survey
from proxy.stages.room import room
from proxy.stages.stale import Config, leaving

from tests.simulator.bodies import READ, result
from tests.stages.clearing import Work, is_placeholder, lines, results

COLD = 3_600.0


EDIT = {
    "name": "edit_file",
    "description": "Edit a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}, "new": {"type": "string"}}},
}


class Editing(Work):
    """A client that reads and edits files, each in a turn of its own, known as one that nobody recognises."""

    def __init__(self, keep: int = 100, **config: Any) -> None:
        super().__init__(Config(keep=keep, **config))
        self.agent = Agents.load().generic
        self.members["tools"] = [READ, EDIT]

    def does(
        self, path: str, came: str, *, tool: str = "read_file", wait: float = 10.0, **given: Any
    ) -> None:
        """One call and its result; `is_error` goes with the result."""
        failed = {"is_error": True} if given.pop("is_error", False) else {}
        self.say("Go on.", wait=wait, answer=(Call(tool, {"path": path, **given}),))
        ident = self.messages[-1]["content"][-1]["id"]
        self.say(result(ident, came, **failed))


def shown(work: Work) -> list[bool]:
    return [not is_placeholder(content) for content in results(work.sent[-1])]


def test_a_reading_goes_when_the_file_was_read_again() -> None:
    """The newer one says all that the older one did."""
    work = Editing()
    work.does("pump.py", lines("old"))
    work.does("fan.py", lines("fan"))
    work.does("pump.py", lines("new"))
    work.say("Go on.", wait=COLD)
    assert shown(work) == [False, True, True]


def test_a_reading_of_another_range_leaves_it_alone() -> None:
    """What stands in one range says nothing of the rest."""
    work = Editing()
    work.does("pump.py", lines("old"))
    work.does("pump.py", lines("new"), offset=500)
    work.say("Go on.", wait=COLD)
    assert shown(work) == [True, True]


@pytest.mark.parametrize(("superseded", "stays"), [("write", False), ("read", True), ("off", True)])
def test_a_reading_goes_when_the_file_was_changed(superseded: str, stays: bool) -> None:
    """It no longer is what stands on the disk."""
    work = Editing(superseded=superseded)
    work.does("pump.py", lines("old"))
    work.does("pump.py", "done", tool="edit_file", new="x")
    work.say("Go on.", wait=COLD)
    assert shown(work) == [stays, True]


def test_a_failed_change_changed_nothing() -> None:
    """An error leaves the file as it was."""
    work = Editing()
    work.does("pump.py", lines("old"))
    work.does("pump.py", "no such text", tool="edit_file", new="x", is_error=True)
    work.say("Go on.", wait=COLD)
    assert shown(work) == [True, True]


def test_a_stub_is_no_reading() -> None:
    """It relies on the one before it."""
    work = Editing()
    work.does("pump.py", lines("old"))
    work.does("pump.py", "File unchanged since your last read.")
    work.say("Go on.", wait=COLD)
    assert shown(work) == [True, True]


def test_what_was_cleared_and_is_fetched_again_is_regretted() -> None:
    """The promise that remembers it names the tool."""
    work = Work(Config(keep=1))
    work.ask("pump")
    work.give(lines("pump"), "fan")
    work.give(lines("fan"), "hall")
    work.give(lines("hall"), "pump", wait=COLD)
    work.give(lines("pump"))
    regretted = [p.regret for p in work.last.commit.promises if p.regret]  # type: ignore[union-attr]
    assert regretted == ["read_file"]


def test_a_change_in_between_is_a_reason_to_read_again() -> None:
    """That was no mistake of ours."""
    work = Editing()
    work.does("pump.py", lines("old"))
    work.does("pump.py", lines("old"))
    work.does("fan.py", lines("fan"), wait=COLD)
    assert shown(work)[0] is False
    work.does("pump.py", "done", tool="edit_file", new="x")
    work.does("pump.py", lines("new"))
    work.say("Go on.")
    assert not [p for done in work.done if done.commit for p in done.commit.promises if p.regret]


@pytest.mark.parametrize(
    ("window", "regretted", "wide"), [(0, 0, 0), (0, 3, 1), (3, 1, 4), (3, 2, 5), (3, 9, 6)]
)
def test_a_window_widens_with_each_regret_up_to_twice_its_width(
    window: int, regretted: int, wide: int
) -> None:
    """Who reads the same ten times is not to be followed without end."""
    assert widened(window, regretted) == wide


def test_long_texts_of_an_old_call_go_with_its_result() -> None:
    """Names, order and kinds of its arguments stay."""
    work = Editing(keep=0, inputs=True, superseded="off")
    work.does("pump.py", "done", tool="edit_file", new="x" * 9_000)
    work.does("fan.py", lines("fan"))
    work.say("Go on.", wait=COLD)
    calls = [
        block["input"]
        for message in work.sent[-1]["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    note = (
        "[9.0 kB that stood here are left out of this record to save space; the call was made with all of it]"
    )
    assert calls == [{"path": "pump.py", "new": note}, {"path": "fan.py"}]
    assert results(work.sent[-1])[0] == "done"


@pytest.mark.parametrize(
    "call",
    [
        ToolCall(id="a", name="write", input=b'{"path":"a","text":"short"}'),
        ToolCall(id="a", name="write", input=orjson.dumps({"text": "x" * 9_000}), signature="signed"),
        ToolCall(id="a", name="write", input=orjson.dumps({"text": "x" * 9_000}), server=True),
        ToolCall(id="a", name="write", input=orjson.dumps(["x" * 9_000])),
        ToolCall(id="a", name="write", input=b'{"text": "' + b"x" * 9_000),
    ],
    ids=["short", "signed", "the provider's own", "no object", "no JSON"],
)
def test_calls_that_keep_what_they_were_given(call: ToolCall) -> None:
    """What is short, signed [A304], the provider's or no object of arguments stays."""
    assert shortened(call) is None


def test_what_becomes_stale_in_a_whole_history_and_when() -> None:
    """By the window of its tool, or by a later reading or change of its file, whichever comes first."""
    agent = Agents.load().generic

    def seen(turn: int, name: str, path: str, size: int = 2_000, **members: Any) -> Seen:
        call = ToolCall(id=f"c{turn}", name=name, input=orjson.dumps({"path": path}))
        return Seen(ToolResult(call_id=call.id, content=b'"x"', size=size, **members), call, 0, turn)

    shelf = [
        seen(1, "read", "a"),
        seen(2, "read", "b"),
        seen(3, "read", "c", size=100),
        seen(4, "read", "b"),
        seen(5, "read", "d", is_error=True),
    ]
    survey = Survey(
        {"read": shelf, "edit": [seen(6, "edit", "a")], "db_read": [seen(1, "db_read", "a")]}, 0, []
    )
    config = Config(keep=3, protect=("db*",))
    assert [(one.turn, when) for one, when in leaving(survey, config, agent)] == [(1, 4), (2, 4)]
    config = Config(keep=9, protect=("db*",))
    assert [(one.turn, when) for one, when in leaving(survey, config, agent)] == [(1, 6), (2, 4)]
    config = Config(keep=9, superseded="off")
    assert list(leaving(survey, config, agent)) == []
    config = Config(keep=9, paused=1, protect=("db*",), superseded="off")
    found = [(one.turn, when) for one, when in leaving(survey, config, agent, (3, 9))]
    assert found == [(1, 3), (2, 3), (4, 9)]


@pytest.mark.parametrize(
    ("members", "tokens"),
    [
        ({}, 0),
        ({"max_tokens": 500}, 500),
        ({"max_completion_tokens": 700, "max_tokens": 500}, 700),
        ({"max_tokens": 90_000}, 2_500),
        ({"max_tokens": "many"}, 0),
        ({"max_tokens": -1}, 0),
        ({"generationConfig": {"maxOutputTokens": 800}}, 800),
        ({"generationConfig": "none"}, 0),
    ],
)
def test_room_for_the_answer_is_what_the_request_asks_for_up_to_a_quarter(
    members: dict[str, Any], tokens: int
) -> None:
    """In any format's words; what is no number asks for nothing."""
    envelope = tuple((name, Raw(orjson.dumps(value))) for name, value in members.items())
    conversation = Conversation(envelope=envelope, tools=(), system=(), messages=())
    assert room(conversation, 10_000) == tokens
