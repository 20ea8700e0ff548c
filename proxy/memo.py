"""What was made of a value, kept with that very object.

Tools and system of a request are nearly always those of the request before, and what follows from a part follows
from it alone: keeping it saves time and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, TypeVar

REMEMBERED_BYTES = 1 << 18
"""What was made of values up to this length together is kept under their bytes."""

V = TypeVar("V")
M = TypeVar("M")


class Memo(Generic[V, M]):
    """`make` for each object once, while not more than `limit` of them are kept."""

    def __init__(self, make: Callable[[V], M], limit: int = 256) -> None:
        self._make = make
        self._limit = limit
        self._made: dict[int, tuple[V, M]] = {}

    def __call__(self, value: V) -> M:
        """What `make` gives for the value."""
        known = self._made.get(id(value))
        if known is None or known[0] is not value:
            if len(self._made) >= self._limit:
                self._made.clear()
            known = self._made[id(value)] = (value, self._make(value))
        return known[1]


def remembered(make: Callable[..., M], limit: int = 16) -> Callable[..., M]:
    """`make` of bytes that are the same in request after request, once; of very long ones each time."""
    known = lru_cache(maxsize=limit)(make)
    return lambda *raws: (known if sum(map(len, raws)) <= REMEMBERED_BYTES else make)(*raws)
