"""Usage objects of every provider, brought to one form; what is not said stays unknown."""

import pytest

from proxy.usage import (
    Usage,
    anthropic_restated,
    anthropic_usage,
    gemini_usage,
    openai_chat_usage,
    openai_responses_usage,
)

ANTHROPIC = {
    "the total is the sum of three": (
        {
            "input_tokens": 3,
            "cache_creation_input_tokens": 40,
            "cache_read_input_tokens": 60,
            "output_tokens": 9,
        },
        Usage(prompt=103, uncached=3, cached=60, written=40, output=9),
    ),
    "two lifetimes": (
        {
            "input_tokens": 3,
            "cache_creation_input_tokens": 40,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 10},
            "output_tokens": 9,
        },
        Usage(prompt=43, uncached=3, cached=0, written=40, written_1h=10, output=9),
    ),
    "a local server that does not report its cache": (
        {"input_tokens": 100, "output_tokens": 9},
        Usage(prompt=100, output=9),
    ),
    "no write count": (
        {"input_tokens": 40, "cache_read_input_tokens": 60, "output_tokens": 9},
        Usage(prompt=100, uncached=40, cached=60, output=9),
    ),
    "nulls": (
        {"input_tokens": 5, "cache_read_input_tokens": None, "cache_creation": None, "output_tokens": 1},
        Usage(prompt=5, output=1),
    ),
    "nothing": ({}, Usage()),
}


@pytest.mark.parametrize("case", ANTHROPIC)
def test_anthropic(case):
    """`input_tokens` is what was neither read nor written, where the other two are known."""
    given, expected = ANTHROPIC[case]
    assert anthropic_usage(given) == expected


CHAT = {
    "cached and written in the details": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            "completion_tokens_details": {"reasoning_tokens": 4},
        },
        {},
        Usage(prompt=100, uncached=10, cached=60, written=30, output=9, reasoning=4),
    ),
    "hit and miss counts": (
        {
            "prompt_tokens": 100,
            "prompt_cache_hit_tokens": 60,
            "prompt_cache_miss_tokens": 40,
            "completion_tokens": 9,
        },
        {},
        Usage(prompt=100, uncached=40, cached=60, output=9),
    ),
    "at the top level": (
        {"prompt_tokens": 100, "cached_tokens": 60, "completion_tokens": 9},
        {},
        Usage(prompt=100, uncached=40, cached=60, output=9),
    ),
    "timings of a local server, without usage": (
        {},
        {"cache_n": 60, "prompt_n": 40, "predicted_n": 9},
        Usage(prompt=100, uncached=40, cached=60, output=9),
    ),
    "timings beside usage": (
        {"prompt_tokens": 100, "completion_tokens": 9},
        {"cache_n": 60, "prompt_n": 40, "predicted_n": 9},
        Usage(prompt=100, uncached=40, cached=60, output=9),
    ),
    "a server told not to report its cache": (
        {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": None},
        {},
        Usage(prompt=100, output=9),
    ),
    "hit and miss counts alone": (
        {"prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40},
        {},
        Usage(prompt=100, uncached=40, cached=60),
    ),
    "timings that do not say what the slot held": (
        {},
        {"prompt_n": 40, "predicted_n": 9},
        Usage(output=9),
    ),
    "written, in the word of another vendor": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_creation_input_tokens": 90},
        },
        {},
        Usage(prompt=100, uncached=10, cached=0, written=90, output=9),
    ),
    "written for twelve hours": (
        {
            "prompt_tokens": 100,
            "prompt_tokens_details": {
                "cached_tokens": 60,
                "cache_write_tokens": 30,
                "cache_write_tokens_details": {"ttl_30m_tokens": 10, "ttl_12h_tokens": 20},
            },
        },
        {},
        Usage(prompt=100, uncached=10, cached=60, written=30, written_1h=20),
    ),
    "a count that cannot include its part": (
        {
            "prompt_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 60},
            "cache_creation_input_tokens": 40,
        },
        {},
        Usage(prompt=103, uncached=3, cached=60, written=40),
    ),
    "a total smaller than its parts together": (
        {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 50}},
        {},
        Usage(prompt=100, uncached=0, cached=60, written=50),
    ),
    "floats that are counts": (
        {"prompt_tokens": 100.0, "completion_tokens": 9.0},
        {},
        Usage(prompt=100, output=9),
    ),
    "what is no count": (
        {
            "prompt_tokens": "100",
            "completion_tokens": -1,
            "cached_tokens": True,
            "prompt_tokens_details": [60],
        },
        {},
        Usage(),
    ),
}


@pytest.mark.parametrize("case", CHAT)
def test_openai_chat(case):
    """The cached part has four places."""
    usage, timings, expected = CHAT[case]
    assert openai_chat_usage(usage, timings) == expected


