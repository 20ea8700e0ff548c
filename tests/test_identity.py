"""What parts say, however they are spelt, and the keys chained from it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from proxy.conversation import (
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Reminder,
    Role,
    Source,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from proxy.identity import (
    canonical,
    chain,
    content_says,
    derived,
    digest,
    end_of_turn,
    is_user_side,
    origin,
    says,
    turn_end,
)

START = origin(b"tenant")
DEEP = b"[" * 100_000 + b"]" * 100_000
BIG = "123456789012345678901234567890"


def plain(reminder: Reminder) -> str:
    return reminder.text


def masked(reminder: Reminder) -> str:
    return reminder.text.split(":")[0]


def same(one: Part, other: Part) -> bool:
    return says(one, plain) == says(other, plain)


def call(arguments: str, ident: str = "t1", name: str = "run") -> ToolCall:
    return ToolCall(id=ident, name=name, input=arguments.encode())


def result(content: str | None, **more: Any) -> ToolResult:
    return ToolResult(call_id="t1", content=None if content is None else content.encode(), **more)


def block(raw: str) -> Opaque:
    return Opaque(raw=Raw(raw.encode()), kind="block")


RESPELT = {
    "key order": (call('{"a":1,"b":{"x":1,"y":2}}'), call('{"b":{"y":2,"x":1},"a":1}')),
    "spaces": (call('{"a":[1,2]}'), call('{ "a" : [ 1, 2 ] }')),
    "escapes": (call('{"a":"é/"}'), call('{"\\u0061":"\\u00e9\\/"}')),
    "null members": (call('{"a":1}'), call('{"a":1,"b":null}')),
    "marks": (
        block('{"type":"x","cache_control":{"type":"ephemeral"}}'),
        block('{"cache_control":{"ttl":"1h","type":"ephemeral"},"type":"x"}'),
    ),
    "no mark": (block('{"type":"x"}'), block('{"type":"x","cache_control":null}')),
    "broken arguments": (call('{"a":'), call('{"a":')),
    "string or block": (result('"fine"'), result('[{"type":"text","text":"fine"}]')),
    "marked block": (
        result('"fine"'),
        result('[{"type":"text","text":"fine","cache_control":{"type":"ephemeral"}}]'),
    ),
    "empty text inside": (
        result('"fine"'),
        result('[{"type":"text","text":""},{"text":"fine","type":"text"}]'),
    ),
    "nothing": (result(None), result('""')),
    "nothing in a list": (result(None), result("[]")),
    "nothing in a block": (result(None), result('[{"type":"text","text":""}]')),
    "blocks": (
        result('[{"type":"image","source":{"a":1,"b":2}},{"type":"text","text":"x"}]'),
        result('[{"source":{"b":2,"a":1},"type":"image"},{"type":"text","text":"\\u0078"}]'),
    ),
    "made of": (
        Opaque(raw=None, base=Raw(b'{"a":1}'), kind="block"),
        block('{"a":1}'),
    ),
    "bare or not": (Text(raw=Raw(b'"a"'), text="a"), Text(raw=Raw(b'{"type":"text","text":"a"}'), text="a")),
}


@pytest.mark.parametrize("pair", RESPELT.values(), ids=RESPELT)
def test_respellings_say_the_same(pair: tuple[Part, Part]) -> None:
    """Clients respell their history all the time; it must not cost what is promised about it."""
    assert same(*pair)


DIFFERENT = {
    "values": (call('{"a":1}'), call('{"a":2}')),
    "number literals": (call('{"a":1}'), call('{"a":1.0}')),
    "long integers": (call(f'{{"a":{BIG}}}'), call(f'{{"a":{BIG[:-1]}1}}')),
    "a number and its text": (call('{"a":1}'), call('{"a":"1"}')),
    "a number and a list": (call('{"a":1}'), call('{"a":["number","1"]}')),
    "list order": (call('{"a":[1,2]}'), call('{"a":[2,1]}')),
    "null in a list": (call('{"a":[1,null]}'), call('{"a":[1]}')),
    "false and null": (call('{"a":false}'), call('{"a":null}')),
    "doubled keys": (call('{"a":1,"a":2}'), call('{"a":2}')),
    "equal doubled keys": (call('{"a":2,"a":2}'), call('{"a":2}')),
    "order of doubled keys": (call('{"a":1,"a":2}'), call('{"a":2,"a":1}')),
    "an argument named like a mark": (call('{"cache_control":"no"}'), call("{}")),
    "call ids": (call("{}"), call("{}", ident="t2")),
    "call names": (call("{}"), call("{}", name="read")),
    "errors": (result('"x"'), result('"x"', is_error=True)),
    "result and its text": (result('"x"'), Text(text="x")),
    "text and reminder": (Text(text="x"), Reminder(text="x", source=Source.REMINDER, name="")),
    "white space": (Text(text="x"), Text(text="x ")),
    "two texts and one": (
        result('[{"type":"text","text":"a"},{"type":"text","text":"b"}]'),
        result('"ab"'),
    ),
    "broken arguments": (call('{"a":'), call('{"b":')),
    "deep": (result(DEEP.decode()), result(f"[{DEEP.decode()}]")),
    "deep arguments": (call(DEEP.decode()), call(f"[{DEEP.decode()}]")),
}


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_differences_say_something_else(pair: tuple[Part, Part]) -> None:
    """What a model would read otherwise is otherwise, even where a parser would lose the difference."""
    assert not same(*pair)


def test_a_volatile_reminder_says_what_is_left_of_it() -> None:
    """Its volatile values are masked; a reminder that differs elsewhere is another one."""
    monday, tuesday, other = (
        Reminder(text=text, source=Source.ENVIRONMENT, name="date")
        for text in ("Today: Monday", "Today: Tuesday", "Yesterday: Monday")
    )
    assert says(monday, masked) == says(tuesday, masked) != says(other, masked)


@pytest.mark.parametrize(
    "part", [Text(text=""), Text(text=" \n\t"), Reasoning(signature="c2ln"), Reasoning(signature="")]
)
def test_some_parts_say_nothing(part: Part) -> None:
    """Blank text comes and goes, reasoning is stripped: neither may move what stands behind it."""
    assert says(part, plain) is None


def test_tools_and_media_are_compared_by_their_bytes() -> None:
    """As JSON: what they are made of is the provider's business."""
    one = ToolDefinition(raw=Raw(b'{"name":"run","x":1.0}'), name="run")
    assert same(one, ToolDefinition(raw=Raw(b'{"x":1.0, "name":"run"}'), name="run"))
    assert not same(one, ToolDefinition(raw=Raw(b'{"name":"run","x":1}'), name="run"))
    assert same(
        Image(media_type="", data_bytes=0), Image(media_type="image/png", data_bytes=9)
    )  # neither has bytes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


