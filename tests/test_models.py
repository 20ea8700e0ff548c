"""Facts about models and upstreams: the shipped table, and a user's own laid over it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from proxy.errors import ConfigError, SettingsError
from proxy.models import LongPrompt, ModelFacts, Models, ModelsFile, Price, canonical
from proxy.shipped import read_shipped
from proxy.yamlfile import load


@pytest.fixture(scope="module")
def models() -> Models:
    return Models.load()


def test_a_model_behind_its_vendor_has_the_vendors_facts(models: Models) -> None:
    assert models.facts("anthropic", "claude-opus-5-5") == ModelFacts(
        upstream="anthropic",
        model="claude-opus-5-5",
        window=1_000_000,
        max_output=128_000,
        tokenizer=1.5,
        regime="breakpoints",
        minimum=512,
        lookback=20,
        ttl_s=300,
        ttl_long_s=3600,
        read=0.05,
        write_5m=1.25,
        write_1h=2.0,
        price=Price(input=4, output=20),
        reports_cache="always",
        marks=True,
        max_marks=4,
        breakpoints="anthropic",
        warms=True,
        prefix_check=True,
        reasoning="signed",
        prefill=False,
        mid_system=True,
        keep_attribution=True,
        tool_id_pattern="^[a-zA-Z0-9_-]+$",
        tool_id_max=128,
        image_tokens=4784,
        image_long_edge=2576,
        image_checked=True,
        image_max_count=600,
        image_max_bytes=10 * 1024 * 1024,
    )


def test_the_same_name_on_a_local_server_keeps_neither_prices_nor_checks(models: Models) -> None:
    facts = models.facts("vllm", "claude-opus-5-5")
    assert (facts.price, facts.prefix_check, facts.marks, facts.ttl_s, facts.read) == (
        None,
        False,
        False,
        None,
        0,
    )
    assert (facts.fold_system, facts.mid_system, facts.block, facts.reasoning) == (True, False, 16, "free")


def test_nothing_is_added_and_no_cache_is_cold_behind_an_unknown_upstream(models: Models) -> None:
    assert models.facts("unknown", "house-model") == ModelFacts(model="house-model")
    claude = models.facts("unknown", "claude-opus-5-5")
    assert (claude.marks, claude.ttl_s, claude.keep_attribution, claude.prefix_check) == (
        False,
        None,
        False,
        True,
    )
    assert models.facts("no-such-profile", "x").ttl_s is None


@pytest.mark.parametrize(
    "name", ["claude-opus-5-6", "claude-opus-6", "claude-sonnet-7-1-20271101", "claude-x", "claude-haiku-5-6"]
)
def test_a_claude_newer_than_the_table_is_taken_to_check_its_prefix(models: Models, name: str) -> None:
    facts = models.facts("anthropic", name)
    assert (facts.prefix_check, facts.window, facts.minimum, facts.prefill, facts.mid_system, facts.price) == (
        True, 200_000, 1024, False, None, None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "checked"),
    [
        ("claude-fable-5-1", True), ("claude-fable-5-2", True), ("claude-mythos-5-2", True), ("claude-opus-5-5", True),
        ("claude-sonnet-5-5", True), ("claude-haiku-5-5", True), ("claude-mythos-5-1", False), ("claude-opus-5", False),
        ("claude-sonnet-5", False), ("claude-fable-5", False), ("claude-opus-4-8", False), ("claude-haiku-4-5", False),
        ("claude-3-7-sonnet-20250219", False), ("gpt-6-sol", False), ("gemini-4-argon", False),
    ],
)  # fmt: skip
def test_which_models_check_the_prefix(models: Models, model: str, checked: bool) -> None:
    """A45"""
    assert models.facts("vertex", model).prefix_check is checked


@pytest.mark.parametrize(
    ("model", "minimum"),
    [
        ("claude-opus-5", 512), ("claude-mythos-5-2", 512), ("claude-haiku-5-5", 512), ("claude-opus-4-8", 1024),
        ("claude-sonnet-5", 1024), ("claude-sonnet-4-5", 1024), ("claude-opus-4-7", 2048), ("claude-mythos-preview", 2048),
        ("claude-opus-4-6", 4096), ("claude-opus-4-5", 4096), ("claude-haiku-4-5", 4096),
    ],
)  # fmt: skip
def test_the_smallest_prefix_that_is_cached(models: Models, model: str, minimum: int) -> None:
    """B13"""
    assert models.facts("anthropic", model).minimum == minimum


def test_prices(models: Models) -> None:
    """B14 B100 B301 B401 B420 B431"""
    table = {
        (profile, model): (facts.read, facts.write_5m, facts.write_1h, facts.price)
        for profile, model in [
            ("anthropic", "claude-fable-5-2"),
            ("anthropic", "claude-haiku-5-5"),
            ("openai", "gpt-6.1-sol"),
            ("openai", "gpt-5.5"),
            ("gemini", "gemini-4-argon"),
            ("deepseek", "deepseek-v4-flash"),
            ("glm", "glm-4.7"),
            ("mistral", "mistral-large-3"),
            ("chatgpt-codex", "gpt-5.5"),
            ("ollama", "qwen3"),
        ]
        for facts in [models.facts(profile, model)]
    }
    long = LongPrompt(above=272_000, input=2, output=1.5)
    assert table == {
        ("anthropic", "claude-fable-5-2"): (0.025, 1.25, 2.0, Price(input=10, output=50)),
        ("anthropic", "claude-haiku-5-5"): (
            0.1, 1.25, 2.0, Price(input=0.1, output=0.5, long=LongPrompt(above=100_000, input=5, output=5)),
        ),
        ("openai", "gpt-6.1-sol"): (0.05, 1.25, 2.5, Price(input=2, output=10, long=long)),
        ("openai", "gpt-5.5"): (0.1, 1.0, 1.0, Price(input=5, output=30, long=long)),
        ("gemini", "gemini-4-argon"): (0.05, 1.0, 1.0, Price(input=2, output=10)),
        ("deepseek", "deepseek-v4-flash"): (0.02, 1.0, 1.0, Price(input=0.3, output=1.2)),
        ("glm", "glm-4.7"): (0.19, 1.0, 1.0, Price(input=0.6, output=2.2)),
        ("mistral", "mistral-large-3"): (0.1, 1.0, 1.0, None),
        ("chatgpt-codex", "gpt-5.5"): (0.1, 1.0, 1.0, None),
        ("ollama", "qwen3"): (0.0, 1.0, 1.0, None),
    }  # fmt: skip


def test_reasoning_must_come_back_where_the_vendor_says_so(models: Models) -> None:
    """A400 A410"""
    asked = [
        ("deepseek", "deepseek-v4-pro"),
        ("deepseek", "claude-opus-5-5"),
        ("moonshot", "kimi-k3"),
        ("unknown", "x"),
    ]
    assert [models.facts(*a).reasoning for a in asked] == ["required", "required", "required", "as-sent"]


@pytest.mark.parametrize(
    ("spelt", "name"),
    [
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
        ("anthropic.claude-sonnet-5-5", "claude-sonnet-5-5"),
        ("anthropic/claude-opus-5.5", "claude-opus-5-5"),
        ("anthropic/claude-opus-4.8:thinking", "claude-opus-4-8"),
        ("claude-opus-4-6@20260205", "claude-opus-4-6"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("Claude-Opus-5", "claude-opus-5"),
        ("openai/gpt-5.6-sol", "gpt-5.6-sol"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("qwen3:8b", "qwen3:8b"),
        ("", ""),
    ],
)
def test_a_model_is_known_by_one_name_however_a_gateway_spells_it(spelt: str, name: str) -> None:
    assert canonical(spelt) == name


@pytest.mark.parametrize(
    ("url", "profile"),
    [
        ("https://api.anthropic.com", "anthropic"),
        ("https://API.anthropic.com:443/v1", "anthropic"),
        ("https://api.anthropic.com.evil.example", "unknown"),
        ("https://bedrock-runtime.eu-west-1.amazonaws.com", "bedrock-compatible"),
        ("https://europe-west1-aiplatform.googleapis.com/v1/projects/x", "vertex"),
        ("https://openrouter.ai/api", "openrouter"),
        ("https://api.openai.com/v1", "openai"),
        ("https://eu.api.openai.com", "openai"),
        ("https://house.openai.azure.com", "azure"),
        ("https://chatgpt.com/backend-api/codex", "chatgpt-codex"),
        ("https://generativelanguage.googleapis.com", "gemini"),
        ("https://cloudcode-pa.googleapis.com", "gemini"),
        ("https://daily-cloudcode-pa.googleapis.com", "gemini"),
        ("https://aiplatform.eu.rep.googleapis.com", "vertex"),
        ("https://storage.googleapis.com", "unknown"),
        ("https://api.deepseek.com/anthropic", "deepseek"),
        ("https://api.moonshot.ai/anthropic", "moonshot"),
        ("https://api.moonshot.cn/v1", "moonshot"),
        ("https://api.kimi.com/coding/v1", "moonshot"),
        ("https://api.z.ai/api/coding/paas/v4", "glm"),
        ("https://open.bigmodel.cn/api/anthropic", "glm"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("http://127.0.0.1:11434", "ollama"),
        ("http://localhost:1234/v1", "lm-studio"),
        ("http://127.0.0.1:8000", "unknown"),
        ("gateway.internal:8443", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_host_implies_its_profile(models: Models, url: str, profile: str) -> None:
    assert models.profile_for(url) == profile


def test_a_profile_named_in_the_configuration_counts_and_must_exist(models: Models) -> None:
    assert models.profile_for("https://api.anthropic.com", "vllm") == "vllm"
    with pytest.raises(
        SettingsError, match=r"no upstream profile 'antropic', did you mean 'anthropic'\? known: "
    ):
        models.profile_for("http://x", "antropic")
    with pytest.raises(SettingsError) as caught:
        models.profile_for("http://x", "9000")
    assert str(caught.value) == f"no upstream profile '9000'; known: {', '.join(sorted(models.profiles))}"


def test_every_rule_of_the_shipped_table_can_be_reached() -> None:
    """The first match wins: a rule behind a wider one would be dead."""
    place, text = read_shipped("models.yaml")
    file = load((place, text), ModelsFile)
    earlier: list[str] = []
    for rule in file.models:
        for glob in rule.match:
            example = glob.replace("*", "zz").replace("[678]", "7")
            assert not [e for e in earlier if fnmatchcase(example, e)], f"{glob} is hidden"
        earlier += rule.match
    assert {
        "anthropic", "bedrock-compatible", "vertex", "openrouter", "openai", "azure", "chatgpt-codex", "gemini",
        "deepseek", "moonshot", "glm", "mistral", "vllm", "sglang", "llama.cpp", "ollama", "lm-studio", "unknown",
    } == set(file.upstreams)  # fmt: skip


def test_a_users_file_lies_over_the_shipped_one_fact_by_fact(tmp_path: Path, models: Models) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("""
models:
  - {match: ["claude-sonnet-5-5"], read: 0.05}
  - {match: ["house-*"], window: 32768, prefix_check: false}
