"""What goes wrong is named, costs no more than it must, and is never hidden."""

import asyncio
import contextlib
import gzip
import json
import socket

import pytest

from proxy.errors import LawError
from proxy.gateway.conversations import Conversations
from proxy.gateway.exchange import Incoming, Prepared
from proxy.gateway.values import Upstream
from proxy.policy import load_policy
from tests.gateway.rewriters import Failing, Marking
from tests.gateway.rig import (
    CLOSE,
    DELTA,
    LAST,
    MESSAGES,
    RESET,
    SSE_HEAD,
    START,
    STOP,
    chunk,
    post,
    respond,
    rig,
    run,
)

PAIRING = (
    b'{"type":"error","error":{"type":"invalid_request_error","message":"messages.1: `tool_use` ids were found '
    b'without `tool_result` blocks immediately after: toolu_1"}}'
)
TOO_LONG = b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}'
WHOLE = SSE_HEAD + chunk(START + DELTA + STOP) + LAST


def closed_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


SHAPES = {
    "/v1/messages": (
        "anthropic",
        lambda e: (e["type"], e["error"]["type"], e["error"]["message"]),
        ("error", "api_error"),
    ),
    "/v1/chat/completions": (
        "openai",
        lambda e: (e["error"]["type"], e["error"]["code"], e["error"]["message"]),
        ("server_error", None),
    ),
    "/v1/responses": (
        "openai",
        lambda e: (e["error"]["type"], e["error"]["param"], e["error"]["message"]),
        ("server_error", None),
    ),
    "/v1beta/models/gemini-3:streamGenerateContent?alt=sse&key=K-SECRET": (
        "gemini",
        lambda e: (e["error"]["code"], e["error"]["status"], e["error"]["message"]),
        (502, "UNAVAILABLE"),
    ),
}


@pytest.mark.parametrize("path", SHAPES)
def test_an_unreachable_provider_is_named_in_its_own_error_shape(path):
    """502 in the shape the client parses, with the upstream's name, origin and reason, and without the query."""

    name, read, shape = SHAPES[path]

    async def scene():
        url = f"http://127.0.0.1:{closed_port()}"
        async with rig(url=url) as r:
            answer = await r.ask(post(MESSAGES, path))
            assert answer.status == 502
            assert ("Content-Type", "application/json") in answer.headers
            *got, message = read(answer.json)
            assert tuple(got) == shape
            assert message.startswith(f"stet: upstream '{name}' ({url}): cannot be reached: ")
            assert "ECONNREFUSED" in message
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["error"], turn["status"]) == ("unreachable", "refused", 502)
            assert "K-SECRET" not in r.log.getvalue() + answer.body.decode()

    run(scene())


def test_an_unknown_name_is_a_502():
    """A provider whose name does not resolve is told from one that does not answer."""

    async def scene():
        async with rig(url="http://nobody.invalid") as r:
            answer = await r.ask(post())
            assert (answer.status, answer.json["error"]["message"]) == (
                502,
                "stet: upstream 'anthropic' (http://nobody.invalid): its name cannot be resolved",
            )
            assert (await r.turns(1))[0]["error"] == "dns"

    run(scene())


