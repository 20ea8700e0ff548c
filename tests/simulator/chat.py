"""Chat requests and the services that answer them, for the tests of the embedded chat services."""

import itertools
import json
from typing import Any

from proxy.simulator.chat import ChatProvider, Flavour
from proxy.simulator.exchange import Answer

Json = dict[str, Any]
TEXT = "The quick brown fox jumps over the lazy dog. " * 200
"""9,000 bytes, 2,250 tokens."""
TOKENS = len(TEXT) // 4


def system(content: Any = "You are terse.") -> Json:
    return {"role": "system", "content": content}


def user(content: Any = "go") -> Json:
    return {"role": "user", "content": content}


def call(call_id: str, name: str = "read", arguments: str = "{}") -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*ids: str, **members: Any) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": [call(name) for name in ids], **members}


def says(content: Any, **members: Any) -> Json:
    return {"role": "assistant", "content": content, **members}


def tool(call_id: str, content: Any = "ok") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def tools(*names: str) -> list[Json]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return [{"type": "function", "function": {"name": name, "parameters": schema}} for name in names]


def body(*messages: Json, model: str = "gpt-5.1", **members: Any) -> Json:
    return {"model": model, "messages": list(messages), **members}


class Service:
    """A chat service and a clock that stands still between requests."""

    def __init__(self, flavour: Flavour, **settings: Any) -> None:
        self.provider = ChatProvider(flavour, **settings)
        self.now = 0.0
        self._numbers = itertools.count()

    def post(self, sent: Json, key: str = "k") -> Answer:
        return self.provider.answer(
            [("authorization", f"Bearer {key}")], json.dumps(sent, ensure_ascii=False).encode(), self.now
        )

    def read(self, sent: Json, key: str = "k") -> int:
        """Tokens that the request read from the cache."""
        answer = self.post(sent, key)
        assert answer.status == 200, answer.body
        return answer.exchange.read

    def error(self, sent: Json) -> tuple[int, Json]:
        """Status and error of a refused request."""
        answer = self.post(sent)
        assert answer.status >= 400
        return answer.status, answer.json.get("error", answer.json)
