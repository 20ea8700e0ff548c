"""Two bodies against each other: how far one prompt is a prefix of the other, for tests.

Marks and parameters do not count here, nor what the provider itself strips: what is compared is the
conversation as it was sent.
"""

from collections.abc import Sequence
from itertools import pairwise

from .render import Position, prompt
from .request import Json


def common_prefix(first: Json | bytes, second: Json | bytes) -> tuple[int, int]:
    """How many positions both prompts share from the start, and the tokens of these."""
    shared = 0
    weight = 0
    for left, right in zip(prompt(first, as_sent=True), prompt(second, as_sent=True), strict=False):
        if left.chain != right.chain:
            break
        shared += 1
        weight += left.tokens
    return shared, weight


def divergence(first: Json | bytes, second: Json | bytes) -> str | None:
    """Path in `first` of the first position that `second` does not repeat; None if it repeats all.

    None means: the prompt of `first` is a prefix of the prompt of `second`.
    """
    shared, _ = common_prefix(first, second)
    positions = prompt(first, as_sent=True)
    return positions[shared].path if shared < len(positions) else None


def first_break(bodies: Sequence[Json | bytes]) -> tuple[int, str] | None:
    """The first turn of a conversation that breaks the prefix: its index, and where; None if none does."""
    for index, (before, after) in enumerate(pairwise(bodies), start=1):
        where = divergence(before, after)
        if where is not None:
            return index, where
    return None


def paths(positions: list[Position]) -> list[str]:
    """The paths of positions, in order."""
    return [position.path for position in positions]
