"""What the embedded chat services read from their caches, token by token, and how they report it."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from proxy.simulator import Reply, Say
from proxy.simulator.chat import (
    BLOCKS,
    DEEPSEEK,
    KIMI,
    LLAMA,
    OPENAI,
    VLLM,
    Flavour,
    prompt,
)
from proxy.simulator.chat.cache import common_bytes

from .chat import TEXT, TOKENS, Json, Service, body, calls, says, system, tool, tools, user

HEAD = 3
"""Tokens of `<|user|>` and a line end."""
NEW = "gpt-5.6"


def weighed(sent: Json, flavour: Flavour) -> int:
    return sum(piece.tokens for piece in prompt(sent, flavour))


def marked(text: str, ttl: str | None = None) -> list[Json]:
    mark = {"mode": "explicit"} if ttl is None else {"mode": "explicit", "ttl": ttl}
    return [{"type": "text", "text": text, "prompt_cache_breakpoint": mark}]


# -- the prompt ------------------------------------------------------------------------------------------


def test_spelling_is_no_part_of_the_prompt() -> None:
    """A string and a list of one text are one prompt, marks are none of it; tools stand first."""
    one = body(system("s"), user("u"), tools=tools("a"))
    other = body(
        system([{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]),
        user([{"type": "text", "text": "u"}]),
        tools=tools("a"),
    )
    chains = [[piece.chain for piece in prompt(sent, OPENAI)] for sent in (one, other)]
    assert chains[0] == chains[1]
    assert [piece.text[:8] for piece in prompt(one, OPENAI)][:2] == [b"<|tool|>", b"<|system"]


def test_reasoning_stands_in_the_prompt_where_the_service_renders_it() -> None:
    """OpenAI's chat has none, DeepSeek all of it, templates that of the last turn alone [A108 A400 B530]."""
    sent = body(user(), says("a", reasoning_content="one"), user(), says("b", reasoning_content="two"))

    def shown(flavour: Flavour) -> list[bytes]:
        return [piece.text for piece in prompt(sent, flavour) if piece.text.startswith(b"<think>")]

    assert shown(OPENAI) == []
    assert shown(DEEPSEEK) == [b"<think>one</think>", b"<think>two</think>"]
    assert shown(LLAMA) == [b"<think>two</think>"]


def test_boundaries_of_implicit_breakpoints() -> None:
    """Users, the last of a run of results, and the end of the leading developer block [B101]."""
    developer = {"role": "developer", "content": "d"}
    sent = body(
        system("s"),
        developer,
        user("u"),
        calls("a", "b"),
        tool("a", "ra"),
        tool("b", "rb"),
        developer,
        says("x"),
    )
    assert [piece.text for piece in prompt(sent, OPENAI) if piece.eligible] == [b"d", b"u", b"rb"]


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_common_bytes(one: bytes, other: bytes) -> None:
    """The longest common prefix."""
    shared = common_bytes(one, other)
    assert one[:shared] == other[:shared]
    assert one[shared : shared + 1] != other[shared : shared + 1] or shared == len(one) == len(other)


# -- the longest common prefix, in blocks ------------------------------------------------------------------


def test_classic_openai_reads_whole_blocks_of_128_from_1024_on() -> None:
    """Rounded down, nothing below the minimum, and no write price [B109]."""
    service = Service(OPENAI)
    sent = body(user(TEXT), model="gpt-4.1")
    longer = body(user(TEXT), says("x"), user("more"), model="gpt-4.1")
    assert service.read(sent) == 0
    assert service.read(longer) == (HEAD + TOKENS) // 128 * 128
    assert service.read(body(user(TEXT[:4000]), model="gpt-4.1")) == 0
    assert service.read(body(user(TEXT[:8000] + "!" * 9000), model="gpt-4.1")) == (HEAD + 2000) // 128 * 128
    last = service.provider.log[-1]
    assert (last.written, last.cost) == (0, last.total - last.read * 0.9)


def test_answers_are_not_in_openais_cache() -> None:
    """What the model said is read only after it was sent."""
    service = Service(OPENAI)
    sent = body(user(TEXT), model="gpt-4.1")
    said = service.post(sent).json["choices"][0]["message"]
    once = weighed(sent, OPENAI)
    longer = body(user(TEXT), {"role": "assistant", "content": said["content"]}, user(TEXT), model="gpt-4.1")
    assert service.read(longer) == once // 128 * 128
    assert service.read(longer) == weighed(longer, OPENAI) // 128 * 128


def test_a_changed_byte_loses_everything_behind_it() -> None:
    """To the token: what stands before it is still read."""
    service = Service(KIMI)
    service.post(body(user(TEXT), model="kimi-k3"))
    changed = TEXT[:4001] + "X" + TEXT[4002:]
    assert service.read(body(user(changed), model="kimi-k3")) == HEAD + 1000


