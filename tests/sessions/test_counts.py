"""Our count of a prompt against the provider's: within 2 % from the fourth request on, whatever comes and goes."""

import json
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from proxy.images import base64_image_size, image_tokens
from proxy.tokens import exact
from proxy.usage import Usage
from tests.laws.wires import Json
from tests.sessions.coding import Coding, Shown

WITHIN = 0.02
PLACES = [
    ("anthropic", "anthropic", "claude-opus-4-5"),
    ("anthropic", "anthropic", "claude-sonnet-4-6"),
    ("anthropic", "anthropic", "claude-opus-4-7"),
    ("anthropic", "anthropic", "claude-opus-5-5"),
    ("openai_chat", "openai", "gpt-5.1"),
    ("openai_chat", "openai", "gpt-5.6"),
    ("openai_responses", "openai", "gpt-4.1"),
    ("openai_responses", "openai", "gpt-5.5"),
    ("openai_responses", "openai", "gpt-6.1-sol"),
    ("gemini", "gemini", "gemini-2.5-pro"),
    ("gemini", "gemini", "gemini-3-pro"),
    ("gemini", "gemini", "gemini-3.5-flash"),
]


def off(shown: list[Shown]) -> list[str]:
    """The counts after three requests that are further off than they may be."""
    return [f"{at}: {one}" for at, one in enumerate(shown) if at >= 3 and one.error >= WITHIN]


@pytest.mark.parametrize(("wire", "upstream", "model"), PLACES)
def test_what_the_embedded_provider_counts_is_what_we_count(wire: str, upstream: str, model: str) -> None:
    """Each provider counts by a rule of its own: bytes, images by area or at a flat rate, thinking kept or not."""
    wrong = {seed: found for seed in range(4) if (found := off(Coding(wire, upstream, model, seed).play(14)))}
    assert wrong == {}


@cache
def _words(text: str) -> float:
    return 1.2 * exact(text.encode())


def _billed(block: Json) -> float:
    match block["type"]:
        case "text":
            return 3 + _words(block["text"])
        case "thinking":
            return 3 + _words(block["thinking"])
        case "tool_use":
            return 12 + _words(block["name"]) + 1.05 * _words(json.dumps(block["input"], indent=1))
        case "image":
            return 2 + image_tokens(base64_image_size(block["source"]["data"]))
        case _:
            content = block["content"]
            return 8 + (_words(content) if isinstance(content, str) else sum(map(_billed, content)))


def by_vocabulary(body: Json, usage: Usage) -> int:
    """A provider with a real vocabulary, a fifth denser than cl100k, framing of its own and a hidden instruction."""
    del usage
    tools = [
        {name: value for name, value in tool.items() if name != "cache_control"} for tool in body["tools"]
    ]
    total = 300 + sum(10 + 1.1 * _words(json.dumps(tool, indent=1)) for tool in tools)
    total += sum(map(_billed, body["system"]))
    for message in body["messages"]:
        content = message["content"]
        total += 3 + (_words(content) if isinstance(content, str) else sum(map(_billed, content)))
    return round(total)


@pytest.mark.parametrize("seed", range(12))
def test_what_a_real_vocabulary_counts_is_what_we_count(seed: int) -> None:
    """Digests and Chinese among it, and results of some thousand tokens; nothing of the vocabulary is known to us."""
    coding = Coding("anthropic", "anthropic", "claude-opus-4-5", seed, strange=True)
    assert off(coding.play(16, by_vocabulary)) == []


def test_a_conversation_after_the_first_begins_within_it_too() -> None:
    """What one conversation taught of a model holds for the next one's first request."""
    first = Coding("anthropic", "anthropic", "claude-sonnet-4-6", 1)
    first.play(8, by_vocabulary)
    second = Coding("anthropic", "anthropic", "claude-sonnet-4-6", 2)
    second.rewriter.calibration = first.rewriter.calibration
    assert second.play(1, by_vocabulary)[0].error < 0.05


def test_what_a_batch_clears_is_taken_off() -> None:
    """A policy that clears soon: what has left comes off what the provider counted last."""
    eager = Path(__file__).parent.parent / "laws" / "eager.yaml"
    coding = Coding("anthropic", "anthropic", "claude-sonnet-4-6", 5, policy=str(eager))
    shown = coding.play(30, by_vocabulary)
    assert any(after.bytes < before.bytes for before, after in pairwise(shown))
    assert off(shown) == []
