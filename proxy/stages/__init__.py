"""The stages, one file a rule, and their order in one place.

A stage looks at a `View` and proposes edits; it never changes anything. Retroactive stages stand behind the
causal ones, so that they judge what really would be sent; marks come last, on what really is.
"""

from __future__ import annotations

from typing import Any

from . import (
    alternate,
    balance,
    breakpoints,
    budget,
    cache_key,
    compact,
    dedupe,
    encoding,
    externalize,
    inject,
    label,
    media,
    noise,
    normalize,
    question,
    reasoning,
    relocate,
    restore,
    stale,
    steady,
)
from .view import NOBODY, Facts, Heard, Proposal, Region, Stage, View

ORDER: tuple[Stage[Any], ...] = (
    encoding,
    normalize,
    restore,
    steady,
    balance,
    reasoning,
    media,
    alternate,
    noise,
    label,
    relocate,
    inject,
    externalize,
    dedupe,
    stale,
    compact,
    budget,
    cache_key,
    breakpoints,
)

RETROACTIVE = frozenset((stale.NAME, compact.NAME, budget.NAME))
"""Stages that change what was sent before, and repair nothing: a request can do without them."""

ASKING: tuple[Stage[Any], ...] = tuple(
    question if stage is compact else stage for stage in ORDER if stage not in (stale, budget)
)
"""The order for a question to the model: what was sent stands as it does, and in place of what is new it is asked."""

__all__ = [
    "ASKING",
    "NOBODY",
    "ORDER",
    "RETROACTIVE",
    "Facts",
    "Heard",
    "Proposal",
    "Region",
    "Stage",
    "View",
    "breakpoints",
    "question",
]
