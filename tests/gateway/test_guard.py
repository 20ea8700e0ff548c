"""Who is served, and what is answered here and goes no further."""

import pytest

from proxy.gateway.values import Address
from tests.gateway.rig import MESSAGES, Client, post, respond, rig, run

UPGRADE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGVzdA==\r\nSec-WebSocket-Version: 13\r\n"
    b"OpenAI-Beta: responses_websockets=2026-02-06\r\n\r\n"
)


def test_a_websocket_is_refused_at_once():
    """426 with one line in the log; a POST right after works, on the same connection."""

    async def scene():
        async with rig() as r:
            client = await Client.connect(r.gateway.port)
            await client.send(UPGRADE)
            answer = await client.answer()
            assert answer.status == 426
            assert {("Upgrade", "HTTP/1.1"), ("Connection", "Upgrade")} <= set(answer.headers)
            assert answer.json["error"]["type"] == "invalid_request_error"
            (turn,) = await r.turns(1)
            assert (turn["outcome"], turn["error"], turn["status"]) == ("rejected", "websocket", 426)
            assert len(r.lines()) == 1 and r.provider.seen == []
            await client.send(post(b'{"input":[]}', "/v1/responses"))
            assert (await client.answer()).status == 200
            await client.send(UPGRADE + post(b'{"input":[]}', "/v1/responses"))
            assert [(await client.answer()).status, (await client.answer()).status] == [426, 200]
            client.close()

    run(scene())


SPELT = [
    b"upgrade: WebSocket",
    b"UPGRADE:websocket",
    b"Upgrade: h2c, websocket",
    b"Upgrade: h2c\r\nUpgrade: websocket",
    b"Upgrade: websocket/13",
]


@pytest.mark.parametrize("upgrade", SPELT)
def test_an_upgrade_however_it_is_spelt(upgrade):
    """Case, lists, a second line and a version make no difference; another protocol is no websocket."""

    async def scene():
        async with rig() as r:
            assert (await r.ask(UPGRADE.replace(b"Upgrade: websocket", upgrade))).status == 426
            other = UPGRADE.replace(b"Upgrade: websocket", b"Upgrade: websockets-over-x")
            assert (await r.ask(other)).status == 200

    run(scene())


def test_an_upgrade_with_a_body_ends_the_connection():
    """Nobody can say where it ends."""

    async def scene():
        async with rig() as r:
            client = await Client.connect(r.gateway.port)
            await client.send(UPGRADE.replace(b"GET", b"POST")[:-2] + b"Content-Length: 2\r\n\r\n{}")
            answer = await client.answer()
            assert (answer.status, ("Connection", "Upgrade, close") in answer.headers) == (426, True)
            assert await client.reader.read() == b""
            client.close()

    run(scene())


