"""A coding session behind the proxy, with the real ledger and the embedded provider: its checks, its cache."""

from __future__ import annotations

from typing import Any

import orjson
from msgspec import structs

from proxy.agents import Agent
from proxy.dialects.anthropic import Anthropic
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.policy import Policy, Stages
from proxy.rewrite import Rewrite, rewrite
from proxy.simulator import Call, Provider, Reply, Say, Settings, Think
from proxy.stages import NOBODY, Facts, Heard, balance, breakpoints, reasoning, stale
from proxy.usage import anthropic_usage

from tests.simulator.bodies import READ, RUN, result, send, text, user

Json = dict[str, Any]
MODELS = Models.load()
OPUS = "claude-opus-5-5"
"""Checks the prefix of signed thinking [A45]."""
PLAIN = "claude-opus-5"
"""Does not."""


def lines(name: str, count: int = 2_000) -> str:
    """The content of a file, about ten bytes a line."""
    return "".join(f"{name} {at:04d}\n" for at in range(count))


class Work:
    """A client at work. Each `read` and `run` is one request that brings a result and gets the next call."""

    def __init__(
        self, config: stale.Config, *, model: str = PLAIN, thinks: bool = False, **facts: Any
    ) -> None:
        self.provider = Provider(Settings(binding="error"), lambda _: self.reply)
        self.policy = Policy(
            name="test",
            stages=Stages(
                balance=balance.Config(),
                reasoning=reasoning.Config(),
                stale=config,
                breakpoints=breakpoints.Config(),
            ),
        )
        self.ledger = Ledger()
        self.model = model
        self.thinks = thinks
        self.facts = facts
        self.now = 1_000.0
        self.read = 0
        self.agent = Agent()
        self.files: dict[str, str] = {}
        self.heard: Heard | None = NOBODY
        self.messages: list[Json] = []
        self.members: Json = {"tools": [READ, RUN], "system": [text("Look after the greenhouse. " * 200)]}
        self.reply = Reply(blocks=())
        self.sent: list[Json] = []
        self.done: list[Rewrite] = []

    @property
    def last(self) -> Rewrite:
        return self.done[-1]

    def body(self) -> Json:
        return {"model": self.model, "max_tokens": 100, "messages": self.messages, **self.members}

    def rewrite(self) -> Rewrite:
        """The next request as it would leave; nothing is remembered."""
        facts = Facts(
            now=self.now,
            tenant=b"tenant",
            model=structs.replace(MODELS.facts("anthropic", self.model), **self.facts),
            upstream="anthropic",
            session="session",
            agent=self.agent,
            files=self.files,
            heard=self.heard,
            strict=True,
        )
        return rewrite(orjson.dumps(self.body()), Anthropic(), self.policy, self.ledger, facts)

    def say(
        self, *content: Json | str, wait: float = 10.0, answer: tuple[Any, ...] = (Say("Fine."),)
    ) -> Rewrite:
        """Send a message; the answer joins the history."""
        self.now += wait
        if content:
            self.messages.append(user(*content))
        thought = (Think(f"Thought {len(self.messages)}."),) if self.thinks else ()
        self.reply = Reply(blocks=(*thought, *answer))
        done = self.rewrite()
        assert done.commit is not None
        ticket = self.ledger.commit(done.commit)
        reply = send(self.provider, done.body, now=self.now)
        assert reply.status == 200, reply.json
        self.ledger.settle(ticket, anthropic_usage(reply.json["usage"]), (), success=True)
        self.messages.append({"role": "assistant", "content": reply.json["content"]})
        self.done.append(done)
        self.sent.append(orjson.loads(done.body))
        return done

    def ask(self, name: str, *words: str, tool: str = "read_file", wait: float = 10.0) -> Rewrite:
        """A person says something; the model answers with a call."""
        return self.say(*(map(text, words or ("Go on.",))), wait=wait, answer=(call(name, tool),))

    def give(
        self,
        content: Any,
        then: str | None = None,
        *,
        tool: str = "read_file",
        wait: float = 10.0,
        **members: Any,
    ) -> Rewrite:
        """The result of the call that stands open; the model answers with the next call, or in words."""
        ident = self.messages[-1]["content"][-1]["id"]
        answer = (Say("Done."),) if then is None else (call(then, tool),)
        return self.say(result(ident, content, **members), wait=wait, answer=answer)

    def reads(self, count: int, *, wait: float = 10.0, size: int = 2_000) -> None:
        """A person asks, and so many files are read one after the other, none that was read before."""
        names = [f"f{self.read + at}" for at in range(count)]
        self.read += count
        self.ask(names[0], wait=wait)
        for name, then in zip(names, [*names[1:], None], strict=True):
            self.give(lines(name, size), then, wait=wait)


def call(name: str, tool: str = "read_file") -> Call:
    return Call(tool, {"path": f"{name}.py"} if tool == "read_file" else {"cmd": name})


def results(body: Json) -> list[Any]:
    """Contents of all tool results of a body, in order."""
    return [
        block["content"]
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def is_placeholder(content: Any) -> bool:
    return isinstance(content, str) and content.startswith("[Note on this conversation: ")
