"""Whether a retroactive batch is made now: what `economics` says of it, in words, and how it is committed.

A stage says which results it would like to see gone, as candidates in prompt order. A `Purse` knows what the provider
holds of the conversation, how near the window is and how far the account is overdrawn; it picks the batch that is worth
most, and makes a promise of it or says what it is held for.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..branch import Break, Promise
from ..economics import BYTES_PER_TOKEN, Account, Candidate, Suffix, Terms, account, best, needed_at, weight
from ..edits import Edit, Held
from ..runs import turns_of
from .batch import batch, frontier, terms_of
from .results import survey_of
from .view import Proposal, View


class Choice(Struct, frozen=True):
    """The best batch. `forced`: the window asks for it, so it need not pay; `account`: None where that was not looked
    at, for no rent is paid; `fits`: it does not take the overdraft too far."""

    suffix: Suffix
    forced: bool = False
    account: Account | None = None
    fits: bool = True

    @property
    def goes(self) -> bool:
        """Whether the batch is to be made."""
        return self.forced or (self.suffix.paid and self.fits)

    def why(self, what: str) -> str:
        """The reason of each edit; `what` it removes."""
        suffix = self.suffix
        if suffix.breaks <= 0:
            return f"{what}; nothing behind it is cached"
        broken = f"{what}; breaks {short(suffix.breaks)} cached tokens to save {short(suffix.saves)}"
        if suffix.paid:
            return f"{broken}: carrying it cost {short(suffix.rent)}, breaking costs {short(max(0.0, suffix.cost))}"
        return f"{broken}{': the window is nearly full' if self.forced else ''}"

    @property
    def stakes(self) -> str:
        """Why it is held."""
        suffix = self.suffix
        would = f"would break {short(suffix.breaks)} cached tokens to save {short(suffix.saves)}"
        if not suffix.paid:
            return f"{would}: carrying them has cost {short(suffix.rent)} of {short(suffix.cost)} so far"
        if not self.fits and self.account is not None:
            left = short(max(0.0, self.account.left))
            return f"{would}: that costs {short(suffix.cost)}, and {left} may be spent in advance so far"
        return would


class Purse(Struct, frozen=True):
    """`at`: what a break costs now. `needed`: tokens that a batch must reclaim for the window's sake, None where it is
    not near. `total`: bytes of the prompt as it would go out, `head`: of its tools and system. `alive`: see `_alive`."""

    view: View
    at: Terms
    total: int
    needed: float | None
    head: int
    alive: frozenset[int]

    @classmethod
    def of(cls, view: View, total: int, high_water: float) -> Purse:
        """`high_water`: the share of the window above which batches are made though they do not pay yet."""
        at = terms_of(view)
        needed = needed_at(total * at.scale / BYTES_PER_TOKEN, high_water, view.facts.model.window)
        conversation = view.conversation
        front = (*conversation.tools, *conversation.system)
        head = sum(weight(part, view.facts.model) for part in front)
        return cls(view, at, total, needed, head, _alive(view))

    @property
    def unit(self) -> float:
        """The provider's tokens for a byte of ours."""
        return self.at.scale / BYTES_PER_TOKEN

    def fetched(self, size: int) -> float:
        """What it costs that so many bytes are fetched again: they are written anew."""
        return self.at.write * size * self.unit

    def kept(self, before: int, asked: int, turn: int) -> float:
        """Tokens that can still be read from the cache if a part changes that has so many bytes `before` it; `asked`:
        bytes of the last request that did not have it, which had `turn` turns of the model.

        Where the provider keeps what is marked, that is what this request had as a whole, as long as its entry lives;
        what came before it is older. Tools and system are marked in each request, and so live on [B10]. Nothing is kept
        below the minimum [B13].
        """
        model = self.view.facts.model
        if model.regime != "breakpoints":
            return before * self.unit
        kept = (asked if turn in self.alive else min(asked, self.head)) * self.unit
        return kept if kept >= model.minimum else 0.0

    def choose(self, candidates: Sequence[Candidate], least_bytes: int) -> Choice | None:
        """The batch that is worth most, of those that reclaim at least so many bytes; None where there is none."""
        least = least_bytes * self.unit
        usual = best(candidates, self.at, least)
        if self.needed is not None:
            if usual is not None and usual.paid and usual.saves >= self.needed:
                return Choice(usual, forced=True)
            forced = best(candidates, self.at, max(least, self.needed))
            if forced is not None:
                return Choice(forced, forced=True)
        if usual is None or not usual.paid or usual.cost <= 0:
            return None if usual is None else Choice(usual)
        found = self.account()
        if usual.cost <= found.left:
            return Choice(usual, account=found)
        smaller = best(candidates, self.at, least, most=found.left)
        if smaller is not None and smaller.paid:
            return Choice(smaller, account=found)
        return Choice(usual, account=found, fits=False)

    def forced(self, kept: float, saves: int) -> Choice:
        """A batch that the window asks for: it leaves `kept` tokens cached and saves so many bytes."""
        suffix = best([Candidate(kept, saves * self.unit, 0)], self.at)
        assert suffix is not None
        return Choice(suffix, forced=True)

    def account(self) -> Account:
        """What leaving everything would have cost so far: by what the client sends, with nothing left out."""
        whole = survey_of(self.view.client, self.view.facts.model)
        prompts = [size * self.unit for size in (*whole.asked, whole.total)]
        return account(prompts, self.view.breaks, self.at)

    def decide(
        self,
        stage: str,
        choice: Choice,
        edits: Sequence[Edit],
        targets: int,
        *,
        keep_thinking: bool,
        spent: float = 0.0,
    ) -> Proposal:
        """The promise of a batch that goes, else what is held, of so many targets. `keep_thinking`: see `batch`; `spent`:
        what it cost to prepare it, in units of base input."""
        if not choice.goes:
            return _held(stage, choice.suffix, targets, choice.stakes)
        suffix = choice.suffix
        broke = Break(turns_of(self.view.conversation), suffix.cost + spent, suffix.saves)
        made = batch(self.view, stage, edits, broke, forced=choice.forced, keep_thinking=keep_thinking)
        if isinstance(made, Promise):
            return Proposal(promises=(made,))
        return _held(stage, suffix, targets, f"{choice.stakes}; {made.reason}")


