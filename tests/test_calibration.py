"""What a model's tokens are worth, learned from what its provider counted."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from proxy.calibration import Calibration, learned, prior
from proxy.counting import (
    DENSE,
    EARLIER,
    IMAGES,
    KINDS,
    NOTHING,
    PATCHES,
    PIECES,
    REQUEST,
    RESULTS,
    TEXT,
    THINKING,
    TOOLS,
    Amounts,
    Counted,
    counted,
)
from proxy.modelfacts import ModelFacts
from proxy.usage import Usage

MODEL = ModelFacts(upstream="anthropic", model="claude-opus-5", tokenizer=1.2)


def amounts(**kinds: float) -> Amounts:
    return tuple(kinds.get(kind, 0.0) for kind in KINDS)


def whole(rng: random.Random) -> Amounts:
    return amounts(
        text=rng.uniform(2000, 9000),
        tools=rng.uniform(500, 9000),
        results=rng.uniform(0, 30_000),
        dense=rng.uniform(200, 3000),
        bytes=rng.uniform(-2000, 2000),
        pieces=rng.randint(5, 90),
        request=1.0,
    )


def test_a_model_never_seen_counts_by_its_tokenizer() -> None:
    """And pieces, images and patches by what the formats say of them."""
    rates = Calibration().rates(MODEL)
    assert counted(amounts(text=1000, results=500, patches=300, pieces=10), rates) == 1800 + 300 + 40


def test_what_one_kind_of_content_teaches_holds_for_the_others() -> None:
    """Until they teach otherwise: most of what is not known of a tokenizer is one number."""
    calibration = Calibration()
    calibration.observe(MODEL, amounts(text=10_000, request=1), 15_000)
    worth = calibration.rates(MODEL).worth
    assert worth[TEXT] == pytest.approx(1.5, abs=0.03)
    assert worth[RESULTS] == pytest.approx(1.5, abs=0.08)
    assert worth[PATCHES] == pytest.approx(1.0)


def test_a_tokenizer_is_found_from_differences() -> None:
    """Tools counted half as much again, images at a flat rate, a hidden instruction: all that is linear is learned."""
    rng = random.Random(3)
    true = [0.0] * len(KINDS)
    for kind, worth in (
        (TEXT, 1.3),
        (RESULTS, 1.25),
        (TOOLS, 1.6),
        (DENSE, 0.1),
        (PIECES, 5.0),
        (IMAGES, 300.0),
        (REQUEST, 350.0),
    ):
        true[kind] = worth

    def billed(said: Amounts) -> int:
        return round(sum(worth * amount for worth, amount in zip(true, said, strict=True)))

    calibration = Calibration()
    for _ in range(25):
        said = whole(rng)
        calibration.observe(MODEL, said, billed(said))
        new = amounts(
            results=rng.uniform(100, 4000), dense=rng.uniform(0, 900), images=rng.randint(0, 2), pieces=3
        )
        after = tuple(map(sum, zip(said, new, strict=True)))
        last = Counted(said, Usage(prompt=billed(said)))
        calibration.observe(MODEL, after, billed(after), last=last)
    rates = calibration.rates(MODEL)
    assert rates.worth[IMAGES] == pytest.approx(300, abs=15)
    assert rates.worth[RESULTS] == pytest.approx(1.25, abs=0.05)
    for _ in range(10):
        said = whole(rng)
        assert counted(said, rates) == pytest.approx(billed(said), rel=0.02)


def test_one_odd_answer_moves_little() -> None:
    """A prompt billed forty times over (another one's usage, a hidden document) is not believed."""
    calibration = Calibration()
    for _ in range(6):
        calibration.observe(MODEL, amounts(text=10_000, request=1), 13_000)
    before = calibration.rates(MODEL).worth[TEXT]
    calibration.observe(MODEL, amounts(text=10_000, request=1), 520_000)
    assert calibration.rates(MODEL).worth[TEXT] == pytest.approx(before, rel=0.1)


def test_small_and_empty_answers_teach_nothing() -> None:
    calibration = Calibration()
    calibration.observe(MODEL, amounts(text=20), 90)
    calibration.observe(MODEL, amounts(text=2000), 0)
    calibration.observe(MODEL, (), 5000)
    assert calibration.rates(MODEL).worth == prior(MODEL).mean
    assert calibration.scale(MODEL) == 1.0


def test_earlier_thinking_is_worth_what_the_provider_makes_of_it() -> None:
    """Nothing where it leaves it out [A47], else what thinking is worth, whatever that turns out to be."""
    assert prior(structs.replace(MODEL, last_turn_thinking=True)).mean[EARLIER] == 0.0
    calibration = Calibration()
    for _ in range(4):
        said = amounts(text=5000, thinking=3000, request=1)
        last = Counted(amounts(text=5000, request=1), Usage(prompt=6000))
        calibration.observe(MODEL, said, 6000 + 6000, last=last)
    worth = calibration.rates(MODEL).worth
    assert worth[THINKING] == pytest.approx(2.0, abs=0.1)
    assert worth[EARLIER] == pytest.approx(worth[THINKING], abs=0.1)


@given(
    st.lists(
        st.tuples(
            st.lists(st.floats(-1e6, 1e6), min_size=len(KINDS), max_size=len(KINDS)), st.floats(-1e7, 1e7)
        )
    )
)
def test_rates_stay_within_their_bounds(seen: list[tuple[list[float], float]]) -> None:
    """Whatever a provider says: four times what they could be off by at the start."""
    start = fit = prior(MODEL)
    for said, tokens in seen:
        fit = learned(fit, tuple(said), tokens, 20.0, start)
    for place, (found, middle) in enumerate(zip(fit.mean, start.mean, strict=True)):
        assert abs(found - middle) <= 4.001 * start.spread[place][place] ** 0.5 + 1e-9


def test_models_not_seen_for_longest_are_forgotten() -> None:
    calibration = Calibration()
    for number in range(300):
        calibration.observe(structs.replace(MODEL, model=f"m{number}"), amounts(text=5000), 9000)
    known = [
        n
        for n in range(300)
        if calibration.rates(structs.replace(MODEL, model=f"m{n}")).worth != prior(MODEL).mean
    ]
    assert known == list(range(44, 300))


def test_the_raw_scale_follows_what_is_billed_and_ignores_odd_answers() -> None:
    """It serves where only bytes are weighed; one observation counts as much as the prior."""
    calibration = Calibration()
    calibration.observe(MODEL, NOTHING, 2000, estimate=1000)
    assert calibration.scale(MODEL) == 1.5
    for billed in (1300, 1310, 90_000, 1290, 10, 1300):
        calibration.observe(MODEL, NOTHING, billed, estimate=1000)
    assert 1.28 <= calibration.scale(MODEL) <= 1.31
    assert calibration.scale(structs.replace(MODEL, model="other")) == 1.0
    for _ in range(40):
        calibration.observe(MODEL, NOTHING, 10**9, estimate=1000)
    assert calibration.scale(MODEL) == 3.0
