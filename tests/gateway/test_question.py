"""The model is asked for a summary before a request goes out: over real sockets, in every format."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec import Struct

from proxy.gateway.app import Gateway
from proxy.gateway.service import build
from proxy.gateway.values import Upstream
from proxy.models import Models
from proxy.simulator import Ask, Canned, Exchange, Provider, Reply, Say, Server, Settings
from proxy.simulator.chat import FLAVOURS, ChatProvider
from proxy.simulator.gemini import GeminiProvider
from proxy.simulator.reply import Call, last_texts
from proxy.simulator.responses import ResponsesProvider
from proxy.stages.question import QUESTION
from proxy.stages.summary import FOUND, OPENING, TOLD
from tests.gateway.rig import LAST, SSE_HEAD, Answer, Client, chunk, post, respond, run, settings
from tests.gateway.rig import Provider as Scripted

Json = dict[str, Any]
WORDS = "The bearing in bay 3 is worn; part 608-2RS is ordered."
GOAL = "The fan in bay 3 is loud. Never touch bay 1."
WINDOW = 16_000
KEYS = (b"x-api-key: sk-secret", b"authorization: Bearer sk-secret", b"x-goog-api-key: sk-secret")
VERSION = b"anthropic-version: 2023-06-01"
MODELS = f"""
models:
- {{match: [claude-opus-5], window: {WINDOW}, max_output: 32000}}
- {{match: [gpt-5.1, gpt-6-sol, qwen3], window: {WINDOW}}}
- {{match: [gemini-3-pro], window: {WINDOW}}}
"""
POLICY = """
name: asks
extends: careful
compact: {mode: model, high_water: 0.7, wait: %s}
"""


def answers(ask: Ask) -> Reply:
    """The summary where it is asked for, else a word."""
    asked = any(text == QUESTION for text in last_texts(ask.body))
    return Reply(blocks=(Say(WORDS if asked else "Fine."),))


class Form(Struct, frozen=True):
    """How a format is spoken: the profile, the model, and how a body is made of texts in turn."""

    profile: str
    model: str
    path: str
    provider: Callable[[], Any]
    body: Callable[[list[str], str], Json]


def _messages(texts: list[str], model: str) -> Json:
    return {
        "model": model,
        "max_tokens": 4_000,
        "system": [{"type": "text", "text": "Be brief. " * 400, "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": role, "content": text} for role, text in _turns(texts)],
    }


def _chat(texts: list[str], model: str) -> Json:
    system = {"role": "system", "content": "Be brief. " * 400}
    return {
        "model": model,
        "messages": [system, *({"role": role, "content": text} for role, text in _turns(texts))],
    }


def _responses(texts: list[str], model: str) -> Json:
    kinds = {"user": "input_text", "assistant": "output_text"}
    items = [
        {"type": "message", "role": role, "content": [{"type": kinds[role], "text": text}]}
        for role, text in _turns(texts)
    ]
    return {"model": model, "instructions": "Be brief. " * 400, "input": items, "store": False}


def _contents(texts: list[str], model: str) -> Json:
    del model
    roles = {"user": "user", "assistant": "model"}
    return {
        "systemInstruction": {"parts": [{"text": "Be brief. " * 400}]},
        "contents": [{"role": roles[role], "parts": [{"text": text}]} for role, text in _turns(texts)],
        "generationConfig": {"maxOutputTokens": 64},
    }


def _turns(texts: list[str]) -> list[tuple[str, str]]:
    return [("assistant" if at % 2 else "user", text) for at, text in enumerate(texts)]


GEMINI = "/v1beta/models/gemini-3-pro"
FORMS = {
    "anthropic": Form(
        "anthropic",
        "claude-opus-5",
        "/v1/messages",
        lambda: Provider(Settings(binding="error"), answers),
        _messages,
    ),
    "openai_chat": Form(
        "openai",
        "gpt-5.1",
        "/v1/chat/completions",
        lambda: ChatProvider(FLAVOURS["openai"], script=answers),
        _chat,
    ),
    "openai_responses": Form(
        "openai", "gpt-5.1", "/v1/responses", lambda: ResponsesProvider(script=answers), _responses
    ),
    "gemini": Form(
        "gemini",
        "gemini-3-pro",
        f"{GEMINI}:generateContent",
        lambda: GeminiProvider(script=answers),
        _contents,
    ),
    "gemini stream": Form(
        "gemini",
        "gemini-3-pro",
        f"{GEMINI}:streamGenerateContent?alt=sse",
        lambda: GeminiProvider(script=answers),
        _contents,
    ),
}


class Bench:
    """A gateway as `stet serve` builds it, before a provider, and a client that says something each turn."""

    def __init__(self, form: Form, gateway: Gateway, log: io.StringIO) -> None:
        self.form, self.gateway, self.log = form, gateway, log
        self.texts: list[str] = []

    async def say(self, text: str, *, size: int = 3_000, **members: Any) -> Answer:
        """The next turn; the history grows by the answer."""
        self.texts.append(text + " x1y2" * (size // 5))
        answer = await self.ask(self.form.body(self.texts, self.form.model) | members)
        self.texts.append("Fine.")
        return answer

    async def ask(self, body: Json) -> Answer:
        client = await Client.connect(self.gateway.port)
        try:
            await client.send(self.raw(body))
            return await client.answer()
        finally:
            client.close()

    def raw(self, body: Json) -> bytes:
        return post(orjson.dumps(body), self.form.path, *KEYS, VERSION)

    def long(self) -> Json:
        """A history met in mid-life, that has to be compacted."""
        texts = [GOAL, "Fine.", *(f"Part {at}." + " x1y2" * 1_400 for at in range(7)), "Now."]
        return self.form.body(texts[:10] if len(texts) % 2 else texts[:9], self.form.model)

    async def turns(self, number: int) -> list[Json]:
        while len(found := [*map(json.loads, self.log.getvalue().splitlines())]) < number:
            await asyncio.sleep(0.005)
        return [line for line in found if line["event"] == "turn"]


@contextlib.asynccontextmanager
async def bench(form: Form, url: str, folder: Path, *, wait: float = 60) -> AsyncIterator[Bench]:
    (folder / "models.yaml").write_text(MODELS)
    (folder / "asks.yaml").write_text(POLICY % wait)
    named = {name: Upstream(name, url, profile=name) for name in ("anthropic", "openai", "gemini")}
    known = settings(url, upstreams=named, policy=str(folder / "asks.yaml"))
    rewriter, _ = build(known, Models.load(folder / "models.yaml"), lambda _: None)
    log = io.StringIO()
    gateway = Gateway(known, rewriter, stream=log, env={})
    await gateway.start()
    try:
        yield Bench(form, gateway, log)
    finally:
        await gateway.stop(drain=0)


@contextlib.asynccontextmanager
async def served(form: Form, folder: Path) -> AsyncIterator[tuple[Bench, Any]]:
    provider = form.provider()
    server = await Server(provider).start()
    try:
        async with bench(form, server.url, folder) as made:
            yield made, provider
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def scripted(folder: Path, **changes: Any) -> AsyncIterator[tuple[Bench, Scripted]]:
    """Before a provider that sends what a test says."""
    provider = Scripted()
    url = await provider.start()
    try:
        async with bench(FORMS["anthropic"], url, folder, **changes) as made:
            yield made, provider
    finally:
        await provider.stop()


def is_question(exchange: Exchange) -> bool:
    return json.dumps(QUESTION).encode()[1:-1] in exchange.body or QUESTION.encode() in exchange.body


STREAMS = [
    ("anthropic", False),
    ("anthropic", True),
    ("openai_chat", False),
    ("openai_chat", True),
    ("openai_responses", False),
    ("openai_responses", True),
    ("gemini", None),
    ("gemini stream", None),
]


@pytest.mark.parametrize(("name", "stream"), STREAMS)
def test_a_session_goes_on_past_its_window(name: str, stream: bool | None, tmp_path: Path) -> None:
    """One question for each compaction, read from the provider's cache and counted as our own; its words stand in every
    request from then on, and the client sees none of it."""

    async def scene() -> None:
        members = {} if stream is None else {"stream": stream}
        async with served(FORMS[name], tmp_path) as (b, provider):
            await b.say(GOAL, size=0, **members)
            for at in range(36):
                answer = await b.say(f"Turn {at}.", **members)
                assert answer.status == 200, answer.body
                assert b"Fi" in answer.body
                assert b"bearing" not in answer.body
            asked = [one for one in provider.log if is_question(one)]
            sent = [one for one in provider.log if not is_question(one)]
            assert len(sent) == 37
            assert sum(one.total for one in sent) > 10 * WINDOW
            assert max(one.total for one in sent) < WINDOW
            assert len(asked) > 1
            assert all(one.status == 200 and one.read / one.total > 0.8 for one in asked)
            assert GOAL.encode() in sent[-1].body
            assert TOLD.encode() in sent[-1].body
            assert WORDS.encode() in sent[-1].body
            assert FOUND.encode() not in sent[-1].body
            lines = await b.turns(37 + len(asked))
            own = [line for line in lines if "asked" in line]
            assert [line["asked"] for line in own] == ["heard"] * len(asked)
            assert [line["cached"] for line in own] == [one.read for one in asked]
            assert {line["conversation"] for line in lines} == {lines[0]["conversation"]}
            by = [line["summary"] for line in lines if "summary" in line]
            assert by == ["model"] * len(asked)
            exposed = b.gateway.metrics.exposition().decode()
            upstream = lines[0]["upstream"]
            count = f'{{outcome="ok",upstream="{upstream}"}} {float(len(asked))}'
            assert f"stet_summaries_total{count}" in exposed
            cached = f'{{kind="cached",upstream="{upstream}"}} {float(sum(one.read for one in asked))}'
            assert f"stet_summary_tokens_total{cached}" in exposed

    run(scene(), 60)


def test_the_question_goes_where_the_request_would_have_gone(tmp_path: Path) -> None:
    """With the client's own headers, and with its own stream."""

    async def scene() -> None:
        async with served(FORMS["anthropic"], tmp_path) as (b, provider):
            answer = await b.ask(b.long() | {"stream": True})
            assert b"event: message_stop" in answer.body
            question, request = provider.log
            assert is_question(question)
            assert question.path == request.path
            assert [pair for pair in question.headers if pair[0].lower() != "content-length"] == [
                pair for pair in request.headers if pair[0].lower() != "content-length"
            ]
            assert question.json["stream"] is True
            assert question.json["max_tokens"] == 4_000

    run(scene())


