"""JSON opened and closed without respelling it, and bytes mended where no strict parser reads them."""

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from proxy.errors import BodyError
from proxy.rawjson import (
    Listed,
    without_array,
    closed_array,
    closed_object,
    encoded,
    holds_nul,
    is_array,
    is_string,
    items,
    members,
    opening,
    owned,
    placed,
    repair,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
PIECES = (
    r"\ud83d",
    r"\uDE00",
    r"\ud83d\ude00",
    r"\uD834\uDD1E",
    r"\u0000",
    r"\u0041",
    r"\ufffd",
    r"\\",
    r"\\u0000",
    r"\\ud83d",
    r"\"",
    r"\n",
    "u0000",
    "é🙂",
    "x",
)
STRINGS = st.lists(st.sampled_from(PIECES), max_size=12).map(lambda made: '"' + "".join(made) + '"')
"""JSON strings as a careless client spells them."""


def compact(value: object, *, ascii_only: bool = False) -> bytes:
    return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":")).encode()


@given(st.dictionaries(st.text(), VALUES, max_size=6), st.booleans())
def test_an_object_closes_as_it_was_opened(value: dict[str, object], ascii_only: bool) -> None:
    """Of compact JSON nothing changes, however its values are escaped."""
    pairs = [encoded(key) + b":" + compact(inner, ascii_only=ascii_only) for key, inner in value.items()]
    raw = b"{" + b",".join(pairs) + b"}"
    assert closed_object(members(raw)) == raw
    assert [key for key, _ in members(raw)] == list(value)


@given(st.lists(VALUES, max_size=6))
def test_an_array_closes_as_it_was_opened(value: list[object]) -> None:
    """Of compact JSON nothing changes."""
    raw = compact(value)
    assert closed_array(items(raw)) == raw


def test_what_is_not_opened_is_not_respelt() -> None:
    """Number literals, escapes, spaces and key order of the values stay; space between members goes."""
    raw = rb'{ "a" : 1.00 , "b" : {"z":1E5, "a": "\u00e9\/"}, "\u00e9": 123456789012345678901234567890 }'
    assert closed_object(members(raw)) == (
        '{"a":1.00,"b":{"z":1E5, "a": "\\u00e9\\/"},"é":123456789012345678901234567890}'.encode()
    )
    assert closed_array(items(b"[ 1.0 , [ ] ,-0]")) == b"[1.0,[ ],-0]"


@pytest.mark.parametrize("raw", [b"{}", b"{ }", b'{"":{}}', b' {"a": 1} '])
def test_empty_and_spaced_objects_open(raw: bytes) -> None:
    """Neither an empty object nor white space looks like a doubled key."""
    assert [key for key, _ in members(raw)] == list(json.loads(raw))


@pytest.mark.parametrize(
    "raw",
    [b'{"a":1,"a":1}', b'{"a":1,"b":2,"\\u0061":3}', b'{"a":{"x":1},"a":{"x":1,"y":2}}', b'{"":1, "":2}'],
)
def test_a_doubled_key_is_refused(raw: bytes) -> None:
    """Which of the two is meant is not ours to say, however they are spelt."""
    with pytest.raises(BodyError, match="twice"):
        members(raw)


def test_a_doubled_key_further_in_is_not_ours_to_judge() -> None:
    """Only what is opened is looked at."""
    assert members(b'{"a":{"b":1,"b":2}, "c":[{"d":1,"d":2}]}')[0] == ("a", msgspec.Raw(b'{"b":1,"b":2}'))


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize("raw", [b"", b"[1]", b'"a"', b"{", b'{"a":}', b'{"a":1}x', b'{"a":"\\ud83d"}'])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    """Also what a strict parser cannot read."""
    with pytest.raises(BodyError, match="not a JSON object"):
        members(raw)


@pytest.mark.parametrize("raw", [b"", b"{}", b"[1,]", b"[1", DEEP])
def test_what_is_no_array_is_refused(raw: bytes) -> None:
    """Also what is nested too deep to be read."""
    with pytest.raises(BodyError, match="not a JSON array"):
        items(raw)


