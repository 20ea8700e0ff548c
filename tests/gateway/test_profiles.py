"""What a server behind a name of one's own gets depends on the profile it is given."""

import json
from typing import Any

import pytest

from proxy.gateway.conversations import Conversations
from proxy.gateway.settings import resolve
from proxy.models import Models
from proxy.policy import load_policy
from tests.gateway.rig import Provider, post, rig, run

MODELS = Models.load()


def spelt(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


TOOL = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object"}}
NEIGHBOURS = spelt(
    {
        "model": "house-model",
        "max_tokens": 99,
        "tools": [TOOL],
        "messages": [said("user", "First."), said("user", "Second.")],
    }
)
CHAT = spelt(
    {
        "model": "house-model",
        "messages": [
            {"role": "system", "content": "Be brief."},
            said("user", "First."),
            said("user", "Second."),
        ],
    }
)
STREAMED = spelt({**json.loads(CHAT), "stream": True})


def sent(profile: str, path: str, body: bytes) -> bytes:
    """The body a server gets that is `local` and has this profile, or none."""

    async def scene() -> bytes:
        provider = Provider()
        url = await provider.start()
        try:
            settings = resolve({"upstreams": [f"local={url}{profile}"]}, {"HOME": "/nowhere"})
            rewriter = Conversations(
                load_policy("default"),
                models=MODELS,
                upstreams={name: upstream.url for name, upstream in settings.upstreams.items()},
            )
            async with rig(rewriter, upstreams=settings.upstreams) as r:
                assert (await r.ask(post(body, f"/local{path}"))).status == 200
            assert provider.seen[0].line == f"POST {path} HTTP/1.1"
            return provider.seen[0].body
        finally:
            await provider.stop()

    got = run(scene())
    assert isinstance(got, bytes)
    return got


@pytest.mark.parametrize("profile", ["", ",profile=unknown", ",profile=vllm", ",profile=anthropic"])
@pytest.mark.parametrize(("path", "body"), [("/v1/messages", NEIGHBOURS), ("/v1/chat/completions", CHAT)])
def test_nothing_is_done_that_the_profile_does_not_ask_for(profile: str, path: str, body: bytes) -> None:
    """A request that only some engines refuse reaches all others byte for byte, in either format."""
    assert sent(profile, path, body) == body


@pytest.mark.parametrize("profile", ["", "#unknown", "#openrouter"])
def test_a_stream_is_asked_for_nothing_where_nobody_said_it_may_be(profile: str) -> None:
    """Not even for its usage: a strict server refuses a field that it does not know [A431], and some tell it unasked [B440]."""
    assert sent(profile, "/v1/chat/completions", STREAMED) == STREAMED


@pytest.mark.parametrize("profile", [",profile=llama.cpp", "#llama.cpp", "#ollama", ",profile=glm"])
@pytest.mark.parametrize(("path", "body"), [("/v1/messages", NEIGHBOURS), ("/v1/chat/completions", CHAT)])
def test_turns_alternate_where_the_engine_wants_them_to(profile: str, path: str, body: bytes) -> None:
    """A521 A420: what its template or its API refuses is mended, in either format, and nothing else."""
    asked = json.loads(body)
    texts = [{"type": "text", "text": "First."}, {"type": "text", "text": "Second."}]
    merged = [*asked["messages"][:-2], {"role": "user", "content": texts}]
    assert json.loads(sent(profile, path, body)) == {**asked, "messages": merged}
