"""The embedded Gemini API: what it refuses and in which words, what it caches, and how it answers."""

from __future__ import annotations

import asyncio
import gzip
import io
from typing import Any

import aiohttp
import orjson
import pytest

from proxy.simulator import Agent, Call, Canned, Reply, Say, Server, Think
from proxy.simulator.agent import Find, Read, Shell
from proxy.simulator.gemini import GeminiProvider, GeminiSettings
from proxy.simulator.gemini.settings import find
from proxy.simulator.gemini.turns import SKIP, sign

Json = dict[str, Any]

PRO3, FLASH25 = "gemini-3-pro", "gemini-2.5-flash"
SIGNED = sign({"functionCall": {"name": "read_file", "args": {"path": "pump.py"}}})
READ = {
    "name": "read_file",
    "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}, "required": ["path"]},
}
CALL_FIRST = "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
RESPONSE_FIRST = "Please ensure that function response turn comes immediately after a function call turn."
COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of "
    "the function call turn."
)
UNSIGNED = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, "
    "and missing thought_signature may lead to degraded model performance. Additional data, function call "
    "`default_api:read_file` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures "
    "for more details."
)
NO_PARTS = (
    "Unable to submit request because it must include at least one parts field, which describes the prompt input. "
    "Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"
)
VERTEX = GeminiSettings(backend="vertex", strict_text=True)


def text(words: str, **members: Any) -> Json:
    return {"text": words, **members}


def call(
    name: str = "read_file", signature: str | None = None, ident: str | None = None, **args: Any
) -> Json:
    inner = {**({"id": ident} if ident else {}), "name": name, "args": args or {"path": "pump.py"}}
    return {"functionCall": inner, **({"thoughtSignature": signature} if signature else {})}


def result(name: str = "read_file", ident: str | None = None, **response: Any) -> Json:
    inner = {**({"id": ident} if ident else {}), "name": name, "response": response or {"output": "ok"}}
    return {"functionResponse": inner}


def user(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Json) -> Json:
    return {"role": "model", "parts": list(parts)}


def body(*contents: Json, **members: Any) -> Json:
    return {
        "contents": list(contents) or [user(text("Check the pump."))],
        "systemInstruction": {"parts": [text("You look after a small greenhouse.")]},
        "tools": [{"functionDeclarations": [READ]}],
        **members,
    }


def send(
    provider: GeminiProvider,
    request: Any,
    name: str = FLASH25,
    method: str = "generateContent",
    *,
    query: str = "",
    now: float = 0.0,
    path: str | None = None,
    headers: Any = (("x-goog-api-key", "test-key"),),
) -> Any:
    raw = request if isinstance(request, bytes) else orjson.dumps(request)
    return provider.answer(headers, raw, now, path or f"/v1beta/models/{name}:{method}{query}")


def complaint(request: Any, name: str = FLASH25, settings: GeminiSettings | None = None) -> str | None:
    """What the API says no with; None if it answers."""
    answer = send(GeminiProvider(settings), request, name)
    return None if answer.status == 200 else answer.json["error"]["message"]


ASKED = user(text("Read."))

