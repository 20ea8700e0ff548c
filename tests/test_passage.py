"""A body opened along what a recent request had reads as it would have without."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from proxy.dialects import Dialect, Opened
from proxy.dialects.anthropic import Anthropic
from proxy.dialects.gemini import Gemini
from proxy.dialects.openai_chat import OpenAIChat
from proxy.dialects.openai_responses import OpenAIResponses
from proxy.errors import BodyError
from proxy.ledger import Ledger
from proxy.models import Models
from proxy import passage
from proxy.passage import open_body
from proxy.policy import Policy, Stages
from proxy.rawjson import opening
from proxy.rewrite import rewrite
from proxy.stages import Facts, normalize

Json: TypeAlias = dict[str, Any]

FACTS = Facts(
    now=0.0, tenant=b"t", model=Models.load().facts("anthropic", "claude-sonnet-4-5"), upstream="anthropic"
)
POLICY = Policy(name="test", stages=Stages(normalize=normalize.Config()))
TURNS = tuple(
    {"role": "assistant" if at % 2 else "user", "content": f'turn {at}: "messages":[{{}}], "€"'}
    for at in range(150)
)
LEAD = ({"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."})


def _round(at: int) -> list[Json]:
    """A round of chat: what is said, calls, and their results as a run of messages."""
    calls = [
        {"id": f"c{at}{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for n in range(at % 3)
    ]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": f"result {at}"} for call in calls]
    told = [{"role": "system", "content": f"told {at}"}] if at % 7 == 0 else []
    answer = {"role": "assistant", "content": f"turn {at}", **({"tool_calls": calls} if calls else {})}
    return [{"role": "user", "content": f'turn {at}: "€"'}, *told, answer, *results]


def _items(at: int) -> list[Json]:
    """The same round in items."""
    calls = [
        {"type": "function_call", "call_id": f"c{at}{n}", "name": "f", "arguments": "{}"}
        for n in range(at % 3)
    ]
    results = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": f"result {at}"}
        for call in calls
    ]
    return [
        {"type": "message", "role": "user", "content": f'turn {at}: "€"'},
        *([{"role": "developer", "content": f"told {at}"}] if at % 7 == 0 else []),
        {"type": "message", "role": "assistant", "content": f"turn {at}"},
        *calls,
        *results,
    ]


class Wire(Struct, frozen=True):
    """A format and a history in it: the key of its list, what leads, what follows; `wrap`: the member that all is in,
    `spaced`: as Python writes it."""

    dialect: Dialect
    key: str
    turns: tuple[Json, ...]
    lead: tuple[Json, ...] = ()
    wrap: str = ""
    spaced: bool = False

    def spelt(self, messages: Sequence[Json], **members: object) -> bytes:
        """A request with what leads in front of these messages."""
        made: Json = {"model": "m", **members, self.key: [*self.lead, *messages]}
        made = {self.wrap: made} if self.wrap else made
        return json.dumps(made, ensure_ascii=False).encode() if self.spaced else orjson.dumps(made)

    def remembering(self) -> Ledger:
        """A ledger that knows most of the history, and a fork of half of it."""
        fork = [*self.turns[: len(self.turns) // 2], {**self.turns[1], "extra": "a fork"}]
        ledger = Ledger()
        for messages in (self.turns[: len(self.turns) - 10], fork):
            made = rewrite(self.spelt(messages), self.dialect, POLICY, ledger, FACTS)
            assert made.commit is not None
            ledger.settle(ledger.commit(made.commit), None, (), success=True)
        return ledger


CHAT = tuple(chain.from_iterable(map(_round, range(50))))
ITEMS = tuple(chain.from_iterable(map(_items, range(50))))
CONTENTS = tuple(
    {"role": "model" if at % 2 else "user", "parts": [{"text": f"turn {at} €"}]} for at in range(150)
)
WIRES = {
    "anthropic": Wire(Anthropic(), "messages", TURNS),
    "chat": Wire(OpenAIChat(), "messages", CHAT, LEAD),
    "responses": Wire(OpenAIResponses(), "input", ITEMS, LEAD),
    "gemini": Wire(Gemini(), "contents", CONTENTS),
    "code assist": Wire(Gemini(), "contents", CONTENTS, wrap="request"),
    "spaced": Wire(Anthropic(), "messages", TURNS, spaced=True),
    "spaced chat": Wire(OpenAIChat(), "messages", CHAT, LEAD, spaced=True),
}
KNOWN = {name: wire.remembering() for name, wire in WIRES.items()}


def seen(opened: Opened, wire: Wire) -> object:
    """What was opened; the list of messages itself is asked for nowhere else."""
    envelope = [(name, bytes(raw)) for name, raw in opened.envelope if name not in (wire.key, wire.wrap)]
    return envelope, list(map(bytes, opened.lead)), list(map(bytes, opened.messages))


def result(open_: Callable[[], Opened], wire: Wire) -> object:
    try:
        return seen(open_(), wire)
    except BodyError as error:
        return str(error)


@pytest.fixture(autouse=True, scope="module")
def no_body_is_short() -> Iterator[None]:
    """These are opened along what is known, though it takes longer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passage, "SHORT_BYTES", 0)
        yield


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, bytes]:
    """Requests that go on from what is known, or from somewhere in it, and some that are no JSON."""
    name = draw(st.sampled_from([*WIRES]))
    wire = WIRES[name]
    messages = list(wire.turns[: draw(st.integers(0, len(wire.turns)))])
    for at in draw(st.lists(st.integers(0, len(wire.turns)), max_size=2)):
        messages[at : at + 1] = draw(st.sampled_from([[], [wire.turns[0]], [*wire.lead[:1], wire.turns[1]]]))
    if draw(st.integers(0, 4)) == 0:
        messages = [*draw(st.sampled_from([wire.lead, wire.turns[:1]])), *messages]
    before = {"system": "s", "tools": [{wire.key: messages[:2]}]}
    first = draw(st.sampled_from([{}, before, {"t": {wire.key: [*wire.lead, *messages]}}]))
    body = wire.spelt(messages, **first)
    if draw(st.booleans()):
        again = b',"%b":[%b]}' % (wire.key.encode(), b",".join(map(orjson.dumps, messages[:1])))
        body = body[:-1] + draw(
            st.sampled_from([b',"max_tokens":1}', b',"model":"twice"}', again, b"]}", b""])
        )
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(body)))
        new = draw(st.sampled_from([b"", b" ", b",", b"]", b"{}", b"null,", b'"', b"\xff", b"["]))
        body = body[:at] + new + body[at + draw(st.integers(0, 2)) :]
    return name, body


