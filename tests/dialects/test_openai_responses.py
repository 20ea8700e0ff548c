"""Responses requests are read into parts: each item a message, pairs by `call_id`, what is elsewhere not judged."""

import pytest
from msgspec import structs

from proxy.conversation import (
    Image,
    Mark,
    Opaque,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from proxy.errors import BodyError
from proxy.identity import chain, origin
from proxy.rules import Rules

from .responses import (
    RESPONSES,
    USER,
    body,
    call,
    dumped,
    output,
    parts_of,
    plain,
    read,
    said,
    said_by,
    thought,
)


def test_a_turn_of_codex() -> None:
    """Items stay apart, one message each, so that a history which grows only gets new messages [A200]."""
    items = [
        USER,
        thought("rs_1"),
        call("a", '{"cmd": ["ls"]}', id="fc_1", status="completed"),
        call("b"),
        output("a", id="fco_1"),
        output("b", [{"type": "input_text", "text": "x"}, {"type": "input_text", "text": "y"}]),
        said_by("assistant", "done", id="msg_1", phase="final_answer"),
    ]
    conversation = read(body(*items))
    assert said(conversation) == [
        (Role.USER, Text(text="go")),
        (Role.ASSISTANT, Reasoning(signature="gAAA")),
        (Role.ASSISTANT, ToolCall(id="a", name="exec", input=b'{"cmd": ["ls"]}')),
        (Role.ASSISTANT, ToolCall(id="b", name="exec", input=b"{}")),
        (Role.TOOL, ToolResult(call_id="a", content=b'"ok"')),
        (
            Role.TOOL,
            ToolResult(call_id="b", content=dumped([{"type": "input_text", "text": text} for text in "xy"])),
        ),
        (Role.ASSISTANT, Text(text="done")),
    ]
    assert [bytes(message.raw or b"") for message in conversation.messages] == [*map(dumped, items)]
    assert [message.index for message in conversation.messages] == [*range(7)]


def test_a_string_is_the_users_message() -> None:
    """And says the same as the message it stands for [A200]."""
    string = read(dumped({"model": "m", "input": "go"}))
    listed = read(body({"role": "user", "content": "go"}))
    assert said(string) == said(listed) == [(Role.USER, Text(text="go"))]
    assert [part.key for message in string.messages for part in message.parts] == [
        part.key for message in listed.messages for part in message.parts
    ]


def test_the_system_prompt() -> None:
    """Instructions, leading system and developer messages, and tools that came as an item; a later one is a turn."""
    tools = {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "exec"}]}
    later = said_by("developer", "d")
    conversation = read(
        body(
            tools, said_by("developer", "a", "b"), {"role": "system", "content": "c"}, USER, later, tools
        ).replace(b'"model"', b'"instructions":"i","model"', 1)
    )
    assert [plain(part) for part in conversation.system] == [
        Text(text="i"),
        Opaque(kind="additional_tools"),
        Text(text="a"),
        Text(text="b"),
        Text(text="c"),
    ]
    assert said(conversation) == [
        (Role.USER, Text(text="go")),
        (Role.SYSTEM, Text(text="d")),
        (Role.META, Opaque(kind="additional_tools")),
    ]


