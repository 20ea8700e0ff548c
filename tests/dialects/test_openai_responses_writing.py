"""Responses requests are written back: verbatim, in legal items, and in the form they would be read in."""

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
    Part,
    Reasoning,
    Reminder,
    Role,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from proxy.edits import (
    Edit,
    InsertAfter,
    InsertBefore,
    JoinSystem,
    Move,
    PlaceMark,
    Remove,
    Replace,
    apply,
    target_of,
)

from .responses import (
    RESPONSES,
    USER,
    WHY,
    Item,
    body,
    call,
    dumped,
    edited,
    output,
    plain,
    read,
    said,
    said_by,
    sent,
    thought,
)

AWKWARD = (
    b'{ "instructions":"i\\u00e9","input" : [ {"content" : "s\\u00e9", "role":"developer","x":1.0},'
    b'{"role":"user","content":[ {"type":"input_text","text":"a", "y":1e2} ],"id":"msg_1"},'
    b'{"summary":[ ],"type":"reasoning","id":"rs_1","encrypted_content":"g\\/A"},'
    b'{"status":null,"arguments":"{ \\"a\\": 1.50}","name":"f","type":"function_call","call_id":"a","id":"fc_1"},'
    b'{"call_id":"a","type":"function_call_output","output":"\\/"},'
    b'{"type":"web_search_call", "id":"ws_1"} ],"stream":false,"z":12345678901234567890123 }'
)


def test_nothing_changed_is_verbatim() -> None:
    """But for the punctuation of the two containers that were opened."""
    closed = AWKWARD.replace(b'{ "inst', b'{"inst').replace(b'"input" : [ ', b'"input":[')
    assert RESPONSES.write(read(AWKWARD)) == closed.replace(b' ],"stream"', b'],"stream"').replace(
        b"23 }", b"23}"
    )


def test_a_touched_item_keeps_all_that_was_not_touched() -> None:
    """Every part renewed with its own meaning: spelling, unknown members and their places stay."""
    conversation = read(AWKWARD)
    edits = [
        Replace(target=target_of(part), part=structs.replace(part, raw=None, base=None), **WHY)
        for message in conversation.messages
        for part in message.parts
    ] + [
        Replace(target=target_of(part), part=Text(text=part.text), **WHY)
        for part in conversation.system
        if isinstance(part, Text)
    ]
    written = RESPONSES.write(edited(conversation, *edits))
    assert json.loads(written) == json.loads(AWKWARD)
    for kept in (
        b'"s\\u00e9"',
        b'"y":1e2',
        b'"{ \\"a\\": 1.50}"',
        b'"\\/"',
        b'"x":1.0',
        b'"g\\/A"',
        b"12345678901234567890123",
    ):
        assert kept in written


def test_calls_outputs_and_system_change_inside_their_own_members() -> None:
    """New id, arguments and content stand where the old ones stood; reasoning leaves with what asks for it [A202]."""
    conversation = read(AWKWARD)
    _, reasoning, asked, given, _ = (message.parts[0] for message in conversation.messages)
    assert isinstance(asked, ToolCall)
    assert isinstance(given, ToolResult)
    written = RESPONSES.write(
        edited(
            conversation,
            Replace(target=target_of(asked), part=structs.replace(asked, id="b", input=b'{"a":2}'), **WHY),
            Replace(target=target_of(given), part=structs.replace(given, call_id="b", content=b'"n"'), **WHY),
            Replace(target=target_of(conversation.system[1]), part=Text(text="t"), **WHY),
            Replace(target=target_of(conversation.system[0]), part=Text(text="j"), **WHY),
            Remove(target=target_of(reasoning), **WHY),
        )
    )
    assert written == (
        b'{"instructions":"j","input":[{"content":"t","role":"developer","x":1.0},'
        b'{"role":"user","content":[ {"type":"input_text","text":"a", "y":1e2} ],"id":"msg_1"},'
        b'{"status":null,"arguments":"{\\"a\\":2}","name":"f","type":"function_call","call_id":"b"},'
        b'{"call_id":"b","type":"function_call_output","output":"n"},'
        b'{"type":"web_search_call", "id":"ws_1"}],"stream":false,"z":12345678901234567890123}'
    )


