"""Cache marks: where they stand, how many, and in which order their lifetimes come."""

from typing import Any

import msgspec

from .refusal import refuse
from .request import Json, Request, every_block, nested

MAX_MARKS = 4
_THINKING = ("thinking", "redacted_thinking")
_NEVER = (*_THINKING, "tool_reference", "fallback", "connector_text", "mcp_tool_listing")


class Mark(msgspec.Struct, frozen=True):
    """An explicit breakpoint: path of the block that carries it, and its lifetime, 5m or 1h."""

    path: str
    ttl: str


def ttl_of(block: Json) -> str | None:
    """The lifetime of the mark on this block; None without a mark."""
    control = block.get("cache_control")
    if not isinstance(control, dict):
        return None
    ttl = control.get("ttl")
    return ttl if isinstance(ttl, str) else "5m"


def explicit(body: Json) -> list[Mark]:
    """All marks in prompt order: tools, system, messages; those inside tool results count [B3]."""
    found: list[Mark] = []

    def add(path: str, block: Any) -> None:
        ttl = ttl_of(block) if isinstance(block, dict) else None
        if ttl is not None:
            found.append(Mark(path, ttl))

    for index, tool in enumerate(body.get("tools") or []):
        add(f"tools.{index}", tool)
    system = body.get("system")
    for index, block in enumerate(system if isinstance(system, list) else []):
        add(f"system.{index}", block)
    for i, j, _message, block in every_block(body["messages"]):
        path = f"messages.{i}.content.{j}"
        add(path, block)
        if block.get("type") == "tool_result":
            for k, item in enumerate(nested(block)):
                add(f"{path}.content.{k}", item)
    return found


def cacheable(block: Json) -> bool:
    """Whether a mark may stand on a content block [A15 B4]."""
    if block.get("type") in _NEVER:
        return False
    return not (block.get("type") == "text" and not str(block.get("text", "")).strip())


def automatic(body: Json) -> str | None:
    """Path of the block the top-level mark falls on: the last cacheable one, or None [B4]."""
    for i, j, message, block in reversed(list(every_block(body["messages"]))):
        if cacheable(block) and not message.get("clear_at"):
            return f"messages.{i}.content.{j}"
    system = body.get("system")
    if isinstance(system, str):
        return "system.0" if system.strip() else None
    if system:
        return f"system.{len(system) - 1}"
    tools = [index for index, tool in enumerate(body.get("tools") or []) if not tool.get("defer_loading")]
    return f"tools.{tools[-1]}" if tools else None


def check(request: Request) -> None:
    """Refuse marks on the wrong blocks, too many of them, or lifetimes out of order [A15 B3 B4 B9].

    Raises:
        Refusal: placement, then number, then the automatic mark, then order.
    """

    marks = explicit(request.body)
    if len(marks) > MAX_MARKS:
        refuse(f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}.")
    top = ttl_of(request.body)
    if top is not None:
        marks = _with_automatic(request, marks, top)
    short = False
    for mark in marks:
        if mark.ttl == "1h" and short:
            refuse(
                f"{mark.path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
                "cache_control block. Note that blocks are processed in the following order: `tools`, `system`, "
                "`messages`."
            )
        short = short or mark.ttl == "5m"


def _with_automatic(request: Request, marks: list[Mark], ttl: str) -> list[Mark]:
    where = automatic(request.body)
    if where is None:
        return marks
    for mark in marks:
        if mark.path == where:
            if mark.ttl != ttl:
                refuse(
                    f"cache_control.ttl: the top-level cache_control has ttl='{ttl}', but `{where}` already has "
                    f"a cache_control block with ttl='{mark.ttl}'."
                )
            return marks
    if len(marks) == MAX_MARKS:
        refuse(f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks) + 1}.")
    return [*marks, Mark(where, ttl)]


def check_placement(request: Request) -> None:
    """Refuse marks where none may stand [A15].

    Raises:
        Refusal: deferred tools, thinking, turn-scoped system messages, empty text.
    """
    for tool in request.body.get("tools") or []:
        if tool.get("defer_loading") and ttl_of(tool) is not None:
            refuse(
                f"Tool '{tool.get('name')}' cannot have both defer_loading=true and cache_control set. Tools "
                "with defer_loading cannot use prompt caching."
            )
    system = request.body.get("system")
    for index, block in enumerate(system if isinstance(system, list) else []):
        if ttl_of(block) is not None and not block["text"]:
            refuse(f"system.{index}.text: cache_control cannot be set for empty text blocks")
    for i, j, message, block in every_block(request.messages):
        if ttl_of(block) is None:
            continue
        path = f"messages.{i}.content.{j}"
        if block.get("type") in _THINKING:
            refuse(f"{path}.{block['type']}.cache_control: Extra inputs are not permitted")
        if message.get("clear_at"):
            refuse(f"{path}.cache_control: cache_control cannot be set on a turn-scoped system message")
        if block.get("type") == "text" and not block["text"]:
            refuse(f"{path}.text: cache_control cannot be set for empty text blocks")
