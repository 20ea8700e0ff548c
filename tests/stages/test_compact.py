"""A history that nears the end of its window: what becomes of it, and what stays."""

from typing import Any

import pytest

from msgspec import structs

from proxy.agents import Agents
from proxy.conversation import Message, Role, Text, ToolCall, ToolResult
from proxy.policy import Policy, Stages
from proxy.rewrite import Rewrite
from proxy.simulator import Call, Say
from proxy.stages import balance, breakpoints, compact, inject, reasoning, stale
from proxy.stages.summary import OPENING
from proxy.stages.summary import summary as told

from tests.simulator.bodies import READ, RUN, result, text, user
from tests.stages.clearing import OPUS, Json, Work, lines, results

WINDOW = 30_000
TODO = {"name": "TodoWrite", "description": "Write the list.", "input_schema": {"type": "object"}}


class Long(Work):
    """A session in a small window, under a policy that compacts."""

    def __init__(self, *, window: int = WINDOW, **members: Any) -> None:
        config = {name: members.pop(name) for name in ("high_water", "target", "keep") if name in members}
        super().__init__(stale.Config(keep=10_000), window=window, **members)
        self.agent = Agents.load().generic
        self.members["tools"] = [READ, RUN, TODO]
        self.policy = Policy(
            name="test",
            stages=Stages(
                balance=balance.Config(),
                reasoning=reasoning.Config(),
                compact=compact.Config(**config),
                breakpoints=breakpoints.Config(),
            ),
        )

    def does(self, tool: str, given: Json, came: str, **members: Any) -> None:
        """One call and its result, in a turn of its own; a person asks for it."""
        self.say(f"Do {tool}.", answer=(Call(tool, given),))
        self.say(
            result(self.messages[-1]["content"][-1]["id"], came, **members), answer=(Say(f"Did {tool}."),)
        )

    @property
    def held(self) -> list[str]:
        return [held.reason for held in self.last.held]


def said(body: Json, role: str) -> list[str]:
    """All texts of one side."""
    found = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [block["text"] for block in blocks if message["role"] == role and block["type"] == "text"]
    return found


def summary(body: Json) -> str:
    """The summary in a body."""
    return next(text for text in said(body, "assistant") if text.startswith(OPENING[:30]))


def filled(work: Long, size: int = 1_200, times: int = 8) -> None:
    """Files are read until the window is nearly full."""
    for at in range(times):
        work.does("read_file", {"path": f"f{at}.py"}, lines(f"f{at}", size))


@pytest.mark.parametrize(("model", "thinks"), [("claude-opus-5", False), (OPUS, True)])
def test_a_session_goes_on_past_its_window(model: str, thinks: bool) -> None:
    """Prompts stay below the window, the goal is in each of them, and the provider takes every request."""
    work = Long(model=model, thinks=thinks)
    work.say("The fan in bay 3 is loud. Never touch bay 1.")
    for at in range(30):
        work.does("read_file", {"path": f"f{at}.py"}, lines(f"f{at}", 900))
    sizes = [exchange.total for exchange in work.provider.log]
    assert sum(sizes) > 10 * WINDOW
    assert max(sizes) < WINDOW
    assert all(said(body, "user")[0] == "The fan in bay 3 is loud. Never touch bay 1." for body in work.sent)
    assert len({summary(body) for body in work.sent[40:]}) > 1


def test_what_was_sent_behind_a_compaction_stands() -> None:
    """Between two compactions the prompt only grows."""
    work = Long()
    work.say("Look after the fan.")
    filled(work, times=14)
    shrunk = 0
    for before, after in zip(work.sent, work.sent[1:], strict=False):
        then, now = before["messages"], after["messages"]
        if len(now) > len(then):
            assert [_bare(m) for m in now[: len(then)]] == [_bare(m) for m in then]
        else:
            shrunk += 1
    assert shrunk in (1, 2)


def test_what_the_policy_told_last_of_each_file_stays() -> None:
    """It counts as told, so nobody would tell it again; what it said before that may go."""
    work = Long()
    told = inject.Config(files=("AGENTS.md", "STYLE.md"))
    work.policy = structs.replace(work.policy, stages=structs.replace(work.policy.stages, inject=told))
    work.say("Look after the fan.")
    for version in (1, 2):
        work.files = {"AGENTS.md": f"Conventions {version}.", "STYLE.md": f"Style {version}."}
        work.does("read_file", {"path": "a.py"}, lines("a", 10))
    filled(work, times=14)
    assert summary(work.sent[-1])
    texts = "".join(said(work.sent[-1], "user"))
    assert [texts.count(f"{what}.") for what in ("Conventions 2", "Style 2", "Conventions 1", "Style 1")] == [
        1,
        1,
        0,
        0,
    ]


