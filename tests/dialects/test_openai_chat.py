"""Chat completions are read into parts and written back: verbatim, legal, and in the form they would be read in."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from proxy.conversation import (
    Conversation,
    Image,
    Mark,
    Message,
    Opaque,
    Part,
    Reasoning,
    Reminder,
    Role,
    Source,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from proxy.dialects.openai_chat import OpenAIChat
from proxy.edits import (
    Edit,
    InsertAfter,
    InsertBefore,
    Move,
    PlaceMark,
    Remove,
    Replace,
    apply,
    target_of,
)
from proxy.errors import BodyError
from proxy.identity import chain, digest, origin

CHAT = OpenAIChat()
WHY = {"stage": "test", "reason": "test"}


def read(body: bytes) -> Conversation:
    return keyed(CHAT.read(CHAT.open(body)))


def keyed(conversation: Conversation) -> Conversation:
    """With keys, as the pipeline gives them."""
    return structs.replace(
        conversation,
        messages=tuple(chain(conversation.messages, origin(b"t"), lambda reminder: reminder.text)),
        tools=tuple(
            structs.replace(part, key=digest(b"tool", str(at).encode()))
            for at, part in enumerate(conversation.tools)
        ),
        system=tuple(
            structs.replace(part, key=digest(b"system", str(at).encode()))
            for at, part in enumerate(conversation.system)
        ),
    )


def body(*messages: object, **members: object) -> bytes:
    return dumped({"model": "gpt-6.1", **members, "messages": list(messages)})


def dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def plain(part: Part) -> Part:
    """What a part says, without where it came from."""
    return structs.replace(part, raw=None, base=None, key=b"", nth=0, size=0)


def said(conversation: Conversation) -> list[tuple[Role, Part]]:
    """Every part that says something, with who says it, in prompt order."""
    return [
        (message.role, plain(part))
        for message in conversation.messages
        if message.written
        for part in message.parts
        if not (isinstance(part, Text) and not part.text)
    ]


def parts_of(*messages: object) -> list[list[Part]]:
    return [[plain(part) for part in message.parts] for message in read(body(*messages)).messages]


def edited(conversation: Conversation, *edits: Edit) -> Conversation:
    changed, done = apply(conversation, edits)
    assert len(done) == len(edits)
    return changed


def sent(conversation: Conversation) -> list[dict[str, object]]:
    return json.loads(CHAT.write(conversation))["messages"]


def call(call_id: str, name: str = "read", arguments: str = "{}") -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(call_id: str, content: object = "ok") -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


USER = {"role": "user", "content": "go"}


# -- what is read ----------------------------------------------------------------------------------------


def test_leading_system_and_developer_messages_are_the_system_prompt() -> None:
    """What stands in front of the first turn is the system prompt, a later one is a message of the turns."""
    conversation = read(
        body(
            {"role": "system", "content": "a"},
            {"role": "developer", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
            USER,
            {"role": "developer", "content": "d"},
        )
    )
    assert [plain(part) for part in conversation.system] == [Text(text="a"), Text(text="b"), Text(text="c")]
    assert not conversation.system_bare
    assert said(conversation) == [(Role.USER, Text(text="go")), (Role.SYSTEM, Text(text="d"))]
    assert [message.index for message in conversation.messages] == [0, 1]


def test_a_run_of_tool_messages_is_one_message_of_results() -> None:
    """Results of parallel calls are one turn; its bytes are the run as it stands, joined by commas."""
    first, second = (
        dumped(tool("a")),
        dumped(tool("b", [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}])),
    )
    conversation = read(
        body(
            USER,
            {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]},
            tool("a"),
            json.loads(second),
        )
    )
    run = conversation.messages[-1]
    assert run.role is Role.TOOL
    assert bytes(run.raw or b"") == first + b"," + second
    assert [bytes(part.raw or b"") for part in run.parts] == [first, second]
    assert [plain(part) for part in run.parts] == [
        ToolResult(call_id="a", content=b'"ok"'),
        ToolResult(call_id="b", content=b'[{"type":"text","text":"x"},{"type":"text","text":"y"}]'),
    ]


def test_calls_keep_the_inner_spelling_of_their_arguments() -> None:
    """The arguments are what the string says, spaces and number literals and all; other kinds of calls likewise."""
    inner = '{ "a": 1.0, "é": "\\u00e9" }'
    custom = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin: x"}}
    bare = {"id": "d", "function": {"name": "f", "arguments": {"x": 1}}}
    strange = {"id": "e", "type": "mcp", "mcp": {}}
    [[*parts]] = parts_of(
        {
            "role": "assistant",
            "content": "t",
            "tool_calls": [call("a", arguments=inner), custom, bare, strange],
        }
    )
    assert parts == [
        Text(text="t"),
        ToolCall(id="a", name="read", input=inner.encode()),
        ToolCall(id="c", name="patch", input=b"*** Begin: x"),
        ToolCall(id="d", name="f", input=b'{"x":1}'),
        ToolCall(id="e", name="mcp", input=b""),
    ]


def test_legacy_function_calls_get_an_id_of_their_place() -> None:
    """A call of the old form and its result share an id that stays while the history grows."""
    history = [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    ]
    answer = {"role": "function", "name": "f", "content": "r"}
    assert parts_of(*history, answer)[1:] == [
        [ToolCall(id="function-1-0-f", name="f", input=b"{}")],
        [ToolResult(call_id="function-1-0-f", content=b'"r"')],
    ]
    assert parts_of(*history, answer, USER)[1:3] == parts_of(*history, answer)[1:]


def test_calls_and_results_without_ids_pair_by_order() -> None:
    """Some local servers send none."""
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in "ff"]
    answers = [{"role": "tool", "content": text} for text in "xy"]
    _, asked, given = parts_of(USER, {"role": "assistant", "tool_calls": calls}, *answers)
    assert (
        [part.id for part in asked] == [part.call_id for part in given] == ["unnamed-1-0-f", "unnamed-1-1-f"]
    )


@pytest.mark.parametrize("comma", [b",", b", ", b" ,\n"])
def test_a_run_of_results_is_the_bytes_it_came_as(comma: bytes) -> None:
    """With what stands between them, wherever each says whose it is."""
    results = comma.join(b'{"tool_call_id":"%b","content":"x","role":"tool"}' % name for name in (b"a", b"b"))
    asked = {"role": "assistant", "tool_calls": [call("a"), call("b")]}
    raw = b'{"messages":[%b]}' % comma.join([*(json.dumps(one).encode() for one in (USER, asked)), results])
    last = CHAT.read(CHAT.open(raw)).messages[-1]
    assert (last.role, bytes(last.raw or b"")) == (Role.TOOL, results)
    assert [part.call_id for part in last.parts if isinstance(part, ToolResult)] == ["a", "b"]


def test_reasoning_members_are_one_part() -> None:
    """Whatever an upstream calls it; bound by the signatures of its details."""
    details = [
        {"type": "reasoning.text", "text": "h", "signature": "s1"},
        {"type": "reasoning.encrypted", "data": "d2"},
    ]
    both = {"role": "assistant", "content": "a", "reasoning": "h", "reasoning_details": details}
    alone = {"role": "assistant", "reasoning_content": "h", "content": ""}
    none = {"role": "assistant", "reasoning_content": None, "content": "a"}
    assert parts_of(both, alone, none) == [
        [Reasoning(signature="s1 d2"), Text(text="a")],
        [Reasoning(signature="")],
        [Text(text="a")],
    ]
    raw = read(body(both)).messages[0].parts[0].raw
    assert bytes(raw or b"") == dumped({"reasoning": "h", "reasoning_details": details})


def test_media_parts() -> None:
    """Type and length of inline data; what stands behind a URL or an id weighs nothing that we know."""
    parts = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "image_url", "image_url": "data:image/gif;base64,AA"},
        {"type": "input_audio", "input_audio": {"data": "AAAAA", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAA"}},
        {"type": "file", "file": {"file_id": "f"}},
        {"type": "hologram", "x": 1},
        {"type": "text", "text": 7},
    ]
    assert parts_of({"role": "user", "content": parts}) == [
        [
            Image(media_type="image/png", data_bytes=4),
            Image(media_type="", data_bytes=0),
            Image(media_type="image/gif", data_bytes=2),
            Image(media_type="audio/wav", data_bytes=5),
            Image(media_type="application/pdf", data_bytes=3),
            Image(media_type="", data_bytes=0),
            Opaque(kind="hologram"),
            Opaque(kind="text"),
        ]
    ]


def test_refusals_and_audio_say_something() -> None:
    """A message whose content is null may still say something in another member."""
    assert parts_of(
        {"role": "assistant", "content": None, "refusal": "no"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "content": None, "audio": {"id": "audio_1"}},
        {"role": "assistant", "content": None, "refusal": None},
        {"role": "narrator", "content": "x"},
    ) == [[Text(text="no")], [Text(text="no")], [Opaque(kind="audio")], [Text(text="")], [Text(text="x")]]


def test_marks_in_both_spellings() -> None:
    """Routers take Anthropic's marks, OpenAI its own breakpoints; a tool message is marked on its last part."""
    conversation = read(
        body(
            {
                "role": "system",
                "content": [
                    {"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "text",
                        "text": "u",
                        "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"},
                    }
                ],
            },
            {"role": "assistant", "content": None, "tool_calls": [call("a")]},
            tool("a", [{"type": "text", "text": "r", "cache_control": {"type": "ephemeral"}}]),
            cache_control={"type": "ephemeral"},
            tools=[
                {"type": "function", "function": {"name": "f"}, "cache_control": {"type": "ephemeral"}},
                {"type": "custom", "custom": {"name": "g"}},
                {"type": "web"},
            ],
        )
    )
    assert conversation.automatic_mark == Mark()
    assert [plain(part) for part in conversation.tools] == [
        ToolDefinition(name="f", mark=Mark()),
        ToolDefinition(name="g"),
        ToolDefinition(name="web"),
    ]
    assert conversation.system[0].mark == Mark("1h")
    assert said(conversation) == [
        (Role.USER, Text(text="u", mark=Mark("30m", explicit=True))),
        (Role.ASSISTANT, ToolCall(id="a", name="read", input=b"{}")),
        (Role.TOOL, ToolResult(call_id="a", content=b'"r"', mark=Mark())),
    ]


