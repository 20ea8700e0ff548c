"""The best schedule in hindsight, held against every schedule there is."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from proxy.hindsight import Course, Item, cost, decided, hindsight

TURNS = 6


@st.composite
def courses(draw: st.DrawFn) -> Course:
    """Short sessions: one result a turn, stale two turns later, with a pause or none."""
    items = [Item(0, draw(st.integers(10, 60)))]
    for turn in range(TURNS - 1):
        tokens = draw(st.integers(2, 40))
        items += (Item(turn, draw(st.integers(1, 5))), Item(turn, tokens, tokens - 1, turn + 2))
    breaks = draw(st.dictionaries(st.integers(1, TURNS - 1), st.just(0), max_size=1))
    return Course(tuple(items), TURNS, breaks, draw(st.sampled_from((0.1, 0.5))), 1.25)


def all_schedules(course: Course) -> list[dict[int, int]]:
    cuts = [None, *(at for at, item in enumerate(course.items) if item.saves)]
    turns = range(2, TURNS)
    return [
        {turn: cut for turn, cut in zip(turns, chosen, strict=True) if cut is not None}
        for chosen in product(cuts, repeat=len(turns))
    ]


@given(courses())
def test_no_schedule_is_cheaper(course: Course) -> None:
    """Where results become stale in the order in which they stand, nothing beats the schedule that is found."""
    best = cost(course, hindsight(course))
    assert best <= min(cost(course, one) for one in all_schedules(course)) + 1e-6


def test_a_prompt_is_read_once_it_was_written() -> None:
    """Ten tokens are written in the first turn and read in the two after it, with five written behind them."""
    course = Course((Item(0, 10), Item(1, 5)), 3)
    assert cost(course, {}) == 1.25 * 10 + (0.1 * 10 + 1.25 * 5) + 0.1 * 15


def test_after_a_pause_clearing_costs_nothing() -> None:
    """A turn in which nothing is cached anyway takes all that is stale."""
    items = (Item(0, 100), Item(0, 50, 40, 1), Item(1, 10))
    course = Course(items, 3, {2: 0})
    assert hindsight(course) == {2: 1}
    assert cost(course, {2: 1}) == cost(course, {}) - 1.25 * 40


def test_a_choice_hears_what_is_stale_and_cached() -> None:
    """Who decides turn by turn is asked only where something is stale, and what was cleared is not stale again."""
    course = Course((Item(0, 100), Item(0, 50, 40, 1)), 4)
    heard = []

    def choose(stale: object, turn: int, cached: float) -> int | None:
        heard.append((stale, turn, cached))
        return 1 if turn == 2 else None

    assert decided(course, choose)[1] == {2: 1}
    assert heard == [([(1, course.items[1])], 1, 150.0), ([(1, course.items[1])], 2, 150.0)]
