"""`--mode observe`: nothing is changed, and what would have been done, saved and mended is said."""

import json
from typing import Any

import pytest
from msgspec import structs

from proxy.answer import Answer
from proxy.demo import plan
from proxy.demo.client import CodingAgent, headers
from proxy.demo.running import BEGINS, HOST
from proxy.demo.sessions import BROKEN, CHANGING, CHECKED, CLEAN, UNMARKED, Disposition
from proxy.demo.wire import Answered, Wire, assembled
from proxy.gateway.conversations import Conversations
from proxy.gateway.exchange import Incoming, Outcome, Prepared
from proxy.policy import load_policy
from proxy.simulator import Clock, Provider, Settings
from proxy.sse import SseParser
from proxy.turns import NOISE_TOKENS, Miss, Turn, TurnReport
from proxy.usage import Usage
from tests.gateway.rig import MESSAGES, post, respond, rig, run

TURNS = 26
"""Up to behind the long pause, where a batch is due."""


class Through(Wire):
    """A client's connection through the rewriter to the embedded provider, and the turns as they are recorded."""

    def __init__(self, session: Disposition, mode: Any, clock: Clock) -> None:
        self.turns: list[Turn] = []
        self.sent: list[tuple[bytes, bytes]] = []
        self._clock = clock
        self._named = headers(session, f"{session.name} {mode}")
        self._provider = Provider(Settings(binding="error"), plan.model)
        self._rewriter = Conversations(load_policy("default"), mode=mode)

    def post(self, body: Any) -> Answered:
        raw = json.dumps(body).encode()
        named = tuple((name.encode(), value.encode()) for name, value in self._named.items())
        made = self._rewriter.prepare(
            Incoming(
                "POST", "/v1/messages", "", named, raw, "anthropic", "anthropic", self._clock(), "anthropic"
            )
        )
        self.sent.append((raw, made.body))
        reply = self._provider.answer(self._named.items(), made.body, self._clock())
        one = self._provider.log[-1].usage
        cached, written = one.cache_read_input_tokens, one.written
        usage = Usage(prompt=one.total, cached=cached, written=written, uncached=one.total - cached - written)
        taken = reply.status == 200
        miss = self._rewriter.settle(
            made, Outcome("ok" if taken else "refused", reply.status, None, Answer(usage=usage))
        )
        self.turns.append(
            Turn(
                id="t",
                started_at=self._clock(),
                method="POST",
                path="/v1/messages",
                status=reply.status,
                usage=usage if taken else None,
                report=made.report,
                miss=miss,
            )
        )
        if not taken:
            return Answered(reply.status, None, 0.0)
        if body["stream"]:
            return Answered(200, assembled(SseParser().feed(b"".join(reply.events))), 0.0)
        return Answered(200, reply.json["content"], 0.0)


def played(session: Disposition, mode: Any) -> Through:
    """A session up to its first batch, or to where its client is stuck."""
    clock = Clock(BEGINS, frozen=True)
    wire = Through(session, mode, clock)
    agent = CodingAgent(session, wire, clock)
    for _ in range(TURNS):
        clock.advance(agent.pause)
        if agent.turn().content is None:
            break
    return wire


@pytest.mark.parametrize("session", [CLEAN, CHANGING, UNMARKED], ids=lambda one: one.name)
def test_what_would_be_saved_is_what_applying_saves(session: Disposition) -> None:
    """The estimate comes within 3 % of the prompt, turn by turn and past a batch, of what is really read."""
    observed, applied = played(session, "observe"), played(session, "apply")
    assert all(raw is sent for raw, sent in observed.sent)
    assert len(observed.turns) == len(applied.turns) == TURNS
    for at, (looked, did) in enumerate(zip(observed.turns, applied.turns, strict=True)):
        assert looked.usage and did.usage and looked.usage.prompt and looked.report and did.report
        assert (looked.observed, did.observed) == (True, False)
        assert did.would_save_tokens is None
        would = (looked.would_save_tokens or 0) + (looked.usage.cached or 0)
        assert abs(would - (did.usage.cached or 0)) <= 0.03 * looked.usage.prompt + NOISE_TOKENS, at
        assert looked.report.edits == did.report.edits
    saved = sum(turn.would_save_tokens or 0 for turn in observed.turns)
    assert (saved > 300_000) is (session is not CLEAN)