@pytest.mark.parametrize(
    ("members", "partial", "thinking"),
    [
        ({}, False, ""),
        ({"store": True, "reasoning_effort": "high"}, False, "high"),
        ({"reasoning": {"effort": "low"}}, False, "low"),
        ({"thinking": {"type": "enabled"}}, False, "thinking enabled"),
        ({"reasoning_effort": 3, "previous_response_id": None}, False, ""),
        ({"previous_response_id": "r"}, True, ""),
    ],
)
def test_envelope(members: dict[str, object], partial: bool, thinking: str) -> None:
    """Only what names a history elsewhere makes the request a delta; stored completions are none."""
    conversation = read(body(USER, stream=True, **members))
    assert (conversation.partial, conversation.thinking, conversation.stream, conversation.model) == (
        partial,
        thinking,
        True,
        "gpt-6.1",
    )


@pytest.mark.parametrize(
    "broken",
    [
        b"[]",
        b"{}",
        b'{"messages":"x"}',
        b'{"messages":["x"]}',
        b'{"messages":[{"role":7}]}',
        b'{"messages":[{"role":"user","role":"tool"}]}',
        b'{"messages":[{"role":"tool","content":"a","content":"b"}]}',
        b'{"messages":[{"role":"user","content":"a\\u0000"}]}',
        b'{"messages":[{"role":"system","content":"\\u0000"}]}',
        b'{"messages":[{"role":"assistant","tool_calls":[7]}]}',
        b'{"messages":[],"tools":[7]}',
        b'{"messages":[],"model":7}',
        b'{"messages":[{"role":"user","content":"\\ud800"}]}',
    ],
)
def test_what_cannot_be_read_without_guessing_is_refused(broken: bytes) -> None:
    """And so passes as it came."""
    with pytest.raises(BodyError):
        CHAT.read(CHAT.open(broken))


