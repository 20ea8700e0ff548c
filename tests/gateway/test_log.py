"""One line a turn, for people and for machines, from the same record."""

import io
import json
import re

import pytest
from msgspec import structs

from proxy.answer import Answer
from proxy.gateway.fault import named
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


def written(turn=TURN, stream=None):
    """The line of a turn, without its time."""
    stream = stream or io.StringIO()
    make_logger("console", stream).info("turn", **turn_fields(turn))
    return re.sub(r"\d\d:\d\d:\d\d ", "", stream.getvalue(), count=1)


def test_console_lines(monkeypatch):
    """Aligned columns; colours on a terminal and nowhere else; the outcome first, the cause of a miss in words."""
    for name in ("NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    passed = Turn(id="t", started_at=1.0, method="GET", path="/v1/models", outcome="passed")
    plain, shown = io.StringIO(), Terminal()
    for stream in (plain, shown):
        logger = make_logger("console", stream)
        logger.info("turn", **turn_fields(TURN))
        logger.info("turn", **turn_fields(passed))
        logger.error("failed_open", where="prepare", at=["a.py:1 f"])
    first, second, third = plain.getvalue().splitlines()
    assert first[9:] == (
        "ok          200 c1:7       anthropic claude-opus-5-5      1.83s  in 41.2k hit 97% out 312  +3.2ms  "
        "ttfb 0.41s  miss expired (expected 99%): 7 minutes  edits relocate:1,stale:4  reclaim 9000  held compact:1"
    )
    assert second[9:] == "passed      -   -          -         /v1/models           0.00s"
    assert third[9:] == "error failed_open  where=prepare  at=['a.py:1 f']"
    assert "\x1b" not in plain.getvalue()
    assert [line.startswith("\x1b[") for line in shown.getvalue().splitlines()] == [True, True, False]


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_are_left_out_where_they_are_not_wanted(name, value, monkeypatch):
    """NO_COLOR and a dumb terminal are listened to; an empty NO_COLOR says nothing."""
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" in written(stream=Terminal())
    monkeypatch.setenv(name, value)
    assert "\x1b" not in written(stream=Terminal())


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_lines_fit_the_terminal(width, monkeypatch):
    """No line is longer than the terminal is wide, nothing is lost, and an ordinary turn takes one line of 80."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    lines = written(stream=Terminal()).splitlines()
    assert max(len(line) for line in lines) <= width
    for said in ("c1:7", "hit 97%", "7 minutes", "relocate:1,stale:4", "compact:1"):
        assert said in "\n".join(lines)
    plain = structs.replace(TURN, miss=None, report=TurnReport(conversation="8f3a2c19aabb", number=7))
    once = written(plain, Terminal())
    assert once.count("\n") == (1 if width >= 80 else 2)
    assert once.startswith("ok")


def test_what_was_only_observed_says_so():
    """Nothing that was not done is told as if it were; what it would have saved and mended is told."""
    report = structs.replace(TURN.report, observed=True, would_read=0.5)
    usage = structs.replace(TURN.usage, cached=600)
    observed = structs.replace(TURN, report=report, usage=usage, would_repair=True)
    fields = turn_fields(observed)
    assert (fields["observed"], fields["would_save_tokens"], fields["would_repair"]) == (True, 20_000, True)
    line = written(observed)
    assert "would edit relocate:1,stale:4" in line
    assert "would reclaim 9000" in line
    assert "would save 20.0k" in line
    assert "would repair" in line
    assert not {"observed", "would_save_tokens", "would_repair"} & set(turn_fields(TURN))


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


def test_a_fault_is_named_by_its_innermost_place_of_ours():
    """Wherever it arose, in a library or in a test; one that was never raised has a kind alone."""
    try:
        Usage.fraction  # noqa: B018
    except AttributeError as fault:
        assert named(fault) == "AttributeError"
    try:
        make_logger("console", object())
    except AttributeError as fault:
        assert re.fullmatch(r"AttributeError in gateway/console\.py:\d+ lively", named(fault))
    assert named(KeyError("BODY")) == "KeyError"


def test_ratios_are_known_or_not():
    """Without a prompt or an expectation there is no ratio; more than everything is everything."""
    base = {"id": "t", "started_at": 1.0, "method": "POST", "path": "/"}
    assert Turn(**base).hit_ratio is None
    assert Turn(**base, report=TurnReport(expected_cached=5)).expected_ratio is None
    assert Turn(**base, usage=Usage(prompt=4), report=TurnReport(expected_cached=5)).expected_ratio == 1.0
    assert Turn(**base, report=TurnReport(counted=5)).count_error is None
    assert Turn(**base, usage=Usage(prompt=4), report=TurnReport(counted=5)).count_error == 0.25
    assert Turn(**base, usage=Usage(prompt=4), report=TurnReport()).count_error is None
    sent_otherwise = Turn(**base, usage=Usage(prompt=4), report=TurnReport(counted=5), fallback=True)
    assert sent_otherwise.count_error is None
    assert Answer().usage is None
