"""The schema of a request: which members there are, what shape they have, which beta brings them.

Unknown members of the body, of messages and of content blocks are refused [A1]; tools, server
tool results and what the sheet of rules does not spell out stay open, so that the provider never
refuses a real client for a field it merely does not know.
"""

from typing import Any

from .blocks import ASSISTANT, MARK, SYSTEM_ROLE, TEXT, USER
from .refusal import refuse
from .request import Request
from .shape import (
    Member,
    Members,
    Shape,
    anything,
    array,
    boolean,
    dictionary,
    integer,
    join,
    members,
    number,
    one_of,
    string,
    tagged,
    text_or,
)

THREADS = "message-threads-"
EDITING = ("context-management-", "compact-2026-01-12")
BINDING = "thinking-binding-controls-2026-08-01"
DISPLAY_UPDATES = "thinking-display-updates-"
MESSAGE_EFFORT = ("mid-conversation-output-config-", "per-turn-control-")
"""The second is what Claude Code names the same feature."""
CLEAR_AT = "mid-conversation-system-clear-at-"


def _display(value: Any, path: str, request: Request) -> None:
    words = ["summarized", "omitted"]
    if request.has_beta(DISPLAY_UPDATES):
        words.append("updates")
    one_of(*words)(value, path, request)


_THINKING = tagged(
    {
        "enabled": members(
            {
                "type": Member(string()),
                "budget_tokens": Member(integer(1024), required=True),
                "display": Member(_display),
            }
        ),
        "adaptive": members(
            {
                "type": Member(string()),
                "display": Member(_display),
                "block_binding": Member(
                    members({"prefix_mismatch_behavior": Member(one_of("error", "drop_block"))}),
                    betas=(BINDING,),
                ),
            }
        ),
        "disabled": members({"type": Member(string())}),
        "between_tools": members({"type": Member(string()), "display": Member(_display)}),
    }
)

_CHOICE = tagged(
    {
        "auto": members({"type": Member(string()), "disable_parallel_tool_use": Member(boolean)}),
        "any": members({"type": Member(string()), "disable_parallel_tool_use": Member(boolean)}),
        "tool": members(
            {
                "type": Member(string()),
                "name": Member(string(), required=True),
                "disable_parallel_tool_use": Member(boolean),
            }
        ),
        "none": members({"type": Member(string())}),
    }
)

_CUSTOM_TOOL = members(
    {
        "type": Member(anything),
        "name": Member(string("^[a-zA-Z0-9_-]{1,128}$"), required=True),
        "description": Member(string()),
        "input_schema": Member(
            members({"type": Member(one_of("object"), required=True)}, open_ended=True), required=True
        ),
        "cache_control": Member(MARK),
        "defer_loading": Member(boolean),
        "eager_input_streaming": Member(boolean),
        "strict": Member(boolean),
        "allowed_callers": Member(array(string())),
        "input_examples": Member(array(dictionary)),
    }
)


_SERVER_TOOL = members(
    {"name": Member(string()), "cache_control": Member(MARK), "defer_loading": Member(boolean)},
    open_ended=True,
)


def _tool(value: Any, path: str, request: Request) -> None:
    """A tool of the client's, or one the provider runs or defines (a dated type)."""
    if not isinstance(value, dict):
        refuse(f"{path}: Input should be a valid dictionary")
    kind = value.get("type")
    if kind is None or kind == "custom":
        _CUSTOM_TOOL(value, join(path, "custom"), request)
    elif not isinstance(kind, str):
        refuse(f"{path}.type: Input should be a valid string")
    else:
        _SERVER_TOOL(value, join(path, kind), request)


def _amount(*kinds: str) -> Shape:
    """A threshold: a kind and a number."""
    return members(
        {"type": Member(one_of(*kinds), required=True), "value": Member(integer(0), required=True)}
    )


def _keep_thinking(value: Any, path: str, request: Request) -> None:
    """How much thinking to keep: all, or the newest turns."""
    if value == "all" or (isinstance(value, dict) and value == {"type": "all"}):
        return
    turns = {
        "type": Member(one_of("thinking_turns"), required=True),
        "value": Member(integer(1), required=True),
    }
    members(turns)(value, path, request)


