"""What a session cost, from the provider's own usage; and what the proxy says it did, from its turn records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, TypeAlias

from msgspec import Struct

from ..policy import STAGES
from ..simulator import Exchange
from ..turns import Turn
from .wire import Answered

Path: TypeAlias = Literal["direct", "stet"]

LIFETIME = 300.0
"""Seconds a cache entry lives [B10]: all marks in this demo ask for the short lifetime."""

_SIGNED = frozenset(["signature", "encrypted_content", "thoughtSignature"])

SLACK = 32
"""Tokens that may be missing from a read before it counts as a break: Gemini rounds its reads down to so many."""


class Played(Struct, frozen=True):
    """A session that was played: what the client saw and what the provider noted.

    `thinking`: how many thinking blocks came back to the provider in the last request.
    """

    answers: tuple[Answered, ...]
    exchanges: tuple[Exchange, ...]
    thinking: int


class Figures(Struct, frozen=True, kw_only=True):
    """One line of the table.

    turns          requests the client sent; `refused` of them were answered with an error
    stuck_at       the turn from which on all were refused; None where the client got to its end
    prompt_tokens  of all prompts together, `cached_share` of them read from the cache (0 to 1)
    cost           of all prompts, in units of one base input token [B14]; answers are not in it
    breaks         requests that read less than the provider held for them
    added_ms       the median, over turns answered on both paths, of what the client waited longer for the first byte
    """

    name: str
    path: Path
    turns: int
    refused: int
    stuck_at: int | None
    prompt_tokens: int
    cached_share: float
    cost: float
    breaks: int
    added_ms: float


class Edited(Struct, frozen=True, kw_only=True):
    """What the proxy did in one session.

    stages          turns in which a stage had an edit in force
    left_out        tokens taken out of prompts, over all turns
    batches         turns in which old results were cleared anew
    held            turns in which clearing was put off, as it did not pay yet
    thinking        thinking blocks in the last request, of `thinking_given` that the model had made before it
    failed_open     turns sent as they came, for a fault of the proxy's; `faults` says which, each once
    """

    name: str
    stages: dict[str, int]
    left_out: int
    batches: int
    held: int
    thinking: int
    thinking_given: int
    failed_open: int
    faults: list[str]


def figures(name: str, path: Path, played: Played, direct: Played, *, keeps_all: bool = False) -> Figures:
    """The line of a session; `direct` is the same session without the proxy.

    `keeps_all`: the provider keeps whole prompts and does not report what it writes.
    """
    taken = [one for one in played.exchanges if one.status == 200]
    prompt = sum(one.usage.total for one in taken)
    answered = [at for at, answer in enumerate(played.answers, 1) if answer.content is not None]
    last = answered[-1] if answered else 0
    return Figures(
        name=name,
        path=path,
        turns=len(played.answers),
        refused=sum(answer.content is None for answer in played.answers),
        stuck_at=last + 1 if last < len(played.answers) else None,
        prompt_tokens=prompt,
        cached_share=round(sum(one.read for one in taken) / prompt, 4) if prompt else 0.0,
        cost=round(sum(one.cost for one in taken), 1),
        breaks=sum(_broke(before, after, keeps_all=keeps_all) for before, after in pairwise(taken)),
        added_ms=_added(played, direct),
    )


def _broke(before: Exchange, after: Exchange, *, keeps_all: bool) -> bool:
    if after.started - before.started >= LIFETIME:
        return False
    held = before.total if keeps_all else before.read + before.written
    return after.read < held - SLACK


def _added(played: Played, direct: Played) -> float:
    """Milliseconds. Turn by turn, for both grow with the prompt."""
    longer = [
        there.ttfb_s - here.ttfb_s
        for there, here in zip(played.answers, direct.answers, strict=False)
        if there.content is not None and here.content is not None
    ]
    return round(max(0.0, median(longer)) * 1000, 2) if longer else 0.0


def edited(name: str, played: Played, turns: Sequence[Turn]) -> Edited:
    """What the records of a session say."""
    reports = [turn.report for turn in turns if turn.report is not None]
    counted = Counter(stage for report in reports for stage in report.edits)
    stages = {stage: counted[stage] for stage in STAGES if counted[stage]}
    cleared = [0, *(report.edits.get("stale", 0) for report in reports)]
    faults = [fault for turn in turns if (fault := _fault(turn)) is not None]
    return Edited(
        name=name,
        stages=stages,
        left_out=sum(turn.reclaimed_tokens for turn in turns),
        batches=sum(after > before for before, after in pairwise(cleared)),
        held=sum(bool(report.held) for report in reports),
        thinking=played.thinking,
        thinking_given=sum(map(_signed, played.answers[:-1])),
        failed_open=len(faults),
        faults=list(dict.fromkeys(faults)),
    )


def _signed(answer: Answered) -> int:
    """How many blocks of reasoning an answer has, or signatures where they stand on other parts."""
    return sum(not _SIGNED.isdisjoint(block) for block in answer.content or ())


def _fault(turn: Turn) -> str | None:
    """Why the proxy stood aside in a turn, without a word of what was said in it; None where it did not."""
    if turn.failed_open is not None:
        return f"{turn.failed_open}: {turn.fault or 'unknown'}"
    if turn.fallback:
        return f"what was sent was refused ({turn.refusal}), the client's own body was taken"
    return turn.report.unread if turn.report is not None else None
