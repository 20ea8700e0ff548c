"""A gateway between a scripted provider and a raw client, all on 127.0.0.1, all over real sockets.

The provider plays a list of steps for each request: bytes are sent as they stand, a number sleeps, an event is waited
for, RESET and CLOSE end the connection. Client and provider see raw bytes, so that a test can say what was on the wire.
"""

import asyncio
import contextlib
import io
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any

from proxy.gateway.app import Gateway
from proxy.gateway.settings import Settings
from proxy.gateway.values import Address, Upstream

RESET = "reset"
CLOSE = "close"

MESSAGES = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Say hi."}],"stream":true}'


def run(scene: Coroutine[Any, Any, Any], seconds: float = 30, *, loop: Any = None) -> Any:
    """Play a scene to its end, on the loop that `loop` makes; a hang is a failure."""

    async def limited() -> Any:
        async with asyncio.timeout(seconds):
            return await scene

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(limited())


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a TCP reset."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def read_body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """Read a body framed by length or chunks; IncompleteReadError where it ends early."""
    lowered = head.lower()
    if b"transfer-encoding: chunked" in lowered:
        body = bytearray()
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
        return bytes(body)
    if b"content-length:" in lowered:
        length = int(lowered.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        return await reader.readexactly(length)
    return b""


@dataclass
class Seen:
    """A request as the provider saw it."""

    head: bytes
    body: bytes = b""
    connection: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode()

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self.head.rstrip(b"\r\n").decode("latin-1").split("\r\n")[1:]
        return [(name, value) for name, value in (line.split(": ", 1) for line in lines)]


class Provider:
    """The scripted provider."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.scripts: deque[list[Any]] = deque()
        self.connections = 0
        self.arrived = asyncio.Event()
        self.read_bodies = True
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def play(self, *steps: Any) -> None:
        """Add the script of the next request."""
        self.scripts.append(list(steps))

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._server:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        self.connections += 1
        number = self.connections
        try:
            ahead = b""
            while True:
                head = ahead + await reader.readuntil(b"\r\n\r\n")
                seen = Seen(head, connection=number)
                self.seen.append(seen)
                if self.read_bodies:
                    seen.body = await read_body(reader, head)
                self.arrived.set()
                watch = asyncio.ensure_future(reader.read(1))
                watch.add_done_callback(lambda done, seen=seen: seen.gone.set() if _gone(done) else None)
                steps = self.scripts.popleft() if self.scripts else [respond()]
                if await self._play(steps, writer):
                    return
                ahead = await watch
                if not ahead:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        except asyncio.CancelledError:
            return
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _play(self, steps: list[Any], writer: asyncio.StreamWriter) -> bool:
        for step in steps:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            elif isinstance(step, asyncio.Event):
                await step.wait()
            elif step == RESET:
                reset(writer)
                return True
            elif step == CLOSE:
                return True
            else:
                await asyncio.sleep(step)
        return False


def _gone(done: "asyncio.Future[bytes]") -> bool:
    return not done.cancelled() and (done.exception() is not None or not done.result())


def respond(body: bytes = b'{"ok":true}', status: str = "200 OK", *headers: bytes) -> bytes:
    """A whole response with a length."""
    lines = [b"HTTP/1.1 " + status.encode(), b"content-type: application/json", *headers]
    return b"\r\n".join([*lines, b"content-length: %d" % len(body), b"", body])


SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST = b"0\r\n\r\n"

START = (
    b"event: message_start\n"
    b'data: {"type":"message_start","message":{"id":"msg_1","model":"m-1","usage":{"input_tokens":3,'
    b'"cache_creation_input_tokens":40,"cache_read_input_tokens":60,"output_tokens":1}}}\n\n'
)
DELTA = (
    b"event: content_block_delta\n"
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}\n\n'
)
STOP = (
    b"event: message_delta\n"
    b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


@dataclass
class Answer:
    """A response as the client got it. `clean` is False where it broke off."""

    head: bytes
    body: bytes
    clean: bool

    @property
    def status(self) -> int:
        return int(self.head.split(b" ", 2)[1])

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self.head.rstrip(b"\r\n").decode("latin-1").split("\r\n")[1:]
        return [(name, value) for name, value in (line.split(": ", 1) for line in lines)]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One raw connection to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**24))

    async def send(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def chunk(self) -> bytes:
        size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def answer(self, *, method: str = "POST") -> Answer:
        head = await self.head()
        body = bytearray()
        try:
            if b"transfer-encoding: chunked" in head.lower():
                while data := await self.chunk():
                    body += data
            elif method != "HEAD":
                return Answer(head, await read_body(self.reader, head), clean=True)
        except (asyncio.IncompleteReadError, ConnectionError):
            return Answer(head, bytes(body), clean=False)
        return Answer(head, bytes(body), clean=True)

    def close(self) -> None:
        self.writer.close()


def post(body: bytes = MESSAGES, path: str = "/v1/messages", *headers: bytes, length: bool = True) -> bytes:
    """A request as an agent writes it."""
    lines = [b"POST " + path.encode() + b" HTTP/1.1", b"Host: 127.0.0.1", b"Content-Type: application/json"]
    lines += headers
    if length:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body])


@dataclass
class Rig:
    """All three, and the log."""

    provider: Provider
    gateway: Gateway
    log: io.StringIO

    async def ask(self, raw: bytes, *, method: str = "POST") -> Answer:
        client = await Client.connect(self.gateway.port)
        try:
            await client.send(raw)
            return await client.answer(method=method)
        finally:
            client.close()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    async def turns(self, number: int) -> list[dict[str, Any]]:
        """The lines of `number` turns; waits for those that end after their answer."""
        while len(found := [line for line in self.lines() if line["event"] == "turn"]) < number:
            await asyncio.sleep(0.005)
        return found


def settings(url: str, **changes: Any) -> Settings:
    upstreams = {name: Upstream(name, url) for name in ("anthropic", "openai", "gemini")}
    given: dict[str, Any] = {
        "listen": Address("127.0.0.1", 0),
        "admin": Address("127.0.0.1", 0),
        "upstreams": upstreams,
        "log": "json",
        "state": "memory",
        "drain": 5.0,
    }
    return Settings(**{**given, **changes})


@contextlib.asynccontextmanager
async def rig(rewriter: Any = None, *, url: str | None = None, **changes: Any) -> AsyncIterator[Rig]:
    """Start all three; stop them in order."""
    provider = Provider()
    base = await provider.start()
    log = io.StringIO()
    gateway = Gateway(settings(url or base, **changes), rewriter, stream=log, env={})
    await gateway.start()
    try:
        yield Rig(provider, gateway, log)
    finally:
        await gateway.stop(drain=0)
        await provider.stop()
