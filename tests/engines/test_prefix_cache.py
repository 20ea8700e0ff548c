"""A real engine with a real prefix cache: what Stet saves is prompt that llama.cpp itself did not have to read.

Nothing here is timed; the counts are the engine's own.
"""

from pathlib import Path

import pytest

from proxy.dialects import DIALECTS

from .measuring import Bench, processed
from .playing import Turn, play
from .processes import stet
from .sessions import FAULTS, FORMATS, TURNS, Fault, session

REWRITTEN = [
    pytest.param(
        name, marks=pytest.mark.skipif(name not in DIALECTS, reason=f"{name} passes through for now")
    )
    for name in FORMATS
]


@pytest.mark.parametrize("format", FORMATS)
def test_without_stet_a_clock_makes_the_engine_read_every_prompt_anew(bench: Bench, format: str) -> None:
    """A client that only appends has each token read once; with a clock at the top all is read again in each turn."""
    stable = bench.measured(format, "stable", "direct")
    clock = bench.measured(format, "clock", "direct", turns=8)
    assert (len(stable), len(clock)) == (TURNS, 8)
    assert processed(stable) == pytest.approx(stable[-1].prompt, rel=0.01)
    assert processed(clock) > 0.95 * sum(turn.prompt for turn in clock)
    assert processed(clock) > 5 * processed(stable[:8])


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("format", REWRITTEN)
def test_through_stet_every_client_costs_the_engine_what_a_stable_one_does(
    bench: Bench, format: str, fault: Fault
) -> None:
    """The engine reads within 5 % of what the stable client makes it read directly, whatever a client's fault."""
    stable = bench.measured(format, "stable", "direct")
    through = bench.measured(format, fault, "stet")
    assert processed(through) <= 1.05 * processed(stable)
    assert sum(turn.prompt for turn in through) <= 1.05 * sum(turn.prompt for turn in stable)


@pytest.mark.parametrize("format", REWRITTEN)
def test_a_restart_of_the_proxy_costs_the_engine_nothing(bench: Bench, format: str, tmp_path: Path) -> None:
    """A client with all faults at once goes on after a restart: what was promised is on disk, and still in the cache."""
    stable = bench.measured(format, "stable", "direct")
    work = session(f"restart-{format}")
    turns: list[Turn] = []
    for part in (slice(7), slice(7, None)):
        with stet(bench.engine, tmp_path) as url:
            turns += play(f"{url}/local", format, "all", work, part)
    assert len(turns) == TURNS
    assert processed(turns) <= 1.05 * processed(stable)


@pytest.mark.parametrize("format", REWRITTEN)
def test_the_log_tells_what_the_engine_counted(bench: Bench, format: str) -> None:
    """Each turn's line has the engine's tokens of the prompt and those of them it had cached, and no fault."""
    turns = bench.measured(format, "arguments", "stet")
    conversations: dict[str, list[tuple[int, int]]] = {}
    for line in bench.logged():
        conversations.setdefault(line["conversation"], []).append((line["prompt"], line["cached"]))
        assert (line["outcome"], line["upstream"], line.get("failed_open")) == ("ok", "local", None)
    assert [(turn.prompt, turn.cached) for turn in turns] in conversations.values()
