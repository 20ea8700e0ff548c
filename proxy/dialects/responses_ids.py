"""Ids of items: they say nothing, and leave as they came unless they would be refused [A202 A207]."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

from ..conversation import Part, Reasoning
from ..rawjson import closed_array, closed_object, is_string, items, members
from .responses_calls import FORMS, kind_of

_FREE_IDS = frozenset({"", "message", *FORMS} - {"computer_call"})
"""Types of the model's items whose `id` need not be there [A207]."""

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fc",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctc",
    "shell_call": "sh",
    "apply_patch_call": "apc",
}
"""How the ids of items begin that may go without one, by type [A207]."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

_string = msgspec.json.Decoder(str)


def is_misnamed(kind: str, name: str, part: Part | None = None) -> bool:
    """Whether the id is none that an item of its type has, and can be spared: for some reasoning it stands for all."""
    prefix = _PREFIXES.get(kind)
    if not name or prefix is None or (isinstance(part, Reasoning) and not part.signature):
        return False
    return not (name.startswith(prefix) and _NAME.fullmatch(name))


def spared(item: Raw | bytes, name: str) -> Raw | bytes:
    """The item without this id."""
    pairs = [*members(item)]
    own = [
        pair for pair in pairs if pair[0] == "id" and is_string(pair[1]) and _string.decode(pair[1]) == name
    ]
    return closed_object(pair for pair in pairs if pair not in own) if own else item


def without_id(raw: Raw | bytes) -> Raw | bytes:
    """The item without its id, or items joined by commas without theirs; what needs its own keeps it."""
    joined = items(b"[" + bytes(raw) + b"]")
    bare = [_unnamed(item) for item in joined]
    return (
        closed_array(bare)[1:-1]
        if any(new is not old for new, old in zip(bare, joined, strict=True))
        else raw
    )


def _unnamed(item: Raw) -> Raw | bytes:
    if kind_of(item) not in _FREE_IDS or "id" not in dict(members(item)):
        return item
    return closed_object((name, value) for name, value in members(item) if name != "id")
