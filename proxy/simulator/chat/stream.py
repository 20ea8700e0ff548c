"""An answer on the wire: one object, or chunks and `[DONE]` [C100]."""

from collections.abc import Iterator
from typing import Any

import msgspec
import orjson

Json = dict[str, Any]
DONE = b"data: [DONE]\n\n"
_PIECES = 3


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A finished answer. `include_usage`: the stream ends with usage; `timings` is llama.cpp's own."""

    id: str
    model: str
    created: int
    message: Json
    finish_reason: str
    usage: Json
    include_usage: bool = False
    timings: Json | None = None


def body(answer: Completion) -> bytes:
    """The answer to a request that does not stream."""
    choice = {
        "index": 0,
        "message": answer.message,
        "logprobs": None,
        "finish_reason": answer.finish_reason,
    }
    whole = {**_head(answer, "chat.completion"), "choices": [choice], "usage": answer.usage}
    return orjson.dumps(whole if answer.timings is None else {**whole, "timings": answer.timings})


def chunks(answer: Completion) -> Iterator[bytes]:
    """The answer as server-sent events; usage only where it was asked for."""
    message = answer.message
    yield _chunk(answer, {"role": "assistant", "content": "" if message.get("content") else None})
    for name in ("reasoning_content", "content"):
        for piece in _split(message.get(name) or ""):
            yield _chunk(answer, {name: piece})
    for index, call in enumerate(message.get("tool_calls") or []):
        opened = {**call, "function": {**call["function"], "arguments": ""}}
        yield _chunk(answer, {"tool_calls": [{"index": index, **opened}]})
        for piece in _split(call["function"]["arguments"]):
            yield _chunk(answer, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk(answer, {}, answer.finish_reason)
    if answer.include_usage:
        yield event({**_head(answer, "chat.completion.chunk"), "choices": [], "usage": answer.usage})
    yield DONE


def event(data: Json) -> bytes:
    """One event."""
    return b"data: %s\n\n" % orjson.dumps(data)


def error_event(message: str = "The server had an error while processing your request.") -> bytes:
    """A failure after the answer has begun."""
    return event({"error": {"message": message, "type": "server_error", "param": None, "code": None}})


def _head(answer: Completion, kind: str) -> Json:
    return {"id": answer.id, "object": kind, "created": answer.created, "model": answer.model}


def _chunk(answer: Completion, delta: Json, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk: Json = {**_head(answer, "chat.completion.chunk"), "choices": [choice]}
    if answer.include_usage:
        chunk["usage"] = None
    if finish is not None and answer.timings is not None:
        chunk["timings"] = answer.timings
    return event(chunk)


def _split(text: str) -> Iterator[str]:
    size = max(1, -(-len(text) // _PIECES))
    for at in range(0, len(text), size):
        yield text[at : at + size]
