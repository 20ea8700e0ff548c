"""A very long history is rewritten whole, or not at all, every time."""

import time

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

SECONDS = 5.0
"""Generous: it is meant to catch what hangs or is quadratic, on a machine that is busy."""


def history(rounds, *, faulty=0):
    """A history of four messages a round; in each of the last `faulty` rounds the answer is followed by a blank."""
    for at in range(rounds):
        yield user(f"q{at} " + "x" * 400)
        yield assistant(call(f"t{at}"))
        yield user(result(f"t{at}", "y" * 1200))
        yield assistant("ok")


def timed(proxy, request):
    raw = bytes_of(request)
    started = time.perf_counter()
    made = proxy.send(raw)
    return made, time.perf_counter() - started


@case("B89")
@pytest.mark.parametrize("policy", ["careful", "default", "frugal"])
@pytest.mark.parametrize("fault", [False, True])
def test_two_megabytes_in_four_thousand_messages(policy, fault):
    """Nothing is skipped for lack of time: the second turn does what the first one did."""
    messages = [*history(1000), user("end")]
    if fault:
        messages[2] = user("No result came.")  # the call of the first round lost its result
        messages[2001] = assistant(call("t500"), call("t500"))
    request = body(*messages)
    assert len(bytes_of(request)) > 1_800_000
    proxy = Proxy(policy)
    first, spent = timed(proxy, request)
    assert spent < SECONDS
    if fault:
        assert {edit.stage for edit in first.edits if edit.required} == {"balance"}
    assert complaint(first.body) is None
    longer = turns(request, assistant("Done."), user("And now?"))
    second, spent = timed(proxy, longer)
    assert spent < SECONDS
    assert divergence(first.body, second.body) is None
    mine = [(edit.stage, edit.target) for edit in first.edits if edit.stage != "breakpoints"]
    assert [(e.stage, e.target) for e in second.edits if e.stage != "breakpoints"][: len(mine)] == mine
    assert len(sent(second)["messages"]) == len(longer["messages"])


@case("B89")
def test_one_message_of_many_blocks():
    """Two thousand calls in one turn, answered in one message, half of them not at all."""
    ids = [f"t{at}" for at in range(2000)]
    request = body(
        user("Read all."),
        assistant(*(call(ident) for ident in ids)),
        user(*(result(i, "y" * 500) for i in ids[::2])),
    )
    proxy = Proxy()
    made, spent = timed(proxy, request)
    assert spent < SECONDS
    assert complaint(made.body) is None
