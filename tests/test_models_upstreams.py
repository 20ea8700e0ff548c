"""What the shipped table says of each upstream: what it may be given, what it demands, how its cache matches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy.gateway.routes import FAMILY
from proxy.models import FormatFacts, Formats, ModelFacts, Models


@pytest.fixture(scope="module")
def models() -> Models:
    return Models.load()


NAMES = (
    "claude-opus-5-5", "claude-sonnet-4-5", "claude-new", "gpt-6-sol", "gpt-5", "gemini-3-pro", "deepseek-v4-pro",
    "kimi-k3", "glm-5.3", "mistral-large-3", "qwen3:8b", "",
)  # fmt: skip
"""One of each family, and others."""
DIALECTS = ("", *FAMILY)


def added(facts: ModelFacts) -> tuple[bool, str, bool, bool]:
    """All that may be put into a request beside its messages."""
    return (facts.marks, facts.breakpoints, facts.prompt_cache_key, facts.include_usage)


def test_no_model_brings_a_field_into_a_request_to_an_unknown_upstream(
    models: Models, tmp_path: Path
) -> None:
    """Nor to a profile of the user's own that is like no other."""
    mine = tmp_path / "mine.yaml"
    mine.write_text("upstreams:\n  house: {window: 9000}\n  loud: {like: unknown, include_usage: true}\n")
    own = Models.load(mine)
    asked = [(model, dialect) for model in NAMES for dialect in DIALECTS]
    nothing = {(False, "none", False, False)}
    assert {added(models.facts("unknown", *one)) for one in asked} == nothing
    assert {added(models.facts("no-such-profile", *one)) for one in asked} == nothing
    assert {added(own.facts("house", *one)) for one in asked} == nothing
    assert {added(own.facts("loud", *one)) for one in asked} == {(False, "none", False, True)}
    assert {(own.facts("house", *one).ttl_s, own.facts("house", *one).window) for one in asked} == {
        (None, 9000)
    }


def test_who_may_be_given_what(models: Models) -> None:
    """Marks where they are understood [B3 B104 B440], keys and usage where the field is known [B110 B411 B431 A431]."""
    table = {
        (profile, model, dialect): added(models.facts(profile, model, dialect))
        for profile, model, dialect in [
            ("anthropic", "claude-opus-5-5", "anthropic"),
            ("anthropic", "claude-opus-5-5", "openai_chat"),
            ("vertex", "claude-opus-5-5", "anthropic"),
            ("vertex", "gemini-3-pro", "openai_chat"),
            ("bedrock-compatible", "us.anthropic.claude-opus-4-5-20251101-v1:0", "anthropic"),
            ("openrouter", "anthropic/claude-opus-5.5", "openai_chat"),
            ("openai", "gpt-6-sol", "openai_chat"),
            ("openai", "gpt-5", "openai_responses"),
            ("azure", "gpt-6-sol", "openai_chat"),
            ("chatgpt-codex", "gpt-6-sol", "openai_responses"),
            ("gemini", "gemini-3-pro", "gemini"),
            ("deepseek", "deepseek-v4-pro", "openai_chat"),
            ("moonshot", "kimi-k3", "openai_chat"),
            ("glm", "glm-5.3", "openai_chat"),
            ("mistral", "mistral-large-3", "openai_chat"),
            ("llama.cpp", "claude-opus-5-5", "anthropic"),
            ("vllm", "gpt-6-sol", "openai_chat"),
        ]
    }
    assert table == {
        ("anthropic", "claude-opus-5-5", "anthropic"): (True, "anthropic", False, False),
        ("anthropic", "claude-opus-5-5", "openai_chat"): (False, "none", False, True),
        ("vertex", "claude-opus-5-5", "anthropic"): (True, "anthropic", False, False),
        ("vertex", "gemini-3-pro", "openai_chat"): (False, "none", False, False),
        ("bedrock-compatible", "us.anthropic.claude-opus-4-5-20251101-v1:0", "anthropic"):
            (True, "anthropic", False, False),
        ("openrouter", "anthropic/claude-opus-5.5", "openai_chat"): (True, "anthropic", False, False),
        ("openai", "gpt-6-sol", "openai_chat"): (True, "openai", True, True),
        ("openai", "gpt-5", "openai_responses"): (False, "none", True, True),
        ("azure", "gpt-6-sol", "openai_chat"): (False, "none", True, True),
        ("chatgpt-codex", "gpt-6-sol", "openai_responses"): (False, "none", True, False),
        ("gemini", "gemini-3-pro", "gemini"): (False, "none", False, False),
        ("deepseek", "deepseek-v4-pro", "openai_chat"): (False, "none", False, True),
        ("moonshot", "kimi-k3", "openai_chat"): (False, "none", True, True),
        ("glm", "glm-5.3", "openai_chat"): (False, "none", False, False),
        ("mistral", "mistral-large-3", "openai_chat"): (False, "none", True, False),
        ("llama.cpp", "claude-opus-5-5", "anthropic"): (False, "none", False, False),
        ("vllm", "gpt-6-sol", "openai_chat"): (False, "none", False, True),
    }  # fmt: skip