def turned(value: Any) -> Any:
    """The same with all keys in the opposite order, and a null member more."""
    if isinstance(value, dict):
        return {
            **({"\uffffnothing": None}),
            **{key: turned(inner) for key, inner in reversed(value.items())},
        }
    return [turned(inner) for inner in value] if isinstance(value, list) else value


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


@given(JSON, JSON)
def test_canonical_json_is_equal_where_the_values_are(one: Any, other: Any) -> None:
    """Whatever the key order, the escapes and the spaces; and only there."""
    spelt = json.dumps(one, ensure_ascii=False).encode()
    respelt = json.dumps(turned(one), indent=1).encode()
    assert canonical(spelt) == canonical(respelt)
    equal = json.dumps(without_nulls(one), sort_keys=True) == json.dumps(without_nulls(other), sort_keys=True)
    assert (canonical(spelt) == canonical(json.dumps(other).encode())) == equal


@pytest.mark.parametrize("raw", [b"", b"{", b'{"a":}', DEEP])
def test_what_is_no_json_has_no_canonical_form(raw: bytes) -> None:
    """Nor what is nested too deep to look into."""
    with pytest.raises(ValueError):
        canonical(raw)


def test_a_result_too_deep_is_compared_as_it_is() -> None:
    """It passes; only its respellings are not recognised."""
    assert content_says(DEEP) == DEEP


# -- keys ----------------------------------------------------------------------------------------------------


