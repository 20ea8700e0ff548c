"""An answer as a stream: order of events, where usage stands, what a failure looks like."""

import orjson
import pytest

from proxy.simulator import Call, Provider, Reply, Say, Think

from tests.simulator.bodies import MARK, body, send, text, user

RULES = "Rule: be careful with the pump. " * 300


def parsed(answer):
    """The events as (name, data); each must be framed with its own name."""
    found = []
    for raw in answer.events:
        name, data, end, rest = raw.split(b"\n")
        assert (end, rest) == (b"", b"")
        found.append((name.removeprefix(b"event: ").decode(), orjson.loads(data.removeprefix(b"data: "))))
    assert all(name == data["type"] for name, data in found)
    return found


def collected(events):
    """The content a client puts together from the events."""
    content = []
    for name, data in events:
        if name == "content_block_start":
            assert data["index"] == len(content)
            content.append(dict(data["content_block"]))
            arguments = ""
        elif name == "content_block_delta":
            delta, block = data["delta"], content[data["index"]]
            match delta["type"]:
                case "text_delta":
                    block["text"] += delta["text"]
                case "thinking_delta":
                    block["thinking"] += delta["thinking"]
                case "signature_delta":
                    block["signature"] += delta["signature"]
                case "input_json_delta":
                    arguments += delta["partial_json"]
        elif name == "content_block_stop" and content[data["index"]]["type"] == "tool_use":
            content[data["index"]]["input"] = orjson.loads(arguments)
    return content


def script(_):
    return Reply(
        blocks=(Think("Let me see."), Say("Reading it."), Call("run", {"cmd": "ls"}), Call("run", {}))
    )


REQUEST = body(
    user(text("Check.", cache_control=MARK)), system=RULES, thinking={"type": "adaptive"}, stream=True
)


def test_a_stream_says_what_the_body_says():
    """The blocks put together from a stream are those of the plain answer, but for the signature's own digest."""
    streamed = collected(parsed(send(Provider(script=script), REQUEST)))
    plain = send(Provider(script=script), {**REQUEST, "stream": False}).json
    assert streamed == plain["content"]
    assert [block["type"] for block in streamed] == ["thinking", "text", "tool_use", "tool_use"]
    assert plain["stop_reason"] == "tool_use"


def test_order_of_events():
    """Start, ping, blocks, delta, stop [C1 C3]."""
    names = [
        name
        for name, _ in parsed(send(Provider(script=lambda _: Reply(blocks=(Say("Hi!"),))), body(stream=True)))
    ]
    assert names == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_usage_in_the_stream():
    """The start carries the input and cache fields, the last delta the output too [C2]."""
    provider = Provider(script=script)
    events = dict(parsed(send(provider, REQUEST)))
    start, last = events["message_start"]["message"], events["message_delta"]
    assert (start["stop_reason"], start["content"], start["usage"]["output_tokens"]) == (None, [], 1)
    assert start["usage"]["cache_creation_input_tokens"] == provider.log[0].written > 0
    assert last["usage"] == provider.log[0].usage.wire()
    assert last["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}


def test_thinking_is_signed_once_and_may_be_hidden():
    """One signature delta, just before the stop; omitted thinking is empty [C3 A48]."""
    hidden = {**REQUEST, "thinking": {"type": "adaptive", "display": "omitted"}}
    deltas = [
        d["delta"]
        for name, d in parsed(send(Provider(script=script), hidden))
        if name == "content_block_delta"
    ]
    assert [delta["type"] for delta in deltas[:2]] == ["signature_delta", "text_delta"]
    assert sum(delta["type"] == "signature_delta" for delta in deltas) == 1
    assert collected(parsed(send(Provider(script=script), hidden)))[0]["thinking"] == ""


def test_a_call_starts_with_an_empty_delta():
    """The first delta of a call's input is empty, and its start has no input yet [C3]."""
    events = parsed(
        send(Provider(script=lambda _: Reply(blocks=(Call("run", {"cmd": "ls"}),))), body(stream=True))
    )
    started = next(d for name, d in events if name == "content_block_start")
    first = next(d for name, d in events if name == "content_block_delta")
    assert (started["content_block"]["input"], first["delta"]["partial_json"]) == ({}, "")


def test_context_editing_is_reported_where_it_was_asked_for():
    """null at the start, the list on the last delta, beside its delta [C5 E5]."""
    request = {
        **REQUEST,
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    }
    events = dict(parsed(send(Provider(), request, "context-management-2025-06-27")))
    assert events["message_start"]["message"]["context_management"] is None
    assert events["message_delta"]["context_management"] == {"applied_edits": []}
    plain = send(Provider(), {**request, "stream": False}, "context-management-2025-06-27").json
    assert plain["context_management"] == {"applied_edits": []}


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_failure_in_the_stream(count):
    """After some events an error event ends the stream, without message_stop [C4]."""
    failing = Provider(script=lambda _: Reply(blocks=(Say("Hello there."),), fail_after=count))
    events = parsed(send(failing, body(stream=True)))
    assert len(events) == count + 1
    assert events[-1] == (
        "error",
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    )


def test_a_cut_stream():
    """A cut stream ends in the middle, and the connection is to break."""
    answer = send(Provider(script=lambda _: Reply(blocks=(Say("Hi."),), cut_after=3)), body(stream=True))
    assert (len(answer.events), answer.abort) == (3, True)


def test_ids_follow_from_the_history():
    """The same history gives the same call ids, another one others; message ids are never reused."""
    calls = lambda answer: [b["id"] for b in answer.json["content"] if b["type"] == "tool_use"]
    provider = Provider(script=script)
    once, again = send(provider, body()), send(provider, body())
    other = send(provider, body(user("Check the fan.")))
    assert calls(once) == calls(again)
    assert len({*calls(once), *calls(other)}) == 4
    assert len({once.json["id"], again.json["id"], other.json["id"]}) == 3