def _bare(message: Json) -> Any:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [{k: v for k, v in block.items() if k != "cache_control"} for block in blocks]


def test_the_summary_tells_open_and_finished_tasks_files_and_errors_apart() -> None:
    """By the newest list of tasks: what was finished does not come back as open."""
    work = Long()
    work.say("Mend pump and fan.")
    first = [
        {"content": "mend the pump", "status": "pending"},
        {"content": "mend the fan", "status": "pending"},
    ]
    work.does("TodoWrite", {"todos": first}, "ok")
    work.does("run", {"cmd": "make pump"}, "error: no rule to make pump", is_error=True)
    work.does("run", {"cmd": "make fan"}, "error: no rule to make fan", is_error=True)
    work.does("run", {"cmd": "make pump"}, "done")
    second = [first[0] | {"status": "completed"}, first[1]]
    work.does("TodoWrite", {"todos": second}, "ok")
    filled(work)
    words = summary(work.sent[-1])
    sections = {part.splitlines()[0]: part.splitlines()[1:] for part in words.split("\n\n")[1:]}
    assert sections["Done:"] == ["- mend the pump"]
    assert sections["Still open:"] == ["- mend the fan"]
    assert sections["Failed, and not seen to succeed since:"] == ["- make fan: error: no rule to make fan"]
    assert "- f0.py" in sections["Files read:"]
    assert "Do TodoWrite." in "\n".join(
        sections["What the user asked since the first message, oldest first:"]
    )


def test_where_nothing_that_may_go_helps_it_says_so_and_does_nothing() -> None:
    """Tools and system alone above the mark: each turn would compact, and none would help."""
    work = Long(window=8_000)
    work.members["system"] = "rule. " * 6_000
    work.say("Hello.")
    work.say("Go on.")
    assert [edit for edit in work.last.edits if edit.stage == "compact"] == []
    [reason] = work.held
    assert reason.startswith("the prompt of ")
    assert "is above the mark of 6400" in reason


def test_it_waits_for_a_message_of_a_person() -> None:
    """In the middle of a task the model would plan all over again."""
    work = Long()
    work.say("Read everything.")
    work.ask("f0")
    for at in range(9):
        work.give(lines(f"f{at}", 1_500), f"f{at + 1}")
    assert not any(edit.stage == "compact" for edit in work.last.edits)
    work.give(lines("f9", 10))
    work.say("Good. And now?")
    assert any(edit.stage == "compact" for edit in work.last.edits)
    assert said(work.sent[-1], "user") == ["Read everything.", "Good. And now?"]


def test_what_stays_rests_on_stays_too() -> None:
    """A stub in the newest turn means a result of long ago: its call and it are kept, whatever stands around."""
    work = Long()
    work.say("Look after the fan.")
    work.does("read_file", {"path": "pump.py"}, lines("pump", 300))
    filled(work, times=6)
    work.does("read_file", {"path": "pump.py"}, "File unchanged since your last read.")
    work.say("And now? " + "x" * 12_000)
    assert any(edit.stage == "compact" for edit in work.last.edits)
    shown = results(work.sent[-1])
    assert shown[-1] == "File unchanged since your last read."
    assert shown[0] == lines("pump", 300)
    assert lines("f1", 1_200) not in shown


