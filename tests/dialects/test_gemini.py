"""How Gemini requests are read and written: shapes, spellings, ids, and that nothing else changes."""

from __future__ import annotations

import copy
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from proxy.agents import Agent
from proxy.conversation import (
    Conversation,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from proxy.dialects.gemini import Gemini
from proxy.dialects.gemini_pairing import outward
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

DIALECT = Gemini()
Json = dict[str, Any]

READ = {"name": "read_file", "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}}}
RUN = {"name": "run", "parametersJsonSchema": {"type": "object"}}


def text(words: str, **members: Any) -> Json:
    return {"text": words, **members}


def call(
    name: str = "read_file", ident: str | None = None, signature: str | None = None, **args: Any
) -> Json:
    inner = {"name": name, "args": args or {"path": "pump.py"}, **({"id": ident} if ident else {})}
    return {"functionCall": inner, **({"thoughtSignature": signature} if signature else {})}


def result(name: str = "read_file", ident: str | None = None, response: Any = None, **members: Any) -> Json:
    inner = {"name": name, "response": {"output": "ok"} if response is None else response}
    return {"functionResponse": {**inner, **({"id": ident} if ident else {}), **members}}


def user(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Json) -> Json:
    return {"role": "model", "parts": list(parts)}


def body(*contents: Json, **members: Any) -> Json:
    return {"contents": list(contents) or [user(text("Check the pump."))], **members}


def read(request: Json | bytes) -> Conversation:
    raw = request if isinstance(request, bytes) else orjson.dumps(request)
    return DIALECT.read(DIALECT.open(raw))


def parts_of(*contents: Json) -> list[Part]:
    return [part for message in read(body(*contents)).messages for part in message.parts]


def bare(part: Part) -> Part:
    return structs.replace(part, raw=None, size=0, key=b"", nth=0)


def answered(conversation: Conversation) -> list[str]:
    """The call ids of all results, in order."""
    return [p.call_id for m in conversation.messages for p in m.parts if isinstance(p, ToolResult)]


def snake(value: Any) -> Any:
    """The same JSON with the member names of the API in snake_case; what functions own keeps its names."""
    if isinstance(value, list):
        return [snake(item) for item in value]
    if not isinstance(value, dict):
        return value
    own = ("args", "response", "parameters", "parametersJsonSchema")
    return {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in key): inner if key in own else snake(inner)
        for key, inner in value.items()
    }


# -- shapes ----------------------------------------------------------------------------------------------

PARTS: dict[str, tuple[Json, Part]] = {
    "text": (text("Hi."), Text(text="Hi.")),
    "signed text": (text("Hi.", thoughtSignature="c2ln"), Text(text="Hi.")),
    "signed text without words": (text("", thoughtSignature="c2ln"), Reasoning(signature="c2ln")),
    "signed blank": (text(" \n", thoughtSignature="c2ln"), Reasoning(signature="c2ln")),
    "a signature alone": ({"thoughtSignature": "c2ln"}, Reasoning(signature="c2ln")),
    "thought": (text("Hm.", thought=True), Reasoning(signature="")),
    "signed thought": (text("Hm.", thought=True, thoughtSignature="c2ln"), Reasoning(signature="c2ln")),
    "empty thought": (text("", thought=True), Text(text="")),
    "no thought": (text("Hi.", thought=False), Text(text="Hi.")),
    "empty text": (text(""), Text(text="")),
    "nothing": ({}, Text(text="")),
    "call": (call(ident="a"), ToolCall(id="a", name="read_file", input=b'{"path":"pump.py"}')),
    "call without arguments": (
        {"functionCall": {"name": "run"}},
        ToolCall(id="#1.run", name="run", input=b"{}"),
    ),
    "call with null arguments": (
        {"functionCall": {"name": "run", "args": None, "id": None}},
        ToolCall(id="#1.run", name="run", input=b"{}"),
    ),
    "response": (result(ident="a"), ToolResult(call_id="a", name="read_file", content=b'"ok"')),
    "response with an error": (
        result(ident="a", response={"error": "no such file"}),
        ToolResult(call_id="a", name="read_file", content=b'"no such file"', is_error=True),
    ),
    "response with an error object": (
        result(ident="a", response={"error": {"code": 1}}),
        ToolResult(call_id="a", name="read_file", content=b'{"error":{"code":1}}', is_error=True),
    ),
    "response of several members": (
        result(ident="a", response={"output": "x", "exit": 0}),
        ToolResult(call_id="a", name="read_file", content=b'{"output":"x","exit":0}'),
    ),
    "response with no text": (
        result(ident="a", response={"output": [1]}),
        ToolResult(call_id="a", name="read_file", content=b'{"output":[1]}'),
    ),
    "response that is no object": (
        result(ident="a", response="ok"),
        ToolResult(call_id="a", name="read_file", content=b'"ok"'),
    ),
    "response missing": (
        {"functionResponse": {"name": "run", "id": "a"}},
        ToolResult(call_id="a", name="run", content=None),
    ),
    "response with pictures": (
        result(ident="a", parts=[{"inlineData": {"mimeType": "image/png", "data": "aaaa"}}, {"text": "x"}]),
        ToolResult(call_id="a", name="read_file", content=b'"ok"', images=1),
    ),
    "inline data": (
        {"inlineData": {"mimeType": "image/png", "data": "aGVsbG8="}},
        Image(media_type="image/png", data_bytes=8),
    ),
    "file data": (
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/f"}, "videoMetadata": {"fps": 1}},
        Image(media_type="video/mp4", data_bytes=0),
    ),
    "code": ({"executableCode": {"language": "PYTHON", "code": "1"}}, Opaque(kind="executableCode")),
    "code result": ({"codeExecutionResult": {"outcome": "OUTCOME_OK"}}, Opaque(kind="codeExecutionResult")),
    "server call": ({"toolCall": {"id": "s", "toolType": "X"}}, Opaque(kind="toolCall")),
    "signed server call": (
        {"thoughtSignature": "c2ln", "toolResponse": {"id": "s"}},
        Opaque(kind="toolResponse"),
    ),
    "a newer form": ({"hologram": {"text": "x"}}, Opaque(kind="hologram")),
    "two things at once": ({"text": "x", "functionCall": {"name": "run"}}, Opaque(kind="text")),
    "another type": ({"text": 5}, Opaque(kind="text")),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_read(name: str) -> None:
    """Each shape of a part is the part it should be, in both spellings, and has its own bytes."""
    wire, expected = PARTS[name]
    for spelling in (wire, snake(wire)):
        raw = orjson.dumps(spelling)
        got = read(body(model(spelling))).messages[0].parts[0]
        if isinstance(expected, Opaque):
            expected = Opaque(
                kind=expected.kind if spelling is wire else next(iter(snake({expected.kind: 0})))
            )
        assert bare(got) == expected
        assert got.raw == Raw(raw)
        assert got.size == len(raw)


@pytest.mark.parametrize("items", ["Hi.", 5, None, [1]])
def test_what_is_no_part_passes(items: Any) -> None:
    """A list element that is no object is left alone."""
    (part,) = read(body({"role": "user", "parts": [items]})).messages[0].parts
    assert isinstance(part, Opaque)


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("user", Role.USER),
        ("function", Role.USER),
        ("", Role.USER),
        (None, Role.USER),
        ("USER", Role.USER),
        ("model", Role.ASSISTANT),
        ("system", Role.META),
    ],
)
def test_roles(role: str | None, expected: Role) -> None:
    """The user speaks where nobody is named; a role the API does not have passes as it came [A300]."""
    assert read(body({"role": role, "parts": [text("x")]})).messages[0].role is expected
    assert read(body({"parts": [text("x")]})).messages[0].role is Role.USER


