"""Rules that decide turn by turn when to clear results, in the model of `proxy.hindsight`."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.economics import Candidate, Terms, best
from proxy.hindsight import NEVER, Choice, Course, Item, Schedule, cost, decided, hindsight

__all__ = [
    "NEVER",
    "Choice",
    "Course",
    "Item",
    "Schedule",
    "cost",
    "decided",
    "hindsight",
    "leave",
    "rule",
    "window",
]


def leave(stale: Sequence[tuple[int, Item]], turn: int, cached: float) -> int | None:
    """Clear nothing."""
    return None


def window(stale: Sequence[tuple[int, Item]], turn: int, cached: float) -> int | None:
    """A sliding window: clear whatever is stale, at once."""
    return next((at for at, item in stale if item.alone), None)


def rule(course: Course) -> Choice:
    """The rule of `economics`."""

    def choose(stale: Sequence[tuple[int, Item]], turn: int, cached: float) -> int | None:
        standing = _standing(course, stale, turn)
        candidates = [
            Candidate(float(before), float(item.saves), turn - item.stale)
            for (_, item), before in zip(stale, standing, strict=True)
        ]
        found = best(candidates, Terms(cached=cached, read=course.read, write=course.write, scale=1.0))
        return stale[found.start][0] if found is not None and found.paid else None

    return choose


def _standing(course: Course, stale: Sequence[tuple[int, Item]], turn: int) -> list[int]:
    """Tokens before each stale result; what was cleared counts as what is left of it."""
    left = {at for at, _ in stale}
    total, found = 0, []
    for at, item in enumerate(course.items):
        if item.arrives > turn:
            break
        if at in left:
            found.append(total)
        cleared = item.saves and item.stale <= turn and at not in left
        total += item.tokens - (item.saves if cleared else 0)
    return found
