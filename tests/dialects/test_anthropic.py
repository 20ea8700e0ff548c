"""Anthropic Messages: what the golden folders do not show of reading and writing."""

from typing import Any

import orjson
import pytest
from msgspec import Raw, structs

from proxy.conversation import (
    Image,
    Mark,
    Message,
    Opaque,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from proxy.dialects.anthropic import Anthropic
from proxy.errors import BodyError

DIALECT = Anthropic()


def written(*parts: Any, role: Role = Role.USER, **frame: Any) -> Any:
    """A message of these parts as it leaves."""
    message = Message(role=role, parts=parts, **frame)
    return orjson.loads(bytes(DIALECT.sealed(message).raw or b""))


def test_parts_of_ours_are_blocks() -> None:
    """A message of ours has no frame but its role; a text that says nothing is none."""
    assert written(
        Text(text="é\n"),
        Text(text=""),
        ToolCall(id="t", name="run", input=b'{"a":1.0}', mark=Mark("1h")),
        ToolResult(call_id="t", content=b'"fine"'),
        ToolResult(call_id="u", content=None, is_error=True),
    ) == {
        "role": "user",
        "content": [
            {"type": "text", "text": "é\n"},
            {
                "type": "tool_use",
                "id": "t",
                "name": "run",
                "input": {"a": 1.0},
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            },
            {"type": "tool_result", "tool_use_id": "t", "content": "fine"},
            {"type": "tool_result", "tool_use_id": "u", "is_error": True},
        ],
    }


KINDS: list[Any] = [
    Image(media_type="", data_bytes=0),
    Opaque(kind="hologram"),
    Reasoning(signature="", named=True),
    ToolDefinition(name="run"),
    ToolCall(id="s", name="search", input=b"{}", server=True),
    ToolResult(call_id="s", content=None, server=True),
]


@pytest.mark.parametrize("part", KINDS, ids=lambda part: type(part).__name__)
def test_what_we_cannot_spell_keeps_its_own_members(part: Any) -> None:
    """Only its mark is ours to change."""
    base = Raw(b'{"type":"x","a":{"b":1.0},"cache_control":{"type":"ephemeral","scope":"global"}}')
    marked = structs.replace(part, base=base, mark=Mark("1h"))
    assert written(marked)["content"] == [
        {
            "type": "x",
            "a": {"b": 1.0},
            "cache_control": {"type": "ephemeral", "scope": "global", "ttl": "1h"},
        }
    ]
    assert written(structs.replace(part, base=base))["content"] == [{"type": "x", "a": {"b": 1.0}}]


def test_a_part_of_another_kind_takes_nothing_over() -> None:
    """Members of a result mean nothing in the text that stands in its place."""
    base = Raw(b'{"type":"tool_result","tool_use_id":"t","is_error":true}')
    assert written(Text(text="late", base=base))["content"] == [{"type": "text", "text": "late"}]


def test_what_says_the_same_is_not_respelt() -> None:
    """A string that is only escaped otherwise stays in the client's spelling; null stays null."""
    base = Raw(rb'{"type":"tool_result","tool_use_id":"\u0074","content":null}')
    message = Message(role=Role.USER, parts=(ToolResult(call_id="t", content=None, base=base),))
    assert bytes(DIALECT.sealed(message).raw or b"") == b'{"role":"user","content":[' + bytes(base) + b"]}"


def test_a_message_without_content_gets_one_behind_its_other_members() -> None:
    """As soon as it has something to say."""
    frame = (("role", Raw(b'"user"')), ("x", Raw(b"1")))
    assert written(Text(text="a"), frame=frame) == {
        "role": "user",
        "x": 1,
        "content": [{"type": "text", "text": "a"}],
    }


def body(*content: Any) -> bytes:
    return orjson.dumps(
        {"model": "m", "x": 1.0, "messages": [{"role": "assistant", "content": list(content)}]}
    )


def test_without_reasoning_all_else_stays() -> None:
    """Signed, unsigned and redacted thinking leaves [A45 A47]."""
    thoughts = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "thinking", "thinking": "hm"},
        {"type": "redacted_thinking", "data": "x"},
    ]
    rest = [{"type": "text", "text": "a", "y": 2}, {"type": "hologram"}]
    assert DIALECT.without_reasoning(body(*thoughts, *rest)) == body(*rest)


def test_a_body_without_reasoning_is_returned_itself() -> None:
    """Nothing is copied."""
    raw = body({"type": "text", "text": "a"})
    assert DIALECT.without_reasoning(raw) is raw


def test_messages_known_before_are_taken_over() -> None:
    """They are not read again."""
    opened = DIALECT.open(body({"type": "text", "text": "a"}))
    known = DIALECT.read(opened).messages
    assert DIALECT.read(opened, known).messages[0] is known[0]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":5,"messages":[]}',
        b'{"messages":[{"role":5,"content":"a"}]}',
        b'{"messages":[{"role":"user","content":[5]}]}',
        b'{"tools":[{"name":5}],"messages":[]}',
        b'{"system":["a"],"messages":[]}',
    ],
)
def test_what_no_provider_would_read_is_refused(raw: bytes) -> None:
    """It passes as it came."""
    with pytest.raises(BodyError, match="not a request of this format"):
        DIALECT.read(DIALECT.open(raw))


def test_a_tool_that_holds_the_same_messages_stays_as_it_is() -> None:
    """The turns are found by their place in the request, not by their looks."""
    turns = b'[{"role":"user","content":"Hi"}]'
    body = b'{"model":"m","tools":[{"name":"t","messages":' + turns + b'}],"messages":' + turns + b"}"
    opened = Anthropic().open(body)
    assert [bytes(raw) for raw in opened.messages] == [turns[1:-1]]
    assert bytes(dict(opened.envelope)["tools"]) == b'[{"name":"t","messages":' + turns + b"}]"


def test_turns_named_twice_are_refused_whichever_comes_first() -> None:
    """A key that stands twice leaves open which was meant."""
    for first, second in ((b"[1]", b"[2]"), (b"[1]", b"[1]"), (b"[]", b"[1]")):
        with pytest.raises(BodyError):
            Anthropic().open(b'{"messages":' + first + b',"messages":' + second + b"}")
