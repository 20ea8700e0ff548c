"""The form of a chat request: types, roles, contents, ids, parameters, each with its wording [A100 A103-A106]."""

import re
from typing import Any

from .flavours import Flavour, has_breakpoints, reasons, version
from .refusal import ChatRefusal, bad_type, refuse

Json = dict[str, Any]

ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_KNOWN = frozenset(
    [
        "messages",
        "model",
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "metadata",
        "modalities",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    ]
)
_PARTS = {
    "text": {"text"},
    "image_url": {"image_url"},
    "input_audio": {"input_audio"},
    "file": {"file"},
    "refusal": {"refusal"},
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_EMPTY = "empty array. Expected an array with minimum length 1, but got an empty array instead."


def check(body: Json, flavour: Flavour) -> None:
    """Refuse what is not a chat request, in the order in which a service finds it.

    Raises:
        ChatRefusal: the first fault.
    """
    for name in ("model", "messages"):
        if body.get(name) is None:
            refuse(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    _typed(body["model"], "model", str)
    messages = _typed(body["messages"], "messages", list)
    if not messages:
        refuse(f"Invalid 'messages': {_EMPTY}", "messages", "empty_array")
    _parameters(body, flavour)
    for at, tool in enumerate(_typed(body.get("tools") or [], "tools", list)):
        _tool(tool, f"tools[{at}]", flavour)
    for at, message in enumerate(messages):
        _message(_typed(message, f"messages[{at}]", dict), at, body, flavour)


def _typed(value: Any, where: str, kind: type[str | list[Any] | dict[str, Any]]) -> Any:
    if not isinstance(value, kind):
        expected = {"str": "a string", "list": "an array of objects", "dict": "an object"}[kind.__name__]
        bad_type(value, where, expected)
    return value


# -- parameters ------------------------------------------------------------------------------------------


def _parameters(body: Json, flavour: Flavour) -> None:
    model = body["model"]
    for name in body if flavour.strict else ():
        if name not in _KNOWN:
            refuse(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    if flavour.strict and "prompt_cache_options" in body and not has_breakpoints(flavour, model):
        _unsupported("prompt_cache_options")
    user = body.get("user")
    if flavour.strict and isinstance(user, str) and len(user) > 64:
        refuse(_too_long("user", 64, user), "user", "string_above_max_length")
    if flavour.name == "kimi" and body.get("tool_choice") == "required":
        refuse("Invalid request: tool_choice 'required' is not supported")
    if reasons(flavour, model):
        _reasoning_parameters(body, model)


def _reasoning_parameters(body: Json, model: str) -> None:
    """What reasoning models refuse [A106]."""
    if body.get("max_tokens") is not None:
        refuse(
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        )
    temperature = body.get("temperature")
    if temperature is None or body.get("reasoning_effort") == "none":
        return
    if version(model) >= (5, 6):
        _unsupported("temperature")
    if temperature != 1:
        refuse(
            f"Unsupported value: 'temperature' does not support {temperature} with this model. "
            "Only the default (1) value is supported.",
            "temperature",
            "unsupported_value",
        )


def _unsupported(name: str) -> None:
    refuse(
        f"Unsupported parameter: '{name}' is not supported with this model.", name, "unsupported_parameter"
    )


def _too_long(where: str, most: int, value: str) -> str:
    return (
        f"Invalid '{where}': string too long. Expected a string with maximum length {most}, "
        f"but got a string with length {len(value)} instead."
    )


def _tool(tool: Any, where: str, flavour: Flavour) -> None:
    _typed(tool, where, dict)
    kind = tool.get("type")
    kinds = ("function", "custom") if flavour.custom_tools else ("function",)
    if kind not in kinds:
        refuse(_unsupported_value(kind, kinds), f"{where}.type", "invalid_value")
    name = _typed(_typed(tool.get(kind), f"{where}.{kind}", dict).get("name"), f"{where}.{kind}.name", str)
    if not _NAME.fullmatch(name):
        refuse(
            f"Invalid '{where}.{kind}.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            f"{where}.{kind}.name",
            "invalid_value",
        )


def _unsupported_value(value: Any, values: tuple[str, ...]) -> str:
    *others, last = (f"'{one}'" for one in values)
    listed = f"{', '.join(others)}, and {last}" if others else last
    return f"Invalid value: '{value}'. Supported values are: {listed}."


# -- messages --------------------------------------------------------------------------------------------


def _message(message: Json, at: int, body: Json, flavour: Flavour) -> None:
    role = message.get("role")
    if role is None:
        refuse(
            f"Missing required parameter: 'messages[{at}].role'.",
            f"messages[{at}].role",
            "missing_required_parameter",
        )
    if role not in ROLES:
        refuse(_unsupported_value(role, ROLES), f"messages[{at}].role", "invalid_value")
    calls = _calls(message, at, flavour) if role == "assistant" else []
    content = message.get("content")
    silent = role == "assistant" and (calls or message.get("function_call") or message.get("audio"))
    silent = silent or (role == "assistant" and message.get("refusal"))
    if content is None:
        if not silent:
            refuse("Invalid value for 'content': expected a string, got null.", f"messages.[{at}].content")
    elif not isinstance(content, str):
        _content(_typed(content, f"messages[{at}].content", list), at, role, body, flavour)
    if role == "tool":
        _tool_call_id(message, at, flavour)


def _content(content: list[Any], at: int, role: str, body: Json, flavour: Flavour) -> None:
    where = f"messages[{at}].content"
    if not content and flavour.strict:
        refuse(f"Invalid '{where}': {_EMPTY}", where, "empty_array")
    for nth, part in enumerate(content):
        here = f"{where}[{nth}]"
        kind = _typed(part, here, dict).get("type")
        if not flavour.strict and kind not in _PARTS:
            continue
        if kind not in _PARTS:
            refuse(_unsupported_value(kind, tuple(_PARTS)), f"{here}.type", "invalid_value")
        if kind == "image_url" and role != "user" and not (role == "tool" and flavour.images_in_results):
            refuse(
                f"Invalid 'messages[{at}]'. Image URLs are only allowed for messages with role 'user', "
                f"but this message with role '{role}' contains an image URL.",
                f"messages[{at}]",
                "invalid_value",
            )
        for member in _PARTS[kind] - part.keys():
            refuse(
                f"Missing required parameter: '{here}.{member}'.",
                f"{here}.{member}",
                "missing_required_parameter",
            )
        if kind == "text":
            _typed(part["text"], f"{here}.text", str)
        _part_members(part, here, kind, body, flavour)


def _part_members(part: Json, where: str, kind: str, body: Json, flavour: Flavour) -> None:
    """Members beside the known ones; breakpoints only where the model has them [B104]."""
    known = {"type", *_PARTS[kind]}
    if has_breakpoints(flavour, body["model"]):
        known.add("prompt_cache_breakpoint")
    for member in part if flavour.strict else ():
        if member not in known:
            refuse(f"Unknown parameter: '{where}.{member}'.", f"{where}.{member}", "unknown_parameter")


def _calls(message: Json, at: int, flavour: Flavour) -> list[Json]:
    calls = message.get("tool_calls")
    if calls is None:
        return []
    where = f"messages[{at}].tool_calls"
    if not _typed(calls, where, list) and flavour.strict:
        refuse(f"Invalid '{where}': {_EMPTY}", where, "empty_array")
    for nth, call in enumerate(calls):
        _call(_typed(call, f"{where}[{nth}]", dict), f"{where}[{nth}]", flavour)
    return calls  # type: ignore[no-any-return]


def _call(call: Json, where: str, flavour: Flavour) -> None:
    _id(call.get("id"), f"{where}.id", flavour)
    kind = call.get("type", "function")
    kinds = ("function", "custom") if flavour.custom_tools else ("function",)
    if kind not in kinds:
        refuse(_unsupported_value(kind, kinds), f"{where}.type", "invalid_value")
    inner = _typed(call.get(kind), f"{where}.{kind}", dict)
    name = _typed(inner.get("name"), f"{where}.{kind}.name", str)
    if flavour.strict and not _NAME.fullmatch(name):
        refuse(
            f"Invalid '{where}.{kind}.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            f"{where}.{kind}.name",
            "invalid_value",
        )
    member = "arguments" if kind == "function" else "input"
    _typed(inner.get(member), f"{where}.{kind}.{member}", str)


def _tool_call_id(message: Json, at: int, flavour: Flavour) -> None:
    if flavour.pairing == "none" and message.get("tool_call_id") is None:
        return  # the template decides what it does with it
    if message.get("tool_call_id") is None:
        refuse(
            "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.",
            f"messages.[{at}].tool_call_id",
        )
    _id(message["tool_call_id"], f"messages[{at}].tool_call_id", flavour)


def _id(value: Any, where: str, flavour: Flavour) -> None:
    """An id of a call: its length at OpenAI, its form at Mistral [A104 A430]."""
    if flavour.pairing == "none" and value is None:
        return
    _typed(value, where, str)
    if len(value) > flavour.call_id_max:
        refuse(_too_long(where, flavour.call_id_max, value), where, "string_above_max_length")
    if not re.fullmatch(flavour.call_id, value, re.DOTALL):
        raise ChatRefusal(
            f"Tool call id was {value} but must be a-z, A-Z, 0-9, with a length of 9.",
            code="3280",
            kind="invalid_request_message_error",
        )
