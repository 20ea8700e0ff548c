"""What the model answers: blocks and a reason to stop, from a script the test or demo chooses."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import orjson

from .request import Json, Request, blocks


class Say(msgspec.Struct, frozen=True, tag="text"):
    """A text block."""

    text: str


class Think(msgspec.Struct, frozen=True, tag="thinking"):
    """A thinking block; the provider signs it."""

    text: str


class Call(msgspec.Struct, frozen=True, tag="tool_use"):
    """A call of one of the client's tools; its id derives from the history unless given."""

    name: str
    input: dict[str, Any]
    id: str | None = None


Block = Say | Think | Call


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of the model, and what goes wrong while it is sent.

    `cut_after` ends the stream after so many events; `fail_after` puts an `overloaded_error` event
    there instead [C4]. `stop_reason` None is `tool_use` where a call is made, else `end_turn`; on
    `refusal` the cache write is reported and not kept [B22].
    """

    blocks: tuple[Block, ...]
    stop_reason: str | None = None
    cut_after: int | None = None
    fail_after: int | None = None

    @property
    def reason(self) -> str:
        if self.stop_reason is not None:
            return self.stop_reason
        return "tool_use" if any(isinstance(block, Call) for block in self.blocks) else "end_turn"


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What a script sees of a request: its body, the tools on offer, and a digest of the history."""

    body: Json
    tools: frozenset[str]
    digest: str

    @staticmethod
    def of(request: Request, digest: str) -> "Ask":
        """What a script may know of a valid request."""
        tools = frozenset(
            tool["name"]
            for tool in request.body.get("tools") or []
            if "input_schema" in tool and not tool.get("defer_loading")
        )
        return Ask(body=request.body, tools=tools, digest=digest)


Script = Callable[[Ask], Reply]


def echo(ask: Ask) -> Reply:
    """A short answer that depends on the request only; JSON where a schema asks for it."""
    schema = wanted_schema(ask.body)
    if schema is not None:
        return Reply(blocks=(Say(orjson.dumps(example(schema)).decode()),))
    return Reply(blocks=(Say(f"Understood ({ask.digest[:8]})."),))


def wanted_schema(body: Json) -> Json | None:
    """The JSON schema the answer must follow, or None."""
    form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    schema = form.get("schema")
    return schema if form.get("type") == "json_schema" and isinstance(schema, dict) else None


def example(schema: Json) -> Any:
    """A small value that follows a JSON schema."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return {key: example(inner) for key, inner in (schema.get("properties") or {}).items()}
        case "array":
            return [example(schema.get("items") or {})]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "text"


def derived_id(prefix: str, *parts: str) -> str:
    """An id of the provider's shape that depends on these parts only."""
    digest = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=12).hexdigest()
    return f"{prefix}_01{digest[:22]}"


def last_message(body: Json) -> Json:
    """The last message that is not of role system."""
    return next((m for m in reversed(body["messages"]) if m["role"] != "system"), {})


def last_texts(body: Json) -> list[str]:
    """The texts of the last message that is not of role system."""
    return [block["text"] for block in blocks(last_message(body)) if block.get("type") == "text"]
