"""Errors of our own, in the shape the client expects from its provider.

An agent parses the error of the API it speaks; anything else it shows as a broken connection. The message always
begins with `stet:` so that a reader knows who is talking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

_ANTHROPIC_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    426: "invalid_request_error",
    504: "timeout_error",
}
_GEMINI_STATUS: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    426: "FAILED_PRECONDITION",
    502: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def _anthropic(status: int, message: str) -> object:
    return {
        "type": "error",
        "error": {"type": _ANTHROPIC_TYPES.get(status, "api_error"), "message": message},
    }


def _openai(status: int, message: str) -> object:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _gemini(status: int, message: str) -> object:
    word = _GEMINI_STATUS.get(status, "INTERNAL")
    return {"error": {"code": status, "message": message, "status": word}}


_SHAPES: Mapping[str, Callable[[int, str], object]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "gemini": _gemini,
}


def error_body(family: str, status: int, message: str) -> bytes:
    """Return the JSON of an error of ours for an API of this family: anthropic, openai or gemini."""
    return msgspec.json.encode(_SHAPES[family](status, f"stet: {message}"))
