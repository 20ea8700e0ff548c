"""Sends a client's requests through the rewrite to the embedded provider, and keeps what happened.

The provider signs thinking and checks it, so that a rewrite that changes what was sent before is refused by somebody
who does not know our code. Everything is recorded as events, so that a session can be run again over another ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import orjson
from msgspec import Struct, structs

from proxy.agents import Agents
from proxy.answer import READERS, Signed
from proxy.errors import BodyError
from proxy.ledger import Ledger, Ticket
from proxy.models import Models
from proxy.policy import Policies, load_policy
from proxy.rawjson import Listed
from proxy.rewrite import Rewrite, rewrite
from proxy.simulator import Canned, Reply, Say
from proxy.simulator.reply import Block
from proxy.spool import Spool
from proxy.stages import Facts, Heard
from proxy.usage import Usage
from tests.laws.wires import WIRES, Wire

NARROW = str(Path(__file__).with_name("narrow.yaml"))
WINDOW = 4_000
"""Tokens that a model takes as far as the rewrite knows, under that policy, where a world has no window of its own."""

SPOOL = Spool(key=b"greenhouse", directory="/var/spool/stet", url="http://127.0.0.1:8787")
HEARD = (
    Heard(text="The pump is fine, the fan is not é."),
    Heard(fault="refused with 529"),
    Heard(text="- the pump is fine\n- the fan is not", cost=700.0),
)
"""What may come of a question to the model."""

OVERLOADED = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'


class World(Struct, frozen=True, kw_only=True):
    """Where a session takes place; `window`: tokens that the model takes, 0: as many as the shipped facts say."""

    policy: str = "careful"
    model: str = "claude-opus-4-5"
    upstream: str = "anthropic"
    agent: str = ""
    thinks: bool = False
    wire: str = "anthropic"
    window: int = 0

    @property
    def speaks(self) -> Wire:
        """The format of its bodies."""
        return WIRES[self.wire]


@cache
def models() -> Models:
    """The shipped facts about models."""
    return Models.load()


@cache
def agents() -> Agents:
    """The shipped recognisers."""
    return Agents.load()


@cache
def policies(name: str) -> Policies:
    """A shipped policy."""
    return load_policy(name)


class Forgetful(Ledger):
    """A ledger that has let go of every recent request."""

    def recall(self, name: bytes) -> tuple[()]:
        """Nothing."""
        del name
        return ()

    def opening(self, listed: Listed) -> tuple[()]:
        """Nothing."""
        del listed
        return ()


class Sent(Struct, kw_only=True):
    """One request: what the client wrote, what the rewrite made of it, what the provider said.

    `rewrite` is None where the body cannot be read. `status` and `error` are the provider's. `asked`: the question that
    was put to the model before, "" where there was none, and `refused` what the provider had against it.
    """

    body: bytes
    facts: Facts
    who: int
    rewrite: Rewrite | None
    out: bytes
    status: int = 0
    error: str | None = None
    ticket: Ticket | None = None
    asked: bytes = b""
    refused: str | None = None
    usage: Usage | None = None
    answers: tuple[str, ...] = ()
    signed: tuple[Signed, ...] = ()


class Event(Struct, frozen=True):
    """A request sent (`settled` False) or its answer known, by its place in `Driver.sent`."""

    place: int
    settled: bool


class Driver:
    """One process: a ledger, a provider, and the requests in the order they were made."""

    def __init__(self, world: World, ledger: Ledger | None = None) -> None:
        self.world = world
        self.ledger = ledger or Ledger()
        self.upstream = world.upstream
        self.sent: list[Sent] = []
        self.events: list[Event] = []
        self.provider = world.speaks.provider(world.upstream)

    def facts(self, now: float, session: str, model: str, *, full: bool = False) -> Facts:
        """What the world says about a request; `full`: nothing more can be put into the spool."""
        headers = {"user-agent": "claude-cli/2.1.114"} if self.world.agent == "claude-code" else {}
        known = models().facts(self.upstream, model, self.world.wire)
        window = self.world.window or (WINDOW if self.world.policy == NARROW else 0)
        return Facts(
            now=now,
            tenant=b"tenant",
            model=structs.replace(known, window=window) if window else known,
            upstream=self.upstream,
            session=session,
            agent=agents().of(headers),
            spool=None if full else SPOOL,
            files={"AGENTS.md": f"Water at {int(now) % 3} o'clock.\n"},
            environment={"Today's date": f"2026-11-{1 + int(now) % 2:02d}"},
            heard=None,
        )

    def send(
        self,
        body: bytes,
        answer: tuple[Block, ...],
        *,
        now: float,
        session: str,
        model: str,
        who: int = 0,
        overloaded: bool = False,
        past: bool = False,
        full: bool = False,
    ) -> Sent:
        """Rewrite a request, commit it, and ask the provider; its answer is not settled yet. `past` us it goes raw."""
        facts = self.facts(now, session, model, full=full)
        made, ticket = (None, None) if past else once(self.ledger, self.world, body, facts)
        asked, refused = b"", None
        if made is not None and made.question is not None:
            asked = made.question.body
            refused = self._asked(asked, now, model)
            facts = structs.replace(facts, heard=HEARD[len(asked) % len(HEARD)])
            made, ticket = once(self.ledger, self.world, body, facts)
        out = body if made is None else made.body
        sent = Sent(
            body=body,
            facts=facts,
            who=who,
            rewrite=made,
            out=out,
            ticket=ticket,
            asked=asked,
            refused=refused,
        )
        if overloaded:
            self.provider.canned.append(Canned(status=529, body=OVERLOADED))
        self.provider.script = lambda _: Reply(blocks=answer)
        speaks = self.world.speaks
        told = self.provider.answer(speaks.headers, out, now, speaks.path(model))
        sent.status, sent.error = told.status, told.exchange.error
        if told.status == 200:
            heard = speaks.heard(told)
            sent.usage, sent.answers, self.content = heard.usage, heard.calls, heard.content
            reader = READERS[speaks.name]()
            reader.document(told.body)
            sent.signed = reader.answer().signed
        self.events.append(Event(len(self.sent), False))
        self.sent.append(sent)
        return sent

    def _asked(self, question: bytes, now: float, model: str) -> str | None:
        """What the provider has against a question."""
        self.provider.script = lambda _: Reply(blocks=(Say("The pump is fine."),))
        told = self.provider.answer(self.world.speaks.headers, question, now, self.world.speaks.path(model))
        return None if told.status == 200 else told.exchange.error or f"{told.status}"

    def settle(self, sent: Sent) -> None:
        """Tell the ledger how a request went."""
        self.events.append(Event(next(at for at, one in enumerate(self.sent) if one is sent), True))
        settle(self.ledger, sent, sent.ticket)


def once(ledger: Ledger, world: World, body: bytes, facts: Facts) -> tuple[Rewrite | None, Ticket | None]:
    """Rewrite one body and commit what is to be remembered."""
    policy = policies(world.policy).choose(facts.upstream, facts.agent.name, facts.model.model)
    try:
        made = rewrite(body, world.speaks.dialect, policy, ledger, facts)
    except BodyError:
        return None, None
    if made.commit is None:
        return made, None
    ledger.keep_policy(made.policy.digest, made.policy.encoded)
    return made, ledger.commit(made.commit)


def settle(ledger: Ledger, sent: Sent, ticket: Ticket | None) -> None:
    """Tell a ledger how a request went."""
    if ticket is not None:
        taken = sent.status == 200
        ledger.settle(ticket, sent.usage, sent.answers, success=taken, signed=sent.signed)


def run_again(
    driver: Driver, ledger: Ledger, between: Callable[[Ledger, bool], Ledger]
) -> list[Rewrite | None]:
    """The same events over another ledger; `between` may put another one in its place before each request.

    It is told whether a request is still on its way.
    """
    tickets: dict[int, Ticket | None] = {}
    made: list[Rewrite | None] = []
    flying: set[int] = set()
    for event in driver.events:
        sent = driver.sent[event.place]
        if event.settled:
            settle(ledger, sent, tickets[event.place])
            flying.discard(event.place)
        else:
            ledger = between(ledger, bool(flying))
            one, tickets[event.place] = once(ledger, driver.world, sent.body, sent.facts)
            made.append(one)
            flying.add(event.place)
    return made


def shown(body: bytes) -> str:
    """A body for people who read a failure."""
    return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode()
