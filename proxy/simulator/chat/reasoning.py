"""Reasoning that must come back: `reasoning_content` of earlier answers [A400 A410]."""

from typing import Any

from .flavours import Flavour
from .refusal import refuse

Json = dict[str, Any]


def is_on(body: Json, flavour: Flavour) -> bool:
    """Whether the model reasons in its answer to this request."""
    if not flavour.thinks:
        return False
    asked = body.get("thinking")
    off = isinstance(asked, dict) and asked.get("type") == "disabled"
    return not off and body.get("reasoning_effort") != "none"


def check(body: Json, flavour: Flavour) -> None:
    """Refuse a history that has lost reasoning. One space passes, an empty string does not.

    Raises:
        ChatRefusal: naming the message where the service does.
    """
    if not is_on(body, flavour):
        return
    for at, message in enumerate(body["messages"]):
        if message["role"] != "assistant" or message.get("reasoning_content"):
            continue
        if flavour.reasoning == "all" and body.get("tools"):
            refuse(
                "The `reasoning_content` in the thinking mode must be passed back to the API.",
                None,
                "invalid_request_error",
            )
        if flavour.reasoning == "calls" and message.get("tool_calls"):
            refuse(
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index "
                f"{at}"
            )
