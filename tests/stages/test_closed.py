"""Thinking of turns that are over: it stays, leaves where the provider drops it, or leaves in a batch that pays."""

from typing import Any, Literal

import pytest
from msgspec import structs

from proxy.stages import reasoning
from proxy.stages.stale import Config

from tests.stages.clearing import OPUS, PLAIN, Work, lines

DROPS = "claude-sonnet-4-5"
"""The provider shows it thinking of the open turn alone [A47]."""


def work(mode: Literal["keep", "provider", "strip"], model: str, **facts: Any) -> Work:
    made = Work(Config(keep=100_000), model=model, thinks=True, **facts)
    stages = structs.replace(made.policy.stages, reasoning=reasoning.Config(mode=mode))
    made.policy = structs.replace(made.policy, stages=stages)
    if model == DROPS:
        made.members = {
            **made.members,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "max_tokens": 2048,
        }
    return made


def thinking(body: dict[str, Any]) -> list[int]:
    """Messages in which thinking stands."""
    return [
        at
        for at, message in enumerate(body["messages"])
        if isinstance(message["content"], list) and any(b["type"] == "thinking" for b in message["content"])
    ]


def played(mode: Literal["keep", "provider", "strip"], model: str, wait: float = 10.0) -> Work:
    """Two turns of a tool round each, a third one begun."""
    made = work(mode, model)
    for _ in range(2):
        made.reads(2, wait=wait)
    made.ask("last", wait=wait)
    return made


def test_it_stays_where_the_policy_keeps_it() -> None:
    for model in (PLAIN, OPUS, DROPS):
        assert thinking(played("keep", model).sent[-1]) == [1, 3, 5, 7, 9, 11]


def test_what_the_provider_drops_is_not_sent() -> None:
    """From the moment a person has spoken again; the open round keeps its own."""
    assert [thinking(body) for body in played("provider", DROPS).sent] == [
        [],
        [1],
        [1, 3],
        [],
        [7],
        [7, 9],
        [],
    ]


def test_to_leave_out_what_is_dropped_costs_nothing() -> None:
    """Request by request the provider counts and reads what it does of a history that is sent whole."""
    keeps, leaves = played("keep", DROPS), played("provider", DROPS)
    assert [(e.total, e.read) for e in leaves.provider.log] == [(e.total, e.read) for e in keeps.provider.log]
    assert len(str(leaves.sent[-1])) < len(str(keeps.sent[-1]))


@pytest.mark.parametrize("model", [PLAIN, OPUS])
def test_where_the_provider_reads_it_only_strip_takes_it_out(model: str) -> None:
    assert thinking(played("provider", model).sent[-1]) == [1, 3, 5, 7, 9, 11]


@pytest.mark.parametrize("model", [PLAIN, OPUS])
def test_strip_waits_until_it_pays(model: str) -> None:
    """A few lines of thought in front of a warm cache are not worth breaking it; they are held, and said to be."""
    done = played("strip", model)
    assert thinking(done.sent[-1]) == [1, 3, 5, 7, 9, 11]
    assert [held.stage for held in done.last.held] == ["reasoning"]


@pytest.mark.parametrize("model", [PLAIN, OPUS])
def test_strip_takes_it_out_when_the_cache_is_cold(model: str) -> None:
    """All of it up to where the person speaks, in one batch; in later requests it stays away.

    What was thought in a turn of one answer is not cached yet when the person speaks: it leaves at once.
    """
    made = played("strip", model)
    made.give(lines("last", 50))
    assert thinking(made.sent[-1]) == [1, 3, 5, 7, 9, 11, 13]
    made.say("And now?", wait=10_000.0)
    assert thinking(made.sent[-1]) == []
    batch = [edit for edit in made.last.edits if edit.committed]
    assert {(edit.stage, edit.reason) for edit in batch} == {
        ("reasoning", "thinking of turns that are over [B23]; nothing behind it is cached")
    }
    assert len(batch) == 8
    made.ask("once more")
    assert thinking(made.sent[-1]) == []
    made.give(lines("once more", 50), "and more")
    made.give(lines("and more", 50))
    assert thinking(made.sent[-1]) == [19, 21]


def test_what_an_upstream_demands_back_stays() -> None:
    """Whatever the policy [A400]."""
    made = work("strip", PLAIN, reasoning="required", last_turn_thinking=True)
    made.reads(1)
    made.say("And now?", wait=10_000.0)
    assert thinking(made.sent[-1]) == [1, 3]
