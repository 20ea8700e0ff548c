"""What every format says of its usage reaches the turn, though nothing is done to the requests."""

import gzip
import json

import pytest

from tests.gateway.rig import CLOSE, LAST, SSE_HEAD, chunk, post, respond, rig, run


def events(*pairs):
    """An event stream of (name, data) pairs."""
    lines = [
        (f"event: {name}\n" if name else "")
        + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
        for name, data in pairs
    ]
    return [line.encode() for line in lines]


ANTHROPIC = events(
    ("message_start", {"message": {"id": "m", "model": "local", "usage": {"input_tokens": 100}}}),
    (
        "message_delta",
        {
            "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 40, "cache_read_input_tokens": 60, "output_tokens": 9},
        },
    ),
    ("message_stop", {}),
)
CHAT_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 60},
}
CHAT = events(
    (None, {"id": "c", "model": "local", "choices": [{"delta": {"content": "hi"}}], "usage": None}),
    (None, {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": None}),
    (None, {"choices": [], "usage": CHAT_USAGE}),
    (None, "[DONE]"),
)
RESPONSE = {
    "object": "response",
    "id": "r",
    "model": "local",
    "status": "completed",
    "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 9},
}
RESPONSES = events(
    ("response.created", {"response": {"id": "r", "model": "local"}}),
    ("response.output_text.delta", {"delta": "hi"}),
    ("response.completed", {"response": RESPONSE}),
)
GEMINI_PARTS = [
    {"candidates": [{"content": {"parts": [{"text": 'a [ " ] b'}]}}], "modelVersion": "local"},
    {
        "candidates": [{"content": {"parts": []}, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 60,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 4,
        },
    },
]
GEMINI = events(*((None, part) for part in GEMINI_PARTS))
CODE_ASSIST = events(*((None, {"response": part}) for part in GEMINI_PARTS))
ARRAY = json.dumps(GEMINI_PARTS, indent=1).encode()

JSON_HEAD = SSE_HEAD.replace(b"text/event-stream", b"application/json; charset=UTF-8")
MODELS = "/v1beta/models/g:"

STREAMS = {
    "anthropic": ("/v1/messages", ANTHROPIC),
    "chat": ("/v1/chat/completions", CHAT),
    "responses": ("/v1/responses", RESPONSES),
    "gemini": (f"{MODELS}streamGenerateContent?alt=sse", GEMINI),
    "code assist": ("/v1internal:streamGenerateContent?alt=sse", CODE_ASSIST),
}
DOCUMENTS = {
    "anthropic": (
        "/v1/messages",
        {
            "model": "local",
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 40, "cache_read_input_tokens": 60, "output_tokens": 9},
        },
    ),
    "chat": (
        "/v1/chat/completions",
        {"model": "local", "choices": [{"message": {}, "finish_reason": "stop"}], "usage": CHAT_USAGE},
    ),
    "responses": ("/v1/responses", RESPONSE),
    "gemini": (f"{MODELS}generateContent", {**GEMINI_PARTS[1], "modelVersion": "local"}),
}

FIGURES = {
    "outcome": "ok",
    "model": "local",
    "prompt": 100,
    "input": 40,
    "cached": 60,
    "output": 9,
    "hit_ratio": 0.6,
}


def figures(turn):
    return {name: turn.get(name) for name in FIGURES}


@pytest.mark.parametrize("form", STREAMS)
def test_every_stream_is_metered(form):
    """In all formats, whole and compressed; the client gets it as it came."""
    path, parts = STREAMS[form]
    whole = b"".join(parts)

    async def scene():
        async with rig() as r:
            r.provider.play(SSE_HEAD, *(chunk(part) for part in parts), LAST)
            assert (await r.ask(post(b"{}", path))).body == whole
            packed = gzip.compress(whole)
            head = SSE_HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
            r.provider.play(head, chunk(packed[:30]), 0, chunk(packed[30:]), LAST)
            assert (await r.ask(post(b"{}", path))).body == packed
            assert [figures(turn) for turn in await r.turns(2)] == [FIGURES, FIGURES]

    run(scene())


@pytest.mark.parametrize("form", DOCUMENTS)
def test_every_document_is_metered(form):
    """An answer that is no stream says the same."""
    path, body = DOCUMENTS[form]

    async def scene():
        async with rig() as r:
            r.provider.play(respond(json.dumps(body).encode()))
            await r.ask(post(b"{}", path))
            assert figures((await r.turns(1))[0]) == FIGURES

    run(scene())


def test_an_array_is_a_stream():
    """Gemini without `alt=sse`: its elements count as they come, and an array without its last one was cut."""
    path = f"{MODELS}streamGenerateContent"
    first = len(ARRAY) // 2

    async def scene():
        async with rig() as r:
            r.provider.play(JSON_HEAD, chunk(ARRAY[:first]), 0, chunk(ARRAY[first:]), LAST)
            assert (await r.ask(post(b"{}", path))).body == ARRAY
            r.provider.play(JSON_HEAD, chunk(b" \n"), 0, chunk(ARRAY[:first]), LAST)
            await r.ask(post(b"{}", path))
            r.provider.play(JSON_HEAD, chunk(ARRAY[:-1]), 0, CLOSE)
            assert not (await r.ask(post(b"{}", path))).clean
            error = [{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "no"}}]
            r.provider.play(respond(json.dumps(error).encode(), "400 Bad Request"))
            await r.ask(post(b"{}", path))
            whole, short, cut, refused = await r.turns(4)
            assert figures(whole) == FIGURES
            assert (short["outcome"], "prompt" in short) == ("truncated", False)
            assert figures(cut) == {**FIGURES, "outcome": "truncated"}
            assert (refused["outcome"], refused["error"]) == ("refused", "INVALID_ARGUMENT")

    run(scene())


def test_what_the_provider_says_of_its_cache_is_said():
    """Its diagnosis of a miss, and the reasoning it withheld, are in the turn of a request that only passed."""
    diagnosed = {
        **RESPONSE,
        "prompt_cache_diagnostics": {
            "type": "cache_miss",
            "reason": "tools_changed",
            "cache_missed_tokens": 900,
        },
        "input_transformations": [{"type": "reasoning", "action": "removed", "reason": "prefix_mismatch"}],
    }

    async def scene():
        async with rig() as r:
            r.provider.play(respond(json.dumps(diagnosed).encode()))
            await r.ask(post(b"{}", "/v1/responses"))
            (turn,) = await r.turns(1)
            assert (turn["miss"], turn["withheld"]) == ("unknown", "prefix_mismatch")
            assert turn["miss_detail"] == (
                "the provider says: tools_changed, 900 tokens, reasoning withheld (prefix_mismatch)"
            )
            assert b'stet_breaks_total{reason="unknown"} 1.0' in r.gateway.metrics.exposition()

    run(scene())


def test_a_prompt_whose_split_is_unknown_is_counted_as_such():
    """Neither as uncached nor not at all: a server that does not report its cache has no hit ratio [B501]."""
    silent = {"choices": [{"message": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 100}}

    async def scene():
        async with rig() as r:
            r.provider.play(respond(json.dumps(silent).encode()))
            await r.ask(post(b"{}", "/v1/chat/completions"))
            (turn,) = await r.turns(1)
            assert (turn["prompt"], "input" in turn, "cached" in turn, "hit_ratio" in turn) == (
                100, False, False, False,
            )  # fmt: skip
            counted = [
                line for line in r.gateway.metrics.exposition().split(b"\n") if line[:11] == b"stet_tokens"
            ]
            assert counted == [b'stet_tokens_total{kind="unsplit",upstream="openai"} 100.0']

    run(scene())