def joined(**members: object) -> dict[str, object]:
    """The body as it leaves when its system prompt becomes one message."""
    conversation = read(json.dumps({**members, "model": "m"}).encode())
    assert conversation.leads == 2
    written: dict[str, object] = json.loads(RESPONSES.write(edited(conversation, JoinSystem(**WHY))))
    return written


def test_a_system_prompt_of_several_messages_leaves_as_one() -> None:
    """In the instructions, where there are any; else in the first leading message. Tools among them stay [A521]."""
    one, two = ({"role": "developer", "content": text} for text in ("One.", "Two."))
    tools = {"type": "additional_tools", "role": "developer", "tools": []}
    user = {"role": "user", "content": "go"}
    told = joined(instructions="Zero.", input=[tools, one, user])
    assert told == {"instructions": "Zero.\n\nOne.", "input": [tools, user], "model": "m"}
    both = {"role": "developer", "content": "One.\n\nTwo."}
    assert joined(input=[one, tools, two, user]) == {"input": [both, tools, user], "model": "m"}


def test_a_system_prompt_that_cannot_be_one_message_is_none() -> None:
    """A picture is no part of the instructions."""
    picture = {"role": "developer", "content": [{"type": "input_image", "image_url": "https://x"}]}
    body = {"instructions": "Zero.", "input": [picture, {"role": "user", "content": "go"}]}
    conversation = read(json.dumps(body).encode())
    assert (conversation.leads, apply(conversation, [JoinSystem(**WHY)])) == (1, (conversation, ()))


