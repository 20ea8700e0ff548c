"""What the embedded chat services refuse, in the words of the real ones."""

import json

import pytest

from proxy.simulator.chat import DEEPSEEK, KIMI, LLAMA, MISTRAL, OPENAI, VLLM, ZAI, Flavour
from proxy.simulator.settings import Settings

from .chat import Json, Service, body, call, calls, says, system, tool, tools, user

NO_RESULT = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
NO_CALL = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
EMPTY = "empty array. Expected an array with minimum length 1, but got an empty array instead."
ANYONE = [OPENAI, DEEPSEEK, KIMI, MISTRAL, ZAI, LLAMA, VLLM]


def openai_error(message: str, param: str | None, code: str | None) -> Json:
    return {"message": message, "type": "invalid_request_error", "param": param, "code": code}


@pytest.mark.parametrize("flavour", ANYONE, ids=lambda flavour: flavour.name)
def test_a_whole_session_is_accepted_everywhere(flavour: Flavour) -> None:
    """System first, roles alternate, calls answered at once, ids of nine letters, reasoning kept."""
    sent = body(
        system(),
        user(),
        calls("callAAAA1", "callAAAA2", reasoning_content="h"),
        tool("callAAAA2"),
        tool("callAAAA1", [{"type": "text", "text": "ok"}]),
        says("done", reasoning_content="h"),
        user("more"),
        model="gpt-4.1" if flavour is OPENAI else "m",
        tools=tools("read"),
    )
    assert Service(flavour).post(sent).status == 200


