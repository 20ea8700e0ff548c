"""What the provider says no with: a status, a type and a wording clients match on."""

import secrets
from typing import Any, NoReturn

import orjson

STATUS_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Refusal(Exception):  # noqa: N818  it is an answer, not a fault
    """A request refused: `status`, the wording in `message`, and headers the refusal carries.

    `details` stands in the body only where the error has a machine code [A90].
    """

    def __init__(
        self,
        message: str,
        status: int = 400,
        details: dict[str, Any] | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.details = details
        self.headers = headers


def refuse(message: str) -> NoReturn:
    """Refuse with 400 and this wording.

    Raises:
        Refusal: always.
    """
    raise Refusal(message)


def request_id() -> str:
    """A fresh id of the shape the provider stamps on each answer."""
    return "req_011" + secrets.token_hex(10)


def envelope(status: int, message: str, details: dict[str, Any] | None = None, request: str = "") -> bytes:
    """The error body of the wire: envelope, type by status, wording, details and request id."""
    error: dict[str, Any] = {"type": STATUS_TYPES.get(status, "api_error"), "message": message}
    if details is not None:
        error["details"] = details
    body: dict[str, Any] = {"type": "error", "error": error}
    if request:
        body["request_id"] = request
    return orjson.dumps(body)
