"""A body opened along what a recent request had reads as it would have without."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from proxy.dialects import Dialect, Opened
from proxy.dialects.anthropic import Anthropic
from proxy.dialects.openai_chat import OpenAIChat
from proxy.errors import BodyError
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.passage import open_body
from proxy.policy import Policy, Stages
from proxy.rewrite import rewrite
from proxy.stages import Facts, normalize

FACTS = Facts(
    now=0.0, tenant=b"t", model=Models.load().facts("anthropic", "claude-sonnet-4-5"), upstream="anthropic"
)
POLICY = Policy(name="test", stages=Stages(normalize=normalize.Config()))
TURNS = tuple(
    {"role": "assistant" if at % 2 else "user", "content": f'turn {at}: "messages":[{{}}], "€"'}
    for at in range(150)
)


def spelt(messages: object, **members: object) -> bytes:
    return orjson.dumps({"model": "m", **members, "messages": messages})


def remembering(*bodies: bytes) -> Ledger:
    """A ledger that these requests went through."""
    ledger = Ledger()
    for body in bodies:
        made = rewrite(body, Anthropic(), POLICY, ledger, FACTS)
        assert made.commit is not None
        ledger.settle(ledger.commit(made.commit), None, (), success=True)
    return ledger


def seen(opened: Opened) -> tuple[list[tuple[str, bytes]], list[bytes]]:
    """What was opened; the list of messages itself is asked for nowhere else."""
    envelope = [(name, bytes(raw)) for name, raw in opened.envelope if name != "messages"]
    return envelope, list(map(bytes, opened.messages))


def result(open_: object) -> object:
    try:
        return seen(open_())  # type: ignore[operator]  # a call of no arguments
    except BodyError as error:
        return str(error)


KNOWN = remembering(spelt(TURNS[:140]), spelt([*TURNS[:70], {"role": "assistant", "content": "a fork"}]))


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Requests that go on from what is known, or from somewhere in it, and some that are no JSON."""
    messages = list(TURNS[: draw(st.integers(0, 150))])
    for at in draw(st.lists(st.integers(0, 150), max_size=2)):
        messages[at : at + 1] = [{"role": "user", "content": "changed"}]
    before = {"system": "s", "tools": [{"messages": messages[:2]}]}
    first = draw(st.sampled_from([{}, before, {"t": {"messages": messages}}]))
    body = spelt(messages, **first)
    if draw(st.booleans()):
        body = body[:-1] + draw(
            st.sampled_from([b',"max_tokens":1}', b',"model":"twice"}', b',"messages":[]}', b"]}", b""])
        )
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(body)))
        new = draw(st.sampled_from([b"", b" ", b",", b"]", b"{}", b"null,", b'"', b"\xff", b"["]))
        body = body[:at] + new + body[at + draw(st.integers(0, 2)) :]
    return body


@given(bodies())
def test_what_is_known_changes_nothing(body: bytes) -> None:
    """Messages, members and refusals are those of a body opened from its start."""
    dialect = Anthropic()
    assert result(lambda: open_body(body, dialect, KNOWN)) == result(lambda: dialect.open(body))


def test_messages_that_are_known_are_not_gone_over_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is new is opened; the others are the very slices that are known."""
    lengths: list[int] = []
    plain = Anthropic.open

    def open_(self: Anthropic, body: bytes) -> Opened:
        lengths.append(len(body))
        return plain(self, body)

    monkeypatch.setattr(Anthropic, "open", open_)
    opened = open_body(spelt(TURNS), Anthropic(), KNOWN)
    assert lengths == [len(spelt(TURNS[140:]))]
    (known,) = (
        one
        for one in KNOWN.opening(spelt(TURNS), len(b'{"model":"m","messages":['))
        if len(one.client) == 140
    )
    assert all(
        one is message.raw for one, message in zip(opened.messages[:139], known.client[:139], strict=True)
    )
    assert len(opened.messages) == 150


@pytest.mark.parametrize("ending", [b",]}", b"]", b"x]}"])
def test_what_is_no_json_behind_the_known_is_refused(ending: bytes) -> None:
    """As it would be if nothing were known, in the same words."""
    body = spelt(TURNS[:140])[:-2] + ending
    with pytest.raises(BodyError) as told:
        open_body(body, Anthropic(), KNOWN)
    with pytest.raises(BodyError, match=f"^{str(told.value).replace('(', '.').replace(')', '.')}$"):
        Anthropic().open(body)


def test_a_dialect_without_a_list_of_turns_opens_the_whole() -> None:
    """Where slices are not the elements of one list, nothing can be left out."""
    chat: Dialect = OpenAIChat()
    assert seen(open_body(spelt(TURNS), chat, KNOWN)) == seen(chat.open(spelt(TURNS)))
    assert all(isinstance(one, Raw) for one in chat.open(spelt(TURNS)).messages)