@pytest.mark.parametrize(
    ("sent", "message", "param", "code"),
    [
        (body(), f"Invalid 'messages': {EMPTY}", "messages", "empty_array"),
        ({"messages": [user()]}, "Missing required parameter: 'model'.", "model", "missing_required_parameter"),
        ({"model": "m"}, "Missing required parameter: 'messages'.", "messages", "missing_required_parameter"),
        ({"model": "m", "messages": "x"}, "Invalid type for 'messages': expected an array of objects, but got a string instead.", "messages", "invalid_type"),
        (
            body({"role": "narrator", "content": "x"}),
            "Invalid value: 'narrator'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
            "messages[0].role",
            "invalid_value",
        ),
        (body({"content": "x"}), "Missing required parameter: 'messages[0].role'.", "messages[0].role", "missing_required_parameter"),
        (body(user(None)), "Invalid value for 'content': expected a string, got null.", "messages.[0].content", None),
        (body(user(7)), "Invalid type for 'messages[0].content': expected an array of objects, but got an integer instead.", "messages[0].content", "invalid_type"),
        (body(user(), says(None)), "Invalid value for 'content': expected a string, got null.", "messages.[1].content", None),
        (body(user(), says("x", tool_calls=[])), f"Invalid 'messages[1].tool_calls': {EMPTY}", "messages[1].tool_calls", "empty_array"),
        (body(user(), calls("a"), user()), f"{NO_RESULT} The following tool_call_ids did not have response messages: a", "messages.[2].role", None),
        (body(user(), calls("a", "b"), tool("a"), user(), tool("b")), f"{NO_RESULT} The following tool_call_ids did not have response messages: b", "messages.[2].role", None),
        (body(user(), calls("a", "b")), f"{NO_RESULT} The following tool_call_ids did not have response messages: a, b", "messages.[1].role", None),
        (body(user(), tool("a")), NO_CALL, "messages.[1].role", None),
        (body(user(), calls("a"), tool("a"), tool("b")), NO_CALL, "messages.[3].role", None),
        (
            body(user(), calls("x" * 41), tool("x" * 41)),
            "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 41 instead.",
            "messages[1].tool_calls[0].id",
            "string_above_max_length",
        ),
        (
            body(user(), {"role": "tool", "content": "x"}),
            "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.",
            "messages.[1].tool_call_id",
            None,
        ),
        (
            body(user(), calls("a"), tool("a", [{"type": "image_url", "image_url": {"url": "u"}}])),
            "Invalid 'messages[2]'. Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an image URL.",
            "messages[2]",
            "invalid_value",
        ),
        (
            body(user([{"type": "input_text", "text": "x"}])),
            "Invalid value: 'input_text'. Supported values are: 'text', 'image_url', 'input_audio', 'file', and 'refusal'.",
            "messages[0].content[0].type",
            "invalid_value",
        ),
        (body(user([{"type": "text"}])), "Missing required parameter: 'messages[0].content[0].text'.", "messages[0].content[0].text", "missing_required_parameter"),
        (
            body(user([{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}])),
            "Unknown parameter: 'messages[0].content[0].cache_control'.",
            "messages[0].content[0].cache_control",
            "unknown_parameter",
        ),
        (
            body(user([{"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}}])),
            "Unknown parameter: 'messages[0].content[0].prompt_cache_breakpoint'.",
            "messages[0].content[0].prompt_cache_breakpoint",
            "unknown_parameter",
        ),
        (body(user([])), f"Invalid 'messages[0].content': {EMPTY}", "messages[0].content", "empty_array"),
        (body(user(), thinking={"type": "enabled"}), "Unknown parameter: 'thinking'.", "thinking", "unknown_parameter"),
        (
            body(user(), tools=tools("read file")),
            "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            "tools[0].function.name",
            "invalid_value",
        ),
        (
            body(user(), {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}}]}),
            "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an object instead.",
            "messages[1].tool_calls[0].function.arguments",
            "invalid_type",
        ),
        (
            body(user(), max_tokens=5),
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
        (
            body(user(), temperature=0.2),
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
            "temperature",
            "unsupported_value",
        ),
        (body(user(), temperature=1, model="gpt-6.1"), "Unsupported parameter: 'temperature' is not supported with this model.", "temperature", "unsupported_parameter"),
        (
            body(user(), user="x" * 150),
            "Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with length 150 instead.",
            "user",
            "string_above_max_length",
        ),
        (body(user(), prompt_cache_options={}), "Unsupported parameter: 'prompt_cache_options' is not supported with this model.", "prompt_cache_options", "unsupported_parameter"),
    ],
)  # fmt: skip
def test_openai_refuses(sent: Json, message: str, param: str | None, code: str | None) -> None:
    """With its wording, the place, and its code [A100-A106]."""
    assert Service(OPENAI).error(sent) == (400, openai_error(message, param, code))


@pytest.mark.parametrize(
    "sent",
    [
        body(user(), user(), system("late"), says(""), says("x"), user(), model="gpt-4.1", temperature=0.2, max_tokens=9),
        body({"role": "developer", "content": "x"}, says("first")),
        body(user(), calls("a", "b"), tool("b"), tool("a"), user()),
        body(user(), {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}]}, tool("a")),
        body(user(), {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}, {"role": "function", "name": "f", "content": "x"}),
        body(user(), says(None, refusal="no"), user()),
        body(user([{"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}}]), model="gpt-5.6-luna", prompt_cache_options={"mode": "explicit"}),
    ],
)  # fmt: skip
def test_openai_accepts(sent: Json) -> None:
    """Any order of speakers, results in any order, both kinds of calls, the legacy form, breakpoints where they are."""
    answer = Service(OPENAI).post(sent)
    assert answer.status == 200, answer.body


def test_deepseek_wants_its_reasoning_back() -> None:
    """Of all answers, plain ones too, where tools are on offer; a space will do, and so will thinking turned off [A400]."""
    service = Service(DEEPSEEK)
    history = [user(), says("x"), user()]
    kept = [user(), says("x", reasoning_content=" "), user()]
    message = "The `reasoning_content` in the thinking mode must be passed back to the API."
    refused = (400, openai_error(message, None, "invalid_request_error"))
    assert service.error(body(*history, tools=tools("read"))) == refused
    assert service.post(body(*history)).status == 200
    assert service.post(body(*kept, tools=tools("read"))).status == 200
    assert service.post(body(*history, tools=tools("read"), thinking={"type": "disabled"})).status == 200


def test_deepseek_pairing_and_kinds_of_calls() -> None:
    """Its own end of the sentence, correctly spelt orphans, and function tools only [A401 A402]."""
    service = Service(DEEPSEEK)
    thought = {"reasoning_content": "h"}
    missing = f"{NO_RESULT} (insufficient tool messages following tool_calls message)"
    orphan = "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
    assert service.error(body(user(), calls("a", **thought), user())) == (
        400,
        openai_error(missing, None, "invalid_request_error"),
    )
    assert service.error(body(user(), tool("a"))) == (
        400,
        openai_error(orphan, None, "invalid_request_error"),
    )
    assert service.error(body(user(), tools=[{"type": "custom", "custom": {"name": "f"}}]))[0] == 400


def test_kimi() -> None:
    """Reasoning of tool turns, nothing empty, and pairing in lower case [A410 A411]."""
    service = Service(KIMI)

    def message(*messages: Json, **members: object) -> str:
        status, error = service.error(body(*messages, **members))
        assert status == 400
        return str(error["message"])

    lost = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1"
    assert message(user(), calls("a"), tool("a")) == lost
    assert (
        message(user(), says(""), user())
        == "Invalid request: message at position 1 with role 'assistant' must not be empty"
    )
    assert message(user(), calls("a", reasoning_content="h"), user()) == (
        "Invalid request: an assistant message with 'tool_calls' must be followed by tool messages responding to each "
        "'tool_call_id'. The following tool_call_ids did not have response messages: a"
    )
    assert message(user(), tool("a")).startswith("Invalid request: tool_call_id")
    assert "tool_choice" in message(user(), tool_choice="required")
    assert service.post(body(user(), says("plain answers may have lost theirs"), user())).status == 200


def test_mistral() -> None:
    """Ids of nine letters, nobody speaks behind a tool, the model is not the last [A430]."""
    service = Service(MISTRAL)

    def refused(*messages: Json) -> tuple[str, str]:
        status, error = service.error(body(*messages))
        assert (status, error["object"]) == (400, "error")
        return error["message"], error["type"]

    kind = "invalid_request_message_error"
    assert refused(user(), calls("call_1"), tool("call_1")) == (
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        kind,
    )
    assert refused(user(), calls("abcdefgh1"), tool("abcdefgh1"), user()) == (
        "Unexpected role 'user' after role 'tool'",
        kind,
    )
    assert refused(user(), calls("abcdefgh1"), user()) == (
        "Not the same number of function calls and responses",
        kind,
    )
    assert refused(user(), says("x"))[0].startswith("Expected last role User or Tool")
    assert service.post(body(user(), says("x", prefix=True))).status == 200


@pytest.mark.parametrize(
    "messages",
    [
        [system()],
        [system(), says("x"), user()],
        [user(), user()],
        [user(), says("")],
        [user(), tool("a")],
        [user("")],
    ],
)
def test_zai_says_one_thing(messages: list[Json]) -> None:
    """Whatever is wrong with the messages [A420]."""
    error = {"code": "1214", "message": "messages 参数非法。请检查文档。"}
    assert Service(ZAI).error(body(*messages)) == (400, error)


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([user(), user()], "conversation roles must alternate user and assistant"),
        ([system(), says("x")], "conversation roles must alternate user and assistant"),
        ([system(), user(), system()], "System message must be at the beginning"),
        ([system(), system(), user()], "System message must be at the beginning"),
    ],
)
def test_a_strict_template_fails_as_the_server(messages: list[Json], fault: str) -> None:
    """With 500, which clients try again [A521]."""
    status, error = Service(LLAMA).error(body(*messages))
    assert (status, error["code"], error["type"]) == (500, 500, "server_error")
    assert fault in error["message"]


def test_a_template_asks_nothing_of_calls() -> None:
    """Calls without results, results without ids: the template renders what there is."""
    sent = body(
        user(),
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "content": "x"},
        says("y"),
        user(),
    )
    assert Service(LLAMA).post(sent).status == 200


def test_too_long() -> None:
    """[A107]."""
    status, error = Service(OPENAI, window=10).error(body(user("x" * 100)))
    assert (status, error["code"]) == (400, "context_length_exceeded")
    assert error["message"].startswith(
        "This model's maximum context length is 10 tokens. However, your messages resulted in 28 tokens."
    )


def test_what_is_no_chat_request() -> None:
    """No JSON, no object, no key, another path: each in the family's envelope."""
    service = Service(OPENAI, settings=Settings(require_auth=True))
    answers = [
        service.provider.answer([("authorization", "Bearer k")], b"{", 0.0),
        service.provider.answer([("authorization", "Bearer k")], b"[]", 0.0),
        service.provider.answer([], json.dumps(body(user())).encode(), 0.0),
        service.provider.answer([("authorization", "Bearer k")], b"{}", 0.0, "/v1/embeddings"),
    ]
    assert [answer.status for answer in answers] == [400, 400, 401, 404]
    assert all(answer.json["error"]["type"] == "invalid_request_error" for answer in answers)


def test_keys_are_not_kept() -> None:
    """The record shows a fingerprint."""
    service = Service(OPENAI)
    service.post(body(user()), key="sk-secret")
    [(_, shown)] = service.provider.log[0].headers
    assert shown.startswith("Bearer sha256:")
    assert "secret" not in shown


def test_failures_to_inject() -> None:
    """Canned ones in order, then what the hook says, in the service's envelope."""
    service = Service(MISTRAL)
    service.provider.canned.append(service.provider.error(429, "Rate limit exceeded", "rate_limited"))
    assert service.error(body(user())) == (
        429,
        {
            "object": "error",
            "message": "Rate limit exceeded",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limited",
        },
    )
    service.provider.hook = lambda exchange: service.provider.error(503, exchange.path)
    assert service.error(body(user()))[0] == 503
    assert [exchange.status for exchange in service.provider.log] == [429, 503]
