"""What the proxy did in a run, added up from the lines of its log; the same lines `/turns` gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct, field

from ..models import ModelFacts
from ..turns import HEARD
from ..usage import Usage
from .cost import Cost, cost

REQUIRED = frozenset({"encoding", "normalize", "balance", "reasoning", "alternate"})
"""Stages that repair: without them a provider may refuse the request."""


class Line(Struct, frozen=True, kw_only=True):
    """A line of the log, as far as it is added up; see `gateway.log.turn_fields`."""

    event: str = "turn"
    started_at: float = 0.0
    outcome: str = ""
    status: int | None = None
    upstream: str | None = None
    dialect: str | None = None
    model: str | None = None
    input: int | None = None
    cached: int | None = None
    written: int | None = None
    written_1h: int | None = None
    output: int | None = None
    prompt: int | None = None
    miss: str | None = None
    edits: dict[str, int] = {}
    reclaimed_tokens: int = 0
    observed: bool = False
    would_save_tokens: int = 0
    would_repair: bool = False
    fallback: bool = False
    failed_open: str | None = None
    warm: bool = False
    asked: str | None = None

    @property
    def usage(self) -> Usage | None:
        """What the provider counted."""
        if self.prompt is None:
            return None
        return Usage(self.prompt, self.input, self.cached, self.written, self.written_1h, self.output)


_line = msgspec.json.Decoder(Line)

Facts = Callable[[str, str], ModelFacts]
"""What is known of a model behind an upstream, by their names."""


class Tally(Struct, kw_only=True):
    """A run, added up. Tokens are the provider's counts."""

    turns: int = 0
    answered: int = 0
    prompt: int = 0
    judged: int = 0
    """Tokens of prompts whose cached share the provider told."""
    cached: int = 0
    output: int = 0
    cost: Cost = Cost()
    endings: Counter[str] = field(default_factory=Counter)
    misses: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    """Turns with a repair in force, by stage."""
    repaired_turns: int = 0
    reclaimed: int = 0
    reclaimed_turns: int = 0
    observed: int = 0
    would_save: int = 0
    would_repair: int = 0
    failed_open: int = 0
    fallbacks: int = 0
    warm: int = 0
    """Requests of the proxy's own, to keep a cache alive; what they cost is in `cost` and in `warm_cost`."""
    warm_cost: Cost = Cost()
    summaries: int = 0
    """Questions of the proxy's own for a summary; what they cost is in `cost` and in `summary_cost`."""
    unheard: int = 0
    """Those of them that no summary came of."""
    summary_cost: Cost = Cost()
    other: int = 0
    """Requests that carried no conversation."""
    models: Counter[str] = field(default_factory=Counter)

    def read(self, text: str | bytes, facts: Facts) -> None:
        """Add a line of the log; other lines than those of turns say nothing here."""
        try:
            line = _line.decode(text)
        except msgspec.DecodeError:
            return
        if line.event == "turn" and line.outcome:
            self.add(line, facts)

    def add(self, line: Line, facts: Facts) -> None:
        """Add a request."""
        if line.dialect is None:
            self.other += 1
            return
        if line.warm:
            self._warmed(line, facts)
            return
        if line.asked is not None:
            self._asked(line, facts)
            return
        self.turns += 1
        self.endings[line.outcome] += 1
        self.answered += line.outcome == "ok"
        self.models[line.model or ""] += 1
        self._spent(line, facts)
        self._done(line)

    def _spent(self, line: Line, facts: Facts) -> None:
        usage = line.usage
        if usage is None or usage.prompt is None:
            return
        self.prompt += usage.prompt
        self.output += usage.output or 0
        if usage.cached is not None:
            self.judged += usage.prompt
            self.cached += usage.cached
        self.cost += cost(usage, facts(line.upstream or "", line.model or ""))

    def _warmed(self, line: Line, facts: Facts) -> None:
        self.warm += 1
        if line.usage is not None:
            spent = cost(line.usage, facts(line.upstream or "", line.model or ""))
            self.warm_cost += spent
            self.cost += spent

    def _asked(self, line: Line, facts: Facts) -> None:
        self.summaries += 1
        self.unheard += line.asked != HEARD
        if line.usage is not None:
            spent = cost(line.usage, facts(line.upstream or "", line.model or ""))
            self.summary_cost += spent
            self.cost += spent

    def _done(self, line: Line) -> None:
        if line.miss is not None:
            self.misses[line.miss] += 1
        self.failed_open += line.failed_open is not None
        self.fallbacks += line.fallback
        self.would_repair += line.would_repair
        self.would_save += line.would_save_tokens
        self.observed += line.observed
        if line.observed:
            return
        repairs = REQUIRED & line.edits.keys()
        self.repaired_turns += bool(repairs)
        self.repaired.update(repairs)
        self.reclaimed += max(0, line.reclaimed_tokens)
        self.reclaimed_turns += line.reclaimed_tokens > 0


def lines_of(page: bytes) -> list[Line]:
    """The lines of the admin page `/turns`, oldest first. Raises ValueError where it is none."""
    try:
        found = msgspec.json.decode(page, type=dict[str, list[Line]])
    except msgspec.DecodeError as fault:
        raise ValueError("not a list of turns") from fault
    return found.get("turns", [])[::-1]


def known(profiles: Mapping[str, str], facts: Facts) -> Facts:
    """Facts by the names of upstreams, for which `facts` asks profiles."""
    return lambda upstream, model: facts(profiles.get(upstream, "unknown"), model)