SHELL = [{"stdout": "s", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]


@pytest.mark.parametrize(
    ("item", "member", "value"),
    [
        (output("a", [{"type": "input_text", "text": "x"}, {"type": "input_image"}]), "output", "gone"),
        ({"type": "custom_tool_call_output", "call_id": "a", "output": "x"}, "output", "gone"),
        ({"type": "local_shell_call_output", "id": "a", "output": "{}"}, "output", "gone"),
        (
            {"type": "shell_call_output", "call_id": "a", "max_output_length": 9, "output": SHELL},
            "output",
            [{"stdout": "gone", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}],
        ),
        ({"type": "apply_patch_call_output", "call_id": "a", "status": "failed"}, "output", "gone"),
    ],
)
def test_a_text_takes_the_form_of_the_output_it_replaces(item: Item, member: str, value: object) -> None:
    """Each form of output says it in its own words; its other members stay."""
    conversation = read(body(USER, item))
    part = conversation.messages[1].parts[0]
    assert isinstance(part, ToolResult)
    cleared = ToolResult(call_id=part.call_id, content=b'"gone"')
    assert sent(edited(conversation, Replace(target=target_of(part), part=cleared, **WHY))) == [
        USER,
        {**item, member: value},
    ]


@pytest.mark.parametrize(
    ("item", "input_", "changed"),
    [
        (call("a", '{"x":1}'), b'{"x":2}', {"arguments": '{"x":2}'}),
        (
            {"type": "custom_tool_call", "call_id": "a", "name": "p", "input": "old"},
            b"new",
            {"input": "new"},
        ),
        (
            {"type": "local_shell_call", "id": "l", "call_id": "a", "action": {"command": []}},
            b'{"command":["x"]}',
            {"action": {"command": ["x"]}},
        ),
        (
            {"type": "apply_patch_call", "call_id": "a", "operation": {}},
            b'{"path":"x"}',
            {"operation": {"path": "x"}},
        ),
    ],
)
def test_what_a_call_was_given_is_written_in_its_form(item: Item, input_: bytes, changed: Item) -> None:
    """A string where it was one, else the value; and the id where ids are paired."""
    conversation = read(body(USER, item))
    part = conversation.messages[1].parts[0]
    assert isinstance(part, ToolCall)
    new = structs.replace(part, id="b", input=input_)
    assert sent(edited(conversation, Replace(target=target_of(part), part=new, **WHY)))[1] == {
        **item,
        "call_id": "b",
        **changed,
    }


def test_a_string_gives_way_to_a_list_when_something_joins_it() -> None:
    """The input becomes a list, a content too; and never does a string stand inside one."""
    note = Reminder(text="note", source=Source.ENVIRONMENT, name="n")
    joined = [{"type": "input_text", "text": "note"}, {"type": "input_text", "text": "go"}]
    for raw in (dumped({"model": "m", "input": "go"}), body({"role": "user", "content": "go"})):
        conversation = read(raw)
        first = target_of(conversation.messages[0].parts[0])
        before = edited(conversation, InsertBefore(target=first, part=note, **WHY))
        assert [item["content"] for item in sent(before)] == [joined]
        behind = edited(
            conversation, InsertAfter(target=first, part=Text(text="more"), role=Role.USER, **WHY)
        )
        assert sent(behind) == [{"role": "user", "content": "go"}, said_by("user", "more")]
        assert said(read(RESPONSES.write(behind))) == said(behind)


def test_items_of_ours() -> None:
    """A lost output is an item behind its call, a text a message of whoever says it [A208], the harness first [A60]."""
    conversation = read(body(USER, call("a"), call("b")))
    last = target_of(conversation.messages[-1].parts[-1])
    answers = [
        InsertAfter(target=last, part=ToolResult(call_id=name, content=b'"lost"'), role=Role.TOOL, **WHY)
        for name in "ab"
    ]
    more = [
        InsertAfter(target=last, part=Text(text=role.value), role=role, stage=role.value, reason="test")
        for role in (Role.USER, Role.ASSISTANT, Role.SYSTEM)
    ]
    assert sent(edited(conversation, *answers, *more))[3:] == [
        output("a", "lost"),
        output("b", "lost"),
        said_by("developer", "system"),
        said_by("user", "user"),
        said_by("assistant", "assistant"),
    ]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (call("a"), output("a", "lost")),
        (
            {"type": "custom_tool_call", "call_id": "a", "name": "p", "input": ""},
            {"type": "custom_tool_call_output", "call_id": "a", "output": "lost"},
        ),
        ({"type": "local_shell_call", "call_id": "a", "action": {}}, output("a", "lost")),
        (
            {"type": "shell_call", "call_id": "a", "action": {}},
            {
                "type": "shell_call_output",
                "call_id": "a",
                "output": [{"stdout": "lost", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}],
            },
        ),
        (
            {"type": "apply_patch_call", "call_id": "a", "operation": {}},
            {"type": "apply_patch_call_output", "call_id": "a", "status": "failed", "output": "lost"},
        ),
    ],
)
def test_a_lost_output_has_the_form_its_call_asks_for(asked: Item, answer: Item) -> None:
    """Each form of call is answered by its own [A201]."""
    conversation = read(body(USER, asked))
    part = conversation.messages[1].parts[0]
    assert isinstance(part, ToolCall)
    lost = ToolResult(call_id="a", content=b'"lost"', is_error=True, kind=part.kind)
    filled = edited(conversation, InsertAfter(target=target_of(part), part=lost, role=Role.TOOL, **WHY))
    assert sent(filled) == [USER, asked, answer]


def test_parts_leave_as_items_wherever_they_were_moved() -> None:
    """A message opens for what came into it; its members stay with its first words."""
    conversation = read(
        body(USER, call("a"), said_by("user", "x", "y", id="msg_1"), output("a"), said_by("assistant", "z"))
    )
    _, asked, (first, _), given, spoken = (
        message.parts if len(message.parts) > 1 else message.parts[0] for message in conversation.messages
    )
    changed = edited(
        conversation,
        Move(target=target_of(given), to=target_of(first), **WHY),
        Move(target=target_of(spoken), to=target_of(asked), **WHY),
    )
    assert sent(changed) == [
        USER,
        call("a"),
        said_by("assistant", "z"),
        said_by("user", "x", id="msg_1"),
        output("a"),
        said_by("user", "y"),
    ]
    to_user = edited(conversation, Move(target=target_of(spoken), to=target_of(first), **WHY))
    assert sent(to_user)[2] == said_by("user", "x", "z", "y", id="msg_1")


