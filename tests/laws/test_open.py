"""Law 9: whatever breaks inside, the request goes out, as the client wrote it or without the thinking that would not fit."""

from __future__ import annotations

import pytest

from proxy.answer import Answer
from proxy.gateway.conversations import Conversations
from proxy.gateway.exchange import Incoming, Outcome
from proxy.ledger import Ledger
from proxy.dialects.anthropic import Anthropic
from proxy.simulator import Provider, Reply, Settings
from proxy.stages import ORDER
from tests.laws.client import Shown
from tests.laws.driver import World, policies
from tests.laws.sessions import Session, Step, _answer, _turn
from tests.laws.spelling import PLAIN
from tests.laws.wires.anthropic import HEADERS

RAW = tuple((name.encode(), value.encode()) for name, value in HEADERS)


class Fault(Exception):
    """A bug of ours."""


def fail(*_args: object, **_more: object) -> object:
    raise Fault


def incoming(body: bytes, now: float) -> Incoming:
    """A request at the gateway's seam."""
    return Incoming("POST", "/v1/messages", "", RAW, body, "anthropic", "anthropic", now, "anthropic")


def places() -> list[tuple[object, str]]:
    """Where a fault is put: every stage, reading the ledger, replaying, writing."""
    return [
        *((stage, "propose") for stage in ORDER),
        (Ledger, "place"),
        (Ledger, "commit"),
        (Anthropic, "write"),
    ]


@pytest.mark.parametrize("model", ["claude-opus-4-5", "claude-opus-5-5"])
@pytest.mark.parametrize(
    "place", places(), ids=lambda place: f"{getattr(place[0], '__name__', place[0])}.{place[1]}"
)
def test_a_fault_never_keeps_a_request_from_being_answered(model, place, monkeypatch):
    """A conversation that was sent rewritten goes on through a fault in any place, and after it."""
    provider = Provider(Settings(binding="error"))
    conversations = Conversations(policies("default"))
    world = World(model=model)
    client = Session(world).clients[0]
    story = [
        Step(answer=(3, 4)),
        Step(results=("lost", "ok"), says=(1,)),
        Step(answer=(3,)),
        Step(says=(9,)),
    ]
    for turn, step in enumerate(story):
        _turn(client, step)
        body = world.speaks.body(client.asked(PLAIN, Shown(date=1 + turn % 2)), PLAIN)
        with monkeypatch.context() as patch:
            if turn == 2:
                patch.setattr(*place, fail)
            now = 1_000.0 + turn
            sent = prepared(conversations, incoming(body, now))
        provider.script = lambda _, step=step: Reply(blocks=_answer(step.answer))
        answer = provider.answer(HEADERS, sent[0], now)
        if answer.status == 400 and sent[1] is not None:
            answer = provider.answer(HEADERS, sent[1], now)
        assert answer.status == 200 or turn == 2, answer.exchange.error
        assert turn != 2 or "bound to a different" not in (answer.exchange.error or "")
        if answer.status == 200:
            client.answered(answer.json["content"])


def prepared(conversations: Conversations, request: Incoming) -> tuple[bytes, bytes | None]:
    """What goes out, and what if that is refused; as the gateway does it where even the rewriter raises."""
    try:
        made = conversations.prepare(request)
    except Fault:
        return request.body, None
    if made.commit:
        conversations.settle(made, Outcome("ok", 200, None, Answer()))
    return made.body, made.fallback
