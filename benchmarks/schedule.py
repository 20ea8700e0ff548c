"""Rules that decide turn by turn when to clear results, in the model of `proxy.hindsight`."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.hindsight import Course, Item, Schedule, cost, decided, hindsight

__all__ = ["Course", "Item", "Schedule", "cost", "decided", "hindsight", "window"]


def window(stale: Sequence[tuple[int, Item]], turn: int, cached: float) -> int | None:
    """A sliding window: clear whatever is stale, at once."""
    return next((at for at, item in stale if item.alone), None)
