"""The words of an answer to a question of ours, and why they are none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.answer import READERS, Words
from proxy.answer.words import LONGEST
from proxy.sse import Event


def document(dialect: str, value: Any) -> tuple[str, str]:
    """What a whole answer says, and its fault."""
    words = Words(dialect, READERS[dialect]())
    words.document(json.dumps(value).encode())
    return words.text, words.fault


def stream(dialect: str, *events: tuple[str, Any]) -> tuple[str, str]:
    """The same of a stream."""
    words = Words(dialect, READERS[dialect]())
    for name, value in events:
        words.event(Event(name, json.dumps(value).encode()))
    return words.text, words.fault


def message(*blocks: Any, stop: str | None = "end_turn") -> Any:
    return {"type": "message", "content": list(blocks), "stop_reason": stop}


def text(words: str) -> Any:
    return {"type": "text", "text": words}


def completion(reason: str | None = "stop", **said: Any) -> Any:
    return {"choices": [{"index": 0, "message": said, "finish_reason": reason}]}


def response(*items: Any, **members: Any) -> Any:
    return {"object": "response", "status": "completed", "output": list(items), **members}


def content(*parts: Any, reason: str | None = "STOP") -> Any:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": reason}]}


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
SAID = {"type": "message", "content": [{"type": "output_text", "text": "The fan"}]}


@pytest.mark.parametrize(
    ("dialect", "value"),
    [
        ("anthropic", message(THOUGHT, text("The "), text("fan"))),
        ("openai_chat", completion(content="The fan", reasoning_content="Hm.")),
        ("openai_chat", completion(content=[text("The "), text("fan")])),
        ("openai_responses", response({"type": "reasoning", "id": "rs_1", "summary": []}, SAID)),
        ("gemini", content({"text": "Hm.", "thought": True}, {"text": "The fan"})),
        ("gemini", {"response": content({"text": "The fan"})}),
        ("gemini", [content({"text": "The "}, reason=None), content({"text": "fan"})]),
    ],
)
def test_a_whole_answer_says_what_it_says(dialect: str, value: Any) -> None:
    """Without what the model thought."""
    assert document(dialect, value) == ("The fan", "")


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        (
            "anthropic",
            [
                ("message_start", {"type": "message_start", "message": {"id": "m", "content": []}}),
                ("content_block_delta", {"delta": {"type": "thinking_delta", "thinking": "Hm."}}),
                ("content_block_delta", {"delta": {"type": "text_delta", "text": "The "}}),
                ("content_block_delta", {"delta": {"type": "text_delta", "text": "fan"}}),
                ("message_delta", {"delta": {"stop_reason": "end_turn"}}),
                ("message_stop", {}),
            ],
        ),
        (
            "openai_chat",
            [
                ("message", {"choices": [{"delta": {"role": "assistant", "content": "The "}}]}),
                ("message", {"choices": [{"delta": {"content": "fan"}}]}),
                ("message", {"choices": [{"delta": {}, "finish_reason": "stop"}]}),
            ],
        ),
        (
            "openai_responses",
            [
                ("response.output_text.delta", {"type": "response.output_text.delta", "delta": "The "}),
                ("response.output_text.delta", {"type": "response.output_text.delta", "delta": "fan"}),
                ("response.completed", {"type": "response.completed", "response": response(SAID)}),
            ],
        ),
        (
            "gemini",
            [
                ("message", content({"text": "The "}, reason=None)),
                ("message", content({"text": "fan"})),
            ],
        ),
    ],
)
def test_a_stream_says_the_same(dialect: str, events: list[tuple[str, Any]]) -> None:
    """Piece by piece, and each once; without its end it is none."""
    assert stream(dialect, *events) == ("The fan", "")
    assert stream(dialect, *events[:-1])[1] == "the answer broke off"


@pytest.mark.parametrize(
    ("dialect", "value", "fault"),
    [
        ("anthropic", message(text("The"), stop="max_tokens"), "the answer ended before its end: max_tokens"),
        ("anthropic", message(text("The"), stop="refusal"), "the answer ended before its end: refusal"),
        ("anthropic", message(text(" ")), "the model said nothing"),
        (
            "anthropic",
            message(
                text("I look."), {"type": "tool_use", "id": "t", "name": "run", "input": {}}, stop="tool_use"
            ),
            "the model called a tool instead",
        ),
        ("anthropic", {"error": {"type": "api_error"}}, "an error in the answer: api_error"),
        ("anthropic", [], "the answer broke off"),
        ("openai_chat", completion("length", content="The"), "the answer ended before its end: length"),
        (
            "openai_chat",
            completion(
                "tool_calls", tool_calls=[{"id": "a", "type": "function", "function": {"name": "run"}}]
            ),
            "the model called a tool instead",
        ),
        (
            "openai_responses",
            response(SAID, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "the answer ended before its end: max_output_tokens",
        ),
        (
            "gemini",
            content({"text": "The"}, reason="MAX_TOKENS"),
            "the answer ended before its end: MAX_TOKENS",
        ),
        (
            "gemini",
            content({"text": "I look."}, {"functionCall": {"name": "run", "args": {}}}),
            "the model called a tool instead",
        ),
        ("anthropic", message(text("x" * (LONGEST + 1))), "the answer is too long"),
    ],
)
def test_what_is_no_answer_in_words_says_why(dialect: str, value: Any, fault: str) -> None:
    """Cut by its length, refused, a call of a tool, nothing, an error."""
    assert document(dialect, value)[1] == fault
