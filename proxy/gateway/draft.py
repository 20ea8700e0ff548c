"""A turn in the making: what is known so far of one request, until it is closed into a Turn."""

from __future__ import annotations

import itertools
import secrets
import time

from ..answer import Answer
from ..turns import Miss, OutcomeName, Turn, TurnReport
from .exchange import Outcome
from .fault import named
from .routes import Route

_RUN = secrets.token_hex(4)
_numbers = itertools.count(1)


class Draft:
    """Filled in along the way, by the one task that serves the request."""

    def __init__(self, method: str, path: str, started_at: float) -> None:
        """`started_at` is wall-clock seconds since the epoch."""
        self.started_at = started_at
        self._started = time.perf_counter()
        self.method = method
        self.path = path
        self.route: Route | None = None
        self.status: int | None = None
        self.error_type: str | None = None
        self.refusal: str | None = None
        self.retried = False
        self.fallback = False
        self.usage_asked = False
        self.would_repair = False
        self.warm = False
        self.asked: str | None = None
        self.failed_open: str | None = None
        self.fault: str | None = None
        self.added_s = 0.0
        self.ttfb_s: float | None = None
        self.request_bytes: int | None = None
        self.response_bytes = 0
        self.streamed = False
        self.begun = False
        self.answer = Answer()
        self.usage_fault: str | None = None
        self.report: TurnReport | None = None
        self.miss: Miss | None = None
        self._ended: OutcomeName | None = None

    def elapsed(self) -> float:
        """Seconds since the request arrived."""
        return time.perf_counter() - self._started

    def end(self, outcome: OutcomeName) -> None:
        """Say how it ended, where the answer itself does not; the first word counts."""
        self._ended = self._ended or outcome

    def fail_open(self, where: str, fault: BaseException) -> None:
        """Note a fault of ours that the request goes past; the first one stays."""
        if self.failed_open is None:
            self.failed_open, self.fault = where, named(fault)

    def first_byte(self) -> None:
        """Note the first byte of the answer."""
        if self.ttfb_s is None:
            self.ttfb_s = self.elapsed()

    @property
    def outcome(self) -> OutcomeName:
        """How it ended, as far as is known now."""
        if self._ended is not None:
            return self._ended
        if self.status is not None and self.status >= 400:
            return "refused"
        if self.route is None or self.route.dialect is None:
            return "passed"
        if self.answer.error_type is not None:
            return "error"
        if self.streamed and self.usage_fault is None and not self.answer.complete:
            return "truncated"
        return "ok"

    def settled(self) -> Outcome:
        """What the rewriter learns."""
        return Outcome(
            name=self.outcome,
            status=self.status,
            error_type=self.error_type or self.answer.error_type,
            answer=self.answer,
            retried_with_fallback=self.fallback,
        )

    def turn(self) -> Turn:
        """The record, once all is over."""
        upstream = self.route.upstream.name if self.route else None
        model = self.report.model if self.report else None
        return Turn(
            id=f"{_RUN}{next(_numbers):08x}",
            started_at=self.started_at,
            method=self.method,
            path=self.path,
            upstream=upstream,
            dialect=self.route.dialect if self.route else None,
            status=self.status,
            outcome=self.outcome,
            error_type=self.error_type or self.answer.error_type,
            refusal=self.refusal,
            retried=self.retried,
            fallback=self.fallback,
            usage_asked=self.usage_asked,
            would_repair=self.would_repair,
            failed_open=self.failed_open,
            fault=self.fault,
            added_s=self.added_s,
            ttfb_s=self.ttfb_s,
            duration_s=self.elapsed(),
            request_bytes=self.request_bytes,
            response_bytes=self.response_bytes,
            model=model or self.answer.model,
            stop_reason=self.answer.stop_reason,
            usage=self.answer.usage,
            usage_fault=self.usage_fault,
            report=self.report,
            miss=self.miss,
            warm=self.warm,
            asked=self.asked,
            withheld=self.answer.diagnosis.removed if self.answer.diagnosis else (),
        )
