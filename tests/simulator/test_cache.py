"""The prompt cache as little transcripts: what is read, what is written, what it costs."""

import msgspec
import pytest

from proxy.simulator import Answer, Call, Provider, Reply, Say, Settings, Usage, price, prompt
from proxy.simulator.cache import PromptCache
from proxy.simulator.models import MODELS, PERMISSIVE
from proxy.simulator.render import Position

from tests.simulator.bodies import (
    HOUR,
    MARK,
    READ,
    RUN,
    Client,
    assistant,
    body,
    call,
    image,
    png,
    result,
    send,
    system,
    text,
    thought,
    user,
)

RULES = "Rule: be careful with the pump. " * 300
MODEL = "claude-x"


def rules(**members):
    return [text(RULES, **members)]


def figures(answer: Answer):
    """(read, written for 5 minutes, written for an hour, neither)."""
    usage = answer.exchange.usage
    return usage.cache_read_input_tokens, usage.write_5m, usage.write_1h, usage.input_tokens


def tokens_to(request, path, **options):
    """Tokens of the prompt up to and with the block at `path`."""
    total = 0
    for position in prompt(request, **options):
        total += position.tokens
        if position.path == path:
            return total
    raise AssertionError(path)


def total(request):
    return sum(position.tokens for position in prompt(request))


# Positions by hand, for the rules about counting.


def chain(count, kind="text", marks=()):
    """`count` positions of ten tokens; `marks` are the marked ones, counted from 1."""
    return [
        Position(
            path=str(n),
            section="messages",
            kind=kind if isinstance(kind, str) else kind(n),
            tokens=10,
            key=b"%d" % n,
            chain=b"%d" % n,
            ttl="5m" if n in marks else None,
        )
        for n in range(1, count + 1)
    ]


def looked_up(cache, positions, now=0.0, minimum=0):
    found = cache.lookup(("org",), positions, minimum, now)
    cache.begin(found)
    return found.usage


def test_nothing_is_cached_without_a_mark():
    """Without cache_control both counters are zero, for ever [B2]."""
    provider = Provider()
    request = body(system=rules())
    for _ in range(2):
        assert figures(send(provider, request)) == (0, 0, 0, total(request))
    assert len(provider.cache) == 0


def test_a_mark_writes_and_the_next_request_reads():
    """The first request writes up to its mark, the second reads it and writes the rest [B5 B8]."""
    provider = Provider()
    first = body(user("Check the pump."), system=rules(cache_control=MARK))
    at = tokens_to(first, "system.0")
    assert figures(send(provider, first)) == (0, at, 0, total(first) - at)
    second = body(
        user("Check the pump."), assistant("Fine."), user("And the fan?"), system=rules(cache_control=MARK)
    )
    assert figures(send(provider, second)) == (at, 0, 0, total(second) - at)


def test_usage_adds_up_to_the_prompt():
    """Read, written and neither are the whole prompt, in the body and in the record [B8]."""
    provider = Provider()
    request = body(user(text("Check.", cache_control=MARK)), system=rules(cache_control=HOUR))
    answer = send(provider, request)
    usage = answer.json["usage"]
    assert usage["cache_creation"] == {
        "ephemeral_1h_input_tokens": tokens_to(request, "system.0"),
        "ephemeral_5m_input_tokens": total(request) - tokens_to(request, "system.0"),
    }
    assert usage["cache_creation_input_tokens"] == sum(usage["cache_creation"].values()) == total(request)
    assert answer.exchange.total == total(request)


def test_only_breakpoints_leave_entries():
    """A prefix that ends between two breakpoints is not in the cache [B5]."""
    provider = Provider()
    send(provider, body(user(text(RULES), text("Middle."), text("End.", cache_control=MARK))))
    shorter = body(user(text(RULES), text("Middle.", cache_control=MARK)))
    assert figures(send(provider, shorter))[0] == 0


def test_moving_the_mark_keeps_the_cache():
    """Marks are not part of the key: the tail mark of last turn may go [B1]."""
    client = Client(Provider(), system=rules())
    client.send(user(text("Check the pump.", cache_control=MARK)))
    wrote = client.provider.log[-1].written
    client.messages[0] = user("Check the pump.")
    answer = client.send(user(text("And the fan?", cache_control=MARK)))
    assert figures(answer)[0] == wrote == tokens_to(client.body(), "messages.0.content.0")


def test_lookback_of_twenty_counts_the_breakpoint():
    """35 blocks, the mark on the last: an entry at 16 is found, one at 15 is not [B6]."""
    for entry, read in ((16, 160), (15, 0)):
        cache = PromptCache()
        looked_up(cache, chain(entry, marks=(entry,)))
        assert looked_up(cache, chain(35, marks=(35,))).cache_read_input_tokens == read


