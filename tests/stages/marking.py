"""A client's requests through reading, the ledger and the breakpoints stage, with the real parts of each."""

from __future__ import annotations

from typing import Any

import orjson

from proxy.agents import Agent
from proxy.dialects.anthropic import Anthropic
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.policy import Policy, Stages
from proxy.rewrite import Rewrite, rewrite
from proxy.simulator.cache import PromptCache
from proxy.simulator.models import find
from proxy.simulator.render import prompt
from proxy.simulator.usage import Usage
from proxy.stages import Facts
from proxy.stages.breakpoints import Config

Json = dict[str, Any]

MODEL = "claude-opus-5-5"
MODELS = Models.load()
DIALECT = Anthropic()
EPHEMERAL = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
LONG = "Look after the greenhouse. " * 200
"""Longer than the minimum of the model."""


def text(words: str, **members: Any) -> Json:
    return {"type": "text", "text": words, **members}


def call(name: str, **members: Any) -> Json:
    return {"type": "tool_use", "id": name, "name": "read", "input": {"path": f"{name}.py"}, **members}


def result(name: str, content: Any = "fine", **members: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": content, **members}


def thought(words: str, **members: Any) -> Json:
    return {"type": "thinking", "thinking": words, "signature": "c2ln", **members}


def user(*content: Json | str) -> Json:
    return {
        "role": "user",
        "content": content[0] if content and isinstance(content[0], str) else list(content),
    }


def answer(*content: Json | str) -> Json:
    return {**user(*content), "role": "assistant"}


def tool(name: str, **members: Any) -> Json:
    return {"name": name, "input_schema": {"type": "object"}, **members}


def body(*messages: Json, system: Any = LONG, tools: tuple[Json, ...] | None = (), **members: Any) -> Json:
    made: Json = {"model": MODEL, "max_tokens": 100, "system": system, "messages": list(messages), **members}
    if tools is not None:
        made["tools"] = list(tools or (tool("read"), tool("run")))
    return made


def where(made: Json) -> dict[str, str | None]:
    """Each marked block of a body and the TTL spelt there."""
    found: dict[str, str | None] = {}

    def look(path: str, blocks: Any) -> None:
        for at, block in enumerate(blocks if isinstance(blocks, list) else ()):
            if isinstance(block, dict) and block.get("cache_control"):
                found[f"{path}.{at}"] = block["cache_control"].get("ttl")
            if isinstance(block, dict) and block.get("type") == "tool_result":
                look(f"{path}.{at}", block.get("content"))

    look("tools", made.get("tools"))
    look("system", made.get("system"))
    for at, message in enumerate(made["messages"]):
        look(f"messages.{at}", message["content"])
    return found


def unmarked(made: Json) -> Json:
    """The body without marks, strings as blocks: what the model reads."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {key: bare(inner) for key, inner in value.items() if key != "cache_control"}
            if isinstance(kept.get("content"), str) and "role" in kept:
                kept["content"] = [text(kept["content"])]
            if isinstance(kept.get("system"), str):
                kept["system"] = [text(kept["system"])]
            return kept
        return [bare(inner) for inner in value] if isinstance(value, list) else value

    return bare(made)  # type: ignore[no-any-return]


class Session:
    """One client's conversation behind a proxy that only sets marks, and the provider's cache behind that."""

    def __init__(
        self,
        config: Config | None = None,
        *,
        agent: Agent | None = None,
        profile: str = "anthropic",
        **stages: Any,
    ) -> None:
        self.policy = Policy(name="marks", stages=Stages(breakpoints=config or Config(), **stages))
        self.agent = agent or Agent()
        self.profile = profile
        self.ledger = Ledger()
        self.cache = PromptCache()
        self.now = 1000.0

    def rewrite(self, made: Json) -> Rewrite:
        """The request as it would leave; nothing is remembered."""
        facts = Facts(
            now=self.now,
            tenant=b"tenant",
            model=MODELS.facts(self.profile, made["model"]),
            upstream=self.profile,
            session="session",
            agent=self.agent,
            strict=True,
        )
        return rewrite(orjson.dumps(made), DIALECT, self.policy, self.ledger, facts)

    def mark(self, made: Json) -> Json:
        """The body with the stage's marks; nothing is remembered."""
        return orjson.loads(self.rewrite(made).body)  # type: ignore[no-any-return]

    def send(self, made: Json, after: float = 10.0) -> tuple[Json, Usage]:
        """Mark the body, send it, have it answered: the body as sent, and the provider's usage."""
        self.now += after
        done = self.rewrite(made)
        assert done.commit is not None
        ticket = self.ledger.commit(done.commit)
        sent = orjson.loads(done.body)
        usage = self.provider(sent)
        self.ledger.settle(ticket, None, (), success=True)
        return sent, usage

    def provider(self, sent: Json) -> Usage:
        """What the provider's cache makes of a body."""
        model = find(MODEL)
        assert model is not None
        lookup = self.cache.lookup(("account",), prompt(sent, model=model), model.min_prefix, self.now)
        self.cache.begin(lookup)
        return lookup.usage


def tokens(sent: Json, path: str) -> int:
    """Tokens of the prompt up to and with the block at `path` of the body."""
    total = 0
    for position in prompt(sent, model=find(MODEL)):
        total += position.tokens
        if position.path == path:
            return total
    raise AssertionError(path)
