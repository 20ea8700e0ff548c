"""Whose turn it is: first and last message, and where a system message may stand."""

from .blocks import SERVER_CALLS, SERVER_RESULTS
from .refusal import refuse
from .request import Json, Request, blocks

_DIRECTIVE = "the directive-only form (content: [] with output_config) is accepted at any position"


def check(request: Request) -> None:
    """Refuse an order of roles the API does not take [A11 A12 A60].

    Consecutive messages of one role are legal and combined [A10].

    Raises:
        Refusal: unsupported or misplaced system messages, then the first, then the last message.
    """
    messages = request.messages
    if any(message["role"] == "system" for message in messages):
        _system(request)
    first = next((m for m in messages if not _directive(m)), None)
    if first is not None and first["role"] != "user" and not _compacted(first):
        refuse('messages: first message must use the "user" role')
    _last(request)


def _directive(message: Json) -> bool:
    """A system message that only sets the effort: exempt from placement [A62]."""
    return message["role"] == "system" and message["content"] == [] and bool(message.get("output_config"))


def _compacted(message: Json) -> bool:
    content = blocks(message)
    return bool(content) and content[0].get("type") == "compaction"


def _system(request: Request) -> None:
    messages = request.messages
    for i, message in enumerate(messages):
        if message["role"] != "system":
            continue
        if not request.model.system_messages:
            refuse(f"messages.{i}: role 'system' is not supported on this model")
        if _directive(message):
            continue
        if not message["content"]:
            refuse(f"messages.{i}: system content must contain at least one block")
        before = _neighbour(messages, i, -1)
        if before is None:
            refuse(
                f"messages.{i}: use the top-level 'system' parameter for the initial system prompt; {_DIRECTIVE}"
            )
        if before["role"] == "assistant" and not _ends_in_server_result(before):
            refuse(
                f"messages.{i}: role 'system' must follow a 'user' message or an 'assistant' message "
                f"ending in a server tool result; {_DIRECTIVE}"
            )
        after = messages[i + 1] if i + 1 < len(messages) else None
        if after is not None and after["role"] == "user":
            refuse(
                f"messages.{i}: role 'system' must precede an 'assistant' message or end the array; {_DIRECTIVE}"
            )


def _neighbour(messages: list[Json], index: int, step: int) -> Json | None:
    """The nearest message on this side that is not of role system."""
    at = index + step
    while 0 <= at < len(messages):
        if messages[at]["role"] != "system":
            return messages[at]
        at += step
    return None


def _ends_in_server_result(message: Json) -> bool:
    content = blocks(message)
    return bool(content) and content[-1].get("type") in SERVER_RESULTS


def _last(request: Request) -> None:
    last = next((m for m in reversed(request.messages) if not _directive(m)), None)
    if last is None or last["role"] != "assistant" or request.body.get("fallback_credit_token"):
        return
    content = blocks(last)
    final = content[-1] if content else {}
    if final.get("type") in (*SERVER_CALLS, *SERVER_RESULTS):
        return
    if any(block.get("type") == "tool_use" for block in content):
        return
    if not request.model.prefill or request.manual:
        refuse(
            "This model does not support assistant message prefill. The conversation must end with a user "
            "message."
        )
    if final.get("type") == "text" and final["text"] != final["text"].rstrip():
        refuse("messages: final assistant content cannot end with trailing whitespace")
