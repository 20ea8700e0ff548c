"""Anthropic Messages: the blocks as they are."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import orjson

from proxy.dialects.anthropic import Anthropic
from proxy.rawjson import is_array, is_string, items, members
from proxy.simulator import Provider, Settings, prompt
from proxy.simulator import validate as checks
from proxy.simulator.arrival import read
from proxy.simulator.exchange import Answer
from proxy.simulator.refusal import Refusal
from proxy.usage import anthropic_usage
from tests.laws.spelling import Style, spell
from tests.laws.wires import Asked, Heard, Spot, canonical, kind_of, text

HEADERS = (
    ("anthropic-version", "2023-06-01"),
    ("x-api-key", "sk-test"),
    ("content-type", "application/json"),
)


class AnthropicWire:
    """See `Wire`."""

    name = "anthropic"
    dialect = Anthropic()
    headers = HEADERS
    upstreams = ("anthropic", "openrouter", "unknown", "llama.cpp", "vllm")
    moves = frozenset({"server_tool", "server_tool_open", "unsigned", "strip_thinking"})

    def models(self, upstream: str) -> tuple[str, ...]:
        """See `Wire.models`."""
        del upstream
        return ("claude-opus-4-5", "claude-opus-5-5", "claude-sonnet-4-6", "claude-opus-4-7")

    def provider(self, upstream: str) -> Provider:
        """See `Wire.provider`."""
        return Provider(Settings(binding="error", hash_billing_header=upstream != "anthropic"))

    def path(self, model: str) -> str:
        """See `Wire.path`."""
        del model
        return "/v1/messages"

    def body(self, asked: Asked, style: Style) -> bytes:
        """See `Wire.body`."""
        messages = [_spelt(message, style) for message in asked.messages]
        members: dict[str, object] = {"model": asked.model, "max_tokens": 2048}
        if asked.thinks:
            manual = "4-5" in asked.model
            members["thinking"] = (
                {"type": "enabled", "budget_tokens": 1024} if manual else {"type": "adaptive"}
            )
        members |= {"system": asked.system, "tools": asked.tools, "messages": messages}
        if asked.unknown:
            members["metadata"] = {"user_id": "né"}
        _mark(members, style)
        if style.order == 1:
            members = dict(reversed(members.items()))
        return spell(members, style)

    def heard(self, answer: Answer) -> Heard:
        """See `Wire.heard`."""
        content = answer.json["content"]
        calls = tuple(block["id"] for block in content if block["type"] == "tool_use")
        return Heard(content, anthropic_usage(answer.json["usage"]), calls)

    def complaints(self, body: bytes, upstream: str, model: str) -> frozenset[str]:
        """See `Wire.complaints`."""
        del upstream, model
        try:
            request = read(list(HEADERS), body, Settings(), counting=False)
        except Refusal as refusal:
            return frozenset({f"arrival: {refusal.message[:40]}"})
        found = set()
        for check in checks.CHECKS:
            try:
                check(request)
            except Refusal as refusal:
                module = check.__module__.rsplit(".", 1)[-1]
                found.add(f"{module}.{check.__name__}: {kind_of(refusal.message)}")
            except (KeyError, TypeError, AttributeError, IndexError):
                # Later checks rest on earlier ones: a body the schema refuses may be too broken for them.
                if not found:
                    raise
        return frozenset(found)

    def prompt(self, body: bytes, *, hidden: bool) -> list[Spot]:
        """See `Wire.prompt`."""
        return [
            Spot(spot.path, spot.chain, int(spot.path.split(".")[1]) if spot.section == "messages" else -1)
            for spot in prompt(body, as_sent=True, hash_billing_header=not hidden)
        ]

    def last_answer(self, body: bytes) -> int:
        """See `Wire.last_answer`."""
        roles = [message["role"] for message in orjson.loads(body)["messages"]]
        return max((at for at, role in enumerate(roles) if role == "assistant"), default=-1)

    def pieces(self, raw: bytes) -> list[bytes]:
        """See `Wire.pieces`. Every part is one slice."""
        return [bytes(raw)]

    def slices(self, body: bytes) -> Counter[bytes]:
        """See `Wire.slices`. A text block counts as its string too."""
        found: Counter[bytes] = Counter()
        envelope = dict(members(body))
        contents = [envelope[name] for name in ("tools", "system") if name in envelope]
        contents += [dict(members(message)).get("content", b'""') for message in items(envelope["messages"])]
        for content in contents:
            if is_string(content):
                found[bytes(content)] += 1
            elif is_array(content):
                for block in items(content):
                    found[bytes(block)] += 1
                    opened = members(block)
                    if [name for name, _ in opened] == ["type", "text"]:
                        found[bytes(opened[1][1])] += 1
        return found

    def said(self, body: bytes) -> set[object]:
        """See `Wire.said`. A system message may have become framed text of the user's turn."""
        found: set[object] = set()
        for message in json.loads(body)["messages"]:
            content = message["content"]
            for block in [text(content)] if isinstance(content, str) else content:
                match block["type"]:
                    case "text":
                        found |= {(message["role"], block["text"]), ("system", unframed(block["text"]))}
                    case "tool_use" | "server_tool_use":
                        found.add((block["name"], canonical(json.dumps(block["input"]))))
                    case "thinking":
                        found.add(block["signature"])
        return found


def unframed(words: str) -> str:
    """A folded system message without its frame."""
    return words.removeprefix("<system-message>\n").removesuffix("\n</system-message>")


def _spelt(message: dict[str, Any], style: Style) -> dict[str, Any]:
    """The same message in the spelling of a style: strings, lists, empty texts."""
    content = message["content"]
    if isinstance(content, list):
        for block in content:
            if (
                block["type"] == "tool_result"
                and style.flip
                and isinstance(block["content"], str)
                and block["content"]
            ):
                block["content"] = [text(block["content"])]
        if style.empties and message["role"] != "system" and content:
            content.insert(len(content) if content[-1]["type"] in ("tool_result", "text") else 0, text(""))
        if (
            len(content) == 1
            and content[0]["type"] == "text"
            and set(content[0]) == {"type", "text"}
            and not style.flip
        ):
            if message["role"] != "system":
                message["content"] = content[0]["text"]
    return message


def _mark(members: dict[str, Any], style: Style) -> None:
    control = {"type": "ephemeral"}
    system, tools, messages = members["system"], members["tools"], members["messages"]
    if style.marks & 1:
        system[-1]["cache_control"] = control
    if style.marks & 8:
        tools[-1]["cache_control"] = control
    carriers = [
        message["content"][-1]
        for message in messages
        if isinstance(message["content"], list) and message["content"] and _carries(message["content"][-1])
    ]
    if style.marks & 2 and carriers:
        carriers[-1]["cache_control"] = control
    if style.marks & 4 and len(carriers) > 1:
        carriers[-2]["cache_control"] = control


def _carries(block: dict[str, Any]) -> bool:
    kind = block["type"]
    return kind in ("tool_use", "tool_result", "image") or (
        kind == "text" and bool(str(block["text"]).strip())
    )
