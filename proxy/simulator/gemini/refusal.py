"""What the Gemini API says no with: Google's error envelope, in the form the request asked for."""

from __future__ import annotations

from typing import Any

import orjson

STATUS_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def envelope(
    status: int,
    message: str,
    details: list[dict[str, Any]] | None = None,
    *,
    listed: bool = False,
    assist: bool = False,
) -> bytes:
    """The error body. `listed`: inside an array, as a stream without `alt=sse` has it; `assist`: with what Code
    Assist adds."""
    error: dict[str, Any] = {"code": status, "message": message}
    if assist:
        error["errors"] = [{"message": message, "domain": "global", "reason": _reason(status)}]
    error["status"] = STATUS_WORDS.get(status, "UNKNOWN")
    if details:
        error["details"] = details
    return orjson.dumps([{"error": error}] if listed else {"error": error})


def _reason(status: int) -> str:
    return {400: "badRequest", 403: "forbidden", 404: "notFound", 429: "rateLimitExceeded"}.get(
        status, "backendError"
    )


def retry_info(seconds: float) -> list[dict[str, Any]]:
    """The details of a refusal that says when to come back [D300]."""
    return [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds:g}s"}]
