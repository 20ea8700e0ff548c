"""What belongs together among items: calls and outputs, reasoning and what follows it [A201 A202 A207]."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..chat.refusal import refuse
from .items import kind_of

Json = dict[str, Any]


class _Pair(msgspec.Struct, frozen=True):
    """A kind of call: its name in refusals, and the kinds of item that answer it."""

    says: str
    outputs: tuple[str, ...]


CALLS = {
    "function_call": _Pair("function call", ("function_call_output",)),
    "custom_tool_call": _Pair("custom tool call", ("custom_tool_call_output",)),
    "local_shell_call": _Pair("local shell call", ("local_shell_call_output", "function_call_output")),
    "shell_call": _Pair("shell call", ("shell_call_output",)),
    "apply_patch_call": _Pair("apply patch call", ("apply_patch_call_output",)),
    "computer_call": _Pair("computer call", ("computer_call_output",)),
    "tool_search_call": _Pair("tool search call", ("tool_search_output",)),
}
OUTPUTS = frozenset(kind for pair in CALLS.values() for kind in pair.outputs)
_FOLLOWERS = frozenset(
    [
        *CALLS,
        "reasoning",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "program",
        "compaction",
    ]
)
"""What a model may make behind a reasoning item."""


def check(items: list[Json], requires: Mapping[str, str]) -> None:
    """Refuse items that are there twice, or lack the other half.

    `requires`: for stored items the reasoning item they came behind, by their ids.

    Raises:
        ChatRefusal: the first fault.
    """
    _unique(items)
    _paired(items)
    _followed(items, requires)


def _unique(items: Iterable[Json]) -> None:
    seen: set[str] = set()
    for item in items:
        name = item.get("id")
        if name is None:
            continue
        if name in seen:
            refuse(
                f"Duplicate item found with id {name}. Remove duplicate items from your input and try again.",
                "input",
            )
        seen.add(name)


def _paired(items: list[Json]) -> None:
    """An output stands anywhere behind its call; which other items are between them does not matter."""
    open_calls: dict[str, Json] = {}
    known: set[tuple[str, str]] = set()
    for item in items:
        kind = kind_of(item)
        call_id = item.get("call_id")
        if kind in CALLS and call_id is not None and _is_clients(item):
            open_calls[call_id] = item
            known.update((output, call_id) for output in CALLS[kind].outputs)
        elif kind in OUTPUTS and call_id is not None and item.get("execution") != "server":
            if (kind, call_id) not in known:
                said = kind.replace("_", " ")
                refuse(f"No tool call found for {said} with call_id {call_id}.", "input")
            call = open_calls.get(call_id)
            if call is not None and kind in CALLS[kind_of(call)].outputs:
                del open_calls[call_id]
    for call_id, item in open_calls.items():
        refuse(f"No tool output found for {CALLS[kind_of(item)].says} {call_id}.", "input")


def _is_clients(item: Json) -> bool:
    """Whether the client has to answer it: a search that ran at the host is answered."""
    return kind_of(item) != "tool_search_call" or item.get("execution") == "client"


def _followed(items: list[Json], requires: Mapping[str, str]) -> None:
    """A reasoning item with an id stands right before what the model made behind it; so does a stored one before
    each item that came behind it."""
    for at, item in enumerate(items):
        name = item.get("id")
        if name is None:
            continue
        kind = kind_of(item)
        if kind == "reasoning" and not _follows(items[at + 1] if at + 1 < len(items) else {}):
            refuse(
                f"Item '{name}' of type 'reasoning' was provided without its required following item.",
                "input",
            )
        needed = requires.get(name)
        if needed is not None and (at == 0 or items[at - 1].get("id") != needed):
            refuse(
                f"Item '{name}' of type '{kind}' was provided without its required 'reasoning' item: "
                f"'{needed}'.",
                "input",
            )


def _follows(item: Json) -> bool:
    if kind_of(item) == "message":
        return item.get("role") == "assistant" and bool(item.get("content"))
    return kind_of(item) in _FOLLOWERS
