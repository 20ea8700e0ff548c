"""One line for each request, and a few for the server's own life; JSON for machines, columns for people.

The visible list of processors is the whole pipeline. A line is made from a Turn, which holds no header value, no
query and no piece of a body, so none of them can reach the log.
"""

from __future__ import annotations

import sys
import time
from collections.abc import MutableMapping
from typing import Any, TextIO, TypeAlias

import msgspec
import structlog

from ..turns import Turn
from .console import console
from .fault import trace
from .settings import LogFormat

Fields: TypeAlias = dict[str, Any]
Logger: TypeAlias = structlog.typing.FilteringBoundLogger


def make_logger(form: LogFormat, stream: TextIO | None = None) -> Logger:
    """Return a logger that writes to `stream`, standard error by default. Colours only on a terminal that has them."""
    out = stream or sys.stderr
    render = _json if form == "json" else console(out)
    logger: Logger = structlog.wrap_logger(
        structlog.PrintLogger(out),
        processors=[structlog.processors.add_log_level, _timestamp, render],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )
    return logger


def turn_fields(turn: Turn) -> Fields:
    """Return what the line of a turn says, in reading order; what is not known is left out."""
    usage, report = turn.usage, turn.report
    fields: Fields = {
        "id": turn.id,
        "outcome": turn.outcome,
        "status": turn.status,
        "error": turn.error_type,
        "refusal": turn.refusal,
        "upstream": turn.upstream,
        "dialect": turn.dialect,
        "method": turn.method,
        "path": turn.path,
        "conversation": report.conversation if report else None,
        "turn": report.number if report else None,
        "agent": report.agent if report else None,
        "model": turn.model,
        "added_ms": round(turn.added_s * 1000, 2),
        "ttfb_ms": None if turn.ttfb_s is None else round(turn.ttfb_s * 1000),
        "duration_ms": round(turn.duration_s * 1000),
        "request_bytes": turn.request_bytes,
        "response_bytes": turn.response_bytes,
        "input": usage.uncached if usage else None,
        "cached": usage.cached if usage else None,
        "written": usage.written if usage else None,
        "written_1h": (usage.written_1h or None) if usage else None,
        "output": usage.output if usage else None,
        "prompt": usage.prompt if usage else None,
        "counted": report.counted if report else None,
        "count_error": _rounded(turn.count_error),
        "hit_ratio": _rounded(turn.hit_ratio),
        "expected_ratio": _rounded(turn.expected_ratio),
        "miss": turn.miss.reason if turn.miss else None,
        "miss_detail": (turn.miss.detail or None) if turn.miss else None,
        "withheld": ", ".join(turn.withheld) or None,
        "stop": turn.stop_reason,
        "edits": (report.edits or None) if report else None,
        "reclaimed_tokens": turn.reclaimed_tokens or None,
        "observed": turn.observed or None,
        "would_save_tokens": turn.would_save_tokens,
        "would_repair": turn.would_repair or None,
        "held": (report.held or None) if report else None,
        "regrets": (report.regrets or None) if report else None,
        "structure": ({k: round(v, 3) for k, v in report.structure.items()} or None) if report else None,
        "tool_result_mean_chars": _rounded(report.tool_result_mean_chars, 0) if report else None,
        "retried": turn.retried or None,
        "fallback": turn.fallback or None,
        "warm": turn.warm or None,
        "asked": turn.asked,
        "summary": report.summary if report else None,
        "usage_asked": turn.usage_asked or None,
        "failed_open": turn.failed_open,
        "fault": turn.fault,
        "unread": report.unread if report else None,
        "usage_fault": turn.usage_fault,
    }
    return {name: value for name, value in fields.items() if value is not None}


def fault_fields(fault: BaseException) -> Fields:
    """Return a fault's type and where it arose.

    Not its message: an exception from the depths of a parser may quote the body.
    """
    return {"fault": type(fault).__name__, "at": trace(fault)}


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)


def _timestamp(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    now = time.time()
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    return {"time": f"{whole}.{int(now % 1 * 1000):03d}Z", **event}


def _json(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    return msgspec.json.encode(dict(event), enc_hook=str).decode()
