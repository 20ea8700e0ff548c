"""Codex in front of `stet serve`'s rewriter and the embedded Responses API behind it, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import aiohttp
import orjson
import pytest

from proxy.gateway.app import Gateway
from proxy.gateway.encoding import zstd
from proxy.gateway.service import build
from proxy.gateway.values import Upstream
from proxy.models import Models
from proxy.simulator import Reply, Say, Server, Settings
from proxy.simulator.responses import ResponsesProvider
from proxy.simulator.responses.codex import Codex, Shape, explorer
from tests.gateway.rig import Client, run, settings
from tests.gateway.test_guard import UPGRADE

PATH = "/v1/responses"
STEP = 2048
"""Tokens between two places from which the models' cache can be read."""

Json = dict[str, Any]


class Service:
    """What runs, and what it wrote."""

    def __init__(self, provider: ResponsesProvider, gateway: Gateway, log: io.StringIO) -> None:
        self.provider, self.gateway, self.log = provider, gateway, log
        self.url = f"http://127.0.0.1:{gateway.port}"

    async def post(self, body: bytes, **headers: str) -> tuple[int, bytes]:
        """Status and body of an answer."""
        named = {"authorization": "Bearer sk-test", "content-type": "application/json", **headers}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.url + PATH, data=io.BytesIO(body), headers=named) as response,
        ):
            return response.status, await response.read()

    async def turns(self) -> list[Json]:
        await asyncio.sleep(0.05)
        lines = [orjson.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["event"] == "turn"]


@contextlib.asynccontextmanager
async def serving(provider: ResponsesProvider) -> AsyncIterator[Service]:
    """The gateway as `stet serve` builds it, in front of the provider."""
    stream = io.StringIO()
    server = await Server(provider).start()
    known = settings(server.url)
    profiled = {"openai": Upstream("openai", server.url, profile="openai")}
    known = settings(server.url, upstreams={**known.upstreams, **profiled})
    rewriter, store = build(known, Models.load(), lambda _: None)
    gateway = Gateway(known, rewriter, stream=stream, env={})
    await gateway.start()
    try:
        yield Service(provider, gateway, stream)
    finally:
        await gateway.stop(drain=0)
        await server.stop()
        if store is not None:
            store.close()


def completed(raw: bytes) -> Json:
    """The whole response at the end of a stream."""
    events = [event.partition(b"\ndata: ")[2] for event in raw.split(b"\n\n") if b"\ndata: " in event]
    last: Json = orjson.loads(events[-1])
    assert last["type"] == "response.completed"
    whole: Json = last["response"]
    return whole


@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-6.1-sol"])
@pytest.mark.parametrize("encoding", ["", "zstd"])
def test_a_session_of_codex(model: str, encoding: str) -> None:
    """Compressed or not its bodies are read; its items leave as it wrote them, usage is read out of the stream, and
    every turn finds the one before in the cache."""
    provider = ResponsesProvider(script=explorer(["a.py", "b.py"], turns=6))
    client = Codex(Shape(seed=1, model=model), lambda call: f"{call['call_id']} line\n" * 200)
    client.ask("Look around.")
    coded = {"content-encoding": encoding} if encoding else {}

    async def scene() -> None:
        async with serving(provider) as service:
            going = True
            while going:
                body = orjson.dumps(client.body())
                status, raw = await service.post(
                    zstd.compress(body) if encoding else body, **client.headers, **coded
                )
                assert status == 200, raw
                whole = completed(raw)
                got = service.provider.log[-1].body
                sent = orjson.loads(zstd.decompress(got) if got[:4] == b"\x28\xb5\x2f\xfd" else got)
                assert unmarked(sent["input"]) == orjson.loads(body)["input"]
                going = client.take(whole["output"])
            turns = await service.turns()
            assert len(turns) > 5
            for turn, exchange in zip(turns, provider.log, strict=True):
                assert (turn["dialect"], turn["agent"], turn["model"]) == ("openai_responses", "codex", model)
                assert (turn["prompt"], turn["cached"]) == (
                    exchange.total,
                    exchange.usage.cache_read_input_tokens,
                )
            assert {turn["conversation"] for turn in turns} == {turns[0]["conversation"]}
            for before, turn in pairwise(turns):
                assert turn["cached"] > before["prompt"] - STEP
            assert not any("miss" in turn for turn in turns)

    run(scene())


def unmarked(value: Any) -> Any:
    """The same items without the marks for the cache."""
    if isinstance(value, dict):
        return {name: unmarked(inner) for name, inner in value.items() if name != "prompt_cache_breakpoint"}
    return [unmarked(inner) for inner in value] if isinstance(value, list) else value


TWICE = orjson.dumps(
    {
        "model": "gpt-5.5",
        "store": False,
        "stream": True,
        "input": [
            {"role": "user", "content": "Look."},
            {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "A pump."},
            {"type": "function_call_output", "call_id": "call_9", "output": "A valve."},
            {"role": "user", "content": "And?"},
        ],
    }
)
"""A history with an output of a call that is no longer there, which the API refuses."""


def test_a_stream_is_relayed_as_it_comes() -> None:
    """A history that would be refused is mended, and the first event is with the client while others are held back."""
    provider = ResponsesProvider(
        Settings(event_delay_s=0.3), script=lambda ask: Reply(blocks=(Say("one two three " * 20),))
    )

    async def scene() -> None:
        async with serving(provider) as service, aiohttp.ClientSession() as session:
            headers = {"authorization": "Bearer sk-test", "content-type": "application/json"}
            async with session.post(service.url + PATH, data=io.BytesIO(TWICE), headers=headers) as response:
                assert response.status == 200
                first = await response.content.readany()
                assert not response.content.at_eof()
                assert b"response.completed" not in first
                whole = completed(first + await response.content.read())
            assert whole["output"][-1]["content"][0]["text"] == "one two three " * 20
            (turn,) = await service.turns()
            assert turn["edits"]["balance"] == 1
            assert turn["prompt"] == whole["usage"]["input_tokens"] == provider.log[-1].total

    run(scene())


def test_a_websocket_is_refused_and_the_same_client_posts() -> None:
    """426 without a word to the provider; the POST that follows is rewritten like any other."""
    provider = ResponsesProvider()

    async def scene() -> None:
        async with serving(provider) as service:
            client = await Client.connect(service.gateway.port)
            await client.send(UPGRADE)
            assert (await client.answer()).status == 426
            client.close()
            assert provider.log == []
            status, raw = await service.post(TWICE)
            assert (status, completed(raw)["status"]) == (200, "completed")
            refused, turn = await service.turns()
            assert (refused["outcome"], refused["status"]) == ("rejected", 426)
            assert turn["edits"]["balance"] == 1

    run(scene())


def test_what_goes_on_from_a_stored_response_passes() -> None:
    """Its history is with the provider: outputs whose calls are not to be seen are nobody's to mend [A210]."""
    provider = ResponsesProvider()
    answer = {"type": "function_call_output", "call_id": "call_9", "output": "A valve."}
    body = orjson.dumps({"model": "gpt-5.5", "previous_response_id": "resp_1", "input": [answer]})

    async def scene() -> None:
        async with serving(provider) as service:
            status, raw = await service.post(body)
            assert status == 400
            assert b"resp_1" in raw
            assert orjson.loads(provider.log[-1].body)["input"] == [answer]

    run(scene())
