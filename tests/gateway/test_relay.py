"""Answers reach the client as they were sent, when they were sent, and never look whole when they are not."""

import asyncio
import gzip
import zlib

import brotli
import pytest
import uvloop

from proxy.gateway.encoding import zstd
from tests.gateway.rig import (
    CLOSE,
    DELTA,
    LAST,
    MESSAGES,
    RESET,
    SSE_HEAD,
    START,
    STOP,
    Client,
    chunk,
    post,
    respond,
    rig,
    run,
)

STREAM = START + DELTA * 3 + STOP

TRICKY = (
    b"\xef\xbb\xbf: ping\r\n\r\n"
    + START.replace(b"\n", b"\r\n").replace(b"data: ", b"data:")
    + 'event: content_block_delta\r\ndata:{"type":"content_block_delta","delta":{"text":"北\U0001f331"}}\r\n\r\n'.encode()
    + STOP.replace(b"\n", b"\r")
)
"""A byte order mark, comments, three line endings, characters of three and four bytes."""

USAGE = {"input": 3, "cached": 60, "written": 40, "output": 9}


def usage_of(turn):
    return {name: turn.get(name) for name in USAGE}


def test_a_stream_arrives_event_by_event():
    """Each event is with the client before the provider sends the next; headers come before the first event."""

    async def scene():
        async with rig() as r:
            events = [START, DELTA, STOP]
            gates = [asyncio.Event() for _ in range(4)]
            steps = [step for gate, event in zip(gates, events) for step in (gate, chunk(event))]
            r.provider.play(SSE_HEAD, *steps, gates[3], LAST)
            client = await Client.connect(r.gateway.port)
            await client.send(post())
            head = await client.head()
            assert head.startswith(b"HTTP/1.1 200 OK\r\n") and b"content-type: text/event-stream" in head
            for gate, event in zip(gates, events):
                gate.set()
                assert await client.chunk() == event
            gates[3].set()
            assert await client.chunk() == b""
            client.close()
            (turn,) = await r.turns(1)
            assert (turn["outcome"], usage_of(turn)) == ("ok", USAGE)
            assert (turn["model"], turn["stop"], turn["status"]) == ("m-1", "end_turn", 200)

    run(scene())


def test_every_cut_gives_the_same_bytes_and_the_same_usage():
    """Wherever a read ends, inside a character or between CR and LF, bytes and figures are the same."""

    async def scene():
        async with rig() as r:
            client = await Client.connect(r.gateway.port)
            cuts = range(1, len(TRICKY))
            for cut in cuts:
                r.provider.play(SSE_HEAD, chunk(TRICKY[:cut]), 0, chunk(TRICKY[cut:]), LAST)
                await client.send(post())
                answer = await client.answer()
                assert answer.clean and answer.body == TRICKY, cut
            client.close()
            turns = await r.turns(len(cuts))
            assert all((turn["outcome"], usage_of(turn)) == ("ok", USAGE) for turn in turns)

    run(scene(), 60)


def test_a_stall_is_waited_for():
    """Silence in the middle of a stream changes nothing."""

    async def scene():
        async with rig() as r:
            r.provider.play(SSE_HEAD, chunk(START), 1.0, chunk(DELTA + STOP), LAST)
            answer = await r.ask(post())
            assert answer.clean and answer.body == START + DELTA + STOP

    run(scene())


LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
"""Both loops the server runs on: they close and reset connections in ways of their own."""


@LOOPS
@pytest.mark.parametrize("end", [RESET, CLOSE])
def test_a_stream_that_breaks_off_upstream_breaks_off_here(end, loop):
    """The client gets what came, then an abnormal end; the provider sees one request and the turn is truncated."""

    async def scene():
        async with rig() as r:
            r.provider.play(SSE_HEAD, chunk(START), chunk(DELTA), 0.1, end)
            answer = await r.ask(post())
            assert (answer.status, answer.body, answer.clean) == (200, START + DELTA, False)
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["cached"], len(r.provider.seen)) == ("truncated", 60, 1)

    run(scene(), loop=loop)