def has_expired(view: View) -> bool:
    """Whether the provider held this conversation, and its time is over [B10]."""
    known = frontier(view)
    if known is None:
        return False
    lifetime = view.facts.model.ttl_s if known.ttl_s is None else known.ttl_s
    return lifetime is not None and view.facts.now - known.at > lifetime


def _alive(view: View) -> frozenset[int]:
    """Turns of the model in those earlier requests whose end the provider still holds [B10]."""
    known = frontier(view)
    if known is None:
        return frozenset()
    lifetime = view.facts.model.ttl_s if known.ttl_s is None else known.ttl_s
    now = view.facts.now
    return frozenset(turns for turns, at in known.ends if lifetime is None or now - at <= lifetime)


def _held(stage: str, suffix: Suffix, targets: int, reason: str) -> Proposal:
    return held(stage, reason, targets, suffix.saves, suffix.breaks)


def held(stage: str, reason: str, targets: int, saves: float, breaks: float = 0.0) -> Proposal:
    """What is wanted and not done now: how many targets, tokens it would save and cached ones it would break."""
    kept = Held(
        stage=stage,
        reason=reason,
        targets=targets,
        breaks_tokens=round(breaks),
        saves_tokens=round(saves),
    )
    return Proposal(held=(kept,))


def short(tokens: float) -> str:
    """A number of tokens, or of their cost, for people."""
    return f"{tokens / 1000:.0f}k" if tokens >= 10_000 else f"{tokens:.0f}"
