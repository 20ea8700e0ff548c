"""The check at the end of every rewrite: each fault is named, and what providers take has none."""

from typing import Any

import orjson
import pytest
from msgspec import structs

from proxy.conversation import Message, Reminder, Source, Text
from proxy.dialects.anthropic import RULES, Anthropic
from proxy.models import Models
from proxy.wellformed import faults

MODEL = Models.load().facts("anthropic", "claude-sonnet-4-5")
LAX = structs.replace(
    RULES,
    results_first=False,
    calls_last=False,
    adjacent=False,
    blank_text=True,
    opens_with_user=False,
    system_follows_user=False,
)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(ident: str, kind: str = "tool_use") -> dict[str, Any]:
    return {"type": kind, "id": ident, "name": "run", "input": {}}


def result(ident: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": ident, "content": "fine"}


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


def said(*turns: tuple[str, Any]) -> tuple[Message, ...]:
    """Messages as (first letter of the role, content)."""
    roles = {"u": "user", "a": "assistant", "s": "system", "n": "narrator"}
    messages = [{"role": roles[role], "content": content} for role, content in turns]
    return Anthropic().read(Anthropic().open(orjson.dumps({"messages": messages}))).messages


SOUND: dict[str, tuple[tuple[str, Any], ...]] = {
    "words": (("u", "a"), ("a", "b"), ("u", "c")),
    "prefill": (("u", "a"), ("a", "b")),
    "calls": (
        ("u", "a"),
        ("a", [THOUGHT, text("b"), call("1"), call("2")]),
        ("u", [result("2"), result("1"), text("c")]),
    ),
    "server calls": (("u", "a"), ("a", [call("s", "server_tool_use"), text("b")]), ("u", "c")),
    "a system message": (("u", "a"), ("s", "b"), ("a", "c"), ("u", "d")),
    "a directive": (("u", "a"), ("n", "x")),
    "two of one role": (("u", "a"), ("u", "b"), ("a", "c"), ("a", "d"), ("u", "e")),
}


@pytest.mark.parametrize("turns", SOUND.values(), ids=SOUND)
def test_what_providers_take_has_no_fault(turns: tuple[tuple[str, Any], ...]) -> None:
    """Ordinary histories."""
    assert faults(said(*turns), RULES, MODEL) == frozenset()


FAULTY: dict[str, tuple[str, tuple[tuple[str, Any], ...]]] = {
    "open at the end": ("call without a result", (("u", "a"), ("a", [call("1")]))),
    "never answered": ("call without a result", (("u", "a"), ("a", [call("1")]), ("u", "b"))),
    "half answered": (
        "call without a result",
        (("u", "a"), ("a", [call("1"), call("2")]), ("u", [result("1")])),
    ),
    "answered after words of the model": (
        "call without a result",
        (("u", "a"), ("a", [call("1")]), ("a", "b"), ("u", "c")),
    ),
    "answered behind a directive": (
        "call without a result",
        (("u", "a"), ("a", [call("1")]), ("n", "b"), ("u", "c")),
    ),
    "result of nothing": ("result without a call", (("u", "a"), ("a", "b"), ("u", [result("1")]))),
    "result at the start": ("result without a call", (("u", [result("1")]),)),
    "two results": (
        "two results for a call",
        (("u", "a"), ("a", [call("1")]), ("u", [result("1"), result("1")])),
    ),
    "two calls": ("call id twice", (("u", "a"), ("a", [call("1"), call("1")]), ("u", [result("1")]))),
    "a call again": (
        "call id twice",
        (("u", "a"), ("a", [call("1")]), ("u", [result("1")]), ("a", [call("1")]), ("u", [result("1")])),
    ),
    "words behind a call": (
        "text behind a call",
        (("u", "a"), ("a", [call("1"), text("b")]), ("u", [result("1")])),
    ),
    "words before a result": (
        "result not first",
        (("u", "a"), ("a", [call("1")]), ("u", [text("b"), result("1")])),
    ),
    "the model opens": ("opens with the assistant", (("a", "b"), ("u", "c"))),
    "blank text": ("blank text", (("u", [text("a"), text(" ")]),)),
    "a refused id": ("id refused", (("u", "a"), ("a", [call("a.b")]), ("u", [result("a.b")]))),
    "an id with a line end": ("id refused", (("u", "a"), ("a", [call("a\n")]), ("u", [result("a\n")]))),
    "a long id": ("id refused", (("u", "a"), ("a", [call("x" * 600)]), ("u", [result("x" * 600)]))),
    "a system message behind the model": (
        "system message out of place",
        (("u", "a"), ("a", "b"), ("s", "c"), ("s", "d"), ("a", "e"), ("u", "f")),
    ),
    "a system message before the user": ("system message out of place", (("u", "a"), ("s", "b"), ("u", "c"))),
    "nothing": ("no message", ()),
}


@pytest.mark.parametrize("case", FAULTY.values(), ids=FAULTY)
def test_each_fault_has_a_name(case: tuple[str, tuple[tuple[str, Any], ...]]) -> None:
    """One fault, one name."""
    name, turns = case
    assert faults(said(*turns), RULES, MODEL) == {name}


PAIRS = ("call without a result", "result without a call", "two results for a call", "call id twice")
"""Faults of pairs, wherever their halves have to stand."""


@pytest.mark.parametrize(
    "name", [name for name, (what, _) in FAULTY.items() if what not in (*PAIRS, "id refused", "no message")]
)
def test_rules_that_do_not_hold_are_not_broken(name: str) -> None:
    """What is a fault is for the dialect to say."""
    assert faults(said(*FAULTY[name][1]), LAX, MODEL) == frozenset()


@pytest.mark.parametrize("name", [name for name, (what, _) in FAULTY.items() if what in PAIRS])
def test_half_a_pair_is_a_fault_in_every_format(name: str) -> None:
    """Also where the halves need not be neighbours [A201]."""
    what, turns = FAULTY[name]
    assert what in faults(said(*turns), LAX, MODEL)


APART = (
    ("u", "a"),
    ("a", [call("1"), text("b"), call("2")]),
    ("u", [text("c"), result("2")]),
    ("a", "d"),
    ("u", [result("1")]),
)


def test_pairs_need_not_be_neighbours_in_every_format() -> None:
    """A result stands anywhere behind its call, but not in front of it [A201]."""
    turns = said(*APART)
    assert faults(turns, LAX, MODEL) == frozenset()
    assert faults(turns, LAX, MODEL, since=2) == frozenset()
    behind = said(("u", "a"), ("u", [result("1")]), ("a", [call("1")]))
    assert faults(behind, LAX, MODEL) == {"result without a call"}


def test_reasoning_leads_to_something_where_the_format_asks_for_it() -> None:
    """To whatever the model says behind it in the same turn [A202]."""
    bound = structs.replace(LAX, reasoning_bound=True)
    sound = said(("u", "a"), ("a", [THOUGHT]), ("a", [THOUGHT, text("b")]), ("u", "c"))
    assert faults(sound, bound, MODEL) == frozenset()
    for turns in ((("u", "a"), ("a", [THOUGHT]), ("u", "c")), (("u", "a"), ("a", [text("b"), THOUGHT]))):
        assert faults(said(*turns), bound, MODEL) == {"reasoning that leads to nothing"}
        assert faults(said(*turns), LAX, MODEL) == frozenset()


def test_a_prefill_is_a_fault_where_the_model_takes_none() -> None:
    """That is for the model to say."""
    turns = said(("u", "a"), ("a", "b"))
    assert faults(turns, RULES, structs.replace(MODEL, prefill=False)) == {"ends with the assistant"}


def test_a_message_that_says_nothing_is_empty() -> None:
    """A blank text of the client's is another fault; one that leaves is none at all."""
    empty = said(("u", []), ("a", "b"), ("u", "c"))
    assert faults(empty, RULES, MODEL) == {"empty message"}
    made = structs.replace(empty[0], raw=None, parts=(Text(text=""),))
    assert faults((made, *empty[1:]), RULES, MODEL) == {"empty message"}
    ours = structs.replace(made, parts=(Reminder(text="x", source=Source.REMINDER, name=""),))
    assert faults((ours, *empty[1:]), RULES, MODEL) == frozenset()
    gone = structs.replace(made, parts=())
    assert faults((gone, *said(("u", "c"))), RULES, MODEL) == frozenset()


def test_only_what_is_new_is_looked_at() -> None:
    """What stands before was sent; what its last words ask for is not known then."""
    turns = said(
        ("a", "b"), ("u", [text(" ")]), ("a", [call("1")]), ("u", [result("1")]), ("a", "c"), ("u", "d")
    )
    assert faults(turns, RULES, MODEL) == {"opens with the assistant", "blank text"}
    assert faults(turns, RULES, MODEL, since=2) == frozenset()
    assert faults(turns, RULES, MODEL, since=3) == frozenset()
