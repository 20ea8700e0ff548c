"""The server as a process: it starts fast or says why not, and goes without cutting anyone off."""

import asyncio
import contextlib
import json
import os
import signal
import sys

import pytest

from proxy.errors import SettingsError
from proxy.gateway.app import Gateway
from proxy.gateway.values import Address
from tests.gateway.rig import (
    LAST,
    SSE_HEAD,
    START,
    STOP,
    Client,
    Provider,
    chunk,
    post,
    rig,
    run,
    settings,
)

SERVER = """
import sys
from proxy.gateway.app import run
from proxy.gateway.settings import resolve
settings = resolve({"listen": "127.0.0.1:0", "admin": "off", "log": "json", "state": "memory",
                    "upstreams": ["anthropic=" + sys.argv[1]], "drain": sys.argv[2]}, {})
run(settings, ready=lambda gateway: print(gateway.port, flush=True))
"""


@contextlib.asynccontextmanager
async def served(drain="20s"):
    """A server process of its own, and its provider."""
    provider = Provider()
    url = await provider.start()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SERVER,
        url,
        drain,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    try:
        assert process.stdout
        yield process, provider, int(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await provider.stop()


async def log_of(process):
    return [json.loads(line) for line in (await process.stderr.read()).splitlines()]


def test_sigterm_lets_answers_finish():
    """A stream under way goes on to its end, the process then ends well; the last answer closes its connection."""

    async def scene():
        async with served() as (process, provider, port):
            gate = asyncio.Event()
            provider.play(SSE_HEAD, chunk(START), gate, chunk(STOP), LAST)
            client = await Client.connect(port)
            await client.send(post())
            await client.head()
            assert await client.chunk() == START
            process.send_signal(signal.SIGTERM)
            while True:
                try:
                    (await Client.connect(port)).close()
                except OSError:
                    break
                await asyncio.sleep(0.01)
            assert process.returncode is None
            gate.set()
            assert await client.chunk() == STOP
            assert await client.chunk() == b""
            assert await process.wait() == 0
            (turn,) = await log_of(process)
            assert (turn["outcome"], turn["output"]) == ("ok", 9)
            client.close()

    run(scene())


@pytest.mark.parametrize("impatient", [False, True])
def test_a_drain_has_an_end(impatient):
    """After the drain time, or at a second signal, what is left is cut and logged as cancelled."""

    async def scene():
        async with served("60s" if impatient else "300ms") as (process, provider, port):
            provider.play(SSE_HEAD, chunk(START), 60)
            client = await Client.connect(port)
            await client.send(post())
            await client.head()
            await client.chunk()
            process.send_signal(signal.SIGTERM)
            if impatient:
                await asyncio.sleep(0.3)
                assert process.returncode is None
                process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
            assert [turn["outcome"] for turn in await log_of(process)] == ["cancelled"]
            client.close()

    run(scene())


def test_an_idle_server_stops_at_once():
    """With nothing under way, an idle connection does not hold it up."""

    async def scene():
        async with served() as (process, _, port):
            client = await Client.connect(port)
            await client.send(post())
            await client.answer()
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
            client.close()

    run(scene(), 15)


def test_an_answer_given_while_draining_closes_its_connection():
    """A client that still holds a connection is told to go elsewhere."""

    async def scene():
        async with rig() as r:
            gate = asyncio.Event()
            r.provider.play(gate, SSE_HEAD + chunk(START + STOP) + LAST)
            client = await Client.connect(r.gateway.port)
            await client.send(post())
            await r.provider.arrived.wait()
            stopping = asyncio.ensure_future(r.gateway.stop())
            await asyncio.sleep(0.05)
            gate.set()
            answer = await client.answer()
            assert answer.clean and ("Connection", "close") in answer.headers
            await stopping
            client.close()

    run(scene())


@pytest.mark.parametrize("taken", ["listen", "admin"])
def test_a_taken_port_is_one_clear_line(taken):
    """The message names the setting and the address, and what to do; nothing is left listening."""

    async def scene():
        async with rig() as r:
            address = Address("127.0.0.1", r.gateway.port)
            other = Gateway(settings("http://127.0.0.1:1", **{taken: address}), env={})
            with pytest.raises(SettingsError) as fault:
                await other.start()
            assert str(fault.value) == (
                f"{taken}: {address}: the port is taken; stop the other process or choose another port"
            )

    run(scene())


def test_two_gateways_share_a_process():
    """Counters and turns are a gateway's own."""

    async def scene():
        async with rig() as one, rig() as two:
            await one.ask(post())
            assert len(list(one.gateway.journal.recent())) == 1
            assert list(two.gateway.journal.recent()) == []

    run(scene())


def test_many_requests_at_once():
    """A hundred streams side by side each get their own answer."""

    async def scene():
        async with rig() as r:
            for _ in range(100):
                r.provider.play(SSE_HEAD, chunk(START), 0.2, chunk(STOP), LAST)
            answers = await asyncio.gather(*(r.ask(post()) for _ in range(100)))
            assert {(answer.status, answer.body, answer.clean) for answer in answers} == {
                (200, START + STOP, True)
            }
            assert len(await r.turns(100)) == 100

    run(scene())
