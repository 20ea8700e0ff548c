"""A chat stream is asked for its usage on the client's behalf, and the client gets the stream it would have had."""

import asyncio
import contextlib
import gzip
import json

import pytest

from proxy.gateway.conversations import Conversations
from proxy.policy import load_policy
from proxy.streamusage import UsageFilter
from tests.gateway.rig import CLOSE, LAST, MESSAGES, SSE_HEAD, Client, chunk, post, respond, rig, run

CHAT = b'{"model":"gpt-6-sol","prompt_cache_key":"ses_1","messages":[{"role":"user","content":"Say hi."}],"stream":true}'
ASKED = CHAT[:-1] + b',"stream_options":{"include_usage":true}}'
OPENAI = {"openai": "https://api.openai.com"}
PATH = "/v1/chat/completions"


def data(value):
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


FIRST = {"id": "c", "model": "gpt-6-sol", "choices": [{"index": 0, "delta": {"content": "hi"}}]}
FINAL = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE = {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 60}}

SENT = [
    data({**FIRST, "usage": None}),
    b": keep-alive\n\n",
    data({**FINAL, "usage": None}),
    data({"id": "c", "choices": [], "usage": USAGE}),
    data(b"[DONE]"),
]
"""The stream as the provider sends it when asked."""

LEFT = [data(FIRST), b": keep-alive\n\n", data(FINAL), b"", data(b"[DONE]")]
"""What it would have been unasked, event by event."""


@contextlib.asynccontextmanager
async def asking(policy="default", mode="apply", upstreams=OPENAI):
    """A rig with the real rewriter, whose upstreams have the profiles of these addresses."""
    async with rig(Conversations(load_policy(policy), mode=mode, upstreams=upstreams, strict=True)) as r:
        yield r


def test_the_client_gets_the_stream_it_would_have_had():
    """Each event is with it before the provider sends the next; the figures are in the turn."""

    async def scene():
        async with asking() as r:
            gates = [asyncio.Event() for _ in range(6)]
            steps = [step for gate, event in zip(gates, SENT) for step in (gate, chunk(event))]
            r.provider.play(SSE_HEAD, *steps, gates[5], LAST)
            client = await Client.connect(r.gateway.port)
            await client.send(post(CHAT, PATH, b"Accept-Encoding: gzip, br", b"X-Last: 1"))
            await client.head()
            for gate, left in zip(gates, LEFT):
                gate.set()
                if left:
                    assert await client.chunk() == left
            gates[5].set()
            assert await client.chunk() == b""
            client.close()
            (seen,) = r.provider.seen
            assert seen.body == ASKED
            assert [value for name, value in seen.headers if name.lower() == "accept-encoding"] == [
                "identity"
            ]
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["usage_asked"], turn["stop"]) == ("ok", True, "stop")
            assert (turn["prompt"], turn["cached"], turn["hit_ratio"]) == (100, 60, 0.6)
            assert turn["response_bytes"] == len(b"".join(LEFT))

    run(scene())


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_wherever_the_providers_chunks_end(size):
    """The same bytes go out."""
    whole = b"".join(SENT)

    async def scene():
        async with asking() as r:
            r.provider.play(
                SSE_HEAD, *(chunk(whole[at : at + size]) for at in range(0, len(whole), size)), LAST
            )
            answer = await r.ask(post(CHAT, PATH))
            assert (answer.body, answer.clean) == (b"".join(LEFT), True)

    run(scene())


def test_a_compressed_answer_comes_plain():
    """A provider that compresses all the same is opened; a length no longer holds."""
    packed = gzip.compress(b"".join(SENT))

    async def scene():
        async with asking() as r:
            head = SSE_HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\nx-request-id: 7\r\n\r\n")
            r.provider.play(head, *(chunk(packed[at : at + 50]) for at in range(0, len(packed), 50)), LAST)
            answer = await r.ask(post(CHAT, PATH))
            assert (answer.body, answer.clean) == (b"".join(LEFT), True)
            assert ("x-request-id", "7") in answer.headers
            assert not [name for name, _ in answer.headers if name.lower() == "content-encoding"]
            length = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
            r.provider.play(length % len(b"".join(SENT)) + b"".join(SENT))
            answer = await r.ask(post(CHAT, PATH))
            assert (answer.body, answer.clean) == (b"".join(LEFT), True)
            assert [turn["prompt"] for turn in await r.turns(2)] == [100, 100]

    run(scene())


def test_what_nobody_can_open_passes():
    """An encoding that is not known: the client has what came, and the turn no figures."""

    async def scene():
        async with asking() as r:
            head = SSE_HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: lzma\r\n\r\n")
            r.provider.play(head, chunk(b"\x00usage\x01"), LAST)
            answer = await r.ask(post(CHAT, PATH))
            assert answer.body == b"\x00usage\x01" and ("content-encoding", "lzma") in answer.headers
            assert "prompt" not in (await r.turns(1))[0]

    run(scene())


