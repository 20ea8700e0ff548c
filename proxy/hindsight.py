"""Sessions as a provider with a prefix cache charges for them, and the best schedule of batches in hindsight.

**The model.** A prompt is a row of items that only grows; turn t sends all items that have arrived by then. What
stood in the request before is read from the cache at `read`, the rest is written at `write`. In a *break* turn of the
session's own (a pause longer than the lifetime) nothing is cached but the first `kept` items. Some items are
results that become stale at a turn and may then be replaced by what is left of them. A batch in turn b with cut c
replaces all stale ones from place c on; from the first replaced one on everything is written anew.

**Hindsight.** With C(b, c) what a batch in a turn b that breaks nothing by itself costs, and G what it gains,

    C(b, c)     = (write - read) * (what stands behind c, cached, and is not stale by b)
    G(a, b, c)  = read * (z - b) * (what is reclaimed from c on that became stale after a and by b)

where a is the turn of the batch before and z the next break of the session, in which all stale results go for
nothing; what was to go then anyhow is a gain only until then. The best gain up to a batch in turn b is

    V(b) = max over a < b of  V(a) + max over c of ( G(a, b, c) - C(b, c) )

and V(start) of a stretch between breaks is 0. Only results that became stale after a are worth a cut: one that was
stale at a and stands before the cut of a is better taken at a (the same tokens saved longer, fewer behind it) or
never. This holds where results become stale in the order in which they stand; where they do not, the schedule found
is a valid one and its cost is what it costs, but a better one may exist. O(turns^2 * results) and less: a cut is
tried only at results that became stale in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

NEVER = 10**9


class Item(Struct, frozen=True):
    """Something in a prompt: the turn it arrives in, its tokens, and for a result what clearing reclaims and from
    which turn on it is stale. `alone`: it may be the first of a batch; signed thinking of a model that checks prefixes may not,
    and goes with whatever changes in front of it."""

    arrives: int
    tokens: int
    saves: int = 0
    stale: int = NEVER
    alone: bool = True


class Course(Struct, frozen=True):
    """A session. `breaks` maps the turns in which it breaks its cache itself to the number of items still cached."""

    items: tuple[Item, ...]
    turns: int
    breaks: Mapping[int, int] = {}
    read: float = 0.1
    write: float = 1.25


Schedule = Mapping[int, int]
"""Batches: turn to cut, the place of the first item that may be replaced."""

Choice = Callable[[Sequence[tuple[int, Item]], int, float], int | None]
"""Of the stale results with their places, in a turn with so many tokens cached: the cut, or None."""


def cost(course: Course, schedule: Schedule) -> float:
    """What the session costs in base input tokens."""
    return _run(course, lambda _, turn, __: schedule.get(turn))[0]


def reclaimed(course: Course, schedule: Schedule) -> int:
    """Tokens that a schedule leaves out of prompts, over all turns."""
    gone: set[int] = set()
    total = 0
    for turn, cut in sorted(schedule.items()):
        for at, item in enumerate(course.items):
            if at >= cut and at not in gone and item.saves and max(item.stale, item.arrives) <= turn:
                gone.add(at)
                total += item.saves * (course.turns - turn)
    return total


def decided(course: Course, choose: Choice) -> tuple[float, dict[int, int]]:
    """What it costs when `choose` decides in each turn with what is known then; and the batches it made."""
    return _run(course, choose)


def _run(course: Course, choose: Choice) -> tuple[float, dict[int, int]]:
    gone: set[int] = set()
    made: dict[int, int] = {}
    spent = cached = 0.0
    for turn in range(course.turns):
        sizes = [
            item.tokens - (item.saves if at in gone else 0)
            for at, item in enumerate(course.items)
            if item.arrives <= turn
        ]
        if turn in course.breaks:
            cached = min(cached, float(sum(sizes[: course.breaks[turn]])))
        stale = [
            (at, item)
            for at, item in enumerate(course.items)
            if item.saves and max(item.stale, item.arrives) <= turn and at not in gone
        ]
        cut = choose(stale, turn, cached) if stale else None
        going = [at for at, _ in stale if cut is not None and at >= cut]
        if going:
            cached = min(cached, float(sum(sizes[: going[0]])))
            for at in going:
                sizes[at] -= course.items[at].saves
            gone.update(going)
            made[turn] = going[0]
        prompt = float(sum(sizes))
        spent += course.read * cached + course.write * (prompt - cached)
        cached = prompt
    return spent, made


def hindsight(course: Course) -> dict[int, int]:
    """The best schedule, knowing the whole session; see the module's prose."""
    schedule: dict[int, int] = {}
    results = [(at, item) for at, item in enumerate(course.items) if item.saves and item.stale < course.turns]
    first = next((at for at, item in results if item.alone), 0)
    starts = [
        0,
        *sorted(turn for turn, kept in course.breaks.items() if turn and kept <= first),
        course.turns,
    ]
    for start, end in pairwise(starts):
        if start and any(item.stale <= start for _, item in results):
            schedule[start] = first
        schedule |= _stretch(course, results, start, end)
    return schedule


def _stretch(course: Course, results: Sequence[tuple[int, Item]], start: int, end: int) -> dict[int, int]:
    """The best batches between two breaks of the session's own."""
    value = {start: 0.0}
    before: dict[int, tuple[int, int]] = {}
    for turn in range(start + 1, end):
        fresh = [(at, item) for at, item in results if start < item.stale <= turn]
        costs = _costs(course, [at for at, _ in fresh], turn)
        top: tuple[float, int, int] | None = None
        for last in range(start, turn):
            if last not in value:
                continue
            gain = 0.0
            for at, item in reversed(fresh):
                if item.stale <= last:
                    continue
                gain += course.read * (end - turn) * item.saves
                if not item.alone:
                    continue
                worth = value[last] + gain - costs[at]
                if top is None or worth > top[0]:
                    top = (worth, last, at)
        if top is not None:
            value[turn], before[turn] = top[0], (top[1], top[2])
    turn = max(value, key=lambda one: (value[one], -one))
    schedule: dict[int, int] = {}
    while turn != start:
        schedule[turn] = before[turn][1]
        turn = before[turn][0]
    return schedule


def _costs(course: Course, cuts: Sequence[int], turn: int) -> dict[int, float]:
    """C(turn, c) for each cut."""
    wanted, found, behind = set(cuts), {}, 0
    for at in range(len(course.items) - 1, -1, -1):
        item = course.items[at]
        if item.arrives < turn:
            behind += item.tokens - (item.saves if item.stale <= turn else 0)
        if at in wanted:
            found[at] = (course.write - course.read) * behind
    return found
