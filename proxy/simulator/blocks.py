"""The content blocks of a message: which kinds a role may hold and the members of each."""

from typing import Any

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
    join,
    members,
    one_of,
    string,
    tagged,
    text_or,
)

SERVER_RESULTS = (
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "advisor_tool_result",
    "mcp_tool_result",
)
SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
COMPACTION = ("compact-2026-01-12", "compact-2026-09-04")
TOOL_CHANGES = ("mid-conversation-tool-changes-", "inline-tools-")


def mark(value: Any, path: str, request: Request) -> None:
    """A cache mark [B3]."""
    if not isinstance(value, dict):
        refuse(f"{path}: Input should be a valid dictionary")
    if value.get("type") != "ephemeral":
        refuse(f"{path}.type: Input should be 'ephemeral'")
    ephemeral = members(
        {
            "type": Member(string()),
            "ttl": Member(one_of("5m", "1h")),
            "scope": Member(anything),
        }
    )
    ephemeral(value, join(path, "ephemeral"), request)


MARK: Shape = mark
TEXT: Members = {
    "type": Member(one_of("text"), required=True),
    "text": Member(string(), required=True),
    "cache_control": Member(MARK),
    "citations": Member(array(dictionary)),
}
_ID = string("^[a-zA-Z0-9_-]+$")
_SOURCE = tagged(
    {
        "base64": members(
            {
                "type": Member(string()),
                "media_type": Member(string(), required=True),
                "data": Member(string(), required=True),
            }
        ),
        "url": members({"type": Member(string()), "url": Member(string(), required=True)}),
        "file": members({"type": Member(string()), "file_id": Member(string(), required=True)}),
        "text": members(
            {
                "type": Member(string()),
                "media_type": Member(string(), required=True),
                "data": Member(string(), required=True),
            }
        ),
        "content": members({"type": Member(string()), "content": Member(anything, required=True)}),
    }
)
_IMAGE_TYPES = one_of("image/jpeg", "image/png", "image/gif", "image/webp")


def _image_source(value: Any, path: str, request: Request) -> None:
    _SOURCE(value, path, request)
    if value["type"] == "base64":
        _IMAGE_TYPES(value["media_type"], f"{path}.base64.media_type", request)


_KIND = Member(string())
_IMAGE: Members = {
    "type": _KIND,
    "source": Member(_image_source, required=True),
    "cache_control": Member(MARK),
}
_DOCUMENT: Members = {
    "type": _KIND,
    "source": Member(_SOURCE, required=True),
    "title": Member(string()),
    "context": Member(string()),
    "citations": Member(dictionary),
    "cache_control": Member(MARK),
}
_SEARCH: Members = {
    "type": _KIND,
    "source": Member(string(), required=True),
    "title": Member(string(), required=True),
    "content": Member(array(members(TEXT)), required=True),
    "citations": Member(dictionary),
    "cache_control": Member(MARK),
}
_REFERENCE: Members = {
    "type": _KIND,
    "tool_name": Member(string(), required=True),
    "cache_control": Member(MARK),
}
_BROWSER_STATE = members({"type": _KIND}, open_ended=True)

_RESULT: Members = {
    "type": _KIND,
    "tool_use_id": Member(_ID, required=True),
    "content": Member(
        text_or(
            array(
                tagged(
                    {
                        "text": members(TEXT),
                        "image": members(_IMAGE),
                        "document": members(_DOCUMENT),
                        "search_result": members(_SEARCH),
                        "tool_reference": members(_REFERENCE),
                        "browser_state": _BROWSER_STATE,
                    }
                )
            )
        )
    ),
    "is_error": Member(boolean),
    "toolset_name": Member(string()),
    "cache_control": Member(MARK),
}
_CALL: Members = {
    "type": _KIND,
    "id": Member(_ID, required=True),
    "name": Member(string(), required=True),
    "input": Member(dictionary, required=True),
    "caller": Member(anything),
    "toolset_name": Member(string()),
    "cache_control": Member(MARK),
}
_SERVER_CALL = members(
    {
        "type": _KIND,
        "id": Member(string("^srvtoolu_[a-zA-Z0-9_]+$"), required=True),
        "name": Member(string(), required=True),
        "input": Member(anything, required=True),
        "cache_control": Member(MARK),
    },
    open_ended=True,
)
_MCP_CALL = members(
    {"type": _KIND, "id": Member(string(), required=True), "name": Member(string(), required=True)},
    open_ended=True,
)
_SERVER_RESULT = members(
    {"type": _KIND, "tool_use_id": Member(string(), required=True), "cache_control": Member(MARK)},
    open_ended=True,
)
_THINKING = members(
    {
        "type": _KIND,
        "thinking": Member(string(), required=True),
        "signature": Member(string(), required=True),
    }
)
_REDACTED = members({"type": _KIND, "data": Member(string(), required=True)})
_OPEN = members({"type": _KIND, "cache_control": Member(MARK)}, open_ended=True)
_COMPACTION = members(
    {
        "type": _KIND,
        "content": Member(anything),
        "signature": Member(string()),
        "tool_changes": Member(anything),
        "cache_control": Member(MARK),
    }
)

