"""Threads: the provider keeps a conversation for a while, the client sends only what is new [A65]."""

from typing import Any

import msgspec

from .refusal import Refusal
from .request import Json, Request

LIFETIME_S = 300.0
_SHARED = ("system", "tools")


class _Thread(msgspec.Struct):
    organization: str
    body: Json
    expires: float
    continued: bool = False


class Threads:
    """Conversations by the id of their newest answer."""

    def __init__(self) -> None:
        self._threads: dict[str, _Thread] = {}

    def whole(self, request: Request, now: float) -> Request:
        """The request with the conversation it continues put in front of its messages.

        Raises:
            Refusal: 404 where the thread is unknown or too old, 400 where it was continued already or
                the request is not for a thread.
        """
        thread = request.body.get("thread")
        if not isinstance(thread, dict) or not request.has_beta("message-threads-"):
            return request
        if request.body.get("context_management"):
            raise Refusal(
                "thread: context_management is not supported in a thread",
                details={"error_code": "thread_unsupported_request", "unsupported": ["context_management"]},
            )
        if thread.get("type") != "continue":
            return request
        kept = self._find(thread.get("previous_message_id"), request, now)
        body = {**request.body, **{key: kept.body[key] for key in _SHARED if key in kept.body}}
        new = request.body.get("messages")
        body["messages"] = [*kept.body["messages"], *(new if isinstance(new, list) else [])]
        return msgspec.structs.replace(request, body=body)

    def remember(self, request: Request, message_id: str, content: tuple[Json, ...], now: float) -> None:
        """Keep the conversation up to this answer, if the request is part of a thread."""
        thread = request.body.get("thread")
        if thread is None:
            return
        previous = self._threads.get(str(thread.get("previous_message_id")))
        if previous is not None:
            previous.continued = True
        answer = {"role": "assistant", "content": list(content)}
        body = {**request.body, "messages": [*request.messages, answer]}
        self._threads[message_id] = _Thread(request.organization, body, now + LIFETIME_S)

    def _find(self, previous: Any, request: Request, now: float) -> _Thread:
        kept = self._threads.get(previous) if isinstance(previous, str) else None
        if kept is None or kept.expires <= now or kept.organization != request.organization:
            raise Refusal(
                f"thread: no thread found for previous_message_id {previous}",
                404,
                {"error_code": "thread_not_found"},
            )
        if kept.continued:
            raise Refusal(
                f"thread: {previous} has already been continued",
                details={"error_code": "thread_already_continued"},
            )
        given = [
            key
            for key in ("model", *_SHARED)
            if key in request.body and request.body[key] != kept.body.get(key)
        ]
        if given:
            raise Refusal(
                f"thread: the request does not match its thread; differing field(s): {', '.join(given)}",
                details={"error_code": "thread_fingerprint_mismatch"},
            )
        return kept
