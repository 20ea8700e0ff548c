"""What a session cost on each path, by the embedded provider's own count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from ..misses import held
from ..modelfacts import ModelFacts
from ..simulator import Exchange
from .path import Played, Sent, usage_of
from .requests import Request

DIRECT = "direct"
"""The path without the proxy."""

SLACK = 64
"""Tokens that may be missing from a read before it counts as a break: providers round down to blocks."""


_LONGEST = 160
"""Characters of a refusal that are shown."""


class Line(Struct, frozen=True, kw_only=True):
    """One path of a session; None where the path has no such figure.

    requests  that were charged; `refused` of all by the provider
    prompt    tokens of all prompts together, `cached` the share of them read from the cache (0 to 1)
    cost      of all prompts, in units of one base input token [B14]; `dollars` where prices are known, answers not in it
    breaks    requests that read less than the provider held for them
    batches   turns in which old results were cleared anew, and what was written anew for that (base input tokens)
    left_out  tokens taken out of prompts, over all requests
    faults    requests that the rewrite failed on
    """

    path: str
    requests: int
    refused: int | None = None
    prompt: int | None = None
    cached: float | None = None
    cost: float = 0.0
    dollars: float | None = None
    breaks: int | None = None
    batches: int | None = None
    batches_cost: float | None = None
    left_out: int | None = None
    faults: int | None = None


class Step(Struct, frozen=True, kw_only=True):
    """One request on all paths: the model, and by path prompt, cached tokens and cost; None where it was refused."""

    number: int
    model: str
    paths: dict[str, tuple[int, int, float] | None]


def line_of(name: str, played: Played, conversations: Sequence[str]) -> Line:
    """The row of a path. `conversations` name by request the conversation it belongs to."""
    taken = [(one.exchange, one) for one in played.sent if one.exchange and one.exchange.status == 200]
    prompt = sum(exchange.usage.total for exchange, _ in taken)
    read = sum(exchange.read for exchange, _ in taken)
    course = _breaks(played.sent, conversations)
    rewrites = name != DIRECT
    return Line(
        path=name,
        requests=len(taken),
        refused=sum(one.refused is not None for one in played.sent),
        prompt=prompt,
        cached=round(read / prompt, 4) if prompt else 0.0,
        cost=round(sum(exchange.cost for exchange, _ in taken), 1),
        dollars=rounded(added(dollars(exchange, one.request.facts) for exchange, one in taken), 6),
        breaks=course.breaks,
        batches=course.batches if rewrites else None,
        batches_cost=round(course.batches_cost, 1) if rewrites else None,
        left_out=sum(left_out(one) for _, one in taken) if rewrites else None,
        faults=sum(one.fault is not None for one in played.sent) if rewrites else None,
    )


def dollars(exchange: Exchange, facts: ModelFacts) -> float | None:
    """What a prompt costs; None where the price is not known."""
    price = facts.price
    if price is None:
        return None
    long = price.long is not None and exchange.usage.total > price.long.above
    factor = price.long.input if long and price.long is not None else 1.0
    return exchange.cost * price.input * factor / 1e6


class _Breaks(Struct, frozen=True):
    breaks: int
    batches: int
    batches_cost: float


def _breaks(sent: Sequence[Sent], conversations: Sequence[str]) -> _Breaks:
    last: dict[tuple[str, str], Sent] = {}
    breaks = batches = 0
    dear = 0.0
    for one, conversation in zip(sent, conversations, strict=True):
        if one.exchange is None or one.exchange.status != 200:
            continue
        facts = one.request.facts
        before = last.get((conversation, facts.model))
        last[conversation, facts.model] = one
        lost = _lost(before, one, facts)
        cleared = _cleared(one) - (_cleared(before) if before else 0)
        breaks += lost > SLACK
        if cleared > 0:
            batches += 1
            fresh = left_out(one) - (left_out(before) if before else 0)
            dear += (facts.write_5m - facts.read) * max(0, lost - max(0, fresh))
    return _Breaks(breaks, batches, dear)


def _lost(before: Sent | None, after: Sent, facts: ModelFacts) -> int:
    """Tokens that the provider held and did not read; none where they had expired."""
    if before is None or before.exchange is None or after.exchange is None:
        return 0
    if facts.ttl_s is not None and after.exchange.started - before.exchange.started >= facts.ttl_s:
        return 0
    return max(0, (held(usage_of(before.exchange, facts), facts) or 0) - after.exchange.read)


def _cleared(one: Sent) -> int:
    return one.report.edits.get("stale", 0) if one.report is not None else 0


def left_out(one: Sent) -> int:
    """Tokens that the rewrite left out of a request."""
    return sum(one.report.reclaimed.values()) if one.report is not None else 0


def refusals(name: str, played: Played) -> list[str]:
    """What the provider refused on a path, each word once."""
    found = Counter(one.refused[:_LONGEST] for one in played.sent if one.refused is not None)
    return [f"{name}: refused {times}: {said}" for said, times in found.items()]


def unasked(name: str, played: Played) -> list[str]:
    """How many summaries of a path a model would have written, which no replay asks."""
    count = sum(one.report is not None and one.report.summary is not None for one in played.sent)
    made = "a summary is" if count == 1 else f"{count} summaries are"
    return [f"{name}: {made} of the history's own words, for a replay asks no model"] if count else []


def steps_of(requests: Sequence[Request], played: Mapping[str, Played]) -> list[Step]:
    """Each request on all paths."""
    return [
        Step(
            number=at + 1,
            model=request.facts.model,
            paths={name: _step(path.sent[at]) for name, path in played.items()},
        )
        for at, request in enumerate(requests)
    ]


def _step(one: Sent) -> tuple[int, int, float] | None:
    if one.exchange is None or one.exchange.status != 200:
        return None
    return one.exchange.usage.total, one.exchange.read, round(one.exchange.cost, 1)


def total(sessions: Sequence[Sequence[Line]]) -> list[Line]:
    """All sessions together, path by path."""
    lines = [line for session in sessions for line in session]
    order = list(dict.fromkeys(line.path for line in lines))
    lines.sort(key=lambda line: order.index(line.path))
    return [_sum(path, list(group)) for path, group in groupby(lines, key=lambda line: line.path)]


def _sum(path: str, lines: Sequence[Line]) -> Line:
    prompt = _counted(line.prompt for line in lines)
    read = sum((line.prompt or 0) * (line.cached or 0.0) for line in lines)
    return Line(
        path=path,
        requests=sum(line.requests for line in lines),
        refused=_counted(line.refused for line in lines),
        prompt=prompt,
        cached=round(read / prompt, 4) if prompt else None,
        cost=round(sum(line.cost for line in lines), 1),
        dollars=rounded(added(line.dollars for line in lines), 6),
        breaks=_counted(line.breaks for line in lines),
        batches=_counted(line.batches for line in lines),
        batches_cost=rounded(added(line.batches_cost for line in lines), 1),
        left_out=_counted(line.left_out for line in lines),
        faults=_counted(line.faults for line in lines),
    )


def added(numbers: Iterable[float | None]) -> float | None:
    """The sum; None where one is not known, or there is none."""
    known = list(numbers)
    return None if not known or None in known else sum(number for number in known if number is not None)


def _counted(numbers: Iterable[int | None]) -> int | None:
    found = added(numbers)
    return None if found is None else int(found)


def rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)
