"""Between scripts and chat: what a script sees of a request, and what its reply is as a message.

Scripts know the form of Anthropic's bodies; a chat request is shown to them in it.
"""

import hashlib
from typing import Any

import orjson

from ..reply import Ask, Call, Reply, Say, Think, derived_id
from .flavours import Flavour

Json = dict[str, Any]


def ask(body: Json, digest: str) -> Ask:
    """What a script may know of a valid chat request."""
    tools = [
        {"name": tool["function"]["name"], "input_schema": tool["function"].get("parameters") or {}}
        for tool in body.get("tools") or []
        if tool["type"] == "function"
    ]
    shown: Json = {"tools": tools, "messages": [_shown(message) for message in body["messages"]]}
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        shown["output_config"] = {
            "format": {"type": "json_schema", "schema": form["json_schema"].get("schema") or {}}
        }
    return Ask(body=shown, tools=frozenset(tool["name"] for tool in tools), digest=digest)


def _shown(message: Json) -> Json:
    content = message.get("content") or []
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    match message["role"]:
        case "tool" | "function":
            result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id", ""), "content": parts}
            return {"role": "user", "content": [result]}
        case "assistant":
            calls = [
                {"type": "tool_use", "id": call.get("id", "")} for call in message.get("tool_calls") or []
            ]
            return {"role": "assistant", "content": [*parts, *calls]}
        case "system" | "developer":
            return {"role": "system", "content": parts}
        case _:
            return {"role": "user", "content": parts}


def message(reply: Reply, flavour: Flavour, history: str, thought: str | None) -> Json:
    """The assistant message of a reply. `thought`: reasoning where the script says none; None for none at all."""
    texts = [block.text for block in reply.blocks if isinstance(block, Say)]
    thoughts = [block.text for block in reply.blocks if isinstance(block, Think)]
    made: Json = {"role": "assistant", "content": "".join(texts) or None}
    if thought is not None:
        made["reasoning_content"] = "".join(thoughts) or thought
    if flavour.name == "openai":
        made["refusal"] = None
    calls = [
        _call(block, _call_id(block, flavour, history, nth))
        for nth, block in enumerate(block for block in reply.blocks if isinstance(block, Call))
    ]
    if calls:
        made["tool_calls"] = calls
    return made


def _call(call: Call, call_id: str) -> Json:
    arguments = orjson.dumps(call.input).decode()
    return {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _call_id(call: Call, flavour: Flavour, history: str, nth: int) -> str:
    """An id of the service's own form that depends on the history alone."""
    if call.id is not None:
        return call.id
    match flavour.call_ids:
        case "functions":
            turn = int(hashlib.blake2b(history.encode(), digest_size=2).hexdigest(), 16)
            return f"functions.{call.name}:{turn + nth}"
        case "nine":
            return hashlib.blake2b(f"{history}/{nth}".encode(), digest_size=5).hexdigest()[:9]
        case "call":
            return derived_id("call", history, str(nth))


def finish_reason(reply: Reply) -> str:
    """The reply's reason to stop, in the words of chat."""
    words = {
        "tool_use": "tool_calls",
        "end_turn": "stop",
        "max_tokens": "length",
        "refusal": "content_filter",
    }
    return words.get(reply.reason, reply.reason)