REFUSED: dict[str, tuple[Json, str]] = {
    "no contents": (body(contents=[]), "* GenerateContentRequest.contents: contents is not specified\n"),
    "contents missing": ({}, "* GenerateContentRequest.contents: contents is not specified\n"),
    "no parts": (body(ASKED, model(), ASKED), NO_PARTS),
    "parts missing": (body({"role": "user"}), NO_PARTS),
    "a part that says nothing": (
        body(user({})),
        "* GenerateContentRequest.contents[0].parts[0].data: required oneof field 'data' must have one initialized "
        "field\n",
    ),
    "a part that says two things": (
        body(user({"text": "a", "functionCall": {"name": "run"}})),
        "Invalid value at 'contents[0].parts[0]' (oneof), oneof field 'data' is already set. Cannot set "
        "'functionCall'",
    ),
    "unknown role": (body({"role": "system", "parts": [text("x")]}), "Please use a valid role: user, model."),
    "unknown member": (
        body(colour="red"),
        'Invalid JSON payload received. Unknown name "colour": Cannot find field.',
    ),
    "unknown member of a content": (
        body({"role": "user", "content": "x"}),
        "Invalid JSON payload received. Unknown name \"content\" at 'contents[0]': Cannot find field.",
    ),
    "a root that is none": (
        body(generationConfig=5),
        "Invalid value at 'generation_config' (type.googleapis.com/google.protobuf.Struct), 5",
    ),
    "a part that is none": (
        body(user("Hi.")),  # type: ignore[arg-type]
        "Invalid value at 'contents[0].parts[0]' (type.googleapis.com/google.ai.generativelanguage.v1beta.Part), "
        '"Hi."',
    ),
    "unknown member of a part, in snake case": (
        body(user({"function_call": {"name": "run", "arguments": "{}"}})),
        "Invalid JSON payload received. Unknown name \"arguments\" at 'contents[0].parts[0].function_call': Cannot "
        "find field.",
    ),
    "a text that is none": (
        body(user({"text": 5})),
        "Invalid value at 'contents[0].parts[0].text' (TYPE_STRING), 5",
    ),
    "a thought that is none": (
        body(user({"text": "x", "thought": "yes"})),
        "Invalid value at 'contents[0].parts[0].thought' (TYPE_BOOL), \"yes\"",
    ),
    "arguments that are no object": (
        body(ASKED, model({"functionCall": {"name": "run", "args": "{}"}}), user(result("run"))),
        "Invalid value at 'contents[1].parts[0].function_call.args' (type.googleapis.com/google.protobuf.Struct), "
        '"{}"',
    ),
    "a response that is no object": (
        body(ASKED, model(call()), user({"functionResponse": {"name": "read_file", "response": "ok"}})),
        "Invalid value at 'contents[2].parts[0].function_response.response' "
        '(type.googleapis.com/google.protobuf.Struct), "ok"',
    ),
    "a content that is none": (
        body("Hi."),  # type: ignore[arg-type]
        "Invalid value at 'contents[0]' (type.googleapis.com/google.ai.generativelanguage.v1beta.Content), \"Hi.\"",
    ),
    "a call without a name": (
        body(ASKED, model({"functionCall": {"args": {}}}), user(result())),
        "* GenerateContentRequest.contents[1].parts[0].function_call.name: Name cannot be empty.\n",
    ),
    "a response without a name": (
        body(ASKED, model(call()), user({"functionResponse": {"response": {}}})),
        "* GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty.\n",
    ),
    "a response without content": (
        body(ASKED, model(call()), user({"functionResponse": {"name": "read_file"}})),
        "* GenerateContentRequest.contents[2].parts[0].function_response.response: Response cannot be empty.\n",
    ),
    "one function twice": (
        body(tools=[{"functionDeclarations": [READ, READ]}]),
        "Duplicate function declaration found: read_file",
    ),
    "history opens with a call": (body(model(call()), user(result())), CALL_FIRST),
    "a call behind the model's text": (
        body(ASKED, model(text("Hm.")), model(call()), user(result())),
        CALL_FIRST,
    ),
    "a response without a call": (body(ASKED, model(text("Hm.")), user(result())), RESPONSE_FIRST),
    "a response that opens": (body(user(result())), RESPONSE_FIRST),
    "a text between call and response": (
        body(ASKED, model(call()), user(text("Wait.")), user(result())),
        COUNT,
    ),
    "a missing response": (body(ASKED, model(call(), call()), user(result())), COUNT),
    "responses in two contents": (body(ASKED, model(call(), call()), user(result()), user(result())), COUNT),
    "too many responses": (body(ASKED, model(call()), user(result(), result())), COUNT),
    "one call after the other in one step": (
        body(ASKED, model(call()), model(call()), user(result(), result())),
        COUNT,
    ),
    "a call without an answer at the end": (body(ASKED, model(call())), COUNT),
    "a key that is none": (
        body(systemInstruction="Be kind."),
        "Invalid value at 'system_instruction' (type.googleapis.com/google.ai.generativelanguage.v1beta.Content), "
        '"Be kind."',
    ),
    "a model that is none": (body(model=5), "Invalid value at 'model' (TYPE_STRING), 5"),
    "an explicit cache and a system instruction": (
        body(cachedContent="cachedContents/x"),
        "CachedContent can not be used with GenerateContent request setting system_instruction, tools or "
        "tool_config.\n\nProposed fix: move those values to CachedContent from GenerateContent request.",
    ),
    "an explicit cache nobody made": (
        {"contents": [ASKED], "cached_content": "cachedContents/x"},
        "CachedContent not found (or permission denied)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal(name: str) -> None:
    """What the API refuses, it refuses in these words."""
    request, words = REFUSED[name]
    assert complaint(request) == words


def test_a_name_no_function_may_have() -> None:
    """Names begin with a letter or an underscore [A309]."""
    said = complaint(body(tools=[{"functionDeclarations": [{"name": "2 read"}]}]))
    assert said is not None
    assert "Invalid function name. Must start with a letter or an underscore." in said


ACCEPTED: dict[str, Json] = {
    "plain": body(),
    "one content for a list of one": {"contents": {"parts": {"text": "Hi."}}},
    "snake case": {"system_instruction": {"parts": [text("x")]}, "contents": [ASKED]},
    "texts of one role behind each other": body(ASKED, ASKED, model(text("a")), model(text("b")), ASKED),
    "opens with the model's text": body(model(text("Hello.")), ASKED),
    "ends with the model": body(ASKED, model(text("It"))),
    "text beside responses": body(
        ASKED, model(text("Hm."), call()), user(text("Here:"), result(), text("x"))
    ),
    "parallel calls": body(ASKED, model(call(), call()), user(result(), result())),
    "responses in the function's role": body(ASKED, model(call()), {"role": "function", "parts": [result()]}),
    "blank texts": body(user(text(""), text(" "))),
    "a signed text without words": body(ASKED, model(text("", thoughtSignature="c2ln")), ASKED),
    "a signature alone": body(ASKED, model({"thoughtSignature": "c2ln"}), ASKED),
    "null members": body(cachedContent=None, toolConfig=None),
    "server calls": body(ASKED, model({"toolCall": {"id": "s"}}, {"toolResponse": {"id": "s"}}), ASKED),
    "other tools": body(tools=[{"googleSearch": {}}, {"functionDeclarations": [READ]}]),
    "unsigned calls before Gemini 3": body(ASKED, model(call()), user(result())),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_accepted(name: str) -> None:
    """What the API takes, this one takes."""
    assert complaint(ACCEPTED[name]) is None


def test_vertex_wants_words_in_a_text() -> None:
    """An empty text is refused there, one with a signature nowhere [A301 A305]."""
    empty = body(ASKED, model(text("")), ASKED)
    assert complaint(empty, settings=VERTEX) == (
        "Unable to submit request because it must have a text parameter."
    )
    assert complaint(empty) is None
    assert complaint(ACCEPTED["a signed text without words"], settings=VERTEX) is None


def test_strict_schemas() -> None:
    """Where the backend is strict, `parameters` says no more than OpenAPI 3.0 has names for [A309]."""
    deep = {
        "type": "OBJECT",
        "properties": {
            "a": {"type": "ARRAY", "items": {"anyOf": [{"type": "STRING"}, {"additionalProperties": False}]}}
        },
    }
    request = body(tools=[{"functionDeclarations": [{"name": "run", "parameters": deep}]}])
    strict = GeminiSettings(strict_schemas=True)
    assert complaint(request) is None
    assert complaint(request, settings=strict) == (
        'Invalid JSON payload received. Unknown name "additionalProperties" at '
        "'tools[0].function_declarations[0].parameters.properties[0].value.items.any_of[1]': Cannot find field."
    )
    fine = {"type": "OBJECT", "properties": {"a": {"type": "ARRAY", "items": {"type": "STRING"}}}}
    assert (
        complaint(
            body(tools=[{"functionDeclarations": [{"name": "run", "parameters": fine}]}]), settings=strict
        )
        is None
    )
    named = body(tools=[{"functionDeclarations": [{"name": "run", "parametersJsonSchema": deep}]}])
    assert complaint(named, settings=strict) is None


# -- signatures ------------------------------------------------------------------------------------------

STEP = (model(call(signature=SIGNED), call()), user(result(), result()))


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ((ASKED, *STEP), None),
        ((ASKED, model(call(), call(signature=SIGNED)), user(result(), result())), UNSIGNED.format(2)),
        ((ASKED, *STEP, model(call()), user(result())), UNSIGNED.format(4)),
        ((ASKED, model(call()), user(result()), ASKED), None),
        ((ASKED, model(call()), user(result(), text("And?"))), None),
        ((ASKED, model(call(signature=SKIP[0])), user(result())), None),
        ((ASKED, model(call(signature=SKIP[1])), user(result())), None),
        ((ASKED, model(call(signature="Zm9yZWlnbg==")), user(result())), "Corrupted thought signature."),
        ((ASKED, model(call(signature=SIGNED[:-8])), user(result())), "Corrupted thought signature."),
    ],
    ids=str,
)
def test_signatures_of_the_current_turn(contents: Any, expected: str | None) -> None:
    """From Gemini 3 on the first call of each step of the current turn is signed, and soundly [A304-A306]."""
    assert complaint(body(*contents), PRO3) == expected


def test_signatures_in_the_words_of_vertex() -> None:
    """The other backend says the same otherwise [A304 A305]."""
    assert complaint(body(ASKED, model(call()), user(result())), PRO3, VERTEX) == (
        "Unable to submit request because function call `read_file` in the 2. content block is missing a "
        "`thought_signature`. Learn more: https://ai.google.dev/gemini-api/docs/thought-signatures"
    )
    foreign = body(ASKED, model(call(signature="x")), user(result()))
    assert complaint(foreign, PRO3, VERTEX) == "Invalid thought signature."


def test_a_signature_on_another_call() -> None:
    """Where signatures are bound, one that wandered to another call is refused [A305]."""
    bound = GeminiSettings(bound_signatures=True)
    wandered = body(ASKED, model(call(signature=SIGNED, path="fan.py")), user(result()))
    assert complaint(wandered, PRO3, bound) == "Corrupted thought signature."
    assert complaint(wandered, PRO3) is None
    assert complaint(body(ASKED, *STEP), PRO3, bound) is None


def test_a_signature_in_the_alphabet_for_urls() -> None:
    """What the vendor's SDK makes of a signature when it sends it back is the same signature [A305]."""
    assert "+" in SIGNED or "/" in SIGNED
    respelt = SIGNED.replace("+", "-").replace("/", "_")
    contents = body(ASKED, model(call(signature=respelt)), user(result()))
    assert complaint(contents, PRO3, GeminiSettings(bound_signatures=True)) is None


def test_ids_of_responses() -> None:
    """Where calls have ids and the backend is strict, each response names one of them [A303]."""
    contents = (ASKED, model(call(ident="a", signature=SIGNED)), user(result(ident="b")))
    strict = GeminiSettings(strict_ids=True)
    assert complaint(body(*contents), PRO3, strict) == (
        "Function response id `b` does not match any function call."
    )
    assert complaint(body(*contents), PRO3) is None
    nameless = (
        ASKED,
        model(call(ident="a", signature=SIGNED), call()),
        user(result(ident="a"), result()),
    )
    assert complaint(body(*nameless), PRO3, strict) is None


# -- envelopes -------------------------------------------------------------------------------------------


def test_the_error_envelope() -> None:
    """Errors come as one object, inside an array where a stream was asked for without `alt=sse`."""
    error = {
        "error": {
            "code": 400,
            "message": "* GenerateContentRequest.contents: contents is not specified\n",
            "status": "INVALID_ARGUMENT",
        }
    }
    provider = GeminiProvider()
    assert send(provider, {}).json == error
    assert send(provider, {}, method="streamGenerateContent", query="?alt=sse").json == error
    assert send(provider, {}, method="streamGenerateContent").json == [error]
    assert [record.status for record in provider.log] == [400, 400, 400]


def test_code_assist_wraps_requests_answers_and_errors() -> None:
    """The CLI with a Google login finds the same API in another wrapping [D301]."""
    provider = GeminiProvider()
    path = "/v1internal:generateContent"
    request = {"model": PRO3, "project": "p", "user_prompt_id": "u", "request": body()}
    answer = send(provider, request, path=path)
    assert answer.json["response"]["candidates"][0]["finishReason"] == "STOP"
    assert provider.log[-1].model == PRO3
    refused = send(provider, {**request, "request": {}}, path=path).json["error"]
    assert refused["errors"] == [{"message": refused["message"], "domain": "global", "reason": "badRequest"}]
    stream = send(provider, request, path="/v1internal:streamGenerateContent?alt=sse")
    assert all("response" in orjson.loads(event[6:]) for event in stream.events)
    assert send(provider, {"model": PRO3}, path=path).status == 400


@pytest.mark.parametrize(
    ("path", "status", "word"),
    [
        ("/v1beta/models/gemini-x:generateContent", 404, "NOT_FOUND"),
        ("/v1beta/models/gemini-3-pro:embedContent", 404, "NOT_FOUND"),
        ("/v1/messages", 404, "NOT_FOUND"),
        ("/v1/projects/p/locations/l/publishers/google/models/gemini-3-pro:generateContent", 200, ""),
    ],
)
def test_paths(path: str, status: int, word: str) -> None:
    """A method or a model that is not there is not found."""
    answer = send(GeminiProvider(GeminiSettings(known_models_only=True)), body(), path=path)
    assert (answer.status, answer.json.get("error", {}).get("status", "")) == (status, word)


def test_keys() -> None:
    """A key comes in a header or in the query, and stands in no record [D300]."""
    provider = GeminiProvider(GeminiSettings(require_auth=True))
    assert send(provider, body(), headers=()).json["error"]["code"] == 403
    assert send(provider, body(), query="?key=sesame", headers=()).status == 200
    assert send(provider, body(), headers=(("Authorization", "Bearer sesame"),)).status == 200
    assert send(provider, body(), headers=(("X-Goog-Api-Key", "sesame"),)).status == 200
    assert "sesame" not in repr([(record.path, record.headers) for record in provider.log])


def test_bodies() -> None:
    """A body is opened before it is read, and says what is wrong with it."""
    provider = GeminiProvider(GeminiSettings(max_body_bytes=10_000))
    packed = gzip.compress(orjson.dumps(body()))
    assert send(provider, packed, headers=(("content-encoding", "gzip"),)).status == 200
    assert send(provider, b"{").json["error"]["message"].startswith("Invalid JSON payload received.")
    assert send(provider, b"[]").status == 400
    assert send(provider, body(user(text("x" * 10_000)))).status == 400


@pytest.mark.parametrize("status", [400, 500])
def test_a_prompt_too_long(status: int) -> None:
    """A prompt that does not fit the window is refused, with either status that was seen."""
    provider = GeminiProvider(GeminiSettings(overflow_status=status))  # type: ignore[arg-type]
    answer = send(provider, body(user(text("word " * 900_000))))
    assert answer.status == status
    assert answer.json["error"]["message"].endswith("exceeds the maximum number of tokens allowed (1048576).")


# -- answers ---------------------------------------------------------------------------------------------


def say(*blocks: Any, **options: Any) -> Any:
    return lambda _: Reply(blocks=blocks, **options)


def test_usage_has_no_zeros() -> None:
    """A count that is zero is absent; the total is the sum [B302]."""
    usage = send(GeminiProvider(script=say(Say("Done."))), body()).json["usageMetadata"]
    assert usage.keys() == {
        "promptTokenCount",
        "candidatesTokenCount",
        "totalTokenCount",
        "promptTokensDetails",
    }
    assert usage["totalTokenCount"] == usage["promptTokenCount"] + usage["candidatesTokenCount"]


def test_thoughts_are_counted_apart() -> None:
    """Thoughts come where they are asked for, and are no candidates [B302]."""
    thinking = {"thinkingConfig": {"includeThoughts": True}}
    answer = send(GeminiProvider(script=say(Say("Done."))), body(generationConfig=thinking)).json
    first, second = answer["candidates"][0]["content"]["parts"]
    assert first["thought"] is True
    assert second == text("Done.")
    assert answer["usageMetadata"]["thoughtsTokenCount"] > 0


def test_calls_of_gemini_3_have_ids_and_the_first_is_signed() -> None:
    """Parallel calls: one signature, on the first; earlier models have neither [A303 A304]."""
    script = say(Say("Look."), Call("read_file", {"path": "a"}), Call("read_file", {"path": "b"}))
    words, first, second = send(GeminiProvider(script=script), body(), PRO3).json["candidates"][0]["content"][
        "parts"
    ]
    assert words == text("Look.")
    assert first.keys() == {"functionCall", "thoughtSignature"}
    assert second.keys() == {"functionCall"}
    assert len({first["functionCall"]["id"], second["functionCall"]["id"]}) == 2
    _, old, _ = send(GeminiProvider(script=script), body(), FLASH25).json["candidates"][0]["content"]["parts"]
    assert old == call(path="a")


def test_a_stream_of_events() -> None:
    """Unnamed events, cumulative usage, the reason in the last, the signature on a text without words [C300]."""
    provider = GeminiProvider(script=say(Think("Hm."), Say("All is well here.")))
    answer = send(provider, body(), PRO3, "streamGenerateContent", query="?alt=sse")
    assert all(event.startswith(b"data: {") and event.endswith(b"\r\n\r\n") for event in answer.events)
    chunks = [orjson.loads(event[6:]) for event in answer.events]
    candidates = [chunk["candidates"][0] for chunk in chunks]
    parts = [candidate["content"]["parts"][0] for candidate in candidates]
    assert "".join(part["text"] for part in parts if not part.get("thought")) == "All is well here."
    assert ["finishReason" in candidate for candidate in candidates] == [False] * (len(chunks) - 1) + [True]
    assert parts[-1] == text("", thoughtSignature=sign(text("")))
    said = [chunk["usageMetadata"].get("candidatesTokenCount", 0) for chunk in chunks]
    assert said == sorted(said)
    assert chunks[-1]["usageMetadata"]["candidatesTokenCount"] == said[-1]


def test_a_stream_in_an_array() -> None:
    """Without `alt=sse` the chunks are the elements of one array [C300]."""
    provider = GeminiProvider(script=say(Say("All is well here.")))
    answer = send(provider, body(), PRO3, "streamGenerateContent")
    assert dict(answer.headers)["content-type"].startswith("application/json")
    chunks = orjson.loads(b"".join(answer.events))
    assert len(chunks) == len(answer.events) - 1
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"


def test_a_blocked_prompt() -> None:
    """Nothing is answered, with status 200, and nothing is kept [C301]."""
    provider = GeminiProvider(script=say(stop_reason="blocked"))
    for method in ("generateContent", "streamGenerateContent"):
        answer = send(provider, body(user(text("word " * 9_000))), method=method)
        whole = answer.json if answer.events is None else orjson.loads(b"".join(answer.events))[0]
        assert whole["promptFeedback"] == {"blockReason": "PROHIBITED_CONTENT"}
        assert "candidates" not in whole
        assert answer.status == 200
    assert provider.log[-1].read == 0


def test_an_answer_that_breaks_off() -> None:
    """A stream may end early, or end in an error."""
    cut = send(
        GeminiProvider(script=say(Say("All is well."), cut_after=1)),
        body(),
        method="streamGenerateContent",
        query="?alt=sse",
    )
    assert cut.abort
    assert len(cut.events) == 1
    failed = send(
        GeminiProvider(script=say(Say("All is well."), fail_after=1)),
        body(),
        method="streamGenerateContent",
        query="?alt=sse",
    )
    assert orjson.loads(failed.events[-1][6:])["error"]["status"] == "UNAVAILABLE"


@pytest.mark.parametrize(
    ("reason", "word"),
    [("max_tokens", "MAX_TOKENS"), ("refusal", "SAFETY"), ("MALFORMED_FUNCTION_CALL",) * 2],
)
def test_reasons(reason: str, word: str) -> None:
    """The reason an answer ended, in the API's words [A308]."""
    answer = send(GeminiProvider(script=say(Say("x"), stop_reason=reason)), body())
    assert answer.json["candidates"][0]["finishReason"] == word


def test_a_failure_to_inject() -> None:
    """A canned answer goes out first, once, and not to a count."""
    provider = GeminiProvider()
    provider.canned.append(Canned(429, b'{"error":{"message":"Slow down."}}', (("retry-after", "1"),)))
    assert send(provider, body(), method="countTokens").status == 200
    answer = send(provider, body())
    assert (answer.status, dict(answer.headers)["retry-after"], answer.exchange.error) == (
        429,
        "1",
        "Slow down.",
    )
    assert send(provider, body()).status == 200
    provider.canned.append(provider.error(429, "Quota exceeded.", retry_s=37))
    assert send(provider, body()).json["error"] == {
        "code": 429,
        "message": "Quota exceeded.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}],
    }
    hooked = GeminiProvider(hook=lambda _: Canned(503, b"down"))
    assert send(hooked, body()).exchange.error == "down"


def test_counting() -> None:
    """Tokens are those a request is charged, in either form; an open turn may be counted."""
    provider = GeminiProvider()
    charged = send(provider, body()).json["usageMetadata"]["promptTokenCount"]
    assert send(provider, body(), method="countTokens").json["totalTokens"] == charged
    inner = {"generateContentRequest": {"model": f"models/{PRO3}", **body()}}
    assert send(provider, inner, method="countTokens").json["totalTokens"] == charged
    assert send(provider, body(ASKED, model(call())), method="countTokens").status == 200
    assert send(provider, {"contents": []}, method="countTokens").status == 400


# -- the cache -------------------------------------------------------------------------------------------

LONG = text("Rule: be careful with the pump. " * 1000)


def cached(provider: GeminiProvider, request: Json, now: float = 0.0, **options: Any) -> tuple[int, int]:
    """Tokens of the prompt and of those that were found."""
    usage = send(provider, request, now=now, **options).json["usageMetadata"]
    return usage["promptTokenCount"], usage.get("cachedContentTokenCount", 0)


def test_what_was_sent_before_is_found() -> None:
    """A prompt that goes on finds all that was sent before, but for what does not fill a block [B306]."""
    provider = GeminiProvider()
    first = body(user(LONG))
    total, found = cached(provider, first)
    assert found == 0
    longer, found = cached(provider, body(user(LONG), model(text("Fine.")), ASKED), now=10.0)
    assert total - 64 < found <= total < longer
    assert found % 32 == 0


def test_a_change_at_the_front_finds_nothing() -> None:
    """The system instruction stands before all else, tools before contents [B306]."""
    provider = GeminiProvider()
    cached(provider, body(user(LONG)))
    assert cached(provider, body(user(LONG), systemInstruction={"parts": [text("Otherwise.")]}))[1] == 0
    assert cached(provider, body(user(LONG), tools=[]))[1] == 0


@pytest.mark.parametrize(
    "options",
    [{"now": 301.0}, {"name": "gemini-2.5-pro"}, {"headers": (("x-goog-api-key", "other"),)}],
    ids=["too late", "another model", "another project"],
)
def test_where_nothing_is_found(options: Any) -> None:
    """Caches last some minutes, and belong to one project and model [B300 B306]."""
    provider = GeminiProvider()
    cached(provider, body(user(LONG)))
    assert cached(provider, body(user(LONG)), now=299.0)[1] > 0
    provider = GeminiProvider()
    cached(provider, body(user(LONG)))
    assert cached(provider, body(user(LONG)), **options)[1] == 0


def test_a_short_prompt_is_not_cached() -> None:
    """Below the model's minimum nothing is found [B300]."""
    provider = GeminiProvider()
    cached(provider, body())
    assert cached(provider, body())[1] == 0
    assert (find("gemini-3-pro-preview").min_prefix, find("models/gemini-2.5-flash-001").min_prefix) == (
        4096,
        2048,
    )


def test_a_prompt_is_found_once_its_answer_begins() -> None:
    """Two requests at once find nothing of each other."""
    provider = GeminiProvider()
    raw = orjson.dumps(body(user(LONG)))
    path = f"/v1beta/models/{FLASH25}:generateContent"
    first = provider.prepare((), raw, 0.0, path)
    second = provider.prepare((), raw, 0.0, path)
    provider.begin(first)
    third = provider.prepare((), raw, 0.0, path)
    assert (second.exchange.read, third.exchange.read > 0) == (0, True)
    assert third.exchange.cost < first.exchange.cost / 5


def test_an_image_weighs_what_it_costs() -> None:
    """The bytes of a picture are not text: it weighs the same, whatever their number [A38]."""
    picture = {"inlineData": {"mimeType": "image/png", "data": "QUJD" * 10_000}}
    small = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}
    assert cached(GeminiProvider(), body(user(picture)))[0] == cached(GeminiProvider(), body(user(small)))[0]


