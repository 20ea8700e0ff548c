"""Calls, their results and the order of speakers, as each service checks them [A101 A102 A401 A410 A420 A430 A521]."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from .flavours import Flavour
from .refusal import ChatRefusal, refuse

Json = dict[str, Any]

_MISSING = "{An} assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
_ALTERNATE = (
    "After the optional system message, conversation roles must alternate user and assistant roles "
    "except for tool calls and results."
)


def check(messages: list[Json], flavour: Flavour) -> None:
    """Refuse a history whose calls and results do not pair, or whose speakers stand in the wrong order.

    Raises:
        ChatRefusal: the first fault.
    """
    if not flavour.empty_answers and flavour.pairing == "kimi":
        _not_empty(messages)
    match flavour.pairing:
        case "openai" | "deepseek" | "kimi":
            _paired(messages, flavour.pairing)
        case "mistral":
            _mistral(messages)
        case "zai":
            _zai(messages)
        case "none":
            pass
    if flavour.template:
        _template(messages)


def is_empty(message: Json) -> bool:
    """Whether the message says nothing and calls nothing."""
    return not message.get("content") and not message.get("tool_calls") and not message.get("function_call")


def _ids(message: Json) -> list[str]:
    return [call["id"] for call in message.get("tool_calls") or []]


def _faults(messages: list[Json]) -> Iterator[tuple[int, list[str] | None]]:
    """Places of faults: with the ids that lack a result, or None for a result that nothing asked for."""
    waiting: list[str] = []
    asked = -1
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if asked < 0 or message.get("tool_call_id") not in _ids(messages[asked]):
                yield at, None
            waiting = [call for call in waiting if call != message.get("tool_call_id")]
            continue
        if waiting:
            yield asked + 1, waiting
        waiting = _ids(message) if message["role"] == "assistant" else []
        asked = at if waiting else -1
    if waiting:
        yield asked + 1 if asked + 1 < len(messages) else asked, waiting


def _paired(messages: list[Json], wording: str) -> None:
    """Results stand directly behind their calls, in any order, with nothing between [A101 A102]."""
    at, missing = next(_faults(messages), (0, []))
    if missing is None:
        _orphan(at, wording)
    if not missing:
        return
    following = f"The following tool_call_ids did not have response messages: {', '.join(missing)}"
    match wording:
        case "deepseek":
            text = f"{_MISSING.format(An='An')} (insufficient tool messages following tool_calls message)"
            refuse(text, None, "invalid_request_error")
        case "kimi":
            refuse(f"Invalid request: {_MISSING.format(An='an')} {following}")
        case _:
            refuse(f"{_MISSING.format(An='An')} {following}", f"messages.[{at}].role")


def _orphan(at: int, wording: str) -> None:
    match wording:
        case "deepseek":
            text = "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            refuse(text, None, "invalid_request_error")
        case "kimi":
            refuse("Invalid request: tool_call_id  is not found")
        case _:
            refuse(
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                "'tool_calls'.",
                f"messages.[{at}].role",
            )


def _not_empty(messages: list[Json]) -> None:
    for at, message in enumerate(messages):
        if message["role"] == "assistant" and is_empty(message):
            refuse(f"Invalid request: message at position {at} with role 'assistant' must not be empty")


def _mistral(messages: list[Json]) -> None:
    """No user behind a tool message, as many results as calls, and the last one is not the model's [A430]."""
    for before, message in pairwise(messages):
        if before["role"] == "tool" and message["role"] in ("user", "system"):
            _bad_order(f"Unexpected role '{message['role']}' after role 'tool'")
    if next(_faults(messages), None) is not None:
        _bad_order("Not the same number of function calls and responses")
    last = messages[-1]
    if last["role"] == "assistant" and not last.get("prefix"):
        _bad_order(
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
        )


def _bad_order(message: str) -> None:
    raise ChatRefusal(message, code="3230", kind="invalid_request_message_error")


def _zai(messages: list[Json]) -> None:
    """One opaque message for whatever is wrong [A420]."""
    turns = [message for message in messages if message["role"] not in ("system", "developer")]
    wrong = (
        not turns
        or turns[0]["role"] != "user"
        or not any(message["role"] == "user" and message.get("content") for message in turns)
        or any(is_empty(message) for message in turns)
        or any(one["role"] == other["role"] != "tool" for one, other in pairwise(messages))
        or any(missing is None for _, missing in _faults(messages))
    )
    if wrong:
        refuse("messages 参数非法。请检查文档。", None, "1214")


def _template(messages: list[Json]) -> None:
    """What a chat template of the strict kind raises, and the server passes on as its own failure [A521]."""
    turns = messages[1:] if messages[0]["role"] in ("system", "developer") else messages
    if any(message["role"] in ("system", "developer") for message in turns):
        _raised("System message must be at the beginning.")
    users_turn = True
    for message in turns:
        if message["role"] == "user" or (message["role"] == "assistant" and not message.get("tool_calls")):
            if (message["role"] == "user") != users_turn:
                _raised(_ALTERNATE)
            users_turn = not users_turn


def _raised(message: str) -> None:
    text = f"Jinja Exception: {message}"
    raise ChatRefusal(text, status=500, kind="server_error")
