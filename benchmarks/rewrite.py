"""What a rewrite costs: CPU time per request, cold and warm, beside reading and writing the same JSON once.

    python benchmarks/rewrite.py [--quick] [--size BYTES ...] [--policy NAME ...]

*Cold*: nothing is known of the conversation. *Warm*: its next turn, an answer and results appended and the client's
cache mark moved to the new end. *Core* is `rewrite` and the ledger's commit; *all* is what the gateway does for a
request before it goes out, with report and expectations. The yardstick is `orjson.loads` and `orjson.dumps` of the
same body, taken between the turns of the same run; a ratio to it says more than milliseconds on a busy machine.
CPU time of the process; garbage is collected as it is in service. The thinking rows are of a model that checks what
its signed thoughts stand behind; the rows of other formats are the same session in their spelling.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import Any

import orjson
from report import Table, save
from spelling import PATHS, UPSTREAMS, spelt
from workload import Session, session_of

from proxy.gateway.conversations import Conversations
from proxy.gateway.exchange import Incoming, Outcome
from proxy.answer import Answer
from proxy.dialects import DIALECTS
from proxy.ledger import Ledger
from proxy.policy import load_policy
from proxy.rewrite import rewrite
from proxy.usage import Usage

SIZES = (50_000, 500_000, 1_000_000, 4_000_000)
THINKING_SIZE = 1_000_000
POLICIES = ("transparent", "careful", "default")
HEADERS = ((b"User-Agent", b"claude-cli/2.0.53 (external, cli)"), (b"X-Api-Key", b"sk-ant-bench"))
SECONDS_BETWEEN_TURNS = 20.0


def cpu(call: Any) -> tuple[float, Any]:
    """Milliseconds of CPU that a call took, and what it returned."""
    started = time.process_time_ns()
    result = call()
    return (time.process_time_ns() - started) / 1e6, result


class Core:
    """`rewrite` and commit, with facts as the gateway gathers them."""

    def __init__(self, policy: str, wire: str) -> None:
        self.policies = load_policy(policy)
        self.rewriter = Conversations(self.policies)
        self.ledger = Ledger()
        self.wire, self.dialect = wire, DIALECTS[wire]

    def turn(self, body: bytes, now: float) -> float:
        facts = self.rewriter._facts(_incoming(body, now, self.wire), self.dialect.open(body))
        policy = self.policies.choose(facts.upstream, facts.agent.name, facts.model.model)

        def work() -> Any:
            made = rewrite(body, self.dialect, policy, self.ledger, facts)
            assert made.commit is not None
            return made, self.ledger.commit(made.commit)

        spent, (made, ticket) = cpu(work)
        assert not made.broken
        self.ledger.settle(ticket, usage_of(len(made.body)), (), success=True)
        return spent


class Whole:
    """What the gateway does: prepare, and settle when the answer has ended."""

    def __init__(self, policy: str, wire: str) -> None:
        self.wire, self.rewriter = wire, Conversations(load_policy(policy))

    def turn(self, body: bytes, now: float) -> float:
        request = _incoming(body, now, self.wire)
        spent, prepared = cpu(lambda: self.rewriter.prepare(request))
        assert prepared.commit
        answered = Outcome(
            name="ok",
            status=200,
            error_type=None,
            answer=Answer(usage=usage_of(len(prepared.body))),
            retried_with_fallback=False,
        )
        settled, _ = cpu(lambda: self.rewriter.settle(prepared, answered))
        return spent + settled


def _incoming(body: bytes, now: float, wire: str) -> Incoming:
    return Incoming(
        method="POST",
        path=PATHS[wire],
        query="",
        headers=HEADERS,
        body=body,
        upstream=UPSTREAMS[wire],
        dialect=wire,
        started_at=now,
        profile=UPSTREAMS[wire],
    )


def usage_of(sent: int) -> Usage:
    """What a provider would say of a request of so many bytes: all but its newest round came from the cache."""
    prompt = sent // 4
    return Usage(prompt=prompt, uncached=3, cached=max(0, prompt - 500), written=min(500, prompt), output=200)


def yardstick(body: bytes) -> float:
    return cpu(lambda: orjson.dumps(orjson.loads(body)))[0]


def measure(
    size: int, policy: str, turns: int, colds: int, *, thinking: bool = False, wire: str = "anthropic"
) -> dict[str, Any]:
    """Medians and best values over the turns of one session, each beside the yardstick taken with it."""
    session = session_of(size, thinking=thinking)
    start = len(session.messages)
    for _ in range(turns):
        session.grow()
    bodies = [spelt(session.body(upto), wire) for upto in range(start, start + 2 * turns + 1, 2)]
    found: dict[str, list[float]] = {"orjson": [], "cold": [], "cold_all": [], "warm": [], "warm_all": []}
    for _ in range(colds):
        found["cold"].append(Core(policy, wire).turn(bodies[0], 1e9))
        found["cold_all"].append(Whole(policy, wire).turn(bodies[0], 1e9))
        found["orjson"].append(yardstick(bodies[0]))
    core, whole = Core(policy, wire), Whole(policy, wire)
    for place, body in enumerate(bodies):
        now = 1e9 + place * SECONDS_BETWEEN_TURNS
        spent = (core.turn(body, now), whole.turn(body, now))
        found["orjson"].append(yardstick(body))
        if place:
            found["warm"].append(spent[0])
            found["warm_all"].append(spent[1])
    medians = {name: statistics.median(values) for name, values in found.items()}
    return {
        "policy": f"{policy}, {'thinking' if thinking else wire}"
        if thinking or wire != "anthropic"
        else policy,
        "wire": wire,
        "bytes": len(bodies[0]),
        "blocks": session.blocks,
        "turns": turns,
        "median_ms": medians,
        "best_ms": {name: min(values) for name, values in found.items()},
        "worst_warm_ms": max(found["warm"]),
        "ratio": {name: value / medians["orjson"] for name, value in medians.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few turns, two sizes, nothing written")
    parser.add_argument("--size", type=int, nargs="*")
    parser.add_argument("--policy", nargs="*")
    chosen = parser.parse_args()
    sizes = chosen.size or ((50_000, 1_000_000) if chosen.quick else SIZES)
    turns, colds = (10, 2) if chosen.quick else (60, 7)
    table = Table(
        "CPU per request, ms (median; x: times orjson)",
        ("body, policy", "blocks", "orjson", "cold", "x", "warm", "best", "x", "worst", "warm all", "x"),
        "cold, warm: rewrite and commit; best and worst of the warm turns; all: everything the gateway does before it sends.",
    )
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    found = []
    for size in sizes:
        rows = [(policy, False, "anthropic") for policy in chosen.policy or POLICIES]
        if size == THINKING_SIZE:
            last = rows[-1][0]
            rows.append((last, True, "anthropic"))
            rows += [(last, False, wire) for wire in DIALECTS if wire != "anthropic"]
        for policy, thinking, wire in rows:
            one = measure(size, policy, turns, colds, thinking=thinking, wire=wire)
            found.append(one)
            median, ratio = one["median_ms"], one["ratio"]
            table.add(
                f"{one['bytes'] / 1e6:.2f} MB {one['policy']}",
                one["blocks"],
                median["orjson"],
                median["cold"],
                ratio["cold"],
                median["warm"],
                one["best_ms"]["warm"],
                ratio["warm"],
                one["worst_warm_ms"],
                median["warm_all"],
                ratio["warm_all"],
            )
    save("rewrite", [table], {"rows": found}, quick=chosen.quick)


if __name__ == "__main__":
    main()