def message(role: Role, *parts: Part) -> Message:
    return Message(role=role, parts=parts)


def keyed(*messages: Message) -> list[list[tuple[bytes, int]]]:
    return [[(part.key, part.nth) for part in made.parts] for made in chain(messages, START, plain)]


TURNS = st.lists(
    st.tuples(
        st.sampled_from([Role.USER, Role.ASSISTANT]),
        st.lists(
            st.sampled_from(
                [Text(text="a"), Text(text="b"), Text(text=""), Text(text=" "), call("{}"), result('"x"')]
                + [Reasoning(signature="c2ln"), Reasoning(signature="")]
            ),
            min_size=1,
            max_size=3,
        ),
    ).map(lambda pair: message(pair[0], *pair[1])),
    max_size=5,
)


@given(TURNS, TURNS)
def test_the_keys_of_a_history_do_not_depend_on_what_follows(
    history: list[Message], more: list[Message]
) -> None:
    """So what was decided about a history is found again in all that extend it."""
    assert keyed(*history, *more)[: len(history)] == keyed(*history)


@given(TURNS, st.integers(0, 5))
def test_going_on_from_what_is_known_gives_the_same_keys(history: list[Message], known: int) -> None:
    """Messages read before are taken over; the rest is chained as if all were new."""
    whole = tuple(chain(tuple(history), START, plain))
    assert tuple(chain(tuple(history), START, plain, whole[:known])) == whole


@given(TURNS)
def test_every_part_has_a_name_of_its_own(history: list[Message]) -> None:
    """Parts that say nothing share a key and are told apart by number; 0 is the part that gave the key."""
    names = [name for names in keyed(*history) for name in names]
    assert len(set(names)) == len(names)


def test_a_blank_text_moves_no_key() -> None:
    """Clients send it and leave it out as they like, beside thoughts too: each kind is counted on its own."""
    thought, words = Reasoning(signature="c2ln"), Text(text="a")
    with_blank = keyed(message(Role.ASSISTANT, thought, Text(text=""), thought, words))
    without = keyed(message(Role.ASSISTANT, thought, thought, words))
    assert [with_blank[0][at] for at in (0, 2, 3)] == without[0]


def test_who_speaks_is_part_of_what_is_said() -> None:
    """The same words of the user and of the model are two things; so are those of two tenants."""
    said = Text(text="a")
    assert keyed(message(Role.USER, said)) != keyed(message(Role.ASSISTANT, said))
    mine, theirs = (
        next(chain((message(Role.USER, said),), origin(tenant), plain)).parts[0].key
        for tenant in (b"one", b"other")
    )
    assert mine != theirs


def test_bounds_between_pieces_count() -> None:
    """`ab, c` is not `a, bc`."""
    assert len({digest(b"ab", b"c"), digest(b"a", b"bc"), digest(b"abc"), digest(b"abc", b"")}) == 4


def test_derived_names_are_their_own() -> None:
    """What we make at a place has the same name every time, and no other thing has it."""
    assert derived(START, "a") == derived(START, "a")
    assert (
        len(
            {
                START,
                derived(START, "a"),
                derived(START, "b"),
                turn_end(START, model=True),
                turn_end(START, model=False),
            }
        )
        == 5
    )


def test_a_turn_ends_where_the_next_one_begins() -> None:
    """Messages of one side are one turn; another part behind it makes it another turn."""
    turns = tuple(
        chain(
            (
                message(Role.USER, Text(text="a")),
                message(Role.TOOL, Text(text="b")),
                message(Role.ASSISTANT, Text(text="c")),
                message(Role.ASSISTANT, Text(text="d")),
            ),
            START,
            plain,
        )
    )
    last = [turns[1].parts[-1].key] * 2 + [turns[3].parts[-1].key] * 2
    assert [end_of_turn(turns, at) for at in range(4)] == [
        turn_end(key, model=at > 1) for at, key in enumerate(last)
    ]


def test_people_and_tools_speak_in_the_users_turn() -> None:
    """System messages and directives do not."""
    assert [role for role in Role if is_user_side(role)] == [Role.USER, Role.TOOL]
