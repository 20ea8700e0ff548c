"""The admin listener shows health, counts and recent turns, to those who may see them."""

import asyncio

import pytest

from proxy.gateway.metrics import METRICS
from tests.gateway.rewriters import Marking
from tests.gateway.rig import (
    LAST,
    MESSAGES,
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


async def get(r, path, *headers, host="127.0.0.1"):
    client = await Client.connect(r.gateway.admin_address.port)
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]
    await client.send("\r\n".join(lines).encode())
    answer = await client.answer()
    client.close()
    return answer


def test_health_and_readiness():
    """Both are well on a running server; an unknown page is a 404 in JSON; the agents' port has none of them."""

    async def scene():
        async with rig() as r:
            assert (await get(r, "/healthz")).json == {"status": "ok"}
            assert (await get(r, "/readyz")).json == {"status": "ready"}
            pages = (await get(r, "/")).json["pages"]
            assert [(await get(r, page)).status for page in pages] == [200] * 4
            missing = await get(r, "/nothing")
            assert (missing.status, missing.json) == (404, {"error": "Not Found"})
            await r.ask(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert r.provider.seen[0].line == "GET /metrics HTTP/1.1"

    run(scene())


def samples(text):
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_metrics_follow_the_turns():
    """Every figure of a turn is in its counter, under the names and labels of the table."""

    async def scene():
        async with rig(Marking()) as r:
            r.provider.play(SSE_HEAD, chunk(START + STOP), LAST)
            await r.ask(post())
            r.provider.play(respond(b'{"error":{"type":"rate_limit_error"}}', "429 Too Many"))
            await r.ask(post())
            await r.ask(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: k\r\n\r\n")
            answer = await get(r, "/metrics")
            assert dict(answer.headers)["Content-Type"].startswith("text/plain; version=0.0.4")
            got = samples(answer.body.decode())
            expected = {
                'stet_requests_total{dialect="anthropic",status="200",upstream="anthropic"}': 1,
                'stet_requests_total{dialect="anthropic",status="429",upstream="anthropic"}': 1,
                'stet_requests_total{dialect="none",status="200",upstream="anthropic"}': 1,
                'stet_refusals_total{class="429",upstream="anthropic"}': 1,
                'stet_tokens_total{kind="input",upstream="anthropic"}': 3,
                'stet_tokens_total{kind="cached",upstream="anthropic"}': 60,
                'stet_tokens_total{kind="written",upstream="anthropic"}': 40,
                'stet_tokens_total{kind="output",upstream="anthropic"}': 9,
                'stet_hit_ratio_count{upstream="anthropic"}': 1,
                'stet_hit_ratio_bucket{le="0.5",upstream="anthropic"}': 0,
                'stet_hit_ratio_bucket{le="0.75",upstream="anthropic"}': 1,
                'stet_edits_total{mode="apply",stage="relocate"}': 4,
                'stet_reclaimed_tokens_total{mode="apply",stage="stale"}': 1400,
                'stet_held_total{mode="apply",stage="compact"}': 2,
                'stet_breaks_total{reason="expired"}': 1,
                'stet_added_seconds_count{dialect="anthropic"}': 2,
                'stet_ttfb_seconds_count{upstream="anthropic"}': 2,
                "stet_tool_result_length_sum": 2468.8,
                "stet_in_flight": 0,
            }
            assert {name: got.get(name) for name in expected} == expected
            assert any(name.startswith("stet_build_info{version=") for name in got)
            described = {
                line.split()[2] for line in answer.body.decode().splitlines() if line.startswith("# TYPE")
            }
            assert described >= set(METRICS)
            assert all(name.startswith("stet_") for name in described)
            assert "_created" not in answer.body.decode()

    run(scene())


def test_recent_turns_newest_first():
    """The turns are there as the log has them, bounded by `limit`."""

    async def scene():
        async with rig(Marking()) as r:
            for path in ("/v1/messages", "/v1/chat/completions", "/v1/responses"):
                await r.ask(post(MESSAGES, path))
            turns = (await get(r, "/turns")).json["turns"]
            assert [turn["path"] for turn in turns] == [
                "/v1/responses",
                "/v1/chat/completions",
                "/v1/messages",
            ]
            assert turns[2]["edits"] == {"relocate": 2} and turns[2]["conversation"] == "c1"
            assert len((await get(r, "/turns?limit=1")).json["turns"]) == 1
            assert len((await get(r, "/turns?limit=x")).json["turns"]) == 3

    run(scene())


def test_the_token_is_asked_for():
    """With a token set, figures need it; the probes of an orchestrator do not."""

    async def scene():
        async with rig(admin_token="hush") as r:
            assert (await get(r, "/metrics")).status == 401
            assert (await get(r, "/turns", "Authorization: Bearer wrong")).status == 401
            assert (await get(r, "/turns", "Authorization: Bearer hush")).status == 200
            assert (await get(r, "/healthz")).status == 200
            assert "hush" not in repr(r.gateway.settings)

    run(scene())


@pytest.mark.parametrize(
    ("host", "headers", "status"),
    [
        ("evil.example:8788", (), 403),
        ("localhost:8788", (), 200),
        ("10.1.2.3", (), 200),
        ("127.0.0.1", ("Origin: https://evil.example",), 403),
        ("127.0.0.1", ("Origin: http://[",), 403),
        ("stet.internal", (), 200),
    ],
)
def test_a_rebound_name_reads_nothing(host, headers, status):
    """A web page that points its own name at this machine is refused by that name."""

    async def scene():
        async with rig(allowed_hosts=("stet.internal",)) as r:
            assert (await get(r, "/turns", *headers, host=host)).status == status

    run(scene())


def test_while_draining_it_is_alive_but_not_ready():
    """Readiness goes off first; the answer under way is finished; admin stays until the end."""

    async def scene():
        async with rig() as r:
            gate = asyncio.Event()
            r.provider.play(SSE_HEAD, chunk(START), gate, chunk(STOP), LAST)
            client = await Client.connect(r.gateway.port)
            await client.send(post())
            await client.head()
            await client.chunk()
            stopping = asyncio.ensure_future(r.gateway.stop())
            while (await get(r, "/readyz")).status == 200:
                await asyncio.sleep(0.01)
            assert (await get(r, "/readyz")).json == {"status": "draining"}
            assert (await get(r, "/healthz")).status == 200
            with pytest.raises(OSError):
                await Client.connect(r.gateway.port)
            gate.set()
            assert await client.chunk() == STOP
            assert await client.chunk() == b""
            client.close()
            await stopping
            assert (await r.turns(1))[0]["outcome"] == "ok"

    run(scene())


def test_it_can_be_off():
    """Without an admin address there is no second listener."""

    async def scene():
        async with rig(admin=None) as r:
            assert r.gateway.admin_address is None
            assert (await r.ask(post())).status == 200

    run(scene())
