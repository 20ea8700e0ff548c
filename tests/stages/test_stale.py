"""Old tool results: which ones go, when, and what stands there instead."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.ledger import Ledger
from proxy.edits import Remove, Target, target_of
from proxy.stages.stale import Config

from proxy.simulator import prompt
from proxy.simulator.compare import divergence
from tests.simulator.bodies import image, png, result, text
from tests.stages.clearing import OPUS, PLAIN, Work, call, is_placeholder, lines, results

COLD = 1_000.0
"""Seconds: longer than the cache lives."""


def shown(work: Work) -> list[bool]:
    """Of each result, in order, whether the last request showed it."""
    return [not is_placeholder(content) for content in results(work.sent[-1])]


def placeholders(work: Work) -> list[str]:
    return [content for content in results(work.sent[-1]) if is_placeholder(content)]


# -- when --------------------------------------------------------------------------------------------------


def test_a_cold_cache_lets_everything_stale_go() -> None:
    """All but the newest two, in one promise at the model's last words, and for ever after."""
    work = Work(Config(keep=2))
    work.reads(5)
    assert shown(work) == [True] * 5
    done = work.ask("more", wait=COLD)
    assert shown(work) == [False, False, False, True, True]
    assert done.commit is not None
    stale = [promise for promise in done.commit.promises if promise.stage == "stale"]
    assert [(len(promise.edits), {edit.committed for edit in promise.edits}) for promise in stale] == [
        (3, {True})
    ]
    assert {edit.reason for edit in stale[0].edits} == {"stale result; nothing behind it is cached"}
    before = results(work.sent[-1])[:5]
    work.give("ok")
    assert results(work.sent[-1])[:5] == before


def test_who_goes_on_after_a_pause_goes_on_with_less() -> None:
    """All of it is written anew then: what earlier work looked at goes, but for the newest."""
    work = Work(Config(keep=4, paused=1))
    work.reads(5)
    work.ask("more", wait=COLD)
    assert shown(work) == [False] * 4 + [True]
    work.give(lines("more"))
    work.ask("pump")
    assert shown(work) == [False] * 4 + [True] * 2


def test_a_pause_in_the_middle_of_work_is_none() -> None:
    """A command that ran for an hour is no new beginning: the window is as wide as ever."""
    work = Work(Config(keep=4, paused=1))
    work.reads(5)
    work.ask("more")
    work.give(lines("more"), "pump", wait=COLD)
    assert shown(work) == [False, False, True, True, True, True]


def test_what_was_missed_after_a_pause_stays_longer_after_the_next() -> None:
    """Its tool's window widens there too."""
    work = Work(Config(keep=4, paused=1))
    work.reads(3)
    work.ask("f0", wait=COLD)
    assert shown(work) == [False, False, True]
    work.give(lines("f0"))
    work.ask("pump", wait=COLD)
    assert shown(work) == [False, False, True, True]


def test_a_conversation_that_is_not_known_was_not_paused() -> None:
    """Nothing is known of what the provider holds of it, nor of when it was last sent."""
    work = Work(Config(keep=4, paused=1))
    work.reads(5)
    work.ledger = Ledger()
    work.ask("more", wait=COLD)
    assert shown(work) == [False] + [True] * 4


def test_a_warm_cache_holds_until_the_rent_is_paid() -> None:
    """First it says what it would break and save, later it breaks it, and says why."""
    work = Work(Config(keep=2))
    work.reads(3)
    (held,) = work.last.held
    assert (held.stage, held.targets) == ("stale", 1)
    assert held.breaks_tokens > held.saves_tokens > 3_000
    assert held.reason.startswith("would break ")
    for at in range(200):
        work.ask(f"again {at}", tool="run")
        work.give("short")
        if not all(shown(work)):
            break
    assert 5 < at < 199
    reasons = {edit.reason for edit in work.last.edits if edit.stage == "stale"}
    assert all("carrying it cost" in reason and "breaking costs" in reason for reason in reasons)


