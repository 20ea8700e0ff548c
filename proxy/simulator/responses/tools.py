"""The forms of tools: function, custom, namespace, those that run at the client, and those of the host [A213 A214]."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..chat.refusal import refuse
from .forms import (
    Check,
    Context,
    Json,
    anything,
    boolean,
    each,
    form,
    mapping,
    may,
    needs,
    one_of,
    tagged,
    text,
)

_NAME = re.compile(r"[a-zA-Z0-9_-]+")


def _name(value: Any, where: str, context: Context) -> None:
    text(value, where, context)
    if not _NAME.fullmatch(value):
        refuse(
            f"Invalid '{where}': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            where,
            "invalid_value",
        )
    if len(value) > 64:
        refuse(
            f"Invalid '{where}': string too long. Expected a string with maximum length 64, "
            f"but got a string with length {len(value)} instead.",
            where,
            "string_above_max_length",
        )


def _bad_schema(name: str, fault: str, where: str) -> None:
    refuse(f"Invalid schema for function '{name}': {fault}", where, "invalid_function_parameters")


def _schema(tool: Json, where: str) -> None:
    """The parameters of a function: an object; with `strict` all of it closed and required [A213]."""
    schema = tool.get("parameters")
    if schema is None:
        return
    here = f"{where}.parameters"
    if schema.get("type") != "object":
        got = schema.get("type")
        _bad_schema(
            tool["name"], f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{got}\"'.", here
        )
    if tool.get("strict") is not True:
        return
    for path, inner in _objects(schema, ()):
        shown = f"In context=({', '.join(repr(step) for step in path)}), "
        if inner.get("additionalProperties") is not False:
            _bad_schema(
                tool["name"],
                f"{shown}'additionalProperties' is required to be supplied and to be false.",
                here,
            )
        lost = [name for name in inner.get("properties") or {} if name not in (inner.get("required") or [])]
        if lost:
            _bad_schema(
                tool["name"],
                f"{shown}'required' is required to be supplied and to be an array including every key in "
                f"properties. Missing '{lost[0]}'.",
                here,
            )


def _objects(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """All schemas of objects inside a schema, with where they stand."""
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" or "properties" in schema:
        yield path, schema
    for name, inner in (schema.get("properties") or {}).items():
        yield from _objects(inner, (*path, "properties", name))
    yield from _objects(schema.get("items"), (*path, "items"))
    for inner in schema.get("anyOf") or ():
        yield from _objects(inner, (*path, "anyOf"))


_FUNCTION = form(
    {
        "type": needs(text),
        "name": needs(_name),
        "description": may(text),
        "parameters": may(mapping),
        "strict": may(boolean),
        "defer_loading": may(boolean),
        "allowed_callers": may(anything),
        "output_schema": may(anything),
    }
)


def _function(value: Any, where: str, context: Context) -> None:
    _FUNCTION(value, where, context)
    _schema(value, where)


_FORMATS: dict[str, Check] = {
    "text": form({"type": needs(text)}),
    "grammar": form(
        {"type": needs(text), "syntax": needs(one_of("lark", "regex")), "definition": needs(text)}
    ),
}
_CUSTOM = form(
    {
        "type": needs(text),
        "name": needs(_name),
        "description": may(text),
        "format": may(tagged(_FORMATS)),
        "defer_loading": may(boolean),
        "allowed_callers": may(anything),
    }
)
_NAMESPACE = form(
    {
        "type": needs(text),
        "name": needs(_name),
        "description": needs(text),
        "tools": needs(each(tagged({"function": _function, "custom": _CUSTOM}), least=1)),
    }
)


def _hosted(*required: str) -> Check:
    """A tool that runs at the host: only what it cannot do without is looked at."""
    return form({"type": needs(text), **{name: needs(anything) for name in required}}, open_ended=True)


TOOLS: dict[str, Check] = {
    "function": _function,
    "custom": _CUSTOM,
    "namespace": _NAMESPACE,
    "local_shell": form({"type": needs(text)}),
    "shell": form({"type": needs(text), "environment": may(mapping), "allowed_callers": may(anything)}),
    "apply_patch": form({"type": needs(text), "allowed_callers": may(anything)}),
    "tool_search": form(
        {
            "type": needs(text),
            "description": may(text),
            "execution": may(one_of("server", "client")),
            "parameters": may(anything),
        }
    ),
    "web_search": _hosted(),
    "web_search_preview": _hosted(),
    "file_search": _hosted("vector_store_ids"),
    "code_interpreter": _hosted("container"),
    "image_generation": _hosted(),
    "mcp": _hosted("server_label"),
    "computer": _hosted(),
    "computer_use_preview": _hosted("display_height", "display_width", "environment"),
    "programmatic_tool_calling": _hosted(),
}
TOOL_LIST = each(tagged(TOOLS))


def flat(tools: Iterable[Json]) -> Iterator[Json]:
    """Function and custom tools, those inside namespaces with their `namespace` beside; others as they are."""
    for tool in tools:
        if tool["type"] == "namespace":
            yield from ({**inner, "namespace": tool["name"]} for inner in tool["tools"])
        else:
            yield tool


def check_deferred(tools: list[Json]) -> None:
    """Deferred tools need a way to be found [A214].

    Raises:
        ChatRefusal: where there is none.
    """
    if any(tool.get("defer_loading") for tool in flat(tools)) and not any(
        tool["type"] == "tool_search" for tool in tools
    ):
        refuse(
            "Invalid Value: 'tools.defer_loading'. Deferred tools require tools.tool_search.",
            "tools.defer_loading",
            "invalid_value",
        )
