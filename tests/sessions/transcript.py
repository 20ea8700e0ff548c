"""A coding session, told as a transcript: a client with its history, the rewrite, and a provider that checks.

The client keeps its history as it likes. Each `send` rewrites the body, posts what came out to the embedded
provider, tells the ledger how it went, and checks what holds of every turn: the provider took it, and where what
was sent does not begin with what was sent before, either a committed edit of this turn or the client's own change
says why.
"""

import copy
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct, structs

from proxy.agents import Agent, Agents
from proxy.answer import AnthropicReader
from proxy.dialects.anthropic import Anthropic
from proxy.edits import Edit
from proxy.ledger import Ledger, Ticket
from proxy.models import Models
from proxy.policy import Policies, load_policy
from proxy.rewrite import Rewrite, rewrite
from proxy.simulator import Ask, Call, Canned, Provider, Reply, Say, Settings, Think, divergence
from proxy.simulator.exchange import Exchange
from proxy.stages import Facts

PLAIN, CHECKED = "claude-sonnet-4-5", "claude-opus-5-5"
BOTH = (PLAIN, CHECKED)

MONDAY = 1_764_547_200.0
"""Monday, 1 December 2025, 00:00 UTC."""
DAY = 86_400.0

MODELS = Models.load()
AGENTS = Agents.load()
DIALECT = Anthropic()

SYSTEM = "You look after a small greenhouse: its pump, its fan and its lamp.\n" + "".join(
    f"Rule {number}: read a file before you change it, and say what you changed in one line.\n"
    for number in range(80)
)
TOOLS = [
    {
        "name": name,
        "description": f"{name.title()} something in the greenhouse.",
        "input_schema": {
            "type": "object",
            "properties": {argument: {"type": "string"}},
            "required": [argument],
        },
    }
    for name, argument in (("read", "path"), ("run", "cmd"))
]


def read(ident: str, path: str = "") -> Call:
    """The model reads a file."""
    return Call("read", {"path": path or f"{ident}.py"}, ident)


