"""The forms of input items [A200 A203 A207 A208]."""

from typing import Any

from .forms import (
    Check,
    Context,
    Json,
    Members,
    anything,
    at_most,
    bad_value,
    boolean,
    each,
    form,
    item_id,
    mapping,
    may,
    missing,
    needs,
    one_of,
    tagged,
    text,
    text_or,
    unknown,
)
from .tools import TOOL_LIST

_ROLES = ("assistant", "system", "developer", "user")
_STATUS = one_of("in_progress", "completed", "incomplete")
_PARTS = (
    "input_text",
    "input_image",
    "input_audio",
    "output_text",
    "refusal",
    "input_file",
    "computer_screenshot",
    "summary_text",
    "encrypted_content",
)
"""What contents of messages are made of, as the API lists it."""

# -- contents --------------------------------------------------------------------------------------------

_MARK = form({"mode": needs(one_of("explicit")), "ttl": may(one_of("30m", "12h"))})


def _mark(value: Any, where: str, context: Context) -> None:
    """A breakpoint, which older models do not know [B104]."""
    if not context.marks:
        unknown(where)
    _MARK(value, where, context)


def _part(members: Members, *, marked: bool = True) -> Check:
    mark: Members = {"prompt_cache_breakpoint": may(_mark)} if marked else {}
    return form({"type": needs(text), **members, **mark})


INPUT_PARTS: dict[str, Check] = {
    "input_text": _part({"text": needs(text)}),
    "input_image": _part(
        {
            "detail": may(one_of("low", "high", "auto", "original")),
            "image_url": may(text),
            "file_id": may(text),
        }
    ),
    "input_file": _part(
        {
            "file_data": may(text),
            "file_id": may(text),
            "file_url": may(text),
            "filename": may(text),
            "detail": may(text),
        }
    ),
}
OUTPUT_PARTS: dict[str, Check] = {
    "output_text": _part(
        {"text": needs(text), "annotations": may(each(anything)), "logprobs": may(each(anything))},
        marked=False,
    ),
    "refusal": _part({"refusal": needs(text)}, marked=False),
}


def _content(value: Any, where: str, context: Context, kinds: dict[str, Check]) -> None:
    if isinstance(value, str):
        return
    known = tagged(kinds)
    for at, part in enumerate(value if isinstance(value, list) else ()):
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind not in _PARTS:
            bad_value(kind, f"{where}[{at}].type", _PARTS)
    each(known)(value, where, context)


def _message(value: Json, where: str, context: Context) -> None:
    """A message of any role: only the model's own words are output [A208]."""
    if value.get("role") is None:
        missing(f"{where}.role")
    one_of(*_ROLES)(value["role"], f"{where}.role", context)
    kinds = OUTPUT_PARTS if value["role"] == "assistant" else INPUT_PARTS

    def content(inner: Any, here: str, context: Context) -> None:
        _content(inner, here, context, kinds)

    form(
        {
            "type": may(text),
            "role": needs(text),
            "content": needs(content),
            "id": may(item_id("msg")),
            "status": may(_STATUS),
            "phase": may(one_of("commentary", "final_answer")),
        }
    )(value, where, context)


_RESULT = text_or(
    each(
        tagged(
            INPUT_PARTS,
            names=("input_text", "input_image", "input_file", "scoped_content"),
            at_type=False,
        )
    )
)
"""What a call gave back [B104]."""

# -- items -----------------------------------------------------------------------------------------------

_CALL_ID = at_most(64, least=1)
_CALLER: Members = {
    "caller": may(mapping),
    "namespace": may(text),
    "status": may(_STATUS),
    "async": may(boolean),
    "created_by": may(text),
}


def _item(members: Members, *prefixes: str, open_ended: bool = False) -> Check:
    named = {"type": may(text), "id": may(item_id(*prefixes))}
    return form({**named, **members}, open_ended=open_ended)


def _reasoning(value: Json, where: str, context: Context) -> None:
    _REASONING(value, where, context)
    if value.get("id") is None and value.get("encrypted_content") is None:
        missing(f"{where}.id")


_SUMMARY = tagged({"summary_text": form({"type": needs(text), "text": needs(text)})})
_THOUGHT = tagged({"reasoning_text": form({"type": needs(text), "text": needs(text)})})
_REASONING = _item(
    {
        "summary": needs(each(_SUMMARY)),
        "content": may(each(_THOUGHT)),
        "encrypted_content": may(text),
        "status": may(_STATUS),
    },
    "rs",
)
_OPERATION = tagged(
    {
        "create_file": form({"type": needs(text), "path": needs(text), "diff": needs(text)}),
        "update_file": form({"type": needs(text), "path": needs(text), "diff": needs(text)}),
        "delete_file": form({"type": needs(text), "path": needs(text)}),
    }
)
_EXEC = form(
    {
        "type": needs(one_of("exec")),
        "command": needs(each(text)),
        "env": may(mapping),
        "timeout_ms": may(anything),
        "user": may(text),
        "working_directory": may(text),
    }
)
_COMMANDS = form(
    {"commands": needs(each(text)), "max_output_length": may(anything), "timeout_ms": may(anything)}
)