def test_accounts_and_models_are_kept_apart_and_time_passes() -> None:
    """And an entry that is used lives on."""
    service = Service(OPENAI)
    sent = body(user(TEXT), model="gpt-4.1")
    service.post(sent)
    assert service.read(sent, key="other") == 0
    assert service.read({**sent, "model": "gpt-4o"}) == 0
    for _ in range(3):
        service.now += 500
        assert service.read(sent) > 0
    service.now += 601
    assert service.read(sent) == 0


def test_vllm_reads_full_blocks_of_16_and_computes_at_least_one_token() -> None:
    """At most floor((n - 1) / 16) * 16; the answer is cached too [B500]."""
    service = Service(VLLM)
    for size in (16 - HEAD, 17 - HEAD, 33 - HEAD):
        sent = body(user(f"{size:04d}" * size), model="qwen")
        total = weighed(sent, VLLM)
        assert service.read(sent) == 0
        assert service.read(sent) == (total - 1) // 16 * 16
    service = Service(VLLM, script=lambda ask: Reply(blocks=(Say(TEXT),)))
    service.post(sent)
    longer = body(*sent["messages"], says(TEXT), user("more"), model="qwen")
    assert service.read(longer) == weighed(body(*sent["messages"], says(TEXT)), VLLM) // 16 * 16
    assert service.read({**longer, "cache_salt": "x"}) == 0


def test_vllm_says_what_was_cached_only_where_it_is_told_to() -> None:
    """The key is missing, not zero [B501]."""
    sent = body(user(TEXT), model="qwen")
    quiet, open_ = Service(VLLM), Service(structs.replace(VLLM, reporting="details"))
    assert "prompt_tokens_details" not in quiet.post(sent).json["usage"]
    open_.post(sent)
    assert (
        open_.post(sent).json["usage"]["prompt_tokens_details"]["cached_tokens"]
        == (HEAD + TOKENS - 1) // 16 * 16
    )
    assert BLOCKS.read == 0


# -- slots -------------------------------------------------------------------------------------------------


def test_a_slot_holds_one_prompt() -> None:
    """The slot that shares most is taken; with one slot, two conversations throw each other out [B520]."""
    one, two = body(user(TEXT)), body(user(TEXT[::-1]))
    few = Service(structs.replace(LLAMA, caching=structs.replace(LLAMA.caching, slots=1)))
    assert [few.read(sent) for sent in (one, two, one, one)] == [0, 0, 0, HEAD + TOKENS - 1]
    more = Service(LLAMA)
    assert [more.read(sent) for sent in (one, two, one, two)] == [0, 0, HEAD + TOKENS - 1, HEAD + TOKENS - 1]


def test_a_slot_is_continued_to_the_token() -> None:
    """Answers included; timings say what was read and what was computed [B521]."""
    service = Service(LLAMA)
    said = service.post(body(user(TEXT))).json["choices"][0]["message"]["content"]
    longer = body(user(TEXT), says(said), user("more"))
    answer = service.post(longer).json
    total, read = weighed(longer, LLAMA), weighed(body(user(TEXT), says(said)), LLAMA)
    assert answer["timings"] == {
        "cache_n": read,
        "prompt_n": total - read,
        "predicted_n": answer["usage"]["completion_tokens"],
    }
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": read}


# -- units -------------------------------------------------------------------------------------------------


def test_deepseek_reads_whole_units_only() -> None:
    """A + B, then A + C misses; the prefix they shared is a unit from then on, and A + D hits it [B400]."""
    service = Service(DEEPSEEK)
    reads = [
        service.read(body(user(TEXT + tail * 400), model="deepseek-v4")) for tail in ("B", "C", "D", "D")
    ]
    assert reads == [0, 0, HEAD + TOKENS, HEAD + TOKENS + 100]


def test_deepseek_continues_behind_its_own_answer() -> None:
    """The end of a prompt and the end of its answer are units; a volatile tail costs all back to the last one."""
    service = Service(DEEPSEEK)
    sent = body(user(TEXT), model="deepseek-v4")
    message = service.post(sent).json["choices"][0]["message"]
    longer = body(user(TEXT), message, user("more"), model="deepseek-v4")
    assert service.read(longer) == weighed(body(user(TEXT), message), DEEPSEEK)
    without = {name: value for name, value in message.items() if name != "reasoning_content"}
    assert service.read(body(user(TEXT), without, user("more"), model="deepseek-v4")) == HEAD + TOKENS


def test_deepseek_units_at_intervals() -> None:
    """Where the service writes some, a changed tail costs no more than an interval."""
    flavour = structs.replace(DEEPSEEK, caching=structs.replace(DEEPSEEK.caching, interval=512))
    service = Service(flavour)
    service.post(body(user(TEXT), model="deepseek-v4"))
    assert (
        service.read(body(user(TEXT[:-8] + "changed!"), model="deepseek-v4"))
        == (HEAD + TOKENS - 2) // 512 * 512
    )


# -- breakpoints -------------------------------------------------------------------------------------------