def test_a_content_without_parts_can_be_named() -> None:
    """An interrupted answer leaves a content with nothing in it: it holds one text without words [A301 F30]."""
    for content in ({"role": "model"}, model(), {"role": "model", "parts": None}):
        assert read(body(content)).messages[0].parts == (Text(text=""),)


def test_lists_of_one_may_stand_bare() -> None:
    """One content may stand for a list of one, and so may one part; written, they are lists."""
    request = {"contents": {"role": "user", "parts": {"text": "Hi."}}}
    conversation = read(request)
    assert [bare(part) for part in conversation.messages[0].parts] == [Text(text="Hi.")]
    assert orjson.loads(DIALECT.write(conversation)) == {"contents": [request["contents"]]}
    opened = structs.replace(conversation.messages[0], raw=None)
    assert orjson.loads(bytes(DIALECT.sealed(opened).raw or b"")) == user(text("Hi."))


WRAPS: dict[str, Any] = {
    "bare": lambda inner: inner,
    "Code Assist": lambda inner: {
        "model": "gemini-3-pro",
        "project": "p",
        "user_prompt_id": "u",
        "request": inner,
    },
    "countTokens": lambda inner: {"generateContentRequest": {"model": "models/gemini-3-pro", **inner}},
    "countTokens, snake case": lambda inner: {"generate_content_request": inner},
}


