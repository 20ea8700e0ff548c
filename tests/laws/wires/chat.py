"""OpenAI Chat Completions, at the services that speak it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from msgspec import structs

from proxy.dialects.chat_parts import REASONING
from proxy.dialects.openai_chat import OpenAIChat
from proxy.rawjson import members
from proxy.simulator.chat import FLAVOURS, ChatProvider, Flavour
from proxy.simulator.chat import pairing, reasoning, render, schema
from proxy.simulator.chat.refusal import ChatRefusal
from proxy.simulator.exchange import Answer
from proxy.stages.alternate import BETWEEN
from proxy.usage import openai_chat_usage
from tests.laws.spelling import Style, spell
from tests.laws.wires import Asked, Heard, Json, Spot, canonical, kind_of, text
from tests.laws.wires.anthropic import unframed

FLAVOUR = {
    "openai": "openai",
    "deepseek": "deepseek",
    "moonshot": "kimi",
    "mistral": "mistral",
    "glm": "zai",
    "llama.cpp": "llama.cpp",
    "vllm": "vllm",
}
MODELS = {
    "openai": ("gpt-5.1", "gpt-5.6"),
    "deepseek": ("deepseek-v4-pro", "deepseek-v4-flash"),
    "moonshot": ("kimi-k3", "kimi-k3.1-pro"),
    "mistral": ("mistral-large", "devstral"),
    "glm": ("glm-5.2", "glm-4.6"),
}


class ChatWire:
    """See `Wire`."""

    name = "openai_chat"
    dialect = OpenAIChat()
    headers = (("authorization", "Bearer sk-test"), ("content-type", "application/json"))
    upstreams = ("openai", "deepseek", "moonshot", "mistral", "glm", "llama.cpp", "vllm", "unknown")
    moves = frozenset({"strip_thinking"})

    def models(self, upstream: str) -> tuple[str, ...]:
        """See `Wire.models`."""
        return MODELS.get(upstream, ("qwen3", "gpt-oss"))

    def provider(self, upstream: str) -> ChatProvider:
        """See `Wire.provider`."""
        return ChatProvider(_flavour(upstream))

    def path(self, model: str) -> str:
        """See `Wire.path`."""
        del model
        return "/v1/chat/completions"

    def body(self, asked: Asked, style: Style) -> bytes:
        """See `Wire.body`."""
        members: Json = {"model": asked.model}
        system = "\n".join(block["text"] for block in asked.system)
        messages: list[Json] = [{"role": "system", "content": [text(system)] if style.flip else system}]
        for message in asked.messages:
            messages += _spelt(message, style)
        members["messages"] = messages
        members["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool["name"],
                    "description": tool["description"],
                    "parameters": tool["input_schema"],
                },
            }
            for tool in asked.tools
        ]
        if asked.unknown:
            members["metadata"] = {"user_id": "né"}
        if style.order == 1:
            members = dict(reversed(members.items()))
        return spell(members, style)

    def heard(self, answer: Answer) -> Heard:
        """See `Wire.heard`."""
        message = answer.json["choices"][0]["message"]
        content: list[Json] = []
        if message.get("reasoning_content"):
            content.append({"type": "thinking", "thinking": message["reasoning_content"], "signature": ""})
        if message.get("content"):
            content.append(text(message["content"]))
        calls = message.get("tool_calls") or []
        content += [
            {
                "type": "tool_use",
                "id": call["id"],
                "name": call["function"]["name"],
                "input": orjson.loads(call["function"]["arguments"]),
            }
            for call in calls
        ]
        return Heard(content, openai_chat_usage(answer.json["usage"]), tuple(call["id"] for call in calls))

    def complaints(self, body: bytes, upstream: str, model: str) -> frozenset[str]:
        """See `Wire.complaints`."""
        del model
        flavour = _flavour(upstream)
        try:
            parsed = orjson.loads(body)
        except orjson.JSONDecodeError:
            return frozenset({"arrival: not JSON"})
        found = set()
        for name, check in (
            ("schema", lambda: schema.check(parsed, flavour)),
            ("pairing", lambda: pairing.check(parsed["messages"], flavour)),
            ("reasoning", lambda: reasoning.check(parsed, flavour)),
        ):
            try:
                check()
            except ChatRefusal as refusal:
                found.add(f"{name}: {kind_of(refusal.message)}")
            except (KeyError, TypeError, AttributeError, IndexError):
                if not found:
                    raise
        return frozenset(found)

    def prompt(self, body: bytes, *, hidden: bool) -> list[Spot]:
        """See `Wire.prompt`. What a template strips of its own accord is in it."""
        del hidden
        parsed = orjson.loads(body)
        flavour = structs.replace(FLAVOURS["openai"], renders="all")
        front = sum(1 for message in parsed["messages"] if message["role"] in ("system", "developer"))
        pieces = render.prompt(parsed, flavour)
        ends = [
            len(render.prompt({**parsed, "messages": parsed["messages"][: at + 1]}, flavour))
            for at in range(len(parsed["messages"]))
        ]
        turns = [next(at for at, end in enumerate(ends) if place < end) for place in range(len(pieces))]
        return [
            Spot(f"messages.{turn}: {piece.text[:60]!r}", piece.chain, turn if turn >= front else -1)
            for piece, turn in zip(pieces, turns, strict=True)
        ]

    def last_answer(self, body: bytes) -> int:
        """See `Wire.last_answer`. What we put between two turns is no answer."""
        places = [
            at
            for at, message in enumerate(orjson.loads(body)["messages"])
            if message["role"] == "assistant" and message.get("content") != BETWEEN
        ]
        return max(places, default=-1)

    def slices(self, body: bytes) -> None:
        """See `Wire.slices`."""
        del body

    def pieces(self, raw: bytes) -> list[bytes]:
        """See `Wire.pieces`. Reasoning is a member of its message, so its value is what the client wrote."""
        pairs = members(raw) if raw[:1] == b"{" else []
        return (
            [bytes(value) for _, value in pairs] if {*dict(pairs)} <= {*REASONING} and pairs else [bytes(raw)]
        )

    def said(self, body: bytes) -> set[object]:
        """See `Wire.said`."""
        found: set[object] = set()
        for message in orjson.loads(body)["messages"]:
            content = message.get("content") or []
            for part in [text(content)] if isinstance(content, str) else content:
                if part.get("type") == "text":
                    role = "system" if message["role"] == "developer" else message["role"]
                    found |= {(role, part["text"]), ("system", unframed(part["text"]))}
            for call in message.get("tool_calls") or []:
                found.add((call["function"]["name"], canonical(call["function"]["arguments"])))
        return found


def _flavour(upstream: str) -> Flavour:
    return FLAVOURS[FLAVOUR.get(upstream, "vllm")]


def _spelt(message: Json, style: Style) -> Iterator[Json]:
    """The wire messages of one: a result is a message of its own, and so is what stands between results."""
    content = message["content"]
    blocks = [text(content)] if isinstance(content, str) else content
    if message["role"] == "assistant":
        yield _answer(blocks, style)
        return
    run: list[Json] = []
    for block in blocks:
        if block["type"] != "tool_result":
            run.append(block)
            continue
        if run:
            yield {"role": message["role"], "content": _content(run, style)}
            run = []
        yield {
            "role": "tool",
            "tool_call_id": block["tool_use_id"],
            "content": _content(
                [text(block["content"])] if isinstance(block["content"], str) else block["content"], style
            ),
        }
    if run or not blocks:
        yield {"role": message["role"], "content": _content(run, style)}


def _answer(blocks: list[Json], style: Style) -> Json:
    said = [block for block in blocks if block["type"] not in ("tool_use", "thinking")]
    thought = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {
                "name": block["name"],
                "arguments": _arguments(block["input"], style),
            },
        }
        for block in blocks
        if block["type"] == "tool_use"
    ]
    made: Json = {"role": "assistant", "content": _content(said, style) if said else None}
    if not said and not calls:
        made["content"] = ""
    if thought:
        made["reasoning_content"] = thought
    if calls:
        made["tool_calls"] = calls
    return made


def _arguments(given: object, style: Style) -> str:
    """The arguments as a string: clients that hold them as objects print them in an order of their own."""
    whole = spell({"input": given}, Style(order=style.order)).decode()
    return whole[whole.index(":") + 1 : -1].strip()


def _content(blocks: list[Json], style: Style) -> Any:
    if len(blocks) == 1 and set(blocks[0]) == {"type", "text"} and not style.flip and not style.empties:
        return blocks[0]["text"]
    parts = [_part(block) for block in blocks]
    return [*parts, text("")] if style.empties or not parts else parts


def _part(block: Json) -> Json:
    if block["type"] == "image":
        source = block["source"]
        return {
            "type": "image_url",
            "image_url": {"url": f"data:{source['media_type']};base64,{source['data']}"},
        }
    return block
