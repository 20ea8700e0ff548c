"""Prefixes that change for no reason, marks that come and go, and breaks that are the client's own."""

import json

import orjson
import pytest

from proxy.explain import explain
from proxy.gateway.conversations import Conversations
from proxy.gateway.exchange import Incoming
from proxy.misses import expected, miss
from proxy.policy import load_policy
from proxy.simulator import MESSAGES, Provider, Settings, common_prefix, divergence
from proxy.usage import Usage
from tests.cases.bodies import (
    DIALECT,
    MARK,
    READ,
    RUN,
    THINKING,
    Proxy,
    assistant,
    blocks,
    body,
    bytes_of,
    call,
    case,
    complaint,
    marks,
    result,
    sent,
    text,
    thought,
    turns,
    unmarked,
    user,
)

NEXT = (assistant("The pump is fine."), user("And the fan?"))
LONG = "You look after a small greenhouse: its pump, its fan, its lamp and its door.\n" * 80

# -- a token in the system prompt that changes with every request -------------------------------------------


def attributed(token, extra="", *, words="You look after a small greenhouse."):
    line = f"x-anthropic-billing-header: cc_version=2.1.114.abc; cc_entrypoint=cli; cch={token};{extra}"
    return [text(line), text(words)]


@case("B16")
@pytest.mark.parametrize("upstream", ["llama.cpp", "vllm", "sglang", "ollama", "openrouter", "unknown"])
@pytest.mark.parametrize("extra", [("", ""), (" cc_turn_index=1;", " cc_turn_index=2;")])
def test_a_changing_attribution_line_is_kept_still(upstream, extra):
    """On an upstream that caches it as text: tools and system are the same bytes in every turn, and we say so."""
    proxy = Proxy("careful", upstream=upstream, agent="claude-code")
    requests = [body(user("Check the pump."), system=attributed("1a2b3", extra[0]))]
    for token in ("9f8e7", "00000"):
        requests.append(turns(requests[-1], *NEXT) | {"system": attributed(token, extra[1])})
    made = [proxy.send(request) for request in requests]
    assert made[0].body == bytes_of(requests[0])
    for before, after, request in zip(made, made[1:], requests[1:], strict=False):
        assert divergence(before.body, after.body) is None
        assert unmarked(sent(after)["system"]) == requests[0]["system"]
        assert unmarked(sent(after)["tools"]) == request["tools"]
        shown = explain(after, bytes_of(request)).edits
        assert ("relocate", "system[0]", "volatile field kept as first sent") in [
            (line.stage, line.place, line.reason) for line in shown
        ]


@case("B16")
@pytest.mark.parametrize("policy", ["transparent", "careful", "default", "frugal"])
def test_the_vendor_gets_the_attribution_line_as_it_came(policy):
    """There it is taken out before the cache; changed, it would count as another client's."""
    proxy = Proxy(policy, agent="claude-code")
    for token in ("1a2b3", "9f8e7"):
        request = body(user("Check the pump."), system=attributed(token))
        made = proxy.send(request)
        assert sent(made)["system"][0] == request["system"][0]
        assert made.body == bytes_of(request)


@case("B16")
def test_the_cache_of_a_long_prompt_is_found_again():
    """What the provider itself counts: the second turn reads all that the first one wrote."""
    proxy, provider = Proxy("careful", upstream="openrouter", agent="claude-code"), Provider(Settings())
    request = body(user("Check the pump."), system=attributed("1a2b3", words=LONG), model="claude-sonnet-4-5")
    first = post(provider, proxy.send(request).body)
    request = turns(request, *NEXT) | {"system": attributed("9f8e7", words=LONG)}
    second = post(provider, proxy.send(request).body)
    assert first.written > 1024
    assert second.read == first.written
    assert post(Provider(Settings()), bytes_of(request)).read == 0


def post(provider, raw):
    return provider.answer([("anthropic-version", "2023-06-01")], raw, 0.0, MESSAGES).exchange


# -- tools that say the same in other words ----------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
    "required": ["path"],
}
MIXED = {
    "required": ["path"],
    "properties": {"lines": {"type": "integer"}, "path": {"type": "string"}},
    "type": "object",
}


def tool(schema, name="read_file"):
    return {"name": name, "description": "Read a file.", "input_schema": schema}


