"""Structs to bytes and back."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from proxy.conversation import Part, Text
from proxy.edits import Edit, InsertAfter, Remove, Replace, Target
from proxy.errors import StoreError
from proxy.stores.records import assemble, decode_promise, encode_head, encode_promise, encode_tools
from tests.stores import branches as made
from tests.stores.branches import all_promises, branch, key, promise


@given(made.promises)
def test_a_promise_comes_back_equal(one):
    """Every kind of edit and part comes back, the client's bytes in it to the byte."""
    assert decode_promise(encode_promise(one)) == one


@given(made.branches())
def test_a_branch_comes_back_equal(one):
    """Head, tools and promises together are the branch again."""
    records = [encode_promise(promise) for promise in all_promises(one)]
    assert assemble(encode_head(one), encode_tools(one.frozen.tools), records) == (one, 0)


def test_every_kind_is_generated():
    """The strategies leave no member of a union out."""
    assert set(made.PARTS) == set(get_args(Part))
    assert set(made.EDITS) == set(get_args(Edit))


def test_what_is_read_does_not_pin_the_record():
    """The client's bytes in a promise are a copy of their own, not a slice of the record."""
    [edit] = decode_promise(encode_promise(promise("a"))).edits
    assert isinstance(edit, Replace)
    assert edit.part.base == Raw(b'{"type":"text","text":"today","x":1.10}')
    assert isinstance(bytes(edit.part.base), bytes)
    assert edit.part.base.copy() is edit.part.base


@given(st.binary(max_size=60) | st.sampled_from([b"\x91" * 5000, b"\x81\xa1a" * 5000]))
def test_other_bytes_are_refused_or_read(record):
    """Whatever a file holds, reading it ends in a value or in a StoreError."""
    try:
        decode_promise(record)
    except StoreError:
        pass
    one, skipped = assemble(record, record, [record])
    assert one is not None or skipped == 1


@given(made.promises, st.data())
def test_a_damaged_record_is_refused_or_read(one, data):
    """The same for records with one byte changed or the end missing."""
    record = bytearray(encode_promise(one))
    at = data.draw(st.integers(0, len(record) - 1))
    record[at] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(record), bytes(record[:at])):
        try:
            decode_promise(damaged)
        except StoreError:
            continue


@pytest.mark.parametrize("wrong", ["text", 5, None, 1.5])
def test_a_column_of_another_type_is_refused(wrong):
    """SQLite columns hold any type: a number is no record."""
    assert assemble(wrong, None, []) == (None, 1)


@pytest.mark.parametrize("place", [-1, 1, 7])
def test_bytes_that_belong_to_no_edit_are_refused(place):
    """A record whose parts do not fit is not half a promise."""
    edits = (Remove(stage="s", reason="r", target=Target(key("a"))),)
    plain = msgspec.to_builtins(structs.replace(promise("a"), edits=edits), builtin_types=(bytes,))
    record = msgspec.msgpack.encode([plain, [[place, b"1", None]]])
    with pytest.raises(StoreError, match="belong to no edit"):
        decode_promise(record)


def test_text_that_is_no_unicode_is_named():
    """A lone surrogate has no bytes: the promise cannot be stored, and says so."""
    lone = InsertAfter(stage="s", reason="r", target=Target(key("a")), part=Text(text="\ud800"))
    with pytest.raises(StoreError, match="surrogates"):
        encode_promise(structs.replace(promise("a"), edits=(lone,)))


def test_unreadable_records_cost_only_themselves():
    """A branch without one promise or without its tools is still the branch that was sent rewritten."""
    whole = branch(promises=[promise("a"), promise("b")])
    first, second = map(encode_promise, all_promises(whole))
    assert assemble(encode_head(whole), encode_tools(whole.frozen.tools), [first, b"?", second]) == (whole, 1)
    bare = structs.replace(whole, promises={}, frozen=structs.replace(whole.frozen, tools=()))
    assert assemble(encode_head(whole), b"?", []) == (bare, 1)
    assert assemble(encode_head(whole), None, []) == (bare, 0)
    assert assemble(b"?", None, [first]) == (None, 1)
