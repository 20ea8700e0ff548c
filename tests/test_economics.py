"""The rule of retroactive batches, against the simplest provider that has a prefix cache and prices."""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from proxy.conversation import Conversation, Image, Message, Role, Text, ToolDefinition, ToolResult
from proxy.economics import (
    LIMIT,
    Account,
    Candidate,
    Suffix,
    Terms,
    account,
    best,
    estimated,
    needed_at,
    terms,
)
from proxy.edits import Target
from proxy.branch import Break, Frontier
from proxy.models import ModelFacts
from proxy.usage import Usage

WRITE = 1.25
PLACEHOLDER = 50


class Turn(NamedTuple):
    """One request: tokens of the result that is new in it, and whether the cache went cold before it."""

    tokens: int
    cold: bool


class Outcome(NamedTuple):
    cost: float
    costs: list[float]
    """What the session had cost after each turn."""
    rent_of_cleared: float
    """What the rule counted as paid for the results it cleared, when it cleared them."""
    worst: float
    """The greatest cost of one batch above the rent of its members."""


Policy = Callable[[Sequence[Candidate], Terms, Account], Suffix | None]


def leave(candidates: Sequence[Candidate], at: Terms, account: Account) -> Suffix | None:
    """Never clear anything."""
    return None


def naive(candidates: Sequence[Candidate], at: Terms, account: Account) -> Suffix | None:
    """Clear whatever has fallen out of the window, at once."""
    return best(candidates, structs.replace(at, cached=0.0))


def rule(candidates: Sequence[Candidate], at: Terms, account: Account) -> Suffix | None:
    """Ski rental alone."""
    found = best(candidates, at)
    return found if found is not None and found.paid else None


def bounded(candidates: Sequence[Candidate], at: Terms, account: Account) -> Suffix | None:
    """Ski rental within what may be spent in advance."""
    found = best(candidates, at, most=max(0.0, account.left))
    return found if found is not None and found.paid else None


def session(
    turns: Sequence[Turn], policy: Policy, *, read: float, keep: int = 8, base: int = 20_000, call: int = 100
) -> Outcome:
    """Cost of a session in base input tokens. The provider caches every prefix it was sent until it goes cold."""
    sizes: list[int] = []
    cleared: list[bool] = []
    cached = 0
    cost = rent = 0.0
    worst = float("-inf")
    costs: list[float] = []
    prompts: list[float] = []
    breaks: list[Break] = []
    for now, turn in enumerate(turns):
        prompts.append(base + sum(one.tokens + call for one in turns[: now + 1]))
        sizes.append(turn.tokens)
        cleared.append(False)
        cached = 0 if turn.cold else cached
        places = [base]
        for size in sizes:
            places.append(places[-1] + call + size)
        old = [at for at in range(now + 1 - keep) if not cleared[at] and sizes[at] > PLACEHOLDER]
        candidates = [
            Candidate(float(places[at] + call), float(sizes[at] - PLACEHOLDER), now - at - keep) for at in old
        ]
        at = Terms(cached=float(cached), read=read, write=WRITE, scale=1.0)
        choice = policy(candidates, at, account(prompts, breaks, at))
        if choice is not None:
            breaks.append(Break(now, choice.cost, choice.saves))
            first = old[choice.start]
            cached = min(cached, places[first] + call)
            rent += choice.rent
            worst = max(worst, choice.cost - choice.rent)
            for place in old[choice.start :]:
                sizes[place], cleared[place] = PLACEHOLDER, True
        prompt = base + sum(sizes) + call * len(sizes)
        cost += read * cached + WRITE * (prompt - cached)
        costs.append(cost)
        cached = prompt
    return Outcome(cost, costs, rent, worst)


def shared(policy: Policy, turns: int, pauses: float, read: float) -> float:
    """Mean cost as a share of leaving everything, over 20 sessions of results of 2,000 tokens on average."""
    total = 0.0
    for seed in range(20):
        chance = random.Random(seed)
        course = [
            Turn(int(chance.expovariate(1 / 2000)), at > 0 and chance.random() < pauses)
            for at in range(turns)
        ]
        total += session(course, policy, read=read).cost / session(course, leave, read=read).cost
    return total / 20


