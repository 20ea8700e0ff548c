"""Sums over a history: what a conversation is told of an earlier one saves time and changes nothing."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from proxy.conversation import (
    Conversation,
    Image,
    Mark,
    Message,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from proxy.runs import LENGTHS, follow, runs, within

LENGTH = LENGTHS[1]


def said(number: int, **more: object) -> Message:
    return Message(role=Role.USER, parts=(Text(text=f"message {number}", size=10),), raw=Raw(b"{}"), **more)  # type: ignore[arg-type]


def talk(*messages: Message) -> Conversation:
    return Conversation(envelope=(), tools=(), system=(), messages=messages)


PARTS = st.one_of(
    st.builds(Text, text=st.sampled_from(["", " ", "words"]), size=st.integers(0, 99), nth=st.integers(0, 1)),
    st.builds(Image, media_type=st.just("image/png"), data_bytes=st.just(9), size=st.integers(0, 99)),
    st.builds(
        ToolCall, id=st.sampled_from("abc"), name=st.just("read"), input=st.just(b"{}"), size=st.just(5)
    ),
    st.builds(
        ToolResult,
        call_id=st.sampled_from("abc"),
        content=st.sampled_from(
            [None, b'"text"', b'[{"type":"text","text":"t","cache_control":{"type":"ephemeral"}}]']
        ),
        server=st.booleans(),
        images=st.integers(0, 1),
        size=st.integers(0, 99),
    ),
    st.builds(Reasoning, signature=st.just("s"), size=st.just(7), mark=st.sampled_from([None, Mark()])),
)
MESSAGES = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(Role),
        parts=st.lists(PARTS, max_size=3).map(tuple),
        raw=st.sampled_from([None, Raw(b"{}")]),
    ),
    max_size=3 * LENGTH,
).map(tuple)


@given(MESSAGES, MESSAGES, st.integers(0, 3 * LENGTH))
def test_what_was_told_changes_nothing(before, after, shared):
    """Whatever the earlier conversation was, and however much of it is in the later one."""
    earlier = talk(*before)
    runs(earlier)
    later = talk(*before[:shared], *after)
    assert runs(follow(structs.replace(later), earlier)) == runs(later)


def test_runs_of_the_same_messages_are_taken_over():
    """They are the very same; what comes behind is added up anew."""
    messages = [said(number) for number in range(2 * LENGTH + 3)]
    before = runs(talk(*messages))
    after = runs(follow(talk(*messages, said(1000)), before))
    assert [len(run.messages) for run in after] == [LENGTH, LENGTH, 4]
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, True, False]


def test_a_run_with_a_changed_message_is_added_up_anew():
    """Those before and behind it are not."""
    messages = [said(number) for number in range(3 * LENGTH)]
    before = runs(talk(*messages))
    messages[LENGTH + 5] = structs.replace(messages[LENGTH + 5], raw=None)
    after = runs(follow(talk(*messages), before))
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert [run.raws is None for run in after] == [False, True, False]


def test_what_was_told_is_handed_on_by_a_conversation_that_was_never_asked():
    """Several stages may change a conversation before one looks at all of it."""
    messages = [said(number) for number in range(LENGTH)]
    first = talk(*messages)
    known = runs(first)
    second = follow(talk(*messages, said(1)), first)
    third = follow(talk(*messages, said(2)), second)
    assert runs(third)[0] is known[0]


def test_runs_within_a_place():
    """Only whole ones; the place is where they end."""
    found = runs(talk(*(said(number) for number in range(2 * LENGTH + 3))))
    assert within(found, 0) == ([], 0)
    assert within(found, LENGTH - 1) == ([], 0)
    assert within(found, 2 * LENGTH + 1) == ([*found[:2]], 2 * LENGTH)
    assert within(found, 1000) == ([*found], 2 * LENGTH + 3)


def test_a_conversation_told_of_sums_equals_one_that_was_not():
    """Sums are no part of what a conversation says."""
    first = talk(said(1))
    runs(first)
    assert first == talk(said(1))
    assert follow(talk(said(1)), first) == first


def test_long_histories_are_in_long_runs():
    """The last messages stand in short ones; whatever was told of fewer messages is of use where it still fits."""
    messages = [said(number) for number in range(LENGTHS[0] + LENGTHS[1] - 1)]
    before = runs(talk(*messages))
    assert [len(run.messages) for run in before] == [LENGTHS[0], *[4] * 7, 3]
    after = runs(follow(talk(*messages, said(1), said(2)), before))
    assert [len(run.messages) for run in after] == [LENGTHS[0], LENGTHS[1], 1]
    assert after[0] is before[0]
    assert after == runs(talk(*messages, said(1), said(2)))
