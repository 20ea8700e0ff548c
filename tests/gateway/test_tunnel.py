"""Websockets handed on between real ends: an aiohttp client, the gateway, an aiohttp server for the provider."""

import asyncio
import contextlib
import io
import json
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import uvloop
from aiohttp import WSMsgType, web

from proxy.gateway.app import Gateway
from tests.gateway.rig import Client, Rig, run, settings

BETA = "responses_websockets=2026-02-06"
CREATE = {"type": "response.create", "model": "g", "input": [{"role": "user", "content": "hi"}]}
USAGE = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 9}


def answered(number=1, status="completed", **more):
    """The events of one response."""
    response = {"id": f"resp_{number}", "model": "g", "status": status}
    item = {"type": "function_call", "call_id": f"call_{number}"}
    return [
        {"type": "response.created", "response": response, **more},
        {"type": "response.output_text.delta", "delta": "hé", **more},
        {"type": "response.output_item.done", "item": item, **more},
        {"type": f"response.{status}", "response": {**response, "usage": USAGE, "output": [item]}, **more},
    ]


@dataclass
class Ends:
    """The provider's end: what it saw, and how it answers."""

    requests: list[Any] = field(default_factory=list)
    frames: list[Any] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    close_code: int | None = None
    compress: int | bool = False
    arrived: asyncio.Event = field(default_factory=asyncio.Event)


async def answering(socket, ends):
    """Answer each request at once, until the client ends it."""
    number = 0
    async for message in socket:
        ends.frames.append((message.type, message.data))
        ends.arrived.set()
        if message.type is WSMsgType.TEXT and "response.create" in message.data:
            number += 1
            for event in answered(number):
                await socket.send_str(json.dumps(event))
        elif message.type is WSMsgType.BINARY:
            await socket.send_bytes(message.data)


@contextlib.asynccontextmanager
async def provider(play=answering, **options):
    ends = Ends()

    async def serve(request):
        ends.requests.append(request)
        if request.headers.get("Authorization") == "Bearer wrong":
            return web.json_response(
                {"error": {"code": "invalid_api_key"}}, status=401, headers={"X-Id": "7"}
            )
        socket = web.WebSocketResponse(protocols=("realtime",), **options)
        socket.headers["X-Codex-Turn-State"] = "abc"
        await socket.prepare(request)
        ends.compress = socket.compress
        try:
            await play(socket, ends)
        finally:
            ends.close_code = socket.close_code
            ends.closed.set()
        return socket

    app = web.Application()
    app.router.add_get("/{path:.*}", serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield ends, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def tunnel(play=answering, options=None, **changes):
    """Provider, gateway and a client's session."""
    async with provider(play, **options or {}) as (ends, url):
        log = io.StringIO()
        gateway = Gateway(settings(url, websocket="tunnel", **changes), stream=log, env={})
        await gateway.start()
        try:
            async with aiohttp.ClientSession() as session:
                yield ends, Rig(None, gateway, log), session
        finally:
            await gateway.stop(drain=0)


def connect(r, session, path="/v1/responses", **options):
    options = {"compress": 15, "headers": {"OpenAI-Beta": BETA, "Authorization": "Bearer k"}, **options}
    return session.ws_connect(f"http://127.0.0.1:{r.gateway.port}{path}", **options)


async def receive(socket, number):
    return [json.loads((await socket.receive()).data) for _ in range(number)]


LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])


@LOOPS
def test_responses_pass_and_each_is_a_turn(loop):
    """Frames in both directions as they are, compressed on both sides; usage, ids and end in a turn each."""

    async def scene():
        async with tunnel() as (ends, r, session):
            async with connect(r, session) as socket:
                for number in (1, 2):
                    await socket.send_str(json.dumps(CREATE))
                    assert await receive(socket, 4) == answered(number)
                first, second = await r.turns(2)
                assert socket.compress and ends.compress
            for turn in (first, second):
                assert (turn["outcome"], turn["dialect"], turn["status"]) == ("ok", "openai_responses", 200)
                assert (turn["upstream"], turn["model"], turn["stop"]) == ("openai", "g", "completed")
                assert (turn["prompt"], turn["cached"], turn["output"], turn["hit_ratio"]) == (
                    100,
                    60,
                    9,
                    0.6,
                )
                assert turn["path"] == "/v1/responses" and turn["request_bytes"] == len(json.dumps(CREATE))
            (whole,) = [turn for turn in await r.turns(3) if turn["status"] == 101]
            assert (whole["outcome"], whole.get("dialect")) == ("passed", None)
            assert ends.frames == [(WSMsgType.TEXT, json.dumps(CREATE))] * 2
            assert r.gateway.answering == 0

    run(scene(), loop=loop)


