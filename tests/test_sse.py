"""Event streams: any framing the standard allows, cut anywhere, gives the same events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import BodyTooLarge
from proxy.sse import Event, SseParser


def events(*chunks, finish=False):
    parser = SseParser()
    found = [event for chunk in chunks for event in parser.feed(chunk)]
    return found + parser.finish() if finish else found


FRAMINGS = {
    "lf": b"event: a\ndata: 1\n\n",
    "crlf": b"event: a\r\ndata: 1\r\n\r\n",
    "cr": b"event: a\rdata: 1\r\r",
    "mixed": b"event: a\r\ndata: 1\n\r",
    "no space": b"event:a\ndata:1\n\n",
    "byte order mark": b"\xef\xbb\xbfevent: a\ndata: 1\n\n",
    "comments": b": hello\n\n:\nevent: a\n: OPENROUTER PROCESSING\ndata: 1\n\n",
    "other fields": b"id: 7\nretry: 10\nevent: a\nnonsense\ndata: 1\n\n",
    "the last name counts": b"event: b\nevent: a\ndata: 1\n\n",
    "order of fields": b"data: 1\nevent: a\n\n",
}


@pytest.mark.parametrize("framing", FRAMINGS)
def test_every_framing(framing):
    """All spellings of one event are that event."""
    assert events(FRAMINGS[framing]) == [Event("a", b"1")]


@pytest.mark.parametrize("framing", FRAMINGS)
def test_every_cut(framing):
    """A chunk may end after any byte."""
    stream = FRAMINGS[framing] + b"data: 2\n\n"
    for cut in range(len(stream) + 1):
        assert events(stream[:cut], stream[cut:]) == [Event("a", b"1"), Event("message", b"2")], cut
    assert events(*(stream[i : i + 1] for i in range(len(stream)))) == [
        Event("a", b"1"),
        Event("message", b"2"),
    ]


def test_data_lines_are_joined():
    """Several data lines are one data, an empty one among them too; one space is taken off, no more."""
    assert events(b"data: a\ndata:\ndata:  b\ndata\n\n") == [Event("message", b"a\n\n b\n")]


def test_an_event_without_data_is_none():
    """A name alone is no event, and does not stick to the next."""
    assert events(b"event: ping\n\ndata: 1\n\n") == [Event("message", b"1")]


def test_data_is_left_as_bytes():
    """Characters of several bytes and invalid ones pass unread."""
    data = "北\U0001f331".encode() + b"\xff"
    assert events(b"data: " + data + b"\n\n") == [Event("message", data)]


def test_an_unfinished_event_comes_at_the_end_only():
    """Some servers leave out the last empty line, or the last line end."""
    assert events(b"event: a\ndata: 1\n") == []
    assert events(b"event: a\ndata: 1\n", finish=True) == [Event("a", b"1")]
    assert events(b"event: a\ndata: 1", finish=True) == [Event("a", b"1")]
    assert events(b"event: a\ndata: 1\n\n", finish=True) == [Event("a", b"1")]
    assert events(b"", finish=True) == []


def test_a_mark_is_dropped_at_the_start_only():
    """A byte order mark further in is content."""
    assert events(b"data: 1\n\n\xef\xbb\xbfdata: 2\n\n") == [Event("message", b"1")]


def test_an_endless_event_is_stopped():
    """What one event may hold is bounded, in one line or in many; events that end start anew."""
    parser = SseParser(limit=1000)
    for _ in range(10):
        assert parser.feed(b"data: " + b"x" * 500 + b"\n\n") == [Event("message", b"x" * 500)]
    with pytest.raises(BodyTooLarge):
        for _ in range(200):
            parser.feed(b"data: 12345")
    parser = SseParser(limit=1000)
    with pytest.raises(BodyTooLarge):
        for _ in range(200):
            parser.feed(b"data: 12345\n")


@given(
    st.lists(st.sampled_from([b"data: x", b"event: e", b"\n", b"\r", b"\r\n", b":", b" "]), max_size=30),
    st.data(),
)
def test_cuts_never_matter(pieces, data):
    """Any stream, cut into any chunks, gives what it gives in one."""
    stream = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    edges = [0, *cuts, len(stream)]
    chunks = [stream[start:end] for start, end in zip(edges, edges[1:])]
    assert events(*chunks, finish=True) == events(stream, finish=True)