def test_openai_responses():
    """`input_tokens` includes what was cached and written; the longer of two lifetimes is told apart."""
    given = {
        "input_tokens": 100,
        "input_tokens_details": {
            "cached_tokens": 60,
            "cache_write_tokens": 30,
            "cache_write_tokens_details": {"ttl_30m_tokens": 25, "ttl_12h_tokens": 5},
        },
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
    }
    assert openai_responses_usage(given) == Usage(
        prompt=100, uncached=10, cached=60, written=30, written_1h=5, output=9, reasoning=4
    )
    assert openai_responses_usage({"input_tokens": 7, "output_tokens": 1}) == Usage(prompt=7, output=1)


def test_gemini():
    """Absent keys are zero by rule, thoughts are output beside the candidates, and no prompt means no report."""
    given = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 9,
        "thoughtsTokenCount": 4,
    }
    assert gemini_usage(given) == Usage(prompt=100, uncached=40, cached=60, output=13, reasoning=4)
    assert gemini_usage({"promptTokenCount": 7}) == Usage(
        prompt=7, uncached=7, cached=0, output=0, reasoning=0
    )
    assert gemini_usage({"totalTokenCount": 7}) == Usage()
    assert gemini_usage({"promptTokenCount": 7, "toolUsePromptTokenCount": 5}) == Usage(
        prompt=12, uncached=12, cached=0, output=0, reasoning=0
    )


READ, WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"

RESTATED = {
    "the counts of the start stand where the end has zeros": (
        {"input_tokens": 3, READ: 60, WRITTEN: 40, "output_tokens": 1},
        {"input_tokens": 0, READ: 0, WRITTEN: 0, "output_tokens": 9},
        {"input_tokens": 3, READ: 60, WRITTEN: 40, "output_tokens": 9},
    ),
    "the whole prompt first, its split at the end": (
        {"input_tokens": 100, "output_tokens": 0},
        {"input_tokens": 40, READ: 60, "output_tokens": 9},
        {"input_tokens": 40, READ: 60, "output_tokens": 9},
    ),
    "all of it cached": (
        {"input_tokens": 100, READ: 0, WRITTEN: 0},
        {"input_tokens": 0, READ: 100, WRITTEN: 0},
        {"input_tokens": 0, READ: 100, WRITTEN: 0},
    ),
    "an estimate first": (
        {"input_tokens": 97},
        {"input_tokens": 0, READ: 60, WRITTEN: 40},
        {"input_tokens": 0, READ: 60, WRITTEN: 40},
    ),
    "a zero that was not told before": (
        {"input_tokens": 100},
        {"input_tokens": 100, READ: 0, "output_tokens": 9},
        {"input_tokens": 100, READ: 0, "output_tokens": 9},
    ),
    "all repeated": (
        {"input_tokens": 3, READ: 60, WRITTEN: 40},
        {"input_tokens": 3, READ: 60, WRITTEN: 40, "output_tokens": 9},
        {"input_tokens": 3, READ: 60, WRITTEN: 40, "output_tokens": 9},
    ),
    "grown by the provider's own tools": (
        {"input_tokens": 3, READ: 60, WRITTEN: 40},
        {"input_tokens": 30, READ: 160, WRITTEN: 0},
        {"input_tokens": 30, READ: 160, WRITTEN: 40},
    ),
    "the answer alone": (
        {"input_tokens": 3, READ: 60, WRITTEN: 40, "output_tokens": 1},
        {"output_tokens": 9, "input_tokens": None},
        {"input_tokens": 3, READ: 60, WRITTEN: 40, "output_tokens": 9},
    ),
    "a written part that the end leaves out": (
        {"input_tokens": 3, READ: 0, WRITTEN: 40},
        {"input_tokens": 13, READ: 30},
        {"input_tokens": 13, READ: 30},
    ),
}


@pytest.mark.parametrize("case", RESTATED)
def test_anthropic_streams_state_their_counts_twice(case):
    """The end of a stream may repeat the start, complete it, or be the first to know how the prompt splits."""
    first, later, expected = RESTATED[case]
    assert anthropic_restated(first, later) == expected


@pytest.mark.parametrize(
    ("usage", "ratio"),
    [
        (Usage(prompt=100, cached=60), 0.6),
        (Usage(prompt=100, cached=0), 0.0),
        (Usage(prompt=100), None),
        (Usage(cached=60), None),
        (Usage(prompt=0, cached=0), None),
        (Usage(prompt=100, cached=104), 1.0),
    ],
)
def test_the_hit_ratio_is_known_or_not(usage, ratio):
    """An unreported figure is no missed cache."""
    assert usage.hit_ratio == ratio


def test_the_short_lifetime_is_the_rest():
    """What is not at the long lifetime is at the short one; unknown stays unknown."""
    assert Usage(written=40, written_1h=10).written_5m == 30
    assert Usage(written=40).written_5m == 40
    assert Usage().written_5m is None
