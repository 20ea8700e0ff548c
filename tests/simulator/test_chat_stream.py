"""Answers of the embedded chat services, whole and in chunks, and the scripted agent behind them."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from proxy.simulator import Agent, Call, Reply, Say, Server
from proxy.simulator.agent import Read, Shell
from proxy.simulator.chat import DEEPSEEK, FLAVOURS, KIMI, LLAMA, MISTRAL, OPENAI, ChatProvider
from proxy.simulator.exchange import Answer

from .chat import Json, Service, body, says, tool, tools, user

SCRIPT = Agent([(Read("/a"), Read("/b")), (Shell("ls"),)], closing="All done.", remark="Looking")
TOOLS = [
    *tools("read_file"),
    {
        "type": "function",
        "function": {"name": "run", "parameters": {"properties": {"cmd": {}}, "required": ["cmd"]}},
    },
]


def chunks(answer: Answer) -> list[Json]:
    assert answer.events is not None
    *events, done = answer.events
    assert done == b"data: [DONE]\n\n"
    return [json.loads(event.removeprefix(b"data: ")) for event in events]


def assembled(parts: list[Json]) -> Json:
    """The message that a client puts together from chunks."""
    message: Json = {}
    calls: dict[int, Json] = {}
    for part in parts:
        for choice in part["choices"]:
            for name, value in choice["delta"].items():
                if name != "tool_calls":
                    message[name] = (
                        value if message.get(name) is None or name == "role" else message[name] + value
                    )
                for delta in value if name == "tool_calls" else ():
                    call = calls.setdefault(delta["index"], {})
                    inner = {**call.get("function", {}), **delta["function"]}
                    inner["arguments"] = (
                        call.get("function", {}).get("arguments", "") + delta["function"]["arguments"]
                    )
                    call |= {name: value for name, value in delta.items() if name != "index"} | {
                        "function": inner
                    }
    return message | ({"tool_calls": list(calls.values())} if calls else {})


@pytest.mark.parametrize("flavour", FLAVOURS.values(), ids=str)
def test_an_agent_plays_its_script(flavour: Any) -> None:
    """Calls in steps, parallel ones too, then a closing text; the service's own answers are accepted back."""
    service = Service(flavour, script=SCRIPT)
    messages = [user("look around")]
    steps = []
    while len(steps) < 5:
        answer = service.post(body(*messages, model="m", tools=TOOLS))
        assert answer.status == 200, answer.body
        choice = answer.json["choices"][0]
        steps.append(
            (choice["finish_reason"], [call["function"] for call in choice["message"].get("tool_calls", [])])
        )
        messages.append(choice["message"])
        if not steps[-1][1]:
            break
        messages += [tool(call["id"]) for call in choice["message"]["tool_calls"]]
    reading = [{"name": "read_file", "arguments": f'{{"path":"/{name}"}}'} for name in "ab"]
    assert steps == [
        ("tool_calls", reading),
        ("tool_calls", [{"name": "run", "arguments": '{"cmd":"ls"}'}]),
        ("stop", []),
    ]
    assert choice["message"]["content"] == "All done. (2 steps)"
    ids = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    assert len({*ids}) == 3


def test_ids_have_the_services_own_form() -> None:
    """[A410 A430]."""

    def first(flavour: Any) -> str:
        answer = Service(flavour, script=SCRIPT).post(body(user(), model="m", tools=TOOLS))
        return str(answer.json["choices"][0]["message"]["tool_calls"][0]["id"])

    assert first(OPENAI).startswith("call_")
    assert first(KIMI).startswith("functions.read_file:")
    assert first(MISTRAL).isalnum()
    assert len(first(MISTRAL)) == 9


@pytest.mark.parametrize("flavour", [OPENAI, DEEPSEEK])
def test_a_stream_says_what_the_body_says(flavour: Any) -> None:
    """Put together, the chunks are the message; the first has the role, calls name themselves once [C100]."""
    sent = body(user(), model="m", tools=TOOLS)
    whole = Service(flavour, script=SCRIPT).post(sent).json["choices"][0]
    parts = chunks(Service(flavour, script=SCRIPT).post({**sent, "stream": True}))
    assert parts[0]["choices"][0]["delta"]["role"] == "assistant"
    assert assembled(parts) == {name: value for name, value in whole["message"].items() if name != "refusal"}
    assert [part["choices"][0]["finish_reason"] for part in parts] == [None] * (len(parts) - 1) + [
        "tool_calls"
    ]
    assert not any("usage" in part for part in parts)


