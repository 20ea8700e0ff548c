"""What is shown of a long output: its beginning, its end, and the lines between them that look like an error.

A function of the text alone. Lines are numbered from 1 and counted as line feeds end them, which is how tools that read a
range of a file count. Sizes are bytes of UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, takewhile

from msgspec import Struct

LOOKED_AT = 400
"""Characters at the beginning of a line in which an error is looked for."""

SHOWN = 300
"""Bytes of such a line that are shown."""

# Changing this changes prompts that are sent from then on, not those already sent.
ERROR = re.compile(
    r"\b(?:errors?|fatal|fail(?:ed|ures?|s|ing)?|exceptions?|traceback|panic(?:ked)?|abort(?:ed)?|assert(?:ion)?"
    r"|segmentation fault|segfault|core dumped|undefined (?:reference|symbol|is not)|cannot|could not|unable to"
    r"|not found|no such file|permission denied|access denied|timed out|out of memory|killed|unresolved|refused)\b"
    r"|[a-z]Error\b|[a-z]Exception\b|^E   ",
    re.IGNORECASE,
)


class Excerpt(Struct, frozen=True, kw_only=True):
    """`first` and `last` are the lines left out, by number; `head` and `tail` the texts around them.

    `errors`: number and text of the lines shown of those left out that look like an error, `alike` how many there
    are, equal ones counted once. `cut`: a single line was too long to be shown whole.
    """

    lines: int
    size: int
    head: str
    tail: str
    first: int
    last: int
    errors: tuple[tuple[int, str], ...]
    alike: int
    cut: bool

    @property
    def missing(self) -> str:
        """What is left out, as the subject of a sentence with its verb."""
        if self.cut:
            return "the middle is"
        return f"lines {self.first} to {self.last} are" if self.first < self.last else f"line {self.first} is"

    def around(self, note: str) -> str:
        """The text that is shown, with a note where the rest was."""
        return "\n".join(piece for piece in (self.head, note, self.tail) if piece)

    @property
    def told(self) -> str:
        """The lines that look like errors, each with its number."""
        return "\n".join(f"{number}: {line}" for number, line in self.errors)


def excerpt(text: str, head: int, tail: int, errors: int) -> Excerpt | None:
    """At most `head` bytes of the beginning, `tail` of the end and `errors` of lines between; None where that is all."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()  # the last line is ended, not followed by an empty one
    before = _fitting(lines, head)
    after = _fitting(reversed(lines[before:]), tail)
    between = lines[before : len(lines) - after]
    if not between:
        return None
    opening, closing = "\n".join(lines[:before]), "\n".join(lines[len(lines) - after :])
    long_first = _beginning(between[0], head) if not before else ""
    long_last = _end(between[-1], tail) if not after else ""
    found = _alike(between, before + 1)
    return Excerpt(
        lines=len(lines),
        size=len(text.encode()),
        head=opening or long_first,
        tail=closing or long_last,
        first=before + 1,
        last=len(lines) - after,
        errors=_chosen(found, errors),
        alike=len(found),
        cut=bool(long_first or long_last),
    )


def _fitting(lines: Iterable[str], size: int) -> int:
    """How many of the lines fit into so many bytes."""
    ends = accumulate(len(line.encode()) + 1 for line in lines)
    return sum(1 for _ in takewhile(lambda end: end <= size + 1, ends))


def _beginning(line: str, size: int) -> str:
    return line[:size].encode()[:size].decode(errors="ignore")


def _end(line: str, size: int) -> str:
    return line[-size:].encode()[-size:].decode(errors="ignore") if size else ""


def _alike(lines: Sequence[str], number: int) -> list[tuple[int, str]]:
    """Each line that looks like an error, the first of equal ones, with its number; `number` is that of the first line."""
    found: dict[str, int] = {}
    for at, line in enumerate(lines, number):
        if ERROR.search(line[:LOOKED_AT]):
            found.setdefault(_beginning(line.rstrip("\r"), SHOWN), at)
    return [(at, line) for line, at in found.items()]


def _chosen(found: Sequence[tuple[int, str]], size: int) -> tuple[tuple[int, str], ...]:
    """Those that fit: all, else as many of the first as of the last, for the cause stands first and the sum last."""
    costs = [len(line.encode()) + len(f"{at}: \n") for at, line in found]
    if sum(costs) <= size:
        return tuple(found)
    front = sum(1 for _ in takewhile(lambda end: end <= size // 2, accumulate(costs)))
    left = size - sum(costs[:front])
    back = sum(1 for _ in takewhile(lambda end: end <= left, accumulate(reversed(costs[front:]))))
    return (*found[:front], *found[len(found) - back :])