UNASKED = {
    "the client asks itself": ({}, ASKED),
    "no stream": ({}, CHAT.replace(b"true", b"false")),
    "a policy that meters only": ({"policy": "transparent"}, CHAT),
    "mode observe": ({"mode": "observe"}, CHAT),
    "an upstream of which it is not known": ({"upstreams": {"openai": "https://house.example"}}, CHAT),
    "one that reports unasked": ({"upstreams": {"openai": "https://openrouter.ai/api"}}, CHAT),
}


@pytest.mark.parametrize("case", UNASKED)
def test_where_nothing_is_asked(case):
    """Body, headers and the whole stream are as they were sent."""
    given, body = UNASKED[case]

    async def scene():
        async with asking(**given) as r:
            r.provider.play(SSE_HEAD, *(chunk(event) for event in SENT), LAST)
            answer = await r.ask(post(body, PATH, b"Accept-Encoding: gzip"))
            assert answer.body == b"".join(SENT)
            (seen,) = r.provider.seen
            assert seen.body == body and ("Accept-Encoding", "gzip") in seen.headers
            assert "usage_asked" not in (await r.turns(1))[0]

    run(scene())


def test_other_formats_are_not_asked():
    """The question belongs to chat completions."""

    async def scene():
        async with asking(upstreams={"anthropic": "https://api.openai.com"}) as r:
            await r.ask(post(MESSAGES))
            assert b"stream_options" not in r.provider.seen[0].body

    run(scene())


def test_an_upstream_that_refuses_the_question_is_not_asked_again():
    """The request goes out a second time as it is; other refusals are the client's to read."""
    no = respond(b'{"error":{"message":"Unknown parameter: \'stream_options\'."}}', "400 Bad Request")
    other = respond(b'{"error":{"message":"context_length_exceeded"}}', "400 Bad Request")

    async def scene():
        async with asking() as r:
            r.provider.play(other)
            assert (await r.ask(post(CHAT, PATH))).json["error"]["message"] == "context_length_exceeded"
            r.provider.play(no)
            for _ in range(2):
                r.provider.play(SSE_HEAD, chunk(data(FIRST)), chunk(data(b"[DONE]")), LAST)
            for _ in range(2):
                answer = await r.ask(post(CHAT, PATH, b"Accept-Encoding: br"))
                assert answer.body == data(FIRST) + data(b"[DONE]")
            assert [seen.body for seen in r.provider.seen] == [ASKED, ASKED, CHAT, CHAT]
            assert ("Accept-Encoding", "br") in r.provider.seen[2].headers
            turns = await r.turns(3)
            assert [(turn["outcome"], turn.get("retried")) for turn in turns] == [
                ("refused", None),
                ("ok", True),
                ("ok", None),
            ]

    run(scene())


def test_a_stream_that_breaks_off_breaks_off():
    """What was held of an unfinished event goes out before the end, and the end looks like none."""

    async def scene():
        async with asking() as r:
            r.provider.play(SSE_HEAD, chunk(SENT[0]), chunk(SENT[2][:-8]), 0.1, CLOSE)
            answer = await r.ask(post(CHAT, PATH))
            assert (answer.body, answer.clean) == (LEFT[0] + SENT[2][:-8], False)
            head = SSE_HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
            r.provider.play(head, chunk(b"no gzip at all, but called so"), LAST)
            answer = await r.ask(post(CHAT, PATH))
            assert (answer.body, answer.clean) == (b"", False)
            cut, false = await r.turns(2)
            assert cut["outcome"] == "truncated"
            assert (false["outcome"], false["error"]) == ("truncated", "encoding")

    run(scene())


def test_a_fault_of_ours_costs_nobody_the_answer(monkeypatch):
    """From there on the stream passes as it comes, with what was held, and the turn says so."""
    taking = UsageFilter.feed

    def failing(self, chunk):
        if b"finish_reason" in chunk:
            raise RuntimeError("a bug")
        return taking(self, chunk)

    monkeypatch.setattr(UsageFilter, "feed", failing)

    async def scene():
        async with asking() as r:
            gate = asyncio.Event()
            last = b"".join(SENT[2:])
            r.provider.play(SSE_HEAD, chunk(SENT[0] + last[:9]), gate, chunk(last[9:]), LAST)
            client = await Client.connect(r.gateway.port)
            await client.send(post(CHAT, PATH))
            await client.head()
            assert await client.chunk() == LEFT[0]
            gate.set()
            assert [await client.chunk(), await client.chunk()] == [last, b""]
            client.close()
            assert (await r.turns(1))[0]["failed_open"] == "usage"

    run(scene())
