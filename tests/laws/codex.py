"""Sessions in the shape of Codex through the rewrite to the embedded Responses API, and what goes wrong in them.

The client keeps a flat list of items and sends all of it each time. What it loses, repeats or gets too late is drawn
from a seed, so that a session can be played again; the provider refuses what does not belong together.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import orjson
from msgspec import Struct

from proxy.dialects import DIALECTS
from proxy.ledger import Ledger, Ticket
from proxy.models import Models
from proxy.policy import load_policy
from proxy.rawjson import items, members
from proxy.rewrite import Rewrite, rewrite
from proxy.simulator.responses import ResponsesProvider
from proxy.simulator.responses.codex import Codex, Shape, explorer
from proxy.stages import Facts
from proxy.usage import openai_responses_usage

DIALECT = DIALECTS["openai_responses"]
MODELS = Models.load()
HEADERS = (("authorization", "Bearer sk-test"), ("content-type", "application/json"))

Item = dict[str, Any]
FAULTS = (
    "lose",
    "lose_all",
    "late",
    "twice",
    "otherwise",
    "orphan",
    "copy",
    "double",
    "cut_off",
    "steer",
    "note",
    "search",
    "shuffle",
    "nameless",
    "long_id",
    "respell",
)


class Sent(Struct):
    """One request: what the client wrote, what the rewrite made of it, and the provider's answer."""

    body: bytes
    made: Rewrite
    status: int
    answer: Item


class World:
    """A ledger, a provider, and the requests in their order. `between` may put another ledger in its place."""

    def __init__(
        self,
        policy: str,
        *,
        ledger: Ledger | None = None,
        between: Callable[[Ledger], Ledger] = lambda one: one,
    ) -> None:
        self.policies = load_policy(policy)
        self.ledger = ledger or Ledger()
        self.between = between
        self.provider = ResponsesProvider()
        self.now = 0.0
        self.sent: list[Sent] = []

    def facts(self, model: str) -> Facts:
        return Facts(
            now=self.now,
            tenant=b"tenant",
            model=MODELS.facts("openai", model, "openai_responses"),
            upstream="openai",
            session="session",
            strict=True,
        )

    def send(self, body: bytes, model: str) -> Sent:
        """Rewrite and commit a request, ask the provider, and settle its answer."""
        self.now += 5
        self.ledger = self.between(self.ledger)
        facts = self.facts(model)
        policy = self.policies.choose("openai", "", facts.model.model)
        made = rewrite(body, DIALECT, policy, self.ledger, facts)
        ticket: Ticket | None = None
        if made.commit is not None:
            self.ledger.keep_policy(made.policy.digest, made.policy.encoded)
            ticket = self.ledger.commit(made.commit)
        told = self.provider.answer(HEADERS, made.body, self.now)
        answer = orjson.loads(told.body)
        if ticket is not None:
            usage = openai_responses_usage(answer["usage"]) if told.status == 200 else None
            calls = tuple(item["call_id"] for item in answer.get("output", ()) if "call_id" in item)
            self.ledger.settle(ticket, usage, calls, success=told.status == 200)
        self.sent.append(Sent(body, made, told.status, answer))
        return self.sent[-1]


def play(world: World, seed: int, faults: frozenset[str], turns: int = 12, bytes_: int = 500) -> None:
    """A session of some turns; it ends early where the provider refuses a request."""
    draw = random.Random(seed)
    model = draw.choice(("gpt-5.5", "gpt-6.1-sol"))
    client = Codex(
        Shape(seed=seed, model=model),
        lambda call: f"{call['call_id']} " + "x " * (bytes_ // 2),
        keep=Keeper(draw, faults),
    )
    world.provider.script = explorer([f"f{at}.py" for at in range(4)], turns=turns)
    for ask in range(2):
        client.ask(f"do {ask}")
        going = True
        while going and len(world.sent) < turns + 2:
            body = orjson.dumps({**client.body(), "stream": False})
            sent = world.send(respelt(body, draw) if "respell" in faults else body, model)
            if sent.status != 200:
                return
            going = client.take(sent.answer["output"])


class Keeper:
    """What the client keeps of each turn, with what goes wrong on the way."""

    def __init__(self, draw: random.Random, faults: frozenset[str]) -> None:
        self.draw = draw
        self.faults = sorted(faults - {"respell"})
        self.held: list[Item] = []

    def __call__(self, new: list[Item]) -> list[Item]:
        for fault in self.faults:
            if self.draw.random() < 0.3 and new:
                new = self.spoilt([*new], fault)
        return new

    def spoilt(self, new: list[Item], fault: str) -> list[Item]:  # noqa: C901  one case for each fault
        outputs = [item for item in new if item["type"].endswith("_output")]
        anywhere = self.draw.randrange(len(new) + 1)
        match fault:
            case "lose" if outputs:
                self.held.append(self.draw.choice(outputs))
                return [item for item in new if item is not self.held[-1]]
            case "lose_all":
                return [item for item in new if item not in outputs]
            case "late" if self.held:
                return [*new, self.held.pop()]
            case "twice" if outputs:
                return [*new, {**self.draw.choice(outputs), "id": None}]
            case "otherwise" if outputs:
                return [*new, {**self.draw.choice(outputs), "id": None, "output": "other"}]
            case "orphan":
                said = [
                    {"type": "input_text", "text": "o"},
                    {"type": "input_image", "image_url": "https://x/y"},
                ]
                name = f"ghost{self.draw.randrange(10**6)}"
                return [*new, {"type": "function_call_output", "call_id": name, "output": said}]
            case "copy":
                return [*new, self.draw.choice(new)]
            case "double":
                return new + new
            case "cut_off":
                thoughts = [item for item in new if item["type"] == "reasoning"]
                return thoughts[:1] or new
            case "steer":
                return [*new[:anywhere], self.message("user"), *new[anywhere:]]
            case "note":
                return [*new[:anywhere], self.message("developer"), *new[anywhere:]]
            case "search":
                name = f"ws_{self.draw.randrange(10**9)}"
                search = {"type": "web_search_call", "id": name, "status": "completed", "action": {}}
                return [*new[:anywhere], search, *new[anywhere:]]
            case "shuffle":
                rest = [item for item in new if item not in outputs]
                return [*rest, *self.draw.sample(outputs, len(outputs))]
            case "nameless":
                named = ("reasoning", "web_search_call")
                return [{k: v for k, v in item.items() if k != "id" or item["type"] in named} for item in new]
            case "long_id":
                return [
                    {**item, "call_id": f"{item['call_id']}.{'z' * 60}"} if "call_id" in item else item
                    for item in new
                ]
            case _:
                return new

    def message(self, role: str) -> Item:
        text = f"{role} {self.draw.random()}"
        return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def respelt(body: bytes, draw: random.Random) -> bytes:
    """The same request with the keys of its items in another order, and spaces between."""

    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shuffled(value[key]) for key in draw.sample(list(value), len(value))}
        return [shuffled(inner) for inner in value] if isinstance(value, list) else value

    whole = json.loads(body)
    return json.dumps({**whole, "input": shuffled(whole["input"])}, ensure_ascii=draw.random() < 0.5).encode()


def wire(body: bytes) -> list[Item]:
    """The items of a request as the model reads them, whatever the order of their keys; marks are no part of it."""
    return [
        json.loads(bytes(item), object_pairs_hook=_unmarked) for item in items(dict(members(body))["input"])
    ]


def _unmarked(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return {name: value for name, value in pairs if name != "prompt_cache_breakpoint"}