def test_what_stands_before_a_second_batch_is_read() -> None:
    """A batch in a warm cache marks the end of the request before its first edit, so that the provider finds it."""
    work = Work(Config(keep=2, min_batch_bytes=0))
    work.reads(4)
    batches = []
    for at in range(60):
        was = shown(work)
        work.ask(f"again {at}", wait=5.0)
        work.give(lines(f"again{at}"), wait=5.0)
        exchange = work.provider.log[-1]
        if at and shown(work)[: len(was)] != was:
            first = next(
                edit.target for edit in work.last.edits if edit.committed and edit.reason in _made(work)
            )
            before = sum(p.tokens for p in prompt(work.last.body)[: _position(work, first)])
            batches.append(exchange.read / before)
    assert len(batches) > 2
    assert min(batches[1:]) > 0.5


def _made(work: Work) -> set[str]:
    """Reasons of the batch that the last request made."""
    assert work.last.commit is not None
    return {e.reason for p in work.last.commit.promises for e in p.edits if e.committed}


def _position(work: Work, target: Target) -> int:
    """Where in the prompt the changed part stands."""
    sent = work.last.sent
    assert sent is not None
    place = next(
        f"messages.{m.index}.content.{at}"
        for m in sent.messages
        for at, part in enumerate(m.parts)
        if target_of(part) == target
    )
    return next(at for at, position in enumerate(prompt(work.last.body)) if position.path == place)


def test_what_came_with_one_request_breaks_with_it() -> None:
    """The cache ends where requests ended: a change in the last results of many loses the ones before them too."""
    work = Work(Config(tools={"run": 1}))
    work.say("Look.", answer=(*(call(f"f{at}") for at in range(6)), call("one", "run"), call("two", "run")))
    calls = [block["id"] for block in work.messages[-1]["content"] if block["type"] == "tool_use"]
    outputs = [*(lines(f"f{at}") for at in range(6)), lines("one"), "short"]
    work.say(*map(result, calls, outputs))
    done = work.say("And now?")
    assert shown(work) == [True] * 8
    assert [(held.targets, held.breaks_tokens > 6 * held.saves_tokens) for held in done.held] == [(1, True)]
    usage = work.provider.log[-1].usage
    assert usage is not None
    assert usage.cache_read_input_tokens > 20 * usage.written


def test_what_is_sent_only_grows_but_for_batches() -> None:
    """Between batches each request begins with the one before; a batch breaks it once."""
    work = Work(Config(keep=2, tools={"run": 1}), model=PLAIN)
    for _ in range(4):
        work.reads(6)
    breaks = 0
    for earlier, later in zip(work.sent, work.sent[1:], strict=False):
        old, new = results(earlier), results(later)
        breaks += new[: len(old)] != old
    batches = sum(any(p.stage == "stale" for p in done.commit.promises) for done in work.done if done.commit)
    assert breaks == batches
    assert 0 < batches < 6


def test_the_rule_saves_money_in_a_real_cache() -> None:
    """What the embedded provider bills for a long session is less with clearing than without."""
    bills = []
    for config in (Config(keep=2), Config(keep=100_000)):
        work = Work(config)
        for _ in range(10):
            work.reads(5)
        usage = [exchange.usage for exchange in work.provider.log]
        bills.append(sum(u.input_tokens + 1.25 * u.written + 0.1 * u.cache_read_input_tokens for u in usage))
    assert bills[0] < 0.8 * bills[1]


def test_near_the_window_a_batch_need_not_pay() -> None:
    """Above the high-water mark what is worth a break goes, warm or not."""
    work = Work(Config(keep=2), window=40_000)
    work.reads(8)
    assert shown(work).count(False) >= 3
    reasons = {edit.reason for done in work.done for edit in done.edits if edit.stage == "stale"}
    assert any(reason.endswith("the window is nearly full") for reason in reasons)


def test_another_system_prompt_makes_everything_behind_it_free() -> None:
    """The provider has cached nothing behind what the client itself changed."""
    work = Work(Config(keep=2))
    work.reads(5)
    work.members["system"] = [text("Look after the orchard. " * 200)]
    work.ask("more")
    assert shown(work) == [False, False, False, True, True]


def test_small_change_is_not_collected() -> None:
    """A batch that gives back less than `min_batch_bytes` is not even held."""
    work = Work(Config(keep=2, min_batch_bytes=100_000))
    work.reads(5)
    done = work.ask("more", wait=COLD)
    assert (done.held, all(shown(work))) == ((), True)


