"""Generated working sessions of any length, played through the rewrite, and what a provider charges for each turn.

The client is the demo's, its tasks are drawn from a seed: files are read, searched and edited, commands run, some fail.
Everything happens in one process under one clock. The provider counts tokens as it always does; what a token costs is
the price table's, and the rewrite is told the same.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct, structs

from proxy.answer import READERS
from proxy.demo.client import CodingAgent, headers
from proxy.demo.plan import Step, Task
from proxy.demo.project import ROOT, prose, result
from proxy.demo.running import BEGINS
from proxy.demo.sessions import CLEAN
from proxy.demo.wire import Answered, assembled
from proxy.gateway.conversations import Conversations
from proxy.gateway.exchange import Incoming, Outcome
from proxy.gateway.spool import SpoolDirectory
from proxy.agents import Agents
from proxy.conversation import ToolCall, ToolResult
from proxy.hindsight import Course, Item
from proxy.models import ModelFacts, Models
from proxy.policy import load_policy
from proxy.simulator import Answer, Ask, Call, Clock, Exchange, Provider, Reply, Say, Settings, models, prompt
from proxy.sse import SseParser
from proxy.stages import stale
from proxy.stages.results import Seen, Survey

TTL_S = 300.0
PAUSE_S = 1800.0
WINDOW = 1_000_000
"""Tokens that the model takes."""


class Prices(Struct, frozen=True):
    """What a token costs in units of base input: one read from the cache, and one written to it."""

    name: str
    read: float
    write: float

    def of(self, exchange: Exchange) -> float:
        """The price of a prompt."""
        usage = exchange.usage
        return usage.input_tokens + self.read * usage.cache_read_input_tokens + self.write * usage.written


ANTHROPIC = Prices("Anthropic", 0.1, 1.25)
CHEAP = Prices("reads at 0.05", 0.05, 1.25)
OPENAI = Prices("OpenAI", 0.1, 1.0)
LOCAL = Prices("local", 0.0, 1.0)
TABLES = (ANTHROPIC, CHEAP, OPENAI, LOCAL)


class Work(Struct, frozen=True):
    """A session: its tasks, and in which of its turns the client came back after the cache had expired."""

    tasks: tuple[Task, ...]
    turns: int
    cold: frozenset[int]


@cache
def work(seed: int, turns: int, *, pauses: bool) -> Work:
    """A session of so many turns; with `pauses` about one turn in sixteen follows one longer than the cache lives."""
    chance = random.Random(seed)
    files = [f"src/{name}{at}.py" for name in ("pump", "fan", "valve", "sensor", "panel") for at in range(12)]
    tasks: list[Task] = []
    cold: set[int] = set()
    done = 0
    while done < turns:
        near = _Near(chance, chance.sample(files, 7))
        steps = [near.step() for _ in range(chance.randint(5, 11))]
        pause = PAUSE_S if pauses and tasks and chance.random() < 0.55 else 40.0
        if pause > TTL_S:
            cold.add(done)
        tasks.append(Task(prose(f"task {seed} {len(tasks)}", 160), (*steps, ()), pause))
        done += len(steps) + 1
    return Work(tuple(tasks), turns, frozenset(cold))


class _Near:
    """The files of one task, and which of them the agent has read as they are now: it seldom reads twice in a task."""

    def __init__(self, chance: random.Random, files: Sequence[str]) -> None:
        self._chance, self._files = chance, files
        self._fresh = list(files)

    def step(self) -> Step:
        """The next step: mostly looking, sometimes changing."""
        chance = self._chance
        kind = chance.choices(("read", "two", "grep", "run", "test", "edit"), (26, 10, 16, 22, 6, 20))[0]
        if kind in ("read", "two") and len(self._fresh) >= 2:
            return tuple(
                Call("Read", {"file_path": self._taken()}) for _ in range(1 if kind == "read" else 2)
            )
        if kind == "edit":
            path = chance.choice(self._files)
            if path not in self._fresh and chance.random() < 0.3:
                self._fresh.append(path)  # what was changed is sometimes looked at again
            new = f"def f{chance.randrange(10_000)}(): ..."
            path = f"{ROOT}/{path}"
            return (Call("Edit", {"file_path": path, "old_string": "def f(): ...", "new_string": new}),)
        if kind == "grep":
            return (Call("Grep", {"pattern": f"name_{chance.randrange(10_000)}", "path": ROOT}),)
        number = chance.randrange(10_000)
        command = f"pytest --last-failed -k {number}" if kind == "test" else f"make part-{number}"
        return (Call("Bash", {"command": command, "description": "Run a command"}),)

    def _taken(self) -> str:
        return f"{ROOT}/{self._fresh.pop(self._chance.randrange(len(self._fresh)))}"


class Played(Struct, frozen=True):
    """What came of a session: its exchanges, whether each request began with the goal, and the last body sent."""

    exchanges: tuple[Exchange, ...]
    goal_stood: bool
    refused: int
    last: bytes
    messages: tuple[int, ...]

    def spent(self, prices: Prices) -> list[float]:
        """What it had cost after each turn."""
        total, found = 0.0, []
        for exchange in self.exchanges:
            total += prices.of(exchange)
            found.append(total)
        return found


class _Priced:
    """The shipped facts, with the prices of a table and a window."""

    def __init__(self, prices: Prices, window: int) -> None:
        self._models, self._prices, self._window = Models.load(), prices, window

    def facts(self, *asked: str) -> ModelFacts:
        found = self._models.facts(*asked)
        return structs.replace(
            found, read=self._prices.read, write_5m=self._prices.write, window=self._window
        )

    def profile_for(self, *asked: Any) -> str:
        return self._models.profile_for(*asked)


class _Wire:
    """The client's connection: through the rewrite, or straight to the provider."""

    def __init__(
        self, provider: Provider, clock: Clock, policy: str | None, prices: Prices, spool: Path, window: int
    ) -> None:
        self.provider, self._clock = provider, clock
        self.headers = headers(CLEAN, f"session-{policy}")
        self.exchanges: list[Exchange] = []
        self.refused, self.goal_stood, self.last = 0, True, b""
        self.messages: list[int] = []
        self._rewriter: Conversations | None = None
        if policy is not None:
            kept = SpoolDirectory(spool, None, lambda _: None, shown=str(spool), clock=clock)
            self._rewriter = Conversations(load_policy(policy), models=_Priced(prices, window), spool=kept)  # type: ignore[arg-type]  # all of it that is asked

    def post(self, body: Mapping[str, Any]) -> Answered:
        raw = json.dumps(body).encode()
        answer = self._ask(raw) if self._rewriter is None else self._rewritten(self._rewriter, raw)
        if answer.status != 200:
            self.refused += 1
            return Answered(answer.status, None, 0.0)
        self.exchanges.append(answer.exchange)
        self.messages.append(len(body["messages"]))
        first = orjson.loads(self.last)["messages"][0]["content"]
        goal = body["messages"][0]["content"]
        self.goal_stood &= goal in (first, first[0].get("text") if isinstance(first, list) else None)
        return Answered(200, assembled(SseParser().feed(b"".join(answer.events or ()))), 0.0)

    def _ask(self, raw: bytes) -> Answer:
        self.last = raw
        return self.provider.answer([*self.headers.items()], raw, self._clock())

    def _rewritten(self, rewriter: Conversations, raw: bytes) -> Answer:
        named = tuple((name.encode(), value.encode()) for name, value in self.headers.items())
        incoming = Incoming(
            "POST", "/v1/messages", "", named, raw, "anthropic", "anthropic", self._clock(), "anthropic"
        )
        prepared = rewriter.prepare(incoming)
        answer = self._ask(prepared.body)
        if prepared.commit:
            reader = READERS["anthropic"]()
            for event in SseParser().feed(b"".join(answer.events or ())):
                reader.event(event)
            name = "ok" if answer.status == 200 else "refused"
            rewriter.settle(prepared, Outcome(name, answer.status, None, reader.answer(), False))
        return answer

    def close(self) -> None:
        """Nothing is open."""


