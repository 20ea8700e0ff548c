"""A client that is gone frees its slot at the provider at once, whatever the moment."""

import asyncio

from tests.gateway.rewriters import Marking
from tests.gateway.rig import DELTA, MESSAGES, SSE_HEAD, START, Client, chunk, post, rig, run

PLAIN = MESSAGES.replace(b"true", b"false")


async def leave_and_check(r, client, seen):
    client.close()
    async with asyncio.timeout(1):
        await seen.gone.wait()
    (turn,) = await r.turns(1)
    assert turn["outcome"] == "cancelled"
    assert (await r.ask(post())).status == 200
    assert "stet_in_flight 0.0" in r.gateway.metrics.exposition().decode()
    return turn


def test_before_the_first_token():
    """The provider still thinks; its connection is closed with the client's."""

    async def scene():
        async with rig() as r:
            r.provider.play(30)
            client = await Client.connect(r.gateway.port)
            await client.send(post())
            await r.provider.arrived.wait()
            turn = await leave_and_check(r, client, r.provider.seen[0])
            assert "status" not in turn and "output" not in turn

    run(scene())


def test_while_waiting_for_an_answer_that_is_no_stream():
    """Without streaming there is nothing to write to the client for minutes; its leaving is noticed all the same."""

    async def scene():
        async with rig() as r:
            r.provider.play(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n", 30)
            client = await Client.connect(r.gateway.port)
            await client.send(post(PLAIN))
            await client.head()
            await leave_and_check(r, client, r.provider.seen[0])

    run(scene())


def test_in_the_middle_of_a_stream():
    """The turn is logged as cancelled, with the tokens seen so far, and the rewriter is told."""

    marking = Marking()

    async def scene():
        async with rig(marking) as r:
            deltas = [step for _ in range(300) for step in (chunk(DELTA), 0.1)]
            r.provider.play(SSE_HEAD, chunk(START), *deltas)
            client = await Client.connect(r.gateway.port)
            await client.send(post())
            await client.head()
            for _ in range(3):
                await client.chunk()
            turn = await leave_and_check(r, client, r.provider.seen[0])
            assert (turn["cached"], turn["written"], turn["status"]) == (60, 40, 200)
            memo, outcome = marking.outcomes[0]
            assert (memo, outcome.cancelled, outcome.usage.cached) == (1, True, 60)

    run(scene())


def test_in_the_middle_of_a_silent_stream():
    """A stream that stalls is cut too, though nothing is being written."""

    async def scene():
        async with rig() as r:
            r.provider.play(SSE_HEAD, chunk(START), 30)
            client = await Client.connect(r.gateway.port)
            await client.send(post())
            await client.head()
            await client.chunk()
            await leave_and_check(r, client, r.provider.seen[0])

    run(scene())


def test_while_a_large_body_is_being_rewritten():
    """Nothing is sent; what the rewriter may have remembered is settled as never sent."""

    marking = Marking(slow=0.4)

    async def scene():
        async with rig(marking) as r:
            client = await Client.connect(r.gateway.port)
            await client.send(post(b'"' + b"x" * 2**21 + b'"'))
            while not marking.incoming:
                await asyncio.sleep(0.005)
            client.close()
            (turn,) = await r.turns(1)
            assert turn["outcome"] == "cancelled"
            while not marking.outcomes:
                await asyncio.sleep(0.01)
            memo, outcome = marking.outcomes[0]
            assert (memo, outcome.name, outcome.status) == (1, "cancelled", None)
            assert r.provider.seen == []

    run(scene())


def test_during_the_upload():
    """A client that leaves in the middle of its body was never a request to the provider."""

    async def scene():
        async with rig() as r:
            client = await Client.connect(r.gateway.port)
            await client.send(post(MESSAGES)[:-5])
            await asyncio.sleep(0.1)
            client.close()
            (turn,) = await r.turns(1)
            assert (turn["outcome"], r.provider.seen) == ("cancelled", [])

    run(scene())


def test_on_a_path_that_streams_through():
    """Other paths let go of the provider in the same way."""

    async def scene():
        async with rig() as r:
            r.provider.play(30)
            client = await Client.connect(r.gateway.port)
            await client.send(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await r.provider.arrived.wait()
            await leave_and_check(r, client, r.provider.seen[0])

    run(scene())