def test_a_second_breakpoint_resumes_the_lookback():
    """A mark at 15 finds the entry that the mark at 35 cannot see, and the longest match wins [B6]."""
    cache = PromptCache()
    looked_up(cache, chain(5, marks=(5,)))
    looked_up(cache, chain(15, marks=(15,)))
    assert looked_up(cache, chain(35, marks=(24, 35))).cache_read_input_tokens == 150


def test_runs_of_tool_blocks_count_once():
    """Fourteen calls and their results are two positions of the lookback; as texts they are 28 [B6]."""

    def kind(n):
        return "text" if n <= 5 else "tool_use" if n <= 19 else "tool_result"

    for kinds, read in ((kind, 50), ("text", 0)):
        cache = PromptCache()
        looked_up(cache, chain(5, kinds, marks=(5,)))
        assert looked_up(cache, chain(33, kinds, marks=(33,))).cache_read_input_tokens == read


def test_parallel_calls_in_a_real_prompt_are_bridged():
    """A turn with many parallel calls still finds the entry of the turn before."""
    provider = Provider()
    names = [f"t{n:02d}" for n in range(30)]
    opening = user(text("Read all sensors.", cache_control=MARK))
    calls, results = assistant(*map(call, names)), user(*map(result, names[:-1]))
    results["content"].append(result(names[-1], cache_control=MARK))
    wrote = send(provider, body(opening, system=rules())).exchange.written
    assert (
        send(provider, body(user("Read all sensors."), calls, results, system=rules())).exchange.read == wrote
    )


def test_mixed_lifetimes_split_the_write():
    """Read up to A, an hour for A to the last 1h mark, five minutes for the rest up to the last mark [B8]."""
    cache = PromptCache()
    looked_up(cache, chain(2, marks=(2,)))
    positions = chain(10, marks=(4, 6, 8))
    marked = [
        Position(p.path, p.section, p.kind, p.tokens, p.key, p.chain, "1h") if p.path in ("4", "6") else p
        for p in positions
    ]
    usage = looked_up(cache, marked)
    assert usage == Usage(cache_read_input_tokens=20, write_1h=40, write_5m=20, input_tokens=20)


@pytest.mark.parametrize(("mark", "lives"), [(MARK, 300), (HOUR, 3600)], ids=["5m", "1h"])
def test_an_entry_expires_and_a_read_refreshes_it(mark, lives):
    """Lifetime runs from the start of the request that wrote or last read the entry [B10]."""
    request = body(system=rules(cache_control=mark))

    def reads(*times):
        provider = Provider()
        return [send(provider, request, now=now).exchange.read > 0 for now in times]

    assert reads(0, lives - 1) == [False, True]
    assert reads(0, lives) == [False, False]
    assert reads(0, lives - 1, 2 * lives - 2) == [False, True, True]
    assert reads(0, lives - 1, 2 * lives - 1) == [False, True, False]


def test_an_entry_is_visible_when_the_answer_begins():
    """Parallel requests all miss; what comes after the first byte hits [B11]."""
    provider = Provider()
    request = body(system=rules(cache_control=MARK))

    def prepare():
        from tests.simulator.bodies import headers
        import orjson

        return provider.prepare(headers(), orjson.dumps(request), 0.0)

    first, second = prepare(), prepare()
    assert [a.exchange.read for a in (first, second)] == [0, 0]
    provider.begin(first)
    assert prepare().exchange.read > 0


def changed(**members):
    def build(marked):
        return {**marked, **members}

    return build