def test_the_handshake_passes():
    """Path, query, headers and subprotocol reach the provider; its own headers and choice reach the client."""

    async def scene():
        async with tunnel() as (ends, r, session):
            async with connect(r, session, "/openai/v1/responses?a=1", protocols=("x", "realtime")) as socket:
                assert socket.protocol == "realtime"
                assert socket._response.headers["X-Codex-Turn-State"] == "abc"
            (seen,) = ends.requests
            assert seen.path_qs == "/v1/responses?a=1"
            assert seen.headers["OpenAI-Beta"] == BETA and seen.headers["Authorization"] == "Bearer k"
            assert seen.headers["Host"] == r.gateway.settings.upstreams["openai"].host
            assert seen.headers.getall("Sec-WebSocket-Key") != [] and len(seen.headers.getall("Host")) == 1

    run(scene())


def test_a_client_that_does_not_compress_is_not_compressed():
    """Compression is each connection's own; it is offered to the provider where the client offers it."""

    async def scene():
        async with tunnel() as (ends, r, session):
            async with connect(r, session, compress=0) as socket:
                await socket.send_str(json.dumps(CREATE))
                assert await receive(socket, 4) == answered()
                assert (socket.compress, ends.compress) == (0, 0)
        async with tunnel(options={"compress": False}) as (ends, r, session):
            async with connect(r, session) as socket:
                await socket.send_str(json.dumps(CREATE))
                assert await receive(socket, 4) == answered()
                assert socket.compress and not ends.compress

    run(scene())


def test_any_frame_passes():
    """Binary, empty and large messages, pings and pongs; on a path without responses nothing is metered."""

    async def echo(socket, ends):
        while (message := await socket.receive()).type not in (WSMsgType.CLOSE, WSMsgType.CLOSED):
            ends.frames.append((message.type, message.data))
            if message.type is WSMsgType.PING:
                await socket.pong(message.data)
            else:
                await socket.send_frame(
                    message.data.encode() if isinstance(message.data, str) else message.data, message.type
                )

    large = json.dumps({**CREATE, "input": "x" * 5_000_000})
    options = {"autoping": False, "max_msg_size": 0}

    async def scene():
        async with tunnel(echo, options) as (ends, r, session):
            async with connect(r, session, "/v1/realtime", autoping=False, max_msg_size=0) as socket:
                await socket.send_str("")
                assert (await socket.receive()).data == ""
                await socket.send_bytes(bytes(range(256)))
                assert (await socket.receive()).data == bytes(range(256))
                await socket.ping(b"are you there")
                pong = await socket.receive()
                assert (pong.type, pong.data) == (WSMsgType.PONG, b"are you there")
                await socket.send_str(large)
                assert (await socket.receive()).data == large
            assert [kind for kind, _ in ends.frames] == [
                WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.PING, WSMsgType.TEXT,
            ]  # fmt: skip
            assert len(await r.turns(1)) == 1

    run(scene())


def test_several_responses_at_once():
    """Streams are told apart by their id; those of one stream are answered in order."""

    async def mixed(socket, ends):
        for _ in range(3):
            ends.frames.append(await socket.receive())
        a, b, c = answered(1, stream_id="a"), answered(2, stream_id="b"), answered(3, stream_id="a")
        for event in [x for pair in zip(a, b) for x in pair] + c:
            await socket.send_str(json.dumps(event))
        await socket.receive()

    async def scene():
        async with tunnel(mixed) as (_, r, session):
            async with connect(r, session) as socket:
                for lane, size in (("a", 0), ("b", 10), ("a", 20)):
                    await socket.send_str(json.dumps({**CREATE, "stream_id": lane, "input": "x" * size}))
                await receive(socket, 12)
                turns = await r.turns(3)
                sizes = [turn["request_bytes"] - turns[0]["request_bytes"] for turn in turns]
                assert (sizes, [turn["cached"] for turn in turns]) == ([0, 10, 20], [60, 60, 60])

    run(scene())