@pytest.mark.parametrize(
    "line", ["CONNECT api.anthropic.com:443", "GET http://169.254.169.254/latest/meta-data", "OPTIONS *"]
)
def test_it_is_no_forward_proxy(line):
    """CONNECT, absolute and asterisk forms end here: the upstream comes from configuration alone."""

    async def scene():
        async with rig() as r:
            answer = await r.ask(f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert (answer.status, r.provider.seen) == (400, [])
            assert (await r.turns(1))[0]["error"] == "form"

    run(scene())


@pytest.mark.parametrize("path", ["/stet", "/stet/", "/stet/turns", "/stet/v1/messages"])
def test_our_own_paths_are_never_forwarded(path):
    """Below /stet nothing reaches a provider."""

    async def scene():
        async with rig() as r:
            answer = await r.ask(post(MESSAGES, path))
            assert (answer.status, answer.json["error"]["type"], r.provider.seen) == (
                404,
                "not_found_error",
                [],
            )

    run(scene())


def test_who_looks_in_is_told_what_this_is():
    """The root is nobody's endpoint; whether the provider is there is for the provider to say."""

    async def scene():
        async with rig() as r:
            answer = await r.ask(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert answer.status == 404
            assert "this is a proxy for LLM providers" in answer.json["error"]["message"]
            assert "/openai/" in answer.json["error"]["message"]
            assert r.provider.seen == []
            await r.ask(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n", method="HEAD")
            assert [seen.line for seen in r.provider.seen] == ["HEAD / HTTP/1.1"]

    run(scene())


ORIGINS = {
    "https://evil.example": 403,
    "http://localhost.evil.example": 403,
    "http://127.0.0.1.nip.io:8787": 403,
    "http://[": 403,
    "null": 200,
    "http://localhost:3000": 200,
    "https://127.0.0.1": 200,
    "http://[::1]:5173": 200,
    "vscode-webview://1x2y": 200,
    "https://ide.example:8443": 200,
}


@pytest.mark.parametrize("origin", ORIGINS)
def test_web_pages_of_others_are_not_served(origin):
    """A page from elsewhere cannot use the proxy through its reader's browser; local and listed ones can."""

    async def scene():
        async with rig(allowed_hosts=("ide.example",)) as r:
            answer = await r.ask(post(MESSAGES, "/v1/messages", b"Origin: " + origin.encode()))
            assert answer.status == ORIGINS[origin]
            assert len(r.provider.seen) == (answer.status == 200)

    run(scene())


HOSTS = {
    "evil.example": 403,
    "evil.example:8787": 403,
    "10.0.0.7:8787": 200,
    "[::1]:8787": 200,
    "localhost:8787": 200,
    "stet.internal:8787": 200,
    "STET.internal": 200,
}


@pytest.mark.parametrize("listen", ["0.0.0.0", "127.0.0.1"])
@pytest.mark.parametrize("host", HOSTS)
def test_only_known_names_are_served(host, listen):
    """Addresses and loopback names always; other names when listed, whatever the case and port. On loopback too: a page
    that rebinds its name reaches it through its reader's browser."""

    async def scene():
        async with rig(listen=Address(listen, 0), allowed_hosts=("stet.internal",)) as r:
            raw = post().replace(b"Host: 127.0.0.1", b"Host: " + host.encode())
            answer = await r.ask(raw)
            assert answer.status == HOSTS[host]
            assert len(r.provider.seen) == (answer.status == 200)
            if answer.status == 403:
                assert "--allowed-host evil.example (allowed_hosts" in answer.json["error"]["message"]

    run(scene())


def test_any_name_is_served_where_all_are_allowed():
    """`*` takes every name; a client without the header is no browser."""

    async def scene():
        async with rig(allowed_hosts=("*",)) as r:
            assert (await r.ask(post().replace(b"Host: 127.0.0.1", b"Host: my-proxy"))).status == 200
        async with rig() as r:
            assert (await r.ask(b"GET /v1/models HTTP/1.0\r\nx-api-key: k\r\n\r\n")).status == 200

    run(scene())


def test_no_key_reaches_the_log():
    """Keys in headers, queries and bodies stay out of every line, in both forms of the log."""

    secrets = ("sk-ant-SECRET", "QUERY-SECRET", "BODY-SECRET", "REPLY-SECRET")
    headers = [b"x-api-key: sk-ant-SECRET", b"Authorization: Bearer sk-ant-SECRET", b"Cookie: sk-ant-SECRET"]

    async def scene(form):
        async with rig(log=form) as r:
            refusal = b'{"error":{"type":"auth","message":"REPLY-SECRET"}}'
            r.provider.play(respond(refusal, "401 Unauthorized", b"x-echo: REPLY-SECRET"))
            await r.ask(post(b'{"a":"BODY-SECRET"}', "/v1/messages?key=QUERY-SECRET", *headers))
            await r.ask(post(b'{"a":"BODY-SECRET"}', "/stet/x?key=QUERY-SECRET", *headers))
            await r.ask(post(b'{"a":"BODY-SECRET"}', "/v1/files?key=QUERY-SECRET", *headers))
            await r.ask(UPGRADE.replace(b"/v1/responses", b"/v1/responses?key=QUERY-SECRET"))
            shown = r.log.getvalue() + r.gateway.metrics.exposition().decode()
            assert "/v1/messages" in shown and "401" in shown
            assert not [secret for secret in secrets if secret in shown]

    for form in ("json", "console"):
        run(scene(form))
