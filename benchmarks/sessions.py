"""What sessions cost under each policy, and what they could have cost.

    python benchmarks/sessions.py [--quick]

The demo's sessions are played in one process, without sockets: the scripted client, the rewrite with its ledger,
the embedded provider and its cache, one clock for all. Costs are the provider's own count of each prompt in base
input tokens [B14]. Beside the policies stand two that nobody can have: *window* clears old results as soon as they
are out of their window, and *hindsight* in the best turns, knowing how the session goes on (see `schedule.py`).
Both are what `careful` sends with the results left out, charged by the same provider; their results become stale
by the windows of `default`.

The second table is about longer sessions, in the model of `schedule.py` alone: results of 2,000 tokens on average,
the newest 8 kept, a system prompt of 20,000 tokens.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import orjson
from msgspec import Struct
from report import Table, save
from schedule import Course, Item, Schedule, cost, decided, hindsight, leave, rule, window

from proxy.agents import Agents
from proxy.answer import READERS
from proxy.conversation import ToolCall, ToolResult
from proxy.demo.client import CodingAgent, headers
from proxy.demo.plan import TURNS, model
from proxy.demo.running import BEGINS
from proxy.demo.sessions import SESSIONS, Disposition
from proxy.demo.wire import Answered, assembled
from proxy.gateway.conversations import Conversations
from proxy.gateway.exchange import Incoming, Outcome
from proxy.policy import load_policy
from proxy.simulator import Answer, Clock, Exchange, Provider, Settings, models, prompt
from proxy.sse import SseParser
from proxy.stages import stale
from proxy.stages.results import Seen, Survey

POLICIES = ("direct", "transparent", "careful", "default", "frugal")
LIFETIME = 300.0
LEFT = "[The output of an earlier call is left out here to save space. Run the tool again if you need it; this is no error.]"


class Sent(Struct, frozen=True):
    """A request as it reached the provider, and what the provider noted."""

    body: bytes
    at: float
    exchange: Exchange


class Through:
    """A client's connection that leads through the rewrite, or straight to the provider."""

    def __init__(self, provider: Provider, clock: Clock, session: Disposition, policy: str) -> None:
        self.headers = headers(session, f"{session.name}-{policy}".replace(" ", "-"))
        self.sent: list[Sent] = []
        self.refused = 0
        self.provider, self._clock = provider, clock
        self._rewriter = None if policy == "direct" else Conversations(load_policy(policy))

    def post(self, body: Mapping[str, Any]) -> Answered:
        raw = json.dumps(body).encode()
        answer = self._ask(raw) if self._rewriter is None else self._rewritten(self._rewriter, raw)
        if answer.status != 200:
            self.refused += 1
            return Answered(answer.status, None, 0.0)
        if answer.events is not None:
            return Answered(200, assembled(SseParser().feed(b"".join(answer.events))), 0.0)
        return Answered(200, answer.json["content"], 0.0)

    def _ask(self, raw: bytes) -> Answer:
        answer = self.provider.answer([*self.headers.items()], raw, self._clock())
        if answer.status == 200:
            self.sent.append(Sent(raw, self._clock(), answer.exchange))
        return answer

    def _rewritten(self, rewriter: Conversations, raw: bytes) -> Answer:
        named = tuple((name.encode(), value.encode()) for name, value in self.headers.items())
        prepared = rewriter.prepare(
            Incoming(
                "POST", "/v1/messages", "", named, raw, "anthropic", "anthropic", self._clock(), "anthropic"
            )
        )
        answer = self._ask(prepared.body)
        retried = answer.status == 400 and prepared.fallback is not None
        if retried:
            assert prepared.fallback is not None
            answer = self._ask(prepared.fallback)
        if prepared.commit:
            reader = READERS["anthropic"]()
            if answer.events is not None:
                for event in SseParser().feed(b"".join(answer.events)):
                    reader.event(event)
            else:
                reader.document(answer.body)
            name = "ok" if answer.status == 200 else "refused"
            rewriter.settle(
                prepared,
                Outcome(name, answer.status, None, reader.answer(), retried and answer.status == 200),
            )
        return answer

    def close(self) -> None:
        """Nothing is open."""


def played(session: Disposition, policy: str, turns: int) -> Through:
    """A session of so many turns under a policy, with a provider of its own."""
    clock = Clock(BEGINS, frozen=True)
    through = Through(Provider(Settings(binding="error", keep_bodies=False), model), clock, session, policy)
    agent = CodingAgent(session, through, clock)  # type: ignore[arg-type]  # post and close is all it asks of a wire
    for _ in range(turns):
        clock.advance(agent.pause)
        agent.turn()
    return through


