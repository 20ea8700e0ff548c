"""Content encodings, opened piece by piece.

Request bodies come in gzip, deflate, br or zstd [D7 D101]; so do answers, of which the tap reads a copy. Both are
opened in pieces of bounded size, so that a small body which unfolds into gigabytes is stopped at the limit and not
after it.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

import brotli

from ..errors import BodyEncodingError, BodyTooLarge

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_PIECE = 256 * 1024
"""Bytes that one step may unfold to."""


class Opener(Protocol):
    """Undoes one encoding of a stream."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` unfolds to, at most _PIECE bytes at a time. Raises BodyEncodingError."""
        ...

    def finish(self) -> None:
        """Raise BodyEncodingError unless the stream came to its own end."""
        ...


class _Zlib:
    """gzip (several members may follow one another) and deflate."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._stream = zlib.decompressobj(window)

    def feed(self, data: bytes) -> Iterator[bytes]:
        full = False
        while data or full:
            if self._stream.eof:
                self._stream = zlib.decompressobj(self._window)
            try:
                piece = self._stream.decompress(data, _PIECE)
            except zlib.error as fault:
                raise BodyEncodingError("not a gzip or deflate body") from fault
            if piece:
                yield piece
            # A full piece may leave more behind inside the stream though it has taken all of its input.
            full = len(piece) == _PIECE and not self._stream.eof
            data = self._stream.unconsumed_tail or self._stream.unused_data

    def finish(self) -> None:
        if not self._stream.eof:
            raise BodyEncodingError("a compressed body without its end")


class _Deflate:
    """deflate: by its name zlib's frame, but many senders leave the frame out. Its two first bytes tell."""

    def __init__(self) -> None:
        self._head = b""
        self._zlib: _Zlib | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._zlib is None:
            self._head += data
            if len(self._head) < 2:
                return
            framed = self._head[0] & 0x0F == 8 and int.from_bytes(self._head[:2]) % 31 == 0
            self._zlib = _Zlib(zlib.MAX_WBITS if framed else -zlib.MAX_WBITS)
            data = self._head
        yield from self._zlib.feed(data)

    def finish(self) -> None:
        if self._zlib is None:
            raise BodyEncodingError("a compressed body without its end")
        self._zlib.finish()


class _Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        try:
            # The stream may hold more than it gave, whether or not it would take more: ask until it is empty.
            while piece := self._stream.process(data, output_buffer_limit=_PIECE):
                yield piece
                data = b""
                if self._stream.is_finished():
                    return
        except brotli.error as fault:
            raise BodyEncodingError("not a br body") from fault

    def finish(self) -> None:
        if not self._stream.is_finished():
            raise BodyEncodingError("a compressed body without its end")


class _Zstd:
    """zstd; frames may follow one another."""

    def __init__(self) -> None:
        self._stream = zstd.ZstdDecompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        try:
            while True:
                if self._stream.eof:
                    data = self._stream.unused_data or data
                    if not data:
                        return
                    self._stream = zstd.ZstdDecompressor()
                piece = self._stream.decompress(data, _PIECE)
                data = b""
                if piece:
                    yield piece
                if self._stream.needs_input or (self._stream.eof and not self._stream.unused_data):
                    return
        except zstd.ZstdError as fault:
            raise BodyEncodingError("not a zstd body") from fault

    def finish(self) -> None:
        if not self._stream.eof:
            raise BodyEncodingError("a compressed body without its end")


class _Identity:
    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def finish(self) -> None:
        return


class _Chain:
    """Several encodings, the last applied first off."""

    def __init__(self, openers: list[Opener]) -> None:
        self._openers = openers

    def feed(self, data: bytes) -> Iterator[bytes]:
        pieces: Iterable[bytes] = (data,)
        for opener in self._openers:
            pieces = _through(opener, pieces)
        yield from pieces

    def finish(self) -> None:
        for opener in self._openers:
            opener.finish()


def _through(opener: Opener, pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield from opener.feed(piece)


_OPENERS: Mapping[str, Callable[[], Opener]] = {
    "gzip": lambda: _Zlib(zlib.MAX_WBITS + 16),
    "x-gzip": lambda: _Zlib(zlib.MAX_WBITS + 16),
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
    "identity": _Identity,
}
_MOST_LAYERS = 3


def opener_for(content_encoding: str) -> Opener:
    """Return what opens a body of this `content-encoding`. Raises BodyEncodingError for one we do not know."""
    names = [name.strip().lower() for name in content_encoding.split(",") if name.strip()]
    unknown = [name for name in names if name not in _OPENERS]
    if unknown or len(names) > _MOST_LAYERS:
        raise BodyEncodingError(f"content-encoding '{content_encoding}' is not known")
    openers = [_OPENERS[name]() for name in reversed(names)]
    return openers[0] if len(openers) == 1 else _Chain(openers)


def opened(body: bytes, content_encoding: str, limit: int) -> bytes:
    """Return the plain body. Raises BodyEncodingError, and BodyTooLarge above `limit` bytes."""
    opener = opener_for(content_encoding)
    plain = bytearray()
    for piece in opener.feed(body):
        plain += piece
        if len(plain) > limit:
            raise BodyTooLarge(f"a body that unfolds to more than {limit} bytes")
    opener.finish()
    return bytes(plain)
