"""What the embedded Responses API refuses, in the words of the real one."""

import json

import pytest

from proxy.simulator.responses import Behaviour
from proxy.simulator.settings import Settings

from .responses import (
    Json,
    Service,
    body,
    call,
    custom,
    custom_output,
    developer,
    output,
    reasoning,
    says,
    text,
    tool,
    user,
)

PARTS = (
    "'input_text', 'input_image', 'input_audio', 'output_text', 'refusal', 'input_file', 'computer_screenshot', "
    "'summary_text', and 'encrypted_content'."
)
LONG = "Expected a string with maximum length"
EMPTY = "empty array. Expected an array with minimum length 1, but got an empty array instead."
IDS = "Expected an ID that contains letters, numbers, underscores, or dashes, but this value contained additional characters."
ONE_OF = "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided."


def error(message: str, param: str | None, code: str | None) -> Json:
    return {"message": message, "type": "invalid_request_error", "param": param, "code": code}


def refused(sent: Json, message: str, param: str | None, code: str | None, status: int = 400) -> None:
    assert Service().error(sent) == (status, error(message, param, code))


def test_a_whole_session_is_accepted() -> None:
    """Items of all kinds a coding agent sends, ids on them or not, outputs anywhere behind their calls."""
    sent = body(
        developer(),
        {
            "role": "user",
            "content": [text("hi"), {"type": "input_image", "image_url": "data:x", "detail": "auto"}],
        },
        call("c1", id="fc_1", status="completed"),
        custom("c2", namespace="functions", id="ctc_1"),
        says(
            [{"type": "output_text", "text": "now", "annotations": []}],
            id="msg_1",
            status="completed",
            phase="commentary",
        ),
        output("c1", [text("done")], id="fco_0a-b"),
        user("meanwhile"),
        custom_output("c2", [text("done")]),
        {
            "type": "local_shell_call",
            "call_id": "c3",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
        output("c3"),
        {"type": "shell_call", "call_id": "c4", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c4", "output": []},
        {
            "type": "apply_patch_call",
            "call_id": "c5",
            "status": "completed",
            "operation": {"type": "delete_file", "path": "a"},
        },
        {"type": "apply_patch_call_output", "call_id": "c5", "status": "completed"},
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "q"},
        },
        {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [tool("later")]},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        user(),
        instructions="Be kind.",
        tools=[
            tool("read"),
            {"type": "custom", "name": "patch"},
            {"type": "local_shell"},
            {"type": "shell"},
            {"type": "apply_patch"},
            {"type": "namespace", "name": "n", "description": "d", "tools": [tool("inner")]},
            {"type": "web_search"},
        ],
        tool_choice="auto",
        parallel_tool_calls=True,
        reasoning={"effort": "low", "summary": "auto"},
        text={"verbosity": "low"},
        store=False,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="k",
        client_metadata={"turn": "1"},
    )
    assert Service().post(sent).status == 200