@pytest.mark.parametrize(
    ("turns", "pauses", "naively", "ruled"),
    [
        (40, 0.0, (2.24, 3.14), (0.90, 0.99)),
        (40, 0.06, (1.66, 2.02), (0.74, 0.73)),
        (150, 0.0, (1.15, 1.90), (0.46, 0.58)),
        (150, 0.06, (0.81, 1.05), (0.37, 0.39)),
        (300, 0.0, (0.70, 1.18), (0.30, 0.39)),
    ],
)
def test_what_a_session_costs(
    turns: int, pauses: float, naively: tuple[float, float], ruled: tuple[float, float]
) -> None:
    """Short and long sessions, with and without pauses longer than the cache lives: the rule costs less than leaving
    everything, where clearing at once costs up to three times as much."""
    for read, expected_naive, expected in zip((0.1, 0.05), naively, ruled, strict=True):
        assert shared(rule, turns, pauses, read) <= expected + 0.05
        assert shared(bounded, turns, pauses, read) <= expected + 0.05
        assert shared(naive, turns, pauses, read) == pytest.approx(expected_naive, abs=0.25)


COURSES = st.lists(
    st.builds(
        Turn,
        st.one_of(st.integers(0, 300), st.integers(300, 5_000), st.integers(5_000, 80_000)),
        st.integers(0, 19).map(lambda chance: chance == 0),
    ),
    min_size=1,
    max_size=60,
)
READS = st.sampled_from([0.0, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0])


@given(course=COURSES, read=READS, keep=st.integers(0, 10), base=st.integers(0, 60_000))
def test_wherever_a_session_ends_it_costs_little_more_than_leaving_everything(
    course: list[Turn], read: float, keep: int, base: int
) -> None:
    """A person may stop behind any batch: what that had cost in advance is bounded in every turn."""
    ruled = session(course, bounded, read=read, keep=keep, base=base).costs
    whole = session(course, leave, read=read, keep=keep, base=base).costs
    for spent, all_of_it in zip(ruled, whole, strict=True):
        assert spent <= (1 + LIMIT) * all_of_it * (1 + 1e-9)


@given(course=COURSES, read=READS, keep=st.integers(0, 10), base=st.integers(0, 60_000))
def test_the_rule_never_costs_twice_as_much_as_leaving_everything(
    course: list[Turn], read: float, keep: int, base: int
) -> None:
    """Whatever the session and wherever it ends: at most the rent of what was cleared on top, and rent is a part of
    what leaving everything costs."""
    ruled = session(course, rule, read=read, keep=keep, base=base)
    left = session(course, leave, read=read, keep=keep, base=base)
    assert ruled.cost <= left.cost + ruled.rent_of_cleared + 1e-6 * left.cost
    assert ruled.rent_of_cleared <= left.cost
    assert ruled.worst <= 0


@given(course=COURSES, read=READS, keep=st.integers(0, 10))
def test_a_cold_cache_is_never_worth_waiting_for(course: list[Turn], read: float, keep: int) -> None:
    """Where every turn finds the cache cold the rule clears at once, and nothing is cheaper."""
    cold = [turn._replace(cold=True) for turn in course]
    costs = [session(cold, policy, read=read, keep=keep).cost for policy in (rule, naive, leave)]
    assert costs[0] == pytest.approx(min(costs))


# -- the best suffix ---------------------------------------------------------------------------------------

WARM = Terms(cached=100_000.0, read=0.1, write=1.25, scale=1.0)


def test_a_tiny_early_result_does_not_hold_back_a_large_late_one() -> None:
    """The early result would break 90k tokens more to give back 100: it stays."""
    early, late = Candidate(9_000.0, 100.0, 50), Candidate(80_000.0, 15_000.0, 10)
    found = best([early, late], WARM)
    assert found == Suffix(
        start=1,
        breaks=20_000.0,
        saves=15_000.0,
        cost=1.25 * (20_000 - 15_000) - 0.1 * 20_000,
        rent=pytest.approx(0.1 * 15_000 * 10),
    )
    assert found.paid