_USER: dict[str, Shape] = {
    "text": members(TEXT),
    "image": members(_IMAGE),
    "document": members(_DOCUMENT),
    "search_result": members(_SEARCH),
    "tool_result": members(_RESULT),
    "container_upload": _OPEN,
}
_ASSISTANT: dict[str, Shape] = {
    "text": members(TEXT),
    "thinking": _THINKING,
    "redacted_thinking": _REDACTED,
    "tool_use": members(_CALL),
    "server_tool_use": _SERVER_CALL,
    "mcp_tool_use": _MCP_CALL,
    **dict.fromkeys(SERVER_RESULTS, _SERVER_RESULT),
    "mcp_tool_listing": _OPEN,
    "fallback": _OPEN,
    "connector_text": _OPEN,
}
_DOCUMENT_TO_ASSISTANT: dict[str, Shape] = {**_ASSISTANT, "document": members(_DOCUMENT)}


def _with_compaction(kinds: dict[str, Shape], request: Request) -> Shape:
    if request.has_beta(*COMPACTION):
        kinds = {**kinds, "compaction": _COMPACTION}
    return tagged(kinds)


def _no_citations(value: Any, path: str) -> None:
    """Version 2026-10-21 takes no citations in what the user says [A7]."""
    kind = value["type"]
    if kind == "text" and value.get("citations"):
        refuse(f"{path}.text.citations: Extra inputs are not permitted")
    inner = value["content"] if kind == "search_result" else []
    for index, item in enumerate(inner):
        _no_citations(item, f"{path}.search_result.content.{index}")


def USER(request: Request) -> Shape:  # noqa: N802  a table with a parameter
    """What a user message may hold."""
    kinds = _with_compaction(_USER, request)

    def check(value: Any, path: str, request: Request) -> None:
        kinds(value, path, request)
        if request.version >= "2026-10-21":
            _no_citations(value, path)

    return check


def ASSISTANT(request: Request) -> Shape:  # noqa: N802  a table with a parameter
    """What an assistant message may hold; a document only before version 2026-10-21 [A7]."""
    return _with_compaction(
        _ASSISTANT if request.version >= "2026-10-21" else _DOCUMENT_TO_ASSISTANT, request
    )


def SYSTEM_ROLE(_request: Request) -> Shape:  # noqa: N802  a table with a parameter
    """What a message of role system may hold [A60 A63]."""
    kinds: dict[str, Shape] = {
        "text": members(TEXT),
        "tool_addition": _OPEN,
        "tool_removal": _OPEN,
    }

    def check(value: Any, path: str, request: Request) -> None:
        if isinstance(value, dict) and value.get("type") not in tuple(kinds):
            refuse(
                f"{path.split('.content', maxsplit=1)[0]}: role 'system' supports text, tool_addition, and "
                "tool_removal blocks only"
            )
        if isinstance(value, dict) and value.get("type") != "text" and not request.has_beta(*TOOL_CHANGES):
            refuse(
                f"{path}: Input tag '{value.get('type')}' found using 'type' does not match any of the "
                "expected tags: 'text'"
            )
        tagged(kinds)(value, path, request)

    return check
