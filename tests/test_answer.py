"""What answers say about themselves, in each provider's stream and document."""

import json

import pytest

from proxy.answer import READERS, Answer, Diagnosis, Signed, signature_digest, words_digest
from proxy.sse import SseParser
from proxy.usage import Usage


def streamed(dialect, *events, raw=b""):
    """Read a stream of (name, data) events; the name None leaves the `event:` line out."""
    lines = [
        (f"event: {name}\n" if name else "")
        + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
        for name, data in events
    ]
    parser, reader = SseParser(), READERS[dialect]()
    for event in parser.feed("".join(lines).encode() + raw):
        reader.event(event)
    return reader.answer()


def document(dialect, body):
    reader = READERS[dialect]()
    reader.document(body if isinstance(body, bytes) else json.dumps(body).encode())
    return reader.answer()


def test_anthropic_stream():
    """Ids, signatures, stop reason; counts of message_start, overridden by message_delta where above zero."""
    start = {
        "input_tokens": 3,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 40,
        "output_tokens": 1,
    }
    answer = streamed(
        "anthropic",
        (
            "message_start",
            {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": start}},
        ),
        ("ping", {"type": "ping"}),
        ("content_block_start", {"content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        ("content_block_delta", {"delta": {"type": "signature_delta", "signature": "sig=="}}),
        (
            "content_block_start",
            {"content_block": {"type": "tool_use", "id": "toolu_1", "name": "x", "input": {}}},
        ),
        ("content_block_delta", {"delta": {"type": "input_json_delta", "partial_json": '{"signature": 1}'}}),
        ("content_block_start", {"content_block": {"type": "server_tool_use", "id": "srvtoolu_1"}}),
        (
            "message_delta",
            {
                "delta": {"stop_reason": "tool_use"},
                "usage": {"output_tokens": 9, "input_tokens": 0, "cache_read_input_tokens": 70},
            },
        ),
        ("something_new", {"type": "something_new"}),
        ("message_stop", {"type": "message_stop"}),
    )
    assert answer == Answer(
        usage=Usage(prompt=113, uncached=3, cached=70, written=40, output=9),
        message_id="msg_1",
        model="m",
        call_ids=("toolu_1",),
        signatures=(signature_digest("sig=="),),
        signed=(Signed("thinking", 0, words_digest(""), "sig=="),),
        stop_reason="tool_use",
        complete=True,
    )


def test_anthropic_stream_without_names():
    """A stream that lost its `event:` lines is read by the type in its data."""
    answer = streamed(
        "anthropic",
        (None, {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3}}}),
        (
            None,
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        ),
        (None, {"type": "message_stop"}),
    )
    assert (answer.usage, answer.stop_reason, answer.complete) == (
        Usage(prompt=3, output=9),
        "end_turn",
        True,
    )


def test_anthropic_document():
    """A whole message says the same as its stream; a count of tokens has no usage."""
    body = {
        "id": "msg_1",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "t", "signature": "sig=="},
            {"type": "tool_use", "id": "toolu_1"},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 9},
    }
    assert document("anthropic", body) == Answer(
        usage=Usage(prompt=3, output=9),
        message_id="msg_1",
        model="m",
        call_ids=("toolu_1",),
        signatures=(signature_digest("sig=="),),
        signed=(Signed("thinking", 0, words_digest("t"), "sig=="),),
        stop_reason="tool_use",
        complete=True,
    )
    assert document("anthropic", {"input_tokens": 7}) == Answer()


CHAT_CHUNK = {"id": "c1", "model": "g", "choices": [{"index": 0, "delta": {"content": "hi"}}], "usage": None}


def test_openai_chat_stream():
    """Ids stand in the first delta of a call, usage in a chunk without choices."""
    call = {"index": 0, "id": "call_1", "function": {"name": "x", "arguments": ""}}
    more = {"index": 0, "function": {"arguments": "{}"}}
    answer = streamed(
        "openai_chat",
        (None, CHAT_CHUNK),
        (None, {"choices": [{"delta": {"tool_calls": [call]}}]}),
        (None, {"choices": [{"delta": {"tool_calls": [more]}, "finish_reason": "tool_calls"}]}),
        (
            None,
            {"choices": [], "usage": {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 8}}},
        ),
        (None, "[DONE]"),
    )
    assert answer == Answer(
        usage=Usage(prompt=10, uncached=2, cached=8),
        message_id="c1",
        model="g",
        call_ids=("call_1",),
        stop_reason="tool_calls",
        complete=True,
    )


@pytest.mark.parametrize(
    ("events", "complete"),
    [
        ([(None, CHAT_CHUNK)], False),
        ([(None, CHAT_CHUNK), (None, "[DONE]")], True),
        ([(None, {"choices": [{"delta": {}, "finish_reason": "stop"}]})], True),
    ],
)
def test_openai_chat_end(events, complete):
    """Either `[DONE]` or a finish reason is the end; some servers send only one of them."""
    assert streamed("openai_chat", *events).complete is complete


