"""One line a turn, for people and for machines, from the same record."""

import io
import json
import re

from proxy.answer import Answer
from proxy.gateway.log import fault_fields, make_logger, turn_fields
from proxy.turns import Miss, Turn, TurnReport
from proxy.usage import Usage

TURN = Turn(
    id="t1",
    started_at=1.0,
    method="POST",
    path="/v1/messages",
    upstream="anthropic",
    dialect="anthropic",
    status=200,
    added_s=0.00321,
    ttfb_s=0.4123,
    duration_s=1.83,
    request_bytes=51_800,
    response_bytes=900,
    model="claude-opus-5-5",
    stop_reason="tool_use",
    usage=Usage(prompt=41_200, uncached=200, cached=40_000, written=1_000, output=312),
    report=TurnReport(
        conversation="c1",
        number=7,
        agent="claude-code",
        edits={"relocate": 1, "stale": 4},
        reclaimed={"stale": 9000},
        held={"compact": 1},
        structure={"tool result": 0.71234},
        tool_result_mean_chars=1234.56,
        expected_cached=40_900,
    ),
    miss=Miss("expired", "7 minutes"),
)


def test_the_fields_of_a_turn():
    """Everything a reader asks for, in reading order."""
    fields = turn_fields(TURN)
    assert fields == {
        "id": "t1",
        "outcome": "ok",
        "status": 200,
        "upstream": "anthropic",
        "dialect": "anthropic",
        "method": "POST",
        "path": "/v1/messages",
        "conversation": "c1",
        "turn": 7,
        "agent": "claude-code",
        "model": "claude-opus-5-5",
        "added_ms": 3.21,
        "ttfb_ms": 412,
        "duration_ms": 1830,
        "request_bytes": 51_800,
        "response_bytes": 900,
        "input": 200,
        "cached": 40_000,
        "written": 1_000,
        "output": 312,
        "prompt": 41_200,
        "hit_ratio": 0.9709,
        "expected_ratio": 0.9927,
        "miss": "expired",
        "miss_detail": "7 minutes",
        "stop": "tool_use",
        "edits": {"relocate": 1, "stale": 4},
        "reclaimed_tokens": 9000,
        "held": {"compact": 1},
        "structure": {"tool result": 0.712},
        "tool_result_mean_chars": 1235.0,
    }


def test_what_is_unknown_is_left_out():
    """An unreported figure is absent, a reported zero is zero."""
    bare = Turn(id="t", started_at=1.0, method="GET", path="/x", usage=Usage(prompt=10, cached=0))
    fields = turn_fields(bare)
    assert (fields["cached"], fields["hit_ratio"]) == (0, 0.0)
    assert not {"input", "written", "output", "status", "model", "edits", "miss", "expected_ratio"} & set(
        fields
    )


def test_json_lines():
    """One object a line."""
    stream = io.StringIO()
    make_logger("json", stream).info("turn", **turn_fields(TURN))
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"], line["cached"]) == ("turn", "info", 40_000)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_console_lines():
    """Aligned columns; colours on a terminal and nowhere else; the outcome first."""
    plain, shown = io.StringIO(), Terminal()
    for stream in (plain, shown):
        logger = make_logger("console", stream)
        logger.info("turn", **turn_fields(TURN))
        logger.info(
            "turn",
            **turn_fields(Turn(id="t", started_at=1.0, method="GET", path="/v1/models", outcome="passed")),
        )
        logger.error("failed_open", where="prepare", at=["a.py:1 f"])
    first, second, third = plain.getvalue().splitlines()
    assert first[9:].startswith("ok           200  anthropic  claude-opus-5-5  ")
    assert "in 41.2k cached 40.0k written 1000 out 312 hit 97%" in first
    assert "turn 7" in first and "edits relocate:1,stale:4" in first and "miss expired" in first
    assert "expected 99%" in first and "ttfb 0.41s" in first
    assert second[9:].startswith("passed       -    -          /v1/models")
    assert third[9:] == "error failed_open where=prepare at=['a.py:1 f']"
    assert "\x1b" not in plain.getvalue()
    assert [line.startswith("\x1b[") for line in shown.getvalue().splitlines()] == [True, True, False]


def test_a_fault_is_a_place_and_no_message():
    """The message of an exception may quote a body; its type and frames do not."""

    def deep():
        raise ValueError("BODY")

    try:
        deep()
    except ValueError as fault:
        fields = fault_fields(fault)
    assert fields["fault"] == "ValueError"
    assert re.fullmatch(r"test_log\.py:\d+ deep", fields["at"][-1])
    assert "BODY" not in str(fields)


def test_ratios_are_known_or_not():
    """Without a prompt or an expectation there is no ratio; more than everything is everything."""
    base = {"id": "t", "started_at": 1.0, "method": "POST", "path": "/"}
    assert Turn(**base).hit_ratio is None
    assert Turn(**base, report=TurnReport(expected_cached=5)).expected_ratio is None
    assert Turn(**base, usage=Usage(prompt=4), report=TurnReport(expected_cached=5)).expected_ratio == 1.0
    assert Answer().usage is None