@given(bodies())
def test_what_is_known_changes_nothing(case: tuple[str, bytes]) -> None:
    """What leads, messages, members and refusals are those of a body opened from its start."""
    name, body = case
    wire = WIRES[name]
    dialect = wire.dialect
    assert result(lambda: open_body(body, dialect, KNOWN[name]), wire) == result(
        lambda: dialect.open(body), wire
    )


@pytest.mark.parametrize("name", WIRES)
def test_messages_that_are_known_are_not_gone_over_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What leads and what follows from the last known answer on is opened; the rest are the very slices that are
    known."""
    wire = WIRES[name]
    lengths: list[int] = []
    plain = type(wire.dialect).open

    def open_(self: Dialect, body: bytes) -> Opened:
        lengths.append(len(body))
        return plain(self, body)

    known = wire.turns[: len(wire.turns) - 10]
    answers = [
        one.get("role") in ("assistant", "model") or one.get("type") == "function_call" for one in known
    ]
    last = len(known) - 1 - answers[::-1].index(True)
    body = wire.spelt(wire.turns)
    monkeypatch.setattr(type(wire.dialect), "open", open_)
    opened = open_body(body, wire.dialect, KNOWN[name])
    assert lengths == [len(wire.spelt(wire.turns[last:]))]
    monkeypatch.undo()
    found = next(filter(None, (opening(body, path) for path in wire.dialect.turns)))
    recent = next(one for one in KNOWN[name].opening(found) if one.raws[:9] == opened.messages[:9])
    same = [one is raw for one, raw in zip(opened.messages, recent.raws, strict=False)]
    assert sum(same) == same.index(False) > len(recent.raws) - 4


def test_what_is_found_where_it_is_not_read_is_not_taken() -> None:
    """Of two lists the one counts that the dialect reads."""
    wire = WIRES["code assist"]
    body = wire.spelt(CONTENTS[:140])[:-1] + b',"contents":[%b]}' % orjson.dumps(CONTENTS[139])
    assert seen(open_body(body, wire.dialect, KNOWN["code assist"]), wire) == seen(
        wire.dialect.open(body), wire
    )


@pytest.mark.parametrize("ending", [b",]}", b"]", b"x]}"])
def test_what_is_no_json_behind_the_known_is_refused(ending: bytes) -> None:
    """As it would be if nothing were known, in the same words."""
    wire = WIRES["anthropic"]
    body = wire.spelt(TURNS[:140])[:-2] + ending
    with pytest.raises(BodyError) as told:
        open_body(body, wire.dialect, KNOWN["anthropic"])
    with pytest.raises(BodyError, match=f"^{str(told.value).replace('(', '.').replace(')', '.')}$"):
        Anthropic().open(body)


def test_a_short_body_is_opened_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for what is known of it would take longer, the more so the more conversations there are."""
    wire = WIRES["anthropic"]
    body = wire.spelt(TURNS)
    taken = open_body(body, wire.dialect, KNOWN["anthropic"]).messages
    monkeypatch.setattr(passage, "SHORT_BYTES", len(body))
    opened = open_body(body, wire.dialect, KNOWN["anthropic"]).messages
    assert opened == taken
    assert opened[0] is not taken[0]
    assert open_body(body, wire.dialect, KNOWN["anthropic"]).messages[0] is not opened[0]
