"""Usage on chat streams: the question goes in, the answer to it comes out, and no other byte changes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.simulator.chat import FLAVOURS, ChatProvider
from proxy.streamusage import UsageFilter, asked

BODIES = {
    "nothing said": (
        b'{"model":"m","stream":true,"messages":[]}',
        b'{"model":"m","stream":true,"messages":[],"stream_options":{"include_usage":true}}',
    ),
    "spelling of its own": (
        b' { "stream" : true , "x": 1.50e3, "t":"\\u00e9{}" } \n',
        b' { "stream" : true , "x": 1.50e3, "t":"\\u00e9{}" ,"stream_options":{"include_usage":true}} \n',
    ),
    "null": (
        b'{"stream_options": null, "stream":true}',
        b'{"stream_options": {"include_usage":true}, "stream":true}',
    ),
    "refused by the client": (
        b'{"stream":true,"stream_options":{"include_usage": false}}',
        b'{"stream":true,"stream_options":{"include_usage":true}}',
    ),
    "other options": (
        b'{"stream":true,"stream_options":{"include_obfuscation": false},"n":1}',
        b'{"stream":true,"stream_options":{"include_obfuscation":false,"include_usage":true},"n":1}',
    ),
    "the same words further in": (
        b'{"tools":[{"stream_options":{}}],"t":"\\"stream_options\\":{}","stream_options":{},"stream":true}',
        b'{"tools":[{"stream_options":{}}],"t":"\\"stream_options\\":{}",'
        b'"stream_options":{"include_usage":true},"stream":true}',
    ),
    "asked already": (b'{"stream":true,"stream_options":{"include_usage":true}}', None),
    "no stream": (b'{"stream":false}', None),
    "silent about it": (b'{"model":"m"}', None),
    "options that are none": (b'{"stream":true,"stream_options":[1]}', None),
    "a key twice": (b'{"stream":true,"stream":true}', None),
    "no object": (b"[]", None),
    "no JSON": (b'{"stream":true', None),
}


@pytest.mark.parametrize("case", BODIES)
def test_the_question(case):
    """Only what asks is written; what asks already, is no stream or is not readable stays as it is."""
    body, expected = BODIES[case]
    assert asked(body) == expected


CONTENT = b'{"id":"c","choices":[{"index":0,"delta":{"content":"hi"}}]%s}'
EXTRA = b'{"id":"c","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}'

LINES = {
    "at the end": (b'data: {"a":[1],"usage":null}', b'data: {"a":[1]}'),
    "in the middle, spaced": (b'data: {"a": [1], "usage" : null, "b": 2}', b'data: {"a": [1], "b": 2}'),
    "first": (b'data: {"usage":null, "a":1}', b'data: {"a":1}'),
    "alone": (b'data:{ "usage": null }', b"data:{  }"),
    "further in": (b'data: {"x":{"usage":null},"l":[{"usage":null}]}', None),
    "in a text": (b'data: {"t":"\\"usage\\":null, {\\\\","u":"\\"usage\\":null"}', None),
    "as a value": (b'data: {"t":"usage","null":null}', None),
    "behind a text that looks like it": (
        b'data: {"t":"\\\\\\",\\"usage\\":null","x":["usage",null],"usage":null}',
        b'data: {"t":"\\\\\\",\\"usage\\":null","x":["usage",null]}',
    ),
    "with figures beside choices": (b'data: {"choices":[{"index":0}],"usage":{"prompt_tokens":9}}', None),
    "beside an error": (b'data: {"error":{"code":502},"choices":[],"usage":{"prompt_tokens":9}}', None),
    "a filter's first chunk": (
        b'data: {"choices":[],"prompt_filter_results":[],"usage":null}',
        b'data: {"choices":[],"prompt_filter_results":[]}',
    ),
    "no JSON": (b'data: {"usage":null', None),
    "another name": (b'datausage: {"usage":null}', None),
    "the end mark": (b"data: [DONE] usage", None),
}


@pytest.mark.parametrize("case", LINES)
def test_what_is_taken_out_of_a_chunk(case):
    """Its own `"usage": null` and the comma that joined it; nothing that only looks so."""
    line, expected = LINES[case]
    made = UsageFilter().feed(line + b"\n\n")
    assert made == (line if expected is None else expected) + b"\n\n"


def test_the_extra_chunk_is_gone():
    """With its empty line, also where its data stands on two lines, has no choices at all, or is the stream's last."""
    stop = b"data: [DONE]\n\n"
    for extra in (EXTRA, EXTRA.replace(b'"choices":[],', b""), EXTRA.replace(b",", b",\ndata: ", 1)):
        assert UsageFilter().feed(b"data: " + extra + b"\n\n" + stop) == stop
    last = UsageFilter()
    assert (last.feed(b"data: " + EXTRA), last.finish()) == (b"", b"")
    unended = UsageFilter()
    line = b"data: " + CONTENT
    assert unended.feed(line % b',"usage":null' + b"\n") + unended.finish() == line % b"" + b"\n"


