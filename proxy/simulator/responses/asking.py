"""A request as scripts see one: the same script plays the model behind every wire format.

A custom tool is shown with one argument, `input`; those that run at the client under their own names.
"""

from collections.abc import Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from ..reply import Ask
from .items import kind_of
from .pairing import CALLS, OUTPUTS
from .tools import flat

Json = dict[str, Any]

INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_CLIENT = {
    "local_shell": {"properties": {"command": {"type": "array"}}, "required": ["command"]},
    "shell": {"properties": {"commands": {"type": "array"}}, "required": ["commands"]},
    "apply_patch": {
        "properties": {"type": {}, "path": {}, "diff": {}},
        "required": ["type", "path"],
    },
}


def ask(body: Json, items: list[Json], digest: str) -> Ask:
    """What a script may know of a valid request."""
    tools = [one for tool in offered(body, items) if (one := _tool(tool)) is not None]
    shown: Json = {"tools": tools, "messages": [*_messages(items)]}
    form = (body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema":
        shown["output_config"] = {"format": {"type": "json_schema", "schema": form.get("schema") or {}}}
    return Ask(body=shown, tools=frozenset(tool["name"] for tool in tools), digest=digest)


def offered(body: Json, items: list[Json]) -> Iterator[Json]:
    """The tools a model may call: of the request, and those that items have added."""
    yield from (tool for tool in flat(body.get("tools") or []) if not tool.get("defer_loading"))
    for item in items:
        if kind_of(item) in ("additional_tools", "tool_search_output"):
            yield from flat(item["tools"])


def _tool(tool: Json) -> Json | None:
    match tool["type"]:
        case "function":
            return {"name": tool["name"], "input_schema": tool.get("parameters") or {}}
        case "custom":
            return {"name": tool["name"], "input_schema": INPUT}
        case "local_shell" | "shell" | "apply_patch":
            return {"name": tool["type"], "input_schema": _CLIENT[tool["type"]]}
        case _:
            return None


def _messages(items: list[Json]) -> Iterator[Json]:
    """An answer of several items is one message, with all its calls, and so are the results of a step."""
    sided = [(side, blocks) for side, blocks in map(_block, items) if side]
    for side, group in groupby(sided, key=itemgetter(0)):
        said = [blocks for _, blocks in group]
        if side in ("assistant", "results"):
            said = [[*chain.from_iterable(said)]]
        yield from ({"role": "user" if side == "results" else side, "content": blocks} for blocks in said)


def _block(item: Json) -> tuple[str, list[Json]]:
    kind = kind_of(item)
    if kind == "message":
        side = item["role"] if item["role"] in ("user", "assistant") else "system"
        return side, _texts(item["content"])
    if kind in CALLS:
        return "assistant", [
            {"type": "tool_use", "id": item.get("call_id", ""), "name": item.get("name", kind)}
        ]
    if kind in OUTPUTS:
        output = item.get("output") or ""
        content = _texts(output) if isinstance(output, str) else [*output]
        return "results", [
            {"type": "tool_result", "tool_use_id": item.get("call_id") or "", "content": content}
        ]
    return "", []


def _texts(content: str | list[Json]) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {"type": "text", "text": part["text"]}
        if part["type"] in ("input_text", "output_text")
        else {"type": part["type"]}
        for part in content
    ]
