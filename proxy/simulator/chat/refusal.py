"""What a chat service says no with. Every family has an envelope of its own, and clients match on the wording."""

import secrets
from typing import Any, Literal, NoReturn

import orjson

Envelope = Literal["openai", "llama", "mistral", "zai"]


class ChatRefusal(Exception):  # noqa: N818  it is an answer, not a fault
    """A request refused. `param` names the place in the request, `code` is for machines; None where there is none."""

    def __init__(
        self,
        message: str,
        param: str | None = None,
        code: str | int | None = None,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status
        self.kind = kind


def refuse(message: str, param: str | None = None, code: str | int | None = None) -> NoReturn:
    """Refuse a request for its form.

    Raises:
        ChatRefusal: always.
    """
    raise ChatRefusal(message, param, code)


def named(value: Any) -> str:
    """The kind of a value, in the API's words."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "an object"
        case int():
            return "an integer"
        case _:
            return "a decimal"


def bad_type(value: Any, where: str, expected: str) -> NoReturn:
    """Refuse a value of another type."""
    refuse(
        f"Invalid type for '{where}': expected {expected}, but got {named(value)} instead.",
        where,
        "invalid_type",
    )


def envelope(refusal: ChatRefusal, shape: Envelope) -> bytes:
    """The body of a refusal."""
    body: dict[str, Any]
    match shape:
        case "openai":
            body = {
                "error": {
                    "message": refusal.message,
                    "type": refusal.kind,
                    "param": refusal.param,
                    "code": refusal.code,
                }
            }
        case "llama":
            body = {"error": {"code": refusal.status, "message": refusal.message, "type": refusal.kind}}
        case "mistral":
            body = {
                "object": "error",
                "message": refusal.message,
                "type": refusal.kind,
                "param": refusal.param,
                "code": refusal.code,
            }
        case "zai":
            body = {"error": {"code": str(refusal.code or refusal.status), "message": refusal.message}}
    return orjson.dumps(body)


def request_id() -> str:
    """An id for the `x-request-id` header."""
    return f"req_{secrets.token_hex(16)}"
