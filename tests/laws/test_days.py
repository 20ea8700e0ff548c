"""The laws over whole days: three hundred requests of one conversation, every stage on, the window filled many times."""

from __future__ import annotations

from random import Random

import pytest

from tests.laws import test_laws as laws
from tests.laws.client import WORDS, Shown
from tests.laws.driver import NARROW, Driver, Sent, World
from tests.laws.sessions import Step, play
from tests.laws.spelling import Style
from tests.laws.wires import WIRES

TURNS = 300
WINDOW = 6_000
"""Tokens: a day has some ten times as many."""

WORLDS = {
    "anthropic": ("anthropic", "claude-opus-5-5"),
    "openai_chat": ("deepseek", "deepseek-v4-pro"),
    "openai_responses": ("openai", "gpt-5.5"),
    "gemini": ("gemini", "gemini-2.5-pro"),
}


HABITS = ("resume", "call_again", "text_behind", "split_answer", "foreign_id", "same_id", "answer_twice")
"""What clients do to the newest answer, and what no provider has to refuse for ever."""

OUTPUTS = (*("ok",) * 8, "noisy", "error", "lost", "blocks", "nearly", "again")


def day(rng: Random) -> list[Step]:
    """A person asks, and the model calls tools for a while; now and then a client does what clients do."""
    story: list[Step] = []
    asks = True
    for _ in range(TURNS):
        done = rng.random() < 0.15
        calls = tuple(rng.randrange(3, 10) for _ in range(rng.choice((1, 1, 1, 2))))
        story.append(
            Step(
                wait=rng.choice((0, 0, 0, 1, 1, 2)) if not asks else rng.randrange(4),
                move=rng.choice(HABITS) if rng.random() < 0.05 else "none",
                pick=rng.randrange(6),
                results=tuple(rng.choice(OUTPUTS) for _ in range(3)),
                says=(rng.randrange(len(WORDS)),) if asks else (),
                reminder=rng.choice(("date", "left", "system_behind")) if rng.random() < 0.1 else "none",
                picture=rng.random() < 0.03,
                style=Style(marks=rng.randrange(16), order=rng.randrange(3), spaces=rng.random() < 0.02),
                shown=Shown(
                    date=1 + len(story) // 120,
                    clock=len(story) % 4,
                    nonce=len(story) % 3,
                    left=100_000 - len(story) % 4,
                    more_tools=False,
                ),
                answer=(0,) if done else (rng.randrange(3), *calls),
                fate="overloaded" if rng.random() < 0.02 else "ok",
            )
        )
        asks = done
    return story


class Played:
    """A session that was played before, as the laws ask for it step by step."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._sent = iter(driver.sent)

    def step(self, _: Step) -> Sent:
        """The next request, as it was sent."""
        return next(self._sent)


ELSEWHERE = (
    "test_the_same_requests_give_the_same_bytes_in_another_process",
    "test_a_ledger_read_from_its_store_gives_the_same_bytes",
    "test_a_policy_that_is_off_changes_nothing",
    "test_what_was_sent_past_us_is_left_alone",
)
"""Laws of sessions that are not this one, and those that are about what need not be remembered, as a third is."""


@pytest.mark.parametrize("wire", list(WIRES))
def test_every_law_holds_over_a_whole_day(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds for short sessions holds for a long one, with batches upon batches and summaries of summaries."""
    upstream, model = WORLDS[wire]
    world = World(policy=NARROW, upstream=upstream, model=model, wire=wire, thinks=True, window=WINDOW)
    story = day(Random(wire))  # noqa: S311  no secret
    driver = play(world, story)
    assert {sent.status for sent in driver.sent} == {200, 529}
    made = [sent.rewrite.commit for sent in driver.sent if sent.rewrite and sent.rewrite.commit]
    stages = {promise.stage for commit in made for promise in commit.promises}
    assert {"compact", "budget", "stale", "externalize", "inject", "regret"} <= stages
    monkeypatch.setattr(laws, "play", lambda *_: driver)
    monkeypatch.setattr(laws, "Session", lambda _: Played(driver))
    for name, law in vars(laws).items():
        if name.startswith("test_") and name not in ELSEWHERE:
            law.law(world, story)