def test_known_messages_are_taken_over() -> None:
    """Reading goes on behind them, and comes to the same conversation."""
    whole = body(
        {"role": "system", "content": "s"},
        USER,
        {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]},
        {"role": "tool", "content": "r"},
    )
    opened = CHAT.open(whole)
    first = CHAT.read(opened)
    for shared in range(len(opened.messages) + 1):
        assert CHAT.read(opened, first.messages[:shared]) == first


# -- what is written -------------------------------------------------------------------------------------

AWKWARD = (
    b'{ "messages" : [ {"content" : "s\\u00e9", "role":"system","x":1.0},'
    b'{"role":"user","content":[ {"type":"text","text":"a", "y":1e2} ],"name":"n"},'
    b'{"tool_calls":[{"function":{"arguments":"{ \\"a\\": 1.50}","name":"f"},"type":"function","index":0,"id":"a"}],'
    b'"role":"assistant","content":null,"refusal":null,"reasoning_content":"r","annotations":[]},'
    b'{"tool_call_id":"a","role":"tool","content":"\\/"} ],"stream":false,"z":12345678901234567890123 }'
)


def test_nothing_changed_is_verbatim() -> None:
    """But for the punctuation of the two containers that were opened."""
    conversation = read(AWKWARD)
    closed = (
        AWKWARD.replace(b'{ "messages" : [ ', b'{"messages":[')
        .replace(b' ],"stream"', b'],"stream"')
        .replace(b" }", b"}")
    )
    closed = closed.replace(
        b'[ {"type":"text","text":"a", "y":1e2}]', b'[ {"type":"text","text":"a", "y":1e2} ]'
    )
    assert CHAT.write(conversation) == closed