def test_errors_end_their_response():
    """With the provider's status and word; what is no response to anything is nobody's turn."""
    refused = {
        "type": "error",
        "status": 400,
        "error": {"code": "previous_response_not_found", "message": "x"},
    }

    async def refusing(socket, ends):
        await socket.send_str(json.dumps({"type": "codex.rate_limits"}))
        await socket.send_str("no JSON")
        for events in ([refused], answered(2, "failed"), answered(3)):
            await socket.receive()
            for event in events:
                await socket.send_str(json.dumps(event))
        await socket.receive()

    async def scene():
        async with tunnel(refusing) as (_, r, session):
            async with connect(r, session) as socket:
                assert json.loads((await socket.receive()).data) == {"type": "codex.rate_limits"}
                assert (await socket.receive()).data == "no JSON"
                for number in (1, 4, 4):
                    await socket.send_str(json.dumps(CREATE))
                    await receive(socket, number)
                bad, failed, good = await r.turns(3)
                assert (bad["outcome"], bad["status"], bad["error"]) == (
                    "refused", 400, "previous_response_not_found",
                )  # fmt: skip
                assert (failed["status"], failed["stop"]) == (200, "failed")
                assert good["outcome"] == "ok"

    run(scene())


@LOOPS
@pytest.mark.parametrize("code", [1000, 1011, 4001])
def test_close_codes_pass(code, loop):
    """With their reasons, from either side."""

    async def closing(socket, ends):
        await socket.receive()
        await socket.close(code=code, message=b"that is all")

    async def scene():
        async with tunnel(closing) as (_, r, session):
            async with connect(r, session, autoclose=False) as socket:
                await socket.send_str("{}")
                message = await socket.receive()
                assert (message.type, message.data, message.extra) == (WSMsgType.CLOSE, code, "that is all")
            assert [turn["outcome"] for turn in await r.turns(1)] == ["passed"]
        async with tunnel() as (ends, r, session):
            async with connect(r, session) as socket:
                await socket.close(code=code)
            await ends.closed.wait()
            assert ends.close_code == code
            assert [turn["outcome"] for turn in await r.turns(1)] == ["passed"]

    run(scene(), loop=loop)


@LOOPS
def test_a_client_that_is_gone_is_gone_there_too(loop):
    """Its connection to the provider ends, and the response under way is cancelled."""

    async def scene():
        async with tunnel(silent) as (ends, r, session):
            socket = await connect(r, session)
            await socket.send_str(json.dumps(CREATE))
            await ends.arrived.wait()
            socket._response.connection.transport.abort()
            await ends.closed.wait()
            assert sorted(turn["outcome"] for turn in await r.turns(2)) == ["cancelled", "cancelled"]

    run(scene(), loop=loop)


async def silent(socket, ends):
    """Take what comes, answer nothing."""
    async for message in socket:
        ends.frames.append((message.type, message.data))
        ends.arrived.set()


@LOOPS
def test_a_provider_that_is_gone_is_gone_here_too(loop):
    """Without a close frame, as it was: the client must not take it for an end."""

    async def breaking(socket, ends):
        await socket.receive()
        await socket.send_str(json.dumps(answered()[0]))
        await asyncio.sleep(0.05)
        socket._req.transport.abort()

    async def scene():
        async with tunnel(breaking) as (_, r, session):
            async with connect(r, session, autoclose=False) as socket:
                await socket.send_str(json.dumps(CREATE))
                assert await receive(socket, 1) == answered()[:1]
                assert (await socket.receive()).type is WSMsgType.CLOSED
                assert socket.close_code == 1006
            turns = await r.turns(2)
            assert [(turn["outcome"], turn["status"]) for turn in turns] == [
                ("truncated", 200),
                ("truncated", 101),
            ]

    run(scene(), loop=loop)