def test_a_provider_without_tls_is_a_502():
    """A port that speaks no TLS is told from one that does not answer."""

    async def plain(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def scene():
        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        async with server, rig(url=f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}") as r:
            answer = await r.ask(post())
            assert (answer.status, (await r.turns(1))[0]["error"]) == (502, "tls")
            assert answer.json["error"]["message"].endswith("no TLS connection can be made")

    run(scene())


def test_no_connection_in_time_is_a_504(monkeypatch):
    """A provider that never accepts is a 504."""

    monkeypatch.setattr("proxy.gateway.upstream.CONNECT_SECONDS", 0.3)

    async def scene():
        with socket.socket() as full, contextlib.ExitStack() as held:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for _ in range(4):  # fill the queue of connections nobody accepts
                sock = held.enter_context(socket.socket())
                sock.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    sock.connect(full.getsockname())
            async with rig(url=f"http://127.0.0.1:{full.getsockname()[1]}") as r:
                answer = await r.ask(post())
                assert (answer.status, answer.json["error"]["type"]) == (504, "timeout_error")
                assert (await r.turns(1))[0]["error"] == "connect_timeout"

    run(scene())


def test_an_answer_that_is_no_http_is_a_502():
    """Garbage from the provider is no answer."""

    async def scene():
        async with rig() as r:
            r.provider.play(b"SSH-2.0-OpenSSH\r\n\r\n", CLOSE)
            assert (await r.ask(post())).status == 502
            assert (await r.turns(1))[0]["error"] in {"protocol", "reset"}

    run(scene())


@pytest.mark.parametrize("end", [RESET, CLOSE])
def test_a_fresh_connection_that_dies_is_not_tried_again(end):
    """A provider that closes without an answer may have begun to work: one request, then 502."""

    async def scene():
        async with rig() as r:
            r.provider.play(end)
            answer = await r.ask(post())
            assert (answer.status, len(r.provider.seen)) == (502, 1)
            assert (await r.turns(1))[0]["error"] == "reset"

    run(scene())


@pytest.mark.parametrize("end", [RESET, CLOSE])
def test_no_method_is_tried_again_on_a_fresh_connection(end):
    """Nor is a request that could be repeated safely: the client decides."""

    async def scene():
        async with rig() as r:
            r.provider.play(end)
            answer = await r.ask(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert (answer.status, len(r.provider.seen)) == (502, 1)

    run(scene())


@pytest.mark.parametrize("end", [RESET, CLOSE])
def test_a_kept_connection_that_turns_out_dead_is_tried_once_more(end):
    """A connection kept from before may have been closed meanwhile: before any byte came, once, on another."""

    async def scene():
        async with rig() as r:
            await r.ask(post())
            r.provider.play(end)
            answer = await r.ask(post())
            assert answer.status == 200
            assert [seen.connection for seen in r.provider.seen] == [1, 1, 2]
            first, second = await r.turns(2)
            assert ("retried" in first, second["retried"]) == (False, True)
            r.provider.play(RESET)
            r.provider.play(RESET)
            assert (await r.ask(post())).status == 502
            assert len(r.provider.seen) == 5

    run(scene())


def test_after_the_first_byte_nothing_is_tried_again():
    """On a kept connection too, an answer that has begun is never asked for twice."""

    async def scene():
        async with rig() as r:
            await r.ask(post())
            r.provider.play(SSE_HEAD, chunk(START), 0.05, RESET)
            answer = await r.ask(post())
            assert (answer.clean, answer.body, len(r.provider.seen)) == (False, START, 2)

    run(scene())


def test_a_structural_refusal_of_a_changed_body_is_tried_once_with_the_fallback():
    """The client gets the fallback's answer and never sees the refusal."""

    marking = Marking()

    async def scene():
        async with rig(marking) as r:
            r.provider.play(respond(PAIRING, "400 Bad Request"))
            r.provider.play(WHOLE)
            answer = await r.ask(post())
            assert (answer.status, answer.body) == (200, START + DELTA + STOP)
            assert [seen.body for seen in r.provider.seen] == [MESSAGES + b" marked", MESSAGES]
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["fallback"], turn["refusal"]) == ("ok", True, "tool_pairing")
            ((memo, outcome),) = marking.outcomes
            assert (memo, outcome.retried_with_fallback, outcome.status) == (1, True, 200)
            assert outcome.usage.cached == 60

    run(scene())


def test_a_compressed_refusal_is_understood():
    """The class of a refusal is found in a compressed body too."""

    async def scene():
        async with rig(Marking()) as r:
            r.provider.play(respond(gzip.compress(PAIRING), "400 Bad Request", b"content-encoding: gzip"))
            assert (await r.ask(post())).status == 200
            assert len(r.provider.seen) == 2

    run(scene())


@pytest.mark.parametrize(
    "second", [respond(TOO_LONG, "400 Bad Request"), respond(b"{}", "529 Overloaded"), RESET, CLOSE]
)
def test_where_the_fallback_fails_too_the_client_gets_the_first_answer(second):
    """The first refusal reaches the client byte for byte, whatever became of the second request."""

    marking = Marking(fallback=b"without thinking")

    async def scene():
        async with rig(marking) as r:
            r.provider.play(respond(PAIRING, "400 Bad Request", b"request-id: req_1"))
            r.provider.play(second)
            r.provider.play(second)  # a dead kept connection is tried once more
            answer = await r.ask(post())
            assert (answer.status, answer.body) == (400, PAIRING)
            assert ("request-id", "req_1") in answer.headers
            assert r.provider.seen[1].body == b"without thinking"
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["refusal"], turn["error"]) == (
                "refused",
                "tool_pairing",
                "invalid_request_error",
            )
            assert "fallback" not in turn
            ((_, outcome),) = marking.outcomes
            assert (outcome.name, outcome.status, outcome.retried_with_fallback) == ("refused", 400, False)

    run(scene())