REFUSALS = [
    (Canned.error(529, "Overloaded"), "refused with 529"),
    (Canned(400, b"no"), "refused with 400"),
    (Canned(200, b'{"type":"message","content":[],"stop_reason":"end_turn"}'), "the model said nothing"),
    (
        Canned(200, b'{"content":[{"type":"text","text":"The fan"}],"stop_reason":"max_tokens"}'),
        "the answer ended before its end: max_tokens",
    ),
    (Canned(200, b'{"content":[{"type":"text","text":"The fan"}]}'), "the answer broke off"),
    (Canned(200, b"hello"), "the answer broke off"),
]


@pytest.mark.parametrize(("canned", "why"), REFUSALS)
def test_what_is_no_summary_is_not_asked_for_again(canned: Canned, why: str, tmp_path: Path) -> None:
    """The history's own words come at once, and the log says why."""

    async def scene() -> None:
        async with served(FORMS["anthropic"], tmp_path) as (b, provider):
            provider.canned.append(canned)
            body = b.long()
            assert (await b.ask(body)).status == 200
            assert [is_question(one) for one in provider.log] == [True, False]
            assert OPENING[:40].encode() in provider.log[-1].body
            assert TOLD.encode() not in provider.log[-1].body
            own, request = await b.turns(2)
            assert own["asked"] == why
            assert request["summary"] == f"history: {why}"
            body["messages"] += [
                {"role": "assistant", "content": "Fine."},
                {"role": "user", "content": "And now?"},
            ]
            assert (await b.ask(body)).status == 200
            assert len(provider.log) == 3

    run(scene())