def test_an_early_result_joins_where_its_own_rent_covers_the_earlier_break() -> None:
    """Two batches would break the late stretch twice."""
    early, late = Candidate(70_000.0, 10_000.0, 40), Candidate(80_000.0, 15_000.0, 10)
    found = best([early, late], WARM)
    assert found is not None
    assert (found.start, found.saves, found.breaks) == (0, 25_000.0, 30_000.0)


def test_what_rent_has_not_paid_for_waits() -> None:
    """A result that just became stale has paid nothing yet."""
    found = best([Candidate(50_000.0, 3_000.0, 0)], WARM)
    assert found is not None
    assert not found.paid
    assert (found.breaks, found.saves) == (50_000.0, 3_000.0)


def test_where_nothing_is_cached_everything_goes() -> None:
    """The break costs nothing, and the longest suffix gives back most."""
    found = best([Candidate(10.0, 5.0, 0), Candidate(20.0, 5.0, 0)], structs.replace(WARM, cached=0.0))
    assert found == Suffix(start=0, breaks=0.0, saves=10.0, cost=0.0, rent=0.0)


def test_reads_for_nothing_never_pay_rent() -> None:
    """On a local server a break costs time and carrying costs none: only the window or a cold cache admits it."""
    local = Terms(cached=100_000.0, read=0.0, write=1.0, scale=1.0)
    found = best([Candidate(50_000.0, 20_000.0, 1_000_000)], local)
    assert found is not None
    assert not found.paid


def test_a_batch_reclaims_at_least_what_is_needed() -> None:
    """The best suffix is looked for among those that are large enough; there may be none."""
    early, late = Candidate(10_000.0, 8_000.0, 0), Candidate(95_000.0, 4_000.0, 0)
    found = best([early, late], WARM, 10_000.0)
    assert found is not None
    assert found.start == 0
    assert best([early, late], WARM, 13_000.0) is None
    assert best([], WARM) is None


@pytest.mark.parametrize(
    ("prompt", "needed"),
    [(160_000.0, None), (160_001.0, 10_000.0), (189_999.0, 10_000.0), (190_000.0, 0.0), (250_000.0, 0.0)],
)
def test_the_window_asks_for_batches_that_are_worth_a_break(prompt: float, needed: float | None) -> None:
    """Above the mark a quarter of the room left, near the window whatever there is."""
    assert needed_at(prompt, 0.8, 200_000) == (None if needed is None else pytest.approx(needed))


# -- what the provider holds -------------------------------------------------------------------------------

MODEL = ModelFacts(regime="breakpoints", minimum=1024, ttl_s=300, ttl_long_s=3600, read=0.05)
SEEN = Frontier(
    upstream="anthropic",
    model="m",
    setting=b"s",
    at=1_000.0,
    parts=10,
    estimate=40_000,
    usage=Usage(prompt=50_000, uncached=2_000, cached=40_000, written=8_000),
    tail=Target(b"k"),
)


def held(frontier: Frontier | None = SEEN, model: ModelFacts = MODEL, now: float = 1_100.0) -> Terms:
    return terms(frontier, model, now, 1.5)


def test_what_was_read_and_written_is_cached() -> None:
    """And the provider's count over our estimate scales every position."""
    assert held() == Terms(cached=48_000.0, read=0.05, write=1.25, scale=1.25)


def test_a_cache_is_cold_after_its_lifetime() -> None:
    """Counted from the start of the last request; the mark's own lifetime goes before the model's."""
    assert held(now=1_300.0).cached == 48_000.0
    assert held(now=1_300.1).cached == 0.0
    long = structs.replace(SEEN, ttl_s=3600.0)
    assert held(long, now=4_600.0) == Terms(cached=48_000.0, read=0.05, write=2.0, scale=1.25)
    assert held(long, now=4_600.1).cached == 0.0
    assert held(model=structs.replace(MODEL, ttl_s=None), now=1e9).cached == 48_000.0