def test_forms_of_calls_and_outputs() -> None:
    """Whatever form a call has, its output pairs with it by `call_id` [A201]."""
    patch = "*** Begin Patch: x"
    picture = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA"}
    shell_said = [{"stdout": "s", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    assert parts_of(
        USER,
        {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": patch},
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "b", "action": {"command": ["ls"]}},
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        {"type": "apply_patch_call", "call_id": "d", "operation": {"type": "delete_file", "path": "x"}},
        {"type": "computer_call", "id": "cu", "call_id": "e", "action": {"type": "screenshot"}},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "p"},
        {"type": "local_shell_call_output", "id": "lsh_1", "output": "{}"},
        {"type": "shell_call_output", "call_id": "c", "output": shell_said},
        {"type": "apply_patch_call_output", "call_id": "d", "status": "failed", "output": "no"},
        {"type": "computer_call_output", "call_id": "e", "output": picture},
    )[1:] == [
        (Role.ASSISTANT, ToolCall(id="a", name="apply_patch", input=patch.encode())),
        (Role.ASSISTANT, ToolCall(id="b", name="local_shell", input=b'{"command":["ls"]}')),
        (Role.ASSISTANT, ToolCall(id="c", name="shell", input=b'{"commands":["ls"]}')),
        (Role.ASSISTANT, ToolCall(id="d", name="apply_patch", input=b'{"type":"delete_file","path":"x"}')),
        (Role.ASSISTANT, ToolCall(id="e", name="computer", input=b'{"type":"screenshot"}', server=True)),
        (Role.TOOL, ToolResult(call_id="a", content=b'"p"')),
        (Role.TOOL, ToolResult(call_id="b", content=b'"{}"')),
        (Role.TOOL, ToolResult(call_id="c", content=dumped(shell_said))),
        (Role.TOOL, ToolResult(call_id="d", content=b'"no"', is_error=True)),
        (Role.TOOL, ToolResult(call_id="e", content=dumped(picture), server=True, images=1)),
    ]


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("web_search_call", Role.ASSISTANT),
        ("file_search_call", Role.ASSISTANT),
        ("code_interpreter_call", Role.ASSISTANT),
        ("image_generation_call", Role.ASSISTANT),
        ("mcp_call", Role.ASSISTANT),
        ("mcp_list_tools", Role.ASSISTANT),
        ("mcp_approval_request", Role.ASSISTANT),
        ("mcp_approval_response", Role.TOOL),
        ("tool_search_call", Role.ASSISTANT),
        ("tool_search_output", Role.TOOL),
        ("compaction", Role.ASSISTANT),
        ("compaction_trigger", Role.META),
        ("configuration_update", Role.META),
        ("hologram", Role.META),
    ],
)
def test_items_that_pass(kind: str, role: Role) -> None:
    """What this version has no form for is opaque, and its side is known by its name [A200 E100]."""
    item = {"type": kind, "id": "x_1", "call_id": "c", "output": {"y": 1.0}}
    raw = body(USER, item)
    assert parts_of(USER, item)[1:] == [(role, Opaque(kind=kind))]
    assert RESPONSES.write(read(raw)) == raw


def test_members_of_unknown_types_make_an_item_opaque() -> None:
    """It passes as it came."""
    assert parts_of(
        USER,
        {"type": 7},
        {"type": "function_call", "call_id": 7},
        {"type": "function_call_output", "call_id": []},
        {"type": "reasoning", "encrypted_content": 1},
        {},
    )[1:] == [
        (Role.META, Opaque(kind="?")),
        (Role.ASSISTANT, Opaque(kind="function_call")),
        (Role.TOOL, Opaque(kind="function_call_output")),
        (Role.META, Opaque(kind="reasoning")),
        (Role.META, Opaque(kind="?")),
    ]