def test_an_output_kept_as_text_is_the_users() -> None:
    """With its media behind it; nothing of the item stays but what it said."""
    picture = Raw(b'{"type":"input_image","image_url":"u"}')
    conversation = read(body(USER, output("lost", "said")))
    part = conversation.messages[1].parts[0]
    late = Reminder(text="late: said", source=Source.TOOL_RESULT, name="late result")
    changed = edited(
        conversation,
        Replace(target=target_of(part), part=late, **WHY),
        InsertAfter(target=target_of(part), part=Image(raw=picture, media_type="", data_bytes=0), **WHY),
    )
    content = [{"type": "input_text", "text": "late: said"}, {"type": "input_image", "image_url": "u"}]
    assert sent(changed) == [USER, {"type": "message", "role": "user", "content": content}]


TOOLS = {"type": "additional_tools", "role": "developer", "tools": []}
LEAD = ({"role": "system", "content": "a"}, TOOLS, said_by("developer", "b", "a", id="msg_1"))


def test_system_parts_go_back_to_their_items() -> None:
    """Equal texts are told apart by their order, what is added stands with its neighbour, emptied items leave."""
    conversation = read(body(*LEAD, USER))
    first, tools, second, third = conversation.system
    note = Reminder(text="n", source=Source.ENVIRONMENT, name="n")
    changed = edited(
        conversation,
        Remove(target=target_of(first), **WHY),
        InsertAfter(target=target_of(tools), part=note, **WHY),
        Replace(target=target_of(third), part=Text(text="c"), **WHY),
        InsertAfter(target=target_of(second), part=note, **WHY),
    )
    assert sent(changed) == [
        TOOLS,
        said_by("developer", "n"),
        said_by("developer", "b", "n", "c", id="msg_1"),
        USER,
    ]


def test_instructions_stay_one_string() -> None:
    """What is added to them is a paragraph of them, what is taken away leaves them empty."""
    conversation = read(dumped({"instructions": "i", "input": "go"}))
    [only] = conversation.system
    note = Reminder(text="n", source=Source.ENVIRONMENT, name="n")
    added = edited(conversation, InsertAfter(target=target_of(only), part=note, **WHY))
    assert RESPONSES.write(added) == b'{"instructions":"i\\n\\nn","input":"go"}'
    removed = edited(conversation, Remove(target=target_of(only), **WHY))
    assert RESPONSES.write(removed) == b'{"instructions":"","input":"go"}'


def test_marks_are_set_moved_and_taken_away() -> None:
    """A mark on a string opens it, one that stands keeps its spelling; the model's words carry none [B104]."""
    mark = {"mode": "explicit", "ttl": "30m", "x": 1}
    conversation = read(
        body(
            said_by("developer", "s"),
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "u", "prompt_cache_breakpoint": mark}],
            },
            call("a"),
            output("a"),
            output(
                "b", [{"type": "input_text", "text": "r", "prompt_cache_breakpoint": {"mode": "explicit"}}]
            ),
            said_by("assistant", "t"),
            {"role": "user", "content": "v"},
        )
    )
    user, _, one, two, spoken, bare = (message.parts[0] for message in conversation.messages)
    marks = [
        PlaceMark(target=target_of(conversation.system[0]), mark=Mark(explicit=True), **WHY),
        PlaceMark(target=target_of(user), mark=Mark("12h", explicit=True), **WHY),
        PlaceMark(target=target_of(one), mark=Mark("30m", explicit=True), **WHY),
        PlaceMark(target=target_of(two), mark=None, **WHY),
        PlaceMark(target=target_of(spoken), mark=Mark(explicit=True), **WHY),
        PlaceMark(target=target_of(bare), mark=Mark(explicit=True), **WHY),
    ]

    def marked(text: str, spelt: object) -> list[Item]:
        return [{"type": "input_text", "text": text, "prompt_cache_breakpoint": spelt}]

    explicit = {"mode": "explicit"}
    assert sent(edited(conversation, *marks)) == [
        {"type": "message", "role": "developer", "content": marked("s", explicit)},
        {"role": "user", "content": marked("u", {**mark, "ttl": "12h"})},
        call("a"),
        output("a", marked("ok", {**explicit, "ttl": "30m"})),
        output("b", [{"type": "input_text", "text": "r"}]),
        said_by("assistant", "t"),
        {"role": "user", "content": marked("v", explicit)},
    ]


