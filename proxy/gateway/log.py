"""One line for each request, and a few for the server's own life; JSON for machines, columns for people.

The visible list of processors is the whole pipeline. A line is made from a Turn, which holds no header value, no
query and no piece of a body, so none of them can reach the log.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TextIO, TypeAlias

import msgspec
import structlog

from ..turns import Turn
from .fault import trace
from .settings import LogFormat

Fields: TypeAlias = dict[str, Any]
Logger: TypeAlias = structlog.typing.FilteringBoundLogger

_RED, _YELLOW, _GREEN, _DIM, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[0m"
_COLOURS = {
    "ok": _GREEN,
    "passed": _DIM,
    "cancelled": _YELLOW,
    "refused": _YELLOW,
    "rejected": _YELLOW,
    "truncated": _RED,
    "error": _RED,
    "unreachable": _RED,
}


def make_logger(form: LogFormat, stream: TextIO | None = None) -> Logger:
    """Return a logger that writes to `stream`, standard error by default. Colours only on a terminal."""
    out = stream or sys.stderr
    render = _json if form == "json" else _console(colour=out.isatty())
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
        "output": usage.output if usage else None,
        "prompt": usage.prompt if usage else None,
        "hit_ratio": _rounded(turn.hit_ratio),
        "expected_ratio": _rounded(turn.expected_ratio),
        "miss": turn.miss.reason if turn.miss else None,
        "miss_detail": (turn.miss.detail or None) if turn.miss else None,
        "stop": turn.stop_reason,
        "edits": (report.edits or None) if report else None,
        "reclaimed_tokens": turn.reclaimed_tokens or None,
        "held": (report.held or None) if report else None,
        "structure": ({k: round(v, 3) for k, v in report.structure.items()} or None) if report else None,
        "tool_result_mean_chars": _rounded(report.tool_result_mean_chars, 0) if report else None,
        "retried": turn.retried or None,
        "fallback": turn.fallback or None,
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


def _console(*, colour: bool) -> Callable[[object, str, MutableMapping[str, Any]], str]:
    def render(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
        clock = time.strftime("%H:%M:%S")
        if event.get("event") == "turn":
            outcome = str(event.get("outcome", ""))
            line = f"{clock} {_turn_columns(event)}"
            tint = _COLOURS.get(outcome, "")
            return f"{tint}{line}{_PLAIN}" if colour and tint else line
        shown = {k: v for k, v in event.items() if k not in {"time", "event", "level"}}
        rest = " ".join(f"{name}={value}" for name, value in shown.items())
        return f"{clock} {event.get('level', '')} {event.get('event', '')} {rest}".rstrip()

    return render


def _turn_columns(event: Mapping[str, Any]) -> str:
    columns = [
        f"{event.get('outcome', ''):<11}",
        f"{event.get('status', '-')!s:<3}",
        f"{event.get('upstream', '-'):<9}",
        f"{event.get('model', event.get('path', '')):<24}",
        f"{event.get('duration_ms', 0) / 1000:>7.2f}s",
        f"ttfb {event['ttfb_ms'] / 1000:.2f}s" if "ttfb_ms" in event else "",
        f"+{event.get('added_ms', 0):.1f}ms",
        _token_column(event),
    ]
    named = ("turn", "agent", "error", "refusal", "miss", "edits", "reclaimed_tokens", "held", "failed_open")
    columns += [f"{name} {_short(event[name])}" for name in named if name in event]
    if event.get("expected_ratio") is not None:
        columns.append(f"expected {event['expected_ratio']:.0%}")
    columns += [name for name in ("retried", "fallback") if event.get(name)]
    return "  ".join(column for column in columns if column)


def _token_column(event: Mapping[str, Any]) -> str:
    known = [
        f"{label} {_thousands(event[name])}"
        for label, name in (("in", "prompt"), ("cached", "cached"), ("written", "written"), ("out", "output"))
        if name in event
    ]
    if "hit_ratio" in event:
        known.append(f"hit {event['hit_ratio']:.0%}")
    return " ".join(known)


def _thousands(number: int) -> str:
    return f"{number / 1000:.1f}k" if number >= 10_000 else str(number)


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{number}" for name, number in value.items())
    return str(value)
