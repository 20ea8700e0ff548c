"""Context editing on the provider's side: old tool results cleared when the prompt has grown [E1 E2].

What is cleared costs the cache from there on, and is no edit for preserved thinking, which looks at
what the client sent.
"""

import msgspec

from .render import Position
from .request import Json, Request, blocks

KIND = "clear_tool_uses_20250919"
_PLACEHOLDER = "[Old tool result content cleared]"


class Cleared(msgspec.Struct, frozen=True):
    """Tool results a request loses: paths of the blocks, and the body as the model then sees it."""

    paths: tuple[str, ...]
    body: Json


def clear(request: Request, positions: list[Position]) -> Cleared | None:
    """Apply the edit a request asks for, if its trigger is reached; None where nothing is cleared."""
    edits = (request.body.get("context_management") or {}).get("edits") or []
    edit = next((edit for edit in edits if edit.get("type") == KIND), None)
    if edit is None:
        return None
    names = {
        block["id"]: block["name"]
        for message in request.messages
        for block in blocks(message)
        if block.get("type") == "tool_use"
    }
    if not _triggered(edit, len(names), sum(position.tokens for position in positions)):
        return None
    results = [
        (f"messages.{i}.content.{j}", block)
        for i, message in enumerate(request.messages)
        for j, block in enumerate(blocks(message))
        if block.get("type") == "tool_result"
    ]
    keep = int((edit.get("keep") or {}).get("value", 3))
    spared = set(edit.get("exclude_tools") or ())
    paths = [
        path
        for path, block in results[: max(0, len(results) - keep)]
        if names[block["tool_use_id"]] not in spared
    ]
    least = int((edit.get("clear_at_least") or {}).get("value", 0))
    weight = sum(position.tokens for position in positions if position.path in paths)
    return Cleared(tuple(paths), _without(request.body, set(paths))) if paths and weight >= least else None


def _triggered(edit: Json, calls: int, total: int) -> bool:
    trigger = edit.get("trigger") or {}
    if trigger.get("type") == "tool_uses":
        return bool(calls > trigger.get("value", 0))
    return bool(total > trigger.get("value", 100_000))


def _without(body: Json, paths: set[str]) -> Json:
    messages = []
    for i, message in enumerate(body["messages"]):
        content = [
            {**block, "content": _PLACEHOLDER} if f"messages.{i}.content.{j}" in paths else block
            for j, block in enumerate(blocks(message))
        ]
        messages.append({**message, "content": content})
    return {**body, "messages": messages}


def applied(request: Request, cleared: Cleared | None, tokens: int) -> tuple[Json, ...] | None:
    """The `applied_edits` of an answer, `tokens` of input cleared; None where no editing was asked for."""
    if "context_management" not in request.body:
        return None
    if cleared is None:
        return ()
    return ({"type": KIND, "cleared_tool_uses": len(cleared.paths), "cleared_input_tokens": tokens},)
