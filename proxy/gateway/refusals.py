"""The 400s that say our structure is wrong, as a table.

A provider that refuses a request for its structure may be refusing what the rewrite made of it. Only then, and
only before a byte went to the client, is the fallback sent once. Each class is named as it was seen in public
reports; RULES.md lists them as F1-F31. Other 400s (too long, a parameter, a model) say nothing about our edits.
"""

from __future__ import annotations

import re

_CLASSES: tuple[tuple[str, str, str], ...] = (
    ("F1", "tool_pairing", r"tool_use.{0,3} ids were found without .{0,3}tool_result"),
    (
        "F2",
        "tool_pairing",
        r"assistant message with .{0,4}tool_calls.{0,4} must be followed by tool messages",
    ),
    ("F2", "tool_pairing", r"Messages? with role .{0,3}tool.{0,3} must be a response to a prece"),
    ("F3", "empty_text", r"text content blocks must (?:be non-empty|contain non-whitespace text)"),
    ("F3", "empty_text", r"all messages must have non-empty content"),
    ("F6", "thinking_signature", r"Invalid .{0,3}signature.{0,3} in .{0,3}(?:redacted_)?thinking"),
    ("F6", "thinking_signature", r"thinking\.signature: Field required"),
    ("F8", "thinking_binding", r"bound to a different conversation"),
    (
        "F10",
        "tool_pairing",
        r"number of function response parts is equal to the number of function call parts",
    ),
    ("F11", "tool_pairing", r"function (?:call|response) turn comes immediately after"),
    ("F12", "ends_with_assistant", r"does not support assistant message prefill"),
    ("F13", "duplicate_ids", r"tool_use.{0,3} ids must be unique"),
    ("F19", "invalid_json", r"request body is not valid JSON"),
    ("F20", "tool_pairing", r"unexpected .{0,3}tool_use_id.{0,3} found in .{0,3}tool_result"),
    ("F20", "tool_pairing", r"each .{0,3}tool_use.{0,3} must have a single result"),
    ("F21", "id_pattern", r"tool_use(?:_id|\.id): String should match pattern"),
    ("F22", "system_position", r"role .{0,3}system.{0,3} must follow a .{0,3}user"),
    ("F23", "cache_marks", r"maximum of \d+ blocks with .{0,3}cache_control"),
    ("F23", "cache_marks", r"ttl=.{0,3}1h.{0,3} cache_control block must not come after"),
    ("F30", "empty_text", r"must include at least one parts field"),
)
"""The number of the report in RULES.md, the class, and what its message says."""

_TABLE = tuple((name, re.compile(pattern, re.IGNORECASE)) for _, name, pattern in _CLASSES)

STRUCTURAL = frozenset(name for _, name, _ in _CLASSES)
"""The names of the classes; the values of the metric's `class` label beside plain statuses."""

LONGEST_REFUSAL = 256 * 1024
"""Bytes of an error body that are read to find its class; real ones are a few hundred bytes long."""


def structural_class(status: int, body: bytes) -> str | None:
    """Return the class of a refusal that speaks of structure, None for any other answer."""
    if status != 400 or len(body) > LONGEST_REFUSAL:
        return None
    # Routers carry the provider's body as a string inside their own [A441]: match the text, not a member of it.
    text = body.decode("utf-8", "replace").replace('\\"', '"')
    return next((name for name, pattern in _TABLE if pattern.search(text)), None)
