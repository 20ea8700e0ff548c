"""Forward proxies and certificates are taken from the environment, and nothing else is."""

import asyncio
import io
import shutil
import ssl
import subprocess

import pytest

from proxy.errors import SettingsError
from proxy.gateway.app import Gateway
from proxy.gateway.outbound import proxy_for, tls_context
from tests.gateway.rig import Client, Provider, post, respond, run, settings

PROXIES = [
    ("https://api.anthropic.com", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
    (
        "https://api.anthropic.com",
        {"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:1"},
        "http://low:1",
    ),
    ("https://api.anthropic.com", {"HTTP_PROXY": "http://p:1"}, None),
    ("http://h:8000", {"HTTP_PROXY": "p:1"}, "http://p:1"),
    ("http://h:8000", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
    ("http://127.0.0.1:8000", {"HTTP_PROXY": "http://p:1"}, None),
    ("http://localhost:8000", {"ALL_PROXY": "http://p:1"}, None),
    ("http://[::1]:8000", {"ALL_PROXY": "http://p:1"}, None),
    ("http://a.corp.example", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "x, .corp.example"}, None),
    ("http://corp.example", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "corp.example"}, None),
    ("http://notcorp.example", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "corp.example"}, "http://p:1"),
    ("http://h:81", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "h:80"}, "http://p:1"),
    ("http://h:80", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "h:80"}, None),
    ("http://10.1.2.3", {"HTTP_PROXY": "http://p:1", "no_proxy": "10.0.0.0/8"}, None),
    ("http://11.1.2.3", {"HTTP_PROXY": "http://p:1", "no_proxy": "10.0.0.0/8,fe80::/10"}, "http://p:1"),
    ("http://h", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
    ("http://h", {}, None),
]


@pytest.mark.parametrize(("url", "env", "proxy"), PROXIES)
def test_which_way_out(url, env, proxy):
    """The variable of the scheme, else ALL_PROXY; loopback and NO_PROXY go directly."""
    assert proxy_for(url, env) == proxy


def test_a_proxy_of_another_kind_is_refused():
    """A socks proxy is no HTTP proxy, and is said to be none before the first request."""
    with pytest.raises(SettingsError) as fault:
        proxy_for("https://api.anthropic.com", {"ALL_PROXY": "socks5://user:pass@p:1080"})
    assert str(fault.value) == (
        "ALL_PROXY: names no usable proxy; write http://HOST:PORT, or put api.anthropic.com into NO_PROXY"
    )


def test_a_file_that_holds_no_certificates_is_refused(tmp_path):
    """The variable is named."""
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    for place in (file, tmp_path / "missing.pem"):
        with pytest.raises(SettingsError, match="^REQUESTS_CA_BUNDLE: "):
            tls_context({"REQUESTS_CA_BUNDLE": str(place)})
    assert tls_context({}).verify_mode is ssl.CERT_REQUIRED


def test_requests_go_through_the_forward_proxy():
    """Towards a plain upstream the forward proxy gets the absolute form, and the provider's own headers."""

    async def scene():
        forward = Provider()
        url = await forward.start()
        made = settings("http://provider.example")
        gateway = Gateway(made, env={"HTTP_PROXY": url, "NETRC": "/nonexistent"})
        await gateway.start()
        try:
            client = await Client.connect(gateway.port)
            await client.send(post())
            assert (await client.answer()).status == 200
            client.close()
            (seen,) = forward.seen
            assert seen.line == "POST http://provider.example/v1/messages HTTP/1.1"
            assert seen.headers[0] == ("Host", "provider.example")
            assert [name for name, _ in seen.headers] == ["Host", "Content-Type", "Content-Length"]
        finally:
            await gateway.stop(drain=0)
            await forward.stop()

    run(scene())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_an_untrusted_certificate_is_named_and_a_named_one_is_trusted(tmp_path):
    """A private authority is refused with the cure, and trusted once its file is named."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, *subject],
        check=True,
        capture_output=True,
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)

    async def answer(reader, writer):
        await reader.readuntil(b"Say hi")
        writer.write(respond())
        await writer.drain()
        writer.close()

    async def ask(url, env):
        gateway = Gateway(settings(url), stream=io.StringIO(), env=env)
        await gateway.start()
        try:
            client = await Client.connect(gateway.port)
            await client.send(post())
            got = await client.answer()
            client.close()
            return got
        finally:
            await gateway.stop(drain=0)

    async def scene():
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        async with server:
            url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
            refused = await ask(url, {})
            assert refused.status == 502
            assert "certificate is not trusted" in refused.json["error"]["message"]
            assert "SSL_CERT_FILE" in refused.json["error"]["message"]
            assert (await ask(url, {"SSL_CERT_FILE": str(cert)})).status == 200

    run(scene())