def test_a_short_body_is_not_padded_out():
    """An answer shorter than its announced length ends abnormally."""

    async def scene():
        async with rig() as r:
            r.provider.play(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n", b'{"half":', 0.1, CLOSE)
            client = await Client.connect(r.gateway.port)
            await client.send(post())
            head = await client.head()
            assert b"content-length: 100" in head
            assert await client.reader.read() == b'{"half":'
            assert (await r.turns(1))[0]["outcome"] == "truncated"
            client.close()

    run(scene())


@LOOPS
def test_an_old_client_is_told_of_a_broken_answer_by_a_reset(loop):
    """Where only the end of the connection frames the answer, a clean end would make half of it whole."""

    async def scene():
        async with rig() as r:
            r.provider.play(SSE_HEAD, chunk(START), 0.1, RESET)
            client = await Client.connect(r.gateway.port)
            await client.send(post().replace(b"HTTP/1.1", b"HTTP/1.0", 1))
            await client.head()
            with pytest.raises(ConnectionResetError):
                while await client.reader.read(65536):
                    pass
            client.close()

    run(scene(), loop=loop)


def test_a_stream_that_ends_early_but_cleanly_is_passed_on_and_diagnosed():
    """No event is added; the turn is truncated, not ok with zero tokens."""

    async def scene():
        async with rig() as r:
            r.provider.play(SSE_HEAD, chunk(START), chunk(DELTA), LAST)
            answer = await r.ask(post())
            assert (answer.body, answer.clean) == (START + DELTA, True)
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["cached"], turn["output"]) == ("truncated", 60, 1)

    run(scene())


def test_an_error_event_is_passed_on_and_named():
    """A stream of nothing but an error is handed on as it is, once, and the turn carries its type."""

    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'

    async def scene():
        async with rig() as r:
            r.provider.play(SSE_HEAD, chunk(error), LAST)
            answer = await r.ask(post())
            assert (answer.body, answer.clean, len(r.provider.seen)) == (error, True, 1)
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["error"]) == ("error", "overloaded_error")
            assert "output" not in turn

    run(scene())


ENCODERS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "ZSTD": zstd.compress,
}


@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_compressed_stream_passes_compressed_and_is_still_metered(encoding):
    """The client gets the provider's bytes; the tap opens a copy."""

    body = ENCODERS[encoding](STREAM)

    async def scene():
        async with rig() as r:
            head = SSE_HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: %s\r\n\r\n" % encoding.encode())
            pieces = [chunk(body[i : i + 7]) for i in range(0, len(body), 7)]
            r.provider.play(head, *pieces, LAST)
            answer = await r.ask(post())
            assert answer.body == body
            assert ("content-encoding", encoding) in answer.headers
            (turn,) = await r.turns(1)
            assert (turn["outcome"], usage_of(turn)) == ("ok", USAGE)

    run(scene())


@pytest.mark.parametrize(
    ("encoding", "fault"),
    [(b"lzma", "content-encoding 'lzma' is not known"), (b"gzip", "not a gzip or deflate body")],
)
def test_what_cannot_be_opened_passes_without_figures(encoding, fault):
    """An unknown or false encoding costs the figures, never the answer, and the turn says so."""

    async def scene():
        async with rig() as r:
            r.provider.play(respond(b"\x00\x01nonsense", "200 OK", b"content-encoding: " + encoding))
            answer = await r.ask(post())
            assert (answer.status, answer.body, answer.clean) == (200, b"\x00\x01nonsense", True)
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["usage_fault"]) == ("ok", fault)
            assert "input" not in turn

    run(scene())