def test_openai_chat_error_in_the_stream():
    """A router's error chunk names its error."""
    error = {
        "id": "c1",
        "error": {"code": 502, "message": "x"},
        "choices": [{"delta": {}, "finish_reason": "error"}],
    }
    assert streamed("openai_chat", (None, CHAT_CHUNK), (None, error)).error_type == "error"


def test_openai_responses_stream():
    """Usage and end stand in the terminal event, call ids in the items that are done."""
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1"}
    response = {
        "id": "resp_1",
        "model": "g",
        "status": "completed",
        "output": [{"type": "reasoning", "id": "rs_1"}, item],
        "usage": {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 2},
    }
    events = [
        ("response.created", {"response": {"id": "resp_1", "model": "g"}}),
        ("response.output_text.delta", {"delta": "usage"}),
        ("response.output_item.done", {"item": item}),
        ("response.completed", {"response": response}),
    ]
    expected = Answer(
        usage=Usage(prompt=10, uncached=2, cached=8, output=2),
        message_id="resp_1",
        model="g",
        call_ids=("call_1",),
        signed=(Signed("led", 0, "fc_1", "rs_1"),),
        stop_reason="completed",
        complete=True,
    )
    assert streamed("openai_responses", *events) == expected
    assert document("openai_responses", {"object": "response", "error": None, **response}) == expected
    early = streamed("openai_responses", *events[:-1])
    assert (early.complete, early.call_ids, early.usage) == (False, ("call_1",), None)


def test_openai_responses_that_fail_or_stop_short():
    """The reason of an incomplete response is its stop reason; a failed one carries its error's code."""
    incomplete = {"id": "r", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    failed = {"id": "r", "status": "failed", "error": {"code": "server_error", "message": "x"}}
    assert streamed("openai_responses", ("response.incomplete", {"response": incomplete})) == Answer(
        message_id="r", stop_reason="max_output_tokens", complete=True
    )
    assert (
        streamed("openai_responses", ("response.failed", {"response": failed})).error_type == "server_error"
    )
    assert (
        streamed("openai_responses", ("error", {"code": "rate_limit", "message": "x"})).error_type
        == "rate_limit"
    )


GEMINI_LAST = {
    "responseId": "g1",
    "modelVersion": "gemini-3",
    "candidates": [
        {
            "content": {"parts": [{"functionCall": {"id": "f1", "name": "x"}, "thoughtSignature": "sig=="}]},
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {"promptTokenCount": 10, "cachedContentTokenCount": 8, "candidatesTokenCount": 2},
}
GEMINI = Answer(
    usage=Usage(prompt=10, uncached=2, cached=8, output=2, reasoning=0),
    message_id="g1",
    model="gemini-3",
    call_ids=("f1",),
    signatures=(signature_digest("sig=="),),
    signed=(Signed("call", 0, "x", "sig=="),),
    stop_reason="STOP",
    complete=True,
)


def test_gemini():
    """The last chunk's counts hold; a wrapped response and an array of them read the same."""
    first = {
        "candidates": [{"content": {"parts": [{"text": "x"}]}}],
        "usageMetadata": {"promptTokenCount": 9},
    }
    assert streamed("gemini", (None, first), (None, GEMINI_LAST)) == GEMINI
    assert streamed("gemini", (None, {"response": first}), (None, {"response": GEMINI_LAST})) == GEMINI
    assert document("gemini", [first, GEMINI_LAST]) == GEMINI
    assert document("gemini", GEMINI_LAST) == GEMINI
    assert streamed("gemini", (None, first)).complete is False


ERRORS = {
    "anthropic": (
        {"type": "error", "error": {"type": "overloaded_error", "message": "x"}},
        "overloaded_error",
    ),
    "openai_chat": ({"error": {"message": "x", "type": "invalid_request_error"}}, "invalid_request_error"),
    "openai_responses": ({"error": {"message": "x", "type": None, "code": "bad"}}, "bad"),
    "gemini": (
        {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x"}},
        "RESOURCE_EXHAUSTED",
    ),
}


@pytest.mark.parametrize("dialect", READERS)
def test_error_bodies_name_their_type(dialect):
    """The provider's own word, nothing else of the body."""
    body, name = ERRORS[dialect]
    assert document(dialect, body) == Answer(error_type=name)
    assert document(dialect, {"error": "plain words"}) == Answer(error_type="error")


@pytest.mark.parametrize("dialect", READERS)
@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"7", b'"x"', b"{", b"\xff\xfe", b'{"usage":[],"choices":{}}']
)
def test_nonsense_is_an_unknown_answer(dialect, body):
    """What is no answer gives none, and no fault."""
    assert document(dialect, body).usage is None
    answer = streamed(dialect, raw=b"data: " + body + b"\n\nevent: message_start\ndata: " + body + b"\n\n")
    assert (answer.usage, answer.error_type) == (None, None)


def start(**usage):
    return ("message_start", {"type": "message_start", "message": {"id": "m", "usage": usage}})


def end(**usage):
    return ("message_delta", {"type": "message_delta", "delta": {}, "usage": usage})


def test_a_local_server_knows_the_split_at_the_end():
    """vLLM opens a stream with the whole prompt; without its flag it never says what was cached."""
    told = streamed(
        "anthropic",
        start(input_tokens=100, output_tokens=0),
        end(input_tokens=4, cache_read_input_tokens=96, output_tokens=9),
    )
    assert told.usage == Usage(prompt=100, uncached=4, cached=96, output=9)
    silent = streamed(
        "anthropic", start(input_tokens=100, output_tokens=0), end(input_tokens=100, output_tokens=9)
    )
    assert silent.usage == Usage(prompt=100, output=9)
    llama = streamed(
        "anthropic",
        start(cache_read_input_tokens=96, input_tokens=4, output_tokens=0),
        end(output_tokens=9),
    )
    assert llama.usage == Usage(prompt=100, uncached=4, cached=96, output=9)


COUNTS = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}}
COUNTED = Usage(prompt=10, uncached=2, cached=8, output=2)
LAST_CHOICE = {"index": 0, "delta": {}, "finish_reason": "stop"}