@pytest.mark.parametrize(
    ("rewriter", "refusal"),
    [
        (Marking(), respond(TOO_LONG, "400 Bad Request")),
        (Marking(), respond(PAIRING, "422 Unprocessable")),
        (Marking(), respond(b"not json", "400 Bad Request")),
        (Marking(fallback=None), respond(PAIRING, "400 Bad Request")),
        (None, respond(PAIRING, "400 Bad Request")),
    ],
)
def test_any_other_refusal_passes(rewriter, refusal):
    """Not structural, not a 400, nothing to fall back on, nothing changed: one request, its answer as it is."""

    async def scene():
        async with rig(rewriter) as r:
            r.provider.play(refusal)
            answer = await r.ask(post())
            assert refusal.endswith(answer.body) and len(r.provider.seen) == 1
            assert (await r.turns(1))[0]["outcome"] == "refused"

    run(scene())


def test_a_refusal_without_an_end_is_not_waited_for():
    """A long 400 is handed on, not collected."""

    async def scene():
        async with rig(Marking()) as r:
            body = b"x" * 600_000
            r.provider.play(respond(body, "400 Bad Request"))
            answer = await r.ask(post())
            assert (answer.status, answer.body, len(r.provider.seen)) == (400, body, 1)

    run(scene())


@pytest.mark.parametrize("where", ["prepare", "settle"])
def test_a_fault_of_the_rewrite_lets_the_request_through(where):
    """The client is answered; the fault is counted and logged with its place and without the body."""

    async def scene():
        async with rig(Failing(where)) as r:
            r.provider.play(WHOLE)
            answer = await r.ask(post())
            assert (answer.status, answer.body) == (200, START + DELTA + STOP)
            expected = MESSAGES if where == "prepare" else MESSAGES + b" marked"
            assert r.provider.seen[0].body == expected
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["failed_open"]) == ("ok", where)
            (line,) = [line for line in r.lines() if line["event"] == "failed_open"]
            assert (line["where"], line["fault"]) == (where, "KeyError")
            assert any(frame.endswith(f" {where}") and "rewriters.py" in frame for frame in line["at"])
            assert "Say hi" not in r.log.getvalue()
            metrics = r.gateway.metrics.exposition().decode()
            assert f'stet_fail_open_total{{where="{where}"}} 1.0' in metrics

    run(scene())


def test_a_fault_of_the_tap_never_touches_the_stream(monkeypatch):
    """The stream is whole; the turn says that there are no figures, and why."""

    def broken(self, event):
        raise RuntimeError("bug")

    monkeypatch.setattr("proxy.answer.AnthropicReader.event", broken)

    async def scene():
        async with rig() as r:
            r.provider.play(WHOLE)
            assert (await r.ask(post())).body == START + DELTA + STOP
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["usage_fault"]) == ("ok", "the answer could not be read")
            assert 'stet_fail_open_total{where="tap"} 1.0' in r.gateway.metrics.exposition().decode()

    run(scene())


def test_a_bug_of_ours_in_the_middle_of_an_answer_ends_it_abnormally(monkeypatch):
    """No second answer is written into the first; the client sees it break off, and the next one is whole."""

    def broken(self):
        raise RuntimeError("bug")

    async def scene():
        async with rig() as r:
            with monkeypatch.context() as patch:
                patch.setattr("proxy.gateway.draft.Draft.first_byte", broken)
                r.provider.play(WHOLE)
                answer = await r.ask(post())
            assert (answer.status, answer.clean) == (200, False)
            assert (START + DELTA + STOP).startswith(answer.body)
            (turn,) = await r.turns(1)
            assert turn["outcome"] == "error"
            assert 'stet_fail_open_total{where="gateway"} 1.0' in r.gateway.metrics.exposition().decode()
            assert (await r.ask(post())).clean

    run(scene())


def test_a_bug_of_ours_before_the_answer_is_said_in_the_providers_shape(monkeypatch):
    """One request fails, readably; the text of the bug stays in here."""

    def broken(*args):
        raise RuntimeError("bug")

    async def scene():
        async with rig() as r:
            with monkeypatch.context() as patch:
                patch.setattr("proxy.gateway.handler.for_upstream", broken)
                answer = await r.ask(post())
            assert (answer.status, answer.json["error"]) == (
                500,
                {"type": "api_error", "message": "stet: an internal error, see the log"},
            )
            assert (await r.turns(1))[0]["outcome"] == "error"
            assert (await r.ask(post())).status == 200

    run(scene())


