"""Requests reach the provider as the client wrote them, but for what the rewrite changed."""

import asyncio
import gzip
import zlib

import brotli
import pytest

from proxy.gateway.encoding import zstd
from proxy.gateway.values import Upstream
from tests.gateway.rewriters import Marking, Watching
from tests.gateway.rig import MESSAGES, Client, chunk, post, respond, rig, run


def test_the_request_is_transparent():
    """Line, header order, spelling, duplicates and body pass; Host is the provider's; nothing is added."""

    raw = (
        b"POST /v1/messages?beta=true&x=%7E~%2f HTTP/1.1\r\n"
        b"x-api-key: sk-1\r\nHOST: proxy.local\r\nanthropic-beta: a,b\r\nAnthropic-Beta: c\r\n"
        b'X-Stainless-Retry-Count: 0\r\nCookie: s=1; t="2"\r\ncontent-length: LENGTH\r\nx-Last:\tend\r\n\r\n'
    ).replace(b"LENGTH", b"%d" % len(MESSAGES))

    async def scene():
        async with rig(allowed_hosts=("proxy.local",)) as r:
            await r.ask(raw + MESSAGES)
            (seen,) = r.provider.seen
            host = r.gateway.settings.upstreams["anthropic"].host.encode()
            assert seen.head == raw.replace(b"proxy.local", host).replace(b"x-Last:\t", b"x-Last: ")
            assert seen.body == MESSAGES

    run(scene())


def test_hop_by_hop_headers_stay_here():
    """What belongs to one connection, and what Connection names, is not passed on."""

    hop = [
        b"Connection: keep-alive, X-Private, HTTP2-Settings, Upgrade",
        b"X-Private: 1",
        b"Upgrade: h2c",
        b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
        b"Keep-Alive: 5",
        b"TE: trailers",
        b"Proxy-Authorization: Basic x",
        b"Proxy-Connection: keep-alive",
    ]

    async def scene():
        async with rig() as r:
            assert (await r.ask(post(MESSAGES, "/v1/messages", *hop))).status == 200
            assert [name for name, _ in r.provider.seen[0].headers] == [
                "Host",
                "Content-Type",
                "Content-Length",
            ]

    run(scene())


@pytest.mark.parametrize(
    "target",
    [
        "/v1/models?limit=1000&after_id=a%20b+c",
        "/v1/files/a%2Fb/..%2e/../x;y=1",
        "//v1//messages",
        "/v1/models/%e4%b8%ad?q=%F0%9F%8C%B1&&=",
        "/v1beta/models/gemini-3:countTokens?key=K%2B",
    ],
)
def test_the_target_keeps_its_bytes(target):
    """No path is normalised, no escape respelt."""

    async def scene():
        async with rig() as r:
            await r.ask(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert r.provider.seen[0].line == f"GET {target} HTTP/1.1"

    run(scene())


def test_a_named_upstream_is_chosen_by_the_first_segment():
    """`/local/v1/...` goes to that upstream's URL, path and all; the name goes no further."""

    async def scene():
        async with rig() as r:
            base = r.gateway.settings.upstreams["anthropic"].url
            named = {**r.gateway.settings.upstreams, "local": Upstream("local", f"{base}/api/x")}
            async with rig(url=base, upstreams=named) as other:
                await other.ask(post(MESSAGES, "/local/v1/chat/completions?a=1"))
                assert r.provider.seen[0].line == "POST /api/x/v1/chat/completions?a=1 HTTP/1.1"
                (turn,) = await other.turns(1)
                assert (turn["upstream"], turn["dialect"]) == ("local", "openai_chat")

    run(scene())


def test_a_misspelt_upstream_ends_here():
    """The answer is a 404 in the provider's shape, and no provider sees the key."""

    async def scene():
        async with rig() as r:
            answer = await r.ask(post(MESSAGES, "/opnai/v1/chat/completions", b"Authorization: Bearer k"))
            assert answer.status == 404
            assert "no upstream is named 'opnai', did you mean 'openai'?" in answer.json["error"]["message"]
            assert r.provider.seen == []
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["error"]) == ("rejected", "unknown_upstream")

    run(scene())


def test_expect_is_answered_here():
    """The client is told to go on at once, and the provider is not asked."""

    async def scene():
        async with rig() as r:
            client = await Client.connect(r.gateway.port)
            raw = post(MESSAGES, "/v1/messages", b"Expect: 100-continue")
            await client.send(raw[: -len(MESSAGES)])
            assert await client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
            await client.send(MESSAGES)
            assert (await client.answer()).status == 200
            client.close()
            (seen,) = r.provider.seen
            assert seen.body == MESSAGES and "Expect" not in dict(seen.headers)

    run(scene())