@pytest.mark.parametrize(
    ("sent", "message", "param", "code"),
    [
        ({"input": "x"}, "Missing required parameter: 'model'.", "model", "missing_required_parameter"),
        ({"model": "m"}, ONE_OF, "input", "missing_required_parameter"),
        (body(), ONE_OF, "input", "missing_required_parameter"),
        ({"model": "m", "input": 7}, "Invalid type for 'input': expected a string or an array of items, but got an integer instead.", "input", "invalid_type"),
        (body(user(), messages=[]), "Unknown parameter: 'messages'.", "messages", "unknown_parameter"),
        (body(user(), foo=1), "Unknown parameter: 'foo'.", "foo", "unknown_parameter"),
        (body(user(), reasoning={"budget": 1}), "Unknown parameter: 'reasoning.budget'.", "reasoning.budget", "unknown_parameter"),
        (body(user(foo=1)), "Unknown parameter: 'input[0].foo'.", "input[0].foo", "unknown_parameter"),
        (body(user([{"type": "input_text"}])), "Missing required parameter: 'input[0].content[0].text'.", "input[0].content[0].text", "missing_required_parameter"),
        (body(user([{"text": "x"}])), "Missing required parameter: 'input[0].content[0].type'.", "input[0].content[0].type", "missing_required_parameter"),
        (body(user([{"type": "text", "text": "x"}])), f"Invalid value: 'text'. Supported values are: {PARTS}", "input[0].content[0].type", "invalid_value"),
        (
            body(user(), says([text("x")])),
            "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
            "input[1].content[0].type",
            "invalid_value",
        ),
        (
            body(user([{"type": "output_text", "text": "x"}])),
            "Invalid value: 'output_text'. Supported values are: 'input_text', 'input_image', and 'input_file'.",
            "input[0].content[0].type",
            "invalid_value",
        ),
        (
            body(user(), call("c"), output("c", [{"type": "output_text", "text": "x"}])),
            "Invalid value: 'output_text'. Supported values are: 'input_text', 'input_image', 'input_file', and 'scoped_content'.",
            "input[2].output[0]",
            "invalid_value",
        ),
        (
            body({"role": "tool", "content": "x"}),
            "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
            "input[0].role",
            "invalid_value",
        ),
        (body({"type": "message", "content": "x"}), "Missing required parameter: 'input[0].role'.", "input[0].role", "missing_required_parameter"),
        (body({"content": "x"}), "Missing required parameter: 'input[0].type'.", "input[0].type", "missing_required_parameter"),
        (body(user(None)), "Invalid type for 'input[0].content': expected an array of objects, but got null instead.", "input[0].content", "invalid_type"),
        (body(user(), call("c", arguments={})), "Invalid type for 'input[1].arguments': expected a string, but got an object instead.", "input[1].arguments", "invalid_type"),
        (body(user(), {"type": "function_call", "call_id": "c", "name": "n"}), "Missing required parameter: 'input[1].arguments'.", "input[1].arguments", "missing_required_parameter"),
        (body(user(), {"type": "reasoning", "id": "rs_1"}), "Missing required parameter: 'input[1].summary'.", "input[1].summary", "missing_required_parameter"),
        (body(user(), reasoning(None)), "Missing required parameter: 'input[1].id'.", "input[1].id", "missing_required_parameter"),
        (body(user(), reasoning(summary=[{"text": "x"}])), "Missing required parameter: 'input[1].summary[0].type'.", "input[1].summary[0].type", "missing_required_parameter"),
        (body(user(), call("c"), user()), "No tool output found for function call c.", "input", None),
        (body(user(), output("c"), call("c")), "No tool call found for function call output with call_id c.", "input", None),
        (body(user(), output("c")), "No tool call found for function call output with call_id c.", "input", None),
        (body(user(), custom("c")), "No tool output found for custom tool call c.", "input", None),
        (body(user(), custom_output("c")), "No tool call found for custom tool call output with call_id c.", "input", None),
        (body(user(), custom("c"), output("c")), "No tool call found for function call output with call_id c.", "input", None),
        (
            body(user(), {"type": "local_shell_call", "call_id": "c", "status": "completed", "action": {"type": "exec", "command": [], "env": {}}}),
            "No tool output found for local shell call c.",
            "input",
            None,
        ),
        (
            body(user(), {"type": "local_shell_call", "id": "lsh_1", "call_id": "c", "status": "completed", "action": {"type": "exec", "command": [], "env": {}}},
                 {"type": "local_shell_call_output", "id": "c", "output": "x"}),
            "No tool output found for local shell call c.",
            "input",
            None,
        ),
        (body(user(), call("c", id="msg_5"), output("c")), "Invalid 'input[1].id': 'msg_5'. Expected an ID that begins with 'fc'.", "input[1].id", "invalid_value"),
        (body(user(), custom("c", id="fc_5"), custom_output("c")), "Invalid 'input[1].id': 'fc_5'. Expected an ID that begins with 'ctc'.", "input[1].id", "invalid_value"),
        (body(user(), says(id="resp_1")), "Invalid 'input[1].id': 'resp_1'. Expected an ID that begins with 'msg'.", "input[1].id", "invalid_value"),
        (body(user(), call("c", id="fc_a|b"), output("c")), f"Invalid 'input[1].id': 'fc_a|b'. {IDS}", "input[1].id", "invalid_value"),
        (
            body(user(), call("c", id="fc_" + "x" * 405), output("c")),
            f"Invalid 'input[1].id': string too long. {LONG} 64, but got a string with length 408 instead.",
            "input[1].id",
            "string_above_max_length",
        ),
        (
            body(user(), call("x" * 80), output("x" * 80)),
            f"Invalid 'input[1].call_id': string too long. {LONG} 64, but got a string with length 80 instead.",
            "input[1].call_id",
            "string_above_max_length",
        ),
        (
            body(user(), call(""), output("")),
            "Invalid 'input[1].call_id': empty string. Expected a string with minimum length 1, but got an empty string instead.",
            "input[1].call_id",
            "empty_string",
        ),
        (body(user(id="msg_1"), says(id="msg_1")), "Duplicate item found with id msg_1. Remove duplicate items from your input and try again.", "input", None),
        (
            body({"type": "compaction_trigger"}, user()),
            "Invalid 'input[0]': 'compaction_trigger' must be the final input item.",
            "input[0]",
            "invalid_value",
        ),
        (body(user(), max_output_tokens=15), "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 15 instead.", "max_output_tokens", "integer_below_min_value"),
        (
            body(user(), prompt_cache_key="x" * 65),
            f"Invalid 'prompt_cache_key': string too long. {LONG} 64, but got a string with length 65 instead.",
            "prompt_cache_key",
            "string_above_max_length",
        ),
        (
            body(user(), model="gpt-5.6-luna", reasoning={"effort": "minimal"}),
            "Unsupported value: 'minimal' is not supported with the 'gpt-5.6-luna' model.",
            "reasoning.effort",
            "unsupported_value",
        ),
        (body(user(), model="gpt-4.1", reasoning={"effort": "low"}), "Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning.effort", "unsupported_parameter"),
        (body(user(), temperature=0.2), "Unsupported parameter: 'temperature' is not supported with this model.", "temperature", "unsupported_parameter"),
        (body(user(), model="gpt-5.5", prompt_cache_options={"ttl": "30m"}), "Unsupported parameter: 'prompt_cache_options' is not supported with this model.", "prompt_cache_options", "unsupported_parameter"),
        (
            body(user([text("x", {"mode": "explicit"})]), model="gpt-5.5"),
            "Unknown parameter: 'input[0].content[0].prompt_cache_breakpoint'.",
            "input[0].content[0].prompt_cache_breakpoint",
            "unknown_parameter",
        ),
        (
            body(user(), says([{"type": "output_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}}])),
            "Unknown parameter: 'input[1].content[0].prompt_cache_breakpoint'.",
            "input[1].content[0].prompt_cache_breakpoint",
            "unknown_parameter",
        ),
        (body(user(), tool_choice="any"), "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'.", "tool_choice", "invalid_value"),
        (body(user(), tool_choice={"type": "function", "name": "x"}), "Tool choice 'function' not found in 'tools' parameter.", "tool_choice", None),
        (body(user(), previous_response_id="r", conversation="c"), "Mutually exclusive parameters. Ensure you are only providing one of: 'previous_response_id' or 'conversation'.", None, "mutually_exclusive_parameters"),
        (body(user(), previous_response_id="resp_x"), "Previous response with id 'resp_x' not found.", "previous_response_id", "previous_response_not_found"),
        (body(user(), include=["all"], model="m"), None, "include[0]", "invalid_value"),
        (body("x"), "Invalid type for 'input[0]': expected an object, but got a string instead.", "input[0]", "invalid_type"),
        (body([]), "Invalid type for 'input[0]': expected an object, but got an array instead.", "input[0]", "invalid_type"),
        (body(user(), store="no"), "Invalid type for 'store': expected a boolean, but got a string instead.", "store", "invalid_type"),
        (body(user(), top_logprobs=1.5), "Invalid type for 'top_logprobs': expected an integer, but got a decimal instead.", "top_logprobs", "invalid_type"),
        (body(user(), top_logprobs=True), "Invalid type for 'top_logprobs': expected an integer, but got a boolean instead.", "top_logprobs", "invalid_type"),
        (body(user(), tools={}), "Invalid type for 'tools': expected an array of objects, but got an object instead.", "tools", "invalid_type"),
        (body(user(), metadata=[]), "Invalid type for 'metadata': expected an object, but got an array instead.", "metadata", "invalid_type"),
        (body(user(), tool_choice={"type": "custom"}), "Missing required parameter: 'tool_choice.name'.", "tool_choice.name", "missing_required_parameter"),
        (body(user(), previous_response_id=7), "Invalid type for 'previous_response_id': expected a string, but got an integer instead.", "previous_response_id", "invalid_type"),
    ],
)  # fmt: skip
def test_refusals(sent: Json, message: str | None, param: str | None, code: str | None) -> None:
    """One fault each, named by its place, with its code [A200-A214]."""
    status, found = Service().error(sent)
    assert (status, found) == (400, error(message or found["message"], param, code))


@pytest.mark.parametrize(
    ("given", "message", "param", "code"),
    [
        ({"type": "function", "function": {"name": "x"}}, "Missing required parameter: 'tools[0].name'.", "tools[0].name", "missing_required_parameter"),
        (tool("a b"), "Invalid 'tools[0].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", "tools[0].name", "invalid_value"),
        (tool("a" * 65), f"Invalid 'tools[0].name': string too long. {LONG} 64, but got a string with length 65 instead.", "tools[0].name", "string_above_max_length"),
        (tool("a", input_schema={}), "Unknown parameter: 'tools[0].input_schema'.", "tools[0].input_schema", "unknown_parameter"),
        (tool("a", parameters={}), "Invalid schema for function 'a': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'.", "tools[0].parameters", "invalid_function_parameters"),
        (
            tool("a", strict=True),
            "Invalid schema for function 'a': In context=(), 'additionalProperties' is required to be supplied and to be false.",
            "tools[0].parameters",
            "invalid_function_parameters",
        ),
        (
            tool("a", strict=True, parameters={"type": "object", "additionalProperties": False, "properties": {"b": {"type": "string"}}, "required": []}),
            "Invalid schema for function 'a': In context=(), 'required' is required to be supplied and to be an array including every key in properties. Missing 'b'.",
            "tools[0].parameters",
            "invalid_function_parameters",
        ),
        (
            tool("a", strict=True, parameters={"type": "object", "additionalProperties": False, "required": ["b"],
                                              "properties": {"b": {"type": "array", "items": {"type": "object", "properties": {}}}}}),
            "Invalid schema for function 'a': In context=('properties', 'b', 'items'), 'additionalProperties' is required to be supplied and to be false.",
            "tools[0].parameters",
            "invalid_function_parameters",
        ),
        (
            tool("a", strict=True, parameters={"type": "object", "additionalProperties": False, "required": ["b"],
                                              "properties": {"b": {"anyOf": [{"type": "null"}, {"type": "object"}]}}}),
            "Invalid schema for function 'a': In context=('properties', 'b', 'anyOf'), 'additionalProperties' is required to be supplied and to be false.",
            "tools[0].parameters",
            "invalid_function_parameters",
        ),
        (tool("a", defer_loading=True), "Invalid Value: 'tools.defer_loading'. Deferred tools require tools.tool_search.", "tools.defer_loading", "invalid_value"),
        ({"type": "namespace", "name": "n", "description": "d", "tools": []}, f"Invalid 'tools[0].tools': {EMPTY}", "tools[0].tools", "empty_array"),
        ({"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "ebnf", "definition": ""}},
         "Invalid value: 'ebnf'. Supported values are: 'lark' and 'regex'.", "tools[0].format.syntax", "invalid_value"),
        ({"type": "mcp"}, "Missing required parameter: 'tools[0].server_label'.", "tools[0].server_label", "missing_required_parameter"),
    ],
)  # fmt: skip
def test_tools(given: Json, message: str, param: str, code: str) -> None:
    """Names, schemas, members [A213 A214]; an unknown kind lists all others."""
    assert Service().error(body(user(), tools=[given])) == (400, error(message, param, code))


def test_schemas_of_answers() -> None:
    """Types are what types can be, at any depth."""
    for schema in ({"type": []}, {"properties": {"a": {"items": {"type": 7}}}}):
        sent = body(user(), text={"format": {"type": "json_schema", "name": "t", "schema": schema}})
        assert Service().error(sent)[1]["code"] == "invalid_json_schema"
    schema = {"type": ["object", "null"], "properties": {"a": {"type": "array", "items": {"type": "string"}}}}
    sent = body(user(), text={"format": {"type": "json_schema", "name": "t", "schema": schema}})
    assert Service().taken(sent)["output"][-1]["content"][0]["text"] == '{"a":["text"]}'


def test_what_a_tool_may_leave_out() -> None:
    """Parameters of a function, all but the name of a custom one; a choice of tools may be of any kind."""
    tools = [{"type": "function", "name": "a", "strict": True}, {"type": "custom", "name": "b"}]
    for choice in (
        {"type": "function", "name": "a"},
        {"type": "custom", "name": "b"},
        {"type": "allowed_tools", "mode": "auto", "tools": []},
        "none",
    ):
        assert Service().post(body(user(), tools=tools, tool_choice=choice)).status == 200
    assert Service().post({"model": "m", "input": "just words"}).status == 200


def test_deferred_tools_with_a_search_are_accepted() -> None:
    """[A214]."""
    assert (
        Service().post(body(user(), tools=[tool("a", defer_loading=True), {"type": "tool_search"}])).status
        == 200
    )


def test_an_unknown_kind_of_tool_or_item() -> None:
    """The refusal lists those there are."""
    _, found = Service().error(body(user(), tools=[{"type": "bash"}]))
    assert found["message"].startswith("Invalid value: 'bash'. Supported values are: 'function', 'custom',")
    assert found["param"] == "tools[0].type"
    _, found = Service().error(body(user(), {"type": "tool_result"}))
    assert found["message"].startswith(
        "Invalid value: 'tool_result'. Supported values are: 'message', 'reasoning',"
    )
    assert found["param"] == "input[1]"


@pytest.mark.parametrize(
    "follower",
    [user(), None, output("c0"), says(""), says([])],
    ids=["user", "nothing", "output", "empty words", "no words"],
)
def test_reasoning_with_an_id_needs_what_follows_it(follower: Json | None) -> None:
    """A message of the model's with something in it, or a call; without an id nothing is asked [A202]."""
    service = Service()
    token = service.taken(body(user()))["output"][0]["encrypted_content"]
    before = [user(), call("c0")] if follower and follower["type"] == "function_call_output" else [user()]
    rest = [] if follower is None else [follower]
    named = service.error(body(*before, reasoning(encrypted_content=token), *rest, store=False))
    assert named == (
        400,
        error(
            "Item 'rs_1' of type 'reasoning' was provided without its required following item.", "input", None
        ),
    )
    assert (
        service.post(body(*before, reasoning(None, encrypted_content=token), *rest, store=False)).status
        == 200
    )


def test_sealed_content() -> None:
    """Cut, foreign or made elsewhere it cannot be verified; the refusal names the item or shows its ends [A205]."""
    service = Service()
    token = service.taken(body(user()))["output"][0]["encrypted_content"]
    unparsed = "Reason: Encrypted content could not be decrypted or parsed."
    foreign = "Reason: Encrypted content organization_id did not match the target organization."

    def found(item: Json, key: str = "k") -> Json:
        status, fault = service.error(body(user(), item, says()), key)
        assert (status, fault["code"], fault["param"]) == (400, "invalid_encrypted_content", None)
        return fault["message"]

    assert (
        found(reasoning(encrypted_content=token[:-4]))
        == f"The encrypted content for item rs_1 could not be verified. {unparsed}"
    )
    assert (
        found(reasoning(None, encrypted_content="gAAAx"))
        == f"The encrypted content gAAAx could not be verified. {unparsed}"
    )
    assert (
        found(reasoning(None, encrypted_content="gAAAxxxxxyyyy"))
        == f"The encrypted content gAAA...yyyy could not be verified. {unparsed}"
    )
    assert (
        found(reasoning(None, encrypted_content="gAAAAAB!" + token))
        == f"The encrypted content gAAA...{token[-4:]} could not be verified. {unparsed}"
    )
    assert (
        found(reasoning(encrypted_content=token), "other")
        == f"The encrypted content for item rs_1 could not be verified. {foreign}"
    )
    assert found({"type": "compaction", "encrypted_content": token}).endswith(unparsed)


def test_the_window() -> None:
    """Too long is refused, unless the request lets its beginning be cut off [A107 A212]."""
    service = Service(behaviour=Behaviour(window=100))
    sent = body(user("x" * 500), call("c"), output("c"), user("now"))
    assert service.error(sent) == (
        400,
        error(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "input",
            "context_length_exceeded",
        ),
    )
    answer = service.post({**sent, "truncation": "auto"})
    assert (answer.status, answer.exchange.total < 50) == (200, True)
    assert service.error({**body(user("x" * 500)), "truncation": "auto"})[0] == 400


def test_the_host_behind_a_login() -> None:
    """It streams, stores nothing, takes fewer parameters, and says so in a body of its own [A211]."""
    service, path = Service(), "/backend-api/codex/responses"
    sent = body(user(), stream=True, store=False)
    assert service.post(sent, path=path).status == 200
    assert service.error({**sent, "stream": False}, path=path) == (
        400,
        {"detail": "Stream must be set to true"},
    )
    assert service.error({**sent, "store": True}, path=path) == (
        400,
        {"detail": "Store must be set to false"},
    )
    assert service.error({**sent, "max_output_tokens": 99}, path=path) == (
        400,
        {"detail": "Unsupported parameter: max_output_tokens"},
    )


def test_what_is_no_request() -> None:
    """Broken JSON, no object, an unknown path, a coding that is none, a missing key."""
    service = Service()
    assert (
        service.provider.answer([], b"{", 0.0)
        .json["error"]["message"]
        .startswith("We could not parse the JSON body of your request:")
    )
    assert (
        service.provider.answer([], b"[]", 0.0).json["error"]["message"]
        == "We expected an object in the JSON body of your request."
    )
    assert service.error(body(user()), path="/v1/answers") == (
        404,
        error("Invalid URL (POST /v1/answers)", None, None),
    )
    assert service.provider.answer({"content-encoding": "zstd"}, b"{}", 0.0).status == 400
    strict = Service(settings=Settings(require_auth=True))
    assert strict.provider.answer([], json.dumps(body(user())).encode(), 0.0).status == 401