UPGRADE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Authorization: Bearer wrong\r\n\r\n"
)


def test_what_a_provider_says_to_an_upgrade_is_the_answer():
    """Status, headers and body, and the connection lives on."""

    async def scene():
        async with tunnel() as (_, r, session):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await connect(r, session, headers={"Authorization": "Bearer wrong"})
            assert (caught.value.status, caught.value.headers["X-Id"]) == (401, "7")
            client = await Client.connect(r.gateway.port)
            for _ in range(2):
                await client.send(UPGRADE)
                answer = await client.answer()
                assert (answer.status, answer.json) == (401, {"error": {"code": "invalid_api_key"}})
            client.close()
            turns = await r.turns(3)
            assert {(turn["outcome"], turn["status"]) for turn in turns} == {("refused", 401)}

    run(scene())


def test_what_is_no_handshake_goes_no_further():
    """A missing key or another method is answered here; a provider that is not there is a 502."""

    async def scene():
        async with tunnel() as (ends, r, session):
            keyless = UPGRADE.replace(b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b"")
            for raw in (keyless, UPGRADE.replace(b"GET", b"POST")):
                answer = await r.ask(raw)
                assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")
            assert ends.requests == []
        log = io.StringIO()
        gateway = Gateway(settings("http://127.0.0.1:9", websocket="tunnel"), stream=log, env={})
        await gateway.start()
        try:
            assert (await Rig(None, gateway, log).ask(UPGRADE)).status == 502
        finally:
            await gateway.stop(drain=0)

    run(scene())


def test_a_message_beyond_the_limit_is_refused():
    """With the code for it; the provider's side ends too."""

    async def scene():
        async with tunnel(silent, max_body=2**20) as (ends, r, session):
            async with connect(r, session, compress=0, autoclose=False) as socket:
                await socket.send_str("x" * (2**20 + 1))
                message = await socket.receive()
                assert (message.type, message.data) == (WSMsgType.CLOSE, 1009)
            await ends.closed.wait()
            assert ends.frames == []

    run(scene())


def test_stopping_waits_for_responses_and_not_for_websockets():
    """An idle websocket ends at once, one with a response under way when that is done, both as going away."""

    async def late(socket, ends):
        await socket.receive()
        ends.arrived.set()
        await asyncio.sleep(0.3)
        for event in answered():
            await socket.send_str(json.dumps(event))
        await socket.receive()

    async def scene():
        async with tunnel(late) as (ends, r, session):
            idle = await connect(r, session, autoclose=False)
            busy = await connect(r, session, autoclose=False)
            await busy.send_str(json.dumps(CREATE))
            await ends.arrived.wait()
            stopping = asyncio.ensure_future(r.gateway.stop(drain=20))
            gone = await idle.receive()
            assert (gone.type, gone.data) == (WSMsgType.CLOSE, 1001)
            await idle.close()
            assert await receive(busy, 4) == answered()
            gone = await busy.receive()
            assert (gone.type, gone.data) == (WSMsgType.CLOSE, 1001)
            await busy.close()
            await stopping
            assert sorted(turn["outcome"] for turn in await r.turns(3)) == ["ok", "passed", "passed"]

    run(scene())


def test_web_pages_of_others_get_no_websocket():
    """A browser sends its page's origin, and no preflight asks first."""

    async def scene():
        async with tunnel() as (ends, r, session):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await connect(r, session, origin="https://evil.example")
            assert (caught.value.status, ends.requests) == (403, [])

    run(scene())


def test_keys_in_subprotocols_are_not_logged(caplog):
    """Browsers send keys there, and the provider takes none of them as its own."""

    async def scene():
        async with tunnel() as (ends, r, session):
            offered = ("openai-insecure-api-key.SECRET-KEY", "other")
            async with connect(r, session, protocols=offered) as socket:
                await socket.send_str(json.dumps(CREATE))
                assert await receive(socket, 4) == answered()
            assert "SECRET-KEY" in ends.requests[0].headers["Sec-WebSocket-Protocol"]
            await r.turns(2)
            assert "SECRET-KEY" not in r.log.getvalue() + caplog.text

    run(scene())
