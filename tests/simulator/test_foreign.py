"""Reasoning that another provider signed: refused by default, or taken for one's own, which a replay needs."""

from typing import Any

import orjson
import pytest

from proxy.simulator import Provider, Settings
from proxy.simulator.gemini import GeminiProvider, GeminiSettings
from proxy.simulator.responses.facts import Behaviour
from proxy.simulator.responses.provider import ResponsesProvider

HEADERS = [("anthropic-version", "2023-06-01"), ("x-api-key", "k")]


def thought(before: str = "Go on.", signature: str = "EqQBCkYIAxgC") -> bytes:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": before},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": signature},
                {"type": "text", "text": "Done."},
            ],
        },
        {"role": "user", "content": "And now?"},
    ]
    return orjson.dumps({"model": "claude-opus-5-5", "max_tokens": 2000, "messages": messages})


def test_thinking_of_others_is_refused_unless_it_is_adopted() -> None:
    """By default a signature that was never issued is none."""
    refusing = Provider().answer(HEADERS, thought(), 0.0).exchange
    assert (refusing.status, refusing.error) == (
        400,
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    )
    adopting = Provider(Settings(foreign_thinking="adopt"))
    assert adopting.answer(HEADERS, thought(), 0.0).status == 200
    assert adopting.answer(HEADERS, thought(signature=""), 0.0).status == 400


def test_adopted_thinking_is_bound_to_where_it_was_first_seen() -> None:
    """On a model that checks prefixes: the same again is fine, behind something else it is refused."""
    provider = Provider(Settings(foreign_thinking="adopt", binding="error"))
    assert [provider.answer(HEADERS, thought(), at).status for at in (0.0, 1.0)] == [200, 200]
    changed = provider.answer(HEADERS, thought("Go away."), 2.0).exchange
    assert changed.status == 400
    assert "bound to a different conversation" in (changed.error or "")


@pytest.mark.parametrize(("foreign", "status"), [("refuse", 400), ("adopt", 200)])
def test_sealed_reasoning_of_others(foreign: Any, status: int) -> None:
    """Responses: a token that cannot be opened, and one that counts for three quarters of its length."""
    items = [
        {"type": "message", "role": "user", "content": "Hello"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo" + "x" * 4000},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
        {"type": "message", "role": "user", "content": "More"},
    ]
    body = {"model": "gpt-5.6", "store": False, "include": ["reasoning.encrypted_content"]}
    provider = ResponsesProvider(behaviour=Behaviour(foreign_reasoning=foreign))
    headers = [("authorization", "Bearer k")]
    answer = provider.answer(headers, orjson.dumps({**body, "input": items}), 0.0).exchange
    assert answer.status == status
    if status == 200:
        without = provider.answer(headers, orjson.dumps({**body, "input": [items[0], *items[2:]]}), 1.0)
        assert 700 < answer.total - without.exchange.total < 800


@pytest.mark.parametrize(("foreign", "status"), [("refuse", 400), ("accept", 200)])
def test_signed_calls_of_others(foreign: Any, status: int) -> None:
    """Gemini: a signature that this provider did not make."""
    call = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "Q2lRQg=="}
    contents = [
        {"role": "user", "parts": [{"text": "Look."}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "ok"}}}]},
    ]
    provider = GeminiProvider(GeminiSettings(foreign_signatures=foreign))
    path = "/v1beta/models/gemini-3.5-flash:generateContent"
    assert provider.answer([], orjson.dumps({"contents": contents}), 0.0, path).status == status