def test_a_miss_is_the_clients_own() -> None:
    """What was observed broke nothing: the client's changing line did, at its place, and no batch of ours."""
    observed = played(CHANGING, "observe")
    assert {turn.miss.reason for turn in observed.turns if turn.miss} <= {"client", "expired"}
    details = {turn.miss.detail for turn in observed.turns if turn.miss and turn.miss.reason == "client"}
    assert not [detail for detail in details if not detail.startswith("system.0 changed at byte ")]


@pytest.mark.parametrize("session", [BROKEN, CHECKED], ids=lambda one: one.name)
def test_a_client_that_gets_stuck_is_only_watched(session: Disposition) -> None:
    """The provider reads the client's bytes, and refuses them."""
    observed = played(session, "observe")
    assert all(raw is sent for raw, sent in observed.sent)
    assert observed.turns[-1].status == 400


UNANSWERED = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message.",
    },
}
CALLED = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 9,
    "messages": [
        {"role": "user", "content": "Check."},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}],
        },
        {"role": "user", "content": "Stop."},
    ],
}


@pytest.mark.parametrize(
    ("body", "refusal", "repair"),
    [
        (CALLED, UNANSWERED, True),
        (CALLED, {"error": {"type": "invalid_request_error", "message": "max_tokens is too large"}}, None),
        ({**CALLED, "messages": CALLED["messages"][:1]}, UNANSWERED, None),
    ],
    ids=["a call without a result", "not about structure", "nothing to mend"],
)
def test_a_refusal_that_would_have_been_mended_says_so(body: Any, refusal: Any, repair: bool | None) -> None:
    """The client reads the refusal; the log knows that applying would have spared it."""

    async def scene() -> None:
        async with rig(Conversations(load_policy("default"), mode="observe")) as r:
            said = json.dumps(refusal).encode()
            r.provider.play(respond(said, "400 Bad Request"))
            answer = await r.ask(post(json.dumps(body).encode()))
            assert (answer.status, answer.body) == (400, said)
            (turn,) = await r.turns(1)
            assert turn.get("would_repair") is repair
            assert turn["observed"] is True
            assert len(r.provider.seen) == 1

    run(scene())


class Thinking:
    """Would do something to each request."""

    reads_files = False

    def prepare(self, request: Incoming) -> Prepared:
        report = TurnReport(edits={"stale": 2}, reclaimed={"stale": 9}, held={"stale": 1}, observed=True)
        return Prepared(body=request.body, report=report)

    def settle(self, prepared: Prepared, outcome: Outcome) -> Miss | None:
        return None


def test_metrics_keep_what_was_done_and_what_was_not_apart() -> None:
    """Nothing that was only observed counts as done."""

    async def scene() -> None:
        async with rig(Thinking()) as r:
            await r.ask(post(MESSAGES))
            await r.turns(1)
            shown = r.gateway.metrics.exposition().decode()
            for name, amount in (("edits", 2), ("reclaimed_tokens", 9), ("held", 1)):
                assert f'stet_{name}_total{{mode="observe",stage="stale"}} {amount}.0' in shown
            assert 'mode="apply"' not in shown

    run(scene())


def test_small_differences_say_nothing() -> None:
    """Without usage or an estimate there is no figure; below the noise neither; a loss has a minus."""
    turn = Turn(id="t", started_at=0.0, method="POST", path="/", usage=Usage(prompt=10_000, cached=5_000))

    def saved(share: float | None, **changes: Any) -> int | None:
        return structs.replace(
            turn, report=TurnReport(observed=True, would_read=share), **changes
        ).would_save_tokens

    assert saved(0.9) == 4_000
    assert saved(0.2) == -3_000
    assert saved(0.51) is None
    assert saved(None) is None
    assert saved(0.9, usage=None) is None
    assert saved(0.9, usage=Usage(prompt=10_000)) is None
