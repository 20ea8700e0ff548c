"""The prompt a body becomes: positions in the order the model reads them, with tokens and keys.

Order is tools, system, messages, whatever the order in the JSON [B1]. Marks are not part of it, a
string is one text block, adjacent messages of one role are joined, and of a thinking block only
the signature counts [A10 A13 A42]. What invalidates a part of the prompt without standing in it
(thinking, effort, tool choice, images present; web tools) is a parameter block between the
parts [B7 B12].
"""

import hashlib
from collections.abc import Collection
from typing import Any, Literal

import msgspec
import orjson

from . import models, tokens
from .marks import automatic, ttl_of
from .models import Model
from .request import Json, blocks, nested
from .signature import unseal

BILLING = "x-anthropic-billing-header"
Section = Literal["tools", "system", "messages"]
_ROLE_TOKENS = 3
_WEB = ("web_search_", "web_fetch_")


class Position(msgspec.Struct, frozen=True):
    """One position of the prompt: where it stands in the body, what it is, what it weighs.

    `tokens` are its own; `key` identifies its content, `chain` all of the prompt up to and with
    it; `ttl` is the lifetime of the mark on it. A parameter block is not counted by the lookback.
    """

    path: str
    section: Section
    kind: str
    tokens: int
    key: bytes
    chain: bytes
    ttl: str | None = None

    @property
    def is_parameters(self) -> bool:
        return self.kind == "parameters"


def prompt(
    body: Json | bytes,
    *,
    model: Model | None = None,
    dropped: Collection[str] = (),
    hash_billing_header: bool = True,
    as_sent: bool = False,
) -> list[Position]:
    """Render a request body.

    `dropped` are paths of blocks the provider leaves out. `as_sent` is for comparing conversations
    rather than cache entries: without parameter blocks, and with everything the client sent, be it
    cleared or stripped by the provider.
    """
    parsed: Json = orjson.loads(body) if isinstance(body, bytes) else body
    facts = model or models.find(str(parsed.get("model", "")))
    printer = _Printer(parsed, facts, as_sent=as_sent)
    printer.tools()
    printer.system(hash_billing_header=hash_billing_header)
    stripped = set() if as_sent else stripped_thinking(parsed, facts)
    printer.messages({*dropped, *stripped})
    top = ttl_of(parsed)
    where = automatic(parsed) if top is not None else None
    return [
        msgspec.structs.replace(position, ttl=position.ttl or top) if position.path == where else position
        for position in printer.positions
    ]


class _Printer:
    """Collects positions, each chained to the one before."""

    def __init__(self, body: Json, model: Model, *, as_sent: bool) -> None:
        self.body = body
        self.model = model
        self.as_sent = as_sent
        self.positions: list[Position] = []
        self.chain = b""
        self.definitions = {
            tool["name"]: tool
            for tool in body.get("tools") or []
            if isinstance(tool, dict) and isinstance(tool.get("name"), str)
        }

    def add(
        self, path: str, section: Section, kind: str, text: bytes, *, weight: int = 0, ttl: str | None = None
    ) -> None:
        key = hashlib.blake2b(text, digest_size=16).digest()
        self.chain = hashlib.blake2b(self.chain + key, digest_size=16).digest()
        self.positions.append(Position(path, section, kind, weight, key, self.chain, ttl))

    def tools(self) -> None:
        """The tools that are not deferred, in wire order.

        Switching web tools on or off spares the cache of the other tools [B12]: what they say
        stands in a parameter block behind the tools.
        """
        web: list[bytes] = []
        mark = None
        for index, tool in enumerate(self.body.get("tools") or []):
            if not isinstance(tool, dict) or tool.get("defer_loading"):
                continue
            text = canonical(tool, leave_out=("cache_control", "eager_input_streaming"))
            kind = str(tool.get("type") or "custom")
            if kind.startswith(_WEB) and not self.as_sent:
                web.append(text)
                mark = ttl_of(tool) or mark
                continue
            weight = tokens.of_bytes(len(text), self.model)
            self.add(f"tools.{index}", "tools", kind, text, weight=weight, ttl=ttl_of(tool))
        if web:
            text = b"\n".join(web)
            weight = tokens.of_bytes(len(text), self.model)
            self.add("parameters", "system", "parameters", text, weight=weight, ttl=mark)

    def system(self, *, hash_billing_header: bool) -> None:
        system = self.body.get("system")
        skips = (
            not hash_billing_header and isinstance(system, list) and is_billing(system[0] if system else None)
        )
        if isinstance(system, str):
            system = [{"type": "text", "text": system}] if system else []
        for index, block in enumerate(system or []):
            if index == 0 and skips:
                continue
            text, weight = self.content(block)
            self.add(f"system.{index}", "system", "text", text, weight=weight, ttl=ttl_of(block))

    def messages(self, dropped: set[str]) -> None:
        messages = [m for m in self.body.get("messages") or [] if isinstance(m, dict)]
        if not self.as_sent:
            text = orjson.dumps(_parameters(self.body, self.model), option=orjson.OPT_SORT_KEYS)
            self.add("parameters", "messages", "parameters", text)
        role = ""
        compacted = (-1, -1) if self.as_sent else last_compaction(messages)
        for i, message in enumerate(messages):
            own = str(message.get("role"))
            lead, role, extra = (b"\n", own, 1) if own == role else (own.encode() + b":", own, _ROLE_TOKENS)
            if not self.as_sent and message.get("clear_at") and i < _last_user(messages):
                continue
            for j, block in enumerate(blocks(message)):
                path = f"messages.{i}.content.{j}"
                if path in dropped or not isinstance(block, dict) or (i, j) < compacted:
                    continue
                text, weight = self.content(block)
                kind = str(block.get("type"))
                self.add(path, "messages", kind, lead + text, weight=weight + extra, ttl=_mark(block))
                lead, extra = b"", 0

    def content(self, block: Json) -> tuple[bytes, int]:
        """A content block as the model reads it, and its tokens."""
        match block.get("type"):
            case "text":
                text = str(block.get("text", ""))
                raw = text.encode("utf-8", "surrogatepass")
                if block.get("citations"):
                    raw += canonical({"citations": block["citations"]})
                return b"T" + raw, tokens.of_bytes(len(raw), self.model)
            case "thinking" | "redacted_thinking" as kind:
                signature = str(block.get("signature") or block.get("data") or "")
                seal = unseal(signature)
                raw = signature.encode()
                weight = (
                    seal.tokens if seal else tokens.of_text(str(block.get("thinking") or raw), self.model)
                )
                return kind.encode() + raw, weight
            case "image":
                source = block.get("source") or {}
                raw = canonical({"source": source})
                return b"I" + raw, tokens.of_image(source, self.model)
            case "tool_reference":
                tool = self.definitions.get(str(block.get("tool_name")), {})
                raw = canonical(tool, leave_out=("cache_control", "defer_loading", "eager_input_streaming"))
                return b"R" + raw, tokens.of_bytes(len(raw), self.model)
            case "tool_result":
                return self.result(block)
            case kind:
                raw = canonical(block)
                return b"J" + raw, tokens.of_bytes(len(raw) - len(str(kind)), self.model)

    def result(self, block: Json) -> tuple[bytes, int]:
        content = block.get("content")
        inner = [{"type": "text", "text": content}] if isinstance(content, str) and content else nested(block)
        head = f"O{block.get('tool_use_id')}{'!' if block.get('is_error') else ''}".encode()
        pieces = [self.content(item) for item in inner]
        raw = head + b"".join(b"\x00%d:" % len(text) + text for text, _ in pieces)
        return raw, tokens.of_bytes(len(head), self.model) + sum(weight for _, weight in pieces)