def test_a_touched_message_keeps_all_that_was_not_touched() -> None:
    """Every part renewed with its own meaning: spelling, unknown members and their places stay."""
    conversation = read(AWKWARD)
    edits = [
        Replace(target=target_of(part), part=structs.replace(part, raw=None, base=None), **WHY)
        for message in conversation.messages
        for part in message.parts
    ] + [Replace(target=target_of(part), part=Text(text=part.text), **WHY) for part in conversation.system]
    written = CHAT.write(edited(conversation, *edits))
    assert json.loads(written) == json.loads(AWKWARD)
    for kept in (
        b'"s\\u00e9"',
        b'"y":1e2',
        b'"{ \\"a\\": 1.50}"',
        b'"\\/"',
        b'"x":1.0',
        b"12345678901234567890123",
    ):
        assert kept in written


def test_calls_results_and_system_change_inside_their_own_members() -> None:
    """New id, arguments and content stand where the old ones stood."""
    conversation = read(AWKWARD)
    [reasoning, asked] = conversation.messages[1].parts
    [given] = conversation.messages[2].parts
    assert isinstance(asked, ToolCall)
    assert isinstance(given, ToolResult)
    written = CHAT.write(
        edited(
            conversation,
            Replace(target=target_of(asked), part=structs.replace(asked, id="b", input=b'{"a":2}'), **WHY),
            Replace(target=target_of(given), part=structs.replace(given, call_id="b", content=b'"n"'), **WHY),
            Replace(target=target_of(conversation.system[0]), part=Text(text="t"), **WHY),
            Remove(target=target_of(reasoning), **WHY),
        )
    )
    assert written == (
        b'{"messages":[{"content":"t","role":"system","x":1.0},'
        b'{"role":"user","content":[ {"type":"text","text":"a", "y":1e2} ],"name":"n"},'
        b'{"tool_calls":[{"function":{"arguments":"{\\"a\\":2}","name":"f"},"type":"function","index":0,"id":"b"}],'
        b'"role":"assistant","content":null,"refusal":null,"annotations":[]},'
        b'{"tool_call_id":"b","role":"tool","content":"n"}],"stream":false,"z":12345678901234567890123}'
    )