PLACES = {
    "a chunk of its own": [{"choices": [LAST_CHOICE], "usage": None}, {"choices": [], "usage": COUNTS}],
    "every chunk": [
        {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 0}},
        {"choices": [LAST_CHOICE], "usage": COUNTS},
    ],
    "the last choice": [{"choices": [{**LAST_CHOICE, "usage": COUNTS}]}],
    "a member of the vendor's": [{"choices": [LAST_CHOICE], "x_groq": {"id": "req_1", "usage": COUNTS}}],
    "timings alone": [
        {"choices": [LAST_CHOICE], "timings": {"cache_n": 8, "prompt_n": 2, "predicted_n": 2}},
    ],
    "timings, then usage": [
        {"choices": [LAST_CHOICE], "timings": {"cache_n": 8, "prompt_n": 2, "predicted_n": 2}},
        {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2}},
    ],
}


@pytest.mark.parametrize("place", PLACES)
def test_chat_usage_stands_in_many_places(place):
    """Wherever it stands in a stream, it is the same."""
    chunks = [(None, chunk) for chunk in PLACES[place]]
    assert streamed("openai_chat", *chunks, (None, "[DONE]")).usage == COUNTED


def test_a_whole_chat_completion():
    """Message instead of delta; usage, ids and end are the same."""
    message = {"role": "assistant", "tool_calls": [{"id": "call_1"}, {"id": "call_2"}]}
    body = {"id": "c1", "model": "g", "choices": [{"message": message, "finish_reason": "tool_calls"}]}
    assert document("openai_chat", {**body, "usage": COUNTS}) == Answer(
        usage=COUNTED,
        message_id="c1",
        model="g",
        call_ids=("call_1", "call_2"),
        stop_reason="tool_calls",
        complete=True,
    )


@pytest.mark.parametrize(
    "kind", ["function_call", "custom_tool_call", "local_shell_call", "apply_patch_call"]
)
def test_responses_calls_of_every_kind(kind):
    """All that wait for a result of the client's; the provider's own calls have no `call_id`."""
    output = [{"type": kind, "call_id": "call_1"}, {"type": "web_search_call", "id": "ws_1"}]
    body = {"object": "response", "status": "completed", "output": output}
    assert document("openai_responses", body).call_ids == ("call_1",)


def test_a_response_in_the_background_is_not_complete():
    """It is queued, and its usage comes with another request."""
    body = {"object": "response", "id": "r", "status": "queued", "usage": None, "error": None}
    assert document("openai_responses", body) == Answer(message_id="r", stop_reason="queued")


def test_gemini_counts_add_up_over_chunks():
    """A chunk that counts less takes nothing back; a blocked prompt ends with its reason."""
    first = {"usageMetadata": {"promptTokenCount": 10, "cachedContentTokenCount": 8}}
    last = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"candidatesTokenCount": 2}}
    plain = {"usageMetadata": {"trafficType": "ON_DEMAND"}}
    answer = streamed("gemini", (None, plain), (None, first), (None, last), (None, plain))
    assert answer.usage == Usage(prompt=10, uncached=2, cached=8, output=2, reasoning=0)
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 10}}
    assert document("gemini", blocked) == Answer(
        usage=Usage(prompt=10, uncached=10, cached=0, output=0, reasoning=0),
        stop_reason="SAFETY",
        complete=True,
    )


