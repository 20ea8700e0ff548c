"""What both services of OpenAI do alike: bodies in, answers out, refusals in their envelope."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from ..embedded import Embedded
from ..exchange import Answer, Canned, Exchange
from ..reply import Reply
from .cache import Cache, Scope
from .refusal import ChatRefusal, Envelope, envelope, request_id
from .render import Piece

Json = dict[str, Any]


class Kept(msgspec.Struct, frozen=True):
    """What a request will leave in the cache once its answer begins."""

    cache: Cache
    scope: Scope
    prompt: list[Piece]
    output: list[Piece]
    now: float


class ChatAnswer(Answer, frozen=True, kw_only=True):
    """What goes back, and what it leaves in the cache."""

    kept: Kept | None = None


class OpenAiService(Embedded):
    """A service that speaks as OpenAI does, or as one that took that over; `shape` is its envelope of refusals."""

    shape: Envelope = "openai"

    def begin(self, answer: Answer) -> None:
        """See `Embedded`."""
        kept = answer.kept if isinstance(answer, ChatAnswer) else None
        if kept is not None:
            kept.cache.keep(kept.scope, kept.prompt, kept.output, kept.now)

    def models(self) -> bytes:
        """The list of models, as `GET /v1/models` answers it."""
        return orjson.dumps({"object": "list", "data": []})

    def error(self, status: int, message: str, code: str | None = None) -> Canned:
        """A failure to inject, in the service's envelope."""
        kinds = {401: "authentication_error", 429: "rate_limit_error"}
        kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
        return Canned(status, envelope(ChatRefusal(message, code=code, status=status, kind=kind), self.shape))

    def injected(self, record: Exchange) -> Answer | None:
        """The answer that was put in for this request."""
        canned = self.given(record)
        if canned is None:
            return None
        exchange = msgspec.structs.replace(record, status=canned.status)
        headers = (*json_headers(), *canned.headers)
        return ChatAnswer(status=canned.status, headers=headers, body=canned.body, exchange=exchange)

    def refused(self, refusal: ChatRefusal, record: Exchange) -> Answer:
        """A refusal."""
        body = envelope(refusal, self.shape)
        return answered(body, record, status=refusal.status, error=refusal.message)


def parsed(raw: bytes) -> Json:
    """The object in a body.

    Raises:
        ChatRefusal: it is none.
    """
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ChatRefusal(
            f"We could not parse the JSON body of your request: {error}. The OpenAI API expects a JSON payload."
        ) from error
    if not isinstance(body, dict):
        raise ChatRefusal("We expected an object in the JSON body of your request.")
    return body


def json_headers() -> tuple[tuple[str, str], ...]:
    """The headers of an answer that does not stream."""
    return (("content-type", "application/json"), ("x-request-id", request_id()))


def answered(body: bytes, record: Exchange, *, status: int, error: str | None = None) -> Answer:
    """An answer that leaves nothing in the cache."""
    exchange = msgspec.structs.replace(record, status=status, error=error)
    return ChatAnswer(status=status, headers=json_headers(), body=body, exchange=exchange)


def whole(body: bytes, exchange: Exchange, kept: Kept) -> Answer:
    """A finished answer that does not stream."""
    return ChatAnswer(status=200, headers=json_headers(), body=body, exchange=exchange, kept=kept)


def streamed(events: list[bytes], said: Reply, exchange: Exchange, kept: Kept) -> Answer:
    """A finished answer as events, cut off where the reply says so."""
    return ChatAnswer(
        status=200,
        headers=(("content-type", "text/event-stream; charset=utf-8"), ("x-request-id", request_id())),
        events=tuple(events if said.cut_after is None else events[: said.cut_after]),
        abort=said.cut_after is not None,
        exchange=exchange,
        kept=kept,
    )