def test_sealed_messages_leave_in_the_bytes_they_were_sealed_with() -> None:
    """Also one that is several items, and one of which nothing is left."""
    search = {"type": "configuration_update"}
    conversation = read(body(USER, call("a"), output("a"), search))
    result, passing = (message.parts[0] for message in conversation.messages[2:])
    changed = edited(
        conversation,
        InsertAfter(target=target_of(result), part=Text(text="more"), **WHY),
        Remove(target=target_of(passing), **WHY),
    )
    sealed = structs.replace(
        changed,
        messages=tuple(
            RESPONSES.sealed(message) if message.raw is None else message for message in changed.messages
        ),
    )
    assert RESPONSES.write(sealed) == RESPONSES.write(changed)
    assert sent(changed)[3:] == [said_by("user", "more")]


def test_reasoning_is_taken_out_with_the_ids_that_ask_for_it() -> None:
    """Ids that need not be there go, up to the end of the model's turn; nothing else changes [A202 A205]."""
    search = {"type": "web_search_call", "id": "ws_1"}
    computer = {"type": "computer_call", "id": "cu_1", "call_id": "c"}
    before = call("0", id="fc_0")
    items: list[Item] = [
        USER,
        before,
        thought(),
        search,
        call("a", id="fc_1"),
        computer,
        said_by("assistant", "x", id="msg_1", phase="commentary"),
        output("a", id="fco_1"),
        call("b", id="fc_2"),
        thought("rs_2", None),
    ]
    assert json.loads(RESPONSES.without_reasoning(body(*items)))["input"] == [
        USER,
        before,
        search,
        call("a"),
        computer,
        said_by("assistant", "x", phase="commentary"),
        output("a", id="fco_1"),
        call("b", id="fc_2"),
    ]
    conversation = read(body(USER, thought("rs_1"), thought("rs_2"), call("a", id="fc_1")))
    first = target_of(conversation.messages[1].parts[0])
    assert sent(edited(conversation, Remove(target=first, **WHY))) == [
        USER,
        thought("rs_2"),
        call("a", id="fc_1"),
    ]
    without = body(USER, call("a", id="fc_1"), output("a"))
    assert RESPONSES.without_reasoning(without) is without


def test_ids_go_from_changed_and_sealed_items_too() -> None:
    """However the item behind the reasoning comes to be written."""
    conversation = read(body(USER, thought(), call("a", id="fc_1"), said_by("assistant", "x", id="msg_1")))
    _, reasoning, asked, _ = (message.parts[0] for message in conversation.messages)
    changed = edited(
        conversation,
        Remove(target=target_of(reasoning), **WHY),
        InsertAfter(target=target_of(asked), part=Text(text="more"), **WHY),
    )
    expected = [USER, call("a"), said_by("assistant", "more"), said_by("assistant", "x")]
    assert sent(changed) == expected
    sealed = [RESPONSES.sealed(message) if message.raw is None else message for message in changed.messages]
    assert sent(structs.replace(changed, messages=tuple(sealed))) == expected