@pytest.mark.parametrize("wrap", WRAPS)
def test_an_envelope_is_opened_and_kept(wrap: str) -> None:
    """The inner request is what is read; an edit changes nothing around it [D301]."""
    inner = body(
        user(text("Hi.")),
        systemInstruction={"parts": [text("Be kind.")]},
        tools=[{"functionDeclarations": [READ]}],
    )
    request = WRAPS[wrap](inner)
    conversation = keyed(read(request))
    assert [bare(part) for part in conversation.system] == [Text(text="Be kind.")]
    assert [tool.name for tool in conversation.tools if isinstance(tool, ToolDefinition)] == ["read_file"]
    edited, _ = apply(conversation, [replaced(conversation.messages[0].parts[0], Text(text="Bye."))])
    expected = copy.deepcopy(request)
    holder = next((expected[name] for name in expected if name.lower().startswith(("req", "gen"))), expected)
    holder["contents"][0]["parts"][0]["text"] = "Bye."
    assert json.loads(DIALECT.write(edited)) == expected
    assert DIALECT.write(conversation) == orjson.dumps(request)


@pytest.mark.parametrize(
    ("request_", "path", "expected"),
    [
        (body(), "/v1beta/models/gemini-3-pro:generateContent", "gemini-3-pro"),
        (
            body(),
            "/v1/projects/p/locations/l/publishers/google/models/gemini-3-pro:streamGenerateContent",
            "gemini-3-pro",
        ),
        (body(), "/v1beta/tunedModels/mine:countTokens", "mine"),
        ({"model": "gemini-3-pro", "request": body()}, "/v1internal:generateContent", "gemini-3-pro"),
        ({"request": {"model": "models/gemini-3-pro", **body()}}, "/v1internal:countTokens", "gemini-3-pro"),
        ({"generateContentRequest": {"model": "models/a", **body()}}, "", "a"),
        (body(), "/v1internal:generateContent", ""),
        (body(model=5), "", ""),
    ],
)
def test_the_model(request_: Json, path: str, expected: str) -> None:
    """The path names the model, else the body does."""
    assert DIALECT.model(DIALECT.open(orjson.dumps(request_)), path) == expected


@pytest.mark.parametrize("value", ["cachedContents/abc", "x"])
def test_a_request_with_a_cache_is_partial(value: str) -> None:
    """What stands in an explicit cache is not seen, and nothing is judged by its absence [B303 B304]."""
    assert read(body(cachedContent=value)).partial
    assert read(body(cached_content=value)).partial
    assert not read(body(cachedContent=None)).partial
    assert not read(body(cachedContent="")).partial


def test_system_in_other_forms_is_left_alone() -> None:
    """A system instruction that is no content is none of ours."""
    assert read(body(systemInstruction="Be kind.")).system == ()
    assert read(body(systemInstruction={"role": "system"})).system == ()


