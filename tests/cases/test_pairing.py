"""Calls and results that lost each other, and blocks in an order that is refused."""

import pytest

from proxy.simulator import divergence
from tests.cases.bodies import (
    THINKING,
    Proxy,
    assistant,
    blocks,
    body,
    call,
    case,
    complaint,
    found,
    mended,
    result,
    search,
    sent,
    text,
    thought,
    turns,
    unmarked,
    user,
)

FAN = (assistant(call("B", path="fan.py")), user(result("B", "22 lines")))


def told(request):
    return "\n".join(block["text"] for block in blocks(request) if block["type"] == "text")


# -- a result whose call is gone ---------------------------------------------------------------------------


ORPHANS = {
    "before words": [user(result("A", "pump: 40 lines"), text("Now the fan.")), *FAN],
    "behind words": [user(text("Now the fan."), result("A", "pump: 40 lines")), *FAN],
    "alone": [user(result("A", "pump: 40 lines")), assistant("Now the fan."), user("Yes."), *FAN],
    "as blocks": [user(result("A", [text("pump: 40 lines")]), text("Now the fan.")), *FAN],
    "two": [user(result("A", "pump: 40 lines"), result("C", "lamp on"), text("Now the fan.")), *FAN],
    "an error": [user(result("A", "pump: 40 lines", is_error=True), text("Now the fan.")), *FAN],
    "in the middle": [
        user("Check."),
        assistant("Checking."),
        user(result("A", "pump: 40 lines"), text("Now the fan.")),
        *FAN,
    ],
    "beside good ones": [
        user("Check."),
        assistant(call("B", path="fan.py")),
        user(result("A", "pump: 40 lines"), result("B", "22 lines"), text("Now the fan.")),
    ],
    "behind a thought": [
        user(result("A", "pump: 40 lines"), text("Now the fan.")),
        assistant(thought(), call("B", path="fan.py")),
        user(result("B", "22 lines")),
    ],
    "of a later call": [
        user(result("B", "pump: 40 lines"), text("Now the fan.")),
        *FAN,
    ],
}


@case("B02")
@pytest.mark.parametrize("shape", ORPHANS)
def test_a_result_whose_call_is_gone_becomes_text(shape):
    """What it said is kept and labelled; everything else stays as it is, and the first turn is still the user's."""
    request = body(*ORPHANS[shape], **(THINKING if shape == "behind a thought" else {}))
    out = mended(request)
    known = set()
    for message in out["messages"]:
        inside = message["content"] if isinstance(message["content"], list) else []
        assert {b["tool_use_id"] for b in inside if b["type"] == "tool_result"} <= known
        known = {b["id"] for b in inside if b["type"] == "tool_use"}
    assert "pump: 40 lines" in told(out) and "Now the fan." in told(out)
    assert out["messages"][0]["role"] == "user" and out["messages"][0]["content"]
    assert result("B", "22 lines") in blocks(unmarked(out))


@case("B02")
def test_a_result_whose_call_is_gone_stays_text_turn_after_turn():
    """The next turns begin with what was sent, byte for byte."""
    proxy, request = Proxy(), body(*ORPHANS["before words"])
    bodies = [proxy.send(request).body]
    for words in ("And the lamp?", "And the door?"):
        request = turns(request, assistant("Fine."), user(words))
        bodies.append(proxy.send(request).body)
        assert divergence(bodies[-2], bodies[-1]) is None


# -- one call several times --------------------------------------------------------------------------------


def copies(*numbers):
    return assistant(*(call(f"t{number}", path=f"{number}.py") for number in numbers))


