"""Edits: what each does, in which order, and that what they leave is what would be read from it."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from proxy.conversation import (
    Conversation,
    Mark,
    Part,
    Reminder,
    Role,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from proxy.dialects.anthropic import Anthropic
from proxy.edits import (
    Edit,
    InsertAfter,
    InsertBefore,
    Mend,
    Move,
    PlaceMark,
    Remove,
    Replace,
    Target,
    apply,
    by_stage,
    target_of,
    unchanged,
)
from proxy.identity import chain, digest, origin

DIALECT = Anthropic()
SAYS: dict[str, Any] = {"stage": "test", "reason": "because"}
BODY: dict[str, Any] = {
    "model": "m",
    "tools": [{"name": "run"}, {"name": "read"}],
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        {"role": "user", "content": [{"type": "text", "text": "d", "x": 1}]},
    ],
}


def read(body: dict[str, Any]) -> Conversation:
    """A body as it comes to the stages: every part has a key."""
    conversation = DIALECT.read(DIALECT.open(orjson.dumps(body)))

    def named(parts: tuple[Part, ...], where: bytes) -> tuple[Part, ...]:
        return tuple(structs.replace(part, key=digest(where, bytes([at]))) for at, part in enumerate(parts))

    return structs.replace(
        conversation,
        messages=tuple(chain(conversation.messages, origin(b"t"), lambda reminder: reminder.text)),
        tools=named(conversation.tools, b"tools"),
        system=named(conversation.system, b"system"),
    )


READ = read(BODY)


def part(words: str) -> Part:
    return next(
        part
        for parts in (READ.system, *(message.parts for message in READ.messages))
        for part in parts
        if isinstance(part, Text) and part.text == words
    )


def at(words: str) -> Target:
    return target_of(part(words))


def done(*edits: Edit, since: int = 0) -> dict[str, Any]:
    """The body after the edits."""
    conversation, made = apply(READ, edits, since)
    assert made == edits
    return orjson.loads(DIALECT.write(conversation))


def turns(*edits: Edit, since: int = 0) -> list[Any]:
    """The turns after the edits, as words."""
    return [
        (
            message["role"][0],
            message["content"]
            if isinstance(message["content"], str)
            else [block["text"] for block in message["content"]],
        )
        for message in done(*edits, since=since)["messages"]
    ]


def put(words: str) -> Text:
    return Text(text=words)


def test_no_edit_changes_nothing() -> None:
    """Not even which object it is."""
    assert apply(READ, ())[0] is READ


def test_an_edit_without_its_target_is_not_made() -> None:
    """It is left out of what was done, and nothing changes."""
    lost = Target(b"elsewhere")
    edits = [
        Remove(target=lost, **SAYS),
        Replace(target=lost, part=put("x"), **SAYS),
        Move(target=at("a"), to=lost, **SAYS),
        Move(target=lost, to=at("a"), **SAYS),
    ]
    conversation, made = apply(READ, edits)
    assert made == ()
    assert conversation is READ


def test_replace_takes_over_mark_key_and_unknown_members() -> None:
    """The new part says something else; all that it does not speak of stays."""
    marked = structs.replace(READ, messages=READ.messages[:2] + (structs.replace(READ.messages[2]),))
    conversation, _ = apply(
        marked,
        [
            PlaceMark(target=at("d"), mark=Mark("1h"), **SAYS),
            Replace(target=at("d"), part=put("D"), **SAYS),
        ],
    )
    new = conversation.messages[2].parts[0]
    assert (new.key, new.mark, new.raw) == (part("d").key, Mark("1h"), None)
    assert orjson.loads(DIALECT.write(conversation))["messages"][2]["content"] == [
        {"type": "text", "text": "D", "x": 1, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    ]


def test_a_bare_string_stays_one() -> None:
    """Until it needs a mark or a neighbour."""
    assert turns(Replace(target=at("a"), part=put("A"), **SAYS))[0] == ("u", "A")
    assert turns(InsertAfter(target=at("a"), part=put("n"), **SAYS))[0] == ("u", ["a", "n"])
    assert done(PlaceMark(target=at("a"), mark=Mark(), **SAYS))["messages"][0]["content"] == [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    ]


def test_inserts_stand_beside_their_target() -> None:
    """Of two behind one place the second stands behind the first; of two before it, right before the target."""
    edits = [
        InsertAfter(target=at("b"), part=put("1"), **SAYS),
        InsertAfter(target=at("b"), part=put("2"), **SAYS),
        InsertBefore(target=at("c"), part=put("3"), **SAYS),
        InsertBefore(target=at("c"), part=put("4"), **SAYS),
    ]
    assert turns(*edits)[1] == ("a", ["b", "1", "2", "3", "4", "c"])


def test_stages_put_parts_behind_one_place_as_they_come() -> None:
    """What another stage put there is passed over by nobody: at once it is as it is one stage after the other."""
    one = InsertAfter(target=at("b"), part=put("1"), **SAYS)
    other = InsertAfter(target=at("b"), part=put("2"), **{**SAYS, "stage": "other"})
    at_once, _ = apply(READ, [one, other])
    in_turn, _ = apply(apply(READ, [one])[0], [other])
    assert DIALECT.write(at_once) == DIALECT.write(in_turn)


def test_what_is_inserted_can_be_named() -> None:
    """Its key comes from its place and what it says, so it is the same in every request."""
    insert = InsertAfter(target=at("b"), part=put("1"), **SAYS)
    ours = apply(READ, [insert])[0].messages[1].parts[1]
    assert ours.key == apply(READ, [insert])[0].messages[1].parts[1].key
    assert turns(insert, InsertAfter(target=target_of(ours), part=put("2"), **SAYS))[1] == (
        "a",
        ["b", "1", "2", "c"],
    )
    given_key = structs.replace(put("1"), key=b"mine")
    assert (
        apply(READ, [InsertAfter(target=at("b"), part=given_key, **SAYS)])[0].messages[1].parts[1]
        == given_key
    )


def test_messages_of_ours_stand_around_their_target_s() -> None:
    """What one stage puts at one place is one message; before and behind are two places."""
    edits = [
        InsertBefore(target=at("a"), part=put("1"), role=Role.USER, **SAYS),
        InsertBefore(target=at("a"), part=put("2"), role=Role.USER, **SAYS),
        InsertAfter(target=at("c"), part=put("3"), role=Role.USER, **SAYS),
    ]
    assert turns(*edits) == [("u", ["1", "2"]), ("u", "a"), ("a", ["b", "c"]), ("u", ["3"]), ("u", ["d"])]


def test_a_message_of_ours_is_a_place_like_any_other() -> None:
    """A message may be put behind one that was put there."""
    first = InsertAfter(target=at("c"), part=put("1"), role=Role.USER, **SAYS)
    ours = target_of(apply(READ, [first])[0].messages[2].parts[0])
    then = InsertAfter(target=ours, part=put("2"), role=Role.ASSISTANT, **SAYS)
    assert turns(first, then)[2:4] == [("u", ["1"]), ("a", ["2"])]


def test_a_message_that_lost_all_its_parts_is_not_written() -> None:
    """It keeps its place, so that edits at that place still find it."""
    edits = [Remove(target=at("b"), **SAYS), Remove(target=at("c"), **SAYS)]
    assert turns(*edits) == [("u", "a"), ("u", ["d"])]
    assert len(apply(READ, edits)[0].messages) == 3


@pytest.mark.parametrize(
    ("target", "to", "before", "expected"),
    [
        ("a", "c", False, [("a", ["b", "c", "a"]), ("u", ["d"])]),
        ("a", "c", True, [("a", ["b", "a", "c"]), ("u", ["d"])]),
        ("b", "c", False, [("u", "a"), ("a", ["c", "b"]), ("u", ["d"])]),
        ("c", "b", True, [("u", "a"), ("a", ["c", "b"]), ("u", ["d"])]),
        ("c", "b", False, [("u", "a"), ("a", ["b", "c"]), ("u", ["d"])]),
        ("d", "a", False, [("u", ["a", "d"]), ("a", ["b", "c"])]),
    ],
)
def test_move(target: str, to: str, before: bool, expected: list[Any]) -> None:
    """The part leaves its message and stands beside another, in that part's message; a bare string becomes a block."""
    assert turns(Move(target=at(target), to=at(to), before=before, **SAYS)) == expected