def test_whoever_may_be_marked_has_a_spelling_for_marks(models: Models) -> None:
    """In every profile, for every model, in every format."""
    silent = [
        (profile, model, dialect)
        for profile in models.profiles
        for model in NAMES
        for dialect in DIALECTS
        if (facts := models.facts(profile, model, dialect)).marks and facts.breakpoints == "none"
    ]
    assert silent == []


STRUCTURE = (
    "mid_system", "fold_system", "single_system", "merge_same_role", "opens_with_user", "needs_user",
    "user_after_results", "blank_text", "result_images", "reasoning", "reasoning_turns",
)  # fmt: skip


def demands(facts: ModelFacts) -> dict[str, object]:
    """What the upstream demands of a conversation's structure beyond its format."""
    usual = ModelFacts()
    return {name: value for name in STRUCTURE if (value := getattr(facts, name)) != getattr(usual, name)}


LOCAL = {"mid_system": False, "fold_system": True, "reasoning": "free"}
TEMPLATED = {**LOCAL, "single_system": True, "merge_same_role": True, "opens_with_user": True}


@pytest.mark.parametrize(
    ("profile", "model", "dialect", "demanded"),
    [
        ("unknown", "house-model", "openai_chat", {}),
        ("openrouter", "house-model", "openai_chat", {}),
        ("openai", "gpt-5", "openai_chat", {"mid_system": True, "result_images": False, "reasoning": "free"}),
        ("openai", "gpt-5", "openai_responses", {"mid_system": True, "reasoning": "free"}),
        ("deepseek", "deepseek-v4-pro", "openai_chat", {"result_images": False, "reasoning": "required"}),
        (
            "moonshot", "kimi-k3", "openai_chat",
            {"blank_text": False, "reasoning": "required", "reasoning_turns": "calls"},
        ),
        (
            "glm", "glm-5.3", "openai_chat",
            {
                "single_system": True, "merge_same_role": True, "opens_with_user": True, "needs_user": True,
                "blank_text": False, "reasoning": "free",
            },
        ),
        (
            "mistral", "mistral-large-3", "openai_chat",
            {"merge_same_role": True, "user_after_results": False, "result_images": False, "reasoning": "free"},
        ),
        ("vllm", "qwen3", "openai_chat", LOCAL),
        (
            "vllm", "mistralai/Devstral-Small-2-24B-Instruct-2512", "openai_chat",
            {**LOCAL, "merge_same_role": True, "user_after_results": False},
        ),
        ("sglang", "qwen3", "anthropic", LOCAL),
        ("llama.cpp", "qwen3", "anthropic", TEMPLATED),
        ("ollama", "mistral:7b", "openai_chat", {**TEMPLATED, "user_after_results": False}),
        ("lm-studio", "qwen3", "openai_chat", TEMPLATED),
    ],
)  # fmt: skip
def test_what_an_upstream_demands_beyond_its_format(
    models: Models, profile: str, model: str, dialect: str, demanded: dict[str, object]
) -> None:
    """A100 A105 A400 A410 A420 A430 A502 A521"""
    assert demands(models.facts(profile, model, dialect)) == demanded


@pytest.mark.parametrize(
    ("model", "knows"),
    [
        ("claude-opus-5-5", True), ("claude-opus-4-8", True), ("claude-fable-5", True), ("claude-haiku-5-5", True),
        ("claude-opus-4-7", False), ("claude-sonnet-4-6", False), ("claude-haiku-4-5", False),
        ("claude-3-7-sonnet-20250219", False), ("claude-sonnet-5", None), ("claude-mythos-preview", None),
        ("claude-opus-7", None), ("house-model", None),
    ],
)  # fmt: skip
def test_which_models_know_a_system_message_among_the_turns(
    models: Models, model: str, knows: bool | None
) -> None:
    """A60: up to 4.7 it is refused; where nobody knows, nothing is said."""
    assert models.facts("anthropic", model).mid_system is knows
    assert models.facts("unknown", model).mid_system is knows