upstreams:
  anthropic: {ttl_s: 3600}
  house: {hosts: ["llm.house.example"], like: sglang, fold_system: false}
""")
    both = Models.load(mine)
    shipped = models.facts("anthropic", "claude-sonnet-5-5")
    laid = both.facts("anthropic", "claude-sonnet-5-5")
    assert (shipped.read, shipped.ttl_s, laid.read, laid.ttl_s) == (0.1, 300, 0.05, 3600)
    assert (laid.price, laid.minimum) == (shipped.price, shipped.minimum)
    profile = both.profile_for("https://llm.house.example/v1")
    house = both.facts(profile, "house-large")
    assert (profile, house.window, house.fold_system, house.redacted_thinking, house.price, house.block) == (
        "house", 32768, False, False, None, 1,
    )  # fmt: skip
    assert both.facts(profile, "claude-opus-5-5").prefix_check is False
    assert both.facts("openai", "gpt-5.5") == models.facts("openai", "gpt-5.5")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("upstreams:\n  a: {like: vlm}\n", ":2:13: no upstream profile 'vlm', did you mean 'vllm'?"),
        ("models:\n  - {match: [a], tool_id_pattern: '('}\n", ":2:35: not a regular expression: missing ), unterminated subpattern at position 0"),
        ("upstreams:\n  a: {tool_id_pattern: '['}\n", ":2:24: not a regular expression: unterminated character set at position 0"),
        ("upstreams:\n  a:\n    formats:\n      gemini: {tool_id_pattern: '['}\n", ":4:33: not a regular expression: "),
        ("upstreams:\n  a:\n    formats:\n      gemni: {}\n", ":4:7: unknown key 'gemni' (upstreams.a.formats), did you mean 'gemini'?"),
        ("upstreams:\n  a: {like: nothing}\n", ":2:13: no upstream profile 'nothing'; known: a, anthropic, azure, "),
        ("upstreams:\n  a: {breakpoints: claude}\n", ":2:20: "),
        ("models:\n  - {window: 3}\n", ":2:5: missing key 'match' (models[0])"),
        ("models:\n  - {match: []}\n", ":2:13: expected at least 1 item (models[0].match)"),
        ("upstreams:\n  a: {ttl_s: nevr}\n", ":2:14: expected a whole number or never or nothing, found 'nevr' (upstreams.a.ttl_s), did you mean 'never'?"),
        ("upstreams:\n  a: {regime: prefx}\n", "found 'prefx' (upstreams.a.regime), did you mean 'prefix'?"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_users_file_has_a_place(tmp_path: Path, text: str, expected: str) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Models.load(mine)
    assert expected in str(caught.value)


def test_profiles_that_are_like_each_other_end(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("upstreams:\n  a: {like: b, block: 2}\n  b: {like: a, minimum: 7}\n")
    facts = Models.load(mine).facts("a", "x")
    assert (facts.block, facts.minimum) == (2, 7)


def test_facts_are_remembered_but_not_without_end(models: Models) -> None:
    assert models.facts("vllm", "a") is models.facts("vllm", "a")
    for number in range(3000):
        models.facts("vllm", f"m{number}")
    assert len(models._answers) <= 1024
