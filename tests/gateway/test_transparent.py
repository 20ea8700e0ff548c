"""With the `transparent` policy the real rewriter stands between, and nothing can be told of it."""

import pytest

from proxy.gateway.conversations import Conversations
from proxy.policy import load_policy
from tests.agents.recordings import Recorded, load, names
from tests.gateway.rig import rig, run

HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authorization",
}


def as_sent(request: Recorded) -> tuple[bytes, list[tuple[str, str]]]:
    """The recorded request on the wire, and its end-to-end headers in order."""
    headers = [
        (name, value) for name, value in request.headers.items() if name not in ("host", "content-length")
    ]
    headers += [("host", "127.0.0.1"), ("content-length", str(len(request.wire)))]
    lines = [f"POST {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode() + request.wire, [h for h in headers if h[0] not in HOP_BY_HOP]


@pytest.mark.parametrize("name", names())
def test_every_recorded_request_arrives_byte_for_byte(name: str) -> None:
    """Whole recorded sessions of an unmodified agent: path, query, headers in order and spelling, and body."""
    requests = load(name)

    async def scene() -> None:
        upstreams = {"anthropic": "https://api.anthropic.com"}
        rewriter = Conversations(load_policy("transparent"), upstreams=upstreams, strict=True)
        async with rig(rewriter) as r:
            host = r.gateway.settings.upstreams["anthropic"].host
            for request in requests:
                raw, headers = as_sent(request)
                assert (await r.ask(raw)).status == 200
                seen = r.provider.seen[-1]
                assert seen.line == f"POST {request.path} HTTP/1.1"
                assert seen.headers == [(n, host if n == "host" else v) for n, v in headers]
                assert seen.body == request.wire
            turns = await r.turns(len(requests))
            assert not [turn for turn in turns if turn.get("edits") or turn.get("failed_open")]

    run(scene())
    assert requests