def test_a_call_is_no_summary(tmp_path: Path) -> None:
    """A model that goes on with the work instead."""

    async def scene() -> None:
        async with served(FORMS["anthropic"], tmp_path) as (b, provider):
            tool = {"name": "run", "input_schema": {"type": "object"}}
            script = provider.script
            provider.script = lambda ask: (
                Reply(blocks=(Say("I look."), Call("run", {})))
                if any(text == QUESTION for text in last_texts(ask.body))
                else script(ask)
            )
            assert (await b.ask(b.long() | {"tools": [tool]})).status == 200
            own, _ = await b.turns(2)
            assert own["asked"] == "the model called a tool instead"

    run(scene())


def test_an_answer_that_takes_too_long_is_not_waited_for(tmp_path: Path) -> None:
    """The call is cut, and the request goes out with the history's own words."""

    async def scene() -> None:
        async with scripted(tmp_path, wait=1) as (b, provider):
            provider.play(SSE_HEAD, asyncio.Event())
            provider.play(respond(b'{"content":[],"stop_reason":"end_turn"}'))
            assert (await b.ask(b.long())).status == 200
            await provider.seen[0].gone.wait()
            own, request = await b.turns(2)
            assert (own["asked"], own["outcome"], own["error"]) == (
                "no answer in 1 s",
                "truncated",
                "timeout",
            )
            assert request["summary"] == "history: no answer in 1 s"
            assert OPENING[:40].encode() in provider.seen[1].body

    run(scene())