def test_usage_in_a_stream_is_asked_for() -> None:
    """Then every chunk has the member, null until a last one without choices [C100]."""
    sent = body(user(), model="m", stream=True, stream_options={"include_usage": True})
    *parts, last = chunks(Service(OPENAI).post(sent))
    assert {part["usage"] for part in parts} == {None}
    assert last["choices"] == []
    assert last["usage"] == Service(OPENAI).post(body(user(), model="m")).json["usage"]


def test_llama_says_timings_in_its_last_chunk() -> None:
    """Whether asked or not [B521]."""
    parts = chunks(Service(LLAMA).post(body(user(), model="m", stream=True)))
    assert ["timings" in part for part in parts] == [False] * (len(parts) - 1) + [True]


def test_reasoning_comes_first() -> None:
    """In a member of its own, unless it is turned off."""
    service = Service(DEEPSEEK)
    message = service.post(body(user(), model="m")).json["choices"][0]["message"]
    assert message["reasoning_content"].startswith("The next step")
    off = service.post(body(user(), model="m", thinking={"type": "disabled"})).json
    assert "reasoning_content" not in off["choices"][0]["message"]
    names = [
        name
        for part in chunks(service.post(body(user(), model="m", stream=True)))
        for name in part["choices"][0]["delta"]
    ]
    assert names.index("reasoning_content") < len(names) - 1 - names[::-1].index("content")


def test_a_schema_is_followed() -> None:
    """A title call gets its JSON."""
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    sent = body(
        user(),
        model="m",
        response_format={"type": "json_schema", "json_schema": {"name": "t", "schema": schema}},
    )
    message = Service(OPENAI).post(sent).json["choices"][0]["message"]
    assert json.loads(message["content"]) == {"title": "text"}


def test_streams_break_as_told() -> None:
    """Cut behind some events, or with an error in their place."""

    def script(**fault: int) -> Any:
        return lambda ask: Reply(blocks=(Say("hello there"),), **fault)

    sent = body(user(), model="m", stream=True)
    cut = Service(OPENAI, script=script(cut_after=2)).post(sent)
    failed = Service(OPENAI, script=script(fail_after=2)).post(sent)
    assert cut.abort
    assert len(cut.events or ()) == 2
    assert b'"server_error"' in (failed.events or (b"",))[-1]


def test_a_script_sees_the_conversation() -> None:
    """Tools by name, results as results, and ids it gives are kept."""
    seen = []

    def script(ask: Any) -> Reply:
        seen.append(ask)
        return Reply(blocks=(Call("read_file", {"path": "/x"}, id="mine"),))

    sent = body(
        {"role": "developer", "content": "d"},
        user([{"type": "text", "text": "u"}]),
        says("a"),
        user(),
        model="m",
        tools=TOOLS,
    )
    answer = Service(OPENAI, script=script).post(sent).json
    assert answer["choices"][0]["message"]["tool_calls"][0]["id"] == "mine"
    assert seen[0].tools == {"read_file", "run"}
    assert [message["role"] for message in seen[0].body["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


def test_the_server_serves_it() -> None:
    """On its own path, streamed and whole, over a real socket; refusals with their status."""
    with Server(ChatProvider(OPENAI)) as server:  # type: ignore[arg-type]

        def post(sent: Json) -> tuple[int, str, bytes]:
            request = urllib.request.Request(
                f"{server.url}/v1/chat/completions", json.dumps(sent).encode(), {"authorization": "Bearer k"}
            )
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    return response.status, response.headers["content-type"], response.read()
            except urllib.error.HTTPError as error:
                return error.code, error.headers["content-type"], error.read()

        status, kind, whole = post(body(user(), model="m"))
        assert (status, kind) == (200, "application/json")
        status, kind, stream = post(body(user(), model="m", stream=True))
        assert (status, kind.partition(";")[0]) == (200, "text/event-stream")
        assert stream.endswith(b"data: [DONE]\n\n")
        assert json.loads(whole)["choices"][0]["message"]["content"].startswith("Understood")
        status, _, refused = post(body(model="m"))
        assert (status, json.loads(refused)["error"]["code"]) == (400, "empty_array")
