"""What the embedded Responses API reads from its three kinds of cache, and how it reports it."""

import pytest

from hypothesis import given
from hypothesis import strategies as st

from proxy.simulator.responses.render import prompt

from .responses import TEXT, TOKENS, Json, Service, body, call, developer, output, says, text, tool, user

NEW, STEPPED, OLD = "gpt-5.6-sol", "gpt-5.5", "gpt-5.1"
HEAD = 3
"""Tokens of `<|user|>` and a line end."""


def pieces(sent: Json) -> list[bytes]:
    return [piece.text for piece in prompt(sent, sent["input"], {})]


def weight(sent: Json) -> int:
    return sum(piece.tokens for piece in prompt(sent, sent["input"], {}))


# -- the prompt ------------------------------------------------------------------------------------------


def test_spelling_is_no_part_of_the_prompt() -> None:
    """Nor are ids, marks and statuses; tools stand first, then the instructions, then the items."""
    one = body(user("u"), says("a"), call("c"), output("c", "o"), instructions="i", tools=[tool("t")])
    other = body(
        {"role": "user", "content": [text("u", {"mode": "explicit"})], "id": "msg_1"},
        says([{"type": "output_text", "text": "a", "annotations": []}], id="msg_2", status="completed"),
        call("c", id="fc_1", status="completed"),
        output("c", [text("o")], id="fco_1"),
        instructions="i",
        tools=[tool("t")],
    )
    assert pieces(one) == pieces(other)
    assert [piece[:10] for piece in pieces(one)][:3] == [b'<|tool|>{"', b"<|develope", b"<|user|>\n"]


def test_deferred_tools_are_not_in_the_prompt() -> None:
    """Until a search has found them [B106]."""
    tools = [tool("late", defer_loading=True), {"type": "tool_search"}]
    assert weight(body(user(), tools=tools)) == weight(body(user(), tools=tools[1:]))


def test_an_image_weighs_the_same_whatever_its_bytes() -> None:
    """And differs where they do."""

    def image(data: str) -> Json:
        return body(user([{"type": "input_image", "image_url": f"data:image/png;base64,{data}"}]))

    assert weight(image("A")) == weight(image("B" * 100_000)) < 800
    assert pieces(image("A")) != pieces(image("B"))


def test_boundaries_of_implicit_breakpoints() -> None:
    """Users, the last of a run of outputs, and the end of the developer's opening block [B101]."""
    items = [
        developer("d1"),
        developer("d2"),
        user("u"),
        call("a"),
        call("b"),
        output("a", "ra"),
        output("b", "rb"),
        developer("d3"),
        says("x"),
    ]

    def eligible(sent: Json) -> list[bytes]:
        return [piece.text for piece in prompt(sent, sent["input"], {}) if piece.eligible]

    assert eligible(body(*items)) == [b"d2", b"u", b"rb"]
    assert eligible(body(*items[2:], instructions="i")) == [b"<|developer|>\ni", b"u", b"rb"]
    assert eligible(body(*items, instructions="i")) == [b"d2", b"u", b"rb"]
    added = {"type": "additional_tools", "role": "developer", "tools": [tool("t")]}
    opening = [piece.opening for piece in prompt({}, [added, developer("d"), user("u")], {})]
    assert opening == [False, False, True, False, False]


def test_files_and_empty_words() -> None:
    """A file is its members, without marks; what says nothing weighs nothing."""
    file = {"type": "input_file", "file_id": "f"}
    marked = {**file, "prompt_cache_breakpoint": {"mode": "explicit"}}
    assert pieces(body(user([file]))) == pieces(body(user([marked])))
    assert (
        weight(body(user([file])))
        > weight(body(user([])))
        == weight(body(user("")))
        == weight(body(user([text("")])))
    )


# -- breakpoints -----------------------------------------------------------------------------------------


