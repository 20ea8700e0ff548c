"""A provider that says nothing, quickly: it reads a request and streams an answer of the length asked for.

    python benchmarks/upstream.py PORT

`x-bench: CHUNKS MILLISECONDS` in a request says how many deltas the answer has and how far apart they are. Usage is
a quarter of the body's bytes, all but the newest 600 tokens read from the cache, so that the proxy has something to
reckon with.
"""

from __future__ import annotations

import asyncio
import sys

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\nrequest-id: req_bench\r\n\r\n"
)
DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some words of the answer "}}\n\n'
END = (
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":12}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


def start(size: int) -> bytes:
    """The first events of an answer to a body of so many bytes."""
    prompt = size // 4
    written = min(prompt, 600)
    return (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_bench","type":"message","role":"assistant",'
        b'"model":"claude-sonnet-4-5","content":[],"stop_reason":null,"usage":{"input_tokens":3,"cache_creation_input_tokens":%d,'
        b'"cache_read_input_tokens":%d,"output_tokens":1}}}\n\nevent: content_block_start\ndata: {"type":"content_block_start",'
        b'"index":0,"content_block":{"type":"text","text":""}}\n\n' % (written, prompt - written)
    )


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            fields = dict(line.partition(b":")[::2] for line in head.split(b"\r\n")[1:] if line)
            size = await body_of(reader, fields)
            count, apart = (int(word) for word in fields.get(b"x-bench", b"2 0").split())
            writer.write(HEAD + chunk(start(size)))
            for _ in range(count):
                if apart:
                    await asyncio.sleep(apart / 1000)
                writer.write(chunk(DELTA))
            writer.write(chunk(END) + b"0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def body_of(reader: asyncio.StreamReader, fields: dict[bytes, bytes]) -> int:
    """Read the body; its length."""
    if b"chunked" not in fields.get(b"transfer-encoding", b""):
        return len(await reader.readexactly(int(fields.get(b"content-length", b"0"))))
    total = 0
    while size := int(await reader.readuntil(b"\r\n"), 16):
        total += len(await reader.readexactly(size + 2)) - 2
    await reader.readexactly(2)
    return total


async def main(port: int) -> None:
    server = await asyncio.start_server(serve_one, "127.0.0.1", port, limit=1 << 20, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    try:
        import uvloop

        uvloop.run(main(int(sys.argv[1])))
    except (ImportError, KeyboardInterrupt):
        pass
