"""Bodies in, answers out: what is the same for every request."""

from typing import Any

import msgspec
import orjson

from ..chat.provider import ChatAnswer, Kept
from ..chat.refusal import ChatRefusal, envelope, request_id
from ..exchange import Answer, Exchange
from ..reply import Reply
from ..request import fingerprint
from . import stream

Json = dict[str, Any]
_SECRETS = ("authorization", "api-key", "x-api-key", "proxy-authorization", "cookie")


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


def safe(name: str, value: str) -> str:
    """A header as records keep it: secrets by their fingerprints."""
    if name.lower() not in _SECRETS:
        return value
    scheme, _, token = value.partition(" ")
    return f"{scheme} {fingerprint(token)}" if token else fingerprint(value)


def json_headers() -> tuple[tuple[str, str], ...]:
    """The headers of an answer that does not stream."""
    return (("content-type", "application/json"), ("x-request-id", request_id()))


def refused(refusal: ChatRefusal, record: Exchange) -> Answer:
    """A refusal."""
    return answered(envelope(refusal, "openai"), record, status=refusal.status, error=refusal.message)


def answered(body: bytes, record: Exchange, *, status: int, error: str | None = None) -> Answer:
    """An answer that leaves nothing in the cache."""
    exchange = msgspec.structs.replace(record, status=status, error=error)
    return ChatAnswer(status=status, headers=json_headers(), body=body, exchange=exchange)


def written(said: Reply, response: Json, exchange: Exchange, kept: Kept, *, streaming: bool) -> Answer:
    """A finished response as a body or as events, with what goes wrong on the way."""
    if not streaming:
        body = orjson.dumps(response)
        return ChatAnswer(status=200, headers=json_headers(), body=body, exchange=exchange, kept=kept)
    events = list(stream.events(response, said.fail_after))
    if said.cut_after is not None:
        events = events[: said.cut_after]
    headers = (("content-type", "text/event-stream; charset=utf-8"), ("x-request-id", request_id()))
    return ChatAnswer(
        status=200,
        headers=headers,
        events=tuple(events),
        abort=said.cut_after is not None,
        exchange=exchange,
        kept=kept,
    )