def test_an_appended_session_reads_all_it_has_sent() -> None:
    """From 5.6 on: exact boundaries; what is written costs 1.25, what is read 0.1 [B100 B107]."""
    service = Service()
    first = service.post(body(user(TEXT)))
    second = service.post(body(user(TEXT), says(), user()))
    assert (first.exchange.read, first.exchange.written) == (0, TOKENS + HEAD)
    assert second.exchange.read == TOKENS + HEAD
    total = second.exchange.total
    assert second.json["usage"] == {
        "input_tokens": total,
        "input_tokens_details": {
            "cached_tokens": TOKENS + HEAD,
            "cache_write_tokens": total - TOKENS - HEAD,
            "cache_write_tokens_details": {"ttl_30m_tokens": total - TOKENS - HEAD, "ttl_12h_tokens": 0},
        },
        "output_tokens": second.exchange.usage.output_tokens,
        "output_tokens_details": {
            "reasoning_tokens": second.json["usage"]["output_tokens_details"]["reasoning_tokens"]
        },
        "total_tokens": total + second.exchange.usage.output_tokens,
    }
    assert first.exchange.cost == pytest.approx(1.25 * (TOKENS + HEAD))
    assert second.exchange.cost == pytest.approx(0.1 * (TOKENS + HEAD) + 1.25 * (total - TOKENS - HEAD))


def test_the_last_message_must_not_grow() -> None:
    """Its entry ended where it ended [B105]; so does one in front of which something changed."""
    service = Service()
    service.read(body(user(TEXT)))
    assert service.read(body(user(TEXT + "more"))) == 0
    assert service.read(body(developer("d"), user(TEXT), user())) == 0


def test_parts_can_be_marked() -> None:
    """In contents of users and in outputs; the part behind may change [B104 B105]."""
    service = Service()
    mark = {"mode": "explicit"}

    def sent(tail: str) -> Json:
        options = {"prompt_cache_options": {"mode": "explicit"}}
        return body(user(), call("c"), output("c", [text(TEXT, mark), text(tail)]), **options)

    assert service.post(sent("one")).exchange.written == service.read(sent("two")) > TOKENS
    assert (
        service.read(
            body(
                user(),
                call("c"),
                output("c", [text(TEXT), text("one")]),
                prompt_cache_options={"mode": "explicit"},
            )
        )
        == 0
    )


@pytest.mark.parametrize(
    "other",
    [
        {"prompt_cache_key": "b"},
        {"parallel_tool_calls": False},
        {"reasoning": {"effort": "high"}},
        {"text": {"verbosity": "high"}},
        {"text": {"format": {"type": "json_object"}}},
        {"service_tier": "flex"},
        {"tools": [tool("t")]},
        {"model": "gpt-6-sol"},
        {"context_management": [{"type": "compaction", "compact_threshold": 100_000}]},
    ],
    ids=str,
)
def test_what_keeps_caches_apart(other: Json) -> None:
    """[B106]."""
    service = Service()
    service.read(body(user(TEXT)))
    assert service.read({**body(user(TEXT)), **other}) == 0


@pytest.mark.parametrize(
    "other",
    [
        {"tool_choice": "none"},
        {"client_metadata": {"a": "b"}},
        {"max_output_tokens": 99},
        {"metadata": {}},
        {"store": False},
        {"stream": True},
    ],
    ids=str,
)
def test_what_does_not(other: Json) -> None:
    """[B106]."""
    service = Service()
    service.read(body(user(TEXT)))
    assert service.read({**body(user(TEXT)), **other}) == TOKENS + HEAD


def test_accounts_share_nothing() -> None:
    """One for each key."""
    service = Service()
    service.read(body(user(TEXT)), "one")
    assert service.read(body(user(TEXT)), "other") == 0


def test_lifetimes() -> None:
    """Half an hour from the last use, or half a day at twice the price of a write [B100 B104]."""
    service = Service()
    options = {"prompt_cache_options": {"ttl": "12h"}}
    first = service.post(body(user(TEXT), **options))
    assert first.exchange.cost == pytest.approx(2.5 * (TOKENS + HEAD))
    assert (
        first.json["usage"]["input_tokens_details"]["cache_write_tokens_details"]["ttl_12h_tokens"]
        == TOKENS + HEAD
    )
    service.read(body(user(TEXT)))
    for now, short, long in (
        (1700.0, True, True),
        (3400.0, True, True),
        (5300.0, False, True),
        (49_000.0, False, False),
    ):
        service.now = now
        assert (service.read(body(user(TEXT), **options)) > 0) is long
        if now < 5000:
            assert service.read(body(user(TEXT))) > 0
        elif not short and now < 6000:
            assert service.read(body(user(TEXT))) == 0


def test_newer_models_read_at_half_the_price() -> None:
    """GPT-6.1 Sol and Terra [B100]."""
    service = Service()
    service.read(body(user(TEXT), model="gpt-6.1-sol"))
    assert service.post(body(user(TEXT), model="gpt-6.1-sol")).exchange.cost == pytest.approx(
        0.05 * (TOKENS + HEAD)
    )


