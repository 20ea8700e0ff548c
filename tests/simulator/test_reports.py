"""Shapes that users reported as broken, or took for broken: the provider decides as theirs did."""

import base64

import orjson
import pytest

from proxy.simulator import Provider, Settings, divergence

from tests.simulator.bodies import (
    MARK,
    READ,
    RUN,
    assistant,
    body,
    call,
    complaint,
    headers,
    image,
    png,
    result,
    send,
    text,
    thought,
    user,
)

MANUAL = {"max_tokens": 8192, "thinking": {"type": "enabled", "budget_tokens": 2048}}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "fan"}}


def found(ident):
    return {"type": "web_search_tool_result", "tool_use_id": ident, "content": []}


REFUSED = {
    "a result whose call was cut away by a compaction": (
        body(user(result("t0"), text("Now the fan.")), assistant(call("t1")), user(result("t1"))),
        "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t0.",
    ),
    "a call merged into the history several times": (
        body(
            user("Read three files."),
            assistant(call("t1"), call("t1"), call("t2"), call("t1")),
            user(result("t1"), result("t2")),
        ),
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    "text behind the call": (
        body(
            user("Check."),
            assistant(thought(), call("A"), text("Reading it now.")),
            user(result("A")),
            **MANUAL,
        ),
        "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: A.",
    ),
    "a server result that lost its call": (
        body(
            user("Search."),
            assistant(SEARCH, found("srvtoolu_1"), text("Found.")),
            user("More."),
            assistant(found("srvtoolu_2"), text("Also this.")),
            user("Thanks."),
        ),
        "messages.3.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: srvtoolu_2.",
    ),
    "an empty text left beside a question": (
        body(
            user(text("Check."), text("")),
            assistant(
                thought(words="  Look at café …  \n\n"),
                {"type": "redacted_thinking", "data": "b3A="},
                call("A"),
            ),
            user(result("A")),
            **MANUAL,
        ),
        "messages: text content blocks must be non-empty",
    ),
    "one space as a filler": (
        body(
            user("Check."),
            assistant(text("\n\n"), call("A")),
            user(result("A", "")),
            {"role": "assistant", "content": []},
            user(text(" ")),
            assistant("Fine."),
            user("Go on."),
        ),
        "messages: text content blocks must contain non-whitespace text",
    ),
    "one wide screenshot after many images": (
        body(user(*[image(png(8, 8))] * 24, image(png(2162, 322)), text("Compare."))),
        "messages.0.content.24.image.source.base64.data: At least one of the image dimensions exceed max allowed "
        "size for many-image requests: 2000 pixels",
    ),
    "a screenshot over five megabytes": (
        body(
            user("Shot."),
            assistant(call("A", "run", cmd="shot")),
            user(
                result(
                    "A",
                    [image(base64.b64encode(base64.b64decode(png(8, 8)) + bytes(4100 * 1024)).decode())],
                )
            ),
        ),
        "messages.2.content.0.tool_result.content.0.image.source.base64: image exceeds 5 MB maximum: ",
    ),
    "the last user turn cleaned away": (
        body(user("Check."), assistant("Fine.")),
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    ),
    "a mark on a message, for want of a block": (
        body(
            user("Check."),
            {**assistant(thought()), "cache_control": MARK},
            user("Go on."),
        ),
        "messages.1.cache_control: Extra inputs are not permitted",
    ),
    "clearing thinking on every request, also without thinking": (
        body(context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}),
        "`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive",
    ),
}


@pytest.mark.parametrize(("request_body", "start"), REFUSED.values(), ids=REFUSED)
def test_refused(request_body, start):
    """Each was answered with a 400 of this wording."""
    assert complaint(request_body, "context-management-2025-06-27").startswith(start)