def canonical(value: Json, leave_out: tuple[str, ...] = ("cache_control",)) -> bytes:
    """A block as compact JSON: own members sorted, null ones and marks left out, order inside kept [B19]."""
    members = {
        key: value[key]
        for key in sorted(value)
        if key not in leave_out and value[key] is not None and not (key == "type" and value[key] == "custom")
    }
    return orjson.dumps(members)


def is_billing(block: Any) -> bool:
    """Whether a system block is the attribution line of a client, alone in its block [D14]."""
    text = str(block.get("text", "")) if isinstance(block, dict) else ""
    return text.startswith(BILLING) and "\n" not in text


def _mark(block: Json) -> str | None:
    """The mark on a block or inside it; one position holds one breakpoint."""
    own = ttl_of(block)
    if own is None and block.get("type") == "tool_result":
        own = next((ttl for item in nested(block) if (ttl := ttl_of(item))), None)
    return own


def _last_user(messages: list[Json]) -> int:
    return max((i for i, m in enumerate(messages) if m.get("role") == "user"), default=-1)


def _parameters(body: Json, model: Model) -> Json:
    """What loses the cache of the messages when it changes; a default spelt out is no change [B12]."""
    thinking = body.get("thinking") or {}
    kind = thinking.get("type") or ("adaptive" if model.thinks_by_default else "disabled")
    choice = body.get("tool_choice") or {}
    return {
        "thinking": kind,
        "budget": thinking.get("budget_tokens"),
        "effort": (body.get("output_config") or {}).get("effort") or "high",
        "choice": choice.get("type") or "auto",
        "tool": choice.get("name"),
        "serial": bool(choice.get("disable_parallel_tool_use")),
        "images": _shows_images(body),
    }


def _shows_images(body: Json) -> bool:
    for message in body.get("messages") or []:
        for block in blocks(message):
            if block.get("type") == "image" or any(item.get("type") == "image" for item in nested(block)):
                return True
    return False


def last_compaction(messages: list[Json]) -> tuple[int, int]:
    """Message and block index of the newest compaction block: what stands before it is ignored [E3]."""
    return max(
        (
            (i, j)
            for i, message in enumerate(messages)
            for j, block in enumerate(blocks(message))
            if block.get("type") == "compaction" and block.get("content") is not None
        ),
        default=(-1, -1),
    )


def is_human(message: Json) -> bool:
    """A user message that is not an answer to tool calls: it starts a new turn."""
    return message.get("role") == "user" and not any(
        block.get("type") == "tool_result" for block in blocks(message)
    )


def stripped_thinking(body: Json, model: Model) -> set[str]:
    """Paths of thinking the provider leaves out of the prompt by itself.

    Models that keep only the last turn's thinking lose what stands before the newest human
    message [A47 B12]; `clear_thinking_20251015` with a number keeps that many turns [E1].
    """
    messages = body.get("messages") or []
    keep = 1 if not model.keeps_thinking else None
    for edit in (body.get("context_management") or {}).get("edits") or []:
        wanted = edit.get("keep")
        if edit.get("type") == "clear_thinking_20251015" and isinstance(wanted, dict) and "value" in wanted:
            keep = int(wanted["value"])
        elif edit.get("type") == "clear_thinking_20251015" and wanted is not None:
            keep = None
    if keep is None:
        return set()
    starts = [i for i, message in enumerate(messages) if is_human(message)]
    first_kept = starts[-keep] if len(starts) >= keep else 0
    return {
        f"messages.{i}.content.{j}"
        for i, message in enumerate(messages[:first_kept])
        if message.get("role") == "assistant"
        for j, block in enumerate(blocks(message))
        if block.get("type") in ("thinking", "redacted_thinking")
    }