def test_what_was_never_asked_is_not_cached() -> None:
    """No frontier: another upstream, another model, other tools or system."""
    assert held(None) == Terms(cached=0.0, read=0.05, write=1.25, scale=1.5)


@pytest.mark.parametrize(
    ("regime", "usage", "marked", "cached"),
    [
        ("breakpoints", Usage(prompt=50_000, cached=0, written=0), True, 0.0),
        ("breakpoints", Usage(prompt=50_000, cached=600, written=400), True, 0.0),  # below the minimum
        ("breakpoints", None, True, 60_000.0),  # the client was gone before usage came
        ("breakpoints", None, False, 0.0),
        ("prefix", Usage(prompt=50_000, cached=10_000), False, 50_000.0),
        ("prefix", Usage(prompt=50_000), False, 50_000.0),  # a server that does not report its cache
        ("automatic", Usage(prompt=50_000, cached=10_000, written=30_000), False, 40_000.0),
        ("automatic", Usage(prompt=50_000, cached=10_000), False, 50_000.0),
        ("none", Usage(prompt=50_000, cached=10_000), False, 0.0),
    ],
)
def test_each_kind_of_cache_holds_its_own(
    regime: str, usage: Usage | None, marked: bool, cached: float
) -> None:
    """Marked prefixes hold what was read and written, others all of the prompt; too little is nothing."""
    frontier = structs.replace(SEEN, usage=usage, tail=SEEN.tail if marked else None)
    assert held(frontier, structs.replace(MODEL, regime=regime)).cached == cached


def test_an_estimate_knows_that_images_are_not_text() -> None:
    """Base64 is not what a picture costs, and a deferred tool is not in the prompt."""
    model = structs.replace(MODEL, image_tokens=1_500)
    parts = (
        Text(text="x", size=400),
        Image(media_type="image/png", data_bytes=900_000, size=900_000),
        ToolResult(call_id="a", content=b"[]", size=600_000, images=2),
    )
    conversation = Conversation(
        envelope=(),
        tools=(ToolDefinition(name="a", size=800), ToolDefinition(name="b", size=800, deferred=True)),
        system=(Text(text="s", size=1_200),),
        messages=(Message(role=Role.USER, parts=parts),),
    )
    assert estimated(conversation, model) == 200 + 300 + 100 + 1_500 + 3_000


def test_what_is_likely_fetched_again_is_a_cost_but_not_where_it_would_be_written_anyway() -> None:
    """A warm break pays later; behind a cold cache what stays is written too, so clearing costs no more."""
    warm = Terms(cached=10_000.0, read=0.1, write=1.25, scale=1.0)
    cold = Terms(cached=0.0, read=0.1, write=1.25, scale=1.0)
    plain, missed = Candidate(0.0, 5_000.0, 3), Candidate(0.0, 5_000.0, 3, again=2_000.0)

    def cost(one: Candidate, at: Terms) -> float:
        found = best([one], at)
        assert found is not None
        return found.cost

    assert cost(missed, warm) == cost(plain, warm) + 2_000.0
    assert cost(missed, cold) == cost(plain, cold) == 0.0


def test_no_batch_is_best_that_costs_more_than_may_be_spent() -> None:
    """A smaller suffix may do; else there is none."""
    at = Terms(cached=50_000.0, read=0.1, write=1.25, scale=1.0)
    candidates = [Candidate(5_000.0, 9_000.0, 90), Candidate(40_000.0, 9_000.0, 20)]
    whole = best(candidates, at)
    assert whole is not None
    assert whole.start == 0
    smaller = best(candidates, at, most=5_000.0)
    assert smaller is not None
    assert (smaller.start, smaller.cost <= 5_000.0) == (1, True)
    assert best(candidates, at, most=-20_000.0) is None
