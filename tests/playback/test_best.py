"""The best schedule in hindsight, charged by the provider of each format."""

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.models import Models
from proxy.playback import replay
from proxy.playback.figures import Line
from proxy.recording import Recorded, line

TURNS = 24
OUTPUT = "a line of output\n" * 500
SIGNED = "EqQBCkYIAxgC"
"""Begins what another provider signed."""


def recorded(path: str, body: dict[str, Any], turn: int, dialect: str, upstream: str) -> Recorded:
    """A request: every twelve seconds, and in the middle after an hour."""
    at = 1_796_082_840.0 + 12 * turn + (3600 if turn >= TURNS * 2 // 3 else 0)
    return Recorded(
        path=path,
        headers={"anthropic-version": "2023-06-01"} if dialect == "anthropic" else {},
        body=json.dumps(body),
        at=at,
        dialect=dialect,
        upstream=upstream,
        profile=upstream,
        status=200,
    )


def messages(model: str) -> list[Recorded]:
    """The Messages format, with thinking that another provider signed, and a mark at the tail."""
    said: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "Mend it."}]}]
    made = []
    for turn in range(TURNS):
        last = said[-1]
        marked = [*last["content"][:-1], last["content"][-1] | {"cache_control": {"type": "ephemeral"}}]
        tool = {"name": "run", "input_schema": {"type": "object"}}
        body = {"model": model, "max_tokens": 9000, "tools": [tool], "thinking": {"type": "adaptive"}}
        made.append(
            recorded(
                "/v1/messages",
                body | {"messages": [*said[:-1], last | {"content": marked}]},
                turn,
                "anthropic",
                "anthropic",
            )
        )
        name = f"toolu_{turn:024d}"
        thought = {"type": "thinking", "thinking": "Hm.", "signature": f"{SIGNED}{turn:06d}"}
        call = {"type": "tool_use", "id": name, "name": "run", "input": {"cmd": f"make {turn}"}}
        result = {"type": "tool_result", "tool_use_id": name, "content": f"{turn}\n{OUTPUT}"}
        said += [{"role": "assistant", "content": [thought, call]}, {"role": "user", "content": [result]}]
    return made


def chat() -> list[Recorded]:
    """Chat completions."""
    said: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Mend it."}]
    made = []
    for turn in range(TURNS):
        tool = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
        body = {"model": "gpt-5.2", "messages": [*said], "tools": [tool]}
        made.append(recorded("/v1/chat/completions", body, turn, "openai_chat", "openai"))
        name = f"call_{turn:024d}"
        call = {
            "id": name,
            "type": "function",
            "function": {"name": "run", "arguments": f'{{"cmd": "{turn}"}}'},
        }
        said += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": name, "content": f"{turn}\n{OUTPUT}"},
        ]
    return made


def responses() -> list[Recorded]:
    """The Responses format, with reasoning that another provider sealed."""
    said: list[Any] = [{"type": "message", "role": "user", "content": "Mend it."}]
    made = []
    for turn in range(TURNS):
        tool = {"type": "function", "name": "run", "parameters": {"type": "object"}, "strict": False}
        body = {"model": "gpt-5.6", "input": [*said], "tools": [tool], "store": False}
        body["include"] = ["reasoning.encrypted_content"]
        made.append(recorded("/v1/responses", body, turn, "openai_responses", "openai"))
        name = f"call_{turn:024d}"
        sealed = {
            "type": "reasoning",
            "id": f"rs_{turn}",
            "summary": [],
            "encrypted_content": f"gAAAAAB{turn:040d}",
        }
        call = {"type": "function_call", "call_id": name, "name": "run", "arguments": f'{{"cmd": "{turn}"}}'}
        output = {"type": "function_call_output", "call_id": name, "output": f"{turn}\n{OUTPUT}"}
        said += [sealed, call, output]
    return made


def gemini() -> list[Recorded]:
    """The Gemini format, with calls that another provider signed."""
    said: list[Any] = [{"role": "user", "parts": [{"text": "Mend it."}]}]
    made = []
    for turn in range(TURNS):
        tool = {"functionDeclarations": [{"name": "run", "parametersJsonSchema": {"type": "object"}}]}
        path = "/v1beta/models/gemini-3.5-flash:generateContent"
        made.append(recorded(path, {"contents": [*said], "tools": [tool]}, turn, "gemini", "gemini"))
        call = {"functionCall": {"name": "run", "args": {"cmd": f"{turn}"}}, "thoughtSignature": "Q2lRQg=="}
        answer = {"functionResponse": {"name": "run", "response": {"output": f"{turn}\n{OUTPUT}"}}}
        said += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [answer]}]
    return made


@pytest.mark.parametrize(
    "session",
    [
        messages("claude-opus-5"),
        messages("claude-opus-5-5"),
        chat(),
        responses(),
        gemini(),
    ],
    ids=["messages", "prefix checked", "chat", "responses", "gemini"],
)
def test_what_is_sent_in_hindsight_is_taken(tmp_path: Path, session: list[Recorded]) -> None:
    """Old results go where the pause has emptied the cache anyway: nothing is refused, no thinking stands behind a
    change, and it costs no more than any policy, nor than leaving all."""
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"".join(map(line, session)))
    (found,) = replay([file], ["careful", "default"], Models.load()).sessions
    rows: dict[str, Line] = {one.path: one for one in found.lines}
    best = rows["hindsight"]
    assert found.notes == []
    assert {(one.requests, one.refused) for one in found.lines} == {(TURNS, 0)}
    assert best.batches is not None
    assert best.batches >= 1
    assert best.prompt is not None
    assert best.prompt < (rows["careful"].prompt or 0)
    assert best.cost <= 1.001 * min(rows["careful"].cost, rows["default"].cost)