def test_a_name_before_the_extra_chunk_is_not_given_to_the_next():
    """The name has gone out before the data was seen: the empty line follows it."""
    made = UsageFilter().feed(b"event: chunk\ndata: " + EXTRA + b"\n\ndata: [DONE]\n\n")
    assert made == b"event: chunk\n\ndata: [DONE]\n\n"


def test_chunks_that_hold_nothing_of_it_are_the_same_objects():
    """Nothing is copied that needs no look."""
    chunk = b"data: " + CONTENT % b"" + b"\n\n"
    assert UsageFilter().feed(chunk) is chunk


def test_comments_are_not_held():
    """They keep a connection alive between events, and before the first one."""
    taking = UsageFilter()
    assert taking.feed(b": PROCESSING\n") == b": PROCESSING\n"
    assert taking.feed(b"\n:") == b"\n"
    assert taking.feed(b" again\r\n") == b": again\r\n"


def test_a_stream_that_breaks_off_keeps_its_bytes():
    """What was held of an unfinished event goes out as it came."""
    taking = UsageFilter()
    line = b'data: {"usage":null}\ndata: {"us'
    assert (taking.feed(line), taking.release(), taking.release()) == (b"", line, b"")


def test_an_event_without_end_passes():
    """Beyond the limit the filter steps aside, and stays there."""
    taking = UsageFilter(limit=20)
    assert taking.feed(b"data: " + b"x" * 10) == b""
    assert taking.feed(b"y" * 10) == b"data: " + b"x" * 10 + b"y" * 10
    assert taking.feed(b"\n\ndata: " + EXTRA + b"\n\n") == b"\n\ndata: " + EXTRA + b"\n\n"
    many = UsageFilter(limit=100)
    assert all(many.feed(b"data: 7\n\n") for _ in range(100))
    assert all(many.feed(b"data: usage\n\n") for _ in range(100))


TEXT = st.text(alphabet=st.sampled_from('ab"\\{}[],: \nusage北'), max_size=6)
SMALL = st.dictionaries(
    TEXT.filter(lambda name: name not in ("usage", "error")), TEXT | st.none(), max_size=3
)
END = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def events(draw):
    """An event as it comes, and what is left of it."""
    end = draw(END)
    kind = draw(st.sampled_from(["content", "null", "extra", "comment", "done", "figures"]))
    before = draw(SMALL)
    spaced = draw(st.sampled_from([(",", ":"), (", ", ": ")]))

    def event(value):
        data = json.dumps(value, ensure_ascii=False, separators=spaced).encode()
        return b"data: " + data + end + end

    match kind:
        case "comment":
            line = b": usage {" + end + draw(st.sampled_from([b"", end]))
            return line, line
        case "done":
            return b"data: [DONE]" + end + end, b"data: [DONE]" + end + end
        case "extra":
            return event({**before, "choices": [], "usage": {"prompt_tokens": 9}}), b""
        case "null":
            choices = {"choices": draw(st.sampled_from([[], [{"delta": {"content": "usage"}}]]))}
            after = draw(st.dictionaries(st.sampled_from(["x", "y"]), TEXT, max_size=2))
            return event({**before, **choices, "usage": None, **after}), event({**before, **choices, **after})
        case "figures":
            made = event({**before, "choices": [{"index": 0}], "usage": {"prompt_tokens": 9}})
            return made, made
        case _:
            made = event({**before, "choices": [{"delta": draw(SMALL)}]})
            return made, made


@given(st.lists(events(), max_size=8), st.lists(st.integers(1, 400), max_size=12), st.booleans())
def test_wherever_chunks_end_the_same_goes_out(stream, cuts, bom):
    """And each event as soon as it is whole: nothing that is finished waits."""
    mark = b"\xef\xbb\xbf" if bom and stream else b""
    came, left = [mark + b": hi\n\n"], [mark + b": hi\n\n"]
    for raw, rest in stream:
        came.append(raw)
        left.append(rest)
    whole = b"".join(came)
    places = sorted({min(cut, len(whole)) for cut in cuts} | {len(whole)})
    taking, out, at = UsageFilter(), b"", 0
    ends = [len(b"".join(came[: n + 1])) for n in range(len(came))]
    for place in places:
        out += taking.feed(whole[at:place])
        at = place
        finished = sum(end <= place for end in ends)
        due = b"".join(left[:finished])
        assert out.startswith(due)
    assert out + taking.finish() == b"".join(left)


SERVED = [(flavour, stream) for flavour in FLAVOURS.values() for stream in (1, 97, 10_000)]


@pytest.mark.parametrize(("flavour", "size"), SERVED, ids=lambda one: getattr(one, "name", one))
def test_every_service_is_asked_unnoticed(flavour, size):
    """A stream that was asked, less what is taken out, is byte for byte the one that was not."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Say usage."}], "stream": True})
    headers = [("authorization", "Bearer k")]
    plain = b"".join(ChatProvider(flavour).answer(headers, body.encode(), 0.0).events)
    told = b"".join(ChatProvider(flavour).answer(headers, asked(body.encode()), 0.0).events)
    taking = UsageFilter()
    out = b"".join(taking.feed(told[at : at + size]) for at in range(0, len(told), size))
    assert out + taking.finish() == plain != told
