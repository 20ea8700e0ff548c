"""Conversations met in mid-life: what they are sent instead, where their thinking turns out to be bound to other words."""

import orjson
import pytest

from proxy.gateway.conversations import Conversations
from proxy.gateway.exchange import Incoming, Prepared
from proxy.policy import load_policy
from tests.gateway.rig import MESSAGES, post, respond, rig, run

REFUSED = orjson.dumps(
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
            "conversation.",
        },
    }
)


def body(model="claude-opus-5-5"):
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    return orjson.dumps(
        {
            "model": model,
            "max_tokens": 1024,
            "messages": [
                {"role": "user", "content": "Check."},
                {"role": "assistant", "content": [thought, {"type": "text", "text": "Fine."}]},
                {"role": "user", "content": "Go on."},
            ],
        }
    )


def prepared(policy="careful", mode="apply", model="claude-opus-5-5"):
    raw = body(model)
    asked = Incoming(
        "POST", "/v1/messages", "", (), raw, "anthropic", "anthropic", 1_764_547_200.0, "anthropic"
    )
    return raw, Conversations(load_policy(policy), mode=mode).prepare(asked)


def test_a_conversation_met_in_mid_life_has_a_way_out():
    """The body leaves as it came; should its thinking be refused, it leaves without."""
    raw, made = prepared()
    assert made.body is raw and not made.changed
    assert b"thinking" not in made.fallback
    assert [m["role"] for m in orjson.loads(made.fallback)["messages"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    "where", [{"policy": "transparent"}, {"mode": "observe"}, {"model": "claude-sonnet-4-5"}], ids=str
)
def test_nowhere_else(where):
    """Where we change nothing, only look on, or nothing is bound, a refusal is the client's own."""
    raw, made = prepared(**where)
    assert made.body is raw and made.fallback is None


class Unchanged:
    """A rewriter that leaves the body as it is, and knows another one."""

    reads_files = False

    def prepare(self, request):
        return Prepared(body=request.body, spare=lambda: b"{}", commit=True)

    def settle(self, prepared, outcome):
        self.outcome = outcome


def test_an_unchanged_body_is_tried_once_with_its_way_out():
    """The client sees the second answer alone."""
    rewriter = Unchanged()

    async def scene():
        async with rig(rewriter) as r:
            r.provider.play(respond(REFUSED, "400 Bad Request"))
            r.provider.play(respond(b'{"id":"msg_1"}'))
            answer = await r.ask(post())
            assert (answer.status, answer.body) == (200, b'{"id":"msg_1"}')
            assert [seen.body for seen in r.provider.seen] == [MESSAGES, b"{}"]
            assert rewriter.outcome.retried_with_fallback

    run(scene())


@pytest.mark.parametrize("size", [0, 2**20], ids=["here", "in a thread"])
def test_a_fallback_that_cannot_be_made_leaves_the_refusal_to_the_client(size):
    """The fault is counted; nothing is sent a second time."""

    class Failing(Unchanged):
        def prepare(self, request):
            return Prepared(body=request.body, spare=lambda: {}["BODY"], commit=True)

    async def scene():
        async with rig(Failing()) as r:
            r.provider.play(respond(REFUSED, "400 Bad Request"))
            answer = await r.ask(post(body=MESSAGES[:-1] + b" " * size + b"}"))
            assert (answer.status, answer.body) == (400, REFUSED)
            assert len(r.provider.seen) == 1
            (turn,) = await r.turns(1)
            assert turn["failed_open"] == "fallback"
            assert turn["fault"].startswith("KeyError")

    run(scene())
