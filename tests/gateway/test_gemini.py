"""Gemini clients in front of `stet serve`'s rewriter and the embedded API behind it, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from proxy.gateway.app import Gateway
from proxy.gateway.service import build
from proxy.gateway.settings import Settings
from proxy.gateway.values import Upstream
from proxy.models import Models
from proxy.simulator import Agent, Reply, Say, Server
from proxy.simulator.agent import Read
from proxy.simulator.gemini import GeminiProvider, GeminiSettings
from tests.dialects.gemini import PRO3, Json, body, call, model, result, text, user
from tests.gateway.rig import run, settings

KEY = "AIzaSyD-not-a-real-key-0123456789abcdef"
INSTRUCTION = {"systemInstruction": {"parts": [text("Look after the greenhouse. " * 800)]}}


class Service:
    """What runs, and what it wrote."""

    def __init__(
        self, provider: GeminiProvider, gateway: Gateway, log: io.StringIO, console: io.StringIO
    ) -> None:
        self.provider, self.gateway, self.log, self.console = provider, gateway, log, console
        self.url = f"http://127.0.0.1:{gateway.port}"

    async def post(self, path: str, request: Json, **headers: str) -> tuple[int, bytes, str]:
        """Status, body and content type of an answer."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                self.url + path, data=io.BytesIO(orjson.dumps(request)), headers=headers
            ) as response,
        ):
            return response.status, await response.read(), response.content_type

    def turns(self) -> list[dict[str, Any]]:
        lines = [orjson.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["event"] == "turn"]


@contextlib.asynccontextmanager
async def serving(provider: GeminiProvider, *, log: str = "json", **changes: Any) -> AsyncIterator[Service]:
    """The gateway as `stet serve` builds it, in front of the provider."""
    stream = io.StringIO()
    server = await Server(provider).start()
    known: Settings = settings(server.url, log=log, **changes)
    profiled = {"gemini": Upstream("gemini", server.url, profile="gemini")}
    known = settings(server.url, log=log, **{"upstreams": {**known.upstreams, **profiled}, **changes})
    rewriter, store = build(known, Models.load(), lambda _: None)
    gateway = Gateway(known, rewriter, stream=stream, env={})
    await gateway.start()
    try:
        yield Service(provider, gateway, stream, stream)
    finally:
        await gateway.stop(drain=0)
        await server.stop()
        if store is not None:
            store.close()


def path(method: str, name: str = PRO3) -> str:
    return f"/v1beta/models/{name}:{method}"


def said(*responses: Json) -> str:
    """The texts of an answer's chunks."""
    parts = [part for one in responses for part in one["candidates"][0]["content"]["parts"]]
    return "".join(part.get("text", "") for part in parts)


def events(raw: bytes) -> list[Json]:
    return [orjson.loads(event.removeprefix(b"data: ")) for event in raw.split(b"\r\n\r\n") if event]


TWICE = body(
    user(text("Read.")),
    model(call(ident="a", signed=True)),
    user(result(ident="a"), result(ident="a")),
    model(text("Read.")),
    user(text("And?")),
)


@pytest.mark.parametrize(
    "method", ["generateContent", "streamGenerateContent", "streamGenerateContent?alt=sse"]
)
def test_answers_in_every_form(method: str) -> None:
    """A body that the API would refuse is mended; a document, an array and events come back as they were sent."""
    provider = GeminiProvider(script=lambda ask: Reply(blocks=(Say("All is well in here."),)))

    async def scene() -> None:
        async with serving(provider) as service:
            status, raw, kind = await service.post(path(method), TWICE)
            assert status == 200, raw
            if method.endswith("sse"):
                assert kind == "text/event-stream"
                assert said(*events(raw)) == "All is well in here."
            else:
                whole = orjson.loads(raw)
                assert said(*(whole if isinstance(whole, list) else [whole])) == "All is well in here."
            await asyncio.sleep(0.05)
            (turn,) = service.turns()
            assert (turn["dialect"], turn["model"], turn["edits"]) == ("gemini", PRO3, {"balance": 1})
            assert (turn["stop"], turn["prompt"]) == ("STOP", provider.log[-1].total)

    run(scene())


def test_a_stream_is_relayed_as_it_comes() -> None:
    """The first event is with the client while the provider still holds back the others."""
    provider = GeminiProvider(
        GeminiSettings(event_delay_s=0.4), script=lambda ask: Reply(blocks=(Say("one two three four " * 20),))
    )

    async def scene() -> None:
        async with serving(provider) as service, aiohttp.ClientSession() as session:
            url = service.url + path("streamGenerateContent?alt=sse")
            async with session.post(url, data=io.BytesIO(orjson.dumps(TWICE))) as response:
                first = await response.content.readany()
                assert not response.content.at_eof()
                rest = await response.content.read()
            assert len(events(first)) < len(events(first + rest))
            assert said(*events(first + rest)) == "one two three four " * 20

    run(scene())