def test_an_answer_that_breaks_off_is_none(tmp_path: Path) -> None:
    """A stream without its end is no summary, whatever it said until then."""

    async def scene() -> None:
        async with scripted(tmp_path) as (b, provider):
            delta = b'event: content_block_delta\ndata: {"delta":{"type":"text_delta","text":"The"}}\n\n'
            provider.play(SSE_HEAD, chunk(delta), LAST)
            provider.play(respond(b'{"content":[],"stop_reason":"end_turn"}'))
            assert (await b.ask(b.long())).status == 200
            own, _ = await b.turns(2)
            assert (own["asked"], own["outcome"]) == ("the answer broke off", "truncated")

    run(scene())


def test_a_client_that_leaves_cancels_the_question(tmp_path: Path) -> None:
    """Nobody waits for it any more. The client that comes back with the same request is not kept waiting again."""

    async def scene() -> None:
        async with scripted(tmp_path) as (b, provider):
            provider.play(asyncio.Event())
            provider.play(respond(b'{"content":[],"stop_reason":"end_turn"}'))
            body = b.long()
            client = await Client.connect(b.gateway.port)
            await client.send(b.raw(body))
            await provider.arrived.wait()
            client.close()
            await provider.seen[0].gone.wait()
            assert (await b.ask(body)).status == 200
            own, left, again = await b.turns(3)
            assert (own["asked"], own["outcome"], left["outcome"]) == (
                "the client left",
                "cancelled",
                "cancelled",
            )
            assert again["summary"] == "history: the client left"
            assert len(provider.seen) == 2

    run(scene())


def test_a_request_that_fails_and_comes_back_is_not_asked_for_twice(tmp_path: Path) -> None:
    """What was heard is kept until the provider has taken the compaction."""

    async def scene() -> None:
        async with served(FORMS["anthropic"], tmp_path) as (b, provider):
            body = b.long()
            refused = iter([False, True, False])
            provider.hook = lambda _: Canned.error(529, "Overloaded") if next(refused) else None
            assert (await b.ask(body)).status == 529
            assert (await b.ask(body)).status == 200
            assert [is_question(one) for one in provider.log] == [True, False, False]
            assert WORDS.encode() in provider.log[-1].body

    run(scene())


def test_a_count_of_tokens_asks_nothing(tmp_path: Path) -> None:
    """Nor does a proxy that only observes; the counting of a long history is cheap and stays so."""

    async def scene() -> None:
        async with served(FORMS["anthropic"], tmp_path) as (b, provider):
            body = b.long()
            del body["max_tokens"]
            client = await Client.connect(b.gateway.port)
            await client.send(post(orjson.dumps(body), "/v1/messages/count_tokens", *KEYS, VERSION))
            assert (await client.answer()).status == 200
            client.close()
            assert len(provider.log) == 1

    run(scene())