def test_a_json_answer_is_metered():
    """An answer that is no stream gives its figures too."""

    body = (
        b'{"id":"msg_2","type":"message","model":"m-2","content":[],"stop_reason":"end_turn",'
        b'"usage":{"input_tokens":3,"cache_creation_input_tokens":40,"cache_read_input_tokens":60,"output_tokens":9}}'
    )

    async def scene():
        async with rig() as r:
            r.provider.play(respond(body))
            assert (await r.ask(post())).body == body
            (turn,) = await r.turns(1)
            assert (turn["outcome"], usage_of(turn), turn["hit_ratio"]) == ("ok", USAGE, round(60 / 103, 4))

    run(scene())


def test_status_reason_and_headers_pass_as_they_are():
    """Order, spelling, duplicates and the reason phrase stay; hop-by-hop headers go; none is added."""

    raw = (
        b"HTTP/1.1 529 Site Is Overloaded\r\n"
        b"Zeta: 1\r\nrequest-ID: req_9\r\nSet-Cookie: a=1; Path=/\r\nset-cookie: b=2\r\nalpha:  two words \r\n"
        b"Retry-After: 7\r\nX-Should-Retry: true\r\nConnection: keep-alive, X-Hop\r\nX-Hop: gone\r\n"
        b"Keep-Alive: timeout=5\r\nX-Utf8: gr\xc3\xbcn\r\nContent-Length: 2\r\n\r\n{}"
    )

    async def scene():
        async with rig() as r:
            r.provider.play(raw)
            answer = await r.ask(post())
            assert answer.head == (
                b"HTTP/1.1 529 Site Is Overloaded\r\n"
                b"Zeta: 1\r\nrequest-ID: req_9\r\nSet-Cookie: a=1; Path=/\r\nset-cookie: b=2\r\nalpha: two words\r\n"
                b"Retry-After: 7\r\nX-Should-Retry: true\r\nX-Utf8: gr\xc3\xbcn\r\nContent-Length: 2\r\n\r\n"
            )
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["status"]) == ("refused", 529)

    run(scene())


@pytest.mark.parametrize(
    ("method", "raw", "head"),
    [
        (
            "HEAD",
            b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 500\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 500\r\n\r\n",
        ),
        ("GET", b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n", b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n"),
        (
            "GET",
            b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n',
            b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n',
        ),
        (
            "GET",
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: https://elsewhere.example/x\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: https://elsewhere.example/x\r\nContent-Length: 0\r\n\r\n",
        ),
    ],
)
def test_answers_without_a_body(method, raw, head):
    """HEAD, 204 and 304 end with their headers, a redirect is the client's to follow; the connection lives on."""

    async def scene():
        async with rig() as r:
            client = await Client.connect(r.gateway.port)
            for _ in range(2):
                r.provider.play(raw)
                await client.send(
                    f"{method} /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: k\r\n\r\n".encode()
                )
                assert await client.head() == head
            client.close()

    run(scene())


def test_an_answer_framed_by_the_end_of_the_connection():
    """Without a length or chunks upstream the client still gets a framed, whole answer."""

    async def scene():
        async with rig() as r:
            r.provider.play(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + STREAM, CLOSE)
            answer = await r.ask(post())
            assert (answer.body, answer.clean) == (STREAM, True)

    run(scene())


def test_a_long_answer_passes_whole():
    """Twenty megabytes in chunks arrive byte for byte."""

    body = bytes(range(256)) * 4096 * 20

    async def scene():
        async with rig() as r:
            pieces = [chunk(body[i : i + 100_003]) for i in range(0, len(body), 100_003)]
            r.provider.play(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", *pieces, LAST)
            assert (await r.ask(post(MESSAGES, "/v1/files"))).body == body

    run(scene())


def test_header_blocks_of_fifty_kilobytes_pass():
    """Long headers are nobody's mistake in either direction."""

    long = b"x" * 50_000

    async def scene():
        async with rig() as r:
            r.provider.play(respond(b"{}", "200 OK", b"x-long: " + long))
            answer = await r.ask(post(MESSAGES, "/v1/messages", b"X-Long: " + long))
            assert ("x-long", long.decode()) in answer.headers
            assert ("X-Long", long.decode()) in r.provider.seen[0].headers

    run(scene())
