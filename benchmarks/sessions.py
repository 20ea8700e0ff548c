"""What sessions cost under each policy, and what they could have cost.

    python benchmarks/sessions.py [--quick]

The demo's sessions are played in one process, without sockets: the scripted client, the rewrite with its ledger,
the embedded provider and its cache, one clock for all. Costs are the provider's own count of each prompt in base
input tokens [B14]. Beside the policies stand two that nobody can have: *window* clears old results as soon as they
are out of their window, and *hindsight* in the best turns, knowing how the session goes on (see `schedule.py`).
Both are what `careful` sends with the results left out, charged by the same provider; their results become stale
by the windows of `default`.

The second table is about generated sessions of 40, 150 and 300 turns (`tests/sessions/spending.py`), played in the same
way for each table of prices.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct
from report import Table, save
from schedule import Course, Item, Schedule, cost, decided, hindsight, window

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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.sessions.spending import TABLES, course, shares, work  # noqa: E402
from tests.sessions.spending import played as played_work  # noqa: E402

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
    breaks = _breaks(sent, rows)
    for seen, turn in stale.leaving(Survey(shelves, 0, []), windows, Agents.load().generic, breaks):
        at = places[id(seen.result)]
        items[at] = Item(items[at].arrives, items[at].tokens, max(0, items[at].tokens - left), turn)
    return Landscape(
        Course(tuple(items), len(sent), breaks, facts.read, facts.write_5m),
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


def generated(quick: bool, numbers: dict[str, Any]) -> Table:
    table = Table(
        "Generated sessions: cost as a share of the direct one",
        ("turns, pauses, prices", "default", "at most", "frugal", "at most", "window", "best", "best, frugal"),
        "prices: of a token read from the cache and of one written to it, in units of base input: Anthropic 0.1 and 1.25, reads at 0.05, OpenAI 0.1 and 1, local 0 and 1 (prefill). "
        "pauses: about one turn in sixteen comes after the cache has expired. at most: the greatest share at any turn, where the session might have ended. "
        "window: a naive sliding window; best: the best schedule of clearing in hindsight, by a dynamic programme over turns and cuts; both with the windows of default, or of frugal, and in a model in which every prefix that was once sent can be read. "
        "What is not cleared (words, calls, errors, newest results) is the same for all.",
    )  # fmt: skip
    for turns in (40,) if quick else (40, 150, 300):
        for pauses in (False, True):
            session = work(1, turns, pauses=pauses)
            with tempfile.TemporaryDirectory() as name:
                direct = played_work(session, None, Path(name))
                for prices in TABLES:
                    spent = direct.spent(prices)
                    row: list[float] = []
                    for policy in ("default", "frugal"):
                        folder = Path(name) / policy / prices.name
                        found = [*shares(played_work(session, policy, folder, prices).spent(prices), spent)]
                        row += [found[-1], max(found)]
                    courses = [course(session, direct, policy, prices) for policy in ("default", "frugal")]
                    whole = cost(courses[0], {})
                    naive = decided(courses[0], window)[0] / whole
                    best = [cost(one, hindsight(one)) / whole for one in courses]
                    label = f"{turns}, {'pauses' if pauses else 'none'}, {prices.name}"
                    numbers.setdefault("generated", {})[label] = {
                        "direct": spent[-1],
                        "default": row[0], "default_most": row[1],
                        "frugal": row[2], "frugal_most": row[3],
                        "window": naive, "best_default": best[0], "best_frugal": best[1],
                    }  # fmt: skip
                    table.add(label, *(f"{value:.2f}" for value in (*row, naive, *best)))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter sessions, nothing written")
    given = parser.parse_args()
    numbers: dict[str, Any] = {}
    tables = [demo(TURNS, numbers), generated(given.quick, numbers)]
    save("sessions", tables, numbers, quick=given.quick)


if __name__ == "__main__":
    main()