@pytest.mark.parametrize(
    "target",
    [
        path("generateContent"),
        "/gemini" + path("generateContent"),
        f"/v1/projects/p/locations/global/publishers/google/models/{PRO3}:generateContent",
        f"/v1beta1/projects/p/locations/us/publishers/google/models/{PRO3}:generateContent",
    ],
)
def test_paths(target: str) -> None:
    """AI Studio, a named upstream, and Vertex in two versions: the model stands in the path."""
    provider = GeminiProvider()

    async def scene() -> None:
        async with serving(provider, default_upstream="gemini") as service:
            status, raw, _ = await service.post(target, TWICE)
            assert status == 200, raw
            await asyncio.sleep(0.05)
            (turn,) = service.turns()
            assert (turn["upstream"], turn["model"], turn["edits"]) == ("gemini", PRO3, {"balance": 1})
            assert provider.log[-1].path == target.removeprefix("/gemini")

    run(scene())


def test_code_assist() -> None:
    """The request inside is mended, what is around it passes, and the answer's usage is read out of its own [D301]."""
    provider = GeminiProvider(script=lambda ask: Reply(blocks=(Say("Fine."),)))
    wrapped = {"model": PRO3, "project": "greenhouse", "user_prompt_id": "1", "request": TWICE}

    async def scene() -> None:
        async with serving(provider) as service:
            status, raw, _ = await service.post("/v1internal:streamGenerateContent?alt=sse", wrapped)
            assert status == 200, raw
            assert said(*(event["response"] for event in events(raw))) == "Fine."
            sent = orjson.loads(provider.log[-1].body)
            assert {**sent, "request": None} == {**wrapped, "request": None}
            assert sent["request"]["contents"][2] == user(result(ident="a"))
            await asyncio.sleep(0.05)
            (turn,) = service.turns()
            assert (turn["model"], turn["prompt"]) == (PRO3, provider.log[-1].total)

    run(scene())


def test_counting_is_mended_and_not_remembered() -> None:
    """countTokens gets what generateContent would get, bare and wrapped, and leaves nothing in the ledger [A70]."""
    provider = GeminiProvider()

    async def scene() -> None:
        async with serving(provider) as service:
            for request in ({"contents": TWICE["contents"]}, {"generateContentRequest": TWICE}):
                status, raw, _ = await service.post(path("countTokens"), request)
                assert status == 200, raw
                assert orjson.loads(raw)["totalTokens"] == provider.log[-1].total
            status, raw, _ = await service.post(path("generateContent"), TWICE)
            assert status == 200, raw
            await asyncio.sleep(0.05)
            assert [turn["turn"] for turn in service.turns()] == [1, 1, 1]

    run(scene())


def test_a_request_with_an_explicit_cache_passes() -> None:
    """What it goes on from is with the provider: the body leaves as it came, and so does the refusal [B304]."""
    provider = GeminiProvider()
    request = {"cachedContent": "cachedContents/x", "contents": [model(call()), user(text("Go on."))]}

    async def scene() -> None:
        async with serving(provider) as service:
            status, raw, _ = await service.post(path("generateContent"), request)
            assert (status, provider.log[-1].body) == (400, orjson.dumps(request)), raw
            await asyncio.sleep(0.05)
            assert "edits" not in service.turns()[0]

    run(scene())


def test_a_signature_that_a_client_drops_from_a_stream_goes_back() -> None:
    """Seen in passing in the answer's events, put back into the next request and all that follow."""
    provider = GeminiProvider(
        script=Agent([(Read("/a"),), (Read("/b"),), (Read("/c"),), ()], closing="Done.")
    )
    contents: list[Json] = [user(text("Look around."))]
    given: list[str] = []

    async def ask(service: Service) -> None:
        status, raw, _ = await service.post(path("streamGenerateContent?alt=sse"), body(*contents))
        assert status == 200, raw
        parts = [part for event in events(raw) for part in event["candidates"][0]["content"]["parts"]]
        calls = [part for part in parts if "functionCall" in part]
        given.extend(part.pop("thoughtSignature") for part in calls)
        contents.append(model(*calls))
        contents.append(
            user(
                *(result(c["functionCall"]["name"], ident=c["functionCall"]["id"], output="x") for c in calls)
            )
        )

    async def scene() -> None:
        async with serving(provider) as service:
            for _ in range(3):
                await ask(service)
            await asyncio.sleep(0.05)
            assert [turn.get("edits") for turn in service.turns()] == [None, {"restore": 1}, {"restore": 2}]

    run(scene())
    sent = [part for content in orjson.loads(provider.log[-1].body)["contents"] for part in content["parts"]]
    assert [part["thoughtSignature"] for part in sent if "functionCall" in part] == given[:2]