# -- scripts ---------------------------------------------------------------------------------------------


class Client:
    """A client that appends each answer to its history and runs calls, as agents do."""

    def __init__(self, provider: GeminiProvider, name: str = PRO3) -> None:
        self.provider = provider
        self.name = name
        self.contents: list[Json] = []

    def ask(self, words: str) -> str:
        self.contents.append(user(text(words)))
        while True:
            answer = send(self.provider, body(*self.contents), self.name)
            assert answer.status == 200, answer.json
            content = answer.json["candidates"][0]["content"]
            self.contents.append(content)
            calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            if not calls:
                return "".join(part["text"] for part in content["parts"])
            self.contents.append(user(*(result(c["name"], c.get("id")) for c in calls)))


@pytest.mark.parametrize("name", [PRO3, FLASH25])
def test_a_scripted_agent(name: str) -> None:
    """The script of an agent plays behind this API as behind any: calls, results, a closing text, and again."""
    agent = Agent([(Read("/a"),), (Read("/b"), Read("/c")), (Shell("ls"), Find("*", "/"))], remark="Look")
    provider = GeminiProvider(GeminiSettings(bound_signatures=True, strict_ids=True), script=agent)
    client = Client(provider, name)
    assert client.ask("Look around.") == "Done. (2 steps)"
    assert client.ask("And again.") == "Done. (2 steps)"
    assert [record.status for record in provider.log] == [200] * 6
    paths = [
        p["functionCall"]["args"]["path"] for c in client.contents for p in c["parts"] if "functionCall" in p
    ]
    assert paths == ["/a", "/b", "/c"] * 2


