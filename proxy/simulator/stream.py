"""An answer on the wire: one JSON body, or the events of a stream [C1 C2 C3]."""

from collections.abc import Iterator
from typing import Any

import msgspec
import orjson

from .usage import Usage

Json = dict[str, Any]
_PIECES = 3


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A finished answer before it is written out."""

    id: str
    model: str
    content: tuple[Json, ...]
    stop_reason: str
    usage: Usage
    members: Json
    """Members beside the usual ones that stand on `message_start` too [C5]."""
    applied_edits: tuple[Json, ...] | None = None
    """What context editing did; None where it was not asked for [E5]."""

    def start(self, usage: Json, *, streaming: bool) -> Json:
        """The message as one object; a stream begins with it, empty and not yet stopped."""
        body: Json = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [] if streaming else list(self.content),
            "stop_reason": None if streaming else self.stop_reason,
            "stop_sequence": None,
            "usage": usage,
            **self.members,
        }
        if self.applied_edits is not None:
            body["context_management"] = None if streaming else {"applied_edits": list(self.applied_edits)}
        return body


def body(message: Message) -> bytes:
    """The answer to a request that does not stream."""
    return orjson.dumps(message.start(message.usage.wire(), streaming=False))


def events(message: Message) -> Iterator[bytes]:
    """The answer as server-sent events, each with its `event:` line, a ping behind the first."""
    start = message.start(message.usage.wire(output_tokens=1), streaming=True)
    yield event({"type": "message_start", "message": start})
    yield event({"type": "ping"})
    for index, block in enumerate(message.content):
        yield event({"type": "content_block_start", "index": index, "content_block": _opened(block)})
        for delta in _deltas(block):
            yield event({"type": "content_block_delta", "index": index, "delta": delta})
        yield event({"type": "content_block_stop", "index": index})
    last: Json = {
        "type": "message_delta",
        "delta": {"stop_reason": message.stop_reason, "stop_sequence": None},
        "usage": message.usage.wire(),
    }
    if message.applied_edits is not None:
        last["context_management"] = {"applied_edits": list(message.applied_edits)}
    yield event(last)
    yield event({"type": "message_stop"})


def event(data: Json) -> bytes:
    """One event; its name is the type of its data."""
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), orjson.dumps(data))


def error_event(kind: str = "overloaded_error", message: str = "Overloaded") -> bytes:
    """A failure after the answer has begun [C4]."""
    return event({"type": "error", "error": {"type": kind, "message": message}})


def _opened(block: Json) -> Json:
    match block["type"]:
        case "text":
            return {"type": "text", "text": ""}
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "tool_use":
            return {**block, "input": {}}
        case _:
            return block


def _deltas(block: Json) -> Iterator[Json]:
    match block["type"]:
        case "text":
            for piece in _split(block["text"]):
                yield {"type": "text_delta", "text": piece}
        case "thinking":
            for piece in _split(block["thinking"]):
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            yield {"type": "input_json_delta", "partial_json": ""}
            for piece in _split(orjson.dumps(block["input"]).decode()):
                yield {"type": "input_json_delta", "partial_json": piece}
        case _:
            return


def _split(text: str) -> Iterator[str]:
    size = max(1, -(-len(text) // _PIECES))
    for at in range(0, len(text), size):
        yield text[at : at + size]