def test_a_chunked_conversation_is_sent_with_a_length():
    """A body of unknown length is read whole and leaves whole."""

    body = chunk(MESSAGES[:10]) + chunk(MESSAGES[10:]) + b"0\r\n\r\n"
    raw = post(b"", "/v1/messages", b"Transfer-Encoding: chunked", length=False) + body

    async def scene():
        async with rig() as r:
            assert (await r.ask(raw)).status == 200
            (seen,) = r.provider.seen
            assert seen.body == MESSAGES
            assert seen.headers[-1] == ("Content-Length", str(len(MESSAGES)))

    run(scene())


def test_other_paths_stream_their_body():
    """A file upload goes on while it is still coming in, in chunks as it came."""

    async def scene():
        async with rig() as r:
            r.provider.read_bodies = False
            client = await Client.connect(r.gateway.port)
            await client.send(
                post(b"", "/v1/files", b"Transfer-Encoding: chunked", length=False) + chunk(b"first")
            )
            await r.provider.arrived.wait()
            assert ("Transfer-Encoding", "chunked") in r.provider.seen[0].headers
            client.close()

    run(scene())


def test_an_upload_of_known_length_keeps_it():
    """An announced length is passed on with the body, however long it is."""

    body = b"0123456789" * 500_000

    async def scene():
        async with rig(max_body=1024 * 1024) as r:
            assert (await r.ask(post(body, "/v1/files"))).status == 200
            (seen,) = r.provider.seen
            assert seen.body == body and ("Content-Length", str(len(body))) in seen.headers

    run(scene())


PACKED = gzip.compress(MESSAGES, mtime=0)  # the time in its head would be another one in each worker

ENCODERS = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress}


@pytest.mark.parametrize("encoding", ENCODERS)
def test_an_unchanged_compressed_body_leaves_compressed(encoding):
    """The rewriter sees it plain; where it changes nothing the client's own bytes and headers go out."""

    packed = ENCODERS[encoding](MESSAGES)
    watching = Watching()

    async def scene():
        async with rig(watching) as r:
            await r.ask(post(packed, "/v1/messages", b"content-encoding: " + encoding.encode()))
            (seen,) = r.provider.seen
            assert watching.incoming[0].body == MESSAGES
            assert (seen.body, dict(seen.headers)["content-encoding"]) == (packed, encoding)

    run(scene())


@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_changed_compressed_body_leaves_plain(encoding):
    """What was changed is sent plain, without the encoding's header and with its own length."""

    async def scene():
        async with rig(Marking()) as r:
            packed = ENCODERS[encoding](MESSAGES)
            await r.ask(post(packed, "/v1/messages", b"content-encoding: " + encoding.encode()))
            (seen,) = r.provider.seen
            assert seen.body == MESSAGES + b" marked"
            assert [name for name, _ in seen.headers] == ["Host", "Content-Type", "Content-Length"]

    run(scene())


@pytest.mark.parametrize(
    ("encoding", "body"),
    [(b"compress", MESSAGES), (b"zstd", b"no zstd at all"), (b"gzip", PACKED[:-9])],
    ids=["unknown", "not what it says", "cut off"],
)
def test_a_body_that_does_not_open_passes_as_it_came(encoding, body):
    """Unknown or broken encodings are the provider's to judge; the rewriter is not asked."""

    watching = Watching()

    async def scene():
        async with rig(watching) as r:
            assert (await r.ask(post(body, "/v1/messages", b"Content-Encoding: " + encoding))).status == 200
            (seen,) = r.provider.seen
            assert (seen.body, dict(seen.headers)["Content-Encoding"]) == (body, encoding.decode())
            assert watching.incoming == []

    run(scene())


def test_a_body_that_unfolds_beyond_the_limit_is_refused():
    """A small body that unfolds to gigabytes is stopped at the limit."""

    bomb = zstd.compress(bytes(2**30))

    async def scene():
        async with rig(max_body=2**20) as r:
            answer = await r.ask(post(bomb, "/v1/messages", b"content-encoding: zstd"))
            assert (answer.status, answer.json["error"]["type"]) == (413, "request_too_large")
            assert r.provider.seen == []

    run(scene())


@pytest.mark.parametrize("mebibytes", [3, 31, 63])
def test_large_conversations_pass(mebibytes):
    """Bodies of tens of megabytes reach the provider whole."""

    body = b'{"messages":[{"role":"user","content":"' + b"x" * (mebibytes * 2**20) + b'"}]}'

    async def scene():
        async with rig() as r:
            assert (await r.ask(post(body))).status == 200
            assert r.provider.seen[0].body == body

    run(scene(), 60)