_EDITS: dict[str, Shape] = {
    "clear_thinking_20251015": members({"type": Member(string()), "keep": Member(_keep_thinking)}),
    "clear_tool_uses_20250919": members(
        {
            "type": Member(string()),
            "trigger": Member(_amount("input_tokens", "tool_uses")),
            "keep": Member(_amount("tool_uses")),
            "clear_at_least": Member(_amount("input_tokens")),
            "exclude_tools": Member(array(string())),
            "clear_tool_inputs": Member(anything),
        }
    ),
}
_COMPACT: Shape = members(
    {
        "type": Member(string()),
        "trigger": Member(_amount("input_tokens")),
        "pause_after_compaction": Member(boolean),
        "instructions": Member(string()),
    }
)


def _edit(value: Any, path: str, request: Request) -> None:
    """One strategy of context editing; each kind needs its own beta [E1 E4]."""
    compacts = request.has_beta("compact-2026-01-12")
    tagged({**_EDITS, "compact_20260112": _COMPACT} if compacts else _EDITS)(value, path, request)


_THREAD = members(
    {"type": Member(one_of("create", "continue"), required=True), "previous_message_id": Member(string())}
)
_TOP: Members = {
    "model": Member(string(), required=True),
    "messages": Member(array(anything), required=True),
    "system": Member(text_or(array(members(TEXT)))),
    "tools": Member(array(_tool)),
    "tool_choice": Member(_CHOICE),
    "thinking": Member(_THINKING),
    "output_config": Member(
        members(
            {"effort": Member(one_of("low", "medium", "high", "xhigh", "max"))},
            open_ended=True,
        )
    ),
    "cache_control": Member(MARK),
    "context_management": Member(members({"edits": Member(array(_edit))}), betas=EDITING),
    "mcp_servers": Member(array(dictionary), betas=("mcp-client-",)),
    "compaction": Member(dictionary, betas=("compact-2026-09-04",)),
    "thread": Member(_THREAD, betas=(THREADS,)),
    "speed": Member(one_of("standard", "fast")),
}
_GENERATING: Members = {
    "max_tokens": Member(integer(0), required=True),
    "metadata": Member(members({"user_id": Member(string())})),
    "stop_sequences": Member(array(string())),
    "stream": Member(boolean),
    "temperature": Member(number),
    "top_p": Member(number),
    "top_k": Member(integer()),
    "service_tier": Member(one_of("auto", "standard_only")),
    "inference_geo": Member(string()),
    "container": Member(anything),
    "diagnostics": Member(members({"previous_message_id": Member(string())})),
    "output_format": Member(dictionary, betas=("structured-outputs-",)),
    "fallbacks": Member(anything, betas=("server-side-fallback-",)),
    "safeguards": Member(anything, betas=("dangerous-tool-use-",)),
    "fallback_credit_token": Member(string()),
    "user_profile_id": Member(string()),
}
_SAMPLING = ("temperature", "top_p", "top_k")


def _table(*, counting: bool, version: str) -> Members:
    generating = {
        key: member
        for key, member in _GENERATING.items()
        if not (version >= "2026-10-21" and key in _SAMPLING)
    }
    if counting:
        return _TOP
    return {"model": _TOP["model"], **generating, **_TOP}


_MESSAGE = {
    "role": Member(one_of("user", "assistant", "system"), required=True),
    "content": Member(anything, required=True),
}
_SYSTEM_MESSAGE: Members = {
    **_MESSAGE,
    "output_config": Member(dictionary, betas=MESSAGE_EFFORT),
    "clear_at": Member(one_of("next_user_message"), betas=(CLEAR_AT,)),
}


def check(request: Request) -> None:
    """Refuse a body that does not have the shape of a request [A1 A2 A24-A26].

    Raises:
        Refusal: the first member that is missing, too many or of another shape.
    """
    table = _table(counting=request.counting, version=request.version)
    members(table)(request.body, "", request)
    messages = request.messages
    if not messages:
        refuse("messages: at least one message is required")
    if len(messages) > 100_000:
        refuse("messages: List should have at most 100000 items after validation")
    for index, message in enumerate(messages):
        _message(message, f"messages.{index}", request)


def _message(message: Any, path: str, request: Request) -> None:
    system = isinstance(message, dict) and message.get("role") == "system"
    members(_SYSTEM_MESSAGE if system else _MESSAGE)(message, path, request)
    content = message["content"]
    where = f"{path}.content"
    if isinstance(content, str):
        if system and request.settings.strict_system_content:
            refuse(f"{where}: Input should be a valid array")
        return
    kinds = {"user": USER, "assistant": ASSISTANT, "system": SYSTEM_ROLE}[message["role"]]
    array(kinds(request))(content, where, request)