REFUSED = {
    "no object": b"[]",
    "no contents": b'{"model":"x"}',
    "contents a string": b'{"contents":"Hi."}',
    "a content a string": b'{"contents":["Hi."]}',
    "a role that is none": b'{"contents":[{"role":5,"parts":[]}]}',
    "both spellings": b'{"contents":[],"systemInstruction":{},"system_instruction":{}}',
    "a key twice": b'{"contents":[],"contents":[]}',
    "half a surrogate pair": b'{"contents":[{"parts":[{"text":"\\ud83d"}]}]}',
    "NUL in a content": b'{"contents":[{"parts":[{"text":"\\u0000"}]}]}',
    "NUL beside them": b'{"contents":[],"x":"\\u0000"}',
    "NUL inside an envelope": b'{"request":{"contents":[],"x":"\\u0000"}}',
    "a tool that is none": b'{"contents":[],"tools":[5]}',
    "a declaration without a name that is one": b'{"contents":[],"tools":[{"functionDeclarations":[{"name":5}]}]}',
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused(name: str) -> None:
    """A body that would have to be guessed at passes unread."""
    with pytest.raises(BodyError):
        read(REFUSED[name])


# -- ids -------------------------------------------------------------------------------------------------


def test_calls_without_ids_are_numbered() -> None:
    """Calls without an id get one made of number and name; responses find them by name, then by order."""
    conversation = read(
        body(
            user(text("Read.")),
            model(call(path="a"), call("run"), call(path="b")),
            user(result("run"), result(), result()),
            model(call(path="c")),
            user(result()),
        )
    )
    calls = [p.id for m in conversation.messages for p in m.parts if isinstance(p, ToolCall)]
    assert calls == ["#1.read_file", "#2.run", "#3.read_file", "#4.read_file"]
    assert answered(conversation) == ["#2.run", "#1.read_file", "#3.read_file", "#4.read_file"]


def test_responses_are_paired_by_id_first() -> None:
    """Ids decide where both sides have them, in any order."""
    conversation = read(
        body(model(call(ident="a"), call(ident="b")), user(result(ident="b"), result(ident="a")))
    )
    assert answered(conversation) == ["b", "a"]


def test_a_response_with_an_id_of_the_clients_own() -> None:
    """A client that names its responses after calls that had no id means them by name and order."""
    own = "read_file-1764520000-1"
    request = body(model(call(), call()), user(result(ident=own), result(ident="read_file-2")))
    assert answered(read(request)) == ["#1.read_file", "#2.read_file"]
    conversation = keyed(read(request))
    part = conversation.messages[1].parts[0]
    edited, _ = apply(conversation, [replaced(part, structs.replace(part, content=b'"new"'))])
    (changed, _) = orjson.loads(DIALECT.write(edited))["contents"][1]["parts"]
    assert changed == result(ident=own, response={"output": "new"})


def test_a_response_without_the_id_of_its_call() -> None:
    """A response that lost its id is paired by name, and says the id again when it is written anew."""
    request = body(model(call(ident="a")), user(result()))
    conversation = keyed(read(request))
    assert answered(conversation) == ["a"]
    part = conversation.messages[1].parts[0]
    edited, _ = apply(conversation, [replaced(part, structs.replace(part, content=b'"new"'))])
    assert orjson.loads(DIALECT.write(edited))["contents"][1]["parts"] == [
        result(ident="a", response={"output": "new"})
    ]


def test_a_response_of_another_name_is_paired_by_order() -> None:
    """Counts are what the provider compares: the one call left is the one that is meant [A303]."""
    assert answered(read(body(model(call(), call("run")), user(result("run"), result("api:read_file"))))) == [
        "#2.run",
        "#1.read_file",
    ]


def test_responses_without_a_call_stay_apart() -> None:
    """A response nobody asked for has an id of its own, whatever its name; one with an id keeps it."""
    conversation = read(
        body(user(result(), result("run")), model(call()), user(result(), result()), user(result(ident="x")))
    )
    assert answered(conversation) == ["#0.1.read_file", "#0.2.run", "#1.read_file", "#0.3.read_file", "x"]


def test_calls_of_an_earlier_step_no_longer_wait() -> None:
    """A response belongs to the step right before it, not to one that was cancelled earlier [A302]."""
    conversation = read(
        body(
            model(call(path="a")), user(text("Stop.")), model(call(path="b")), user(result()), user(result())
        )
    )
    assert answered(conversation) == ["#2.read_file", "#0.1.read_file"]


def test_a_step_in_several_contents_is_one() -> None:
    """Calls of neighbouring model contents wait together, responses in neighbouring contents answer them."""
    conversation = read(
        body(model(call(path="a")), model(call(path="b")), user(result()), user(text("...")), user(result()))
    )
    assert answered(conversation) == ["#1.read_file", "#2.read_file"]


@pytest.mark.parametrize("ident", ["#1.read_file", "#", "##", "#0.1.x", "a#1.b"])
def test_a_clients_id_is_never_taken_for_ours(ident: str) -> None:
    """An id that looks like one of ours is told apart, and leaves as it came."""
    conversation = keyed(read(body(model(call(ident=ident), call()), user(result(ident=ident), result()))))
    first, second = (p for p in conversation.messages[0].parts if isinstance(p, ToolCall))
    assert (outward(first.id), outward(second.id)) == (ident, None)
    assert answered(conversation) == [first.id, second.id]
    made = [
        Replace(
            stage="t", reason="t", target=target_of(part), part=structs.replace(part, base=None, raw=None)
        )
        for message in conversation.messages
        for part in message.parts
    ]
    edited, done = apply(conversation, made)
    assert len(done) == 4
    assert said(read(DIALECT.write(edited))) == said(conversation)


# -- writing ---------------------------------------------------------------------------------------------


def keyed(conversation: Conversation) -> Conversation:
    """The conversation with keys, as the pipeline has it."""
    return structs.replace(
        conversation,
        messages=tuple(chain(conversation.messages, origin(b"t"), Agent().mask)),
        tools=tuple(
            structs.replace(p, key=digest(b"tool", b"%d" % at)) for at, p in enumerate(conversation.tools)
        ),
        system=tuple(
            structs.replace(p, key=digest(b"system", b"%d" % at)) for at, p in enumerate(conversation.system)
        ),
    )


def replaced(old: Part, new: Part) -> Replace:
    return Replace(stage="t", reason="t", target=target_of(old), part=new)


def said(conversation: Conversation) -> list[Any]:
    """What a conversation says, for comparison: everything but keys, places and where bytes came from.

    Ids of ours are good for one reading: they are numbered again, in order.
    """
    numbers: dict[str, str] = {}

    def named(call_id: str) -> str:
        return (
            call_id if outward(call_id) is not None else numbers.setdefault(call_id, f"call {len(numbers)}")
        )

    def plain(part: Part) -> Any:
        raw = bytes(wire_of(part))
        match part:
            case ToolCall(id=call_id):
                part = structs.replace(part, id=named(call_id))
            case ToolResult(call_id=call_id):
                part = structs.replace(part, call_id=named(call_id))
            case _:
                pass
        bare_part = structs.replace(part, raw=None, base=None, key=b"", nth=0, mark=None, size=0)
        return (bare_part, orjson.loads(raw) if raw else None)

    return [
        [plain(part) for part in conversation.tools],
        [plain(part) for part in conversation.system],
        [
            (m.role, [plain(part) for part in m.parts if wire_of(part)])
            for m in conversation.messages
            if m.written
        ],
        (conversation.partial, conversation.model),
    ]


def wire_of(part: Part) -> bytes:
    """The bytes the part leaves in."""
    if isinstance(part, Text) and not part.text and part.raw is None and part.base is None:
        return b""
    sealed = DIALECT.sealed(Message(role=Role.USER, parts=(part,)))
    inner = bytes(sealed.raw or b"")
    return inner.removeprefix(b'{"role":"user","parts":[').removesuffix(b"]}")


def test_an_edited_call_keeps_its_signature_and_its_unknown_members() -> None:
    """Only what an edit says changes; the signature stays on its part [A305]."""
    wire = {
        "thoughtSignature": "c2lnMQ==",
        "functionCall": {"args": {"b": 1.0, "a": 2}, "name": "run", "later": [1]},
        "futureMember": {"x": 1e400},
    }
    raw = json.dumps(body(model(wire))).encode().replace(b"Infinity", b"1e400")
    conversation = keyed(read(raw))
    part = conversation.messages[0].parts[0]
    assert isinstance(part, ToolCall)
    edited, _ = apply(
        conversation, [replaced(part, ToolCall(id=part.id, name="run", input=b'{"a":2,"b":1.0}'))]
    )
    assert DIALECT.write(edited) == (
        b'{"contents":[{"role":"model","parts":[{"thoughtSignature":"c2lnMQ==","functionCall":'
        b'{"args":{"a":2,"b":1.0},"name":"run","later": [1]},"futureMember":{"x": 1e400}}]}]}'.replace(
            b'"later": [1]', b'"later":[1]'
        )
    )


def test_responses_of_ours_are_objects() -> None:
    """A placeholder is an object under the name the API has for it, with the function's name [A303 A309 F10]."""
    conversation = keyed(read(body(model(call(), call("run")), user(result()))))
    missing = ToolResult(call_id="#2.run", name="run", content=b'"No result."', is_error=True)
    there = conversation.messages[1].parts[0]
    edited, _ = apply(
        conversation, [InsertAfter(stage="t", reason="t", target=target_of(there), part=missing)]
    )
    assert orjson.loads(DIALECT.write(edited))["contents"][1] == user(
        result(), result("run", response={"error": "No result."})
    )


def test_a_cleared_response_is_output() -> None:
    """A text in place of an object of several members stands under `output`; other members of the part stay."""
    conversation = keyed(
        read(
            body(
                model(call(ident="a")),
                user(result(ident="a", response={"stdout": "x", "exit": 0}, scheduling="IDLE")),
            )
        )
    )
    old = conversation.messages[1].parts[0]
    edited, _ = apply(
        conversation, [replaced(old, ToolResult(call_id="a", name="read_file", content=b'"[cleared]"'))]
    )
    assert orjson.loads(DIALECT.write(edited))["contents"][1] == user(
        result(ident="a", response={"output": "[cleared]"}, scheduling="IDLE")
    )


def test_a_result_that_becomes_text_brings_nothing_along() -> None:
    """What was said about a response does not hold for the text that stands for it."""
    conversation = keyed(read(body(user(result(ident="x", response={"output": "late"}, scheduling="IDLE")))))
    old = conversation.messages[0].parts[0]
    edited, _ = apply(conversation, [replaced(old, Text(text="late"))])
    assert orjson.loads(DIALECT.write(edited))["contents"] == [user(text("late"))]


def test_a_changed_part_keeps_its_spelling() -> None:
    """A request in snake_case is edited in snake_case."""
    request = snake(body(model(call(ident="a", signature="c2ln")), user(result(ident="a"))))
    conversation = keyed(read(request))
    old = conversation.messages[1].parts[0]
    edited, _ = apply(
        conversation, [replaced(old, ToolResult(call_id="a", name="read_file", content=b'"new"'))]
    )
    request["contents"][1]["parts"][0]["function_response"]["response"] = {"output": "new"}
    assert orjson.loads(DIALECT.write(edited)) == request


TOOLS = [
    {"functionDeclarations": [READ, RUN]},
    {"googleSearch": {}},
    {"codeExecution": {}, "function_declarations": [{"name": "look"}], "urlContext": {}},
    {},
]


def test_tools_are_read_flat() -> None:
    """Every declaration is a tool, every other tool is one as it came."""
    assert [
        part.name if isinstance(part, ToolDefinition) else part.kind for part in read(body(tools=TOOLS)).tools
    ] == [  # type: ignore[union-attr]
        "read_file",
        "run",
        "googleSearch",
        "codeExecution",
        "look",
        "urlContext",
        "",
    ]


def test_a_changed_declaration_stays_where_it_was() -> None:
    """A changed tool changes nothing around it."""
    conversation = keyed(read(body(tools=TOOLS)))
    tool = conversation.tools[4]
    changed = structs.replace(tool, base=Raw(b'{"name":"look","description":"Look."}'))
    edited, _ = apply(conversation, [replaced(tool, changed)])
    expected = copy.deepcopy(TOOLS)
    expected[2]["function_declarations"][0]["description"] = "Look."  # type: ignore[index]
    assert orjson.loads(DIALECT.write(edited))["tools"] == expected


def test_reordered_tools_keep_their_order_on_the_wire() -> None:
    """Where a declaration moves between tool objects, order wins over nesting."""
    conversation = keyed(read(body(tools=TOOLS)))
    move = Move(
        stage="t", reason="t", target=target_of(conversation.tools[4]), to=target_of(conversation.tools[0])
    )
    edited, _ = apply(conversation, [move])
    assert orjson.loads(DIALECT.write(edited))["tools"] == [
        {"functionDeclarations": [READ]},
        {"function_declarations": [{"name": "look"}]},
        {"functionDeclarations": [RUN]},
        {"googleSearch": {}},
        {"codeExecution": {}, "urlContext": {}},
        {},
    ]


def test_a_tool_of_ours_stands_with_the_one_before_it() -> None:
    """A tool that the client did not send is declared where the tool before it is."""
    conversation = keyed(read(body(tools=TOOLS)))
    ours = ToolDefinition(name="ours", base=Raw(b'{"name":"ours"}'))
    for at, group, member in ((1, 0, "functionDeclarations"), (4, 2, "function_declarations")):
        there = target_of(conversation.tools[at])
        edited, _ = apply(conversation, [InsertAfter(stage="t", reason="t", target=there, part=ours)])
        expected = copy.deepcopy(TOOLS)
        expected[group][member].append({"name": "ours"})  # type: ignore[index]
        assert orjson.loads(DIALECT.write(edited))["tools"] == expected
    first = structs.replace(conversation, tools=(ours,), tools_changed=True)
    assert orjson.loads(DIALECT.write(first))["tools"] == [{"functionDeclarations": [{"name": "ours"}]}]


@pytest.mark.parametrize("odd", [None, [], {"name": "run"}])
def test_declarations_in_another_form_stay(odd: Any) -> None:
    """What is no list of declarations is one tool that passes as it came."""
    tools = [{"functionDeclarations": odd, "googleSearch": {}}, {"functionDeclarations": [READ]}]
    conversation = keyed(read(body(tools=tools)))
    mark = PlaceMark(stage="t", reason="t", target=target_of(conversation.tools[0]), mark=None)
    edited, _ = apply(conversation, [mark])
    assert orjson.loads(DIALECT.write(edited))["tools"] == tools


def test_a_call_without_arguments_stays_without() -> None:
    """No member is added that says nothing; a response without content has none either."""
    bare_call = {"functionCall": {"name": "run"}}
    bare_response = {"functionResponse": {"name": "run"}}
    conversation = keyed(read(body(model(bare_call), user(bare_response))))
    call_part, response_part = (message.parts[0] for message in conversation.messages)
    edited, _ = apply(
        conversation,
        [
            replaced(call_part, structs.replace(call_part, base=None, raw=None)),
            replaced(response_part, structs.replace(response_part, base=None, raw=None)),
        ],
    )
    assert orjson.loads(DIALECT.write(edited))["contents"] == [model(bare_call), user(bare_response)]


def test_a_response_that_becomes_an_object() -> None:
    """Content that is an object already leaves as one."""
    conversation = keyed(read(body(model(call(ident="a")), user(result(ident="a")))))
    old = conversation.messages[1].parts[0]
    edited, _ = apply(
        conversation, [replaced(old, ToolResult(call_id="a", name="read_file", content=b'{"rows":[1]}'))]
    )
    assert orjson.loads(DIALECT.write(edited))["contents"][1] == user(
        result(ident="a", response={"rows": [1]})
    )


def test_a_tool_object_may_stand_bare() -> None:
    """One tool object may stand for a list of one."""
    conversation = keyed(read(body(tools={"functionDeclarations": [READ]})))
    assert [part.name for part in conversation.tools if isinstance(part, ToolDefinition)] == ["read_file"]
    assert read(body(tools=None)).tools == ()


def test_without_reasoning() -> None:
    """Thoughts and signatures on nothing leave; calls keep theirs, and what held nothing else leaves too."""
    request = body(
        user(text("Hi.")),
        model(text("Hm.", thought=True), call(signature="c2ln")),
        user(result()),
        model(text("", thoughtSignature="c2ln")),
    )
    assert orjson.loads(DIALECT.without_reasoning(orjson.dumps(request)))["contents"] == [
        user(text("Hi.")),
        model(call(signature="c2ln")),
        user(result()),
    ]
    plain = orjson.dumps(body())
    assert DIALECT.without_reasoning(plain) is plain


# -- laws ------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["Hi.", "Größe", "a_b", "", " ", "\n", "x\\y", '"q"'])
NAMES = st.sampled_from(["read_file", "run", "look"])
TEXTS = st.builds(
    lambda words, signed, thought: {
        "text": words,
        **({"thoughtSignature": "c2ln"} if signed else {}),
        **({"thought": True} if thought else {}),
    },
    WORDS,
    st.booleans(),
    st.booleans(),
)
OTHERS = st.sampled_from(
    [
        {"inlineData": {"mimeType": "image/png", "data": "aGVsbG8="}},
        {"fileData": {"fileUri": "gs://b/f"}},
        {"executableCode": {"code": "1"}},
        {"toolCall": {"id": "s"}, "thoughtSignature": "c2ln"},
        {"newPart": {"long": 1}},
    ]
)
RESPONSES = st.sampled_from(
    [{"output": "ok"}, {"error": "no"}, {"error": {"c": 1}}, {"a": 1, "output": "x"}, {}, {"output": 5}]
)


@st.composite
def steps(draw: Any) -> list[Json]:
    """A user's words, or a step: calls with or without ids, and a response for each."""
    if draw(st.booleans()):
        return [user(*draw(st.lists(st.one_of(TEXTS, OTHERS), max_size=3)))]
    named = draw(st.booleans())
    names = draw(st.lists(NAMES, min_size=1, max_size=3))
    start = draw(st.integers(0, 10**6))
    ids = [f"call-{start}-{at}" if named else None for at in range(len(names))]
    signature = draw(st.sampled_from([None, "c2ln"]))
    calls = [call(name, ident, signature, v=draw(WORDS)) for name, ident in zip(names, ids, strict=True)]
    results = [result(name, ident, draw(RESPONSES)) for name, ident in zip(names, ids, strict=True)]
    before = draw(st.lists(TEXTS, max_size=2))
    return [model(*before, *calls), user(*results, *draw(st.lists(TEXTS, max_size=1)))]


@st.composite
def requests(draw: Any) -> Json:
    contents = [content for step in draw(st.lists(steps(), min_size=1, max_size=5)) for content in step]
    request = body(
        *contents,
        tools=draw(st.sampled_from([TOOLS, TOOLS[:1], [], [{"googleSearch": {}}]])),
        systemInstruction={"parts": [text("Be kind."), text("Be quick.")]},
        generationConfig={"temperature": 1.0},
    )
    request = dict(draw(st.permutations(list(request.items()))))
    request = WRAPS[draw(st.sampled_from([*WRAPS]))](request)
    return snake(request) if draw(st.booleans()) else request  # type: ignore[no-any-return]


@given(requests(), st.booleans())
def test_a_request_leaves_as_it_came(request: Json, spaced: bool) -> None:
    """Opened and closed again, down to every part, a request says the same and keeps the client's slices."""
    raw = json.dumps(request, ensure_ascii=False, separators=(", ", ": ") if spaced else (",", ":")).encode()
    conversation = read(raw)
    assert json.loads(DIALECT.write(conversation)) == request
    opened = structs.replace(
        conversation,
        messages=tuple(structs.replace(m, raw=None) for m in conversation.messages),
        tools_changed=True,
        system_changed=True,
    )
    assert json.loads(DIALECT.write(opened)) == request
    if not spaced:
        assert DIALECT.write(opened) == DIALECT.write(conversation) == raw
    else:
        written = DIALECT.write(opened)
        for part in (p for m in conversation.messages for p in m.parts if p.raw is not None):
            assert bytes(part.raw or b"") in written


@given(requests(), st.integers(0, 12))
def test_reading_goes_on_behind_what_is_known(request: Json, cut: int) -> None:
    """Messages taken over from an earlier reading give the same conversation as reading all."""
    opened = DIALECT.open(orjson.dumps(request))
    whole = DIALECT.read(opened)
    again = DIALECT.read(opened, whole.messages[:cut])
    assert again == whole
    assert DIALECT.read(opened, again.messages[: cut + 2]) == whole


@st.composite
def edits_of(draw: Any, conversation: Conversation) -> list[Edit]:
    """Edits of the kinds that stages make; a call leaves with its result or not at all."""
    made: list[Edit] = []
    common = {"stage": "t", "reason": "t"}
    texts = [(m.role, p) for m in conversation.messages for p in m.parts if isinstance(p, Text)]
    removed: set[str] = set()
    for message in conversation.messages:
        for part in message.parts:
            target = target_of(part)
            match part, draw(st.integers(0, 5)):
                case Text(), 0:
                    made.append(replaced(part, Text(text=draw(WORDS.filter(str.strip)))))
                case ((Text() | Image() | Opaque() | Reasoning()), 1):
                    made.append(Remove(target=target, **common))
                case Text(), 2:
                    goals = [p for role, p in texts if role is message.role and p is not part]
                    if goals:
                        made.append(Move(target=target, to=target_of(draw(st.sampled_from(goals))), **common))
                case ((Text() | Reasoning() | Image()), 3):
                    made.append(PlaceMark(target=target, mark=None, **common))
                case ToolCall(), 0:
                    made.append(replaced(part, ToolCall(id=part.id, name=part.name, input=b'{"new":1}')))
                case ToolCall(id=call_id), 1:
                    removed.add(call_id)
                    made.append(Remove(target=target, **common))
                case ToolResult(call_id=call_id), 0 | 1 if call_id not in removed:
                    error = draw(st.booleans())
                    made.append(replaced(part, ToolResult(call_id=call_id, content=b'"[x]"', is_error=error)))
                case ToolResult(call_id=call_id), _ if call_id in removed:
                    made.append(Remove(target=target, **common))
                case _, 4:
                    made.append(InsertBefore(target=target, part=Text(text="before"), **common))
                case _, 5:
                    between = any(isinstance(other, ToolCall) for other in message.parts)
                    role = None if between else draw(st.sampled_from([None, Role.USER, Role.ASSISTANT]))
                    made.append(InsertAfter(target=target, part=Text(text="behind"), role=role, **common))
                case _:
                    pass
    for part in conversation.tools:
        if draw(st.booleans()) and isinstance(part, ToolDefinition):
            made.append(
                replaced(part, structs.replace(part, base=Raw(b'{"name":"%s"}' % part.name.encode())))
            )
        elif draw(st.booleans()):
            to = draw(st.sampled_from(conversation.tools))
            made.append(Move(target=target_of(part), to=target_of(to), before=draw(st.booleans()), **common))
    if draw(st.booleans()):
        made.append(replaced(conversation.system[0], Text(text="Be calm.")))
    return made


@given(st.data())
def test_what_edits_give_is_what_is_read_again(data: st.DataObject) -> None:
    """Edited, written and read, a conversation is the one that the edits gave: nothing is joined or split."""
    conversation = keyed(read(data.draw(requests())))
    edited, _ = apply(conversation, data.draw(edits_of(conversation)))
    body_ = DIALECT.write(edited)
    again = read(body_)
    assert said(again) == said(edited)
    sealed = tuple(DIALECT.sealed(m) if m.written else m for m in edited.messages)
    assert DIALECT.write(structs.replace(edited, messages=sealed)) == body_
