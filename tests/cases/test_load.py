"""A very long history is rewritten whole, or not at all, every time."""

import cProfile

import pytest

from proxy.simulator import divergence
from tests.cases.bodies import (
    Proxy,
    assistant,
    body,
    bytes_of,
    call,
    case,
    complaint,
    result,
    sent,
    turns,
    user,
)

WORK = 5.0
"""How many times the work of a history one four times as long may take: what is quadratic takes sixteen times."""


def history(rounds, *, faulty=0):
    """A history of four messages a round; in each of the last `faulty` rounds the answer is followed by a blank."""
    for at in range(rounds):
        yield user(f"q{at} " + "x" * 400)
        yield assistant(call(f"t{at}"))
        yield user(result(f"t{at}", "y" * 1200))
        yield assistant("ok")


def counted(proxy, request):
    """What is made of a request, and how many functions were called for it: a measure that no busy machine changes."""
    profile = cProfile.Profile()
    made = profile.runcall(proxy.send, bytes_of(request))
    profile.create_stats()
    return made, sum(calls for calls, *_ in profile.stats.values())


def asked(rounds, *, fault):
    """A request with so many rounds of calls."""
    messages = [*history(rounds), user("end")]
    if fault:
        messages[2] = user("No result came.")  # the call of the first round lost its result
        half = rounds // 2
        messages[4 * half + 1] = assistant(call(f"t{half}"), call(f"t{half}"))
    return body(*messages)


@case("B89")
@pytest.mark.parametrize("policy", ["careful", "default", "frugal"])
@pytest.mark.parametrize("fault", [False, True])
def test_two_megabytes_in_four_thousand_messages(policy, fault):
    """Nothing is skipped for lack of time: the second turn does what the first one did, and time grows with length."""
    request = asked(1000, fault=fault)
    assert len(bytes_of(request)) > 1_800_000
    proxy = Proxy(policy)
    first, cold = counted(proxy, request)
    if fault:
        assert {edit.stage for edit in first.edits if edit.required} == {"balance"}
    assert complaint(first.body) is None
    longer = turns(request, assistant("Done."), user("And now?"))
    second, warm = counted(proxy, longer)
    assert divergence(first.body, second.body) is None
    mine = [(edit.stage, edit.target) for edit in first.edits if edit.stage != "breakpoints"]
    assert [(e.stage, e.target) for e in second.edits if e.stage != "breakpoints"][: len(mine)] == mine
    assert len(sent(second)["messages"]) == len(longer["messages"])
    _, quarter = counted(Proxy(policy), asked(250, fault=fault))
    assert cold < WORK * quarter
    assert warm < cold


def many(calls):
    """So many calls in one turn, answered in one message, half of them not at all."""
    ids = [f"t{at}" for at in range(calls)]
    return body(
        user("Read all."),
        assistant(*(call(ident) for ident in ids)),
        user(*(result(i, "y" * 500) for i in ids[::2])),
    )


@case("B89")
def test_one_message_of_many_blocks():
    """Two thousand calls in one turn take four times what five hundred take."""
    made, spent = counted(Proxy(), many(2000))
    assert complaint(made.body) is None
    assert spent < WORK * counted(Proxy(), many(500))[1]