@case("B19")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([tool(SCHEMA)], [tool(MIXED)]),
        ([tool(MIXED)], [tool(SCHEMA)]),
        ([tool(SCHEMA)], [dict(reversed(tool(MIXED).items()))]),
        ([tool(SCHEMA), RUN], [RUN, tool(MIXED)]),
        ([tool(SCHEMA), RUN, tool(SCHEMA, "look")], [tool(MIXED, "look"), tool(MIXED), RUN]),
        ([tool(SCHEMA)], [tool(SCHEMA) | {"strict": None}]),
    ],
)
def test_a_tool_that_says_the_same_leaves_as_it_was_first_spelt(first, second):
    """The first request keeps the client's own order; later ones get the bytes of the first."""
    proxy = Proxy()
    request = body(user("Check the pump."), tools=first)
    one = proxy.send(request)
    assert one.body == bytes_of(request)
    two = proxy.send(turns(request, *NEXT) | {"tools": second})
    assert DIALECT.open(two.body).envelope[2] == DIALECT.open(one.body).envelope[2]
    assert divergence(one.body, two.body) is None
    three = proxy.send(turns(request, *NEXT, *NEXT) | {"tools": first})
    assert divergence(two.body, three.body) is None


@case("B19")
@pytest.mark.parametrize(
    "change",
    [
        tool(SCHEMA) | {"description": "Read a whole file."},
        tool({**SCHEMA, "required": []}),
        tool({**SCHEMA, "properties": {**SCHEMA["properties"], "lines": {"type": "number"}}}),
    ],
)
def test_a_tool_that_says_something_else_leaves_as_it_is(change):
    """Spelling is ours to keep, meaning is not."""
    proxy = Proxy()
    request = body(user("Check the pump."), tools=[tool(SCHEMA)])
    proxy.send(request)
    assert sent(proxy.send(turns(request, *NEXT) | {"tools": [change]}))["tools"] == [change]


@case("B19")
def test_a_new_tool_goes_behind_those_sent_before():
    """A client that sorts its tools by name puts a new one first: what was cached stays in front."""
    proxy = Proxy()
    request = body(user("Check the pump."), tools=[READ, RUN])
    proxy.send(request)
    fresh = tool(SCHEMA, "aim")
    assert sent(proxy.send(turns(request, *NEXT) | {"tools": [fresh, RUN, READ]}))["tools"] == [
        READ,
        RUN,
        fresh,
    ]


# -- bytes that nobody asked us to touch -------------------------------------------------------------------

ODD = (
    b'{"model":"claude-x", "temperature":1.0,"max_tokens":1e3,\n"metadata":{"zeta":1,"alpha":{"b":1E+2,"a":-0.0}},'
    b'"messages":[{"role":"user","content":"caf\\u00e9 \\/ \xc3\xa9"},{"content":"ok","role":"assistant"},'
    b'{"role":"user","content":%s}],'
    b'"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"zeta":{"type":"string"},'
    b'"alpha":{"type":"string"}}}}} }'
)


@case("B20")
@pytest.mark.parametrize("policy", ["transparent", "careful", "default", "frugal", "local"])
def test_a_body_that_needs_nothing_is_the_same_object(policy):
    """Order, spaces, 1.0, 1e3 and escapes are the client's business."""
    raw = ODD % b'"go"'
    assert Proxy(policy).send(raw).body is raw


CHAT = (
    b'{"model":"m", "temperature":1.0,"seed":1e2,"messages":[{"role":"user","content":"caf\\u00e9"},'
    b'{"content":"","role":"assistant"},{"role":"user","content":"go"}],"response_format":{"type":"json_schema",'
    b'"json_schema":{"name":"r","schema":{"type":"object","properties":{"zeta":{"type":"string"},'
    b'"alpha":{"type":"string"}}}}}}'
)


@case("B20")
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini", "of tomorrow"])
def test_where_no_policy_applies_every_format_passes(dialect):
    """The rewriter behind the gateway hands the same object on."""
    asked = Incoming("POST", "/v1/chat/completions", "", (), CHAT, "openai", dialect, 1_764_547_200.0)
    assert Conversations(load_policy("transparent")).prepare(asked).body is CHAT


@case("B20")
def test_an_edit_respells_nothing_beside_it():
    """One blank block goes; every other value keeps its bytes, in its place."""
    raw = ODD % b'[ {"type":"text","text":""},  {"text":"g\\u006f", "type":"text"} ]'
    made = Proxy().send(raw)
    before, after = DIALECT.open(raw), DIALECT.open(made.body)
    assert [name for name, _ in after.envelope] == [name for name, _ in before.envelope]
    for (name, then), (_, now) in zip(before.envelope, after.envelope, strict=True):
        assert name == "messages" or bytes(then) == bytes(now)
    assert [*map(bytes, after.messages[:2])] == [*map(bytes, before.messages[:2])]
    assert bytes(after.messages[2]) == b'{"role":"user","content":[{"text":"g\\u006f", "type":"text"}]}'


# -- marks -------------------------------------------------------------------------------------------------


