"""The Turn record: one request from arrival to end, and everything we say about it afterwards.

The log line, the metrics, the admin pages and what `stet demo` says are views of this record; nothing else is kept of
a request. It holds counts, names and ids, never a header's value, a query or a piece of a body.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from .usage import Usage

OutcomeName: TypeAlias = Literal[
    "ok", "refused", "error", "truncated", "cancelled", "unreachable", "rejected", "passed"
]
"""How a request ended.

ok           answered in full
refused      the provider answered with a status of 400 or more
error        an error in the middle of a stream that had begun with 200 [C4]
truncated    the answer ended before its end, cleanly or not
cancelled    the client left first
unreachable  the provider gave no answer
rejected     answered by us: too large, not allowed, an upgrade
passed       a path that carries no turn (models, files...) went through
"""

MissReason: TypeAlias = Literal[
    "ours", "client", "expired", "small", "lookback", "model", "upstream", "unknown"
]
"""Why less of the prompt came from the cache than expected: our committed edit, a change by the client, the lifetime
passed, below the minimum, beyond the lookback, another model, another upstream, or none of these."""

HEARD = "heard"
"""What came of a question that was answered."""

NOISE_TOKENS = 256
"""A difference of fewer tokens than this says nothing: providers round, and our estimate is one."""


class Miss(Struct, frozen=True):
    """A missed cache: the reason, and in words which part or how long (no content)."""

    reason: MissReason
    detail: str = ""


class TurnReport(Struct, frozen=True, kw_only=True):
    """What the rewrite knows about a turn before it is sent.

    `counted`: tokens of the prompt as the provider should count them. `edits`, `reclaimed` (tokens) and `held` (refused
    edits) count by stage, `regrets` by tool: results that the agent fetched again after they had been taken out.
    `structure` is the share of each source in the prompt's bytes. `expected_cached` is the number of tokens that should come from the cache. `unread`: why the
    body went out as it came although the policy would have looked at it. `observed`: nothing of it was done, it is
    what would have been; `would_read` then is the share of the prompt that would have come from the cache, by
    estimate, had all turns been rewritten. `summary`: who wrote the summary that stands in the prompt from this turn on
    under a policy that asks: the `model`, or `history: ` and why.
    """

    conversation: str | None = None
    number: int | None = None
    agent: str | None = None
    model: str | None = None
    edits: dict[str, int] = {}
    reclaimed: dict[str, int] = {}
    held: dict[str, int] = {}
    regrets: dict[str, int] = {}
    structure: dict[str, float] = {}
    tool_result_mean_chars: float | None = None
    counted: int | None = None
    expected_cached: int | None = None
    unread: str | None = None
    observed: bool = False
    would_read: float | None = None
    summary: str | None = None


class Turn(Struct, frozen=True, kw_only=True):
    """One request. Times ending in `_s` are seconds; `started_at` is wall-clock seconds since the epoch.

    added_s     our own work before the request went out: opening the body, the rewrite
    ttfb_s      from the request's arrival to the answer's first byte handed to the client
    duration_s  from the request's arrival to its end
    failed_open  which work of ours failed and was gone past, `fault` the kind of the fault and the place in our code
    withheld     why the provider did not show the model reasoning that was sent, in its words [A45 A206]
    usage_asked  a stream was asked for its usage on the client's behalf
    warm         sent by us while the client was away, to keep its cache alive: no request of an agent's
    asked        a question of our own before an agent's request could go out: what came of it, `heard` or why nothing did
    would_repair  the provider refused the structure of what was only observed, and an edit would have mended it
    """

    id: str
    started_at: float
    method: str
    path: str
    upstream: str | None = None
    dialect: str | None = None
    status: int | None = None
    outcome: OutcomeName = "ok"
    error_type: str | None = None
    refusal: str | None = None
    retried: bool = False
    fallback: bool = False
    usage_asked: bool = False
    would_repair: bool = False
    failed_open: str | None = None
    fault: str | None = None
    added_s: float = 0.0
    ttfb_s: float | None = None
    duration_s: float = 0.0
    request_bytes: int | None = None
    response_bytes: int = 0
    model: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    usage_fault: str | None = None
    report: TurnReport | None = None
    miss: Miss | None = None
    withheld: tuple[str, ...] = ()
    warm: bool = False
    asked: str | None = None

    @property
    def hit_ratio(self) -> float | None:
        """The share of the prompt read from the cache."""
        return None if self.usage is None else self.usage.hit_ratio

    @property
    def expected_ratio(self) -> float | None:
        """The share of the prompt that should have been read from the cache."""
        if self.report is None or self.report.expected_cached is None:
            return None
        if self.usage is None or not self.usage.prompt:
            return None
        return min(1.0, self.report.expected_cached / self.usage.prompt)

    @property
    def count_error(self) -> float | None:
        """By how much our count of the prompt is above the provider's (below 0: under it), as a share of that."""
        if self.report is None or self.report.counted is None or self.fallback:
            return None
        if self.usage is None or not self.usage.prompt:
            return None
        return self.report.counted / self.usage.prompt - 1

    @property
    def observed(self) -> bool:
        """Whether the request went out as it came and its report says what would have been done."""
        return self.report is not None and self.report.observed

    @property
    def would_save_tokens(self) -> int | None:
        """Tokens that would have come from the cache, had what was observed been done, and did not.

        Less than 0 where more came from the cache as it is. None where nothing is known, or it is noise.
        """
        if self.report is None or self.report.would_read is None:
            return None
        if self.usage is None or not self.usage.prompt or self.usage.cached is None:
            return None
        saved = round(self.report.would_read * self.usage.prompt) - self.usage.cached
        return saved if abs(saved) >= NOISE_TOKENS else None

    @property
    def reclaimed_tokens(self) -> int:
        """Tokens that the rewrite took out of this request, or would have."""
        return 0 if self.report is None else sum(self.report.reclaimed.values())