def test_a_fault_of_the_log_never_touches_the_request():
    """With the log's pipe closed, requests are served as before."""

    async def scene():
        async with rig() as r:
            r.log.close()
            assert (await r.ask(post())).status == 200
            assert (await r.ask(post())).status == 200
            assert 'stet_fail_open_total{where="log"} 2.0' in r.gateway.metrics.exposition().decode()

    run(scene())


def test_a_provider_may_refuse_an_upload_half_way():
    """A refusal sent before the body was read reaches the client."""

    body = b'"' + b"x" * (8 * 2**20) + b'"'

    async def scene():
        async with rig() as r:
            r.provider.read_bodies = False
            r.provider.play(respond(TOO_LONG, "413 Payload Too Large"), 0.3, CLOSE)
            answer = await r.ask(post(body))
            assert (answer.status, answer.body) == (413, TOO_LONG)

    run(scene())


def test_the_other_upstreams_work_while_one_is_down():
    """A dead upstream is nobody else's trouble."""

    async def scene():
        async with rig() as r:
            ups = {
                **r.gateway.settings.upstreams,
                "dead": Upstream("dead", f"http://127.0.0.1:{closed_port()}"),
            }
            url = r.gateway.settings.upstreams["anthropic"].url
            async with rig(url=url, upstreams=ups) as other:
                dead, alive = await asyncio.gather(
                    other.ask(post(MESSAGES, "/dead/v1/messages")), other.ask(post())
                )
                assert (dead.status, alive.status) == (502, 200)

    run(scene())


class SteppedAside:
    """Goes past a fault of its own."""

    reads_files = False

    def prepare(self, request):
        return Prepared(body=request.body + b" bare", changed=True, commit=False, fault=KeyError("BODY"))

    def settle(self, prepared, outcome):
        raise AssertionError("nothing was committed")


def test_a_fault_that_the_rewriter_went_past_is_told_as_well():
    """What it sent instead goes out; the fault is logged and counted like one that it raised, without its message."""

    async def scene():
        async with rig(SteppedAside()) as r:
            assert (await r.ask(post())).status == 200
            assert r.provider.seen[0].body == MESSAGES + b" bare"
            (turn,) = await r.turns(1)
            assert (turn["failed_open"], turn["fault"]) == ("prepare", "KeyError")
            assert 'stet_fail_open_total{where="prepare"} 1.0' in r.gateway.metrics.exposition().decode()
            assert "BODY" not in r.log.getvalue()

    run(scene())


@pytest.mark.parametrize("sent", [True, False], ids=["sent rewritten before", "new"])
def test_where_thinking_is_bound_a_failure_sends_none(sent, monkeypatch):
    """A conversation on a prefix-checked model that was sent rewritten goes on without its thinking [A45 A47]; the fault
    that made it so is handed on."""
    rewriter = Conversations(load_policy("default"))
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    asked = {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "Check."}]}
    answered = {"role": "assistant", "content": [thought, {"type": "text", "text": "Fine."}]}

    def incoming(*messages):
        raw = json.dumps({"model": "claude-opus-5-5", "max_tokens": 9, "messages": messages}).encode()
        return Incoming("POST", "/v1/messages", "", (), raw, "anthropic", "anthropic", 0.0, "anthropic")

    if sent:
        assert rewriter.prepare(incoming(asked)).changed
    monkeypatch.setattr("proxy.gateway.conversations.rewrite", lambda *_: {}["BODY"])
    later = incoming(asked, answered, {"role": "user", "content": "Go on."})
    if not sent:
        with pytest.raises(KeyError):
            rewriter.prepare(later)
        return
    made = rewriter.prepare(later)
    assert b"thinking" not in made.body
    assert isinstance(made.fault, KeyError)
    assert (made.commit, made.report.unread) == (False, "sent without its reasoning")


def test_a_law_that_would_break_is_a_fault(monkeypatch):
    """The client's body goes out, and that it had to is no secret."""
    rewriter = Conversations(load_policy("default"))
    monkeypatch.setattr("proxy.rewrite._check", lambda *_: "call without a result")
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "Hi"}]}
        ],
    }
    raw = json.dumps(body).encode()
    made = rewriter.prepare(
        Incoming("POST", "/v1/messages", "", (), raw, "anthropic", "anthropic", 0.0, "anthropic")
    )
    assert isinstance(made.fault, LawError)
    assert made.report.unread == "call without a result"