PASSES = {
    "a message of thinking only": body(user("Check."), assistant(thought()), user("Go on.")),
    "an empty result": body(user("Check."), assistant(call("A")), user(result("A", ""))),
    "a reminder as the last user message": body(
        user("Check."), assistant("Fine."), user(text("<reminder>task list is stale</reminder>"))
    ),
    "markers of others in a result": body(
        user("Read."),
        assistant(call("A")),
        user(result("A", "x-anthropic-billing-header: cch=0;\n<reminder>")),
    ),
    "a system prompt of 36 kB": body(
        user("Hello."), assistant("Hello."), user("Go on."), system="rule. " * 6000
    ),
    "four thousand messages": body(
        *(
            message
            for n in range(1000)
            for message in (
                user(f"q{n}"),
                assistant(call(f"t{n}")),
                user(result(f"t{n}", "y" * 200)),
                assistant("ok"),
            )
        ),
        user("end"),
    ),
}


@pytest.mark.parametrize("request_body", PASSES.values(), ids=PASSES)
def test_passes(request_body):
    """Each was legal all along."""
    assert complaint(request_body) is None


@pytest.mark.parametrize(
    ("escape", "wording"),
    [
        ("\\ud83d\\udd25\\ud83d", "no low surrogate in string"),
        ("head\\u0000tail", "unexpected end of data"),
    ],
    ids=["emoji cut in two", "NUL"],
)
def test_encoding(escape, wording):
    """A cut emoji or a NUL in a tool result is no JSON; where NUL is taken, a setting says so."""
    raw = orjson.dumps(body(user("Dump."), assistant(call("A")), user(result("A", "PLACE"))))
    raw = raw.replace(b"PLACE", escape.encode())
    answer = send(Provider(), raw)
    assert answer.json["error"]["message"].startswith(
        f"The request body is not valid JSON: {wording}: line 1 column "
    )
    assert (send(Provider(Settings(refuse_nul=False)), raw).status == 200) is (
        wording == "unexpected end of data"
    )


BREAKS = {
    "an attribution line with a nonce": (
        body(system=[text("x-anthropic-billing-header: cch=1a2b3;"), text("Rules.")]),
        body(system=[text("x-anthropic-billing-header: cch=9f8e7;"), text("Rules.")]),
        "system.0",
    ),
    "keys of a schema in another order": (
        body(tools=[READ, RUN]),
        body(tools=[{**READ, "input_schema": dict(reversed(READ["input_schema"].items()))}, RUN]),
        "tools.0",
    ),
    "a reminder that moved to the newest message": (
        body(user(text("<r>skills</r>"), text("<r>notes</r>"), text("Check."))),
        body(
            user(text("<r>skills</r>"), text("Check.")),
            assistant("Fine."),
            user(text("<r>notes</r>"), text("And the fan?")),
        ),
        "messages.0.content.1",
    ),
    "a tool of the proxy's own on some turns": (
        body(tools=[READ]),
        body(user("Check the pump."), assistant("Fine."), user("More."), tools=[RUN, READ]),
        "tools.0",
    ),
}


@pytest.mark.parametrize(("first", "second", "where"), BREAKS.values(), ids=BREAKS)
def test_prefixes_that_broke(first, second, where):
    """Each lost the cache, and this is the place."""
    assert divergence(first, second) == where


def test_many_parallel_calls_outrun_the_lookback_where_runs_do_not_collapse():
    """28 blocks in one turn: the tail mark alone misses, a lagging one hits [B6]."""
    names = [f"t{n:02d}" for n in range(14)]
    rules = "Rule: be careful. " * 400
    first = body(user(text("Read all.", cache_control=MARK)), system=rules)

    def second(lagging):
        opening = text("Read all.", cache_control=MARK) if lagging else text("Read all.")
        tail = [result(name) for name in names[:-1]] + [result(names[-1], cache_control=MARK)]
        return body(user(opening), assistant(*map(call, names)), user(*tail), system=rules)

    def read(settings, lagging):
        provider = Provider(settings)
        send(provider, first)
        return send(provider, second(lagging)).exchange.read > 0

    separate = Settings(collapse_runs=False)
    assert [read(separate, False), read(separate, True)] == [False, True]
    assert [read(Settings(), False), read(Settings(), True)] == [True, True]


def test_a_body_of_31_megabytes_is_looked_at():
    """Size alone refuses only above 32 MB."""
    answer = Provider().answer(headers(), orjson.dumps(body(user("x" * 31_000_000))), 0.0)
    assert answer.json["error"]["message"].startswith("prompt is too long: ")