def test_a_string_gives_way_to_a_list_when_something_joins_it() -> None:
    """And never stands as a string inside the list."""
    conversation = read(body(USER))
    note = Reminder(text="note", source=Source.ENVIRONMENT, name="n")
    changed = edited(
        conversation, InsertBefore(target=target_of(conversation.messages[0].parts[0]), part=note, **WHY)
    )
    assert sent(changed) == [
        {"role": "user", "content": [{"type": "text", "text": "note"}, {"type": "text", "text": "go"}]}
    ]


def test_messages_of_ours() -> None:
    """A text of ours is a string, for some templates take nothing else; a result of ours is a tool message [A411]."""
    conversation = read(
        body(USER, {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]})
    )
    last = target_of(conversation.messages[-1].parts[-1])
    answers = [
        InsertAfter(target=last, part=ToolResult(call_id=name, content=b'"lost"'), role=Role.TOOL, **WHY)
        for name in "ab"
    ]
    more = InsertAfter(target=last, part=Text(text="Continue."), role=Role.USER, stage="other", reason="test")
    assert sent(edited(conversation, *answers, more))[2:] == [
        tool("a", "lost"),
        tool("b", "lost"),
        {"role": "user", "content": "Continue."},
    ]


def test_results_in_another_message_leave_as_tool_messages_in_front_of_it() -> None:
    """Whatever they were moved into [A101]; members of the message stay with what it says."""
    conversation = read(
        body(
            USER,
            {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]},
            tool("a"),
            {**USER, "name": "n"},
            tool("b"),
        )
    )
    late = conversation.messages[4].parts[0]
    to_user = edited(
        conversation, Move(target=target_of(late), to=target_of(conversation.messages[3].parts[0]), **WHY)
    )
    to_run = edited(
        conversation, Move(target=target_of(late), to=target_of(conversation.messages[2].parts[0]), **WHY)
    )
    assert (
        sent(to_user)
        == sent(to_run)
        == [
            *sent(conversation)[:3],
            tool("b"),
            {**USER, "name": "n"},
        ]
    )


def test_calls_and_results_in_wrong_messages_are_written_legally() -> None:
    """A call moved to the user's message is the model's all the same; a result in the model's stands behind it."""
    conversation = read(
        body(USER, {"role": "assistant", "content": "t", "tool_calls": [call("a")]}, tool("a"))
    )
    user, asked, given = (message.parts[-1] for message in conversation.messages)
    moved = edited(conversation, Move(target=target_of(given), to=target_of(asked), **WHY))
    assert sent(moved) == sent(conversation)
    moved = edited(
        conversation,
        Move(target=target_of(asked), to=target_of(user), **WHY),
        Move(target=target_of(given), to=target_of(asked), **WHY),
    )
    assert sent(moved) == [
        {"role": "assistant", "content": None, "tool_calls": [call("a")]},
        tool("a"),
        USER,
        {"role": "assistant", "content": "t"},
    ]


def test_text_in_a_message_of_results_leaves_as_the_users_behind_them() -> None:
    """Tool messages hold results alone; media of a result goes the same way [A105]."""
    conversation = read(
        body(USER, {"role": "assistant", "content": None, "tool_calls": [call("a")]}, tool("a"))
    )
    picture = Image(raw=Raw(b'{"type":"image_url","image_url":{"url":"u"}}'), media_type="", data_bytes=0)
    changed = edited(
        conversation, InsertAfter(target=target_of(conversation.messages[-1].parts[0]), part=picture, **WHY)
    )
    assert sent(changed)[2:] == [
        tool("a"),
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
    ]


def test_messages_made_one() -> None:
    """Two answers in one message: contents become a list, reasoning is joined member by member."""
    conversation = read(
        body(
            {
                "role": "assistant",
                "content": "a",
                "reasoning_content": "r1",
                "reasoning_details": [{"signature": "s"}],
            },
            {
                "role": "assistant",
                "content": "b",
                "reasoning_content": "r2",
                "reasoning_details": [{"signature": "t"}],
                "tool_calls": [call("c")],
                "refusal": "no",
            },
        )
    )
    goal = target_of(conversation.messages[0].parts[-1])
    changed = edited(
        conversation,
        *(Move(target=target_of(part), to=goal, **WHY) for part in conversation.messages[1].parts),
    )
    assert sent(changed) == [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            "reasoning_content": "r1r2",
            "reasoning_details": [{"signature": "s"}, {"signature": "t"}],
            "refusal": "no",
            "tool_calls": [call("c")],
        }
    ]