@case("B03")
@pytest.mark.parametrize(
    "numbers", [(1, 1, 2, 1, 2, 3), (1, 1), (1, 2, 3, 1, 2, 3), (1, 2, 2, 2), (3, 3, 1, 3, 2)]
)
@pytest.mark.parametrize("place", ["first turn", "second turn", "adopted"])
@pytest.mark.parametrize("thinks", [False, True])
def test_copies_of_a_call_leave(numbers, place, thinks):
    """Each call stands once, in the order of first mention, with its one result."""
    wanted = [f"t{number}" for number in dict.fromkeys(numbers)]
    doubled = copies(*numbers)
    if thinks:
        doubled["content"].insert(0, thought())
    before = [user("Good morning."), assistant("Good morning.")] if place == "second turn" else []
    after = [assistant("Read."), user("And now?")] if place == "adopted" else []
    request = body(
        *before,
        user("Read them."),
        doubled,
        user(*(result(ident, ident) for ident in wanted)),
        *after,
        **(THINKING if thinks else {}),
    )
    out = mended(request)
    assert [block["id"] for block in blocks(out) if block["type"] == "tool_use"] == wanted
    assert [block["tool_use_id"] for block in blocks(out) if block["type"] == "tool_result"] == wanted


@case("B03")
def test_copies_of_a_call_and_of_its_result():
    """The results were doubled with the calls."""
    request = body(user("Read them."), copies(1, 2, 1), user(*(result(f"t{n}", f"{n}") for n in (1, 2, 1))))
    out = mended(request)
    assert [block["tool_use_id"] for block in blocks(out) if block["type"] == "tool_result"] == ["t1", "t2"]


@case("B03")
def test_two_calls_that_share_an_id_by_mistake_both_stay():
    """They are not copies: the second one gets an id of its own, and so does its result."""
    request = body(
        user("Read both."),
        assistant(call("t1", path="1.py")),
        user(result("t1", "one")),
        assistant(call("t1", path="2.py")),
        user(result("t1", "two")),
    )
    out = mended(request)
    calls = {block["id"]: block["input"]["path"] for block in blocks(out) if block["type"] == "tool_use"}
    said = {b["tool_use_id"]: b["content"] for b in blocks(out) if b["type"] == "tool_result"}
    assert [(calls[ident], said[ident]) for ident in calls] == [("1.py", "one"), ("2.py", "two")]


# -- words behind a call -----------------------------------------------------------------------------------

A, B = call("A"), call("B", path="fan.py")
SAID, MORE = text("Reading it now."), text("And the fan.")


@case("B06")
@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ([thought(), A, SAID], [thought(), SAID, A]),
        ([A, SAID], [SAID, A]),
        ([A, SAID, B], [SAID, A, B]),
        ([thought(), A, SAID, B, MORE], [thought(), SAID, MORE, A, B]),
        ([thought(), SAID, A, MORE, B], [thought(), SAID, MORE, A, B]),
        ([A, B, SAID, MORE], [SAID, MORE, A, B]),
    ],
)
@pytest.mark.parametrize("place", ["newest", "adopted"])
def test_words_behind_a_call_go_before_it(order, wanted, place):
    """Calls end the turn; the thought stays first with its signature, words and results keep their bytes."""
    answered = user(
        *(result(block["id"], f"of {block['id']}") for block in order if block["type"] == "tool_use")
    )
    after = [assistant(thought("Done."), text("Fine.")), user("And now?")] if place == "adopted" else []
    thinks = order[0]["type"] == "thinking"
    out = mended(body(user("Check."), assistant(*order), answered, *after, **(THINKING if thinks else {})))
    assert unmarked(out["messages"][1]["content"]) == wanted
    assert unmarked(out["messages"][2]) == answered


@case("B06")
def test_words_behind_a_call_written_as_a_message_of_their_own():
    """The client split the turn: it becomes one, words first."""
    out = mended(body(user("Check."), assistant(A), assistant(SAID), user(result("A"))))
    assert [block["type"] for block in blocks(out)] == ["text", "text", "tool_use", "tool_result"]


# -- tools that the provider runs --------------------------------------------------------------------------

PAIR = [search(1), found(1), text("Found.")]


