"""The provider on a real socket, as clients meet it."""

import asyncio
import io
import socket
import subprocess
import sys
import urllib.request

import aiohttp
import orjson
import pytest

from proxy.simulator import Call, Canned, Clock, Provider, Reply, Say, Server, Settings

from tests.simulator.bodies import MARK, body, headers, text, user

RULES = "Rule: be careful with the pump. " * 300
PREFIX = body(system=[text(RULES, cache_control=MARK)])


def talk(provider, conversation, clock=None):
    """Run `conversation(session, url)` against a server of this provider."""

    async def run():
        server = await Server(provider, clock=clock).start()
        try:
            async with aiohttp.ClientSession() as session:
                return await conversation(session, server.url)
        finally:
            await server.stop()

    return asyncio.run(run())


def post(session, url, request, **options):
    return session.post(
        f"{url}/v1/messages?beta=true", data=io.BytesIO(orjson.dumps(request)), headers=headers(), **options
    )


def test_a_plain_answer_and_its_record():
    """The answer's usage is the record's; the key is kept as a fingerprint only."""
    provider = Provider()

    async def conversation(session, url):
        async with post(session, url, PREFIX) as response:
            return response.status, dict(response.headers), await response.json()

    status, sent, answer = talk(provider, conversation)
    record = provider.log[0]
    assert (status, sent["Content-Type"]) == (200, "application/json")
    assert answer["usage"] == record.usage.wire()
    assert (record.path, record.status, record.json) == ("/v1/messages", 200, PREFIX)
    kept = dict(record.headers)
    assert kept["x-api-key"].startswith("sha256:")
    assert "sk-test" not in str(record.headers)


def test_a_stream_comes_event_by_event():
    """Events are sent one by one: the first arrives while the rest is still held back."""
    provider = Provider(Settings(event_delay_s=0.05), lambda _: Reply(blocks=(Say("Hello there."),)))

    async def conversation(session, url):
        async with post(session, url, body(stream=True)) as response:
            chunks = [chunk async for chunk, _ in response.content.iter_chunks()]
            return response.headers["Content-Type"], chunks

    kind, chunks = talk(provider, conversation)
    assert kind.startswith("text/event-stream")
    assert chunks[0].startswith(b"event: message_start\ndata: {")
    assert b"message_stop" not in chunks[0]
    assert b"".join(chunks).count(b"\n\n") == 9


def test_a_cut_stream_breaks_the_connection():
    """The client sees an abnormal end, not a finished body."""
    provider = Provider(script=lambda _: Reply(blocks=(Say("Hello."),), cut_after=3))

    async def conversation(session, url):
        async with post(session, url, body(stream=True)) as response:
            with pytest.raises(aiohttp.ClientError):
                await response.read()

    talk(provider, conversation)


def test_parallel_requests_miss_and_later_ones_hit():
    """With time to the first byte, what runs at the same time finds no entry [B11]."""
    provider = Provider(Settings(latency_s=0.2))

    async def conversation(session, url):
        async def ask():
            async with post(session, url, PREFIX) as response:
                return (await response.json())["usage"]["cache_read_input_tokens"] > 0

        together = await asyncio.gather(ask(), ask())
        return [*together, await ask()]

    assert talk(provider, conversation) == [False, False, True]


def test_the_clock_can_be_moved():
    """An hour passes in no time: the entry is gone [B10]."""
    provider, clock = Provider(), Clock(frozen=True)

    async def conversation(session, url):
        for seconds in (0, 299, 300):
            clock.advance(seconds)
            async with post(session, url, PREFIX) as response:
                await response.read()
        return [exchange.read > 0 for exchange in provider.log]

    assert talk(provider, conversation, clock) == [False, True, False]