def test_new_openai_reads_at_message_ends() -> None:
    """To the token, where an entry was written; writing costs 1.25 [B100 B102 B103]."""
    service = Service(OPENAI)
    first = body(user(TEXT), model=NEW)
    longer = body(user(TEXT), says("x"), user("more"), model=NEW)
    total = weighed(first, OPENAI)
    service.post(first)
    assert (service.provider.log[-1].written, service.provider.log[-1].cost) == (total, total * 1.25)
    answer = service.post(longer).json
    whole = weighed(longer, OPENAI)
    assert answer["usage"]["prompt_tokens_details"] == {
        "cached_tokens": total,
        "audio_tokens": 0,
        "cache_write_tokens": whole - total,
    }


def test_extending_the_last_message_in_place_loses_it() -> None:
    """An entry stands at the end of a message, and that end is gone [B105]."""
    service = Service(OPENAI)
    service.post(body(user(TEXT), model=NEW))
    assert service.read(body(user(TEXT + "!"), model=NEW)) == 0
    assert service.read(body(user(TEXT), user("!"), model=NEW)) == HEAD + TOKENS


def test_explicit_breakpoints() -> None:
    """Found by a request that marks the same end; in explicit mode without marks nothing is cached at all [B103]."""
    service = Service(OPENAI)
    explicit: Json = {"model": NEW, "prompt_cache_options": {"mode": "explicit"}}

    def read(content: Any, *more: Json, **members: Any) -> int:
        return service.read(body(user(content), *more, **{**explicit, **members}))

    assert read(TEXT) == 0
    assert service.provider.log[-1].written == 0
    assert read(marked(TEXT)) == 0
    assert read(marked(TEXT), user("more")) == HEAD + TOKENS
    assert read(TEXT, user("more")) == 0
    assert read(marked(TEXT), prompt_cache_options={"mode": "implicit"}) == 0


def test_lifetime_of_breakpoints() -> None:
    """Half an hour from the last use, or the half day asked for [B100 B104]."""
    service = Service(OPENAI)
    short, long = body(user(marked(TEXT)), model=NEW), body(user(marked(TEXT[::-1], "12h")), model=NEW)
    for sent in (short, long):
        service.post(sent)
    service.now = 1700
    assert service.read(short) > 0
    service.now = 3400
    assert service.read(short) > 0
    service.now = 6000
    assert (service.read(short), service.read(long)) == (0, HEAD + TOKENS)


def test_what_keeps_caches_apart() -> None:
    """A key of its own, another effort [B106]."""
    service = Service(OPENAI)
    sent = body(user(TEXT), model=NEW)
    service.post(sent)
    assert service.read({**sent, "prompt_cache_key": "x"}) == 0
    assert service.read({**sent, "reasoning_effort": "low"}) == 0
    assert service.read(sent) > 0


def test_only_the_latest_marks_are_written() -> None:
    """Three beside the implicit one; the rest is ignored without a word [B103]."""
    service = Service(OPENAI)
    turns = [user(marked(TEXT[at:])) for at in range(5)]
    service.post(body(*turns, model=NEW))
    ends = [weighed(body(*turns[: at + 1], model=NEW), OPENAI) for at in range(5)]
    reads = [service.read(body(*turns[: at + 1], user("x"), model=NEW)) for at in (1, 2, 4)]
    assert reads == [0, ends[2], ends[4]]


# -- reports -----------------------------------------------------------------------------------------------


def test_each_service_reports_in_its_own_fields() -> None:
    """[B107 B401 B410]."""
    reports = {}
    for flavour in (OPENAI, DEEPSEEK, KIMI):
        service = Service(flavour)
        sent = body(user(TEXT), model="m")
        service.post(sent)
        reports[flavour.name] = service.post(sent).json["usage"]
    total, classic = HEAD + TOKENS, (HEAD + TOKENS) // 128 * 128
    for usage in reports.values():
        assert usage["prompt_tokens"] == total
        assert usage["total_tokens"] == total + usage["completion_tokens"]
    assert reports["openai"]["prompt_tokens_details"] == {"cached_tokens": classic, "audio_tokens": 0}
    assert (
        reports["deepseek"]["prompt_cache_hit_tokens"],
        reports["deepseek"]["prompt_cache_miss_tokens"],
    ) == (total, 0)
    assert reports["kimi"]["cached_tokens"] == total - 1


def test_a_refused_request_leaves_nothing() -> None:
    """Only an answer does, and only when it begins."""
    service = Service(KIMI)
    service.post(body(user(TEXT), says(""), model="m"))
    assert service.read(body(user(TEXT), model="m")) == 0
    fresh = Service(KIMI)
    answer = fresh.provider.prepare([], json.dumps(body(user(TEXT), model="m")).encode(), 0.0)
    assert (
        fresh.provider.prepare([], json.dumps(body(user(TEXT), model="m")).encode(), 0.0).exchange.read == 0
    )
    fresh.provider.begin(answer)
    assert fresh.provider.prepare([], json.dumps(body(user(TEXT), model="m")).encode(), 0.0).exchange.read > 0
