"""What a thinking block is bound to: everything the client sent before it, in a form that ignores
what the provider ignores [A45a].

Ignored: marks, string against one text block, outer whitespace and blank texts, null members, key
order, 1.0 against 1, the order of tools, spelt-out defaults, deferred tools not yet referenced, the
address of url sources, thinking blocks themselves, and where one message of a role ends and the
next of the same role begins.
"""

import hashlib
from typing import Any

import msgspec
import orjson

from .request import Json, blocks

_DEFAULTS: dict[str, Any] = {
    "description": "",
    "strict": False,
    "eager_input_streaming": False,
    "defer_loading": False,
    "allowed_callers": ["direct"],
    "is_error": False,
    "citations": [],
}
THINKING = ("thinking", "redacted_thinking")


class Piece(msgspec.Struct, frozen=True):
    """One block of the conversation as the comparison sees it; `path` is where it stands now."""

    digest: bytes
    kind: str
    path: str


class Before(msgspec.Struct, frozen=True):
    """All that stands before a place in a conversation."""

    system: bytes
    tools: dict[str, bytes]
    pieces: tuple[Piece, ...]
    chain: bytes
    """One digest over all pieces."""
    thinking: tuple[str, ...]
    """Signatures of the thinking blocks before, in order."""


def digest(value: Any) -> bytes:
    return hashlib.blake2b(orjson.dumps(plain(value), option=orjson.OPT_SORT_KEYS), digest_size=12).digest()


def plain(value: Any) -> Any:
    """A value without what the comparison ignores."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: plain(item) for key, item in value.items() if item is not None}


def _block(block: Json, definitions: dict[str, Json]) -> Any:
    kept = {
        key: value
        for key, value in block.items()
        if key != "cache_control" and value is not None and _DEFAULTS.get(key, ...) != value
    }
    match block.get("type"):
        case "text":
            kept["text"] = str(block.get("text", "")).strip()
        case "image" | "document" if (block.get("source") or {}).get("type") == "url":
            kept["source"] = {"type": "url"}
        case "tool_reference":
            kept["definition"] = _tool(definitions.get(str(block.get("tool_name")), {}))
        case "tool_result":
            inner = [_block(item, definitions) for item in blocks(block) if not _blank(item)]
            kept.pop("content", None)
            if inner:
                kept["content"] = inner
        case _:
            pass
    return kept


def _tool(tool: Json) -> Json:
    return {
        key: value
        for key, value in tool.items()
        if key not in ("cache_control", "defer_loading")
        and value is not None
        and _DEFAULTS.get(key, ...) != value
        and not (key == "type" and value == "custom")
    }


def _blank(block: Json) -> bool:
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


class Trail:
    """Walks a conversation and knows, at each place, what stands before it."""

    def __init__(self, body: Json) -> None:
        tools = [tool for tool in body.get("tools") or [] if isinstance(tool, dict)]
        self._definitions = {str(tool.get("name")): tool for tool in tools}
        self.tools = {
            str(tool.get("name") or tool.get("type")): digest(_tool(tool))
            for tool in tools
            if not tool.get("defer_loading")
        }
        system = body.get("system")
        texts = [{"type": "text", "text": system}] if isinstance(system, str) else system or []
        self.system = digest([_block(block, self._definitions) for block in texts if not _blank(block)])
        self.pieces: list[Piece] = []
        self.chain = b""
        self.thinking: list[str] = []

    def pass_by(self, block: Json, role: str, path: str, extra: Json | None = None) -> None:
        """Step over one content block; a compaction block puts an end to all before it [E3]."""
        if block.get("type") == "compaction" and block.get("content") is not None:
            self.pieces, self.thinking, self.chain = [], [], b""
        if block.get("type") in THINKING:
            self.thinking.append(signature_of(block))
        elif not _blank(block):
            value = [role, _block(block, self._definitions), extra or {}]
            piece = Piece(digest(value), str(block.get("type")), path)
            self.pieces.append(piece)
            self.chain = hashlib.blake2b(self.chain + piece.digest, digest_size=12).digest()

    def pass_message(self, message: Json, index: int) -> None:
        """Step over a whole message."""
        role = str(message.get("role"))
        for j, block in enumerate(blocks(message)):
            self.pass_by(block, role, f"messages.{index}.content.{j}", extra_of(message))

    def here(self) -> Before:
        """What stands before this place."""
        return Before(self.system, self.tools, tuple(self.pieces), self.chain, tuple(self.thinking))


def signature_of(block: Json) -> str:
    return str(block.get("signature") or block.get("data") or "")


def extra_of(message: Json) -> Json:
    """What beside its content is bound of a message of role system."""
    return {key: message[key] for key in ("clear_at", "output_config") if message.get(key)}
