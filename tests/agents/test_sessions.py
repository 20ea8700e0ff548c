"""Unmodified agents and SDK loops of every wire format, in sessions of two prompts, directly and through `stet serve`.

What every one is held to: nothing is refused, every call is answered, and the cache serves at least what it serves
without Stet. `STET_AGENTS=all` also plays those that take long to install or to start; `benchmarks/agents.py` prints
the figures of all of them.
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

Programs = Callable[[Kind], list[Path]]

SDKS = ("anthropic", "openai-chat", "openai-responses", "openai-stored", "google-genai", "openai-agents")
ALWAYS = ("codex", "codex-openai", "codex-login", "opencode", "qwen-code", "pi", "continue", *SDKS)
MORE = ("codex-6", "opencode-chat", "opencode-responses", "cline")
PLAYED = (*ALWAYS, *(MORE if os.environ.get("STET_AGENTS") == "all" else ()))

GAINS = {"continue": 0.85, "cline": 0.80, "anthropic": 0.85}
"""What those reach through Stet that mark too little of their prompt, or nothing; directly it is less than half."""


def touched(folder: Path) -> None:
    """What the second process of an agent finds changed."""
    (folder / "notes.txt").write_text("seen\n")


@pytest.mark.parametrize("name", PLAYED)
def test_a_session_and_its_resumption(name: str, tmp_path: Path, programs: Programs, git: str) -> None:
    """Ten steps of tools and an answer, twice: nothing refused, all calls answered, no less from the cache."""
    kind = KINDS[name]
    found = programs(kind)
    direct = play(kind, "direct", tmp_path / "direct", found, between=touched)
    stet = play(kind, "stet", tmp_path / "stet", found, policy="careful", between=touched)
    for played in (direct, stet):
        assert played.refused == []
        went_well(played)
    assert stet.complaints == []
    assert reported(stet) == sorted((made.read, made.total) for made in stet.log)
    assert stet.ratio >= direct.ratio - 0.01
    if name in GAINS:
        assert direct.ratio < 0.5
        assert stet.ratio > GAINS[name]
    if name == "codex-login":
        assert encodings(direct) == {"zstd"}
    if name == "qwen-code":
        # Resumed, it moves a reminder, and the log tells that from our doing; its git status costs nothing.
        assert rewritten(stet) == [STEPS + 2]
        resumed = stet.calls[STEPS + 1]
        assert resumed.read > 0.75 * resumed.total


@pytest.mark.skipif(os.environ.get("STET_AGENTS") != "all", reason="STET_AGENTS=all")
@pytest.mark.parametrize("name", (*ALWAYS, *MORE, "gemini-cli"))
def test_a_session_under_the_default_policy(name: str, tmp_path: Path, programs: Programs, git: str) -> None:
    """What clears old results as well is refused no more often: never."""
    kind = KINDS[name]
    played = play(kind, "stet", tmp_path, programs(kind), steps=20, between=touched)
    assert played.refused == []
    assert played.complaints == []
    went_well(played, steps=20)


def test_a_resumed_gemini_session_goes_on(tmp_path: Path, programs: Programs, git: str) -> None:
    """Resumed, Gemini CLI sends every response twice: refused directly, and the end of it; through Stet it works on."""
    kind = KINDS["gemini-cli"]
    found = programs(kind)
    direct = play(kind, "direct", tmp_path / "direct", found, between=touched)
    assert [ended.rc == 0 for ended in direct.ended] == [True, False]
    assert {status for status, _ in direct.refused} == {400}
    assert any("the number of function response parts" in (error or "") for _, error in direct.refused)
    stet = play(kind, "stet", tmp_path / "stet", found, policy="careful", between=touched)
    assert stet.refused == []
    assert stet.complaints == []
    went_well(stet)
    resumed = stet.calls[STEPS + 1]
    assert len(answers(body(resumed))) == len(calls(body(resumed)))
    assert rewritten(stet) == []
    assert stet.ratio > 0.9


def went_well(played: Played, steps: int = STEPS) -> None:
    """Both prompts to their ends, in so many calls, and nothing left unanswered on the way."""
    assert [ended.rc for ended in played.ended] == [0] * len(played.ended), played.ended
    assert len(played.calls) == 2 * (steps + 1)
    assert [unanswered(made) for made in played.calls] == [set()] * len(played.calls)


def unanswered(made: Exchange) -> set[str]:
    """Ids of the calls of a request that nothing answers in it."""
    sent = body(made)
    return set(calls(sent)) - set(answers(sent))


def reported(played: Played) -> list[tuple[Any, Any]]:
    """What the log of Stet says of each turn: tokens from the cache, tokens of the prompt."""
    return sorted((turn["cached"], turn["prompt"]) for turn in played.turns)


def encodings(played: Played) -> set[str]:
    """What the bodies of a session came packed in."""
    return {
        value for made in played.log for name, value in made.headers if name.lower() == "content-encoding"
    }


def rewritten(played: Played) -> list[int]:
    """Turns whose miss the log lays on the client's own change."""
    return [turn["turn"] for turn in played.turns if turn.get("miss") == "client"]
