"""The bodies of `workload.py` in the other wire formats: the same words, as the agents of those formats send them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

Json = dict[str, Any]

MODELS = {"openai_chat": "gpt-5.1", "openai_responses": "gpt-5.1", "gemini": "gemini-3-pro"}
PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-3-pro:streamGenerateContent",
}
UPSTREAMS = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "gemini",
}


def spelt(body: bytes, wire: str) -> bytes:
    """A request of the Messages format in another one; marks are left out."""
    if wire == "anthropic":
        return body
    asked = orjson.loads(body)
    system = "\n".join(block["text"] for block in asked["system"])
    made = {"openai_chat": _chat, "openai_responses": _responses, "gemini": _gemini}[wire](asked, system)
    return orjson.dumps(made)


def _chat(asked: Json, system: str) -> Json:
    messages: list[Json] = [{"role": "system", "content": system}]
    for message in asked["messages"]:
        messages += _chat_messages(message)
    return {
        "model": MODELS["openai_chat"],
        "messages": messages,
        "tools": [{"type": "function", "function": _function(tool, "parameters")} for tool in asked["tools"]],
        "prompt_cache_key": "bench",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _chat_messages(message: Json) -> Iterator[Json]:
    texts = "\n".join(block["text"] for block in message["content"] if block["type"] == "text")
    if message["role"] == "assistant":
        calls = [
            {
                "id": block["id"],
                "type": "function",
                "function": {"name": block["name"], "arguments": orjson.dumps(block["input"]).decode()},
            }
            for block in message["content"]
            if block["type"] == "tool_use"
        ]
        yield {"role": "assistant", "content": texts, "tool_calls": calls}
        return
    for block in message["content"]:
        if block["type"] == "tool_result":
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": block["content"]}
    if texts:
        yield {"role": "user", "content": texts}


def _responses(asked: Json, system: str) -> Json:
    items: list[Json] = []
    for message in asked["messages"]:
        items += map(_item, [message["role"]] * len(message["content"]), message["content"])
    return {
        "model": MODELS["openai_responses"],
        "instructions": system,
        "input": items,
        "tools": [{"type": "function", **_function(tool, "parameters")} for tool in asked["tools"]],
        "prompt_cache_key": "bench",
        "store": False,
        "stream": True,
    }


def _item(role: str, block: Json) -> Json:
    match block["type"]:
        case "tool_use":
            arguments = orjson.dumps(block["input"]).decode()
            return {
                "type": "function_call",
                "call_id": block["id"],
                "name": block["name"],
                "arguments": arguments,
            }
        case "tool_result":
            return {
                "type": "function_call_output",
                "call_id": block["tool_use_id"],
                "output": block["content"],
            }
        case _:
            kind = "output_text" if role == "assistant" else "input_text"
            return {"type": "message", "role": role, "content": [{"type": kind, "text": block["text"]}]}


def _gemini(asked: Json, system: str) -> Json:
    names = {
        block["id"]: block["name"]
        for message in asked["messages"]
        for block in message["content"]
        if block["type"] == "tool_use"
    }
    return {
        "contents": [
            {
                "role": "model" if message["role"] == "assistant" else "user",
                "parts": [_part(block, names) for block in message["content"]],
            }
            for message in asked["messages"]
        ],
        "systemInstruction": {"parts": [{"text": system}]},
        "tools": [
            {"functionDeclarations": [_function(tool, "parametersJsonSchema") for tool in asked["tools"]]}
        ],
    }


def _part(block: Json, names: dict[str, str]) -> Json:
    match block["type"]:
        case "tool_use":
            return {
                "functionCall": {"id": block["id"], "name": block["name"], "args": block["input"]},
                "thoughtSignature": "c2lnbmF0dXJl",
            }
        case "tool_result":
            call = block["tool_use_id"]
            return {
                "functionResponse": {
                    "id": call,
                    "name": names[call],
                    "response": {"output": block["content"]},
                }
            }
        case _:
            return {"text": block["text"]}


def _function(tool: Json, schema: str) -> Json:
    return {"name": tool["name"], "description": tool["description"], schema: tool["input_schema"]}