def test_what_the_model_said_taken_away() -> None:
    """Where calls stay the content is null, else an empty string [A103]."""
    conversation = read(
        body(
            {"role": "assistant", "content": "a", "tool_calls": [call("c")]},
            tool("c"),
            {"role": "assistant", "content": "b", "reasoning": "r"},
        )
    )
    changed = edited(
        conversation,
        *(
            Remove(target=target_of(part), **WHY)
            for message in conversation.messages
            for part in message.parts
            if isinstance(part, Text)
        ),
    )
    assert sent(changed) == [
        {"role": "assistant", "content": None, "tool_calls": [call("c")]},
        tool("c"),
        {"role": "assistant", "content": "", "reasoning": "r"},
    ]


def test_nothing_said_is_an_empty_string() -> None:
    """A null content stands only beside calls: without them it is refused [A103]."""
    conversation = read(
        body({"role": "assistant", "content": None, "tool_calls": [call("c")], "reasoning_content": "r"})
    )
    changed = edited(conversation, Remove(target=target_of(conversation.messages[0].parts[1]), **WHY))
    assert sent(changed) == [{"role": "assistant", "content": "", "reasoning_content": "r"}]


def test_legacy_forms_are_written_back_and_filled_in_their_own_form() -> None:
    """A missing result of a legacy call is a function message with its name."""
    asked = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    conversation = read(body(asked))
    part = conversation.messages[0].parts[0]
    assert isinstance(part, ToolCall)
    changed = edited(
        conversation,
        Replace(target=target_of(part), part=structs.replace(part, id="other", input=b'{"x":1}'), **WHY),
        InsertAfter(
            target=target_of(part), part=ToolResult(call_id=part.id, content=b'"lost"'), role=Role.TOOL, **WHY
        ),
    )
    assert sent(changed) == [
        {**asked, "function_call": {"name": "f", "arguments": '{"x":1}'}},
        {"role": "function", "name": "f", "content": "lost"},
    ]


SYSTEM = (
    {"role": "system", "content": "a"},
    {
        "role": "developer",
        "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "a"}],
        "name": "n",
    },
    {"role": "system", "content": ""},
)


def test_system_parts_go_back_to_their_messages() -> None:
    """Equal texts are told apart by their order, what is added stands with its neighbour, emptied messages leave."""
    conversation = read(body(*SYSTEM, USER))
    first, second, third, _ = conversation.system
    note = Reminder(text="n", source=Source.ENVIRONMENT, name="n")
    changed = edited(
        conversation,
        Remove(target=target_of(first), **WHY),
        Replace(target=target_of(third), part=Text(text="c"), **WHY),
        InsertAfter(target=target_of(second), part=note, **WHY),
    )
    texts = [{"type": "text", "text": text} for text in "bnc"]
    assert sent(changed) == [{"role": "developer", "content": texts, "name": "n"}, SYSTEM[2], USER]


