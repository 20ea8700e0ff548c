"""The estimate of what requests would have cost directly, held against what they do cost directly."""

import io
import json
import re
import urllib.request
from pathlib import Path
from collections.abc import Callable
from typing import Any

import pytest

from proxy.gateway.settings import resolve
from proxy.launch.cost import Cost
from proxy.launch.own import Own
from proxy.models import Models
from proxy.simulator.clock import Clock
from proxy.simulator.exchange import Exchange
from proxy.simulator.provider import Provider
from proxy.simulator.reply import echo
from proxy.simulator.server import Server
from proxy.simulator.settings import Settings

TURNS = 12
MODEL = "claude-sonnet-4-5"
Habit = Callable[[dict[str, Any], int], dict[str, Any]]


def well(body: dict[str, Any], turn: int) -> dict[str, Any]:
    """Marks its system prompt and its tail."""
    del turn
    mark = {"cache_control": {"type": "ephemeral"}}
    *before, last = body["messages"]
    content = [{"type": "text", "text": last["content"], **mark}]
    return {
        **body,
        "system": [{**body["system"][0], **mark}],
        "messages": [*before, {**last, "content": content}],
    }


def dated(body: dict[str, Any], turn: int) -> dict[str, Any]:
    """The same with a clock in the system prompt, which changes each turn."""
    text = f"{body['system'][0]['text']}\nCurrent time: 2026-11-30T12:{turn:02}:00Z"
    return well({**body, "system": [{"type": "text", "text": text}]}, turn)


def unmarked(body: dict[str, Any], turn: int) -> dict[str, Any]:
    """No mark at all."""
    del turn
    return body


def play(url: str, habit: Habit, history: list[dict[str, Any]] | None = None) -> None:
    """A conversation that grows, or goes on, sent as the habit has it."""
    history = [] if history is None else history
    for turn in range(len(history) // 2, len(history) // 2 + TURNS):
        history.append(
            {"role": "user", "content": f"question {turn}: " + f"look at {turn} once more, please. " * 120}
        )
        body = {
            "model": MODEL,
            "max_tokens": 64,
            "system": [{"type": "text", "text": "You look after a greenhouse with many pumps. " * 300}],
            "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
            "messages": list(history),
        }
        request = urllib.request.Request(
            f"{url}/v1/messages",
            json.dumps(habit(body, turn)).encode(),
            {"content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            history.append({"role": "assistant", "content": json.load(answer)["content"]})


def paid(log: list[Exchange]) -> float:
    """What the provider itself reckons for the prompts, in base input tokens."""
    assert {made.status for made in log} == {200}
    return sum(made.cost for made in log)


def through(habit: Habit, policy: str) -> tuple[float, Cost]:
    """What a conversation costs through the proxy, and what it is said to cost more directly."""
    provider = Provider(Settings(), echo)
    with Server(provider, clock=Clock()) as server:
        flags = {
            "listen": "127.0.0.1:0",
            "state": "memory",
            "policy": policy,
            "upstreams": [f"anthropic={server.url}#anthropic"],
        }
        with Own(resolve(flags, {}), Models.load(), io.StringIO()) as own:
            play(own.base, habit)
    assert own.more is not None
    return paid(provider.log), own.more


@pytest.mark.parametrize("habit", [well, dated, unmarked])
def test_the_estimate_is_near_what_is_paid_directly(habit: Habit) -> None:
    """Within four per cent, for a client that needs nothing and for two that pay many times as much."""
    direct = Provider(Settings(), echo)
    with Server(direct, clock=Clock()) as server:
        play(server.url, habit)
    spent, more = through(habit, "default")
    assert spent + more.units == pytest.approx(paid(direct.log), rel=0.04)
    if habit is not well:
        assert paid(direct.log) > 2 * spent


def test_what_an_earlier_run_left_in_the_cache_is_nobodys_merit() -> None:
    """A conversation that a second run resumes: it begins in a warm cache either way."""
    history: list[dict[str, Any]] = []
    provider = Provider(Settings(), echo)
    with Server(provider, clock=Clock()) as server:
        flags = {
            "listen": "127.0.0.1:0",
            "state": "memory",
            "upstreams": [f"anthropic={server.url}#anthropic"],
        }
        for _ in range(2):
            begins = len(provider.log)
            with Own(resolve(flags, {}), Models.load(), io.StringIO()) as own:
                play(own.base, well, history)
    second = provider.log[begins:]
    assert second[0].read > 0
    assert own.more is not None
    assert abs(own.more.units) < 0.04 * paid(second)


def test_where_nothing_is_touched_nothing_is_saved() -> None:
    """Whatever the client does to itself."""
    _, more = through(dated, "transparent")
    assert more == Cost()


def test_an_agent_reads_huge_outputs_again_from_the_runs_own_proxy(tmp_path: Path) -> None:
    """What is taken out of its prompts is served beside them."""
    log = "".join(f"unit {at} is built\n" for at in range(4000))
    provider = Provider(Settings(), echo)
    with Server(provider, clock=Clock()) as server:
        flags = {
            "listen": "127.0.0.1:0",
            "state": str(tmp_path),
            "policy": "frugal",
            "upstreams": [f"anthropic={server.url}#anthropic"],
        }
        body = {
            "model": MODEL,
            "max_tokens": 64,
            "messages": [
                {"role": "user", "content": "Build."},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t1", "name": "run", "input": {}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": log}]},
            ],
        }
        with Own(resolve(flags, {}), Models.load(), io.StringIO()) as own:
            request = urllib.request.Request(
                f"{own.base}/v1/messages",
                json.dumps(body).encode(),
                {"content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"},
            )
            urllib.request.urlopen(request, timeout=30).close()
            sent = json.loads(provider.log[-1].body)["messages"][2]["content"][0]["content"]
            (url,) = re.findall(r"GET (http://\S+)\?lines=", sent)
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert answer.read().decode() == log
