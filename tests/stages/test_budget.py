"""The last resort before a provider refuses a prompt for its length: what goes, in which order, and what never does."""

from typing import Any

import pytest

from proxy.agents import Agents
from proxy.policy import Policy, Stages
from proxy.simulator import Call, Say
from proxy.stages import balance, breakpoints, budget, reasoning, stale

from tests.simulator.bodies import READ, RUN, result, text, user
from tests.stages.clearing import OPUS, PLAIN, Work, is_placeholder, lines, results

EDIT = {
    "name": "edit_file",
    "description": "Edit a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}, "new": {"type": "string"}}},
}


class Tight(Work):
    """A client in a small window, under a policy that has nothing but the last resort."""

    def __init__(self, window: int, *, model: str = PLAIN, thinks: bool = False, **config: Any) -> None:
        super().__init__(stale.Config(), model=model, thinks=thinks, window=window)
        self.agent = Agents.load().generic
        self.members["tools"] = [READ, RUN, EDIT]
        self.policy = Policy(
            name="test",
            stages=Stages(
                balance=balance.Config(),
                reasoning=reasoning.Config(),
                budget=budget.Config(**config),
                breakpoints=breakpoints.Config(),
            ),
        )

    def does(self, tool: str, came: str, **given: Any) -> None:
        """One call and its result; `is_error` goes with the result."""
        failed = {"is_error": True} if given.pop("is_error", False) else {}
        self.say("Go on.", answer=(Call(tool, given),))
        self.say(result(self.messages[-1]["content"][-1]["id"], came, **failed), answer=(Say("So."),))

    @property
    def shown(self) -> list[bool]:
        return [not is_placeholder(content) for content in results(self.sent[-1])]

    @property
    def held(self) -> list[str]:
        return [held.reason for held in self.last.held]


def calls(work: Work) -> list[str]:
    """Names of the calls that the last request still has."""
    return [
        block["name"]
        for message in work.sent[-1]["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_use"
    ]


def test_while_everything_fits_nothing_is_done() -> None:
    """It is a last resort."""
    work = Tight(60_000)
    for at in range(4):
        work.does("read_file", lines(f"f{at}"), path=f"f{at}.py")
    assert work.shown == [True] * 4
    assert work.held == []


def test_what_is_out_of_date_goes_before_what_is_large() -> None:
    """A reading of a file that was changed since is missed least."""
    work = Tight(14_400, keep=1)
    work.does("read_file", lines("fan", 900), path="fan.py")
    work.does("run", lines("log", 1_600), cmd="make")
    work.does("edit_file", "done", path="fan.py", new="x")
    work.does("run", lines("more", 1_500), cmd="make more")
    assert work.shown == [False, True, True, True]


def test_errors_the_newest_turns_and_protected_tools_stay() -> None:
    """Where no more may go, that is said, and the request leaves as it is."""
    work = Tight(9_000, keep=2, protect=("edit*",), pairs=False)
    work.does("run", lines("error", 900), cmd="make", is_error=True)
    work.does("edit_file", lines("diff", 900), path="fan.py", new="x")
    work.does("read_file", lines("pump", 500), path="pump.py")
    work.does("read_file", lines("fan", 500), path="fan.py")
    assert work.shown == [True] * 4
    [reason] = work.held
    assert "tokens too many for the window, and" in reason


@pytest.mark.parametrize(("model", "thinks"), [(PLAIN, False), (OPUS, True)])
def test_old_calls_leave_with_their_results_where_notes_are_not_enough(model: str, thinks: bool) -> None:
    """What they were given can be the larger half; no result is left without its call, and no thinking without words."""
    work = Tight(12_000, keep=1, model=model, thinks=thinks)
    for at in range(8):
        work.does("edit_file", "done", path=f"f{at}.py", new=lines(f"f{at}", 500))
    assert len(calls(work)) < 8
    assert len(calls(work)) == len(results(work.sent[-1]))
    assert all(done.broken == "" for done in work.done)
    assert any(edit.stage == "budget" for edit in work.last.edits)


def test_without_leave_for_pairs_calls_stay() -> None:
    """Then results alone may become notes, and here they are short."""
    work = Tight(8_000, keep=1, pairs=False)
    for at in range(6):
        work.does("edit_file", "done", path=f"f{at}.py", new=lines(f"f{at}", 500))
    assert len(calls(work)) == 6
    assert work.held


def test_what_a_stub_means_stays() -> None:
    """Else the model would be sent to a note."""
    work = Tight(11_000, keep=1)
    work.does("read_file", lines("pump", 900), path="pump.py")
    work.does("run", lines("log", 900), cmd="make")
    work.does("read_file", "File unchanged since your last read.", path="pump.py")
    work.does("run", lines("more", 1_200), cmd="make more")
    assert work.shown == [True, False, True, True]


def test_an_output_that_would_fill_the_window_is_cut_on_arrival_as_text_and_in_blocks() -> None:
    """Head, tail and what looks like errors stay; images in it leave it whole."""
    work = Tight(200_000, result_bytes=4_096)
    log = lines("begin", 500) + "error: no pump\n" + lines("end", 500)
    work.does("run", log, cmd="make")
    assert "error: no pump" in results(work.sent[-1])[0]
    assert len(results(work.sent[-1])[0].encode()) <= 4_096
    work.say("Again.", answer=(Call("run", {"cmd": "make again"}),))
    blocks = [{"type": "text", "text": log}]
    work.say(result(work.messages[-1]["content"][-1]["id"], blocks))
    [block] = results(work.sent[-1])[1]
    assert len(block["text"].encode()) <= 4_096
    assert work.held == []


def test_calls_stay_where_a_system_message_stands_behind_their_results() -> None:
    """Without their results it would follow the model's own words, which is refused [A60]."""
    work = Tight(12_000, keep=1, model=OPUS)
    for at in range(8):
        edit = Call("edit_file", {"path": f"f{at}.py", "new": lines(f"f{at}", 500)})
        work.say("Go on.", answer=(Say("I edit it."), edit))
        work.messages.append(user(result(work.messages[-1]["content"][-1]["id"], "done")))
        if at % 4 == 0:
            work.messages.append({"role": "system", "content": [text(f"Plan {at}.")]})
        work.say(answer=(Say("So."),))
    assert any(edit.stage == "budget" for edit in work.last.edits)
    assert len(calls(work)) < 8
    messages = work.sent[-1]["messages"]
    told = [at for at, message in enumerate(messages) if message["role"] == "system"]
    assert [messages[at]["content"][0]["text"] for at in told] == ["Plan 0.", "Plan 4."]
    assert [messages[at - 1]["content"][0]["type"] for at in told] == ["tool_result"] * 2