def test_a_rewind_to_before_the_batch_brings_the_results_back() -> None:
    """The promise holds for histories with the words it was made behind, and for no other."""
    work = Work(Config(keep=4))
    work.reads(5)
    cut = next(at for at, message in enumerate(work.messages) if "f4.py" in str(message))
    work.ask("more", wait=COLD)
    assert not all(shown(work))
    work.messages = work.messages[: cut + 1]
    work.give(lines("other"), wait=1)
    assert results(work.sent[-1]) == [lines(f"f{at}") for at in range(4)] + [lines("other")]


# -- which -------------------------------------------------------------------------------------------------


def test_each_tool_has_its_window() -> None:
    """By name, else by glob, else `keep`; protected tools keep everything."""
    work = Work(Config(keep=0, tools={"read_file": 1, "r*": 0}))
    work.reads(3)
    work.ask("ls", tool="run")
    work.give(lines("out"))
    work.ask("more", wait=COLD)
    assert shown(work) == [False, False, True, False]
    protected = Work(Config(keep=0, protect=("read_*",)))
    protected.reads(3)
    protected.ask("more", wait=COLD)
    assert all(shown(protected))


def test_errors_and_small_results_stay() -> None:
    """What went wrong is worth remembering, and a placeholder is not smaller than a line."""
    work = Work(Config(keep=0))
    work.ask("a")
    work.give(lines("trace"), "b", is_error=True)
    work.give("fine", "c")
    work.give(lines("c"))
    work.ask("more", wait=COLD)
    assert shown(work) == [True, True, False]


def test_what_the_model_has_not_answered_yet_stays() -> None:
    """Not even with a window of nothing: it has not been read once."""
    work = Work(Config(keep=0))
    work.ask("a")
    work.give(lines("a"), "b", wait=COLD)
    assert shown(work) == [True]
    work.give(lines("b"), wait=COLD)
    assert shown(work) == [False, True]


def test_a_result_that_brings_tools_stays() -> None:
    """Calls of a deferred tool rest on the reference that loaded it."""
    work = Work(Config(keep=0))
    work.members["tools"] = [
        *work.members["tools"],
        {"name": "late", "input_schema": {"type": "object"}, "defer_loading": True},
    ]
    work.ask("a")
    work.give(
        [
            {"type": "tool_reference", "tool_name": "late"},
            *[{"type": "tool_reference", "tool_name": "late"}] * 200,
        ],
        "b",
    )
    work.give(lines("b"))
    work.ask("more", wait=COLD)
    assert shown(work) == [True, False]


def test_what_a_stub_points_at_stays() -> None:
    """The first read and the stub of that file; other files go."""
    work = Work(Config(keep=2))
    work.ask("pump")
    work.give(lines("pump"), "fan")
    work.give(lines("fan"), "pump")
    work.give("File unchanged since your last read; refer to that result.", "lamp")
    work.give(lines("lamp"))
    work.ask("more", wait=COLD)
    assert results(work.sent[-1])[0] == lines("pump")
    assert shown(work) == [True, False, True, True]
    assert "fan.py" in placeholders(work)[0]


def test_a_stub_that_points_at_a_cleared_result_gets_its_content_back() -> None:
    """Else the model would read in a circle. It stays so while it is in the window, and can be cleared again."""
    work = Work(Config(keep=1))
    work.ask("pump")
    work.give(lines("pump"), "fan")
    work.give(lines("fan"))
    work.ask("pump", wait=COLD)
    assert shown(work) == [False, True]
    work.give("File unchanged since your last read; refer to that result.", "ls", tool="run")
    assert results(work.sent[-1])[2] == lines("pump")
    work.give("nothing", "pump", wait=COLD)
    assert results(work.sent[-1])[2] == lines("pump")
    work.give("Still current.", wait=COLD)
    assert shown(work) == [False, False, True, True, True]
    assert results(work.sent[-1])[4] == "Still current."
    work.ask("lamp")
    work.give("dark", "pump")
    work.ask("fan", wait=COLD)
    assert results(work.sent[-1])[2] == lines("pump")


def test_content_comes_back_when_it_is_asked_for_and_then_stays_longer() -> None:
    """The client never sends it again: its own first copy serves each time. Having been missed, it is kept longer."""
    work = Work(Config(keep=1))
    work.ask("pump")
    work.give(lines("pump"), "fan")
    work.give(lines("fan"), "pump", wait=COLD)
    work.give("Unchanged.", "fan", wait=COLD)
    work.give("Unchanged.", "pump", wait=COLD)
    assert shown(work) == [False, False, True, True]  # the window is two wide now: it was asked for again
    assert results(work.sent[-1])[3] == lines("fan")
    work.give("Unchanged.", "fan", wait=COLD)
    assert shown(work) == [False, False, True, True, True]
    assert results(work.sent[-1])[2:] == [
        lines("pump"),
        lines("fan"),
        "Unchanged.",
    ]  # the copy at 2 still stands


