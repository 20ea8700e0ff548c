"""A JSON array that arrives in pieces, without IO: bytes in, its elements out, each as soon as it is whole.

Gemini streams so where the client does not ask for server-sent events [C300]. Only elements that are objects or
arrays are given; their bytes are not read here, so that what is no JSON comes out as what it is or not at all.
"""

from __future__ import annotations

import re

from .errors import BodyTooLarge

_MIB = 1024 * 1024
_MARK = re.compile(rb'["\\{}\[\]]')
_IN_STRING = re.compile(rb'["\\]')
_OPEN, _CLOSE = b"{[", b"}]"


class ArrayParser:
    """An incremental splitter. `limit` bounds, in bytes, what an unfinished element may hold."""

    def __init__(self, limit: int = 32 * _MIB) -> None:
        self._limit = limit
        self._element = bytearray()
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the elements that `chunk` completes. Raises BodyTooLarge when one outgrows the limit."""
        elements: list[bytes] = []
        at = start = 0
        if self._escaped and chunk:
            self._escaped, at = False, 1
        while mark := (_IN_STRING if self._in_string else _MARK).search(chunk, at):
            byte, at = mark[0], mark.end()
            if byte == b"\\":
                at += 1
                self._escaped = at > len(chunk)
            elif byte == b'"':
                self._in_string = not self._in_string
            elif byte in _OPEN:
                self._depth += 1
                if self._depth == 2:
                    start = mark.start()
            else:
                self._depth -= 1
                if self._depth == 1:
                    elements.append(bytes(self._element) + chunk[start:at])
                    self._element.clear()
        if self._depth > 1:
            self._hold(chunk[start:])
        return elements

    def _hold(self, piece: bytes) -> None:
        self._element += piece
        if len(self._element) > self._limit:
            self._element.clear()
            raise BodyTooLarge(f"an element of more than {self._limit} bytes")
