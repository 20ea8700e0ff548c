"""What a model's tokens are worth, learned from what its provider reports.

A linear fit of tokens reported to amounts counted (see `counting`), one observation at a time: Bayesian regression,
that is recursive least squares which begins at a prior. The prior says how the model's tokenizer compares with cl100k
[B15] and how sure that is. Rates of text share most of their uncertainty: what one kind of content teaches holds for
the others until they teach otherwise. An observation far off (a hidden system prompt, a dropped block) is weighed
down by as much as it is further off than could be; rates stay within bounds.

The first prompt of a conversation is observed as a whole, every later one as its difference to the one before.
Deterministic: equal observations in the same order give equal rates.
"""

from __future__ import annotations

import math
import statistics
from collections import OrderedDict, deque
from operator import sub

from msgspec import Struct

from .counting import (
    BYTES,
    CALLS,
    DENSE,
    EARLIER,
    IMAGES,
    KINDS,
    OTHER,
    PATCHES,
    PIECES,
    REQUEST,
    RESULTS,
    SIGNED,
    TEXT,
    THINKING,
    TOOLS,
    WIDE,
    Amounts,
    Counted,
    Rates,
)
from .modelfacts import ModelFacts

_WORDS = (TEXT, CALLS, RESULTS, TOOLS, OTHER, THINKING)
_SHARED = 0.25
"""What all rates of text may be off by together, as a share of the tokenizer's."""
_OWN = {TEXT: 0.08, CALLS: 0.15, RESULTS: 0.08, TOOLS: 0.15, OTHER: 0.2, THINKING: 0.3}
"""What each of them may be off by on its own."""
_LOOSE = {
    EARLIER: 0.6,
    DENSE: 0.2,
    WIDE: 0.3,
    BYTES: 0.25,
    SIGNED: 0.5,
    PATCHES: 0.4,
    IMAGES: 300.0,
    PIECES: 4.0,
    REQUEST: 200.0,
}
"""What the others may be off by: a rate, or tokens."""
_PIECE = 4.0
_FAR = 3.0
LEAST = 256
"""Prompts of fewer tokens say more about framing than about the tokenizer."""
_DRIFT = 1e-4
"""Of a prior's variance, added for each observation: a model behind a name may change."""


class Fit(Struct, frozen=True):
    """Rates as far as they are known: their mean and, row by row, their covariance."""

    mean: Amounts
    spread: tuple[Amounts, ...]


def prior(model: ModelFacts) -> Fit:
    """What is known of a model before it has answered."""
    size = len(KINDS)
    spread = [[0.0] * size for _ in range(size)]
    mean = [0.0] * size
    for one in _WORDS:
        mean[one] = model.tokenizer
        for other in _WORDS:
            spread[one][other] = (_SHARED * model.tokenizer) ** 2
        spread[one][one] += (_OWN[one] * model.tokenizer) ** 2
    mean[SIGNED], mean[PATCHES], mean[PIECES] = 0.5, 1.0, _PIECE
    for one, off in _LOOSE.items():
        spread[one][one] = off**2
    if not model.last_turn_thinking:  # then it goes on being worth what it was
        mean[EARLIER] = model.tokenizer
        spread[EARLIER] = [*spread[THINKING]]
        for row, alike in zip(spread, spread[THINKING], strict=True):
            row[EARLIER] = alike
        spread[EARLIER][EARLIER] = spread[THINKING][THINKING] + _LOOSE[EARLIER] ** 2
    return Fit(tuple(mean), tuple(map(tuple, spread)))


def learned(fit: Fit, amounts: Amounts, tokens: float, noise: float, start: Fit) -> Fit:
    """The fit after `amounts` were counted as `tokens`, give or take `noise`. `start`: the prior, for its bounds."""
    given = [(place, amount) for place, amount in enumerate(amounts) if amount]
    reach = [sum([row[place] * amount for place, amount in given]) for row in fit.spread]
    wrong = tokens - sum([fit.mean[place] * amount for place, amount in given])
    sure = sum([reach[place] * amount for place, amount in given]) + noise**2
    sure *= max(1.0, abs(wrong) / math.sqrt(sure) / _FAR)
    gains = [one / sure for one in reach]
    mean = tuple(
        [
            min(middle + 4 * off, max(middle - 4 * off, one + gain * wrong))
            for one, gain, middle, off in zip(fit.mean, gains, start.mean, _offs(start), strict=True)
        ]
    )
    spread: list[Amounts] = []
    for place, (row, gain) in enumerate(zip(fit.spread, gains, strict=True)):
        changed = [value - gain * other for value, other in zip(row, reach, strict=True)]
        changed[place] += start.spread[place][place] * _DRIFT
        spread.append(tuple(changed))
    return Fit(mean, tuple(spread))


def _offs(start: Fit) -> tuple[float, ...]:
    return tuple(math.sqrt(row[place]) for place, row in enumerate(start.spread))


class _Known(Struct):
    """What was learned of one model: its fit and the prior, and how its tokens compare with raw estimates."""

    fit: Fit
    start: Fit
    ratios: deque[float]


class Calibration:
    """What is known of each model at each upstream. Bounded: those not seen for longest are forgotten."""

    LOW, HIGH = 0.5, 3.0
    _NEWEST, _MODELS = 31, 256

    def __init__(self) -> None:
        self._models: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    def rates(self, model: ModelFacts) -> Rates:
        """What one of each amount is worth; of a model never seen, what its tokenizer lets expect."""
        known = self._models.get((model.upstream, model.model))
        fit, start = (known.fit, known.start) if known is not None else (prior(model),) * 2
        return Rates(fit.mean, start.mean[THINKING])

    def scale(self, model: ModelFacts) -> float:
        """Tokens that the provider counts for one of a raw estimate (a quarter of the bytes), between 0.5 and 3.

        The median of the newest observations and of 1: one odd answer does not move it.
        """
        known = self._models.get((model.upstream, model.model))
        return statistics.median((1.0, *known.ratios)) if known is not None else 1.0

    def observe(
        self,
        model: ModelFacts,
        amounts: Amounts,
        tokens: int,
        *,
        estimate: int = 0,
        last: Counted | None = None,
    ) -> None:
        """A prompt of these amounts was counted as `tokens` by its provider.

        `estimate`: its raw estimate; `last`: the prompt that it was counted from, if any.
        """
        if len(amounts) != len(KINDS) or tokens <= 0:
            return
        name = (model.upstream, model.model)
        known = self._models.get(name)
        if known is None:
            start = prior(model)
            known = self._models[name] = _Known(start, start, deque(maxlen=self._NEWEST))
        self._models.move_to_end(name)
        while len(self._models) > self._MODELS:
            self._models.popitem(last=False)
        if estimate >= LEAST:
            known.ratios.append(min(self.HIGH, max(self.LOW, tokens / estimate)))
        if last is not None and last.known and last.usage.prompt is not None:
            new = tuple(map(sub, amounts, last.amounts))
            noise = 6 + 0.03 * sum(map(abs, new[:DENSE]))
            known.fit = learned(known.fit, new, tokens - last.usage.prompt, noise, known.start)
        elif tokens >= LEAST:
            known.fit = learned(known.fit, amounts, tokens, 20 + 0.02 * tokens, known.start)