class _Model:
    """Answers by the plan of a session, whatever was left out of the prompt."""

    def __init__(self, session: Work) -> None:
        self._steps = tuple(step for task in session.tasks for step in task.steps)
        self._answers = 0

    def __call__(self, ask: Ask) -> Reply:
        del ask
        step, words = self._steps[self._answers], prose(f"words {self._answers}", 300)
        self._answers += 1
        return Reply(blocks=(Say(words), *step))


def played(
    session: Work,
    policy: str | None,
    spool: Path,
    prices: Prices = ANTHROPIC,
    *,
    least: int = 4000,
    window: int = WINDOW,
) -> Played:
    """Play a session under a policy, None for none. Results that look at something have at least about `least` bytes."""
    clock = Clock(BEGINS, frozen=True)
    wire = _Wire(Provider(Settings(keep_bodies=False), _Model(session)), clock, policy, prices, spool, window)
    results = partial(result, least=least)
    agent = CodingAgent(CLEAN, wire, clock, results, session.tasks, None)  # type: ignore[arg-type]  # post and close is all
    for _ in range(session.turns):
        clock.advance(agent.pause)
        agent.turn()
    return Played(tuple(wire.exchanges), wire.goal_stood, wire.refused, wire.last, tuple(wire.messages))


def course(session: Work, direct: Played, policy: str, prices: Prices) -> Course:
    """The session as `hindsight` sees it, with what becomes stale under a policy."""
    facts = models.find(direct.exchanges[-1].model)
    body = orjson.loads(direct.last)
    config = load_policy(policy).choose("anthropic", "", facts.name).stages.stale
    assert isinstance(config, stale.Config)
    calls: dict[str, ToolCall] = {}
    shelves: dict[str, list[Seen]] = {}
    places: dict[int, int] = {}
    items: list[Item] = []
    for position in prompt(body, model=facts):
        if position.is_parameters:
            continue
        arrives = 0
        if position.path.startswith("messages."):
            at = int(position.path.split(".")[1])
            arrives = next(
                (turn for turn, count in enumerate(direct.messages) if at < count), session.turns - 1
            )
            block = _block(body, position.path)
            if position.kind == "tool_use":
                given = orjson.dumps(block["input"])
                calls[block["id"]] = ToolCall(id=block["id"], name=block["name"], input=given)
            elif position.kind == "tool_result":
                call = calls[block["tool_use_id"]]
                content = orjson.dumps(block.get("content", ""))
                failed = bool(block.get("is_error"))
                came = ToolResult(call_id=call.id, content=content, is_error=failed, size=len(content))
                shelves.setdefault(call.name, []).append(Seen(came, call, 0, arrives))
                places[id(came)] = len(items)
        items.append(Item(arrives, position.tokens))
    for seen, turn in stale.leaving(Survey(shelves, 0, []), config, Agents.load().generic, session.cold):
        at = places[id(seen.result)]
        saves = max(0, items[at].tokens - stale.PLACEHOLDER_BYTES // 4)
        items[at] = Item(items[at].arrives, items[at].tokens, saves, turn)
    cold = dict.fromkeys(session.cold, 0)
    return Course(tuple(items), session.turns, cold, prices.read, prices.write)


def _block(body: dict[str, Any], path: str) -> dict[str, Any]:
    _, at, _, nth = path.split(".")
    content = body["messages"][int(at)]["content"]
    return {"type": "text", "text": content} if isinstance(content, str) else content[int(nth)]


def shares(spent: Sequence[float], direct: Sequence[float]) -> Iterator[float]:
    """What a path had cost after each turn, as shares of the direct one."""
    return (mine / theirs for mine, theirs in zip(spent, direct, strict=True))
