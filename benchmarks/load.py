"""The client side of `overhead.py`: requests on kept connections, timed to the first byte and chunk by chunk.

python benchmarks/load.py JOB      a job as JSON; prints what it measured as JSON
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from workload import Session, session_of


class Connection:
    """One kept connection to a port."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, body: bytes, chunks: int = 2, apart: int = 0) -> list[float]:
        """Send a body; the seconds at which pieces of the answer's body came, counted from the sending."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        assert self._reader is not None
        head = (
            f"POST /v1/messages?beta=true HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n"
            f"User-Agent: claude-cli/2.0.53 (external, cli)\r\nanthropic-version: 2023-06-01\r\nX-Api-Key: sk-ant-{self._key}\r\n"
            f"X-Bench: {chunks} {apart}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        started = time.perf_counter()
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode("latin-1"))
        times: list[float] = []
        tail = b""
        while not tail.endswith(b"\r\n0\r\n\r\n"):
            data = await self._reader.read(1 << 16)
            times.append(time.perf_counter() - started)
            if not data:
                raise RuntimeError("the answer was cut")
            tail = (tail + data)[-16:]
        return times

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def turns_of(size: int, turns: int, name: str) -> list[bytes]:
    """A session's requests, the first of about `size` bytes."""
    session = session_of(size, name)
    first = len(session.messages)
    for _ in range(turns - 1):
        session.grow()
    return [session.body(upto) for upto in range(first, first + 2 * turns - 1, 2)]


TURNS = 6
"""Requests of one conversation before the next one begins, so that bodies stay about as long as they are said to be."""


async def first_bytes(ports: dict[str, int], size: int, turns: int) -> dict[str, list[float]]:
    """Milliseconds to the first byte of later turns of conversations; the same turn goes to each port in its turn."""
    marker = "sessionname"
    bodies = turns_of(size, TURNS, marker)
    connections = {name: Connection(port, "latency") for name, port in ports.items()}
    found: dict[str, list[float]] = {name: [] for name in ports}
    for number in range(turns):
        conversation, turn = divmod(number, TURNS)
        body = bodies[turn].replace(marker.encode(), f"c{conversation:010d}".encode())
        order = [*ports][number % len(ports) :] + [*ports][: number % len(ports)]
        for name in order:
            spent = (await connections[name].post(body))[0] * 1000
            if turn:  # the first opens the conversation
                found[name].append(spent)
            await asyncio.sleep(0.002)
    for connection in connections.values():
        connection.close()
    return found


async def throughput(port: int, size: int, workers: int, seconds: float) -> tuple[float, int]:
    """Requests a second, and how many, of so many clients, each with one conversation after the other."""
    marker = "sessionname"
    bodies = turns_of(size, TURNS, marker)
    until = time.perf_counter() + seconds
    done = 0

    async def work(number: int) -> None:
        nonlocal done
        connection = Connection(port, f"load{number}")
        conversation = 0
        while time.perf_counter() < until:
            conversation += 1
            name = f"s{number:04d}x{conversation:05d}".encode()
            for body in bodies:
                await connection.post(body.replace(marker.encode(), name))
                done += 1
                if time.perf_counter() > until:
                    break
        connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(workers)))
    return done / (time.perf_counter() - started), done


async def streams(port: int, count: int, chunks: int, apart: int) -> list[float]:
    """Milliseconds between the pieces of `count` answers that stream at once."""
    body = turns_of(5_000, 1, "streams")[0]
    between: list[float] = []

    async def one(number: int) -> None:
        connection = Connection(port, f"stream{number}")
        await asyncio.sleep(apart / 1000 * number / count)
        times = await connection.post(body, chunks, apart)
        between.extend(
            (after - before) * 1000 for before, after in zip(times[1:-2], times[2:-1], strict=True)
        )
        connection.close()

    await asyncio.gather(*(one(number) for number in range(count)))
    return between


async def many_turns(port: int, turns: int, low: int, high: int, name: str) -> int:
    """One conversation of so many turns: it grows from `low` to `high` bytes, is compacted, and grows again."""
    connection = Connection(port, "long")
    sent, round_ = 0, 0
    while sent < turns:
        round_ += 1
        session = Session(name, seed=round_, head=0.1)
        session.grow(low)
        while session.size < high and sent < turns:
            await connection.post(session.body())
            session.grow()
            sent += 1
    connection.close()
    return sent


async def many_conversations(port: int, first: int, count: int, size: int, turns: int) -> int:
    """Conversations of `size` bytes, `turns` requests each."""
    marker = b"sessionname"
    bodies = turns_of(size, turns, marker.decode())
    connection = Connection(port, "many")
    for number in range(first, first + count):
        for body in bodies:
            # Names in all texts of the results, so that no two conversations share more than their tools.
            await connection.post(
                body.replace(marker, b"c%09d" % number).replace(b"toolu_", b"t%05d" % number)
            )
    connection.close()
    return count * turns


JOBS = {f.__name__: f for f in (first_bytes, throughput, streams, many_turns, many_conversations)}


def main(arguments: Sequence[str]) -> None:
    job: dict[str, Any] = json.loads(arguments[0])
    work = JOBS[job.pop("job")](**job)
    import uvloop

    found = uvloop.run(work)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
