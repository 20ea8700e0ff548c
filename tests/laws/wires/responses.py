"""OpenAI Responses: a flat list of items, which name themselves as the model made them [A207]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from proxy.dialects.openai_responses import OpenAIResponses
from proxy.simulator.chat.refusal import ChatRefusal
from proxy.simulator.exchange import Answer
from proxy.simulator.responses import ResponsesProvider
from proxy.simulator.responses import pairing, render, schema
from proxy.simulator.responses.facts import has_marks, reasons
from proxy.simulator.responses.items import kind_of as item_kind
from proxy.simulator.responses.reading import said
from proxy.stages.alternate import BETWEEN
from proxy.usage import openai_responses_usage
from tests.laws.spelling import Style, spell
from tests.laws.wires import Asked, Heard, Json, Spot, canonical, kind_of, text
from tests.laws.wires.anthropic import unframed

MODELS = {"openai": ("gpt-5.5", "gpt-6.1-sol", "gpt-4.1")}
MARK = {"mode": "explicit"}
SPOKEN = frozenset({*pairing.CALLS, "reasoning", "web_search_call"})
"""Items of the model's that are no messages."""


class ResponsesWire:
    """See `Wire`."""

    name = "openai_responses"
    dialect = OpenAIResponses()
    headers = (("authorization", "Bearer sk-test"), ("content-type", "application/json"))
    upstreams = ("openai", "unknown")
    moves = frozenset({"server_tool", "server_tool_open", "strip_thinking"})

    def models(self, upstream: str) -> tuple[str, ...]:
        """See `Wire.models`."""
        return MODELS.get(upstream, ("qwen3", "gpt-oss"))

    def provider(self, upstream: str) -> ResponsesProvider:
        """See `Wire.provider`."""
        del upstream
        return ResponsesProvider()

    def path(self, model: str) -> str:
        """See `Wire.path`."""
        del model
        return "/v1/responses"

    def body(self, asked: Asked, style: Style) -> bytes:
        """See `Wire.body`. Clients of the newest models send their prompt as a developer's message, others apart."""
        system = "\n".join(block["text"] for block in asked.system)
        items = [item for message in asked.messages for item in _items(message, style)]
        members: Json = {"model": asked.model, "instructions": system}
        if has_marks(asked.model):
            del members["instructions"]
            items.insert(0, {"type": "message", "role": "developer", "content": _parts([text(system)])})
            _mark(items, style)
        members |= {"input": items, "tools": [*map(_tool, asked.tools)]}
        if reasons(asked.model):
            members["reasoning"] = {"effort": "medium" if asked.thinks else "none"}
        members |= {"store": False, "include": ["reasoning.encrypted_content"]}
        if asked.unknown:
            members["metadata"] = {"user_id": "né"}
        if style.order == 1:
            members = dict(reversed(members.items()))
        return spell(members, style)

    def heard(self, answer: Answer) -> Heard:
        """See `Wire.heard`. Each block keeps the item it came as."""
        items = answer.json["output"]
        calls = tuple(item["call_id"] for item in items if "call_id" in item)
        return Heard([*map(_block, items)], openai_responses_usage(answer.json["usage"]), calls)

    def complaints(self, body: bytes, upstream: str, model: str) -> frozenset[str]:
        """See `Wire.complaints`."""
        del upstream, model
        try:
            parsed = orjson.loads(body)
        except orjson.JSONDecodeError:
            return frozenset({"arrival: not JSON"})
        items = said(parsed)
        checks: dict[str, Callable[[], None]] = {
            "schema": lambda: schema.check(parsed),
            "unique": lambda: pairing._unique(items),
            "paired": lambda: pairing._paired(items),
            "followed": lambda: pairing._followed(items, {}),
        }
        found = set()
        for name, check in checks.items():
            try:
                check()
            except ChatRefusal as refusal:
                found.add(f"{name}: {kind_of(refusal.message)}")
            except (KeyError, TypeError, AttributeError, IndexError):
                if not found:
                    raise
        return frozenset(found)

    def prompt(self, body: bytes, *, hidden: bool) -> list[Spot]:
        """See `Wire.prompt`. All reasoning is in it, whether or not the model is shown it."""
        del hidden
        parsed = orjson.loads(body)
        items = said(parsed)
        front = next((at for at, item in enumerate(items) if not _leads(item)), len(items))
        thoughts = {at: item.get("encrypted_content") or "" for at, item in enumerate(items)}
        pieces = render.prompt(parsed, items, thoughts)
        ends = [
            len(render.prompt({**parsed, "input": items[: at + 1]}, items[: at + 1], thoughts))
            for at in range(len(items))
        ]
        apart = len(render.prompt({**parsed, "input": []}, [], {}))  # tools and instructions
        turns = [
            -1 if place < apart else next(at for at, end in enumerate(ends) if place < end)
            for place in range(len(pieces))
        ]
        return [
            Spot(f"input.{turn}: {piece.text[:60]!r}", piece.chain, turn if turn >= front else -1)
            for piece, turn in zip(pieces, turns, strict=True)
        ]

    def last_answer(self, body: bytes) -> int:
        """See `Wire.last_answer`. What we put between two turns is no answer."""
        places = [
            at
            for at, item in enumerate(said(orjson.loads(body)))
            if item_kind(item) in SPOKEN or (item.get("role") == "assistant" and item["content"] != BETWEEN)
        ]
        return max(places, default=-1)

    def slices(self, body: bytes) -> None:
        """See `Wire.slices`."""
        del body

    def pieces(self, raw: bytes) -> list[bytes]:
        """See `Wire.pieces`. An item is the client's own as a whole."""
        return [raw]

    def said(self, body: bytes) -> set[object]:
        """See `Wire.said`."""
        found: set[object] = set()
        for item in said(orjson.loads(body)):
            match item_kind(item):
                case "message":
                    content = item["content"]
                    role = "system" if item["role"] == "developer" else item["role"]
                    for part in [text(content)] if isinstance(content, str) else content:
                        if "text" in part:
                            found |= {(role, part["text"]), ("system", unframed(part["text"]))}
                case "function_call":
                    found.add((item["name"], canonical(item["arguments"])))
                case "reasoning":
                    found.add(item.get("encrypted_content"))
        return found