# -- laws ------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6)
marked = st.sampled_from(
    [
        {},
        {},
        {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
        {"prompt_cache_breakpoint": None},
    ]
)
ids = st.sampled_from([{}, {"id": "x_1"}, {"id": "x_2", "status": "completed"}, {"status": None}])


@st.composite
def content(draw: st.DrawFn, kind: str = "input_text") -> object:
    if draw(st.booleans()):
        return draw(texts)
    extra = marked if kind == "input_text" else st.just({})
    blocks = [{"type": kind, "text": draw(texts), **draw(extra)} for _ in range(draw(st.integers(1, 3)))]
    if kind == "input_text" and draw(st.booleans()):
        blocks.append({"type": "input_image", "image_url": "https://x", **draw(marked)})
    return blocks


CALLS: list[tuple[str, str, st.SearchStrategy[object]]] = [
    ("function_call", "arguments", texts),
    ("custom_tool_call", "input", texts),
    ("local_shell_call", "action", st.just({"command": ["ls"]})),
]


@st.composite
def answers(draw: st.DrawFn, serial: int) -> list[Item]:
    """What the model says in a turn, and the outputs of its calls in any order."""
    items: list[Item] = []
    asked: list[Item] = []
    for at in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            items.append(thought(f"rs_{serial}.{at}", draw(st.sampled_from(["gA", None]))))
        form, member, given_ = draw(st.sampled_from(CALLS))
        name = {} if form == "local_shell_call" else {"name": "exec"}
        made: Item = {
            "type": form,
            "call_id": f"c{serial}.{at}",
            **name,
            member: draw(given_),
            **draw(ids),
        }
        items.append(
            draw(
                st.sampled_from(
                    [
                        made,
                        {"role": "assistant", "content": draw(content("output_text")), **draw(ids)},
                        {"type": "web_search_call", "id": f"ws_{serial}.{at}"},
                    ]
                )
            )
        )
        asked += [made] if items[-1] is made else []
    for made in draw(st.permutations(asked)):
        form = "custom_tool_call" if made["type"] == "custom_tool_call" else "function_call"
        items.append(
            {
                "type": f"{form}_output",
                "call_id": made["call_id"],
                "output": draw(content()),
                **draw(ids),
            }
        )
    return [dict(draw(st.permutations(list(item.items())))) for item in items]


@st.composite
def histories(draw: st.DrawFn) -> bytes:
    items: list[Item] = [
        {"role": draw(st.sampled_from(["system", "developer"])), "content": draw(content())}
        for _ in range(draw(st.integers(0, 2)))
    ]
    for serial in range(draw(st.integers(1, 4))):
        items.append({"type": "message", "role": "user", "content": draw(content())})
        items += draw(answers(serial))
        if draw(st.booleans()):
            items.append({"role": "developer", "content": draw(content())})
    members = draw(st.sampled_from([{}, {"instructions": "i"}, {"instructions": None}]))
    return body(*items, tools=[{"type": "function", "name": "exec"}], **members)


@st.composite
def edits_of(draw: st.DrawFn, conversation: Conversation) -> list[Edit]:
    """Edits of every kind that leave each part with its own kind: what stages make."""
    edits: list[Edit] = []
    for message in conversation.messages:
        for part in message.parts:
            if draw(st.booleans()):
                edits += draw(st.sampled_from([*_choices(draw, message, part), []]))
    for part in conversation.system:
        if draw(st.booleans()):
            edits.append(Replace(target=target_of(part), part=Text(text="sys"), **WHY))
    return edits


def _choices(draw: st.DrawFn, message: Message, part: Part) -> Iterator[list[Edit]]:
    at = target_of(part)
    if message.index:  # what opens the turns stays: a developer message that came first would be another
        yield [Remove(target=at, **WHY)]
    match part:
        case Text():
            yield [Replace(target=at, part=Text(text=draw(texts)), **WHY)]
            if message.role is not Role.ASSISTANT:
                yield [
                    PlaceMark(
                        target=at,
                        mark=draw(st.sampled_from([None, Mark(explicit=True), Mark("30m", explicit=True)])),
                        **WHY,
                    )
                ]
                yield [
                    InsertBefore(target=at, part=Text(text=draw(texts)), **WHY),
                    InsertAfter(target=at, part=Text(text=draw(texts)), **WHY),
                ]
        case ToolCall():
            given_ = draw(texts).encode() if part.name == "exec" else b'{"x":1}'
            yield [Replace(target=at, part=structs.replace(part, id="new", input=given_), **WHY)]
            yield [
                InsertAfter(
                    target=at, part=ToolResult(call_id=part.id, content=b'"x"'), role=Role.TOOL, **WHY
                )
            ]
        case ToolResult():
            yield [Replace(target=at, part=ToolResult(call_id="new", content=dumped(draw(texts))), **WHY)]
            yield [
                PlaceMark(
                    target=at,
                    mark=draw(st.sampled_from([None, Mark(explicit=True), Mark("12h", explicit=True)])),
                    **WHY,
                )
            ]
            yield [InsertAfter(target=at, part=ToolResult(call_id="more", content=b'"x"'), **WHY)]
        case _:
            pass


@given(histories())
def test_reading_and_writing_changes_nothing(raw: bytes) -> None:
    """A body nobody edits leaves in its own bytes."""
    assert RESPONSES.write(read(raw)) == raw


@given(histories(), st.data())
def test_a_history_that_grows_only_gets_new_messages(raw: bytes, data: st.DataObject) -> None:
    """Wherever the client cut it last time, what was read then is read again."""
    whole = read(raw)
    cut = data.draw(st.integers(0, len(whole.messages)))
    lead = RESPONSES.open(raw).lead
    shorter = [json.loads(bytes(item)) for item in (*lead, *(m.raw for m in whole.messages[:cut]))]
    assert said(read(body(*shorter))) == said(whole)[: len(said(read(body(*shorter))))]
    again = RESPONSES.open(dumped({**json.loads(raw), "input": shorter}))
    assert again.messages == RESPONSES.open(raw).messages[:cut]


@given(st.data())
def test_what_edits_leave_is_the_form_that_is_read(data: st.DataObject) -> None:
    """Edited, written and read again, it is the conversation that was written: nothing is repaired twice."""
    conversation = read(data.draw(histories()))
    changed, _ = apply(conversation, data.draw(edits_of(conversation)))
    again = read(RESPONSES.write(changed))
    assert said(again) == said(changed)
    assert [plain(part) for part in again.system] == [plain(part) for part in changed.system]
    assert RESPONSES.write(again) == RESPONSES.write(changed)


@given(st.data())
def test_parts_moved_anywhere_leave_legally(data: st.DataObject) -> None:
    """No reasoning, call or output inside a message, all words in the form of who says them; written once, it stays."""
    conversation = read(data.draw(histories()))
    parts = [target_of(part) for message in conversation.messages for part in message.parts]
    pairs = st.tuples(st.sampled_from(parts), st.sampled_from(parts), st.booleans())
    moves = [
        Move(target=one, to=other, before=before, **WHY)
        for one, other, before in data.draw(st.lists(pairs, max_size=4))
    ]
    changed, _ = apply(conversation, moves)
    written = RESPONSES.write(changed)
    for item in json.loads(written)["input"]:
        blocks = item.get("content", "") if item.get("type", "message") == "message" else ""
        kinds = {block["type"] for block in blocks} if isinstance(blocks, list) else set()
        assert kinds <= (
            {"output_text", "input_image"}
            if item.get("role") == "assistant"
            else {"input_text", "input_image"}
        )
    assert RESPONSES.write(read(written)) == written


@given(histories())
def test_without_reasoning_no_item_asks_for_it(raw: bytes) -> None:
    """None is left, all else is, and a second time nothing is to be done."""
    bare = RESPONSES.without_reasoning(raw)
    kept = [one for one in said(read(raw)) if not isinstance(one[1], Reasoning)]
    assert said(read(bare)) == kept
    assert RESPONSES.without_reasoning(bare) is bare
