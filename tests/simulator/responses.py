"""Requests and a provider for the tests of the embedded Responses API."""

import json
from typing import Any

from proxy.simulator.exchange import Answer
from proxy.simulator.responses import RESPONSES, ResponsesProvider

Json = dict[str, Any]
TEXT = "The quick brown fox jumps over the lazy dog. " * 200
"""9,000 bytes, 2,250 tokens."""
TOKENS = len(TEXT) // 4


def user(content: Any = "go", **members: Any) -> Json:
    return {"type": "message", "role": "user", "content": content, **members}


def developer(content: Any = "Be terse.") -> Json:
    return {"type": "message", "role": "developer", "content": content}


def says(content: Any = "ok", **members: Any) -> Json:
    return {"type": "message", "role": "assistant", "content": content, **members}


def text(words: str, mark: Json | None = None) -> Json:
    part = {"type": "input_text", "text": words}
    return part if mark is None else {**part, "prompt_cache_breakpoint": mark}


def call(call_id: str, name: str = "read", arguments: str = "{}", **members: Any) -> Json:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **members}


def output(call_id: str, result: Any = "ok", **members: Any) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": result, **members}


def custom(call_id: str, name: str = "patch", given: str = "x", **members: Any) -> Json:
    return {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": given, **members}


def custom_output(call_id: str, result: Any = "ok") -> Json:
    return {"type": "custom_tool_call_output", "call_id": call_id, "output": result}


def reasoning(name: str | None = "rs_1", **members: Any) -> Json:
    named = {} if name is None else {"id": name}
    return {"type": "reasoning", **named, "summary": [], **members}


def tool(name: str, **members: Any) -> Json:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return {"type": "function", "name": name, "parameters": schema, **members}


def body(*items: Json, model: str = "gpt-5.6-sol", **members: Any) -> Json:
    return {"model": model, "input": list(items), **members}


def events(answer: Answer) -> list[Json]:
    """The data of a stream, each named as its event."""
    assert answer.events is not None, answer.body
    found = []
    for raw in answer.events:
        head, data = raw.removesuffix(b"\n\n").split(b"\n")
        found.append(json.loads(data.removeprefix(b"data: ")))
        assert head == b"event: " + found[-1]["type"].encode()
    return found


class Service:
    """A provider and a clock that stands still between requests."""

    def __init__(self, **settings: Any) -> None:
        self.provider = ResponsesProvider(**settings)
        self.now = 0.0

    def post(self, sent: Json, key: str = "k", path: str = RESPONSES) -> Answer:
        raw = json.dumps(sent, ensure_ascii=False).encode()
        return self.provider.answer([("authorization", f"Bearer {key}")], raw, self.now, path)

    def taken(self, sent: Json, key: str = "k", path: str = RESPONSES) -> Json:
        """The answer to a request that is not refused."""
        answer = self.post(sent, key, path)
        assert answer.status == 200, answer.body
        return answer.json

    def read(self, sent: Json, key: str = "k") -> int:
        """Tokens that the request read from the cache."""
        answer = self.post(sent, key)
        assert answer.status == 200, answer.body
        return answer.exchange.read

    def error(self, sent: Json, key: str = "k", path: str = RESPONSES) -> tuple[int, Json]:
        """Status and error of a refused request."""
        answer = self.post(sent, key, path)
        assert answer.status >= 400, answer.body
        return answer.status, answer.json.get("error", answer.json)