def parallel(number, size=300):
    ids = [f"t{at:02}" for at in range(number)]
    return (
        assistant(*(call(ident, path=f"{ident}.py") for ident in ids)),
        user(*(result(ident, f"{ident} " * (size // 4)) for ident in ids)),
    )


@case("B23")
@pytest.mark.parametrize("number", [5, 14, 19, 20, 40, 90])
@pytest.mark.parametrize("collapse", [True, False])
def test_a_turn_of_many_calls_still_reads_what_the_turn_before_wrote(number, collapse):
    """A mark lies within reach of the last one, whatever a provider counts as a position; four marks at most."""
    proxy, provider = Proxy(), Provider(Settings(collapse_runs=collapse))
    request = body(user(text("Read all sensors.", **MARK)), system=LONG, model="claude-sonnet-4-5")
    first = proxy.send(request)
    seen = post(provider, first.body)
    request = turns(
        body(user(text("Read all sensors.")), system=LONG, model="claude-sonnet-4-5"), *parallel(number)
    )
    second = proxy.send(request)
    assert post(provider, second.body).read == seen.read + seen.written
    out = sent(second)
    assert len(marks(out)) <= 4
    assert unmarked(blocks(out)) == unmarked(blocks(request))
    third = proxy.send(turns(request, *NEXT))
    assert divergence(second.body, third.body) is None
    assert post(provider, third.body).read > seen.read + seen.written


@case("B23")
@pytest.mark.parametrize("number", [5, 14, 40])
def test_marks_go_on_where_the_client_began_them_however_short_the_prompt(number):
    """Some mark lies within reach of the part that carried the last one, though hardly anything is cached yet."""
    proxy = Proxy()
    proxy.send(body(user(text("Read all sensors.", **MARK))))
    request = body(user(text("Read all sensors.")), *parallel(number, size=8))
    out = sent(proxy.send(request))
    marked = [at for at, block in enumerate(blocks(out)) if "cache_control" in block]
    assert marked and min(marked) <= 20 and len(marks(out)) <= 4
    assert unmarked(blocks(out)) == unmarked(blocks(request))


@case("B25")
@pytest.mark.parametrize("policy", ["careful", "frugal", "anchors"])
@pytest.mark.parametrize(
    "answer",
    [
        [thought("Nothing to say yet.")],
        [thought("One."), thought("Two.", "c2lnLXR3bw==")],
        [{"type": "redacted_thinking", "data": "b3BhcXVl"}],
        [thought("Nothing."), text("")],
    ],
)
@pytest.mark.parametrize("before", [0, 1])
def test_no_mark_on_thinking_and_none_on_a_message(policy, answer, before, tmp_path):
    """The place for a mark is an earlier block that can carry it, or there is none."""
    source = policy
    if policy == "anchors":
        source = tmp_path / "anchors.yaml"
        source.write_text("extends: careful\nbreakpoints: {place: [before_current, tail, {every: 1}]}\n")
    opening = [user("Good morning."), assistant("Good morning.")] * before
    request = body(*opening, user("Check." * 900), assistant(*answer), user("Go on."), **THINKING)
    proxy = Proxy(source)
    made = proxy.send(request)
    out = sent(made)
    for _ in range(2):
        for path in marks(out):
            assert path.split(".")[-2] in ("content", "system", "tools")
        assert not any("thinking" in b["type"] and "cache_control" in b for b in blocks(out))
        assert [b for b in blocks(out) if "thinking" in b["type"]] == [
            b for b in blocks(request) if "thinking" in b["type"]
        ]
        assert complaint(made.body) is None
        request = turns(request, assistant(thought("Again.")), user("Go on."))
        made = proxy.send(request)
        out = sent(made)


@case("B25")
@pytest.mark.parametrize("place", ["thinking", "empty text"])
def test_a_mark_of_the_clients_where_none_may_stand_is_taken_away(place):
    """The request would be refused for it."""
    block = thought() | MARK if place == "thinking" else text("", **MARK)
    request = body(
        user("Check."),
        assistant(*([block] if place == "thinking" else [text("Fine."), block])),
        user("Go on."),
    )
    assert complaint(request) is not None
    made = Proxy().send(request)
    assert complaint(made.body) is None
    assert marks(sent(made)) == []


# -- the client's own break --------------------------------------------------------------------------------

R1, R2 = text("<reminder>skills: a, b</reminder>"), text("<reminder>project notes</reminder>")


class Meter:
    """A proxy beside a provider that says what came from its cache."""

    def __init__(self):
        self.proxy = Proxy()

    def send(self, request, cached=None):
        made = self.proxy.rewrite(request)
        branch = made.place.branch
        recent = self.proxy.ledger.recent_of(branch.id) if branch else None
        facts = self.proxy.facts("claude-x")
        foreseen = expected(made, branch, recent, facts)
        usage = Usage(prompt=5000, uncached=0, cached=5000 if cached is None else cached, written=0)
        self.proxy.send(request, usage=usage)
        return made, miss(foreseen, usage, facts)


@case("B26")
def test_a_reminder_that_moves_to_the_end_is_named():
    """The body leaves as it came; the record says where the prefix broke, what is missing, what stood behind it."""
    meter = Meter()
    meter.send(body(user(R1, R2, text("Check the pump."))))
    request = body(user(R1, text("Check the pump.")), assistant("Fine."), user(R2, text("And the fan?")))
    made, missed = meter.send(request, cached=20)
    assert made.body == bytes_of(request)
    assert missed.reason == "client"
    behind = sum(len(orjson.dumps(block)) for block in (R1, R2, text("Check the pump.")))
    assert missed.detail == f"messages[0].content[1] (text) is missing, {behind} bytes stand there and behind"
    assert made.edits == ()


@case("B26")
@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda m: [user(R1, text("Check the pump.")), *m[1:]], "messages[0].content[1] (text) is missing"),
        (lambda m: [user(R1, text("Check the fan.")), *m[1:]], "messages[0].content[1] (text) changed"),
        (lambda m: [m[0], assistant("Fine!"), *m[2:]], "messages[1].content[0] (text) changed"),
        (lambda m: [*m[:2], user("And the vent?"), *m[3:]], "messages[2].content[0] (text) changed"),
        (lambda m: [*m[:2], m[4]], "messages[2].content[0] (text) changed"),
    ],
)
def test_each_change_of_the_clients_is_named_where_it_begins(change, named):
    """The first difference, whatever it is."""
    meter = Meter()
    messages = [user(R1, R2, text("Check the pump.")), assistant("Fine."), user("And the fan?")]
    meter.send(body(*messages))
    longer = [*messages, assistant("Fine too."), user("And the lamp?")]
    _, missed = meter.send(body(*change(longer)), cached=20)
    assert missed is not None and missed.reason == "client"
    assert missed.detail.startswith(named)


@case("B26")
def test_no_alarm_for_a_plain_append():
    """Neither the first request nor one that goes on is a break, even where the client respells its history."""
    meter = Meter()
    request = body(user(R1, R2, text("Check the pump.")))
    assert meter.send(request)[1] is None
    request = turns(request, *NEXT)
    assert meter.send(request)[1] is None
    request["messages"][1] = assistant(text("The pump is fine."))
    assert meter.send(turns(request, assistant("Fine too."), user("Good.")))[1] is None


# -- nothing of ours comes and goes ------------------------------------------------------------------------


@case("B29")
@pytest.mark.parametrize("policy", ["transparent", "careful", "default", "frugal", "local"])
def test_the_tools_are_the_clients_in_every_turn(policy):
    """Whatever a policy does with results, the list of tools does not change with it."""
    proxy = Proxy(policy)
    request = body(user("Check."))
    seen = [proxy.send(request)]
    for at in range(3):
        request = turns(request, assistant(call(f"c{at}")), user(result(f"c{at}", "[stored output 1]")))
        seen.append(proxy.send(request))
    tools = [dict(DIALECT.open(made.body).envelope)["tools"] for made in seen]
    assert len({bytes(raw) for raw in tools}) == 1
    assert json.loads(bytes(tools[0])) == [READ, RUN]


@case("B32")
@pytest.mark.parametrize(
    "found",
    ["", [], [text("")], None, "ok", [text("ok")]],
    ids=["empty", "no blocks", "empty text", "absent", "text", "blocks"],
)
@pytest.mark.parametrize("thinks", [False, True])
def test_no_block_of_ours_is_added_to_hold_a_mark(found, thinks):
    """A last block that is no good for a mark gets none: the prompt is the client's, turn after turn."""
    proxy = Proxy()
    answer = [*([thought()] if thinks else []), call("A")]
    empty = result("A", found) if found is not None else {"type": "tool_result", "tool_use_id": "A"}
    more = THINKING if thinks else {}
    request = body(user("Check."), assistant(*answer), user(empty), system=LONG, **more)
    bodies = []
    for _ in range(3):
        made = proxy.send(request)
        assert complaint(made.body) is None
        ours, theirs = unmarked(blocks(sent(made))), blocks(request)
        assert len(ours) == len(theirs)
        assert [b for b in ours if b["type"] == "text"] == [b for b in theirs if b["type"] == "text"]
        bodies.append(made.body)
        request = turns(request, assistant("Empty file."), user("Go on."))
    assert [divergence(*pair) for pair in zip(bodies, bodies[1:], strict=False)] == [None, None]
    assert common_prefix(*bodies[:2])[0] > 3