# -- what could have been ----------------------------------------------------------------------------------


class Landscape(Struct, frozen=True):
    """A session as sent, for `schedule`: its course, and for each item where it stands in the bodies."""

    course: Course
    paths: tuple[str, ...]


def landscape(sent: Sequence[Sent]) -> Landscape | None:
    """None where a request is no continuation of the one before: there is no one row of items then."""
    facts = models.find(sent[-1].exchange.model)
    rows = [[p for p in prompt(one.body, model=facts) if not p.is_parameters] for one in sent]
    ends = [len(row) for row in rows]
    for row, after in zip(rows, rows[1:], strict=False):
        if [p.key for p in row] != [p.key for p in after[: len(row)]]:
            return None
    body = orjson.loads(sent[-1].body)
    windows = load_policy("default").choose("anthropic", "", facts.name).stages.stale
    assert isinstance(windows, stale.Config)
    calls = {b["id"]: b for m in body["messages"] for b in _blocks(m) if b["type"] == "tool_use"}
    shelves: dict[str, list[Seen]] = {}
    places: dict[int, int] = {}
    items: list[Item] = []
    for at, position in enumerate(rows[-1]):
        arrives = next(turn for turn, end in enumerate(ends) if at < end)
        items.append(Item(arrives, position.tokens))
        if position.kind == "thinking" and facts.checks_prefix:
            items[-1] = Item(arrives, position.tokens, position.tokens, arrives + 1, alone=False)
        if position.kind == "tool_result":
            block = _block(body, position.path)
            seen = _seen(block, calls[block["tool_use_id"]], arrives)
            shelves.setdefault(seen.call.name, []).append(seen)
            places[id(seen.result)] = at
    left = _left_tokens(facts)
    for seen, turn in stale.leaving(Survey(shelves, 0, []), windows, Agents.load().generic):
        at = places[id(seen.result)]
        items[at] = Item(items[at].arrives, items[at].tokens, max(0, items[at].tokens - left), turn)
    return Landscape(
        Course(tuple(items), len(sent), _breaks(sent, rows), facts.read, facts.write_5m),
        tuple(position.path for position in rows[-1]),
    )


def _seen(block: dict[str, Any], call: dict[str, Any], arrives: int) -> Seen:
    content = orjson.dumps(block.get("content", ""))
    result = ToolResult(
        call_id=call["id"], content=content, is_error=bool(block.get("is_error")), size=len(content)
    )
    return Seen(
        result, ToolCall(id=call["id"], name=call["name"], input=orjson.dumps(call["input"])), 0, arrives
    )


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _block(body: Mapping[str, Any], path: str) -> dict[str, Any]:
    _, at, _, nth = path.split(".")
    return _blocks(body["messages"][int(at)])[int(nth)]


def _left_tokens(facts: Any) -> int:
    block = {"type": "tool_result", "tool_use_id": "toolu_0123456789abcdef01234567", "content": LEFT}
    return prompt({"model": facts.name, "messages": [{"role": "user", "content": [block]}]}, model=facts)[
        -1
    ].tokens


def _breaks(sent: Sequence[Sent], rows: Sequence[Sequence[Any]]) -> dict[int, int]:
    """Turns in which nothing, or only the beginning, was still cached, though nothing was changed."""
    found: dict[int, int] = {}
    for turn in range(1, len(sent)):
        gone = sent[turn].at - sent[turn - 1].at >= LIFETIME
        short = sent[turn].exchange.read < sum(p.tokens for p in rows[turn - 1]) * 0.5
        if gone or short:
            read, kept = sent[turn].exchange.read, 0
            while read > 0 and kept < len(rows[turn]):
                read -= rows[turn][kept].tokens
                kept += 1
            found[turn] = kept
    return found


def charged(path: Through, land: Landscape, schedule: Schedule) -> float:
    """What the provider charges for the requests of a session with the results of a schedule left out."""
    sent = path.sent
    provider = Provider(Settings(keep_bodies=False), model)
    provider.memory = path.provider.memory  # the signatures are those of the session that was played
    gone: set[str] = set()
    spent = 0.0
    for turn, one in enumerate(sent):
        if turn in schedule:
            gone |= {
                land.paths[at]
                for at, item in enumerate(land.course.items)
                if at >= schedule[turn] and item.saves and item.stale <= turn
            }
        body = orjson.loads(one.body)
        for at, message in enumerate(body["messages"]):
            blocks = _blocks(message)
            for nth, block in enumerate(blocks):
                if block["type"] == "tool_result" and f"messages.{at}.content.{nth}" in gone:
                    block["content"] = LEFT
            if any(path.startswith(f"messages.{at}.") for path in gone):
                message["content"] = [
                    block
                    for nth, block in enumerate(blocks)
                    if block["type"] != "thinking" or f"messages.{at}.content.{nth}" not in gone
                ]
        answer = provider.answer([*path.headers.items()], orjson.dumps(body), one.at)
        if answer.status != 200:
            raise RuntimeError(answer.exchange.error)
        spent += answer.exchange.cost
    return spent