def long(words: str, size: int = 4000) -> str:
    """A long tool result that says `words`."""
    return (f"{words}\n" * (size // (len(words) + 1) + 1))[:size]


class World:
    """What several clients of one proxy share: its ledger, its provider, its policies and the time."""

    def __init__(self, policy: str | Path = "careful", *, now: float = MONDAY) -> None:
        self.ledger = Ledger()
        self.provider = Provider(Settings(binding="error"))
        self.policies: Policies = load_policy(policy)
        self.now = now


class Sent(Struct, frozen=True, kw_only=True):
    """One request and its answer.

    `broke`: where what was sent does not go on from what was sent before; `named`: who says that it was them.
    `fell_back`: the provider refused the body, and took the fallback.
    """

    rewrite: Rewrite
    exchange: Exchange
    answer: dict[str, Any]
    broke: str | None = None
    named: str = ""
    fell_back: bool = False

    @property
    def status(self) -> int:
        return self.exchange.status

    @property
    def error(self) -> str | None:
        return self.exchange.error

    @property
    def body(self) -> dict[str, Any]:
        return orjson.loads(self.rewrite.fallback if self.fell_back else self.rewrite.body)

    @property
    def cached(self) -> int:
        """Tokens of the prompt that came from the cache."""
        return self.exchange.read

    @property
    def edits(self) -> tuple[Edit, ...]:
        return self.rewrite.edits

    @property
    def committed(self) -> tuple[Edit, ...]:
        return tuple(edit for edit in self.edits if edit.committed)

    def reasons(self, stage: str) -> list[str]:
        """What this stage said about its edits."""
        return [edit.reason for edit in self.edits if edit.stage == stage]


class Flight(Struct, frozen=True, kw_only=True):
    """A request that has left and has no answer yet."""

    client: bytes
    rewrite: Rewrite
    ticket: Ticket | None


class Transcript:
    """One client in its world. Set members, then `send`; `user`, `results` and `model` say what comes next."""

    def __init__(
        self,
        world: World,
        model: str = PLAIN,
        *,
        system: Any = SYSTEM,
        agent: str = "",
        session: str = "",
        thinking: bool = True,
        marks: bool = False,
        upstream: str = "anthropic",
    ) -> None:
        self.world = world
        self.model_name = model
        self.system = system
        self.agent: Agent = next((a for a in AGENTS.known if a.name == agent), AGENTS.generic)
        self.session = session
        self.thinking = thinking
        self.marks = marks
        self.upstream = upstream
        self.tools = TOOLS
        self.messages: list[dict[str, Any]] = []
        self.sent: list[Sent] = []
        self._next: Reply | None = None
        self._before: tuple[bytes, bytes] | None = None

    # -- what is said -------------------------------------------------------------------------------------

    def user(self, *content: Any) -> "Transcript":
        """The person speaks: texts, or blocks as they are. Behind tool results it is the same message."""
        made = [{"type": "text", "text": item} if isinstance(item, str) else item for item in content]
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"] = [*_blocks(self.messages[-1]), *made]
        else:
            whole = content[0] if len(content) == 1 and isinstance(content[0], str) else made
            self.messages.append({"role": "user", "content": whole})
        return self

    def results(self, found: dict[str, str]) -> "Transcript":
        """Tools return, by call id."""
        made = [
            {"type": "tool_result", "tool_use_id": ident, "content": said} for ident, said in found.items()
        ]
        return self.user(*made)

    def model(self, *said: str | Call, thinks: bool = True) -> "Transcript":
        """What the model answers next: texts and calls, behind a thought where the request asks for it."""
        blocks = [Say(item) if isinstance(item, str) else item for item in said]
        names = "-".join(item if isinstance(item, str) else item.id or item.name for item in said)
        thought = (Think(f"What comes of it ({names})."),) if thinks and self.thinking else ()
        self._next = Reply(blocks=(*thought, *blocks))
        return self

    def clock(self, seconds: float) -> "Transcript":
        """Time passes."""
        self.world.now += seconds
        return self

    def here(self) -> int:
        """A place in the history to rewind to."""
        return len(self.messages)

    def rewind(self, place: int) -> "Transcript":
        """The client takes back everything behind a place."""
        del self.messages[place:]
        return self

    def fork(self, place: int | None = None) -> "Transcript":
        """Another client that goes on from a place of this one's history."""
        other = copy.copy(self)
        other.messages = copy.deepcopy(self.messages[:place])
        other.sent, other._before = list(self.sent), self._before
        return other

    # -- what is sent -------------------------------------------------------------------------------------

    def body(self) -> dict[str, Any]:
        """The request as the client builds it."""
        adaptive = not self.model_name.startswith(PLAIN) and "haiku" not in self.model_name
        thinking = {"type": "adaptive"} if adaptive else {"type": "enabled", "budget_tokens": 2048}
        return {
            "model": self.model_name,
            "max_tokens": 8192,
            **({"thinking": thinking} if self.thinking else {}),
            "tools": self.tools,
            "system": self.system,
            "messages": self._marked() if self.marks else self.messages,
        }

    def _marked(self) -> list[dict[str, Any]]:
        """The history with a mark on its newest block, as Claude Code sets it."""
        *before, last = self.messages
        *blocks, newest = _blocks(last)
        return [*before, last | {"content": [*blocks, newest | {"cache_control": {"type": "ephemeral"}}]}]

    def facts(self, *, strict: bool = True) -> Facts:
        """What the world says about the next request."""
        return Facts(
            now=self.world.now,
            tenant=b"greenhouse",
            model=MODELS.facts(self.upstream, self.model_name),
            upstream=self.upstream,
            session=self.session,
            agent=self.agent,
            strict=strict,
        )

    def rewritten(self, ledger: Ledger | None = None) -> tuple[bytes, Rewrite]:
        """The client's bytes, and what the proxy would send for them."""
        body = orjson.dumps(self.body())
        policy = self.world.policies.choose(self.upstream, self.agent.name, self.model_name)
        return body, rewrite(body, DIALECT, policy, ledger or self.world.ledger, self.facts())

    def leave(self, ledger: Ledger | None = None) -> Flight:
        """The request leaves; its answer is still to come."""
        client, made = self.rewritten(ledger)
        assert made.broken == ""
        target = ledger or self.world.ledger
        target.keep_policy(made.policy.digest, made.policy.encoded)
        return Flight(client=client, rewrite=made, ticket=target.commit(made.commit) if made.commit else None)

    def arrive(self, flight: Flight, *, raw: bool = False, ledger: Ledger | None = None) -> Sent:
        """The answer comes. `raw`: the client's own bytes were sent, and the rewrite only looked on."""
        body, fallback = flight.client if raw else flight.rewrite.body, flight.rewrite.fallback
        exchange, answer = self._post(body)
        fell_back = exchange.status == 400 and not raw and fallback is not flight.rewrite.body
        if fell_back:
            body = fallback
            exchange, answer = self._post(body)
        self._settle(flight, exchange, answer, ledger or self.world.ledger, fell_back=fell_back)
        sent = structs.replace(self._judged(flight, body, exchange, answer), fell_back=fell_back)
        self.sent.append(sent)
        self._next = None
        if exchange.status == 200:
            self._before = (flight.client, body)
            self.messages.append({"role": "assistant", "content": answer["content"]})
        return sent

    def _settle(
        self, flight: Flight, exchange: Exchange, answer: dict[str, Any], ledger: Ledger, *, fell_back: bool
    ) -> None:
        if flight.ticket is None:
            return
        if fell_back and exchange.status == 200:
            ledger.abandon(flight.ticket)
            return
        reader = AnthropicReader()
        reader.document(orjson.dumps(answer))
        seen = reader.answer()
        ledger.settle(flight.ticket, seen.usage, seen.call_ids, success=exchange.status == 200)

    def send(self, *, may_fall_back: bool = False) -> Sent:
        """Through the proxy. Whatever breaks the prefix must have a name, and nothing may be refused."""
        sent = self.arrive(self.leave())
        assert sent.error is None, f"refused: {sent.error}"
        assert may_fall_back or not sent.fell_back, "the provider refused what the rewrite made"
        assert sent.broke is None or sent.named, f"nobody says why the prefix breaks at {sent.broke}"
        return sent

    def fails(self, status: int = 529) -> Sent:
        """Through the proxy, but the provider does not take it now."""
        self.world.provider.canned.append(Canned.error(status, "Overloaded"))
        return self.arrive(self.leave())

    def observe(self, ledger: Ledger) -> Sent:
        """The client's own bytes go out; the rewrite looks on, with a ledger of its own."""
        sent = self.arrive(self.leave(ledger), raw=True, ledger=ledger)
        assert sent.error is None, f"refused: {sent.error}"
        return sent

    def past(self) -> dict[str, Any]:
        """Past the proxy: the client's own bytes go to the provider, and nobody looks on."""
        body = orjson.dumps(self.body())
        exchange, answer = self._post(body)
        assert exchange.error is None, f"refused: {exchange.error}"
        self.messages.append({"role": "assistant", "content": answer["content"]})
        self._before, self._next = (body, body), None
        return answer

    def _post(self, body: bytes) -> tuple[Exchange, dict[str, Any]]:
        provider, said = self.world.provider, self._next
        provider.script = lambda ask: said or _nod(ask)
        headers = [("anthropic-version", "2023-06-01"), ("x-api-key", f"sk-{self.upstream}")]
        answered = provider.answer(headers, body, self.world.now)
        return answered.exchange, answered.json

    def _judged(self, flight: Flight, body: bytes, exchange: Exchange, answer: dict[str, Any]) -> Sent:
        if self._before is None:
            return Sent(rewrite=flight.rewrite, exchange=exchange, answer=answer)
        client, sent = self._before
        broke = divergence(sent, body)
        theirs = divergence(client, flight.client)
        known = {edit.target for one in self.sent[-1:] for edit in one.committed}
        ours = any(edit.committed and edit.target not in known for edit in flight.rewrite.edits)
        named = [f"client: {theirs}"] * bool(theirs) + ["a batch"] * ours
        return Sent(
            rewrite=flight.rewrite, exchange=exchange, answer=answer, broke=broke, named=", ".join(named)
        )

    # -- looking ------------------------------------------------------------------------------------------

    def result(self, ident: str, sent: Sent | None = None) -> Any:
        """What the last request sent as the result of a call; None where it sent none."""
        for message in (sent or self.sent[-1]).body["messages"]:
            for block in _blocks(message):
                if block.get("tool_use_id") == ident:
                    return block["content"]
        return None

    # -- what clients do to their history ------------------------------------------------------------------

    def strips_thinking(self) -> "Transcript":
        """The client sends no thinking back from now on."""
        for message in self.messages:
            if message["role"] == "assistant":
                message["content"] = [b for b in _blocks(message) if b["type"] != "thinking"]
        return self

    def clears(self, *idents: str, text: str = "[old result]") -> "Transcript":
        """The client itself shortens results it thinks are old."""
        for message in self.messages:
            for block in _blocks(message):
                if block.get("tool_use_id") in idents:
                    block["content"] = text
        return self

    def compacts(self, summary: str) -> "Transcript":
        """The client replaces its history by a summary."""
        self.messages = [{"role": "user", "content": summary}]
        return self


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _nod(ask: Ask) -> Reply:
    return Reply(blocks=(Say("Understood."),))


def texts(body: dict[str, Any]) -> str:
    """All texts of the turns, for looking for words."""
    return "\n".join(block.get("text", "") for message in body["messages"] for block in _blocks(message))


def policy_file(folder: Path, text: str, name: str = "policy.yaml") -> Path:
    """A policy of this test's own."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


EAGER = """
name: eager
extends: careful
stale: {keep: 1, min_bytes: 512, min_batch_bytes: 0}
"""
"""Clears every result but a tool's newest, as soon as that pays."""