def _leads(item: Json) -> bool:
    return item_kind(item) == "message" and item["role"] in ("developer", "system")


# -- what the model says ---------------------------------------------------------------------------------


def _block(item: Json) -> Json:
    match item["type"]:
        case "reasoning":
            return {"type": "thinking", "item": item}
        case "message":
            return {**text(item["content"][0]["text"]), "item": item}
        case _:
            given = orjson.loads(item["arguments"])
            return {
                "type": "tool_use",
                "id": item["call_id"],
                "name": item["name"],
                "input": given,
                "item": item,
            }


def _answer(blocks: list[Json], style: Style) -> Iterator[Json]:
    for block in blocks:
        item = dict(block.get("item") or {})
        match block["type"]:
            case "thinking":
                yield item
            case "text":
                yield item or _message("assistant", [text(block["text"])], style, kind="output_text")
            case "tool_use":
                named = {"call_id": block["id"], "name": block["name"]}
                yield {
                    "type": "function_call",
                    **item,
                    **named,
                    "arguments": _arguments(block["input"], style),
                }
            case "server_tool_use":
                search = {"type": "search", "query": "pump"}
                yield {
                    "type": "web_search_call",
                    "id": f"ws_{block['id']}",
                    "status": "completed",
                    "action": search,
                }
            case "container_upload":  # whatever a later version may bring
                yield {"type": "image_generation_call", "result": None, "x": block["x"]}


def _arguments(given: object, style: Style) -> str:
    """The arguments as a string: clients that hold them as objects print them in an order of their own."""
    whole = spell({"input": given}, Style(order=style.order)).decode()
    return whole[whole.index(":") + 1 : -1].strip()


# -- what the client says --------------------------------------------------------------------------------


def _items(message: Json, style: Style) -> Iterator[Json]:
    """The items of a message: a result is one of its own, and so is what stands between results."""
    content = message["content"]
    blocks = [text(content)] if isinstance(content, str) else content
    if message["role"] == "assistant":
        yield from _answer(blocks, style)
        return
    role = "developer" if message["role"] == "system" else message["role"]
    run: list[Json] = []
    for block in blocks:
        if block["type"] != "tool_result":
            run.append(block)
            continue
        if run:
            yield _message(role, run, style)
            run = []
        inner = block["content"]
        yield {
            "type": "function_call_output",
            "call_id": block["tool_use_id"],
            "output": _content([text(inner)] if isinstance(inner, str) else inner, style) or "",
        }
    if run or not blocks:
        yield _message(role, run, style)


def _message(role: str, blocks: list[Json], style: Style, kind: str = "input_text") -> Json:
    typed = {"type": "message"} if style.flip else {}
    return {**typed, "role": role, "content": _content(blocks, style, kind)}


def _content(blocks: list[Json], style: Style, kind: str = "input_text") -> Any:
    if len(blocks) == 1 and blocks[0]["type"] == "text" and not style.flip and not style.empties:
        return blocks[0]["text"]
    parts = _parts(blocks, kind)
    return [*parts, {"type": kind, "text": ""}] if style.empties else parts


def _parts(blocks: list[Json], kind: str = "input_text") -> list[Json]:
    return [
        {
            "type": "input_image",
            "image_url": f"data:{block['source']['media_type']};base64,{block['source']['data']}",
        }
        if block["type"] == "image"
        else {"type": kind, "text": block["text"]}
        for block in blocks
    ]


def _tool(tool: Json) -> Json:
    return {
        "type": "function",
        "name": tool["name"],
        "description": tool["description"],
        "parameters": tool["input_schema"],
    }


def _mark(items: list[Json], style: Style) -> None:
    carriers = [
        item["content"][-1]
        for item in items
        if item.get("role") in ("user", "developer") and isinstance(item.get("content"), list)
    ]
    for bit, place in ((1, 0), (2, -1), (4, -2)):
        if style.marks & bit and len(carriers) > abs(place):
            carriers[place]["prompt_cache_breakpoint"] = MARK
