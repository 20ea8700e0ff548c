"""An answer as server-sent events: numbered, one terminal event, usage in it alone, no `[DONE]` [C101 C102]."""

from collections.abc import Iterator
from typing import Any

import orjson

Json = dict[str, Any]
_PIECES = 3
_ARGUMENTS = {
    "function_call": ("arguments", "response.function_call_arguments"),
    "custom_tool_call": ("input", "response.custom_tool_call_input"),
}
_TERMINAL = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
}


def events(response: Json, fail_after: int | None = None) -> Iterator[bytes]:
    """The events of a finished response; with `fail_after` it fails behind so many."""
    for number, data in enumerate(_all(response)):
        if number == fail_after:
            error = {
                "code": "server_error",
                "message": "An error occurred while processing your request.",
            }
            failed = {**_begun(response), "status": "failed", "error": error}
            yield _event({"type": "response.failed", "response": failed}, number)
            return
        yield _event(data, number)


def _event(data: Json, number: int) -> bytes:
    whole = {"type": data["type"], "sequence_number": number, **data}
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), orjson.dumps(whole))


def _begun(response: Json) -> Json:
    """The response before anything is in it."""
    return {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}


def _all(response: Json) -> Iterator[Json]:
    yield {"type": "response.created", "response": _begun(response)}
    yield {"type": "response.in_progress", "response": _begun(response)}
    for index, item in enumerate(response["output"]):
        started, inside = _opened(item)
        yield {"type": "response.output_item.added", "output_index": index, "item": started}
        for data in inside:
            yield {"item_id": item["id"], "output_index": index, **data}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": _TERMINAL[response["status"]], "response": response}


def _opened(item: Json) -> tuple[Json, Iterator[Json]]:
    """An item as it begins, and what happens until it is done."""
    match item["type"]:
        case "message":
            return {**item, "status": "in_progress", "content": []}, _message(item)
        case "reasoning":
            return {**item, "summary": [], "encrypted_content": ""}, _summary(item)
        case "function_call" | "custom_tool_call":
            name, kind = _ARGUMENTS[item["type"]]
            return {**item, "status": "in_progress", name: ""}, _arguments(item[name], name, kind)
        case "compaction":
            return {**item, "encrypted_content": ""}, iter([{"type": "response.compaction.compacting"}])
        case _:
            return {**item, "status": "in_progress"}, iter(())


def _message(item: Json) -> Iterator[Json]:
    for index, part in enumerate(item["content"]):
        name, kind = ("text", "output_text") if part["type"] == "output_text" else ("refusal", "refusal")
        extra: Json = {"logprobs": []} if kind == "output_text" else {}
        at = {"content_index": index}
        yield {"type": "response.content_part.added", **at, "part": {**part, name: ""}}
        for piece in _split(part[name]):
            yield {"type": f"response.{kind}.delta", **at, "delta": piece, **extra}
        yield {"type": f"response.{kind}.done", **at, name: part[name], **extra}
        yield {"type": "response.content_part.done", **at, "part": part}


def _summary(item: Json) -> Iterator[Json]:
    for index, part in enumerate(item["summary"]):
        at = {"summary_index": index}
        yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
        for piece in _split(part["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **at, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", **at, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **at, "part": part}


def _arguments(text: str, name: str, kind: str) -> Iterator[Json]:
    for piece in _split(text):
        yield {"type": f"{kind}.delta", "delta": piece}
    yield {"type": f"{kind}.done", name: text}


def _split(text: str) -> Iterator[str]:
    size = max(1, -(-len(text) // _PIECES))
    for at in range(0, len(text), size):
        yield text[at : at + size]