def test_a_part_does_not_move_to_itself() -> None:
    """That would lose it."""
    assert apply(READ, [Move(target=at("b"), to=at("b"), **SAYS)]) == (READ, ())


def test_moved_parts_are_found_where_they_stand_now() -> None:
    """Edits build on each other: several moved to one place keep their order."""
    edits = [
        Move(target=at("b"), to=at("a"), **SAYS),
        Move(target=at("c"), to=at("a"), **SAYS),
        Replace(target=at("b"), part=put("B"), **SAYS),
        Remove(target=at("a"), **SAYS),
    ]
    assert turns(*edits) == [("u", ["B", "c"]), ("u", ["d"])]


def test_what_left_is_not_found_again() -> None:
    """A second edit of a part that is gone is not made."""
    remove = Remove(target=at("b"), **SAYS)
    assert apply(READ, [remove, remove])[1] == (remove,)


def test_tools_and_system_are_edited_like_turns() -> None:
    """The envelope knows that they changed."""
    first, second = map(target_of, READ.tools)
    body = done(
        Move(target=second, to=first, before=True, **SAYS),
        Replace(target=target_of(READ.system[0]), part=put("Be kind."), **SAYS),
    )
    assert body == {**BODY, "tools": [{"name": "read"}, {"name": "run"}], "system": "Be kind."}


