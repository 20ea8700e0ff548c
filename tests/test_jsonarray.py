"""JSON arrays in pieces: the same elements wherever a piece ends."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import BodyTooLarge
from proxy.jsonarray import ArrayParser

TEXT = st.text(alphabet=st.sampled_from('ab"\\{}[],: \n北'), max_size=8)
VALUE = st.recursive(
    TEXT | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
ELEMENTS = st.lists(st.dictionaries(TEXT, VALUE, max_size=4), max_size=5)


def pieces(data, cuts):
    places = sorted({min(cut, len(data)) for cut in cuts})
    return [data[start:stop] for start, stop in zip([0, *places], [*places, len(data)])]


@given(ELEMENTS, st.lists(st.integers(0, 200), max_size=12), st.sampled_from([None, 1]), st.booleans())
def test_elements_come_out_as_they_stand(elements, cuts, indent, ascii_only):
    """Whatever the pieces, and whatever looks like punctuation inside texts."""
    data = json.dumps(elements, indent=indent, ensure_ascii=ascii_only).encode()
    parser = ArrayParser()
    found = [element for piece in pieces(data, cuts) for element in parser.feed(piece)]
    assert [json.loads(element) for element in found] == elements
    assert all(element in data for element in found)


def test_an_element_comes_as_soon_as_it_is_whole():
    """Nothing waits for the next one or for the end of the array."""
    parser = ArrayParser()
    assert parser.feed(b'[{"a":1') == []
    assert parser.feed(b"}") == [b'{"a":1}']
    assert parser.feed(b',{"b":[{}]},[2],3,"x",{') == [b'{"b":[{}]}', b"[2]"]
    assert parser.feed(b"}]") == [b"{}"]
    assert parser.feed(b"") == []


def test_an_element_that_never_ends_is_given_up():
    """What is held is bounded; many elements in one piece are not held."""
    parser = ArrayParser(limit=10)
    assert len(parser.feed(b"[" + b"{},{}," * 10)) == 20
    with pytest.raises(BodyTooLarge):
        parser.feed(b'{"a":"' + b"x" * 10)


@pytest.mark.parametrize("junk", [b"]]}{", b'["', b"[{]", b"\\\\\\", b"\xff\x00"])
def test_nonsense_is_no_fault(junk):
    """What is no JSON gives something or nothing, and no error."""
    parser = ArrayParser()
    for at in range(len(junk)):
        parser.feed(junk[at : at + 1])
