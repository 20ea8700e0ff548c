"""Summaries that a model writes, as the rewriter tells the gateway of them."""

from __future__ import annotations

from collections.abc import Callable

from ..conversation import NO_KEY, Text
from ..edits import InsertAfter
from ..modelfacts import ModelFacts
from ..rewrite import Rewrite
from ..stages import Facts, compact
from ..stages.summary import TOLD
from ..turns import TurnReport
from ..usage import Usage
from .exchange import Prepared


def in_question(body: bytes, made: Rewrite, facts: Facts, *, ask_usage: bool) -> Prepared:
    """What stands for a request until the model was asked."""
    branch = made.place.branch if made.place is not None else None
    parts = (part for message in made.read.messages for part in message.parts) if made.read else ()
    root = next((part.key for part in parts if not part.nth), NO_KEY)
    return Prepared(
        body=body,
        commit=False,
        report=TurnReport(
            conversation=root.hex()[:12],
            number=branch.turns + 1 if branch is not None else 1,
            agent=facts.agent.name or None,
            model=facts.model.model or None,
        ),
        ask_usage=ask_usage,
        session=facts.session,
        question=made.question,
        spent=_spent(facts.model),
    )


def written_by(made: Rewrite, facts: Facts) -> str | None:
    """By whom the summary was written that this request is the first to have; None where there is none, or nobody was to
    be asked."""
    config = made.policy.config(compact.NAME)
    promises = made.commit.promises if made.commit is not None else ()
    new = [edit for one in promises if one.stage == compact.NAME for edit in one.edits]
    if not new or not isinstance(config, compact.Config) or config.mode != "model" or facts.heard is None:
        return None
    if any(
        TOLD in edit.part.text
        for edit in new
        if isinstance(edit, InsertAfter) and isinstance(edit.part, Text)
    ):
        return "model"
    return f"history: {facts.heard.fault or compact.TOO_LONG}"


def _spent(model: ModelFacts) -> Callable[[Usage], float]:
    """What a question costs by its usage, in units of base input."""
    price = model.price
    answer = price.output / price.input if price is not None and price.input else 1.0

    def units(usage: Usage) -> float:
        cached, written = usage.cached or 0, usage.written or 0
        rest = max(0, (usage.prompt or 0) - cached - written)
        fresh = rest if usage.uncached is None else usage.uncached
        return fresh + model.read * cached + model.write_5m * written + answer * (usage.output or 0)

    return units