def test_a_stub_that_points_at_nothing_stays_as_it_is() -> None:
    """Words like a stub's, in a first result, with another argument, or behind a result that is shown."""
    work = Work(Config(keep=3))
    work.ask("git status", tool="run")
    work.give("nothing to commit, working tree unchanged", "pump")
    work.give(lines("pump"), "fan")
    work.give("unchanged", "pump")
    work.give("unchanged")
    assert results(work.sent[-1])[2:] == ["unchanged", "unchanged"]


def test_a_forged_placeholder_is_not_taken_for_ours() -> None:
    """What was cleared is known from the ledger; a tool's output in our words is a tool's output."""
    work = Work(Config(keep=0))
    work.ask("a")
    work.give(lines("a"), "b")
    work.give(lines("b"))
    work.ask("page", wait=COLD)
    forged = placeholders(work)[0]
    work.give(forged, "long")
    work.give(forged + lines("page"))
    assert results(work.sent[-1])[2:] == [forged, forged + lines("page")]
    work.ask("more", wait=COLD)
    contents = results(work.sent[-1])
    assert contents[2] == forged
    assert contents[3].startswith(
        "[Note on this conversation: the output of an earlier read_file call (path: long.py)"
    )


# -- what stands there -------------------------------------------------------------------------------------


def test_a_placeholder_says_what_was_there_and_how_to_get_it_again() -> None:
    """To the byte: it stands in prompts that providers have cached."""
    work = Work(Config(keep=0))
    work.ask("src/pump")
    work.give("x" * 12_345, "ls -l\n  " + "y" * 100, tool="run")
    work.give("z" * 5_000)
    work.ask("more", wait=COLD)
    assert results(work.sent[-1]) == [
        "[Note on this conversation: the output of an earlier read_file call (path: src/pump.py) is left out here to save "
        "space (12.3 kB). This is no error and nothing else was changed; run the tool again if you need it.]",
        f"[Note on this conversation: the output of an earlier run call (cmd: ls -l {'y' * 71}...) is left out here to save "
        "space (5.0 kB). This is no error and nothing else was changed; run the tool again if you need it.]",
    ]


def test_images_of_a_result_are_counted_and_named() -> None:
    """A picture is worth what it costs, not its base64."""
    work = Work(Config(keep=0))
    work.ask("a")
    work.give([text("two pictures " * 200), image(png(800, 600)), image(png(640, 480))], "b")
    work.give(lines("b"))
    work.ask("more", wait=COLD)
    assert "with 2 images)" in results(work.sent[-1])[0]


# -- thinking ----------------------------------------------------------------------------------------------


def removed(work: Work) -> int:
    return sum(isinstance(edit, Remove) and edit.stage == "reasoning" for edit in work.last.edits)


def test_thinking_behind_a_batch_leaves_with_it() -> None:
    """The provider checks the prefix of every signed block: it takes this request and all later ones."""
    work = Work(Config(keep=2), model=OPUS, thinks=True)
    work.reads(5)
    done = work.ask("more", wait=COLD)
    assert shown(work) == [False, False, False, True, True]
    assert done.commit is not None
    (promise,) = (promise for promise in done.commit.promises if promise.stage == "stale")
    assert [type(edit).__name__ for edit in promise.edits].count("Remove") == removed(work) == 5
    kept = [
        b["type"] for m in work.sent[-1]["messages"] if m["role"] == "assistant" for b in m["content"]
    ].count("thinking")
    assert kept == 1
    work.give(lines("more"), "next")
    work.give("fine")
    kept = [
        b["type"] for m in work.sent[-1]["messages"] if m["role"] == "assistant" for b in m["content"]
    ].count("thinking")
    assert kept == 3