BASE = body(
    user(text("Check the pump.", cache_control=MARK)),
    system=rules(cache_control=MARK),
    tools=[{**READ, "description": RULES}, {**RUN, "cache_control": MARK}],
)
SWAPPED = [{**RUN}, {**READ, "description": RULES, "cache_control": MARK}]
SCHEMA_ORDER = {
    **READ,
    "description": RULES,
    "input_schema": {"required": ["path"], "type": "object", "properties": {"path": {"type": "string"}}},
}
WEB = {"type": "web_search_20250305", "name": "web_search"}
INVALIDATION = {
    "nothing": ({}, "messages"),
    "max_tokens": ({"max_tokens": 7}, "messages"),
    "metadata": ({"metadata": {"user_id": "u"}}, "messages"),
    "stop sequences": ({"stop_sequences": ["x"]}, "messages"),
    "stream": ({"stream": True}, "messages"),
    "thinking spelt as its default": ({"thinking": {"type": "disabled"}}, "messages"),
    "tool choice spelt as its default": ({"tool_choice": {"type": "auto"}}, "messages"),
    "a deferred tool": (
        {"tools": [*BASE["tools"], {**RUN, "name": "late", "defer_loading": True}]},
        "messages",
    ),
    "messages": ({"messages": [user(text("Check the fan.", cache_control=MARK))]}, "system"),
    "tool choice": ({"tool_choice": {"type": "none"}}, "system"),
    "parallel calls off": ({"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, "system"),
    "thinking": ({"thinking": {"type": "adaptive"}}, "system"),
    "effort": ({"output_config": {"effort": "low"}}, "system"),
    "an image": (
        {"messages": [*BASE["messages"], user(image(png(8, 8)))]},
        "system",
    ),
    "system": ({"system": [text(RULES + "More.", cache_control=MARK)]}, "tools"),
    "web search": ({"tools": [*BASE["tools"], WEB]}, "tools"),
    "order of tools": ({"tools": SWAPPED}, None),
    "key order in a schema": ({"tools": [SCHEMA_ORDER, BASE["tools"][1]]}, None),
    "a tool more": ({"tools": [READ, *BASE["tools"][:0], {**RUN, "name": "new"}, *BASE["tools"][1:]]}, None),
    "model": ({"model": "claude-y"}, None),
    "speed": ({"speed": "fast"}, None),
}


@pytest.mark.parametrize(("change", "kept"), INVALIDATION.values(), ids=INVALIDATION)
def test_invalidation(change, kept):
    """What a change costs: the table of sections that stay readable [B12]."""
    provider = Provider()
    send(provider, BASE)
    ends = {
        "messages": tokens_to(BASE, "messages.0.content.0"),
        "system": tokens_to(BASE, "system.0"),
        "tools": tokens_to(BASE, "tools.1"),
        None: 0,
    }
    assert send(provider, {**BASE, **change}).exchange.read == ends[kept]


@pytest.mark.parametrize(
    "name", ["claude-opus-5-5", "claude-sonnet-5", "claude-opus-4-7", "claude-haiku-4-5"]
)
def test_minimum_prefix(name):
    """A prefix below the model's minimum is not cached, and that is no error [B13]."""
    minimum = MODELS[name].min_prefix

    def marked(size):
        return body(system=[text("x" * size, cache_control=MARK)], model=name, tools=[])

    size = next(s for s in range(0, 20_000) if tokens_to(marked(s), "system.0") >= minimum)
    assert figures(send(Provider(), marked(size - 1)))[:3] == (0, 0, 0)
    assert figures(send(Provider(), marked(size)))[:3] == (0, minimum, 0)


def test_minimum_holds_for_each_breakpoint():
    """A short first prefix is left out while a later one is long enough [B13]."""
    request = body(user(text(RULES, cache_control=MARK)), system=[text("Short.", cache_control=MARK)])
    provider = Provider()
    send(provider, request)
    assert len(provider.cache) == 1


def test_automatic_mark():
    """A top-level mark falls on the last cacheable block and moves with the conversation [B4]."""
    client = Client(Provider(), system=rules(), cache_control=MARK)
    first = client.send("Check the pump.").exchange
    assert (first.read, first.written, first.usage.input_tokens) == (0, first.total, 0)
    second = client.send("And the fan?").exchange
    assert (second.read, second.written) == (first.total, second.total - first.total)


def test_automatic_mark_walks_back_to_what_may_carry_one():
    """Thinking at the end cannot carry the mark: it falls on what stands before [B4 A15]."""
    request = body(
        user("Check."), assistant(text("Look."), thought()), system(text("Note.")), cache_control=MARK
    )
    request["messages"] = request["messages"][:2]
    assert [p.path for p in prompt(request) if p.ttl] == ["messages.1.content.0"]


def test_automatic_mark_beside_an_equal_one_is_nothing():
    """A mark of the same lifetime is already there: no second breakpoint [B4]."""
    request = body(user(text(RULES, cache_control=MARK)), cache_control=MARK)
    provider = Provider()
    send(provider, request)
    assert len(provider.cache) == 1


def test_accounts_and_workspaces_do_not_share():
    """Another key is another organization, and another cache [B16]."""
    provider = Provider()
    request = body(system=rules(cache_control=MARK))
    send(provider, request)
    assert send(provider, request, key="sk-other").exchange.read == 0
    assert send(provider, request).exchange.read > 0


def test_a_refused_answer_reports_a_write_and_leaves_none():
    """After stop_reason refusal the same request writes again [B22]."""
    provider = Provider(script=lambda _: Reply(blocks=(), stop_reason="refusal"))
    request = body(system=rules(cache_control=MARK))
    assert [send(provider, request).exchange.read for _ in range(2)] == [0, 0]
    assert provider.log[0].written > 0


def test_a_failed_request_writes_and_refreshes_nothing():
    """A 400 leaves the cache as it was."""
    provider = Provider()
    request = body(system=rules(cache_control=MARK))
    send(provider, {**request, "colour": 1})
    assert len(provider.cache) == 0
    send(provider, request, now=0)
    send(provider, {**request, "colour": 1}, now=299)
    assert send(provider, request, now=301).exchange.read == 0


def test_prewarm_writes_without_answering():
    """max_tokens 0 answers nothing and fills the cache [B30]."""
    provider = Provider()
    request = body(system=rules(cache_control=MARK))
    answer = send(provider, {**request, "max_tokens": 0})
    assert (answer.json["content"], answer.json["stop_reason"]) == ([], "max_tokens")
    assert send(provider, request).exchange.read == answer.exchange.written > 0


def test_counting_leaves_the_cache_alone():
    """count_tokens neither writes nor refreshes [A70]."""
    provider = Provider()
    request = {k: v for k, v in body(system=rules(cache_control=MARK)).items() if k != "max_tokens"}
    send(provider, request, path="/v1/messages/count_tokens")
    assert len(provider.cache) == 0


def test_billing_header_in_the_cache_key():
    """Third-party hosts cache the attribution block; the vendor leaves it out if first and alone [D14]."""

    def asked(number, *blocks):
        line = f"x-anthropic-billing-header: cc_version=1; cch={number};"
        return body(system=[text(line), *blocks, text(RULES, cache_control=MARK)])

    def second_reads(settings, build):
        provider = Provider(settings)
        send(provider, build(1))
        return send(provider, build(2)).exchange.read > 0

    vendor = Settings(hash_billing_header=False)
    assert not second_reads(Settings(), asked)
    assert second_reads(vendor, asked)
    merged = lambda n: body(
        system=[text(f"x-anthropic-billing-header: cch={n};\n{RULES}", cache_control=MARK)]
    )
    as_string = lambda n: body(
        user(text("Hi.", cache_control=MARK)), system=f"x-anthropic-billing-header: cch={n}; {RULES}"
    )
    assert not second_reads(vendor, merged)
    assert not second_reads(vendor, as_string)


def test_spelling_that_does_not_matter():
    """A string is one text block, members of a block have no order, null is absent [A13 B1]."""
    provider = Provider()
    first = body(
        user("Check."),
        assistant({"type": "tool_use", "id": "A", "name": "read_file", "input": {"a": 1, "b": 2}}),
        user(result("A", "fine", cache_control=MARK)),
        system=RULES,
    )
    second = body(
        user(text("Check.", citations=None)),
        assistant({"input": {"a": 1, "b": 2}, "name": "read_file", "id": "A", "type": "tool_use"}),
        user({"content": [text("fine", cache_control=MARK)], "tool_use_id": "A", "type": "tool_result"}),
        system=[text(RULES)],
    )
    assert send(provider, first).exchange.written == send(provider, second).exchange.read > 0


def test_key_order_inside_an_input_matters():
    """The input of a call is cached as it is written [B19]."""
    provider = Provider()

    def asked(arguments):
        return body(
            user("Check."),
            assistant({"type": "tool_use", "id": "A", "name": "read_file", "input": arguments}),
            user(result("A", "fine", cache_control=MARK)),
            system=RULES,
        )

    send(provider, asked({"a": 1, "b": 2}))
    assert send(provider, asked({"b": 2, "a": 1})).exchange.read == 0


def test_adjacent_messages_weigh_a_separator_more_than_one_message():
    """Joining two messages of a role in the client changes the prompt by a token, so it breaks the prefix [A10]."""
    apart = body(user("a"), assistant(text("b")), assistant(text("c")), user("d"))
    joined = body(user("a"), assistant(text("b"), text("c")), user("d"))
    assert total(apart) - total(joined) == 1
    assert [p.path for p in prompt(apart)][-1] == "messages.3.content.0"


def test_last_turn_models_lose_thinking_at_a_new_human_message():
    """Older models strip thinking of earlier turns: the cache falls back to before it [A47 B12]."""

    def script(ask):
        return Reply(blocks=(Say("Fine."),))

    reads = {}
    for name in ("claude-sonnet-4-5", "claude-opus-4-5"):
        client = Client(
            Provider(script=script),
            model=name,
            system=RULES * 2,
            max_tokens=9000,
            thinking={"type": "enabled", "budget_tokens": 2000},
        )
        client.send(user(text("Check.", cache_control=MARK)))
        client.messages[0] = user(text("Check.", cache_control=MARK))
        client.send(user(text("And the fan?", cache_control=MARK)))
        reads[name] = client.send(user(text("And the lamp?", cache_control=MARK))).exchange
    stripped, kept = reads["claude-sonnet-4-5"], reads["claude-opus-4-5"]
    assert stripped.read < kept.read
    assert stripped.total < kept.total


def test_dropped_tools_and_tool_references():
    """A deferred tool is in the prompt only where a reference brings it."""
    late = {**RUN, "name": "late", "description": RULES, "defer_loading": True}
    plain = body(*(user("Read."), assistant(call("A")), user(result("A"))), tools=[READ, late])
    loaded = body(
        user("Read."),
        assistant(call("A")),
        user(result("A", [{"type": "tool_reference", "tool_name": "late"}])),
        tools=[READ, late],
    )
    assert [p.path for p in prompt(plain) if p.section == "tools"] == ["tools.0"]
    assert total(loaded) > total(plain) + len(RULES) // 8


def test_price():
    """Cost in base input tokens: reads and writes at the model's factors, output not in it [B14]."""
    usage = Usage(input_tokens=100, cache_read_input_tokens=1000, write_5m=10, write_1h=10, output_tokens=999)
    assert price(usage, PERMISSIVE) == 100 + 100 + 12.5 + 20
    assert price(usage, MODELS["claude-opus-5-5"]) == 100 + 50 + 12.5 + 20
    assert price(usage, MODELS["claude-fable-5-1"]) == 100 + 25 + 12.5 + 20


def test_diagnostics_name_the_section_that_changed():
    """Where a client asks, the answer says why its prompt missed [B20]."""
    provider = Provider()
    base = body(user("Check."), system=RULES, diagnostics={"previous_message_id": None})
    first = send(provider, base).json
    assert first["diagnostics"] is None

    def reason(**change):
        asked = {**base, **change, "diagnostics": {"previous_message_id": first["id"]}}
        return send(provider, asked).json["diagnostics"]["cache_miss_reason"]

    assert reason() is None
    assert reason(messages=[user("Check."), assistant("Fine."), user("More.")]) is None
    assert reason(system="Other.")["type"] == "system_changed"
    assert reason(tools=[READ])["type"] == "tools_changed"
    assert reason(messages=[user("Other.")])["type"] == "messages_changed"
    assert reason(model="claude-y") == {"type": "model_changed", "cache_missed_input_tokens": total(base)}


def test_a_session_reads_what_it_wrote():
    """Forty turns with two tail marks: each reads all of the last, and writes only what is new [B31]."""
    provider = Provider(
        script=lambda ask: Reply(blocks=(Call("run", {"cmd": str(len(ask.body["messages"]))}),))
    )
    client = Client(provider, system=rules(cache_control=MARK))
    client.send("Go.")
    for turn in range(40):
        for message in client.messages:
            for block in message["content"] if isinstance(message["content"], list) else []:
                block.pop("cache_control", None)
        call_id = client.messages[-1]["content"][-1]["id"]
        client.send(user(result(call_id, f"output {turn} " * 40, cache_control=MARK)))
    log = provider.log[1:]
    assert all(
        later.read == earlier.read + earlier.written for earlier, later in zip(log, log[1:], strict=False)
    )
    assert all(exchange.usage.input_tokens == 0 for exchange in log)


def test_a_mark_on_a_web_tool_holds():
    """A mark on a web search tool caches all tools, though the web ones stand behind the others [B12]."""
    provider = Provider()
    tools = [{**READ, "description": RULES}, {**WEB, "cache_control": MARK}]
    first = send(provider, body(tools=tools)).exchange
    second = send(provider, body(user("Other."), tools=tools)).exchange
    assert first.written == second.read > 0


def test_facts_of_a_model_can_be_replaced():
    """Where sources disagree on a price or a minimum, a setting has the last word [B13 B14]."""
    cheap = msgspec.structs.replace(MODELS["claude-sonnet-5-5"], read=0.05)
    request = body(model="claude-sonnet-5-5-20260928", system=rules(cache_control=MARK))
    costs = []
    for settings in (Settings(), Settings(models=(cheap,))):
        provider = Provider(settings)
        send(provider, request)
        costs.append(send(provider, request).exchange)
    usual, own = costs
    assert usual.cost - own.cost == pytest.approx(usual.read * 0.05)
