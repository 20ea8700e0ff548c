"""Calls and their results in a request of any wire format."""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def calls(sent: Json) -> list[str]:
    """Ids of all calls in the history, in order; a place and a name where a call has no id."""
    return [name for kind, name in _pairs(sent) if kind == "call"]


def answers(sent: Json) -> list[str]:
    """Ids of all results in the history, in order."""
    return [name for kind, name in _pairs(sent) if kind == "answer"]


def _pairs(sent: Json) -> Iterator[tuple[str, str]]:
    if "contents" in sent:
        yield from _gemini(sent["contents"])
    elif "messages" in sent:
        for message in sent["messages"]:
            yield from _message(message)
    else:
        for item in sent["input"] if isinstance(sent["input"], list) else []:
            kind = item.get("type", "message")
            if kind.endswith("_call"):
                yield "call", item["call_id"]
            elif kind.endswith("_output"):
                yield "answer", item["call_id"]


def _message(message: Json) -> Iterator[tuple[str, str]]:
    if message["role"] == "tool":
        yield "answer", message["tool_call_id"]
    for call in message.get("tool_calls") or ():
        yield "call", call["id"]
    for block in message["content"] if isinstance(message.get("content"), list) else ():
        if block.get("type") == "tool_use":
            yield "call", block["id"]
        elif block.get("type") == "tool_result":
            yield "answer", block["tool_use_id"]


def _gemini(contents: list[Json]) -> Iterator[tuple[str, str]]:
    """Where calls have no ids, results follow them in number and name, in the turn behind theirs."""
    for at, content in enumerate(contents):
        turn = at if content.get("role") == "model" else at - 1
        for nth, part in enumerate(content["parts"]):
            for member, kind in (("functionCall", "call"), ("functionResponse", "answer")):
                if member in part:
                    one = part[member]
                    yield kind, one.get("id") or f"{turn}/{one['name']}"
