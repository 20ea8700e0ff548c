"""What a prompt comes to, and what is made of it where the provider has counted before."""

import base64
import zlib
from typing import Any

import orjson
from msgspec import structs

from proxy.agents import Agents
from proxy.conversation import Conversation
from proxy.counting import (
    CALLS,
    EARLIER,
    IMAGES,
    KINDS,
    NOTHING,
    PATCHES,
    PIECES,
    REQUEST,
    RESULTS,
    TEXT,
    THINKING,
    TOOLS,
    Amounts,
    Counted,
    Rates,
    amounts_of,
    answer_to,
    counted,
)
from proxy.dialects.anthropic import Anthropic
from proxy.ledger import Ledger
from proxy.modelfacts import ModelFacts
from proxy.passage import enter
from proxy.stages import Facts
from proxy.usage import Usage

MODEL = ModelFacts(image_tokens=1568, image_long_edge=1568)
USER = {"role": "user", "content": "Check the pump, then the lamp."}
LOOK = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "pump.py"}}
SEEN = {"type": "tool_result", "tool_use_id": "t1", "content": "on = True\n" * 30}


def think(words: str, signature: str = "c2ln") -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": signature}


def png(width: int, height: int) -> dict[str, Any]:
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\0\0\0\0"
    raw = (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
        + header
        + zlib.crc32(b"IHDR" + header).to_bytes(4, "big")
        + bytes(90)
    )
    data = base64.b64encode(raw).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def read(*messages: dict[str, Any], **members: Any) -> tuple[Conversation, tuple[int, ...]]:
    body = orjson.dumps({"model": "m", "max_tokens": 9, **members, "messages": messages})
    facts = Facts(now=0.0, tenant=b"t", model=MODEL, upstream="anthropic", agent=Agents.load().generic)
    passage = enter(body, Anthropic(), Ledger(), facts)
    return passage.client, passage.counts


def come_to(*messages: dict[str, Any], **members: Any) -> Amounts:
    return amounts_of(read(*messages, **members)[0], MODEL)


def test_each_kind_of_content_is_counted_where_it_stands() -> None:
    """Text, calls, results and tools apart; a deferred tool is not in the prompt [A29]."""
    tool = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object"}}
    found = come_to(
        USER,
        {"role": "assistant", "content": [LOOK]},
        {"role": "user", "content": [SEEN]},
        tools=[tool, {**tool, "name": "late", "defer_loading": True}],
    )
    bare = come_to(USER)
    assert (found[TEXT], found[REQUEST], found[PIECES]) == (bare[TEXT], 1.0, 4.0)
    assert bare[CALLS] == bare[RESULTS] == bare[TOOLS] == 0.0
    assert min(found[CALLS], found[TOOLS]) > 3
    assert found[RESULTS] > 60


def test_images_are_patches_wherever_they_stand() -> None:
    """By their own size [A38], alone or in a result beside text that looks like a file."""
    strange = base64.b64encode(bytes(range(256)) * 2).decode()
    result = {**SEEN, "content": [{"type": "text", "text": strange}, png(560, 280)]}
    found = come_to(
        {"role": "user", "content": [png(280, 280), {"type": "text", "text": "Look."}]},
        {"role": "assistant", "content": [LOOK]},
        {"role": "user", "content": [result]},
    )
    assert (found[IMAGES], found[PATCHES]) == (2.0, 100.0 + 200.0)
    assert found[RESULTS] > 200


def test_a_flat_image_costs_the_same_whatever_its_size() -> None:
    flat = structs.replace(MODEL, image_tokens=258, image_flat=True)
    small, large = (
        read({"role": "user", "content": [png(28, 28)]})[0],
        read({"role": "user", "content": [png(900, 900)]})[0],
    )
    assert amounts_of(small, flat)[PATCHES] == amounts_of(large, flat)[PATCHES] == 258.0


def test_an_image_that_is_only_linked_is_taken_for_a_large_one() -> None:
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    assert come_to({"role": "user", "content": [linked]})[PATCHES] == MODEL.image_tokens


def test_thinking_is_told_apart_by_when_a_person_spoke_last() -> None:
    """Results alone do not end a turn [A47]."""
    answer = {"role": "assistant", "content": [think("The pump first. " * 20), LOOK]}
    during = come_to(USER, answer, {"role": "user", "content": [SEEN]})
    after = come_to(USER, answer, {"role": "user", "content": [SEEN, {"type": "text", "text": "Go on."}]})
    assert during[EARLIER] == after[THINKING] == 0.0
    assert during[THINKING] == after[EARLIER] > 50


def test_a_seal_alone_weighs_by_its_length() -> None:
    """Words may be left out of what is shown; then only the signature grows with them."""
    short, long = (
        come_to(USER, {"role": "assistant", "content": [think("", "c2ln" * size)]}, USER) for size in (9, 900)
    )
    assert short[EARLIER] < 5 < long[EARLIER]


def test_the_newest_answer_is_found_where_it_answers_the_last_request() -> None:
    """The request before had one keyed part; an answer to any other is none."""
    conversation, counts = read(
        USER, {"role": "assistant", "content": [think("Look."), LOOK]}, {"role": "user", "content": [SEEN]}
    )
    found = answer_to(conversation, counts, 1, MODEL)
    assert found[CALLS] > 0 < found[THINKING]
    assert answer_to(conversation, counts, 2, MODEL) == ()
    assert answer_to(*read(USER), 1, MODEL) == ()


def amounts(**kinds: float) -> Amounts:
    return tuple(kinds.get(kind, 0.0) for kind in KINDS)


RATES = Rates(amounts(text=1.0, results=1.0, thinking=1.0, earlier_thinking=1.0, request=50.0))


def test_a_later_prompt_is_counted_from_the_one_before() -> None:
    """What was billed stands, however wrong our rates: only what is new, or has left, is ours."""
    last = Counted(amounts(text=1000, request=1), Usage(prompt=4321))
    assert counted(amounts(text=1000, results=200, request=1), RATES, last) == 4521
    assert counted(amounts(text=400, request=1), RATES, last) == 3721
    assert counted(amounts(text=1000, request=1), RATES) == 1050


def test_without_a_count_nothing_is_counted_from() -> None:
    """A provider that says nothing, and amounts of another version."""
    for last in (
        Counted(amounts(text=9), Usage()),
        Counted((1.0,), Usage(prompt=5)),
        Counted((), Usage(prompt=5)),
    ):
        assert not last.known
        assert counted(amounts(text=100), RATES, last) == 100


def test_how_long_the_model_thought_is_what_was_billed_of_it() -> None:
    """By its own figure, or what the answer was billed above what is seen of it; a seal tells neither."""
    before, now = amounts(text=1000), amounts(text=1100, thinking=4)
    answer = amounts(text=100, thinking=4)
    for usage in (Usage(prompt=1000, output=900, reasoning=800), Usage(prompt=1000, output=900)):
        assert counted(now, RATES, Counted(before, usage, answer)) == 1900
    assert counted(now, RATES, Counted(before, Usage(prompt=1000), answer)) == 1104


def test_thinking_that_the_provider_leaves_out_is_not_counted() -> None:
    """The person spoke, and what was thought before is worth nothing there."""
    left_out = Rates(amounts(text=1.0, thinking=1.0))
    last = Counted(
        amounts(text=1000), Usage(prompt=1000, output=900, reasoning=800), amounts(text=100, thinking=4)
    )
    assert counted(amounts(text=1120, earlier_thinking=4), left_out, last) == 1120
    assert counted(NOTHING, left_out, None) == 0
