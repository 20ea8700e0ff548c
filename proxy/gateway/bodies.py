"""The client's request body: read up to the limit, and opened where it came compressed."""

from __future__ import annotations

import asyncio

from aiohttp import web
from msgspec import Struct

from ..errors import BodyEncodingError, BodyError, BodyTooLarge
from .encoding import opened

_THREAD_FROM = 256 * 1024
"""Compressed bodies from this many bytes on are opened in a worker thread."""


class Body(Struct, frozen=True):
    """A request body: `wire` as it came, `plain` opened, None where it does not open and must pass as it came."""

    wire: bytes
    plain: bytes | None


async def read_body(request: web.Request, limit: int) -> bytes:
    """Return the body's bytes as they came.

    Raises BodyTooLarge above `limit` bytes, before reading where the length is announced and while reading where it
    is not, and BodyError where the body's framing is broken.
    """
    announced = request.content_length
    if announced is not None and announced > limit:
        raise BodyTooLarge(f"a body of {announced} bytes is above the limit of {limit}")
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.content.iter_any():
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                raise BodyTooLarge(f"the body is above the limit of {limit} bytes")
    except web.RequestPayloadError as fault:
        raise BodyError("the body ends early or its chunks are broken") from fault
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def open_body(wire: bytes, content_encoding: str | None, limit: int) -> Body:
    """Return the body with its encodings undone. Raises BodyTooLarge where it unfolds beyond `limit` bytes."""
    if not content_encoding or not wire:
        return Body(wire, wire)
    try:
        if len(wire) > _THREAD_FROM:
            return Body(wire, await asyncio.to_thread(opened, wire, content_encoding, limit))
        return Body(wire, opened(wire, content_encoding, limit))
    except BodyEncodingError:
        return Body(wire, None)