def test_contents() -> None:
    """Text, refusals, media by their inline data, and what is not known [A208]."""
    parts = [
        {"type": "input_text", "text": "t"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
        {"type": "input_image", "image_url": "https://x/y.png"},
        {"type": "input_image", "file_id": "f"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAA"},
        {"type": "hologram"},
        {"type": "input_text", "text": 7},
    ]
    assert parts_of({"role": "user", "content": parts}) == [
        (Role.USER, Text(text="t")),
        (Role.USER, Image(media_type="image/png", data_bytes=4)),
        (Role.USER, Image(media_type="", data_bytes=0)),
        (Role.USER, Image(media_type="", data_bytes=0)),
        (Role.USER, Image(media_type="application/pdf", data_bytes=3)),
        (Role.USER, Opaque(kind="content hologram")),
        (Role.USER, Opaque(kind="content input_text")),
    ]
    refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    assert parts_of(refusal, {"role": "narrator", "content": "x"}) == [
        (Role.ASSISTANT, Text(text="no")),
        (Role.META, Text(text="x")),
    ]


def test_marks() -> None:
    """Breakpoints stand on input parts; an output is marked on its last part [B104]."""
    mark = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
    bare = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    assert parts_of(
        {"role": "user", "content": [{"type": "input_text", "text": "u", **mark}]},
        call("a"),
        output("a", [{"type": "input_text", "text": "r", **bare}]),
    ) == [
        (Role.USER, Text(text="u", mark=Mark("12h", explicit=True))),
        (Role.ASSISTANT, ToolCall(id="a", name="exec", input=b"{}")),
        (Role.TOOL, ToolResult(call_id="a", content=b'"r"', mark=Mark(explicit=True))),
    ]


def test_tools() -> None:
    """By name, those of a server by its label, the provider's own by type; a deferred one is not in the prefix."""
    conversation = read(
        body(
            USER,
            tools=[
                {"type": "function", "name": "f", "parameters": {}},
                {"type": "custom", "name": "g", "defer_loading": True},
                {"type": "mcp", "server_label": "s"},
                {"type": "web_search"},
            ],
        )
    )
    assert [plain(part) for part in conversation.tools] == [
        ToolDefinition(name="f"),
        ToolDefinition(name="g", deferred=True),
        ToolDefinition(name="mcp s"),
        ToolDefinition(name="web_search"),
    ]


@pytest.mark.parametrize(
    ("members", "partial", "thinking"),
    [
        ({}, False, ""),
        ({"store": True, "reasoning": {"effort": "high", "summary": "auto"}}, False, "high"),
        ({"reasoning": None, "previous_response_id": None}, False, ""),
        ({"reasoning": {"effort": 3}}, False, ""),
        ({"previous_response_id": "resp_1"}, True, ""),
        ({"conversation": "conv_1"}, True, ""),
        ({"conversation": {"id": "conv_1"}}, True, ""),
        ({"prompt": {"id": "pmpt_1"}}, True, ""),
    ],
)
def test_envelope(members: dict[str, object], partial: bool, thinking: str) -> None:
    """What names a history elsewhere makes the request a delta [A210]."""
    conversation = read(body(USER, stream=True, **members))
    assert (conversation.partial, conversation.thinking, conversation.stream, conversation.model) == (
        partial,
        thinking,
        True,
        "gpt-6.1",
    )


def test_items_that_only_name_others_make_the_request_a_delta() -> None:
    """The half of a pair that is missing may be behind one of them [A204 A210]."""
    for reference in ({"type": "item_reference", "id": "fc_1"}, {"id": "fc_1"}):
        conversation = read(body(USER, reference, output("a")))
        assert conversation.partial
        assert conversation.messages[1].role is Role.META


def test_input_may_be_absent_where_history_is_elsewhere() -> None:
    """And only there."""
    for raw in (b'{"model":"m","prompt":{"id":"p"}}', b'{"model":"m","conversation":"c","input":null}'):
        conversation = read(raw)
        assert (conversation.messages, conversation.partial) == ((), True)
        assert RESPONSES.write(conversation) == raw


@pytest.mark.parametrize(
    "broken",
    [
        b"[]",
        b"{}",
        b'{"input":7}',
        b'{"input":null}',
        b'{"input":["x"]}',
        b'{"input":[{"role":"user","role":"assistant"}]}',
        b'{"input":[{"type":"function_call","call_id":"a","call_id":"b"}]}',
        b'{"input":[{"type":"function_call_output","output":"a","output":"b"}]}',
        b'{"input":[{"role":"user","content":"a\\u0000"}]}',
        b'{"input":"\\u0000"}',
        b'{"input":[{"role":"developer","content":"\\u0000"}]}',
        b'{"input":"a","instructions":"\\u0000"}',
        b'{"input":"a","tools":[7]}',
        b'{"input":"a","model":7}',
        b'{"input":[{"role":"user","content":"\\ud800"}]}',
    ],
)
def test_what_cannot_be_read_without_guessing_is_refused(broken: bytes) -> None:
    """And so passes as it came."""
    with pytest.raises(BodyError):
        RESPONSES.read(RESPONSES.open(broken))


def test_known_messages_are_taken_over() -> None:
    """Reading goes on behind them, and comes to the same conversation."""
    shell = {"type": "local_shell_call", "id": "lsh_1", "call_id": "b", "action": {}}
    answer = {"type": "local_shell_call_output", "id": "lsh_1", "output": "o"}
    opened = RESPONSES.open(body(said_by("developer", "s"), USER, thought(), shell, answer, USER))
    first = RESPONSES.read(opened)
    for shared in range(len(opened.messages) + 1):
        assert RESPONSES.read(opened, first.messages[:shared]) == first


def test_ids_and_status_of_items_are_no_part_of_what_they_say() -> None:
    """They are new in every session; a resumed history is the same history [A207]."""

    def keys(suffix: str, **members: object) -> list[bytes]:
        conversation = read(
            body(
                said_by("user", "go", id=f"msg_{suffix}"),
                thought(f"rs_{suffix}"),
                call("a", id=f"fc_{suffix}", **members),
                output("a", id=f"fco_{suffix}", **members),
                {"type": "web_search_call", "id": f"ws_{suffix}", **members},
                said_by("assistant", "done", id=f"msg_2{suffix}", **members),
            )
        )
        chained = chain(conversation.messages, origin(b"t"), lambda reminder: reminder.text)
        return [part.key for message in chained for part in message.parts]

    assert keys("x", status="completed") == keys("y", status=None) == keys("z")


def test_rules_of_the_format() -> None:
    """Pairs need not be neighbours, outputs are items of their own, and call ids end at 64 characters."""
    assert structs.replace(RESPONSES.rules) == Rules(
        results_first=False,
        calls_last=False,
        adjacent=False,
        call_id=r".+",
        call_id_max=64,
        blank_text=True,
        opens_with_user=False,
        system_follows_user=False,
        marks=4,
        system_marks=False,
        result_role=Role.TOOL,
        results_apart=True,
        call_marks=False,
        reasoning_bound=True,
    )