@case("B14")
@pytest.mark.parametrize(
    "orphan",
    [
        [found(2), text("Also this.")],
        [text("Also this."), found(2)],
        [found(2), found(3), text("Also this.")],
        [search(2), text("Also this.")],
        [search(4), found(4), found(2), text("Also this.")],
    ],
)
@pytest.mark.parametrize("place", ["behind", "before", "same message"])
def test_half_a_server_pair_leaves_and_the_whole_one_stays(orphan, place):
    """No client result is ever made up for a call that the provider runs itself."""
    good, bad = assistant(*PAIR), assistant(*orphan)
    messages = {
        "behind": [user("Search."), good, user("More."), bad, user("Thanks.")],
        "before": [user("Search."), bad, user("More."), good, user("Thanks.")],
        "same message": [user("Search."), assistant(*PAIR, *orphan), user("Thanks.")],
    }[place]
    out = mended(body(*messages))
    said = blocks(unmarked(out))
    assert [said[at : at + 3] for at in range(len(said)) if said[at : at + 3] == PAIR] == [PAIR]
    assert text("Also this.") in said
    whole = {"srvtoolu_1"} | ({"srvtoolu_4"} if len(orphan) == 4 else set())
    assert {b["id"] for b in said if b["type"] == "server_tool_use"} == whole
    assert {b["tool_use_id"] for b in said if b["type"] == "web_search_tool_result"} == whole
    assert not any(block["type"] == "tool_result" for block in said)


@case("B14")
def test_a_paused_server_call_is_left_to_the_provider():
    """The last turn ends in a server call: the provider goes on with it, and we say nothing."""
    request = body(
        user("Search."),
        assistant(search(1)),
        tools=[{"type": "web_search_20250305", "name": "web_search"}],
        model="claude-opus-5-5",
        thinking={"type": "adaptive"},
    )
    made = Proxy("careful").send(request)
    assert unmarked(sent(made)) == request


@case("B14")
def test_client_and_server_calls_side_by_side():
    """Only the client's own call gets a placeholder."""
    request = body(user("Both."), assistant(search(1), found(1), call("A"), call("B")), user(result("A")))
    assert complaint(request) is not None
    out = mended(request)
    assert [b["tool_use_id"] for b in blocks(out) if b["type"] == "tool_result"] == ["A", "B"]


# -- beside what leaves ------------------------------------------------------------------------------------


COPIES = {
    "in one message": [assistant(call("A"), call("A"))],
    "in two messages": [assistant(call("A")), assistant(call("A"))],
    "with a server's result": [assistant(call("A")), assistant(found(1))],
}


@pytest.mark.parametrize("shape", COPIES)
def test_a_placeholder_stands_behind_what_stays(shape):
    """The history ends with calls and a copy that leaves: the placeholder goes behind the call, not behind the copy."""
    out = mended(body(user("Check."), *COPIES[shape]))
    lost = result("A", "No result: the tool call was interrupted before it returned.", is_error=True)
    assert unmarked(out["messages"]) == [user("Check."), assistant(call("A")), user(lost)]


def test_a_turn_is_joined_behind_what_stays():
    """The first message of the turn ends with a copy that leaves: the others are joined to the call before it."""
    request = body(
        user("Check."),
        assistant(call("A"), call("A")),
        assistant(call("B")),
        user(result("A"), result("B")),
    )
    assert unmarked(mended(request)["messages"]) == [
        user("Check."),
        assistant(call("A"), call("B")),
        user(result("A"), result("B")),
    ]


BLANK_TURNS = [assistant(text("")), user(text(""))]


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("first", [0, 1])
def test_a_placeholder_is_set_once_beside_blank_turns(first, rounds):
    """Blank turns end where the turn before them ended: what is promised to its end is not set again at theirs."""
    history = [user("Check."), assistant(call("A")), user(text("")), *BLANK_TURNS * first]
    proxy = Proxy()
    before = proxy.send(body(*history))
    for _ in range(rounds):
        history += BLANK_TURNS
        made = proxy.send(body(*history, assistant(text("")), user("And?")))
        assert complaint(made.body) is None
        results = [block for block in blocks(sent(made)) if block["type"] == "tool_result"]
        assert [block["tool_use_id"] for block in results] == ["A"]
        if not first:
            assert divergence(before.body, made.body) is None