_KINDS: dict[str, Check] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _item(
        {"arguments": needs(text), "call_id": needs(_CALL_ID), "name": needs(text), **_CALLER}, "fc"
    ),
    "function_call_output": _item(
        {"output": needs(_RESULT), "call_id": may(_CALL_ID), "name": may(text), **_CALLER}, "fc"
    ),
    "custom_tool_call": _item(
        {"call_id": needs(_CALL_ID), "input": needs(text), "name": needs(text), **_CALLER}, "ctc"
    ),
    "custom_tool_call_output": _item(
        {"call_id": needs(_CALL_ID), "output": needs(_RESULT), "name": may(text), **_CALLER}, "ctc"
    ),
    "local_shell_call": _item(
        {"action": needs(_EXEC), "call_id": needs(_CALL_ID), "status": needs(_STATUS)}, "lsh"
    ),
    "local_shell_call_output": _item(
        {"output": needs(text), "call_id": may(_CALL_ID), "status": may(_STATUS)}
    ),
    "shell_call": _item(
        {"action": needs(_COMMANDS), "call_id": needs(_CALL_ID), "environment": may(mapping), **_CALLER}, "sh"
    ),
    "shell_call_output": _item(
        {
            "call_id": needs(_CALL_ID),
            "output": needs(each(mapping)),
            "max_output_length": may(anything),
            **_CALLER,
        }
    ),
    "apply_patch_call": _item(
        {"call_id": needs(_CALL_ID), "operation": needs(_OPERATION), **_CALLER, "status": needs(_STATUS)},
        "apc",
    ),
    "apply_patch_call_output": _item(
        {
            "call_id": needs(_CALL_ID),
            "output": may(text),
            **_CALLER,
            "status": needs(one_of("completed", "failed")),
        }
    ),
    "tool_search_call": _item(
        {
            "arguments": needs(anything),
            "call_id": may(_CALL_ID),
            "execution": may(one_of("server", "client")),
            "status": may(_STATUS),
        }
    ),
    "tool_search_output": _item(
        {
            "tools": needs(TOOL_LIST),
            "call_id": may(_CALL_ID),
            "execution": may(one_of("server", "client")),
            "status": may(_STATUS),
        }
    ),
    "additional_tools": _item({"role": needs(one_of("developer")), "tools": needs(TOOL_LIST)}),
    "compaction": _item({"encrypted_content": needs(text), "created_by": may(text)}),
    "compaction_trigger": _item({}),
    "configuration_update": _item(
        {
            "reasoning": may(form({"effort": may(text)})),
            "text": may(form({"format": needs(mapping)})),
        }
    ),
    "item_reference": form({"type": may(text), "id": needs(item_id())}),
    "computer_call": _item({"call_id": needs(_CALL_ID)}, open_ended=True),
    "computer_call_output": _item({"call_id": needs(_CALL_ID), "output": needs(mapping)}, open_ended=True),
    "web_search_call": _item({"status": needs(text)}, "ws", open_ended=True),
    "file_search_call": _item({"queries": needs(each(text))}, "fs", open_ended=True),
    "code_interpreter_call": _item({"container_id": needs(text)}, "ci", open_ended=True),
    "image_generation_call": _item({}, "ig", open_ended=True),
    "mcp_list_tools": _item({"server_label": needs(text), "tools": needs(each(mapping))}, open_ended=True),
    "mcp_approval_request": _item({"name": needs(text), "server_label": needs(text)}, open_ended=True),
    "mcp_approval_response": _item(
        {"approval_request_id": needs(text), "approve": needs(boolean)}, open_ended=True
    ),
    "mcp_call": _item({"name": needs(text), "server_label": needs(text)}, open_ended=True),
    "program": _item({"call_id": needs(_CALL_ID), "code": needs(text)}, open_ended=True),
    "program_output": _item({"call_id": needs(_CALL_ID), "result": needs(text)}, open_ended=True),
}
_TAGGED = tagged(_KINDS, at_type=False)


def kind_of(item: Json) -> str:
    """The kind of an item: a role alone makes a message, an id alone a reference."""
    if item.get("type") is not None:
        return str(item["type"])
    if "role" in item:
        return "message"
    return "item_reference" if item.keys() == {"id"} else ""


def check(item: Any, where: str, context: Context) -> None:
    """Refuse what is no input item.

    Raises:
        ChatRefusal: the first fault.
    """
    mapping(item, where, context)
    kind = kind_of(item)
    if item.get("type") is None and kind:
        _KINDS[kind](item, where, context)
    else:
        _TAGGED(item, where, context)