# -- tables -------------------------------------------------------------------------------------------------


def demo(turns: int, numbers: dict[str, Any]) -> Table:
    table = Table(
        f"Sessions of {turns} turns: cost in base input tokens", ("session, policy", "refused", "prompt", "cached", "cost", "of direct", "of hindsight"),
        "cost: of all prompts, by the provider's count. Hindsight and window: careful with results left out in the best turns, and as soon as they are stale, by the windows of default (frugal has narrower ones); where the model checks prefixes, with the thinking behind them left out too. No comparison with a direct session that was refused: it is stuck.",
    )  # fmt: skip
    for session in SESSIONS:
        paths = {policy: played(session, policy, turns) for policy in POLICIES}
        costs = {policy: sum(one.exchange.cost for one in path.sent) for policy, path in paths.items()}
        careful = paths["careful"]
        land = landscape(careful.sent)
        if land is not None:
            best = hindsight(land.course)
            costs["hindsight"] = charged(careful, land, best)
            costs["window"] = charged(careful, land, decided(land.course, window)[1])
            numbers.setdefault("model", {})[session.name] = {
                "careful": cost(land.course, {}), "hindsight": cost(land.course, best), "batches": {str(k): v for k, v in best.items()},
            }  # fmt: skip
        stuck = paths["direct"].refused > 0
        for name, spent in costs.items():
            path = paths.get(name)
            total = sum(one.exchange.usage.total for one in path.sent) if path else 0
            read = sum(one.exchange.read for one in path.sent) if path else 0
            row = (
                path.refused if path else 0, total or "", f"{read / total:.1%}" if total else "", round(spent),
                "" if stuck else f"{spent / costs['direct']:.2f}", f"{spent / costs['hindsight']:.2f}" if "hindsight" in costs else "",
            )  # fmt: skip
            numbers.setdefault("demo", {}).setdefault(session.name, {})[name] = {
                "cost": spent,
                "refused": row[0],
                "prompt": total,
                "read": read,
            }
            table.add(f"{session.name}, {name}", *row)
    return table


def course(turns: int, pauses: float, read: float, seed: int) -> Course:
    """A random session as in the module's prose."""
    chance = random.Random(seed)
    items = [Item(0, 20_000)]
    breaks: dict[int, int] = {}
    for turn in range(turns):
        size = max(51, int(chance.expovariate(1 / 2000)))
        items += (Item(turn, 100), Item(turn, size, size - 50, turn + 8))
        if turn and chance.random() < pauses:
            breaks[turn] = 0
    return Course(tuple(items), turns, breaks, read)


def long(quick: bool, numbers: dict[str, Any]) -> Table:
    table = Table(
        "Longer sessions, by the model: cost as a share of clearing nothing",
        ("turns, pauses, read price", "window", "rule", "hindsight", "rule / best"),
        "pauses: share of turns after a pause longer than the cache lives. rule: `proxy.economics`. Mean over random sessions.",
    )
    for turns in (40, 150) if quick else (40, 150, 300):
        for pauses in (0.0, 0.06):
            for read in (0.1, 0.05):
                shares: list[tuple[float, float, float]] = []
                for seed in range(2 if quick else 6):
                    one = course(turns, pauses, read, seed)
                    whole = decided(one, leave)[0]
                    shares.append(
                        (
                            decided(one, window)[0] / whole,
                            decided(one, rule(one))[0] / whole,
                            cost(one, hindsight(one)) / whole,
                        )
                    )
                naive, ruled, best = (mean(column) for column in zip(*shares, strict=True))
                numbers.setdefault("long", {})[f"{turns}.{pauses}.{read}"] = {
                    "window": naive,
                    "rule": ruled,
                    "hindsight": best,
                }
                table.add(f"{turns}, {pauses:.0%}, {read}", naive, ruled, best, f"{ruled / best:.3f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter sessions, nothing written")
    given = parser.parse_args()
    numbers: dict[str, Any] = {}
    tables = [demo(TURNS, numbers), long(given.quick, numbers)]
    save("sessions", tables, numbers, quick=given.quick)


if __name__ == "__main__":
    main()