def test_a_call_that_is_open_waits() -> None:
    """A person speaks while the results of a call are missing: they may come yet."""
    work = Long()
    work.policy = Policy(name="test", stages=Stages(compact=compact.Config()))
    work.say("Look after the fan.")
    filled(work, times=5)
    work.messages += [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_open", "name": "run", "input": {}}],
        },
        {"role": "user", "content": [{"type": "text", "text": "Never mind."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
        {"role": "user", "content": [{"type": "text", "text": "And the rest? " + "x" * 60_000}]},
    ]
    made = work.rewrite()
    assert [held.reason for held in made.held] == ["a call is still open"]


def test_more_than_the_newest_turn_stays_where_it_fits() -> None:
    """As many whole turns of people as the target has room for."""
    work = Long(target=0.5)
    work.say("Look after the fan.")
    filled(work, times=9)
    kept = [words for words in said(work.sent[-1], "user") if words.startswith("Do ")]
    assert 1 < len(kept) < 9


@pytest.mark.parametrize(
    ("given", "sections"),
    [
        ({"plan": [{"step": "a", "status": "done"}, {"step": "b"}]}, ["Done:\n- a", "Still open:\n- b"]),
        ({"todos": ["a", "b"]}, ["Still open:\n- a\n- b"]),
        ({"todos": "mend the fan"}, ["The list of tasks as last written:\n- mend the fan"]),
        ({"op": "write"}, ["The list of tasks as last written:\n- fan: open"]),
        ({"todos": []}, ["The list of tasks as last written:\n- fan: open"]),
        (
            {"todos": [{"status": "done"}, {"content": " "}]},
            ["The list of tasks as last written:\n- fan: open"],
        ),
    ],
)
def test_lists_of_tasks_are_read_in_the_forms_that_agents_give_them(given: Json, sections: list[str]) -> None:
    """By members that carry names and states; where none is known, by what the tool answered."""
    work = Long()
    work.say("Mend the fan.")
    work.does("TodoWrite", given, "fan: open")
    filled(work)
    for section in sections:
        assert section in summary(work.sent[-1])


def test_arguments_that_nest_without_end_are_no_list_of_tasks() -> None:
    """They are passed over; the history is compacted all the same."""
    deep = b'{"todos":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    messages = (
        Message(role=Role.USER, parts=(Text(text="Mend it."),)),
        Message(role=Role.ASSISTANT, parts=(ToolCall(id="a", name="TodoWrite", input=deep),)),
        Message(role=Role.ASSISTANT, parts=(ToolCall(id="b", name="TodoWrite", input=b"{"),)),
        Message(role=Role.USER, parts=(ToolResult(call_id="b", content=b'"no"', is_error=True),)),
    )
    assert "tasks" not in told(messages, Agents.load().generic, 3)


def test_what_a_harness_said_between_the_turns_stands_in_front_of_the_summary() -> None:
    """It may limit what the agent does, so it stays; behind the summary it would follow the model's own words [A60]."""
    work = Long(model=OPUS)
    work.say("The fan in bay 3 is loud.")
    for at in range(24):
        work.say("Go on.", answer=(Call("read_file", {"path": f"f{at}.py"}),))
        call = work.messages[-1]["content"][-1]["id"]
        work.messages.append(user(result(call, lines(f"f{at}", 1_200))))
        if at % 6 == 2:
            work.messages.append({"role": "system", "content": [text(f"Plan {at}.")]})
        work.say(answer=(Say("So."),))
    assert sum(_compacted(done) for done in work.done) > 1
    messages = work.sent[-1]["messages"]
    place = next(at for at, one in enumerate(messages) if OPENING[:30] in str(one["content"]))
    before = [one for one in messages[:place] if one["role"] == "system"]
    assert "Plan 2." in str(before)
    assert [one["role"] for one in messages[: place + 1]] == ["user", *["system"] * len(before), "assistant"]


def test_where_turns_must_alternate_what_a_harness_said_goes_to_the_turn_that_stays() -> None:
    """Between the goal, the summary and the person's next words there is room for no other turn [A521]."""
    limit = "<system-reminder>\nPlan mode is active: change nothing.\n</system-reminder>"
    work = Long(merge_same_role=True)
    work.agent = Agents.load().of({"user-agent": "claude-cli/2.1.114"})
    work.say("The fan in bay 3 is loud.")
    work.say(text(limit), text("Look at it."))
    filled(work)
    work.say("And now?")
    assert any(map(_compacted, work.done))
    messages = next(
        body["messages"] for body, done in zip(work.sent, work.done, strict=True) if _compacted(done)
    )
    assert [one["role"] for one in messages[:3]] == ["user", "assistant", "user"]
    assert limit in said({"messages": messages[2:]}, "user")
    assert limit not in said({"messages": messages[:2]}, "user")


def _compacted(done: Rewrite) -> bool:
    return any(p.stage == "compact" for p in (done.commit.promises if done.commit else ()))