def test_a_wanted_form() -> None:
    """Where a schema asks for it, the answer is JSON of that form."""
    scores = {"type": "ARRAY", "items": {"type": "INTEGER"}}
    schema = {"type": "OBJECT", "properties": {"scores": scores, "why": {"type": "STRING"}}}
    config = {"responseMimeType": "application/json", "responseSchema": schema}
    (part,) = send(GeminiProvider(), body(generationConfig=config)).json["candidates"][0]["content"]["parts"]
    assert orjson.loads(part["text"]) == {"scores": [1], "why": "text"}


# -- on a socket -----------------------------------------------------------------------------------------


def test_the_server_serves_it() -> None:
    """The shell that serves the other providers serves this one: plain answers, arrays of chunks, events."""
    provider = GeminiProvider(script=say(Say("All is well here.")))

    async def run() -> list[bytes]:
        server = await Server(provider).start()
        try:
            async with aiohttp.ClientSession() as session:
                answers = []
                for method in ("generateContent", "streamGenerateContent", "streamGenerateContent?alt=sse"):
                    url = f"{server.url}/v1beta/models/{PRO3}:{method}"
                    async with session.post(url, data=io.BytesIO(orjson.dumps(body()))) as response:
                        answers.append(await response.read())
                return answers
        finally:
            await server.stop()

    plain, array, events = asyncio.run(run())
    chunks = [orjson.loads(event.removeprefix(b"data: ")) for event in events.split(b"\r\n\r\n") if event]
    for said in ([orjson.loads(plain)], orjson.loads(array), chunks):
        words = [chunk["candidates"][0]["content"]["parts"][0]["text"] for chunk in said]
        assert "".join(words) == "All is well here."


def test_the_models() -> None:
    """The list of models is theirs."""
    names = [model["name"] for model in orjson.loads(GeminiProvider().models())["models"]]
    assert f"models/{PRO3}" in names