def test_a_mend_was_made_before() -> None:
    """Bytes are mended before there is a conversation; the edit only says so."""
    mend = Mend(target=Target(b""), count=2, **SAYS)
    assert apply(READ, [mend]) == (READ, (mend,))


@pytest.mark.parametrize("since", [0, 1, 2, 3])
def test_the_hint_changes_nothing(since: int) -> None:
    """Where an edit stands is found all the same."""
    edits = [Replace(target=at("a"), part=put("A"), **SAYS), Remove(target=at("c"), **SAYS)]
    assert turns(*edits, since=since) == [("u", "A"), ("a", ["b"]), ("u", ["d"])]


def test_a_target_is_found_far_from_the_hint() -> None:
    """In a long history, too."""
    body = {"model": "m", "messages": [{"role": "user", "content": f"{at}"} for at in range(300)]}
    conversation = read(body)
    target = target_of(conversation.messages[10].parts[0])
    edited, made = apply(conversation, [Replace(target=target, part=put("x"), **SAYS)], 300)
    assert (len(made), edited.messages[10].parts[0].text) == (1, "x")  # type: ignore[union-attr]  # a text


def test_marks_come_and_go_without_a_word() -> None:
    """Taken away and set again, the block is the client's own again but for its mark's place."""
    conversation, _ = apply(READ, [PlaceMark(target=at("d"), mark=Mark(), **SAYS)])
    again, _ = apply(conversation, [PlaceMark(target=at("d"), mark=None, **SAYS)])
    assert orjson.loads(DIALECT.write(again)) == BODY


CALL = ToolCall(id="t", name="run", input=b'{"a":1}')


@pytest.mark.parametrize(
    ("new", "old", "same"),
    [
        (put("a"), put("a"), True),
        (put("a"), Reminder(text="a", source=Source.REMINDER, name=""), True),
        (put("a"), put("b"), False),
        (CALL, CALL, True),
        (CALL, structs.replace(CALL, input=b'{"a": 1}'), False),
        (CALL, structs.replace(CALL, id="u"), False),
        (put("a"), CALL, False),
        (ToolResult(call_id="t", content=None), ToolResult(call_id="t", content=None), False),
    ],
)
def test_a_replacement_that_says_what_stands_there_is_none(new: Part, old: Part, same: bool) -> None:
    """To the byte, for texts and calls; everything else is always replaced."""
    assert unchanged(Replace(target=target_of(old), part=new, **SAYS), old) is same


def test_only_replacements_can_be_void() -> None:
    """A removal always does something."""
    assert not unchanged(Remove(target=at("a"), **SAYS), part("a"))


def test_edits_are_counted_by_stage() -> None:
    """For the log."""
    edits = [Remove(target=at("a"), stage=stage, reason="") for stage in ("b", "a", "b")]
    assert by_stage(edits) == {"b": 2, "a": 1}


