"""What marks are for: turn by turn, the provider reads from its cache what was sent before."""

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.agents import Agents
from proxy.simulator import marks as provider
from proxy.simulator import models
from proxy.simulator.refusal import Refusal
from proxy.simulator.request import Request
from proxy.simulator.settings import Settings
from proxy.stages.breakpoints import Config, Every
from tests.stages.marking import (
    EPHEMERAL,
    HOUR,
    LONG,
    MODEL,
    MODELS,
    Json,
    Session,
    answer,
    body,
    call,
    result,
    text,
    thought,
    tokens,
    tool,
    unmarked,
    user,
    where,
)

M = {"cache_control": EPHEMERAL}
H = {"cache_control": HOUR}
RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
CLAUDE = Agents.load().of({"user-agent": "claude-cli/2.1.332 (external, cli)"})


def turns(count: int, parts: int) -> list[list[Json]]:
    """The messages of each request of a session; a turn adds about twice so many parts, no two of one kind."""
    messages = [user("Look after it.")]
    requests = [list(messages)]
    for turn in range(count):
        names = [f"t{turn}x{at}" for at in range(parts // 2)]
        messages.append(answer(*[block for name in names for block in (text(f"Now {name}."), call(name))]))
        messages.append(user(*[result(name) for name in names], *[text(f"Seen {name}.") for name in names]))
        requests.append(list(messages))
    return requests


def last_path(sent: Json) -> str:
    """The last marked block as the provider counts them."""
    zone, *rest = list(where(sent))[-1].split(".")
    return f"messages.{rest[0]}.content.{rest[1]}" if zone == "messages" else f"{zone}.{rest[0]}"


def reads_all_that_was_written(session: Session, requests: list[Json]) -> None:
    """Each request reads up to the last mark of the one before."""
    written = 0
    for made in requests:
        sent, usage = session.send(made)
        assert unmarked(sent) == unmarked(made)
        assert usage.cache_read_input_tokens == written
        written = tokens(sent, last_path(sent))
        assert usage.total == usage.cache_read_input_tokens + usage.written


@pytest.mark.parametrize("parts", [2, 16, 30, 60])
def test_every_turn_reads_all_that_the_turn_before_wrote(parts: int) -> None:
    """Whatever a turn adds: also more than the lookback of twenty positions."""
    reads_all_that_was_written(Session(), [body(*messages) for messages in turns(6, parts)])


@pytest.mark.parametrize("parts", [16, 30, 60])
def test_a_lagging_mark_alone_makes_the_read_sure(parts: int) -> None:
    """`every` stands in for `before_current`: near enough to find the last tail."""
    config = Config(place=("system", "tail", Every(every=15)))
    reads_all_that_was_written(Session(config), [body(*messages) for messages in turns(5, parts)])


def test_without_either_the_lookback_fails() -> None:
    """The tail alone, after a turn of sixty parts, finds nothing: that is what the other marks are for."""
    session = Session(Config(place=("tail",)))
    reads = [session.send(body(*messages))[1].cache_read_input_tokens for messages in turns(3, 30)]
    assert reads == [0, 0, 0, 0]


def test_a_mark_lags_only_where_it_is_needed() -> None:
    """Within twenty positions the tail's own lookback finds the last one."""
    config = Config(place=("tail", Every(every=15)))
    short, long = Session(config), Session(config)
    for messages in turns(2, 4):
        sent, _ = short.send(body(*messages))
        assert len(where(sent)) == 1
    counts = [len(where(long.send(body(*messages))[0])) for messages in turns(2, 30)]
    assert counts == [1, 2, 2]


def test_many_parallel_calls_do_not_lose_the_history() -> None:
    """Fourteen calls and their results behind one prompt: counted singly they are beyond the lookback."""
    names = [f"t{at:02}" for at in range(14)]
    session = Session(Config(place=("system", "tail", Every(every=15))))
    first, _ = session.send(body(user(text("Read all.", **M))))
    assert where(first) == {"system.0": None, "messages.0.0": None}
    second, usage = session.send(
        body(user("Read all."), answer(*map(call, names)), user(*map(result, names)))
    )
    assert where(second) == {"system.0": None, "messages.2.0": None, "messages.2.13": None}
    assert usage.cache_read_input_tokens == tokens(first, "messages.0.content.0")


def test_one_free_slot_moves_on_with_the_conversation() -> None:
    """A client that uses three slots and never marks its tool turns: the fourth is read and advances each turn."""
    for parts in (4, 30):
        session, reads = Session(), []
        for messages in turns(6, parts):
            first, *rest = messages
            marked = user(text(first["content"], **M))
            tools = (tool("read"), tool("run", **M))
            sent, usage = session.send(body(marked, *rest, system=[text(LONG, **M)], tools=tools))
            assert len(where(sent)) <= 4
            reads.append(usage.cache_read_input_tokens)
        assert reads == sorted(set(reads))


def test_a_client_that_puts_its_turns_before_a_fixed_end_is_read_too() -> None:
    """No tail of such a client ever comes again; what stands before its changes does, and grows."""
    session, reads, totals = Session(), [], []
    history = [user("Example."), answer("I see.")]
    for turn in range(8):
        files = [user(f"The files, version {turn}: " + LONG), answer("Ok."), user(f"Do {turn}.")]
        _, usage = session.send(body(*history, *files, tools=None))
        reads.append(usage.cache_read_input_tokens)
        totals.append(usage.total)
        history += [user(f"Do {turn}. " + "words " * 300), answer(f"Done {turn}. " + "words " * 300)]
    kept = [total - totals[0] for total in totals]
    assert all(read >= before for read, before in zip(reads[3:], kept[1:], strict=False))


def test_a_message_changed_in_the_middle_is_marked_before_the_change() -> None:
    """What stands before the change in the same message was sent and may come again; a part that carries no mark may not."""
    session = Session(Config(place=("before_current",)))
    session.send(body(user(text(LONG), text("Version 1."))))
    sent, _ = session.send(body(user(text(LONG), text("Version 2."))))
    assert where(sent) == {"messages.0.0": None}
    strange = {"type": "hologram", "data": "new"}
    session = Session(Config(place=("before_current",)))
    session.send(body(user(strange, text("Version 1."))))
    sent, _ = session.send(body(user(strange, text("Version 2."))))
    assert where(sent) == {}


def test_a_rewind_is_read_up_to_where_it_parts() -> None:
    """The client takes its last prompt back: what stood before it is still cached."""
    session = Session()
    opening = [user("Check."), answer(call("A")), user(result("A")), answer("Done.")]
    session.send(body(*opening[:1]))
    sent, _ = session.send(body(*opening[:3]))
    session.send(body(*opening, user("Now water it.")))
    _, usage = session.send(body(*opening, user("Now air it.")))
    assert usage.cache_read_input_tokens >= tokens(sent, "messages.2.content.0")


@pytest.mark.parametrize("recording", sorted(path.name for path in RECORDINGS.glob("claude-code-*")))
def test_claude_code_keeps_its_marks_and_its_compaction_call_gets_no_tail(recording: str) -> None:
    """In recorded sessions all marks of the client stay, the provider takes ours beside them, and the text that
    asks for a summary is never written to the cache."""
    session, compactions = Session(agent=CLAUDE), 0
    for line in gzip.decompress((RECORDINGS / recording).read_bytes()).splitlines():
        made = orjson.loads(orjson.loads(line)["body"])
        sent, _ = session.send(made)
        kept = where(sent)
        assert {path: kept.get(path, "gone") for path in where(made)} == where(made)
        assert unmarked(sent) == unmarked(made)
        check(sent)
        last = sent["messages"][-1]["content"]
        if "Respond with TEXT ONLY" in str(last):
            compactions += 1
            assert f"messages.{len(sent['messages']) - 1}.{len(last) - 1}" not in kept
    assert bool(compactions) == ("modes" in recording)


# -- laws of marks, over made-up requests ------------------------------------------------------------------------

CONTROL = st.sampled_from(
    [{}, {}, {}, M, H, {"cache_control": None}, {"cache_control": {"type": "ephemeral", "ttl": "5m"}}]
)


@st.composite
def marked_bodies(draw: Any) -> Json:
    """Bodies of a client with marks anywhere, right and wrong."""

    def marked(block: Json) -> Json:
        return {**block, **draw(CONTROL)}

    messages: list[Json] = []
    for turn in range(draw(st.integers(0, 4))):
        names = [f"c{turn}x{at}" for at in range(draw(st.integers(0, 12)))]
        said = [marked(thought(f"Hm {turn}"))] if draw(st.booleans()) else []
        messages.append(
            user(marked(text(f"Ask {turn}")), *([marked(text(""))] if draw(st.integers(0, 5)) == 0 else []))
        )
        messages.append(answer(*said, marked(text(f"Say {turn}")), *[marked(call(name)) for name in names]))
        inner = [marked(text("in"))] if draw(st.integers(0, 3)) == 0 else "fine"
        messages += [user(*[marked(result(name, inner)) for name in names])] if names else []
    messages.append(
        user("As a string.") if draw(st.booleans()) else user(marked(text("Go on.")), marked(text("Please.")))
    )
    tools = [marked(tool("read")), {**tool("late", defer_loading=True), **draw(CONTROL)}, marked(tool("run"))]
    system = [marked(text(LONG)), marked(text("Be kind."))]
    return body(*messages, system=system, tools=tuple(tools), **draw(st.sampled_from([{}, {}, M, H])))


CONFIGS = st.builds(
    Config,
    place=st.lists(
        st.sampled_from(["tools", "system", "before_current", "tail", Every(every=15), Every(every=3)]),
        max_size=5,
    ).map(tuple),
    ttl=st.sampled_from(["client", "5m", "1h"]),
    replace=st.booleans(),
)


def check(sent: Json) -> None:
    """The provider's own checks of marks. Raises Refusal."""
    request = Request(
        body=sent,
        version="2023-06-01",
        betas=frozenset(),
        organization="o",
        workspace="w",
        model=models.find(MODEL) or models.PERMISSIVE,
        settings=Settings(),
        counting=False,
    )
    provider.check_placement(request)
    provider.check(request)


def is_accepted(made: Json) -> bool:
    try:
        check(made)
    except Refusal:
        return False
    return True


@given(marked_bodies(), CONFIGS)
def test_the_provider_accepts_all_marks(made: Json, config: Config) -> None:
    """At most four, lifetimes in order, none where none may stand, whatever the client marked [A15 B3 B4 B9]."""
    sent = Session(config).mark(made)
    check(sent)
    assert unmarked(sent) == unmarked(made)


@given(marked_bodies(), CONFIGS)
def test_marking_is_done_once(made: Json, config: Config) -> None:
    """Our own output, sent back in, needs nothing more."""
    sent = Session(config).mark(made)
    assert Session(config).rewrite(sent).edits == ()


@given(marked_bodies(), CONFIGS)
def test_valid_marks_of_the_client_are_kept(made: Json, config: Config) -> None:
    """Where the provider would take the request as it is, every mark in it stays as spelt."""
    if is_accepted(made) and not config.replace:
        kept = where(Session(config).mark(made))
        assert {path: kept.get(path, "gone") for path in where(made)} == where(made)


@given(marked_bodies(), CONFIGS, st.integers(2, 5))
def test_a_session_never_reads_less_than_it_wrote(made: Json, config: Config, cut: int) -> None:
    """With the previous tail marked, a longer history reads all that a shorter one wrote."""
    session = Session(Config(ttl=config.ttl))
    bare = unmarked(made)
    users = [at for at, message in enumerate(bare["messages"]) if message["role"] == "user"]
    written = 0
    for at in users[:cut]:
        sent, usage = session.send({**bare, "messages": bare["messages"][: at + 1]})
        assert usage.cache_read_input_tokens >= written
        written = usage.cache_read_input_tokens + usage.written


def test_the_facts_of_the_model_hold_in_these_tests() -> None:
    """The model marks, looks back twenty positions and takes four marks; otherwise all above says little."""
    facts = MODELS.facts("anthropic", MODEL)
    assert (facts.marks, facts.regime, facts.lookback, facts.max_marks) == (True, "breakpoints", 20, 4)