# -- older models ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "step"), [(OLD, 128), (STEPPED, 2048)])
def test_older_models_read_in_steps(model: str, step: int) -> None:
    """Whatever two prompts share, rounded down; nothing below the least prompt, and nothing for writing [B100 B109]."""
    service = Service()
    first = service.post(body(user(TEXT * 2), model=model))
    grown = service.post(body(user(TEXT * 2 + "more"), model=model))
    shared = 2 * TOKENS + HEAD
    assert first.exchange.cost == first.exchange.total == shared
    assert grown.exchange.read == shared // step * step
    assert grown.json["usage"]["input_tokens_details"] == {"cached_tokens": grown.exchange.read}
    assert service.read(body(user(TEXT[:3000]), model=model)) == 0


def test_older_models_keep_prompts_as_long_as_asked() -> None:
    """Ten minutes, or a day [B100]."""
    service = Service()
    short, long = body(user(TEXT), model=OLD), body(user(TEXT), model=OLD, prompt_cache_retention="24h")
    assert (service.read(short), service.read(long)) == (0, 0)
    service.now = 700.0
    assert (service.read(short), service.read(long) > 0) == (0, True)


def test_a_key_is_only_a_hint_on_older_models() -> None:
    """There all machines are one [B100 B110]."""
    service = Service()
    service.read(body(user(TEXT), model=OLD, prompt_cache_key="a"))
    assert service.read(body(user(TEXT), model=OLD, prompt_cache_key="b")) > 0
    assert service.read(body(user(TEXT), model=OLD, reasoning={"effort": "high"})) == 0


@given(st.lists(st.sampled_from(["u", "c", "d", "s"]), min_size=1, max_size=12), st.data())
def test_appending_never_loses(kinds: list[str], data: st.DataObject) -> None:
    """Whatever is appended in whatever portions, each request reads at least what the one before had read and written."""
    items: list[Json] = [user(TEXT)]
    for at, kind in enumerate(kinds):
        match kind:
            case "u":
                items.append(user(f"u{at}"))
            case "c":
                items += [call(f"c{at}"), output(f"c{at}", "r" * at)]
            case "d":
                items.append(developer("d"))
            case _:
                items.append(says("s"))
    model = data.draw(st.sampled_from([NEW, OLD]))
    service = Service()
    held, end = 0, 1
    while end <= len(items):
        if items[end - 1]["type"] != "function_call":
            exchange = service.post(body(*items[:end], model=model, store=False)).exchange
            assert exchange.status == 200
            assert exchange.read >= held
            held = exchange.read + exchange.written
        end += data.draw(st.integers(1, 3))


# -- diagnosis -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({}, {"type": "cache_hit"}),
        ({"reasoning": {"effort": "high"}}, "reasoning_effort_changed"),
        ({"tools": [tool("t")]}, "tools_changed"),
        ({"prompt_cache_key": "x"}, "prompt_cache_key_changed"),
        ({"text": {"verbosity": "low"}}, "verbosity_changed"),
        ({"text": {"format": {"type": "json_object"}}}, "text_format_changed"),
        ({"model": "gpt-6-sol"}, "model_changed"),
        ({"service_tier": "flex"}, "service_tier_changed"),
        ({"instructions": "i"}, "input_changed"),
    ],
    ids=str,
)
def test_a_miss_is_explained(other: Json, expected: Json | str) -> None:
    """Against the response that is named [B108]."""
    service = Service()
    first = service.taken(body(user(TEXT)))
    options = {"prompt_cache_options": {"comparison_response_id": first["id"]}}
    answer = service.taken({**body(user(TEXT), says(), user(), **options), **other})
    found = answer["prompt_cache_diagnostics"]
    if isinstance(expected, str):
        assert (found["type"], found["reason"]) == ("cache_miss", expected)
        assert found["cache_missed_tokens"] == answer["usage"]["input_tokens"]
    else:
        assert found == expected


def test_a_comparison_that_is_not_there() -> None:
    """[B108]; and none where none was asked for."""
    answer = Service().taken(body(user(), prompt_cache_options={"comparison_response_id": "resp_x"}))
    assert answer["prompt_cache_diagnostics"] == {"type": "comparison_response_not_found"}
    assert "prompt_cache_diagnostics" not in Service().taken(body(user()))
