"""Content that says nothing: what is refused is mended, what is accepted may stay, and no turn is lost over it."""

import pytest

from proxy.simulator import divergence
from tests.cases.bodies import (
    Proxy,
    assistant,
    blocks,
    body,
    call,
    case,
    complaint,
    listed,
    mended,
    result,
    sent,
    text,
    turns,
    user,
)

REFUSED = {
    "a blank user turn": [
        user("Check."),
        assistant("Fine."),
        user(text(" ")),
        assistant("Yes?"),
        user("Go on."),
    ],
    "a blank string": [user("Check."), assistant("Fine."), user("  \n"), assistant("Yes?"), user("Go on.")],
    "an empty string": [user("Check."), assistant("Fine."), user(""), assistant("Yes?"), user("Go on.")],
    "no blocks": [user("Check."), assistant("Fine."), user(*[]), assistant("Yes?"), user("Go on.")],
    "a blank first turn": [user(text("\t")), assistant("Yes?"), user("Go on.")],
    "a blank last turn": [user("Check."), assistant("Fine."), user(text(" \n "))],
    "an empty text beside words": [user("Check."), assistant("Fine."), user(text(""), text("Go on."))],
    "two blanks": [
        user("Check."),
        assistant("Fine."),
        user(text(" "), text("")),
        assistant("Yes?"),
        user("Go on."),
    ],
    "an empty text beside a result": [user("Check."), assistant(call("A")), user(result("A"), text(""))],
    "an empty text inside a result": [user("Check."), assistant(call("A")), user(result("A", [text("")]))],
    "one empty text of two inside": [
        user("Check."),
        assistant(call("A")),
        user(result("A", [text("ok"), text("")])),
    ],
    "an empty answer text": [user("Check."), assistant(text(""), call("A")), user(result("A"))],
    "a blank answer": [user("Check."), assistant(text(" ")), user("Go on.")],
    "blank turns in a row": [
        user("Check."),
        assistant("Fine."),
        user(text(" ")),
        assistant(text("\n")),
        user(" "),
        assistant("Yes?"),
        user("Go."),
    ],
}

ACCEPTED = {
    "no answer": [user("Check."), assistant(*[]), user("Go on.")],
    "a blank text before a call": [user("Check."), assistant(text("\n\n"), call("A")), user(result("A"))],
    "an empty result": [user("Check."), assistant(call("A")), user(result("A", ""))],
    "a result without blocks": [user("Check."), assistant(call("A")), user(result("A", []))],
    "a blank result": [user("Check."), assistant(call("A")), user(result("A", " "))],
    "a result without content": [
        user("Check."),
        assistant(call("A")),
        user({"type": "tool_result", "tool_use_id": "A"}),
    ],
}


@case("B56")
@pytest.mark.parametrize("shape", REFUSED)
def test_what_is_refused_is_mended(shape):
    """Also by a host that goes by the letter of the rules; nothing blank is put where something blank stood."""
    out = mended(body(*REFUSED[shape]))
    for message in out["messages"]:
        said = listed(message)["content"]
        assert not said or not all(b["type"] == "text" and not b["text"].strip() for b in said)
    assert out["messages"][0]["role"] == "user" and out["messages"][-1]["role"] == "user"
    words = [
        b["text"]
        for m in REFUSED[shape]
        for b in listed(m)["content"]
        if b["type"] == "text" and b["text"].strip()
    ]
    kept = [block["text"] for block in blocks(out) if block["type"] == "text"]
    assert [one for one in kept if one in words] == words


@case("B56")
@pytest.mark.parametrize("shape", ACCEPTED)
def test_what_is_accepted_is_never_made_worse(shape):
    """It leaves as it came, or in a form that a stricter host takes as well; results keep their content."""
    request = body(*ACCEPTED[shape])
    assert complaint(request) is None
    made = Proxy().send(request)
    assert complaint(made.body) is None
    before = [block for block in blocks(request) if block["type"] == "tool_result"]
    after = [
        {k: v for k, v in b.items() if k != "cache_control"}
        for b in blocks(sent(made))
        if b["type"] == "tool_result"
    ]
    assert after == before
    assert (
        complaint(made.body, strict_empty=True) is None or complaint(request, strict_empty=True) is not None
    )


@case("B56")
def test_all_forms_in_one_history():
    """The turns between keep their order, every result follows its call, and the next turn goes on from it."""
    request = body(
        user("Check."),
        assistant(text("\n\n"), call("A")),
        user(result("A", "")),
        assistant(*[]),
        user(text(" ")),
        assistant("Fine."),
        user("Go on."),
    )
    out = mended(request)
    assert [block["type"] for block in blocks(out) if block["type"] != "text"] == ["tool_use", "tool_result"]
    proxy = Proxy()
    first = proxy.send(request)
    second = proxy.send(turns(request, assistant("Going on."), user("Good.")))
    assert divergence(first.body, second.body) is None


# -- the last turn -----------------------------------------------------------------------------------------

STALE = "<reminder>task list is stale</reminder>"
LAST = {
    "a reminder": [text(STALE)],
    "a reminder as a string": STALE,
    "a reminder and a blank": [text(STALE), text(" ")],
    "two reminders": [text(STALE), text("<reminder>again</reminder>")],
    "a blank": [text(" ")],
    "nothing": [],
    "an orphaned result": [result("Z", STALE)],
}


@case("B57")
@pytest.mark.parametrize("shape", LAST)
@pytest.mark.parametrize("rule", ["none", "constant", "freeze"])
@pytest.mark.parametrize("model", ["claude-x", "claude-sonnet-4-5"])
def test_the_last_turn_is_never_emptied_away(shape, rule, model, tmp_path):
    """Whatever the policy does to what a harness put in, the user still has the last word, and all of his words."""
    policy = tmp_path / "policy.yaml"
    rules = (
        ""
        if rule == "none"
        else (
            "relocate: {rules: [{name: stale, where: [system, reminder], pattern: '<reminder>(?P<value>[^<]*)</reminder>', "
            + ("mode: constant, value: '', announce: never" if rule == "constant" else "announce: on_change")
            + "}]}\n"
        )
    )
    policy.write_text(f"extends: careful\n{rules}")
    request = body(user("Check."), assistant("Fine."), {"role": "user", "content": LAST[shape]}, model=model)
    proxy = Proxy(policy, agent="claude-code")
    bodies = []
    for _ in range(3):
        made = proxy.send(request)
        bodies.append(made.body)
        out = sent(made)
        assert complaint(made.body) is None
        assert [m["role"] for m in out["messages"]] == [m["role"] for m in request["messages"]]
        assert listed(out["messages"][-1])["content"]
        if "reminder" in shape or "orphan" in shape:
            assert STALE in "".join(b.get("text", "") for b in blocks(out))
        request = turns(request, assistant("Understood."), user(text("<reminder>later</reminder>")))
    assert [divergence(*pair) for pair in zip(bodies, bodies[1:], strict=False)] == [None, None]


LEADING = {
    "a blank and a text": [assistant(text(""), text("Hello."))],
    "a blank answer and an answer": [assistant(text("")), assistant("Hello.")],
    "a blank and a call": [assistant(text("  "), call("A")), user(result("A"))],
}


@pytest.mark.parametrize("shape", LEADING)
def test_a_history_that_opens_with_a_blank_answer(shape):
    """The user's turn is put in front of what stays of the model's, not of what leaves."""
    out = mended(body(*LEADING[shape], user("Go on.")))
    first, second, *_ = out["messages"]
    assert (first["role"], second["role"]) == ("user", "assistant")
    assert text("") not in blocks(out)