def test_a_batch_that_costs_thinking_waits_for_a_person() -> None:
    """In the middle of a task the model would have to plan again."""
    work = Work(Config(keep=1), model=OPUS, thinks=True)
    work.ask("a")
    work.give(lines("a"), "b")
    work.give(lines("b"), "c")
    done = work.give(lines("c"), "d", wait=COLD)
    assert all(shown(work))
    (held,) = done.held
    assert held.reason.endswith("signed thinking stands behind it: waits for a message of a person")
    work.give("fine")
    work.ask("more", wait=COLD)
    assert not all(shown(work))


def test_near_the_window_a_batch_does_not_wait() -> None:
    """A request that does not fit helps nobody."""
    work = Work(Config(keep=1), model=OPUS, thinks=True, window=40_000)
    work.reads(8)
    assert not all(shown(work))


def test_the_policy_can_keep_thinking() -> None:
    """Then a batch that would cost any is held, whoever speaks."""
    work = Work(Config(keep=2, forbid_on_prefix_check=True), model=OPUS, thinks=True)
    work.reads(5)
    done = work.ask("more", wait=COLD)
    assert all(shown(work))
    assert [held.reason.split("; ")[1] for held in done.held] == [
        "signed thinking stands behind it, which the policy keeps"
    ]


def test_an_open_round_with_manual_thinking_keeps_its_own() -> None:
    """It must begin with the thinking it began with, even where a person speaks beside the results."""
    work = Work(Config(keep=1), model=PLAIN, thinks=True, prefix_check=True)
    work.members["tools"] = [*work.members["tools"]]
    work.ask("a")
    for name in "bcd":
        work.give(lines(name), name)
    ident = work.messages[-1]["content"][-1]["id"]
    work.messages.append(
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": ident, "content": "ok"}, text("Hurry.")],
        }
    )
    work.now += COLD
    assert work.rewrite().held == ()
    work.members["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    (held,) = work.rewrite().held
    assert held.reason.endswith("the open tool round must keep its own")


# -- the rest ----------------------------------------------------------------------------------------------


def test_a_retry_of_a_batch_makes_no_second_one() -> None:
    """What stands at a turn is written once: more would be applied now and forgotten later."""
    work = Work(Config(keep=2))
    work.reads(5)
    done = work.ask("more", wait=COLD)
    assert done.commit is not None
    del work.messages[-1]
    again = work.rewrite()
    assert divergence(again.body, done.body) is None
    assert (again.commit is not None, again.held) == (True, ())
    assert not [promise for promise in again.commit.promises if promise.stage == "stale"]  # type: ignore[union-attr]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["person", "result", "result", "result"]),
        st.sampled_from([20, 300, 1_500]),
        st.sampled_from([10.0, 10.0, 10.0, COLD]),
    ),
    min_size=4,
    max_size=25,
)


@settings(max_examples=25)
@given(
    steps=STEPS,
    keep=st.integers(0, 3),
    model=st.sampled_from([PLAIN, OPUS]),
    window=st.sampled_from([20_000, 200_000]),
)
def test_whatever_the_session_it_is_accepted_and_only_grows(
    steps: list[tuple[str, int, float]], keep: int, model: str, window: int
) -> None:
    """The provider takes every request, with every signed block it still holds; what was sent stands in the next
    request but for what a batch of that request names."""
    work = Work(Config(keep=keep), model=model, thinks=True, window=window)
    work.ask("start")
    for number, (who, size, wait) in enumerate(steps):
        if who == "person":
            work.give("fine", wait=wait)
            work.ask(f"f{number}", wait=wait)
        else:
            work.give(lines(f"f{number}", size), f"f{number}", wait=wait)
    for earlier, later, done in zip(work.sent, work.sent[1:], work.done[1:], strict=False):
        old, new = spoken(earlier), spoken(later)
        assert done.commit is not None
        if not any(promise.stage == "stale" for promise in done.commit.promises):
            assert new[: len(old)] == old


def spoken(body: dict[str, Any]) -> list[Any]:
    """All blocks of the turns without their marks."""
    return [
        (message["role"], {name: value for name, value in block.items() if name != "cache_control"})
        for message in body["messages"]
        for block in (
            [text(message["content"])] if isinstance(message["content"], str) else message["content"]
        )
    ]


@pytest.mark.parametrize(
    "options",
    [{"keep": -1}, {"min_bytes": 10}, {"high_water": 0}, {"high_water": 1.1}, {"window": 3}, {"stubs": [""]}],
)
def test_options_have_bounds(options: dict[str, object]) -> None:
    """A policy that says nonsense is refused when it is read."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(options, Config)
