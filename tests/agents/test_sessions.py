"""Unmodified agents of every wire format, in sessions of two processes, directly and through `stet serve`.

What every agent is held to: nothing is refused, every call is answered, and the cache serves at least what it serves
without Stet. `STET_AGENTS=all` also plays those that take long to install or to start; `sessions.py` in `benchmarks/`
prints the figures of all of them.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.simulator.exchange import Exchange

from .lineup import KINDS, Kind
from .playing import STEPS, Played, body, play
from .wires import answers, calls

pytestmark = pytest.mark.agents

Install = Callable[[str, str], Path]

ALWAYS = ("codex", "codex-openai", "opencode", "gemini-cli", "qwen-code", "pi", "continue")
MORE = ("codex-6", "opencode-chat", "opencode-responses", "cline")
PLAYED = (*ALWAYS, *(MORE if os.environ.get("STET_AGENTS") == "all" else ()))
REWRITES = {"gemini-cli", "qwen-code"}
"""They change their own history when they resume, which nobody can undo."""
GAINS = {"continue": 0.85, "cline": 0.80}
"""What those reach through Stet that mark too little of their prompt; directly it is less than half."""


def programs(kind: Kind, agent: Install) -> list[Path]:
    return [agent(package, version) for package, version in reversed(kind.packages)]


def touched(folder: Path) -> None:
    """What another process of the agent finds changed."""
    (folder / "notes.txt").write_text("seen\n")


@pytest.mark.parametrize("name", PLAYED)
def test_a_session_and_its_resumption(name: str, tmp_path: Path, agent: Install, git: str) -> None:
    """Ten steps of tools and an answer, twice: nothing refused, all calls answered, no less from the cache."""
    kind = KINDS[name]
    found = programs(kind, agent)
    direct = play(kind, "direct", tmp_path / "direct", found, between=touched)
    stet = play(kind, "stet", tmp_path / "stet", found, policy="careful", between=touched)
    for played in (direct, stet):
        assert [ended.rc for ended in played.ended] == [0, 0], played.ended
        assert len(played.calls) == 2 * (STEPS + 1)
        assert [unanswered(made) for made in played.calls] == [set()] * len(played.calls)
        assert played.refused == []
    assert stet.complaints == []
    assert reported(stet) == [(made.read, made.total) for made in stet.log]
    assert stet.ratio >= direct.ratio - 0.01
    if name in GAINS:
        assert direct.ratio < 0.5
        assert stet.ratio > GAINS[name]
    if name in REWRITES:
        assert "client" in {turn.get("miss") for turn in stet.turns}


def unanswered(made: Exchange) -> set[str]:
    """Ids of the calls of a request that nothing answers in it."""
    sent = body(made)
    return set(calls(sent)) - set(answers(sent))


def reported(played: Played) -> list[tuple[Any, Any]]:
    """What the log of Stet says of each turn: tokens from the cache, tokens of the prompt."""
    return [(turn["cached"], turn["prompt"]) for turn in played.turns]
