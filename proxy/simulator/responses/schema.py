"""The form of a request: its parameters and what models make of them [A106 A210 A211 A214 B104]."""

from collections.abc import Iterator
from typing import Any

import orjson

from ..chat.flavours import version
from ..chat.refusal import bad_type, refuse
from . import items
from .facts import has_marks, reasons
from .forms import (
    Check,
    Context,
    Json,
    Members,
    anything,
    at_most,
    boolean,
    each,
    form,
    mapping,
    may,
    missing,
    needs,
    one_of,
    text,
    text_or,
    unknown,
    unsupported,
    whole,
)
from .tools import TOOL_LIST, check_deferred, flat

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_INCLUDES = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
_HISTORY = ("previous_response_id", "conversation", "prompt")


def _name(value: Any, where: str, context: Context) -> None:
    at_most(64)(value, where, context)


def _input(value: Any, where: str, context: Context) -> None:
    if isinstance(value, str):
        return
    if not isinstance(value, list):
        bad_type(value, where, "a string or an array of items")
    each(items.check)(value, where, context)


def _least(least: int) -> Check:
    def check(value: Any, where: str, context: Context) -> None:
        whole(value, where, context)
        if value < least:
            refuse(
                f"Invalid '{where}': integer below minimum value. Expected a value >= {least}, "
                f"but got {value} instead.",
                where,
                "integer_below_min_value",
            )

    return check


_CACHE: Members = {
    "mode": may(one_of("implicit", "explicit")),
    "ttl": may(one_of("30m", "12h")),
    "prewarm": may(boolean),
    "comparison_response_id": may(text),
}
_REASONING: Members = {
    "effort": may(one_of(*EFFORTS)),
    "summary": may(one_of("auto", "concise", "detailed")),
    "generate_summary": may(one_of("auto", "concise", "detailed")),
    "context": may(one_of("auto", "current_turn", "all_turns")),
    "mode": may(text),
}


def _schema(value: Any, where: str, context: Context) -> None:
    """A JSON schema, as far as types go."""
    mapping(value, where, context)
    for inner in (value, *_inside(value)):
        kind = inner.get("type") if isinstance(inner, dict) else None
        if kind is not None and not (isinstance(kind, str) or (isinstance(kind, list) and kind)):
            refuse(
                f"Invalid schema for response_format: {orjson.dumps(kind).decode()} is not valid under any of "
                "the given schemas.",
                where,
                "invalid_json_schema",
            )


def _inside(schema: Json) -> Iterator[Any]:
    """The schemas inside a schema."""
    properties = schema.get("properties")
    for inner in (*(properties.values() if isinstance(properties, dict) else ()), schema.get("items")):
        if isinstance(inner, dict):
            yield inner
            yield from _inside(inner)


_FORMAT = form(
    {
        "type": needs(one_of("text", "json_object", "json_schema")),
        "name": may(_name),
        "schema": may(_schema),
        "strict": may(boolean),
        "description": may(text),
    }
)
_COMPACTING = form({"type": needs(one_of("compaction")), "compact_threshold": may(_least(1))})

_MEMBERS: Members = {
    "model": needs(text),
    "input": may(_input),
    "instructions": may(text),
    "tools": may(TOOL_LIST),
    "tool_choice": may(text_or(mapping)),
    "parallel_tool_calls": may(boolean),
    "reasoning": may(form(_REASONING)),
    "text": may(form({"format": may(_FORMAT), "verbosity": may(one_of("low", "medium", "high"))})),
    "include": may(each(one_of(*_INCLUDES))),
    "store": may(boolean),
    "stream": may(boolean),
    "stream_options": may(form({"include_obfuscation": may(boolean)})),
    "previous_response_id": may(text),
    "conversation": may(text_or(mapping)),
    "prompt": may(mapping),
    "prompt_cache_key": may(at_most(64)),
    "prompt_cache_options": may(form(_CACHE)),
    "prompt_cache_retention": may(one_of("in_memory", "24h")),
    "context_management": may(each(_COMPACTING)),
    "max_output_tokens": may(_least(16)),
    "max_tool_calls": may(_least(1)),
    "metadata": may(mapping),
    "client_metadata": may(mapping),
    "moderation": may(mapping),
    "safety_identifier": may(at_most(64)),
    "service_tier": may(one_of("auto", "default", "flex", "scale", "priority")),
    "temperature": may(anything),
    "top_p": may(anything),
    "top_logprobs": may(whole),
    "truncation": may(one_of("auto", "disabled")),
    "user": may(at_most(64)),
    "background": may(boolean),
    "background_options": may(mapping),
    "access_programs": may(mapping),
    "image": may(mapping),
    "personality": may(text),
}


def check(body: Json) -> None:
    """Refuse what is not a request, in the order in which the API finds it.

    Raises:
        ChatRefusal: the first fault.
    """
    if body.get("model") is None:
        missing("model")
    text(body["model"], "model", Context(model="", marks=False))
    model = body["model"]
    context = Context(model=model, marks=has_marks(model))
    for name in body:
        if name not in _MEMBERS:
            unknown(name)
    _history(body)
    if body.get("prompt_cache_options") is not None and not context.marks:
        unsupported("prompt_cache_options")
    form(_MEMBERS)(body, "", context)
    _of_model(body, model)
    check_deferred(body.get("tools") or [])
    _choice(body)
    _last(body.get("input"))


def _history(body: Json) -> None:
    """Something must be said, and by one history only [A210]."""
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        refuse(
            "Mutually exclusive parameters. Ensure you are only providing one of: 'previous_response_id' or "
            "'conversation'.",
            None,
            "mutually_exclusive_parameters",
        )
    said = body.get("input") not in (None, "", [])
    if not said and not any(body.get(name) is not None for name in _HISTORY):
        refuse(
            "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided.",
            "input",
            "missing_required_parameter",
        )


def _of_model(body: Json, model: str) -> None:
    """What this model refuses [A106 A214]."""
    effort = (body.get("reasoning") or {}).get("effort")
    if not reasons(model):
        if effort is not None:
            unsupported("reasoning.effort")
        return
    if effort == "minimal" and version(model) >= (5, 6):
        refuse(
            f"Unsupported value: 'minimal' is not supported with the '{model}' model.",
            "reasoning.effort",
            "unsupported_value",
        )
    for name in ("temperature", "top_p"):
        if body.get(name) is not None and effort != "none":
            unsupported(name)


def _choice(body: Json) -> None:
    """A tool that is to be called is on offer."""
    choice = body.get("tool_choice")
    if choice is None:
        return
    context = Context(model="", marks=False)
    if isinstance(choice, str):
        one_of("none", "auto", "required")(choice, "tool_choice", context)
        return
    if choice.get("type") not in ("function", "custom"):
        return
    names = {tool.get("name") for tool in flat(body.get("tools") or []) if tool["type"] == choice["type"]}
    if choice.get("name") is None:
        missing("tool_choice.name")
    text(choice["name"], "tool_choice.name", context)
    if choice["name"] not in names:
        refuse(f"Tool choice '{choice['type']}' not found in 'tools' parameter.", "tool_choice")


def _last(given: Any) -> None:
    """The item that asks for compaction is the last [E101]."""
    for at, item in enumerate(given[:-1] if isinstance(given, list) else ()):
        if item.get("type") == "compaction_trigger":
            refuse(
                f"Invalid 'input[{at}]': 'compaction_trigger' must be the final input item.",
                f"input[{at}]",
                "invalid_value",
            )
