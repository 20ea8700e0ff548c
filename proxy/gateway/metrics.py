"""Metrics, as one table and one function from a Turn to the counters.

A registry of our own: nothing of the process or of other libraries is exported. Label values are bounded: upstream
names come from settings, classes, stages and reasons from tables, statuses from HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Literal, TypeAlias

from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from ..turns import Turn

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

# When a counter began would be one more series for each, and nobody asks for it.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library's own omission

_SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
_ERRORS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_ADDED = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_WAITS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)
_CHARS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


class Metric(Struct, frozen=True):
    """One metric as it is exported."""

    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


METRICS: Mapping[str, Metric] = {
    "stet_requests_total": Metric(
        "counter", "Requests by the status the client got (0: none).", ("upstream", "dialect", "status")
    ),
    "stet_refusals_total": Metric(
        "counter", "Refusals by the provider: a structural class, or the status.", ("upstream", "class")
    ),
    "stet_tokens_total": Metric(
        "counter",
        "Tokens by kind: input (uncached), cached, written, output; unsplit: prompts whose cached part is unknown.",
        ("kind", "upstream"),
    ),
    "stet_warm_total": Metric(
        "counter",
        "Requests of our own that keep a cache alive, by how they ended; they are in no other metric.",
        ("upstream", "outcome"),
    ),
    "stet_warm_tokens_total": Metric("counter", "Tokens of these, by kind as above.", ("kind", "upstream")),
    "stet_summaries_total": Metric(
        "counter",
        "Questions of our own for a summary, by how they ended; they are in no other metric.",
        ("upstream", "outcome"),
    ),
    "stet_summary_tokens_total": Metric(
        "counter", "Tokens of these, by kind as above.", ("kind", "upstream")
    ),
    "stet_summary_seconds": Metric(
        "histogram", "Seconds that a client waited for one.", ("upstream",), _WAITS
    ),
    "stet_hit_ratio": Metric("histogram", "Share of the prompt read from the cache.", ("upstream",), _SHARES),
    "stet_count_error": Metric(
        "histogram", "Our count of a prompt against the provider's: error as a share.", ("upstream",), _ERRORS
    ),
    "stet_edits_total": Metric(
        "counter", "Edits by stage: made (mode apply), or only thought of (observe).", ("stage", "mode")
    ),
    "stet_reclaimed_tokens_total": Metric(
        "counter",
        "Tokens taken out of requests (apply), or that would have been (observe).",
        ("stage", "mode"),
    ),
    "stet_held_total": Metric("counter", "Edits that did not pay yet, by stage.", ("stage", "mode")),
    "stet_regrets_total": Metric(
        "counter", "Tool results that were fetched again after they had been taken out.", ()
    ),
    "stet_breaks_total": Metric("counter", "Cached prefixes that were missed, by reason.", ("reason",)),
    "stet_added_seconds": Metric(
        "histogram", "Our own work before a request went out.", ("dialect",), _ADDED
    ),
    "stet_ttfb_seconds": Metric(
        "histogram", "From arrival to the answer's first byte.", ("upstream",), _WAITS
    ),
    "stet_tool_result_length": Metric(
        "histogram", "Mean length of the tool results of a request, in characters.", (), _CHARS
    ),
    "stet_upstream_errors_total": Metric("counter", "Requests without an answer.", ("upstream", "reason")),
    "stet_fail_open_total": Metric("counter", "Faults of ours that a request went past.", ("where",)),
    "stet_in_flight": Metric("gauge", "Requests being served."),
    "stet_build_info": Metric("gauge", "Always 1; the version is the label.", ("version",)),
}
"""Every metric we export, by its exported name."""


class Metrics:
    """The counters of one gateway."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._made = {name: _make(name, metric, self._registry) for name, metric in METRICS.items()}
        self._gauge("stet_build_info", version("stet-proxy")).set(1)

    def observe(self, turn: Turn) -> None:
        """Count one finished request."""
        upstream = turn.upstream or "none"
        if turn.warm:
            self._add("stet_warm_total", 1, upstream, turn.outcome)
            self._tokens(turn, upstream, "stet_warm_tokens_total")
            return
        if turn.asked is not None:
            self._add("stet_summaries_total", 1, upstream, turn.outcome)
            self._observe("stet_summary_seconds", turn.duration_s, upstream)
            self._tokens(turn, upstream, "stet_summary_tokens_total")
            return
        dialect = turn.dialect or "none"
        self._add("stet_requests_total", 1, upstream, dialect, str(turn.status or 0))
        if turn.refusal is not None:
            self._add("stet_refusals_total", 1, upstream, turn.refusal)
        elif turn.outcome == "refused":
            self._add("stet_refusals_total", 1, upstream, str(turn.status))
        if turn.outcome == "unreachable":
            self._add("stet_upstream_errors_total", 1, upstream, turn.error_type or "other")
        if turn.miss is not None:
            self._add("stet_breaks_total", 1, turn.miss.reason)
        if turn.dialect is not None and turn.outcome != "rejected":
            self._observe("stet_added_seconds", turn.added_s, dialect)
        if turn.ttfb_s is not None and turn.dialect is not None:
            self._observe("stet_ttfb_seconds", turn.ttfb_s, upstream)
        self._tokens(turn, upstream)
        self._work(turn)

    def failed_open(self, where: str) -> None:
        """Count a fault that a request went past."""
        self._add("stet_fail_open_total", 1, where)

    def in_flight(self, change: int) -> None:
        """A request came (1) or went (-1)."""
        self._gauge("stet_in_flight").inc(change)

    def exposition(self) -> bytes:
        """Return all of it in the text format of Prometheus."""
        return generate_latest(self._registry)

    def _tokens(self, turn: Turn, upstream: str, name: str = "stet_tokens_total") -> None:
        if (usage := turn.usage) is None:
            return
        counts = {
            "input": usage.uncached,
            "cached": usage.cached,
            "written": usage.written,
            "output": usage.output,
            "unsplit": usage.prompt if usage.cached is None and usage.uncached is None else None,
        }
        for kind, tokens in counts.items():
            if tokens is not None:
                self._add(name, tokens, kind, upstream)
        if usage.hit_ratio is not None and not turn.warm and turn.asked is None:
            self._observe("stet_hit_ratio", usage.hit_ratio, upstream)
        if turn.count_error is not None:
            self._observe("stet_count_error", abs(turn.count_error), upstream)

    def _work(self, turn: Turn) -> None:
        if (report := turn.report) is None:
            return
        for name, counts in (
            ("stet_edits_total", report.edits),
            ("stet_reclaimed_tokens_total", report.reclaimed),
            ("stet_held_total", report.held),
        ):
            for stage, number in counts.items():
                self._add(name, max(0, number), stage, "observe" if report.observed else "apply")
        if report.regrets:
            self._add("stet_regrets_total", sum(report.regrets.values()))
        if report.tool_result_mean_chars is not None:
            self._observe("stet_tool_result_length", report.tool_result_mean_chars)

    def _add(self, name: str, amount: float, *labels: str) -> None:
        made = self._made[name]
        assert isinstance(made, Counter)
        (made.labels(*labels) if labels else made).inc(amount)

    def _observe(self, name: str, value: float, *labels: str) -> None:
        made = self._made[name]
        assert isinstance(made, Histogram)
        (made.labels(*labels) if labels else made).observe(value)

    def _gauge(self, name: str, *labels: str) -> Gauge:
        made = self._made[name]
        assert isinstance(made, Gauge)
        return made.labels(*labels) if labels else made


def _make(name: str, metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    match metric.kind:
        case "counter":
            return Counter(name, metric.help, metric.labels, registry=registry)
        case "gauge":
            return Gauge(name, metric.help, metric.labels, registry=registry)
        case "histogram":
            return Histogram(name, metric.help, metric.labels, registry=registry, buckets=metric.buckets)