def test_diagnoses():
    """The provider's own word for a miss, and for reasoning it withheld; no word is no diagnosis."""
    why = {"type": "messages_changed", "cache_missed_input_tokens": 900}
    dropped = [
        {"type": "thinking_dropped", "path": "messages.3.content.0", "reason": "prefix_binding_mismatch"}
    ]
    message = {"diagnostics": {"cache_miss_reason": why}, "input_transformations": dropped * 3}
    expected = Diagnosis("messages_changed", 900, ("prefix_binding_mismatch",))
    assert streamed("anthropic", ("message_start", {"message": message})).diagnosis == expected
    assert document("anthropic", message).diagnosis == expected
    for nothing in (None, {"cache_miss_reason": None}):
        body = {"diagnostics": nothing, "input_transformations": []}
        assert document("anthropic", body).diagnosis is None
    removed = [{"type": "reasoning", "id": "rs_1", "action": "removed", "reason": "prefix_mismatch"}]
    diagnostics = {"type": "cache_miss", "reason": "input_changed", "cache_missed_tokens": 900}
    response = {"object": "response", "status": "completed", "input_transformations": removed}
    missed = {**response, "prompt_cache_diagnostics": diagnostics}
    assert streamed("openai_responses", ("response.completed", {"response": missed})).diagnosis == Diagnosis(
        "input_changed", 900, ("prefix_mismatch",)
    )
    hit = {**response, "prompt_cache_diagnostics": {"type": "cache_hit"}}
    assert document("openai_responses", hit).diagnosis == Diagnosis(removed=("prefix_mismatch",))


THOUGHT = "The pump first."


def test_what_has_to_come_back_is_noted():
    """Each format's own: thinking by its words, calls by their place, items by their id, words where they are bare."""
    pieces = [
        ("content_block_start", {"content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        ("content_block_delta", {"delta": {"type": "thinking_delta", "thinking": THOUGHT[:4]}}),
        ("content_block_delta", {"delta": {"type": "thinking_delta", "thinking": THOUGHT[4:]}}),
        ("content_block_delta", {"delta": {"type": "signature_delta", "signature": "sig=="}}),
    ]
    assert streamed("anthropic", *pieces, *pieces).signed == tuple(
        Signed("thinking", place, words_digest(THOUGHT), "sig==") for place in (0, 1)
    )
    block = {"type": "thinking", "thinking": THOUGHT, "signature": "sig=="}
    assert document("anthropic", {"content": [block]}).signed == (
        Signed("thinking", 0, words_digest(THOUGHT), "sig=="),
    )
    calls = [
        {"functionCall": {"name": "read", "args": {}}, "thoughtSignature": "one"},
        {"functionCall": {"name": "read", "args": {}}},
        {"functionCall": {"name": "run", "args": {}}, "thoughtSignature": "three"},
    ]
    chunks = [(None, {"candidates": [{"content": {"parts": [call]}}]}) for call in calls]
    assert streamed("gemini", *chunks).signed == (
        Signed("call", 0, "read", "one"),
        Signed("call", 2, "run", "three"),
    )
    item = {"type": "reasoning", "id": "rs_1", "encrypted_content": "sealed"}
    made = [{"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}"} for n in (1, 2)]
    ended = {"response": {"status": "completed", "output": [item, *made]}}
    done = [
        ("response.output_item.done", {"type": "response.output_item.done", "item": one})
        for one in (item, *made)
    ]
    assert streamed("openai_responses", *done, ("response.completed", ended)).signed == (
        Signed("item", 0, "rs_1", "sealed"),
        Signed("led", 0, "fc_1", "rs_1"),
    )


def test_words_come_back_whole_or_not_at_all():
    """A stream that was cut has no whole thought; a document has."""
    deltas = [
        (None, {"choices": [{"delta": {"reasoning_content": piece}}]}) for piece in (THOUGHT[:4], THOUGHT[4:])
    ]
    end = (None, {"choices": [{"delta": {}, "finish_reason": "stop"}]})
    whole = (Signed("words", 0, "", THOUGHT),)
    assert streamed("openai_chat", *deltas).signed == ()
    assert streamed("openai_chat", *deltas, end).signed == whole
    message = {"role": "assistant", "content": "Fine.", "reasoning_content": THOUGHT}
    assert (
        document("openai_chat", {"choices": [{"message": message, "finish_reason": "stop"}]}).signed == whole
    )


def test_too_much_to_come_back_is_not_kept():
    """A quarter of a megabyte in one answer; what is read of the answer else stays."""
    item = {"type": "reasoning", "id": "rs_1", "encrypted_content": "x" * (256 * 1024 + 1)}
    answer = document("openai_responses", {"status": "completed", "id": "resp_1", "output": [item]})
    assert (answer.signed, answer.message_id) == ((), "resp_1")
