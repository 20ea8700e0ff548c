"""What a request cost, from its usage and the facts of its model [B14]."""

from __future__ import annotations

from msgspec import Struct

from ..models import ModelFacts
from ..usage import Usage

MILLION = 1_000_000


class Cost(Struct, frozen=True):
    """`units`: of one token of base input, the answer left out. `dollars`: the whole; None where no price is known."""

    units: float = 0.0
    dollars: float | None = 0.0

    def __add__(self, other: Cost) -> Cost:
        known = self.dollars is not None and other.dollars is not None
        total = (self.dollars or 0.0) + (other.dollars or 0.0) if known else None
        return Cost(self.units + other.units, total)

    def __sub__(self, other: Cost) -> Cost:
        known = self.dollars is not None and other.dollars is not None
        rest = (self.dollars or 0.0) - (other.dollars or 0.0) if known else None
        return Cost(self.units - other.units, rest)


def cost(usage: Usage, model: ModelFacts) -> Cost:
    """What a request with this usage cost. A provider that says nothing of its cache is taken to have none."""
    prompt, cached, written = usage.prompt or 0, usage.cached or 0, usage.written or 0
    long = usage.written_1h or 0
    full = usage.uncached if usage.uncached is not None else max(0, prompt - cached - written)
    units = full + model.read * cached + model.write_5m * (written - long) + model.write_1h * long
    price = model.price
    if price is None:
        return Cost(units, None)
    dearer = price.long if price.long is not None and prompt > price.long.above else None
    paid_in = units * price.input * (dearer.input if dearer is not None else 1.0)
    paid_out = (usage.output or 0) * price.output * (dearer.output if dearer is not None else 1.0)
    return Cost(units, (paid_in + paid_out) / MILLION)