def test_marks_are_set_moved_and_taken_away() -> None:
    """A mark on a string opens it; one that stands keeps its spelling and what else it says."""
    mark = {"mode": "explicit", "ttl": "30m", "x": 1}
    conversation = read(
        body(
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "u", "prompt_cache_breakpoint": mark}]},
            {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]},
            tool("a"),
            tool("b", [{"type": "text", "text": "r", "cache_control": {"type": "ephemeral"}}]),
        )
    )
    user = conversation.messages[0].parts[0]
    one, two = conversation.messages[2].parts
    marks = [
        PlaceMark(target=target_of(conversation.system[0]), mark=Mark(), **WHY),
        PlaceMark(target=target_of(user), mark=Mark("12h", explicit=True), **WHY),
        PlaceMark(target=target_of(one), mark=Mark("1h"), **WHY),
        PlaceMark(target=target_of(two), mark=None, **WHY),
    ]
    changed = edited(conversation, *marks)
    assert sent(changed) == [
        {
            "role": "system",
            "content": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        },
        {
            "role": "user",
            "content": [{"type": "text", "text": "u", "prompt_cache_breakpoint": {**mark, "ttl": "12h"}}],
        },
        sent(conversation)[2],
        tool("a", [{"type": "text", "text": "ok", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]),
        tool("b", [{"type": "text", "text": "r"}]),
    ]
    assert said(read(CHAT.write(changed))) == said(changed)


def test_a_new_mark_is_spelt_for_its_lifetime() -> None:
    """Only OpenAI's own breakpoints live for half an hour or half a day [B104]."""
    conversation = read(body(USER))
    changed = edited(
        conversation,
        PlaceMark(
            target=target_of(conversation.messages[0].parts[0]), mark=Mark("30m", explicit=True), **WHY
        ),
    )
    part = {"type": "text", "text": "go", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}
    assert sent(changed) == [{"role": "user", "content": [part]}]


def test_sealed_messages_leave_in_the_bytes_they_were_sealed_with() -> None:
    """Also one that is several on the wire."""
    conversation = read(
        body(USER, {"role": "assistant", "content": None, "tool_calls": [call("a")]}, tool("a"))
    )
    result = conversation.messages[-1].parts[0]
    changed = edited(conversation, InsertAfter(target=target_of(result), part=Text(text="more"), **WHY))
    sealed = structs.replace(
        changed,
        messages=tuple(
            CHAT.sealed(message) if message.raw is None else message for message in changed.messages
        ),
    )
    assert CHAT.write(sealed) == CHAT.write(changed)


def test_only_signed_reasoning_is_taken_out() -> None:
    """Upstreams that give unsigned reasoning refuse a history without it [A400]."""
    details = {"role": "assistant", "content": "a", "reasoning_details": [{"signature": "s"}]}
    plain_text = {"role": "assistant", "content": "b", "reasoning_content": "r"}
    unsigned = body(USER, plain_text)
    assert CHAT.without_reasoning(unsigned) is unsigned
    assert CHAT.without_reasoning(body(USER, details, plain_text)) == body(
        USER, {"role": "assistant", "content": "a"}, plain_text
    )


# -- laws ------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6)
marked = st.sampled_from(
    [
        {},
        {},
        {"cache_control": {"type": "ephemeral"}},
        {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
    ]
)


@st.composite
def content(draw: st.DrawFn, media: bool = True) -> object:
    if draw(st.booleans()):
        return draw(texts)
    blocks = [{"type": "text", "text": draw(texts), **draw(marked)} for _ in range(draw(st.integers(1, 3)))]
    if media and draw(st.booleans()):
        blocks.append({"type": "image_url", "image_url": {"url": "https://x"}, **draw(marked)})
    return blocks


@st.composite
def answers(draw: st.DrawFn, serial: int) -> Iterator[dict[str, object]]:
    """An assistant's message and the results of its calls."""
    message: dict[str, object] = {"role": "assistant"}
    for name, value in (
        ("content", content(media=False)),
        ("reasoning_content", texts),
        ("reasoning_details", st.just([{"type": "reasoning.text", "signature": "s"}])),
        ("refusal", st.one_of(st.none(), texts)),
        ("annotations", st.just([])),
    ):
        if draw(st.booleans()):
            message[name] = draw(value)
    count = draw(st.integers(0, 3))
    if count:
        message["tool_calls"] = [call(f"c{serial}.{at}", arguments=draw(texts)) for at in range(count)]
    order = draw(st.permutations(range(count)))
    members = draw(st.permutations(list(message.items())))
    return [dict(members), *(tool(f"c{serial}.{at}", draw(content())) for at in order)]


@st.composite
def histories(draw: st.DrawFn) -> bytes:
    messages: list[object] = [
        {"role": draw(st.sampled_from(["system", "developer"])), "content": draw(content(media=False))}
        for _ in range(draw(st.integers(0, 2)))
    ]
    for serial in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": draw(content())})
        messages += draw(answers(serial))
        if draw(st.booleans()):
            messages.append({"role": "developer", "content": draw(content(media=False))})
    return body(*messages, tools=[{"type": "function", "function": {"name": "read"}}])


@st.composite
def edits_of(draw: st.DrawFn, conversation: Conversation) -> list[Edit]:
    """Edits of every kind that leave each part with its own kind: what stages make."""
    edits: list[Edit] = []
    for message in conversation.messages:
        for part in message.parts:
            if not draw(st.booleans()):
                continue
            edits += draw(st.sampled_from([*_choices(draw, message, part), []]))
    for part in conversation.system:
        if draw(st.booleans()):
            edits.append(
                draw(
                    st.sampled_from(
                        [
                            Replace(target=target_of(part), part=Text(text="sys"), **WHY),
                            PlaceMark(target=target_of(part), mark=Mark("1h"), **WHY),
                        ]
                    )
                )
            )
    return edits


def _choices(draw: st.DrawFn, message: Message, part: Part) -> Iterator[list[Edit]]:
    at = target_of(part)
    if (
        message.index
    ):  # what opens the turns stays: a system message that came to stand first would be another
        yield [Remove(target=at, **WHY)]
    match part:
        case Text():
            yield [Replace(target=at, part=Text(text=draw(texts)), **WHY)]
            if part.text and not (part.raw and bytes(part.raw).startswith(b'{"refusal')):
                yield [
                    PlaceMark(
                        target=at,
                        mark=draw(st.sampled_from([None, Mark(), Mark("30m", explicit=True)])),
                        **WHY,
                    )
                ]
            if message.role is not Role.ASSISTANT:
                yield [
                    InsertBefore(target=at, part=Text(text=draw(texts)), **WHY),
                    InsertAfter(target=at, part=Text(text=draw(texts)), **WHY),
                ]
        case ToolCall():
            yield [
                Replace(target=at, part=structs.replace(part, id="new", input=draw(texts).encode()), **WHY)
            ]
        case ToolResult():
            yield [Replace(target=at, part=ToolResult(call_id="new", content=dumped(draw(texts))), **WHY)]
            yield [PlaceMark(target=at, mark=draw(st.sampled_from([None, Mark(), Mark("1h")])), **WHY)]
            yield [InsertAfter(target=at, part=ToolResult(call_id="more", content=b'"x"'), **WHY)]
            yield (
                [Move(target=at, to=target_of(message.parts[0]), before=True, **WHY)]
                if part is not message.parts[0]
                else []
            )
        case _:
            pass


@given(histories())
def test_reading_and_writing_changes_nothing(raw: bytes) -> None:
    """A body nobody edits leaves in its own bytes."""
    assert CHAT.write(read(raw)) == raw


@given(st.data())
def test_what_edits_leave_is_the_form_that_is_read(data: st.DataObject) -> None:
    """Edited, written and read again, it is the conversation that was written: nothing is repaired twice."""
    conversation = read(data.draw(histories()))
    changed, _ = apply(conversation, data.draw(edits_of(conversation)))
    again = read(CHAT.write(changed))
    assert said(again) == said(changed)
    assert [plain(part) for part in again.system] == [plain(part) for part in changed.system]
    assert CHAT.write(again) == CHAT.write(changed)


@given(st.data())
def test_parts_moved_anywhere_leave_legally(data: st.DataObject) -> None:
    """Results are tool messages, calls the model's; and what was written once is not written otherwise again."""
    conversation = read(data.draw(histories()))
    parts = [target_of(part) for message in conversation.messages for part in message.parts]
    pairs = st.tuples(st.sampled_from(parts), st.sampled_from(parts), st.booleans())
    moves = [
        Move(target=one, to=other, before=before, **WHY)
        for one, other, before in data.draw(st.lists(pairs, max_size=4))
    ]
    changed, _ = apply(conversation, moves)
    written = CHAT.write(changed)
    for message in json.loads(written)["messages"]:
        assert ("tool_call_id" in message) == (message["role"] == "tool")
        assert message["role"] == "assistant" or "tool_calls" not in message
    assert CHAT.write(read(written)) == written