@pytest.mark.parametrize("raw", [b'{"a":  "\xff"}', b'{"a": {"\xff":1} }', b'{ "a":["\xc0\xaf"]}'])
def test_a_spaced_object_that_is_no_utf8_inside_is_refused(raw: bytes) -> None:
    """Spaces make a doubled key possible, so the whole is looked at: what cannot be decoded is nobody's bug."""
    with pytest.raises(BodyError, match="not a JSON object"):
        members(raw)


def test_a_spaced_object_opens_whatever_numbers_it_holds() -> None:
    """A number of more digits than Python converts is text to us."""
    long = b"9" * 5_000
    assert members(b'{"a": ' + long + b', "b": 1e999}') == [
        ("a", msgspec.Raw(long)),
        ("b", msgspec.Raw(b"1e999")),
    ]


def test_an_object_nested_too_deep_is_refused() -> None:
    """It could not be read, and must not end the process."""
    with pytest.raises(BodyError, match="not a JSON object"):
        members(b'{"a":' + DEEP + b"}")


def test_kinds_are_told_by_the_first_byte() -> None:
    """Values come without space before them."""
    assert [is_string(raw) for raw in (b'"a"', b"[]", b"1", b"")] == [True, False, False, False]
    assert [is_array(raw) for raw in (b'"a"', b"[]", b"1", b"")] == [False, True, False, False]


def test_a_copy_does_not_hold_the_body() -> None:
    """A slice would keep the whole body in memory."""
    slice_ = items(b'["' + b"x" * 1000 + b'","short"]')[1]
    assert bytes(owned(slice_)) == b'"short"'
    assert len(memoryview(owned(slice_)).obj) < 100  # type: ignore[arg-type]  # the bytes behind the view


@given(STRINGS)
@example(r'"\ude00\ud83d"')
@example(r'"\\\ud83d\\ud83d"')
def test_mended_strings_are_read_and_say_all_else(raw: str) -> None:
    """Each lone surrogate and each NUL becomes U+FFFD, and nothing else changes: neither pairs nor backslashes."""
    said = json.loads(raw)
    expected = "".join(
        "\ufffd" if "\ud800" <= letter <= "\udfff" or letter == "\0" else letter for letter in said
    )
    mended, count = repair(raw.encode())
    assert msgspec.json.decode(mended) == expected
    assert count == sum(1 for old, new in zip(said, expected, strict=True) if old != new)
    assert repair(mended) == (mended, 0)


@given(VALUES)
def test_what_is_sound_is_not_mended(value: object) -> None:
    """Escaped or not."""
    for ascii_only in (True, False):
        raw = compact(value, ascii_only=ascii_only)
        if b"\\u0000" not in raw:
            assert repair(raw) == (raw, 0)


