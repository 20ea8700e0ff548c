"""Long blocks of whole lines that two texts have in common.

A function of the texts alone, linear in their length: a line that the older text has once says where a block may be,
and no line is looked at again behind a block that came to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct


class Block(Struct, frozen=True):
    """Lines `start` to `stop` (not with it) of a text, which are those from `there` on of an older one; counted from 0.

    `size`: bytes of UTF-8, line ends included.
    """

    start: int
    stop: int
    there: int
    size: int


def blocks(new: Sequence[str], old: Sequence[str], least: int) -> Iterator[Block]:
    """The blocks of at least so many bytes, in the order of the new text; none overlap there."""
    places = _once(old)
    at = floor = 0
    while at < len(new):
        there = places.get(new[at])
        if there is None:
            at += 1
            continue
        start, stop = _around(new, old, (at, there), floor)
        size = sum(len(line.encode()) + 1 for line in new[start:stop])
        if size >= least:
            yield Block(start, stop, there - (at - start), size)
        at = floor = stop


def _around(new: Sequence[str], old: Sequence[str], pair: tuple[int, int], floor: int) -> tuple[int, int]:
    """How far the texts agree before (not beyond `floor`) and behind a pair of equal lines: places in the new one."""
    at, there = pair
    start, back = at, there
    while start > floor and back and new[start - 1] == old[back - 1]:
        start, back = start - 1, back - 1
    while at < len(new) and there < len(old) and new[at] == old[there]:
        at, there = at + 1, there + 1
    return start, at


def _once(lines: Sequence[str]) -> dict[str, int]:
    """The places of the lines that stand there once."""
    places: dict[str, int] = {}
    for at, line in enumerate(lines):
        places[line] = -1 if line in places else at
    return {line: at for line, at in places.items() if at >= 0}