def test_a_body_above_the_limit_is_refused_unread():
    """70 MB are refused by their announced length, before a byte of them is sent, in the provider's shape."""

    length = 70 * 2**20

    async def scene():
        async with rig() as r:
            client = await Client.connect(r.gateway.port)
            await client.send(post(b"", "/v1/messages", b"Content-Length: %d" % length, length=False))
            answer = await client.answer()
            assert answer.status == 413
            assert answer.json["type"] == "error" and answer.json["error"]["type"] == "request_too_large"
            assert ("Connection", "close") in answer.headers
            client.close()
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["status"], r.provider.seen) == ("rejected", 413, [])

    run(scene())


def test_a_body_above_the_limit_without_a_length_is_refused_while_reading():
    """A chunked body is cut at the limit."""

    async def scene():
        async with rig(max_body=2**20) as r:
            client = await Client.connect(r.gateway.port)
            await client.send(post(b"", "/v1/chat/completions", b"Transfer-Encoding: chunked", length=False))
            for _ in range(20):
                await client.send(chunk(bytes(100_000)))
            answer = await client.answer()
            assert (answer.status, answer.json["error"]["type"]) == (413, "invalid_request_error")
            client.close()
            assert r.provider.seen == []

    run(scene())


def test_expect_with_a_body_above_the_limit_is_refused_before_it_is_sent():
    """No 100 is sent for a body that is refused."""

    async def scene():
        async with rig() as r:
            raw = post(
                b"", "/v1/messages", b"Expect: 100-continue", b"Content-Length: 99999999", length=False
            )
            assert (await r.ask(raw)).status == 413

    run(scene())


def test_a_broken_upload_is_refused():
    """Chunks that are none are answered in the provider's shape."""

    async def scene():
        async with rig() as r:
            raw = post(b"", "/v1/messages", b"Transfer-Encoding: chunked", length=False) + b"zz\r\nxx\r\n"
            answer = await r.ask(raw)
            assert answer.status == 400 and r.provider.seen == []

    run(scene())


def test_count_tokens_is_rewritten_and_not_remembered():
    """The same rewrite, path and query kept; nothing is settled, and the provider's 404 passes."""

    marking = Marking()

    async def scene():
        async with rig(marking) as r:
            r.provider.play(respond(b'{"error":"none"}', "404 Not Found"))
            answer = await r.ask(post(MESSAGES, "/v1/messages/count_tokens?beta=true"))
            assert (answer.status, answer.body) == (404, b'{"error":"none"}')
            (seen,) = r.provider.seen
            assert seen.line == "POST /v1/messages/count_tokens?beta=true HTTP/1.1"
            assert seen.body == MESSAGES + b" marked"
            assert marking.outcomes == []
            await r.ask(post())
            assert r.provider.seen[1].body == MESSAGES + b" marked"

    run(scene())


def test_the_rewriter_is_given_the_whole_request():
    """Raw header pairs, path and query apart, plain body, names and the wall clock."""

    watching = Watching()

    async def scene():
        async with rig(watching) as r:
            await r.ask(post(MESSAGES, "/anthropic/v1/messages?beta=true", b"X-Claude-Code-Session-Id: s1"))
            (incoming,) = watching.incoming
            assert (incoming.method, incoming.path, incoming.query) == ("POST", "/v1/messages", "beta=true")
            assert (b"X-Claude-Code-Session-Id", b"s1") in incoming.headers
            assert (incoming.body, incoming.upstream, incoming.dialect) == (
                MESSAGES,
                "anthropic",
                "anthropic",
            )
            assert 1.6e9 < incoming.started_at < 1e11

    run(scene())


def test_a_large_body_is_prepared_beside_small_ones():
    """While one large body is being rewritten, a small request comes and goes."""

    marking = Marking(slow=0.5)

    async def scene():
        async with rig(marking) as r:
            large = asyncio.ensure_future(r.ask(post(b'"' + b"x" * 2**21 + b'"')))
            while not marking.incoming:
                await asyncio.sleep(0.005)
            await r.ask(post())
            assert not large.done()
            assert (await large).status == 200
            assert marking.threads == [False, True]

    run(scene())


def test_where_files_are_read_the_loop_does_not_wait_for_them() -> None:
    """A project may lie on a disk that is far away."""

    async def scene() -> None:
        marking = Marking()
        marking.reads_files = True
        async with rig(marking) as r:
            r.provider.play(respond(b"{}"))
            assert (await r.ask(post())).status == 200
            assert marking.threads == [False]

    run(scene())


def test_connections_to_the_provider_are_kept():
    """Requests one after another share a connection."""

    async def scene():
        async with rig() as r:
            for _ in range(3):
                await r.ask(post())
            assert {seen.connection for seen in r.provider.seen} == {1}

    run(scene())
