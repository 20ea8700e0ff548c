"""A scripted agent that plays live, and the recording of what it sent."""

import json
from collections.abc import Mapping
from typing import Any

from proxy.answer import READERS
from proxy.demo.client import CodingAgent, headers
from proxy.demo.plan import model
from proxy.demo.sessions import Disposition
from proxy.demo.wire import Answered, assembled
from proxy.gateway.conversations import Conversations
from proxy.gateway.exchange import Incoming, Outcome
from proxy.policy import load_policy
from proxy.recording import HEADERS, Recorded
from proxy.simulator import Answer, Clock, Provider, Settings
from proxy.sse import SseParser

BEGINS = 1_796_082_840.0


class Live:
    """A connection to an embedded provider, direct or through the rewrite, that notes what goes over it."""

    def __init__(self, session: Disposition, clock: Clock, policy: str | None = None) -> None:
        self.provider = Provider(Settings(binding="error", keep_bodies=False), model)
        self.recorded: list[Recorded] = []
        self._headers = headers(session, "key")
        self._clock = clock
        self._rewriter = Conversations(load_policy(policy)) if policy else None

    @property
    def cost(self) -> float:
        return sum(one.cost for one in self.provider.log)

    def post(self, body: Mapping[str, Any]) -> Answered:
        raw = json.dumps(body).encode()
        if self._rewriter is None:
            answer = self._ask(raw)
        else:
            named = tuple((name.encode(), value.encode()) for name, value in self._headers.items())
            prepared = self._rewriter.prepare(
                Incoming(
                    "POST",
                    "/v1/messages",
                    "",
                    named,
                    raw,
                    "anthropic",
                    "anthropic",
                    self._clock(),
                    "anthropic",
                )
            )
            answer = self._ask(prepared.body)
            assert answer.status == 200, answer.body
            self._rewriter.settle(prepared, Outcome("ok", 200, None, _heard(answer)))
        heard = _heard(answer)
        self.recorded.append(
            Recorded(
                path="/v1/messages",
                headers={name: value for name, value in self._headers.items() if name in HEADERS},
                body=raw.decode(),
                at=self._clock(),
                dialect="anthropic",
                upstream="anthropic",
                profile="anthropic",
                status=answer.status,
                usage=heard.usage,
                calls=heard.call_ids,
            )
        )
        if answer.status != 200:
            return Answered(answer.status, None, 0.0)
        if answer.events is not None:
            return Answered(200, assembled(SseParser().feed(b"".join(answer.events))), 0.0)
        return Answered(200, answer.json["content"], 0.0)

    def _ask(self, raw: bytes) -> Answer:
        return self.provider.answer([*self._headers.items()], raw, self._clock())

    def close(self) -> None:
        """Nothing is open."""


def _heard(answer: Answer) -> Any:
    reader = READERS["anthropic"]()
    if answer.events is not None:
        for event in SseParser().feed(b"".join(answer.events)):
            reader.event(event)
    else:
        reader.document(answer.body)
    return reader.answer()


def played(session: Disposition, turns: int, policy: str | None = None) -> Live:
    """A session of so many turns."""
    clock = Clock(BEGINS, frozen=True)
    live = Live(session, clock, policy)
    agent = CodingAgent(session, live, clock)  # type: ignore[arg-type]  # post and close is all it asks of a wire
    for _ in range(turns):
        clock.advance(agent.pause)
        agent.turn()
    return live
