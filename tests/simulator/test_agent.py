"""The scripted agent: so many calls of the tools on offer, then an answer, decided by the request alone."""

import orjson

from proxy.simulator import Agent, Call, Provider, Settings, tour
from proxy.simulator.agent import COMPACTION, Find, Read, Search, Shell, Write, answers_since_human

from tests.simulator.bodies import RUN, Client, assistant, body, call, result, send, text, user


def tool(name, *required, **optional):
    properties = dict.fromkeys([*required, *optional], {"type": "string"})
    return {
        "name": name,
        "input_schema": {"type": "object", "properties": properties, "required": list(required)},
    }


CODING = [
    tool("Read", "file_path"),
    tool("Bash", "command", description=1),
    tool("Grep", "pattern", path=1),
    tool("Glob", "pattern", path=1),
    tool("Write", "file_path", "content"),
]
STEPS = (
    (Read("/p/a.py"),),
    (Shell("ls"), Search("def", "/p")),
    (Find("**/*.py", "/p"),),
    (Write("/p/b.py", "x"),),
)


def played(agent, tools, prompts=("Look around.",)):
    """The calls of a whole session, answer by answer, and its texts."""
    client = Client(Provider(script=agent), tools=tools)
    calls, texts = [], []
    for prompt in prompts:
        answer = client.send(prompt).json
        while answer["stop_reason"] == "tool_use":
            made = [block for block in answer["content"] if block["type"] == "tool_use"]
            calls.append([(block["name"], block["input"]) for block in made])
            answer = client.send(user(*[result(block["id"], "ok") for block in made])).json
        texts.append(answer["content"][-1]["text"])
    assert all(exchange.status == 200 for exchange in client.provider.log)
    return calls, texts


def test_steps_in_order_then_a_closing_text():
    """Each step is one answer, parallel calls in one; each human message starts anew."""
    calls, texts = played(Agent(STEPS), CODING, prompts=("Look around.", "Again."))
    once = [
        [("Read", {"file_path": "/p/a.py"})],
        [
            ("Bash", {"command": "ls", "description": "Run a command"}),
            ("Grep", {"pattern": "def", "path": "/p"}),
        ],
        [("Glob", {"pattern": "**/*.py", "path": "/p"})],
        [("Write", {"file_path": "/p/b.py", "content": "x"})],
    ]
    assert calls == once * 2
    assert texts == ["Done. (4 steps)"] * 2


def test_other_agents_spell_their_tools_otherwise():
    """The first spelling that fits a tool on offer is taken; a search falls back on the shell."""
    calls, _ = played(Agent(STEPS), [tool("read", "filePath"), tool("bash", "command", description=1)])
    assert calls[0] == [("read", {"filePath": "/p/a.py"})]
    assert [name for name, _ in calls[1]] == ["bash", "bash"]
    assert len(calls) == 3


def test_actions_without_a_tool_are_left_out():
    """Only the shell is there: files cannot be read, and nothing is called that is not offered."""
    calls, texts = played(Agent(STEPS), [RUN])
    assert [[name for name, _ in step] for step in calls] == [["run", "run"], ["run"]]
    assert texts == ["Done. (2 steps)"]


def test_a_call_of_the_test_s_own():
    """A plain call is taken as it is."""
    calls, _ = played(Agent([(Call("run", {"cmd": "make"}),)]), [RUN])
    assert calls == [[("run", {"cmd": "make"})]]


def test_a_tour_lasts_as_many_turns_as_wanted():
    """Eighteen steps over five files, every fourth with two calls."""
    calls, _ = played(tour("/p", [f"/p/{n}.py" for n in range(5)], turns=18), CODING)
    assert [len(step) for step in calls] == [1, 1, 1, 2] * 4 + [1, 1]


def test_turns_are_counted_from_the_last_human_message():
    """Tool results, also with a reminder beside them, start no new turn."""
    messages = [
        user("Hi."),
        assistant(call("A")),
        user(result("A"), text("<reminder>")),
        assistant(call("B")),
    ]
    assert answers_since_human(body(*messages)) == 2
    assert answers_since_human(body(*messages, user(result("B")), assistant("Done."), user("Go on."))) == 0


def test_side_calls_are_answered_in_text():
    """A call without tools, for a summary, or for JSON gets no tool call."""
    agent = Agent(STEPS)

    def reply(request):
        answer = send(Provider(script=agent), request).json
        assert answer["stop_reason"] == "end_turn"
        return answer["content"][0]["text"]

    assert reply(body(tools=[])).startswith("Understood")
    assert "<summary>" in reply(body(user(text("Hi."), text(f"{COMPACTION}. Sum up.")), tools=CODING))
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "n": {"type": "integer"}}}
    wanted = {"format": {"type": "json_schema", "schema": schema}}
    assert orjson.loads(reply(body(tools=CODING, output_config=wanted))) == {"title": "text", "n": 1}


def test_thinking_is_added_where_it_is_asked_for():
    """A model that thinks opens with a signed block; a setting turns that off."""
    request = body(tools=CODING, thinking={"type": "adaptive"})
    kinds = lambda provider: [block["type"] for block in send(provider, request).json["content"]]
    assert kinds(Provider(script=Agent(STEPS))) == ["thinking", "tool_use"]
    assert kinds(Provider(Settings(think=False), Agent(STEPS))) == ["tool_use"]
    assert send(Provider(script=Agent(STEPS)), request).json["stop_reason"] == "tool_use"