# -- what is left is what would be read ------------------------------------------------------------------------

BLOCKS = st.sampled_from(
    [
        {"type": "text", "text": "words"},
        {"type": "text", "text": "more", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "t1", "name": "run", "input": {"a": 1.0}},
        {"type": "tool_result", "tool_use_id": "t1", "content": "fine"},
        {"type": "tool_result", "tool_use_id": "t2", "is_error": True},
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "image", "source": {"type": "url", "url": "https://a.example/"}},
        {"type": "hologram", "x": None},
    ]
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "system"]),
            "content": st.sampled_from(["", "bare"]) | st.lists(BLOCKS, min_size=1, max_size=4),
        }
    ),
    min_size=1,
    max_size=4,
)
OURS = st.sampled_from(
    [
        put("ours"),
        put("bare"),
        Reminder(text="told", source=Source.REMINDER, name="n"),
        ToolResult(call_id="t9", content=b'"lost"', is_error=True),
        ToolCall(id="t9", name="run", input=b"{}"),
    ]
)


@st.composite
def edited(draw: st.DrawFn) -> tuple[Conversation, list[Edit]]:
    """A conversation and edits of every kind at its parts."""
    conversation = read(
        {"model": "m", "system": draw(st.sampled_from(["", "s"])) or [], "messages": draw(MESSAGES)}
    )
    parts = [part for message in conversation.messages for part in message.parts]
    target = st.sampled_from(parts).map(target_of)
    role = st.sampled_from([None, Role.USER])
    kinds: st.SearchStrategy[Edit] = st.one_of(
        st.builds(lambda t: Remove(target=t, **SAYS), target),
        st.builds(lambda t, p: Replace(target=t, part=p, **SAYS), target, OURS),
        st.builds(lambda t, p, r: InsertBefore(target=t, part=p, role=r, **SAYS), target, OURS, role),
        st.builds(lambda t, p, r: InsertAfter(target=t, part=p, role=r, **SAYS), target, OURS, role),
        st.builds(lambda t, to, b: Move(target=t, to=to, before=b, **SAYS), target, target, st.booleans()),
        st.builds(lambda t, m: PlaceMark(target=t, mark=m, **SAYS), target, st.none() | st.just(Mark("1h"))),
    )
    return conversation, draw(st.lists(kinds, max_size=5))


def plain(conversation: Conversation) -> list[Any]:
    """What is said, and by whom; not how it is spelt, nor what only the proxy knows."""
    said = []
    for message in conversation.messages:
        parts = [
            structs.replace(
                Text(text=part.text, mark=part.mark) if isinstance(part, Reminder) else part,
                raw=None,
                base=None,
                key=b"",
                nth=0,
                size=0,
            )
            for part in message.parts
        ]
        if message.written:
            said.append((message.role, parts or [Text(text="")]))
    return said


@given(edited())
def test_what_edits_leave_is_what_would_be_read_from_it(case: tuple[Conversation, list[Edit]]) -> None:
    """So that an edit made in one request and the same one made again in the next build on the same thing."""
    after, _ = apply(*case)
    assert plain(read_back(after)) == plain(after)


@given(edited())
def test_edits_are_made_again_the_same(case: tuple[Conversation, list[Edit]]) -> None:
    """On an equal history they give equal bytes."""
    conversation, edits = case
    again = read(orjson.loads(DIALECT.write(conversation)))
    assert DIALECT.write(apply(conversation, edits)[0]) == DIALECT.write(apply(again, edits)[0])


@given(edited())
def test_what_no_edit_names_leaves_as_it_came(case: tuple[Conversation, list[Edit]]) -> None:
    """A message without an edit is the client's own slice."""
    conversation, edits = case
    after, made = apply(conversation, edits)
    named = {edit.target for edit in made} | {edit.to for edit in made if isinstance(edit, Move)}
    for message in after.messages:
        if message.index >= 0 and not named & {*map(target_of, conversation.messages[message.index].parts)}:
            assert message is conversation.messages[message.index]


def read_back(conversation: Conversation) -> Conversation:
    return DIALECT.read(DIALECT.open(DIALECT.write(conversation)))