def test_a_session_reads_from_the_cache_and_says_why_it_does_not() -> None:
    """Turn by turn the prefix is found; where the client masks its own old output, the log says that it did."""
    provider = GeminiProvider(
        script=Agent([(Read("/a"),), (Read("/b"),), (Read("/c"),), ()], closing="Done.")
    )
    contents: list[Json] = [user(text("Look around."))]

    async def ask(service: Service) -> list[Json]:
        status, raw, _ = await service.post(path("generateContent"), body(*contents, **INSTRUCTION))
        assert status == 200, raw
        answer = orjson.loads(raw)["candidates"][0]["content"]
        contents.append(answer)
        return [part["functionCall"] for part in answer["parts"] if "functionCall" in part]

    async def scene() -> None:
        async with serving(provider) as service:
            for number in range(3):
                calls = await ask(service)
                lines = "".join(f"{number} {at:05d}\n" for at in range(2_000))
                contents.append(user(*(result(one["name"], ident=one["id"], output=lines) for one in calls)))
            first = contents[2]["parts"][0]["functionResponse"]
            first["response"] = {"output": "<tool_output_masked>…[TRUNCATED]…</tool_output_masked>"}
            await ask(service)
            await asyncio.sleep(0.05)
            *whole, masked = service.turns()
            assert all("miss" not in turn for turn in whole)
            assert all(turn["hit_ratio"] > 0.4 for turn in whole[1:])
            assert masked["miss"] == "client"
            assert masked["miss_detail"].startswith("contents[2].parts[0] (tool result) changed, ")
            assert "edits" not in masked
            for turn in service.turns():
                assert turn["count_error"] == round(turn["counted"] / turn["prompt"] - 1, 4)
            assert abs(whole[2]["count_error"]) < 0.05

    run(scene())


@pytest.mark.parametrize("log", ["json", "console"])
def test_a_key_in_the_query_reaches_the_provider_and_nothing_else(
    log: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not the turn's line, not a fault's, not the admin's list, not the store, not what is printed [D300]."""
    provider = GeminiProvider(GeminiSettings(require_auth=True))
    shown: list[bytes] = []

    async def scene() -> None:
        async with serving(provider, log=log, state=str(tmp_path / "state")) as service:
            for method in (
                "generateContent",
                "streamGenerateContent",
                "countTokens",
                "embedContent",
                "nonsense",
            ):
                await service.post(path(f"{method}?key={KEY}"), TWICE)
            status, _, _ = await service.post(path(f"streamGenerateContent?alt=sse&key={KEY}"), TWICE)
            assert status == 200
            await service.post(path(f"generateContent?key={KEY}"), {"contents": 1})
            await service.post(f"/elsewhere/v1?key={KEY}", {})
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{service.url}/v1beta/models?key={KEY}") as response:
                    shown.append(await response.read())
                for page in ("turns", "metrics", "readyz"):
                    async with session.get(f"http://{service.gateway.admin_address}/{page}") as response:
                        assert response.status == 200
                        shown.append(await response.read())
            await asyncio.sleep(0.1)
            shown.append(service.log.getvalue().encode())
        # A provider that is not there: the fault is said without the target.
        gone = settings("http://127.0.0.1:1", log=log)
        rewriter, _ = build(gone, Models.load(), lambda _: None)
        stream = io.StringIO()
        gateway = Gateway(gone, rewriter, stream=stream, env={})
        await gateway.start()
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{gateway.port}{path(f'generateContent?key={KEY}')}"
            async with session.post(url, data=io.BytesIO(orjson.dumps(TWICE))) as response:
                assert response.status == 502
                shown.append(await response.read())
        await gateway.stop(drain=0)
        shown.append(stream.getvalue().encode())

    run(scene())
    stored = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert stored
    assert provider.log[0].status == 200
    assert not [
        page for page in (*shown, *stored, *map(str.encode, capfd.readouterr())) if KEY.encode() in page
    ]


def test_keys_in_the_query_are_told_apart() -> None:
    """Two accounts that say the same are two conversations: one's promises are not the other's."""
    provider = GeminiProvider()

    async def scene() -> None:
        async with serving(provider) as service:
            for key in ("one", "two", "one"):
                status, raw, _ = await service.post(path(f"generateContent?key={key}"), TWICE)
                assert status == 200, raw
            await asyncio.sleep(0.05)
            first, second, third = (turn["conversation"] for turn in service.turns())
            assert first == third != second

    run(scene())
