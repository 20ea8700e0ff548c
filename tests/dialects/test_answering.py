"""What a request says of its answer, in every format: its limit is moved, and what forbids words is seen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects import DIALECTS

BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {"model": "m", "messages": [{"role": "user", "content": "Hi."}]},
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "Hi."}]},
    "openai_responses": {"model": "m", "input": "Hi."},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]},
}


def bounded(name: str, **members: Any) -> dict[str, Any] | None:
    """The members beside the history, with an answer of 100 to 200 tokens; None where no words may come."""
    dialect = DIALECTS[name]
    body = json.dumps(BODIES[name] | members).encode()
    made = dialect.bounded(dialect.read(dialect.open(body)), 100, 200)
    if made is None:
        return None
    written = json.loads(dialect.write(made))
    assert {key: written[key] for key in BODIES[name]} == BODIES[name]
    return {key: value for key, value in written.items() if key not in BODIES[name]}


@pytest.mark.parametrize(
    ("name", "given", "left"),
    [
        ("anthropic", {"max_tokens": 9}, {"max_tokens": 100}),
        ("anthropic", {"stream": True, "max_tokens": 900}, {"stream": True, "max_tokens": 200}),
        ("anthropic", {"max_tokens": 150, "top_k": 3}, {"max_tokens": 150, "top_k": 3}),
        (
            "anthropic",
            {"max_tokens": 3_000, "thinking": {"type": "enabled", "budget_tokens": 2_000}},
            {"max_tokens": 3_000, "thinking": {"type": "enabled", "budget_tokens": 2_000}},
        ),
        ("openai_chat", {"max_completion_tokens": 900}, {"max_completion_tokens": 200}),
        (
            "openai_chat",
            {"max_tokens": 900, "tool_choice": "auto"},
            {"max_tokens": 200, "tool_choice": "auto"},
        ),
        ("openai_chat", {"max_tokens": None}, {"max_tokens": None}),
        ("openai_chat", {"response_format": {"type": "text"}}, {"response_format": {"type": "text"}}),
        ("openai_responses", {"max_output_tokens": 900}, {"max_output_tokens": 200}),
        ("openai_responses", {"text": {"verbosity": "low"}}, {"text": {"verbosity": "low"}}),
        ("openai_responses", {"text": 7}, {"text": 7}),
        (
            "openai_responses",
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
        ),
        (
            "gemini",
            {"generationConfig": {"topK": 3, "maxOutputTokens": 900}},
            {"generationConfig": {"topK": 3, "maxOutputTokens": 200}},
        ),
        (
            "gemini",
            {"generation_config": {"max_output_tokens": 9}},
            {"generation_config": {"max_output_tokens": 100}},
        ),
        (
            "gemini",
            {"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}},
            {"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}},
        ),
        *((name, {}, {}) for name in BODIES),
    ],
)
def test_a_limit_of_the_clients_is_moved_and_nothing_else(
    name: str, given: dict[str, Any], left: dict[str, Any]
) -> None:
    """Into the bounds where it is outside; none is put where there is none, for names differ and some are refused."""
    assert bounded(name, **given) == left


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("anthropic", {"tool_choice": {"type": "any"}}),
        ("anthropic", {"tool_choice": {"type": "tool", "name": "run"}}),
        ("anthropic", {"output_config": {"format": {"type": "json_schema"}}}),
        ("anthropic", {"output_format": {"type": "json_schema"}}),
        ("openai_chat", {"tool_choice": "required"}),
        ("openai_chat", {"tool_choice": {"type": "function", "function": {"name": "run"}}}),
        ("openai_chat", {"response_format": {"type": "json_object"}}),
        ("openai_responses", {"tool_choice": "required"}),
        ("openai_responses", {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}}),
        ("openai_responses", {"text": {"format": {"type": "json_schema"}}}),
        ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
        ("gemini", {"tool_config": {"function_calling_config": {"mode": "ANY"}}}),
        ("gemini", {"generationConfig": {"responseMimeType": "application/json"}}),
    ],
)
def test_a_forced_call_or_form_is_no_answer_in_words(name: str, given: dict[str, Any]) -> None:
    """Nobody is asked then: to take it out would change what the cache is kept under."""
    assert bounded(name, **given) is None


def test_a_wrapped_request_is_bounded_inside() -> None:
    """As Code Assist sends it; what stands around it stays."""
    inner = BODIES["gemini"] | {"generationConfig": {"maxOutputTokens": 900}}
    body = json.dumps({"model": "m", "request": inner, "project": "p"}).encode()
    dialect = DIALECTS["gemini"]
    made = dialect.bounded(dialect.read(dialect.open(body)), 100, 200)
    assert made is not None
    assert json.loads(dialect.write(made)) == {
        "model": "m",
        "request": inner | {"generationConfig": {"maxOutputTokens": 200}},
        "project": "p",
    }