def test_injected_failures_come_first():
    """Canned answers go out in order, then the provider's own; a hook may answer any one request."""
    provider = Provider(hook=lambda exchange: Canned(503, b"down") if b"fail me" in exchange.body else None)
    provider.canned += [
        Canned.error(529, "Overloaded"),
        Canned.error(429, "Slow down.", (("retry-after", "3"),)),
    ]

    async def conversation(session, url):
        seen = []
        for words in ("a", "b", "fail me", "c"):
            async with post(session, url, body(user(words))) as response:
                seen.append((response.status, response.headers.get("retry-after"), await response.read()))
        return seen

    seen = talk(provider, conversation)
    assert [(status, retry) for status, retry, _ in seen] == [
        (529, None),
        (429, "3"),
        (503, None),
        (200, None),
    ]
    assert orjson.loads(seen[0][2])["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    assert seen[2][2] == b"down"
    assert [(e.status, e.error) for e in provider.log] == [
        (529, "Overloaded"),
        (429, "Slow down."),
        (503, "down"),
        (200, None),
    ]


def test_other_paths():
    """The list of models is served, anything else is not found."""
    provider = Provider()

    async def conversation(session, url):
        async with session.get(f"{url}/v1/models?limit=1000") as response:
            names = [model["id"] for model in (await response.json())["data"]]
        async with session.get(f"{url}/v1/files") as response:
            got = response.status
        async with session.post(f"{url}/v1/complete", data=b"{}") as response:
            return names, got, response.status, await response.json()

    names, got, posted, error = talk(provider, conversation)
    assert "claude-opus-5-5" in names
    assert (got, posted, error["error"]["type"]) == (404, 404, "not_found_error")


def test_large_bodies_arrive_whole():
    """20 MB are read; over 32 MB are refused in the provider's own envelope [A3]."""
    provider = Provider()

    async def conversation(session, url):
        async with post(session, url, body(user("x" * 20_000_000))) as response:
            first = (await response.json())["error"]["message"]
        async with post(session, url, body(user("x" * 34_000_000))) as response:
            return first, response.status, (await response.json())["error"]["type"]

    first, status, kind = talk(provider, conversation)
    assert first.startswith("prompt is too long: ")
    assert (status, kind) == (413, "request_too_large")


def test_a_server_in_a_thread():
    """As a context manager the server runs beside blocking code."""
    provider = Provider()
    with Server(provider) as server:
        request = urllib.request.Request(
            f"{server.url}/v1/messages", orjson.dumps(body()), dict(headers()), method="POST"
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            assert response.status == 200
        port = server.port
    assert provider.log[0].status == 200
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", port))


def test_run_as_a_module():
    """`python -m proxy.simulator` prints its URL first and answers there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "proxy.simulator", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        url = process.stdout.readline().strip()
        request = urllib.request.Request(
            f"{url}/v1/messages", orjson.dumps(body()), dict(headers()), method="POST"
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            answer = orjson.loads(response.read())
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
    assert answer["content"][0]["text"].startswith("Understood (")


def test_a_websocket_is_refused_at_once():
    """With the status at which clients go on over HTTP [D102]."""

    async def conversation(session, url):
        headers = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        async with session.get(f"{url}/v1/responses", headers=headers) as response:
            return response.status, await response.read()

    assert talk(Provider(), conversation) == (426, b"")


def test_a_call_over_the_socket():
    """A script may look at the request and call one of its tools."""
    provider = Provider(script=lambda ask: Reply(blocks=(Call(sorted(ask.tools)[0], {"path": "a"}),)))

    async def conversation(session, url):
        async with post(session, url, body()) as response:
            return await response.json()

    answer = talk(provider, conversation)
    assert (answer["stop_reason"], answer["content"][0]["name"]) == ("tool_use", "read_file")


def test_a_client_that_leaves_in_the_middle_is_no_fault(caplog):
    """The rest of its stream goes nowhere, and nobody hears of it."""
    provider = Provider(Settings(event_delay_s=0.02), lambda _: Reply(blocks=(Say("word " * 60),)))

    async def conversation(session, url):
        async with post(session, url, body(stream=True)) as response:
            await response.content.readany()
            response.close()
        await asyncio.sleep(0.3)
        async with post(session, url, body()) as response:
            return response.status

    assert talk(provider, conversation) == 200
    assert caplog.records == []