def test_how_caches_match(models: Models) -> None:
    """B100 B300 B400 B431 B500 B510 B520: regime, block, minimum, whole units, slots, lifetime, report."""
    table = {
        profile: (
            facts.regime, facts.block, facts.minimum, facts.whole_units, facts.slots, facts.ttl_s, facts.reports_cache,
        )
        for profile, model in [
            ("anthropic", "claude-opus-5-5"), ("openai", "gpt-6-sol"), ("chatgpt-codex", "gpt-5"),
            ("gemini", "gemini-3-pro"), ("deepseek", "deepseek-v4-pro"), ("moonshot", "kimi-k3"), ("glm", "glm-5.3"),
            ("mistral", "devstral-2"), ("vllm", "qwen3"), ("sglang", "qwen3"), ("llama.cpp", "qwen3"),
            ("ollama", "qwen3"), ("unknown", "house-model"),
        ]
        for facts in [models.facts(profile, model)]
    }  # fmt: skip
    assert table == {
        "anthropic": ("breakpoints", 1, 512, False, False, 300, "always"),
        "openai": ("automatic", 1, 1024, False, False, 1800, "always"),
        "chatgpt-codex": ("prefix", 128, 1024, False, False, 3600, "always"),
        "gemini": ("prefix", 1, 4096, False, False, None, "always"),
        "deepseek": ("automatic", 64, 64, True, False, None, "always"),
        "moonshot": ("prefix", 1, 1024, False, False, None, "always"),
        "glm": ("prefix", 1, 1024, False, False, None, "always"),
        "mistral": ("prefix", 64, 64, False, False, None, "always"),
        "vllm": ("prefix", 16, 16, False, False, None, "optional"),
        "sglang": ("prefix", 1, 1, False, False, None, "optional"),
        "llama.cpp": ("prefix", 1, 1, False, True, None, "always"),
        "ollama": ("prefix", 1, 1, False, True, None, "never"),
        "unknown": ("prefix", 1, 1024, False, False, None, "optional"),
    }


def test_a_format_has_facts_of_its_own(models: Models, tmp_path: Path) -> None:
    """They count more than the service's, in the same file; a user's file counts more than both."""
    reports = [models.facts("vllm", "qwen3", dialect).reports_cache for dialect in DIALECTS]
    assert dict(zip(DIALECTS, reports, strict=True)) == {
        "": "optional", "anthropic": "optional", "openai_chat": "optional", "openai_responses": "always",
        "gemini": "optional",
    }  # fmt: skip
    assert models.facts("sglang", "qwen3", "openai_responses").reports_cache == "optional"
    mine = tmp_path / "mine.yaml"
    mine.write_text("""
upstreams:
  vllm: {reports_cache: never, formats: {anthropic: {block: 32, window: 5}}}
  house: {like: vllm, block: 8, formats: {openai_chat: {result_images: false}}}
""")
    own = Models.load(mine)
    asked = [own.facts(profile, "qwen3", dialect) for profile in ("vllm", "house") for dialect in FAMILY]
    assert [(one.reports_cache, one.block, one.window, one.result_images) for one in asked] == [
        ("never", 32, 5, True), ("never", 16, 200_000, True), ("never", 16, 200_000, True), ("never", 16, 200_000, True),
        ("never", 8, 5, True), ("never", 8, 200_000, False), ("never", 8, 200_000, True), ("never", 8, 200_000, True),
    ]  # fmt: skip


def test_every_fact_can_be_stated() -> None:
    """What the core knows of a model is what a file can say, and formats are the dialects there are."""
    assert {*ModelFacts.__struct_fields__} - {"upstream", "model"} == {*FormatFacts.__struct_fields__}
    assert set(Formats.__struct_fields__) == set(FAMILY)


def test_the_readme_has_all_profiles_and_facts(models: Models) -> None:
    """Its table of profiles, and its list of what a file can state."""
    readme = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
    _, section = readme.split("\n## Upstreams\n")
    section = section.split("\n## ")[0]
    profiles, facts = (part.split("\n\n")[0] for part in re.split(r"\n[|-]+\|\n", section)[1:])
    first = [row.split("|")[1] for row in profiles.splitlines()]
    assert re.findall(r"`([^`]+)`", "".join(first)) == list(models.profiles)
    named = re.findall(r"`([a-z0-9_]+)`", "".join(row.split("|")[1] for row in facts.splitlines()))
    fields = [name for name in FormatFacts.__struct_fields__ if not name.startswith("image_")]
    assert sorted(named) == sorted(fields)