@pytest.mark.parametrize(
    ("raw", "mended"),
    [
        (rb'"\ud83d\ude00 \ud83d \ude00"', rb'"\ud83d\ude00 \ufffd \ufffd"'),
        (rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"'),
        (rb'"\\ud83d \\\ud83d \\\\ud83d"', rb'"\\ud83d \\\ufffd \\\\ud83d"'),
        (rb'"\u0000\\u0000\u00001"', rb'"\ufffd\\u0000\ufffd1"'),
        (rb'{"\ud800":"\udfff"}', rb'{"\ufffd":"\ufffd"}'),
    ],
)
def test_exactly_these_bytes_are_mended(raw: bytes, mended: bytes) -> None:
    """Halves and NUL, in keys too."""
    assert repair(raw)[0] == mended


@given(STRINGS)
def test_nul_is_told_from_its_letters(raw: str) -> None:
    """Six letters behind an escaped backslash are no NUL."""
    assert holds_nul(raw.encode()) == ("\0" in json.loads(raw))


def test_an_array_is_emptied_where_it_stands() -> None:
    """What is left opens to the other members, byte for byte, and an empty list."""
    body = b'{"a":"\\"m\\":[1","m":[{"x":[1,2]},"]",3],"b":1e2}'
    elements = items(dict(members(body))["m"])
    assert without_array(body, b"m", elements) == b'{"a":"\\"m\\":[1","m":[],"b":1e2}'


def test_an_array_with_spaces_is_not_found() -> None:
    """Only compact JSON says by its length where an array ends."""
    for body in (b'{"m": [1,2]}', b'{"m":[1, 2]}', b'{"m":[1,2 ]}'):
        assert without_array(body, b"m", items(dict(members(body))["m"])) is None


def test_a_deeper_key_of_the_same_name_may_be_the_one_emptied() -> None:
    """Which is why a caller looks at what is empty."""
    body = b'{"t":{"m":[1,2]},"m":[1,2]}'
    rest = without_array(body, b"m", items(dict(members(body))["m"]))
    assert rest == b'{"t":{"m":[]},"m":[1,2]}'


def test_the_opening_of_an_outermost_array() -> None:
    """Where its first element stands; nothing where the key is deeper, stands twice or is followed by something else."""
    body = b'{"a":1,"m":[{},2]}'
    assert opening(body, ("m",)) == Listed(body, ("m",), body.index(b"{}"), b",")
    for other in (
        b'{"t":{"m":[1]},"m":[1]}',
        b'{"m":0,"m":[1]}',
        b'{"m":  [1]}',
        b'{"m":{}}',
        b'["m":[1]]',
        b"",
    ):
        assert opening(other, ("m",)) is None


def test_the_opening_of_an_array_further_down() -> None:
    """It stands last in what was read so far, and so does each object around it."""
    body = b'{"a":{"m":0},"r":{"x":[1],"m":[{},2]},"m":[1]}'
    assert opening(body, ("r", "m")) is None  # the first of that key is another
    body = body.replace(b'"a":{"m"', b'"a":{"n"')
    assert opening(body, ("r", "m")) == Listed(body, ("r", "m"), body.index(b"{}"), b",")
    assert opening(body, ("m",)) is None
    assert opening(body, ("a", "m")) is None


def test_the_opening_of_an_array_in_spaced_json() -> None:
    """A space behind the colon tells that one stands behind each comma."""
    body = b'{"a": 1, "m": [{}, 2]}'
    assert opening(body, ("m",)) == Listed(body, ("m",), body.index(b"{}"), b", ")


@pytest.mark.parametrize("comma", [b",", b", "])
def test_the_elements_that_stand_at_a_place(comma: bytes) -> None:
    """As many as are followed by a comma, up to the first that differs."""
    elements = [Raw(b"%d" % number) for number in range(200)]

    def leading(listed: bytes, known: list[Raw]) -> int:
        return Listed(b"[" + listed, ("m",), 1, comma).leading(known)

    for count in (0, 1, 63, 64, 65, 128, 199, 200):
        listed = b"".join(b"%d%b" % (number, comma) for number in range(count))
        assert leading(listed + b"7", elements) == count
        assert Listed(b"", ("m",), 1, comma).span(elements[:count]) == len(listed)
    assert leading(b"0" + comma + b"1]", elements[:2]) == 1
    assert leading(b"0" + comma + b"12" + comma, elements[:2]) == 1


@pytest.mark.parametrize("array", [b"[1,22,[3]]", b'[1, 22, {"a": 3}]', b"[ 1\n,22 ,\t[] ]", b"[]"])
def test_where_elements_stand(array: bytes) -> None:
    """Each at its place, whatever space is around it."""
    elements = items(array)
    spans = [array[begin:end] for begin, end in placed(Raw(array), elements)]
    assert spans == list(map(bytes, elements))


@given(st.dictionaries(st.text(), VALUES, max_size=6))
def test_spaced_json_opens_like_compact_json(value: dict[str, object]) -> None:
    """Its members are the same, spelt as they stand."""
    spaced = json.dumps(value, ensure_ascii=False).encode()
    assert [(name, json.loads(bytes(raw))) for name, raw in members(spaced)] == list(value.items())


@pytest.mark.parametrize("body", [b'{"a": 1, "a": 2}', b'{"a": 1,"a":2}', b'{"abc":1,"b":2,"c":3,"":4,"":5}'])
def test_a_key_twice_is_refused_however_it_is_spaced(body: bytes) -> None:
    """Also where the lengths are those of spaced JSON without the second."""
    with pytest.raises(BodyError, match="twice"):
        members(body)
