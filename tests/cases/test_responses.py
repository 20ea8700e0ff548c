"""Flat lists of items whose halves lost each other, as clients of the Responses API were seen to send them."""

import json

import pytest

from proxy.dialects import DIALECTS
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.policy import load_policy
from proxy.rewrite import Rewrite, rewrite
from proxy.simulator.responses import Behaviour, ResponsesProvider
from proxy.simulator.responses.sealing import Sealed, seal
from proxy.stages import Facts

DIALECT = DIALECTS["openai_responses"]
HEADERS = (("authorization", "Bearer sk-test"), ("content-type", "application/json"))
MISSING = "No result: the tool call was interrupted before it returned."

Item = dict[str, object]


def said(role: str, text: str, **members: object) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **members}


def call(call_id: str, **members: object) -> Item:
    return {"type": "function_call", "call_id": call_id, "name": "exec", "arguments": "{}", **members}


def custom(call_id: str) -> Item:
    return {"type": "custom_tool_call", "call_id": call_id, "name": "patch", "input": "*** Begin Patch"}


def output(call_id: str, text: object = "ok", kind: str = "function_call") -> Item:
    return {"type": f"{kind}_output", "call_id": call_id, "output": text}


def thought(name: str) -> Item:
    token = seal(Sealed(kind="reasoning", account="other", model="gpt-5.5", prefix=b"", text="t"))
    return {"type": "reasoning", "id": name, "summary": [], "encrypted_content": token}


USER = said("user", "go")


class Session:
    """One ledger: what leaves of each request, and what the provider has against it."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.provider = ResponsesProvider(behaviour=Behaviour(foreign_reasoning="remove"))
        self.now = 0.0

    def rewritten(self, *items: Item, **members: object) -> Rewrite:
        self.now += 1
        facts = Facts(
            now=self.now,
            tenant=b"tenant",
            model=Models.load().facts("openai", "gpt-5.5", "openai_responses"),
            upstream="openai",
            strict=True,
        )
        body = json.dumps({"model": "gpt-5.5", **members, "input": items}).encode()
        policy = load_policy("careful").choose("openai", "", facts.model.model)
        made = rewrite(body, DIALECT, policy, self.ledger, facts)
        if made.commit is not None:
            self.ledger.settle(self.ledger.commit(made.commit), None, (), success=True)
        return made

    def sent(self, *items: Item) -> list[Item]:
        made = self.rewritten(*items)
        told = self.provider.answer(HEADERS, made.body, self.now)
        assert told.status == 200, told.body
        leaves: list[Item] = json.loads(made.body)["input"]
        return leaves


@pytest.mark.parametrize(
    "items",
    [
        [call("a"), call("b"), output("b"), output("a")],
        [call("a"), said("user", "quick"), output("a")],
        [call("a"), call("b"), output("a"), said("assistant", "x"), call("c"), output("c"), output("b")],
        [call("a"), said("assistant", "behind a call"), output("a")],
        [
            thought("rs_1"),
            call("a", id="fc_1"),
            output("a"),
            thought("rs_2"),
            said("assistant", "x", id="msg_1"),
        ],
        [said("assistant", "x"), said("developer", "note"), said("assistant", "y")],
    ],
)
def test_what_the_format_allows_is_left_alone(items: list[Item]) -> None:
    """Outputs in any order and at any distance, and whatever else stands between them [A201]."""
    made = Session().rewritten(USER, *items)
    assert made.edits == ()


def test_a_lost_output_is_filled_in_for_ever() -> None:
    """In the form its call asks for, at the place where it was first missed [A201 F15]."""
    session = Session()
    history = [USER, call("a"), custom("b"), output("a")]
    lost = output("b", MISSING, "custom_tool_call")
    assert session.sent(*history) == [*history, lost]
    more = [said("assistant", "done"), said("user", "next")]
    assert session.sent(*history, *more) == [*history, lost, *more]


def test_a_lost_output_at_the_end_is_filled_in_for_ever() -> None:
    """Also where the next answer continues the model's turn as the client has it."""
    session = Session()
    history = [USER, thought("rs_1"), call("a", id="fc_1")]
    assert session.sent(*history) == [*history, output("a", MISSING)]
    more = [thought("rs_2"), call("b", id="fc_2"), output("b")]
    assert session.sent(*history, *more) == [*history, output("a", MISSING), *more]


def test_an_output_that_comes_late_is_kept_as_text() -> None:
    """Its slot was sent filled; what it says is not lost."""
    session = Session()
    history = [USER, call("a"), call("b"), output("b")]
    session.sent(*history)
    more = [said("assistant", "x"), output("a", "late")]
    *sent, last = session.sent(*history, *more)
    assert sent == [*history, output("a", MISSING), said("assistant", "x")]
    assert last == said("user", "[Result of the earlier tool call exec (a), which arrived late]\nlate")


def test_an_output_without_a_call_is_kept_as_text() -> None:
    """With its pictures [A201 F15]."""
    picture = {"type": "input_image", "image_url": "https://x/y.png"}
    orphan = output("gone", [{"type": "input_text", "text": "found"}, picture])
    *_, last = Session().sent(USER, orphan)
    label = "[Result of an earlier tool call (gone) that is no longer part of this conversation]\nfound"
    content = [{"type": "input_text", "text": label}, picture]
    assert last == {"type": "message", "role": "user", "content": content}


def test_items_that_stand_twice_stand_once() -> None:
    """Told by their ids, or by what they say where they have none [A207 F18]."""
    turn = [thought("rs_1"), said("assistant", "x", id="msg_1"), call("a", id="fc_1"), output("a")]
    assert Session().sent(USER, *turn, *turn) == [USER, *turn]
    bare = [call("a"), output("a")]
    assert Session().sent(USER, *bare, said("user", "more"), *bare) == [USER, *bare, said("user", "more")]


def test_reasoning_that_led_to_nothing_goes() -> None:
    """The turn was cut off behind it; in one that goes on it stays [A202 F16]."""
    session = Session()
    history = [USER, thought("rs_1"), said("user", "again")]
    assert session.sent(*history) == [USER, said("user", "again")]
    assert session.sent(*history, said("assistant", "x")) == [
        USER,
        said("user", "again"),
        said("assistant", "x"),
    ]
    whole = [USER, thought("rs_1"), call("a", id="fc_1"), output("a")]
    assert session.sent(*whole) == whole


def test_a_screenshot_that_never_came_takes_its_call_along() -> None:
    """Nothing of ours can stand for a picture of a screen."""
    computer = {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "screenshot"}}
    shot = {
        "type": "computer_call_output",
        "call_id": "c",
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA"},
    }
    assert Session().sent(USER, computer, shot) == [USER, computer, shot]
    assert Session().sent(USER, computer, said("user", "well?")) == [USER, said("user", "well?")]
    assert Session().sent(USER, shot) == [USER]


@pytest.mark.parametrize(
    "members", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}, {"prompt": {"id": "pmpt_1"}}]
)
def test_a_delta_is_not_judged(members: Item) -> None:
    """The call may be at the server [A210]."""
    made = Session().rewritten(output("gone"), **members)
    assert made.edits == ()


def test_a_history_that_names_items_at_the_server_is_not_judged() -> None:
    """The other half may be the one that is named [A204]."""
    made = Session().rewritten(USER, {"type": "item_reference", "id": "fc_1"}, output("a"))
    assert made.edits == ()
