"""Answers of the embedded Responses API, whole and as events, over a socket too; and the client in Codex's shape."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from proxy.simulator import Call, Canned, Reply, Say, Server, Settings, Think
from proxy.simulator.exchange import Answer
from proxy.simulator.responses import ResponsesProvider
from proxy.simulator.responses.codex import Codex, Shape, explorer

from .responses import Json, Service, body, developer, events, output, reasoning, says, text, tool, user

CUSTOM = {"type": "custom", "name": "patch"}


def script(*blocks: Any, **members: Any) -> Any:
    return lambda _: Reply(blocks=blocks, **members)


def post(server: Server, sent: bytes, **headers: str) -> tuple[int, str, bytes]:
    request = urllib.request.Request(
        f"{server.url}/v1/responses", sent, {"authorization": "Bearer k", **headers}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.headers["content-type"], response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], error.read()


# -- one object ------------------------------------------------------------------------------------------


def test_a_response_says_what_was_asked() -> None:
    """Parameters come back as they were taken, with the defaults of the model [C103]."""
    answer = Service(script=script(Say("hi"))).taken(
        body(user(), tools=[tool("t")], prompt_cache_key="k", user="u", text={"verbosity": "low"})
    )
    assert answer["id"].startswith("resp_")
    assert {
        name: answer[name]
        for name in ("object", "status", "error", "incomplete_details", "store", "truncation")
    } == {
        "object": "response",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "store": True,
        "truncation": "disabled",
    }
    assert answer["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert answer["tools"] == [tool("t")]
    assert answer["reasoning"] == {"effort": None, "summary": None, "context": "all_turns"}
    assert answer["prompt_cache_options"] == {"mode": "implicit", "ttl": "30m"}
    older = Service().taken(body(user(), model="gpt-4.1", temperature=0.5))
    assert (older["temperature"], older["reasoning"]) == (0.5, {"effort": None, "summary": None})


def test_every_kind_of_call() -> None:
    """Each tool is called in the item of its kind; ids have the prefix of theirs [A200 A207]."""
    inner = {
        "type": "namespace",
        "name": "space",
        "description": "d",
        "tools": [tool("deep"), {"type": "custom", "name": "code"}],
    }
    tools = [tool("read"), CUSTOM, {"type": "local_shell"}, {"type": "shell"}, {"type": "apply_patch"}, inner]
    made = Service(
        script=script(
            Call("read", {"path": "/a"}, id="mine"),
            Call("patch", {"input": "p"}),
            Call("patch", {"other": 1}),
            Call("local_shell", {"command": ["ls"]}),
            Call("shell", {"commands": ["ls"]}),
            Call("apply_patch", {"type": "delete_file", "path": "a"}),
            Call("deep", {}),
            Call("code", {"input": "1"}),
        )
    ).taken(body(user(), tools=tools))["output"][1:]
    shown = [
        {name: value for name, value in item.items() if name not in ("id", "call_id", "status")}
        for item in made
    ]
    assert shown == [
        {"type": "function_call", "name": "read", "arguments": '{"path":"/a"}'},
        {"type": "custom_tool_call", "name": "patch", "input": "p"},
        {"type": "custom_tool_call", "name": "patch", "input": '{"other":1}'},
        {"type": "local_shell_call", "action": {"type": "exec", "env": {}, "command": ["ls"]}},
        {"type": "shell_call", "action": {"commands": ["ls"]}},
        {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "function_call", "name": "deep", "arguments": "{}", "namespace": "space"},
        {"type": "custom_tool_call", "name": "code", "input": "1", "namespace": "space"},
    ]
    assert [item["id"].partition("_")[0] for item in made] == [
        "fc",
        "ctc",
        "ctc",
        "lsh",
        "sh",
        "apc",
        "fc",
        "ctc",
    ]
    assert made[0]["call_id"] == "mine"
    assert len({item["call_id"] for item in made}) == 8
    results = [
        {"local_shell_call": "local_shell_call_output", "shell_call": "shell_call_output", "custom_tool_call": "custom_tool_call_output",
         "apply_patch_call": "apply_patch_call_output", "function_call": "function_call_output"}[item["type"]]
        for item in made
    ]  # fmt: skip
    outputs = [
        {
            "type": kind,
            "call_id": item["call_id"],
            **(
                {"status": "completed"}
                if kind == "apply_patch_call_output"
                else {"output": [] if kind == "shell_call_output" else "ok"}
            ),
        }
        for item, kind in zip(made, results, strict=True)
    ]
    assert Service().post(body(user(), *made, *outputs, tools=tools)).status == 200


def test_reasoning_and_words() -> None:
    """Reasoning first, with a summary where it is asked for; words before calls are commentary [A205 A209]."""
    both = script(Say("look"), Call("read", {"path": "/a"}))
    sent = body(user(), tools=[tool("read")])
    thought, words, _ = Service(script=both).taken({**sent, "reasoning": {"summary": "auto"}})["output"]
    assert thought["summary"][0]["text"].startswith("The next step")
    assert words["phase"] == "commentary"
    assert Service(script=script(Say("x"))).taken(sent)["output"][1]["phase"] == "final_answer"
    silent = Service(script=script(Think("t"), Say("x"))).taken({**sent, "reasoning": {"effort": "none"}})
    assert [item["type"] for item in silent["output"]] == ["message"]
    assert "phase" not in Service().taken(body(user(), model="gpt-5.1"))["output"][1]


def test_how_an_answer_ends() -> None:
    """Cut at the limit, filtered, or refused in words."""

    def ended(reason: str) -> Json:
        return Service(script=script(Say("x"), stop_reason=reason)).taken(body(user()))

    assert (ended("max_tokens")["status"], ended("max_tokens")["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )
    assert ended("content_filter")["incomplete_details"] == {"reason": "content_filter"}
    assert (ended("refusal")["status"], ended("refusal")["output"][1]["content"]) == (
        "completed",
        [{"type": "refusal", "refusal": "x"}],
    )


def test_a_schema_is_followed() -> None:
    """A title call gets its JSON."""
    form = {
        "type": "json_schema",
        "name": "t",
        "schema": {"type": "object", "properties": {"title": {"type": "string"}}},
    }
    made = Service().taken(body(user(), text={"format": form}))["output"][-1]
    assert json.loads(made["content"][0]["text"]) == {"title": "text"}


def test_a_script_sees_the_conversation() -> None:
    """An answer of several items is one message, results are results, tools are found wherever they stand."""
    seen = []

    def look(ask: Any) -> Reply:
        seen.append(ask)
        return Reply(blocks=(Say("x"),))

    added = {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "exec"}]}
    calls = [{"type": "function_call", "call_id": name, "name": "read", "arguments": "{}"} for name in "ab"]
    image = {"type": "input_image", "image_url": "data:x"}
    Service(script=look).taken(
        body(
            added,
            developer(),
            user([text("u"), image]),
            says("a"),
            *calls,
            output("a"),
            output("b", [text("r")]),
            says("z"),
            tools=[tool("read"), {"type": "web_search"}],
        )
    )
    assert seen[0].tools == {"read", "exec"}
    assert [
        (message["role"], [block["type"] for block in message["content"]])
        for message in seen[0].body["messages"]
    ] == [
        ("system", ["text"]),
        ("user", ["text", "input_image"]),
        ("assistant", ["text", "tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result"]),
        ("assistant", ["text"]),
    ]


# -- events ----------------------------------------------------------------------------------------------


def test_a_stream_says_what_the_body_says() -> None:
    """Numbered events, items whole when they are done, deltas that add up, usage at the end alone [C101]."""
    blocks = script(
        Think("thinking"), Say("some words"), Call("read", {"path": "/a"}), Call("patch", {"input": "patch"})
    )
    sent = body(user(), tools=[tool("read"), CUSTOM], reasoning={"summary": "auto"})
    whole = Service(script=blocks).taken(sent)
    stream = events(Service(script=blocks).post({**sent, "stream": True}))
    assert [one["sequence_number"] for one in stream] == list(range(len(stream)))
    kinds = [one["type"] for one in stream]
    assert list(dict.fromkeys(kinds)) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.completed",
    ]
    assert stream[-1]["response"] == whole
    assert [one["item"] for one in stream if one["type"] == "response.output_item.done"] == whole["output"]
    assert [
        one["response"]["usage"]
        for one in stream
        if one["type"] in ("response.created", "response.in_progress")
    ] == [None, None]

    def added(kind: str) -> str:
        return "".join(one["delta"] for one in stream if one["type"] == f"response.{kind}.delta")

    assert added("output_text") == "some words"
    assert added("reasoning_summary_text") == "thinking"
    assert added("function_call_arguments") == '{"path":"/a"}'
    assert added("custom_tool_call_input") == "patch"
    opened = [one["item"] for one in stream if one["type"] == "response.output_item.added"]
    assert [item.get("call_id") for item in opened] == [item.get("call_id") for item in whole["output"]]
    assert [
        (item.get("encrypted_content"), item.get("content"), item.get("arguments"), item.get("input"))
        for item in opened
    ] == [
        ("", None, None, None),
        (None, [], None, None),
        (None, None, "", None),
        (None, None, None, ""),
    ]
    indexes = {one["item_id"]: one["output_index"] for one in stream if "item_id" in one}
    assert indexes == {item["id"]: at for at, item in enumerate(whole["output"])}


def test_other_ends_of_a_stream() -> None:
    """One terminal event, whatever it is [C101]."""
    sent = body(user(), tools=[{"type": "shell"}], stream=True)
    long = events(Service(script=script(Say("x"), stop_reason="max_tokens")).post(sent))
    assert (long[-1]["type"], long[-1]["response"]["status"]) == ("response.incomplete", "incomplete")
    said = events(Service(script=script(Say("no"), stop_reason="refusal")).post(sent))
    assert [one["type"] for one in said][-5:] == [
        "response.refusal.delta",
        "response.refusal.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    shell = events(Service(script=script(Call("shell", {"commands": ["ls"]}))).post(sent))
    assert [one["item"]["status"] for one in shell if one.get("output_index") == 1] == [
        "in_progress",
        "completed",
    ]


def test_streams_break_as_told() -> None:
    """Cut behind some events, or failed in their place."""
    sent = body(user(), stream=True)
    cut = Service(script=script(Say("hello"), cut_after=3)).post(sent)
    assert (cut.abort, len(cut.events or ())) == (True, 3)
    failed = events(Service(script=script(Say("hello"), fail_after=3)).post(sent))
    assert [one["type"] for one in failed[2:]] == ["response.output_item.added", "response.failed"]
    assert (failed[-1]["response"]["error"]["code"], failed[-1]["sequence_number"]) == ("server_error", 3)


def test_failures_can_be_injected() -> None:
    """In the API's envelope, by a queue or a hook; keys are not in the log."""
    service = Service()
    service.provider.canned.append(service.provider.error(429, "slow down", "rate_limit_exceeded"))
    assert service.error(body(user())) == (
        429,
        {"message": "slow down", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"},
    )
    hooked = Service(hook=lambda _: Canned(500, b"{}"))
    assert hooked.post(body(user()), key="secret").status == 500
    assert hooked.provider.log[0].json == body(user())
    quiet = Service(settings=Settings(keep_bodies=False))
    quiet.post(body(user()))
    assert quiet.provider.log[0].body == b""
    assert "secret" not in repr(hooked.provider.log)


def test_the_server_serves_it() -> None:
    """Streamed and whole, compressed bodies, refusals with their status."""
    zstd = pytest.importorskip("backports.zstd")
    with Server(ResponsesProvider()) as server:
        status, kind, whole = post(server, json.dumps(body(user())).encode())
        assert (status, kind, json.loads(whole)["status"]) == (200, "application/json", "completed")
        packed = zstd.compress(json.dumps(body(user(), stream=True)).encode())
        status, kind, stream = post(server, packed, **{"content-encoding": "zstd"})
        assert (status, kind.partition(";")[0]) == (200, "text/event-stream")
        assert stream.rsplit(b"event: ", 1)[1].startswith(b"response.completed\n")
        status, _, refused = post(server, json.dumps(body(user(), foo=1)).encode())
        assert (status, json.loads(refused)["error"]["code"]) == (400, "unknown_parameter")


# -- the client in Codex's shape -------------------------------------------------------------------------


def played(codex: Codex, service: Service, tasks: int = 2) -> list[tuple[Json, Answer]]:
    """A session to its end: each body and its answer."""
    found = []
    for task in range(tasks):
        codex.ask(f"task {task}")
        going = True
        while going:
            sent = json.loads(json.dumps(codex.body()))
            answer = service.post(sent)
            assert answer.status == 200, answer.body
            found.append((sent, answer))
            going = codex.take(
                [one["item"] for one in events(answer) if one["type"] == "response.output_item.done"]
            )
    return found


@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-6.1-sol"])
def test_a_session_is_accepted_and_only_grows(model: str) -> None:
    """Items are appended and never changed; on a new model all that was sent is read again."""
    service = Service(script=explorer(["/a.py", "/b.py"], 6))
    turns = played(Codex(Shape(seed=1, model=model), lambda _: "line\n" * 200), service)
    assert len(turns) == 14
    for (before, old), (after, new) in zip(turns, turns[1:], strict=False):
        assert after["input"][: len(before["input"])] == before["input"]
        if model.startswith("gpt-6"):
            assert new.exchange.read == old.exchange.total
            assert "input_transformations" not in events(new)[-1]["response"]
    calls = [item["type"] for item in turns[-1][0]["input"] if item["type"].endswith("call")]
    assert set(calls) == (
        {"custom_tool_call"} if model.startswith("gpt-6") else {"custom_tool_call", "function_call"}
    )
    assert len(calls) == (12 if model.startswith("gpt-6") else 16)


def test_two_sessions_share_no_ids() -> None:
    """Nor keys; the same seed gives the same bodies, and the keys of its metadata are in another order each time."""

    def bodies(seed: int) -> list[Json]:
        service = Service(script=explorer(["/a.py"], 3))
        return [sent for sent, _ in played(Codex(Shape(seed=seed), lambda _: "x"), service)]

    one, again, other = bodies(1), bodies(1), bodies(2)
    assert json.dumps(one) == json.dumps(again)
    assert not {item["id"] for item in one[0]["input"]} & {item["id"] for item in other[0]["input"]}
    assert one[0]["prompt_cache_key"] != other[0]["prompt_cache_key"]
    assert len({tuple(sent["client_metadata"]) for sent in one}) > 1
    assert len({json.dumps(sent["client_metadata"], sort_keys=True) for sent in one[:4]}) == 1


def test_the_shape_is_that_of_codex() -> None:
    """Members in order, the developer's message first or behind the tools, bodies as long as real ones."""
    old, new = Codex(Shape(seed=1), lambda _: "x"), Codex(Shape(seed=1, model="gpt-6.1-sol"), lambda _: "x")
    assert list(old.body()) == [
        "model",
        "stream",
        "input",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning",
        "store",
        "include",
        "prompt_cache_key",
        "text",
        "client_metadata",
    ]
    assert "tools" not in new.body()
    assert [item.get("role") for item in old.body()["input"]] == ["developer", "developer", "user"]
    assert [item["type"] for item in new.body()["input"]][:2] == ["additional_tools", "message"]
    assert 30_000 < len(json.dumps(old.body())) < 50_000
    assert 40_000 < len(json.dumps(new.body())) < 80_000
    assert old.headers["session-id"] == old.body()["prompt_cache_key"]


def test_a_client_may_lose_items() -> None:
    """And say its instructions anew: what sessions are broken with."""
    times = iter(range(100))
    codex = Codex(
        Shape(seed=1),
        lambda _: "x",
        opening=lambda: f"Time {next(times)}",
        keep=lambda items: [item for item in items if not item["type"].endswith("_output")],
    )
    service = Service(script=explorer(["/a.py"], 3))
    codex.ask("go")
    first = codex.body()["input"][0]["content"]
    codex.take(
        [
            one["item"]
            for one in events(service.post(codex.body()))
            if one["type"] == "response.output_item.done"
        ]
    )
    assert codex.body()["input"][0]["content"] != first
    assert service.error(codex.body())[1]["message"].startswith(
        "No tool output found for function call call_"
    )


def test_a_reasoning_item_without_an_id_is_taken() -> None:
    """As clients send it that drop ids."""
    service = Service()
    made = service.taken(body(user(), store=False))["output"]
    nameless = reasoning(None, encrypted_content=made[0]["encrypted_content"])
    assert service.post(body(user(), nameless, says(), user(), store=False)).status == 200
