"""Policy files: what they may say, how they extend each other, and how mistakes are named."""

from pathlib import Path

import pytest

from proxy.agents import Agents
from proxy.errors import ConfigError, StetError
from proxy.policy import (
    STAGES,
    Policy,
    decode_policy,
    load_policy,
    policy_schema,
    shipped_policies,
    unmatched,
)
from proxy.stages import ORDER


def write(folder: Path, text: str, name: str = "policy.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def fault(folder: Path, text: str) -> str:
    path = write(folder, text)
    with pytest.raises(ConfigError) as caught:
        load_policy(path)
    return str(caught.value).replace(str(folder) + "/", "")


@pytest.mark.parametrize("name", ["transparent", "careful", "default", "frugal", "local"])
def test_every_shipped_policy_is_sound(name: str) -> None:
    """The five shipped policies load, and each is found by its name."""
    assert name in shipped_policies()
    assert load_policy(name).file.name == name


def test_transparent_runs_no_stage() -> None:
    """`transparent` meters and changes nothing: every stage is off."""
    chosen = load_policy("transparent").choose("anthropic", "", "claude-sonnet-4-5")
    assert [stage for stage in STAGES if chosen.config(stage) is not None] == []


def test_careful_removes_nothing() -> None:
    """`careful` has every stage but those that change what the model reads of its own accord."""
    chosen = load_policy("careful").choose("anthropic", "", "claude-sonnet-4-5")
    removing = ("noise", "inject", "externalize", "dedupe", "stale", "compact", "budget")
    assert all((chosen.config(stage) is None) == (stage in removing) for stage in STAGES)


def test_the_stages_of_a_policy_are_the_stages_in_order() -> None:
    """A stage that exists can be set, and what can be set exists."""
    assert [stage.NAME for stage in ORDER] == list(STAGES)


def test_a_file_extends_another_key_by_key(tmp_path: Path) -> None:
    """What a file does not name stands as in the file it extends, also inside a stage."""
    path = write(tmp_path, "name: mine\nextends: default\nstale:\n  keep: 2\nsteady: off\n")
    mine, base = load_policy(path).file, load_policy("default").file
    assert mine.steady == "off"
    assert mine.stale != "off"
    assert base.stale != "off"
    assert (mine.stale.keep, mine.stale.tools) == (2, base.stale.tools)


def test_a_file_extends_one_beside_it(tmp_path: Path) -> None:
    """`extends` may name a file in the same folder; both are watched for changes."""
    write(tmp_path, "extends: careful\nlabel: {untrusted: [WebFetch]}\n", "base.yaml")
    loaded = load_policy(write(tmp_path, "extends: base.yaml\nsteady: off\n"))
    assert loaded.file.label != "off"
    assert loaded.file.label.untrusted == ["WebFetch"]
    assert {Path(name).name for name in loaded.files} == {"policy.yaml", "base.yaml", "careful.yaml"}


def test_when_applies_to_upstream_agent_and_model(tmp_path: Path) -> None:
    """Entries of `when` change stages for the requests that match all their conditions, in order."""
    loaded = load_policy(
        write(
            tmp_path,
            "extends: careful\nwhen:\n"
            "  - {model: '*haiku*', breakpoints: off}\n"
            "  - {upstream: local, agent: claude-code, steady: {tools: false}}\n",
        )
    )
    plain = loaded.choose("anthropic", "", "claude-opus-5-5")
    assert plain.config("breakpoints") is not None
    assert loaded.choose("anthropic", "", "claude-haiku-4-5").config("breakpoints") is None
    steady = loaded.choose("local", "claude-code", "x").stages.steady
    assert steady != "off"
    assert (steady.tools, steady.calls) == (False, True)
    assert loaded.choose("anthropic", "", "claude-opus-5-5") is plain


def test_equal_policies_have_equal_digests_whatever_their_names(tmp_path: Path) -> None:
    """A conversation is pinned to what a policy does, not to what it is called."""
    mine = load_policy(write(tmp_path, "name: mine\nextends: careful\n")).choose("a", "", "m")
    assert mine.digest == load_policy("careful").choose("a", "", "m").digest
    assert mine.digest != load_policy("default").choose("a", "", "m").digest


def test_a_policy_survives_its_encoding() -> None:
    """A pinned policy is stored as bytes and comes back equal; one from the future comes back as nothing."""
    chosen = load_policy("default").choose("a", "", "m")
    assert decode_policy(chosen.encoded()) == chosen
    assert decode_policy(b'{"name":"x","stages":{"telepathy":{}}}') is None


def test_volatile_rules_come_before_what_recognisers_know(tmp_path: Path) -> None:
    """A rule of the policy replaces the recogniser's of the same name; `off` drops one."""
    path = write(
        tmp_path,
        "relocate:\n  rules:\n    - {name: date, where: [system], pattern: 'on (?P<value>.+)'}\n  off: [session-id]\n",
    )
    policy: Policy = load_policy(path).choose("a", "", "m")
    fields = policy.fields(Agents.load().generic)
    assert fields[0].pattern.pattern == "on (?P<value>.+)"
    names = [field.rule.name for field in fields]
    assert names.count("date") == 1
    assert "session-id" not in names


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stael: {}\n", "policy.yaml:1:1: unknown key 'stael', did you mean 'stale'?"),
        (
            "externalize: {threshold: 4096, tools: {Read: 2048}, head: 500, tail: 500, errors: 25}\n",
            "policy.yaml:1:14: `head`, `tail` and `errors` are 1025 bytes together: at most half of the lowest "
            "threshold (2048) may stay",
        ),
        ("steady: off\nsteady: {}\n", "policy.yaml:2:1: duplicate key 'steady', first on line 1"),
        ("balance: {}\nstale: {keep: many}\n", "policy.yaml:2:15: "),
        ("balance: {}\nstale:\n  keep: -1\n", "policy.yaml:3:9: "),
        ("steady: on\n", "policy.yaml:1:9: "),
        ("compact: {mode: modle}\n", "policy.yaml:1:17: "),
        ("compact: {mode: modle}\n", "did you mean 'model'?"),
        ("compact: {mode: model, wait: 0}\n", "policy.yaml:1:30: "),
        ("compact: {mode: model, wait: 3600}\n", "policy.yaml:1:30: "),
        ("extends: defualt\n", "policy.yaml:1:10: no policy 'defualt', did you mean 'default'?"),
        ("extends: policy.yaml\n", "extends itself"),
        ("stale: {}\n", "policy.yaml:1:8: `stale` needs `balance`"),
        ("when:\n  - {steady: off}\n", "policy.yaml:2:5: an entry of `when` needs a condition"),
        (
            "relocate:\n  rules:\n    - {name: x, where: [system], pattern: '('}\n",
            "policy.yaml:3:43: not a regular expression: ",
        ),
        (
            "relocate:\n  rules:\n    - {name: x, where: [system], pattern: 'a.+'}\n",
            "policy.yaml:3:43: the pattern needs a group (?P<value>...)",
        ),
        (
            "relocate:\n  rules:\n    - {name: x, where: [system], pattern: '(?P<value>a)', mode: constant}\n",
            "policy.yaml:3:65: mode `constant` needs a `value`",
        ),
        (
            "relocate:\n  rules:\n    - {name: x, where: [systen], pattern: '(?P<value>a)'}\n",
            "did you mean 'system'?",
        ),
        ("breakpoints: {place: [tial]}\n", "policy.yaml:1:23: "),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    """Unknown and double keys, wrong types, bounds, patterns, impossible combinations: each has file, line, column."""
    assert says in fault(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A policy that is not there is one clear line."""
    with pytest.raises(ConfigError, match="cannot be read"):
        load_policy(tmp_path / "nowhere.yaml")


def test_the_schema_admits_the_shipped_policies_and_refuses_others() -> None:
    """Editors get a JSON Schema that knows every stage."""
    import jsonschema
    import yaml

    from proxy.shipped import read_shipped

    schema = policy_schema()
    for name in shipped_policies():
        document = yaml.safe_load(read_shipped(f"policies/{name}.yaml")[1].replace(": off", ": 'off'"))
        jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"stael": {}}, schema)


def test_a_word_that_is_no_policy_is_answered_with_the_names_there_are() -> None:
    """It was meant as a name, not as a file."""
    said = fault_of("carefull"), fault_of("zzz")
    assert said == (
        "policy 'carefull': no such policy, did you mean 'careful'? or give the path of a file",
        "policy 'zzz': no such policy, known: careful, default, frugal, local, transparent; "
        "or give the path of a file",
    )


def fault_of(source: str) -> str:
    with pytest.raises(StetError) as caught:
        load_policy(source)
    return str(caught.value)


def test_a_policy_is_called_by_its_own_name(tmp_path: Path) -> None:
    """Its file's where it gives none; it says of itself only what it says itself."""
    derived = load_policy(write(tmp_path, "extends: default\n", "mine.yaml")).file
    assert (derived.name, derived.about) == ("mine", "")
    named = load_policy(write(tmp_path, "extends: default\nname: ours\nabout: for us\n", "mine.yaml")).file
    assert (named.name, named.about) == ("ours", "for us")


def test_what_a_file_extends_is_a_name(tmp_path: Path) -> None:
    """Or a path, as text."""
    said = fault(tmp_path, "extends: [careful]\n")
    assert "policy.yaml:1:10: the name of a policy or the path of a file" in said


def test_a_constant_field_needs_its_value(tmp_path: Path) -> None:
    """There would be nothing to put there; and it cannot be told what changed."""
    rule = "{name: n, where: [system], pattern: '(?P<value>x)', mode: constant}"
    assert "mode `constant` needs a `value`" in fault(tmp_path, f"relocate: {{rules: [{rule}]}}\n")
    told = rule.replace("constant}", "constant, value: '0', announce: on_change}")
    assert "a constant field hides its changes" in fault(tmp_path, f"relocate: {{rules: [{told}]}}\n")


def test_a_policy_is_chosen_once_for_the_same_request() -> None:
    """The same object each time, however many others were asked for between."""
    policies = load_policy("careful")
    first = policies.choose("anthropic", "", "claude-sonnet-4-5")
    assert policies.choose("anthropic", "", "claude-sonnet-4-5") is first
    for number in range(600):
        policies.choose("anthropic", "", f"model-{number}")
    assert policies.choose("anthropic", "", "claude-sonnet-4-5") == first


def test_a_stage_named_without_a_word_about_it_is_an_error_with_its_place(tmp_path: Path) -> None:
    """`stale:` with nothing behind it would else be off, which nobody means who writes it."""
    file = tmp_path / "policy.yaml"
    file.write_text("extends: careful\nstale:\n")
    with pytest.raises(StetError, match=r"policy\.yaml:2:\d+: say what `stale` does"):
        load_policy(file)


def test_conditions_that_nothing_known_meets_are_named_with_their_place(tmp_path: Path) -> None:
    """A server may know more names, so they are told and not refused."""
    path = write(
        tmp_path,
        "name: mine\nextends: default\nwhen:\n  - {agent: 'claude-*', stale: off}\n  - {upstream: mine, stale: off}\n",
    )
    [doubt] = unmatched(path, ["claude-code"], ["anthropic"])
    assert str(doubt).startswith(f"{path}:5:16: no upstream that comes with Stet is called 'mine'")
    assert unmatched("default", [], []) == []


def test_the_files_that_a_policy_injects_are_known(tmp_path: Path) -> None:
    """Who sends the request reads them first."""
    path = write(tmp_path, "name: mine\nextends: default\ninject: {files: [AGENTS.md, docs/style.md]}\n")
    assert load_policy(path).choose("", "", "").injected == ("AGENTS.md", "docs/style.md")
    assert load_policy("default").choose("", "", "").injected == ()
