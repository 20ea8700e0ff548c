"""YAML files become Structs; every mistake has a place and says what to do."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import pytest
from msgspec import Meta

from proxy.errors import ConfigError
from proxy.yamlfile import ConfigErrors, load, parse, read, schema, suggestion


class Effort(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """Old results."""

    window: Annotated[int, Meta(ge=1, le=100, description="results")] = 8
    tools: list[str] = []
    on_error: Literal["keep", "clear"] = "keep"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    stale: Stale | Literal["off"] = "off"
    ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    strict: bool = False
    note: str | None = None
    budget: int | Literal["auto"] | None = None
    per_tool: dict[str, Stale] = {}
    pair: tuple[str, int] = ("a", 1)
    fields: tuple[Literal["date", "cwd"], ...] = ()
    effort: Effort = Effort.LOW
    switch: Literal["off", "on", "yes", "no"] = "on"
    free: Any = None
    code: Annotated[str, Meta(pattern="^[a-z]+$", max_length=4)] = "ab"
    few: Annotated[list[int], Meta(min_length=1, max_length=2)] = msgspec.field(default_factory=lambda: [1])
    names: frozenset[str] = frozenset()


class Kebab(msgspec.Struct, frozen=True, rename="kebab"):
    max_size: int
    keep: int = 1


def mistakes(text: str, kind: type = Policy) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(("p.yaml", text), kind)
    return str(caught.value).split("\n")


def test_a_whole_file_becomes_one_value() -> None:
    text = """
name: careful
stale: {window: 4, tools: [Read, Bash], on_error: clear}
ratio: 1e-1
strict: true
note: ~
budget: auto
per_tool:
  Read: {window: 2}
pair: [x, 0x10]
fields: [date, cwd]
effort: high
switch: off
free: {a: [1, 2.5, null, yes, 2026-01-01]}
code: abc
few: [3]
names: [a, a]
"""
    assert load(("p.yaml", text), Policy) == Policy(
        name="careful",
        stale=Stale(window=4, tools=["Read", "Bash"], on_error="clear"),
        ratio=0.1,
        strict=True,
        note=None,
        budget="auto",
        per_tool={"Read": Stale(window=2)},
        pair=("x", 16),
        fields=("date", "cwd"),
        effort=Effort.HIGH,
        switch="off",
        free={"a": [1, 2.5, None, "yes", "2026-01-01"]},
        code="abc",
        few=[3],
        names=frozenset({"a"}),
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"), ("on", "on"), ("yes", "yes"), ("No", "No"), ("1:30", "1:30"), ("0777", 777), ("0o17", 15),
        ("1_000", "1_000"), ("true", True), ("False", False), ("~", None), ("", None), ("2026-11-30", "2026-11-30"),
        ("-.inf", float("-inf")), ("1.", 1.0), (".5", 0.5), ("+12", 12), ("-0x1", "-0x1"), ("'12'", "12"), ('"true"', "true"),
        ("!!str 12", "12"), ("=", "="), ("0b1", "0b1"), ("1e3", 1000.0), ("0xfF", 255),
    ],
)  # fmt: skip
def test_plain_scalars_follow_the_core_schema(text: str, value: object) -> None:
    """YAML 1.1 would make booleans of words, numbers of clocks and dates of text."""
    found = parse(f"free: {text}\n", "p").plain(("free",))
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: x\nstale: {windw: 3}\n", "p.yaml:2:9: unknown key 'windw' (stale), did you mean 'window'?"),
        ("name: x\nzzz: 3\n", "p.yaml:2:1: unknown key 'zzz'"),
        ("name: x\nstale: {qqqqq: 3}\n", "p.yaml:2:9: unknown key 'qqqqq' (stale), known: window, tools, on_error"),
        ("name: x\nratio: 0.1\nname: y\n", "p.yaml:3:1: duplicate key 'name', first on line 1"),
        ("name: x\nper_tool:\n  a: {}\n  a: {}\n", "p.yaml:4:3: duplicate key 'a', first on line 3"),
        ("ratio: 0.1\n", "p.yaml:1:1: missing key 'name'"),
        ("name: 12\n", "p.yaml:1:7: expected text, found the number 12 (name); put it in quotes"),
        ("name: true\n", "p.yaml:1:7: expected text, found true (name); put it in quotes"),
        ("name:\n", "p.yaml:1:6: expected text, found nothing (name)"),
        ("name: [a]\n", "p.yaml:1:7: expected text, found a list (name)"),
        ("name: x\nstale: of\n", "p.yaml:2:8: expected a mapping or off, found 'of' (stale), did you mean 'off'?"),
        ("name: x\nstale: false\n", "p.yaml:2:8: expected a mapping or off, found false (stale)"),
        ("name: x\nstale: [off]\n", "p.yaml:2:8: expected a mapping or off, found a list (stale)"),
        ("name: x\nstale: {window: 0}\n", "p.yaml:2:17: expected a number >= 1, found the number 0 (stale.window)"),
        ("name: x\nstale: {window: 101}\n", "p.yaml:2:17: expected a number <= 100, found the number 101 (stale.window)"),
        ("name: x\nstale: {window: 2.0}\n", "p.yaml:2:17: expected a whole number, found the number 2.0 (stale.window)"),
        ("name: x\nratio: 0\n", "p.yaml:2:8: expected a number > 0, found the number 0 (ratio)"),
        ("name: x\nratio: 1\n", "p.yaml:2:8: expected a number < 1, found the number 1 (ratio)"),
        ("name: x\nratio: .nan\n", "p.yaml:2:8: expected a finite number, found the number .nan (ratio)"),
        ("name: x\nstrict: yes\n", "p.yaml:2:9: expected true or false, found 'yes' (strict), did you mean true?"),
        ("name: x\nstrict: Off\n", "p.yaml:2:9: expected true or false, found 'Off' (strict), did you mean false?"),
        ("name: x\nbudget: auot\n", "p.yaml:2:9: expected a whole number or auto or nothing, found 'auot' (budget), did you mean 'auto'?"),
        ("name: x\nfields: [date, cdw]\n", "p.yaml:2:16: expected one of cwd, date, found 'cdw' (fields[1]), did you mean 'cwd'?"),
        ("name: x\neffort: hihg\n", "p.yaml:2:9: expected one of low, high, found 'hihg' (effort), did you mean 'high'?"),
        ("name: x\nswitch: true\n", "p.yaml:2:9: expected no or off or on or yes, found true (switch)"),
        ("name: x\npair: [a]\n", "p.yaml:2:7: expected 2 items, found 1 (pair)"),
        ("name: x\npair: {a: 1}\n", "p.yaml:2:7: expected a list, found a mapping (pair)"),
        ("name: x\nfew: []\n", "p.yaml:2:6: expected at least 1 item (few)"),
        ("name: x\nfew: [1, 2, 3]\n", "p.yaml:2:6: expected at most 2 items (few)"),
        ("name: x\ncode: A1\n", "p.yaml:2:7: expected text like ^[a-z]+$, found 'A1' (code)"),
        ("name: x\ncode: abcde\n", "p.yaml:2:7: expected at most 4 characters (code)"),
        ("name: x\nper_tool:\n  1: {}\n", "p.yaml:3:3: a key must be text, found the number 1"),
        ("name: x\nper_tool:\n  [a]: {}\n", "p.yaml:3:3: a key must be text, found a list"),
        ("name: x\n\tratio: 1\n", "p.yaml:2:1: a tab where only spaces may indent"),
        ("name: x\nratio: [1\n", "p.yaml:3:1: expected ',' or ']', but got '<stream end>' (while parsing a flow sequence)"),
        ("name: x\n--- \nname: y\n", "p.yaml:2:1: a second document; a file holds one"),
        ("", "p.yaml:1:1: the file is empty"),
        ("# nothing\n", "p.yaml:1:1: the file is empty"),
        ("- a\n", "p.yaml:1:1: expected a mapping, found a list"),
        ("name: x\nfree: !!python/object:os.system {}\n", "p.yaml:2:7: tag 'tag:yaml.org,2002:python/object:os.system' is not allowed (free)"),
        ("name: !!binary aGk=\n", "p.yaml:1:7: tag 'tag:yaml.org,2002:binary' is not allowed"),
        ("name: x\nfree: !!binary aGk=\n", "p.yaml:2:7: tag 'tag:yaml.org,2002:binary' is not allowed"),
        ("name: x\nswitch: !!binary aGk=\n", "p.yaml:2:9: expected no or off or on or yes, found 'aGk='"),
        ("name: x\nfree: !!int word\n", "p.yaml:2:7: the number word cannot be read"),
        ("name: x\nstrict: !!bool word\n", "p.yaml:2:9: word cannot be read"),
        ("name: x\nratio: !!float word\n", "p.yaml:2:8: the number word cannot be read"),
        ("name: x\nbudget: " + "9" * 5000, "p.yaml:2:9: the number 99"),
        ("name: x\nfree: *nowhere\n", "p.yaml:2:7: found undefined alias 'nowhere'"),
        ("name: a\x00b\n", "p.yaml:1:8: character U+0000 is not allowed"),
        ("name: x\nfree: {<<: 3}\n", "p.yaml:2:12: only mappings can be merged, found the number 3"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_at_its_place(text: str, expected: str) -> None:
    found = mistakes(text)
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_all_mistakes_of_a_file_come_at_once_in_its_order() -> None:
    text = "nme: x\nstale:\n  window: 0\n  tols: [a]\nratio: high\n"
    with pytest.raises(ConfigErrors) as caught:
        load(("p.yaml", text), Policy)
    assert [(e.line, e.column) for e in caught.value.errors] == [(1, 1), (1, 1), (3, 11), (4, 3), (5, 8)]
    assert (caught.value.path, caught.value.line, caught.value.column) == ("p.yaml", 1, 1)
    assert str(caught.value).split("\n")[2:] == [
        "p.yaml:3:11: expected a number >= 1, found the number 0 (stale.window)",
        "p.yaml:4:3: unknown key 'tols' (stale), did you mean 'tools'?",
        "p.yaml:5:8: expected a number, found 'high' (ratio)",
    ]


def test_no_more_than_twenty_mistakes_are_told() -> None:
    assert len(mistakes("name: x\nfew:\n" + "  - word\n" * 50)) == 20


def test_anchors_and_merge_keys_work_and_what_stands_in_the_mapping_wins() -> None:
    text = """
name: x
stale: &base {window: 3, tools: [a]}
per_tool:
  one: *base
  two: {<<: *base, window: 4}
  three: {window: 5, <<: [*base, {on_error: clear, window: 9}]}
"""
    assert load(("p.yaml", text), Policy).per_tool == {
        "one": Stale(window=3, tools=["a"]),
        "two": Stale(window=4, tools=["a"]),
        "three": Stale(window=5, tools=["a"], on_error="clear"),
    }


def test_a_mistake_in_a_merged_mapping_is_told_once() -> None:
    text = "name: x\nstale: &base {windw: 3}\nper_tool:\n  a: {<<: *base}\n  b: *base\n"
    assert len(set(mistakes(text))) == len(mistakes(text))
    assert all(line.startswith("p.yaml:2:15: unknown key 'windw'") for line in mistakes(text))


def test_a_chain_of_aliases_is_refused_instead_of_filling_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    text = "name: x\nfree:\n" + "".join(f"  {line}\n" for line in lines)
    assert [line.partition(": ")[2] for line in mistakes(text)] == ["aliases expand too far"]


@pytest.mark.parametrize(
    "text",
    [
        "name: x\nfree: &a [*a]\n",
        "name: x\nfree: &a {b: *a}\n",
        "name: x\nfree: &a {<<: *a}\n",
        "free: " + "[" * 5000 + "]" * 5000,
    ],
)
def test_a_file_that_holds_itself_or_has_no_bottom_is_refused(text: str) -> None:
    assert mistakes(text)


def test_names_follow_the_rename_of_the_struct() -> None:
    assert load(("k", "max-size: 3\n"), Kebab) == Kebab(3)
    assert mistakes("max_size: 3\n", Kebab) == [
        "p.yaml:1:1: unknown key 'max_size', did you mean 'max-size'?",
        "p.yaml:1:1: missing key 'max-size'",
    ]


def test_a_check_of_the_struct_itself_is_a_mistake_at_its_mapping() -> None:
    class Range(msgspec.Struct):
        low: int
        high: int

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low is above high")

    assert mistakes("\nlow: 3\nhigh: 2\n", Range) == ["p.yaml:2:1: low is above high"]


def test_a_caller_can_point_at_a_value_a_key_or_the_deepest_part_there_is() -> None:
    document = parse("name: x\nstale:\n  tools: [a, '(']\n", "p.yaml")
    assert str(document.error(("stale", "tools", 1), "bad")) == "p.yaml:3:14: bad"
    assert str(document.error(("stale", "tools"), "bad", at_key=True)) == "p.yaml:3:3: bad"
    assert str(document.error(("stale", "window"), "bad")) == "p.yaml:3:3: bad"
    assert str(document.error((), "bad")) == "p.yaml:1:1: bad"
    assert document.plain(("stale", "tools")) == ["a", "("]
    assert document.plain(("stale", "tools", 7)) is None
    assert document.plain(("name", "tools")) is None


def test_a_file_laid_over_another_keeps_the_places_of_both() -> None:
    base = parse("name: base\nstale: {window: 0, tools: [a]}\nratio: 0.2\n", "base.yaml")
    above = parse("name: mine\nstale: {on_error: clear}\nratio: 7\n", "mine.yaml")
    with pytest.raises(ConfigErrors) as caught:
        above.over(base).convert(Policy)
    assert str(caught.value).split("\n") == [
        "mine.yaml:3:8: expected a number < 1, found the number 7 (ratio)",
        "base.yaml:2:17: expected a number >= 1, found the number 0 (stale.window)",
    ]
    sound = parse("name: mine\nstale: {window: 2}\nratio: 0.7\n", "mine.yaml").over(base)
    assert sound.convert(Policy) == Policy(name="mine", stale=Stale(window=2, tools=["a"]), ratio=0.7)
    assert parse("stale: off\n", "mine.yaml").over(base).convert(Policy).stale == "off"


def test_files_are_read_as_utf8_and_faults_of_reading_have_a_place(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes("\N{ZERO WIDTH NO-BREAK SPACE}name: grün\n".encode())
    assert load(file, Policy) == Policy(name="grün")
    file.write_bytes(b"name: x\nnote: \xff\n")
    with pytest.raises(ConfigError) as caught:
        read(file)
    assert str(caught.value) == f"{file}:2:7: not UTF-8"
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read(tmp_path / "none.yaml")


def test_the_schema_agrees_with_the_reader() -> None:
    made = schema(Policy)
    checker = jsonschema.Draft202012Validator(made)
    checker.check_schema(made)
    checker.validate({"name": "x", "stale": "off", "per_tool": {"a": {"window": 3}}})
    wrong = [
        {"name": "x", "zzz": 1},
        {"name": "x", "stale": {"windw": 1}},
        {"stale": "off"},
        {"name": "x", "ratio": 2},
    ]
    assert [checker.is_valid(value) for value in wrong] == [False] * 4
    assert made["$defs"]["Stale"]["description"] == "Old results."


def test_a_suggestion_is_close_or_the_short_list() -> None:
    assert suggestion("anthropc", ["anthropic", "openai"]) == ", did you mean 'anthropic'?"
    assert suggestion("zzz", ["anthropic", "openai"]) == ", known: anthropic, openai"
    assert suggestion("zzz", [f"name{i}" for i in range(20)]) == ""
    assert suggestion("OFF", ["off"]) == ", did you mean 'off'?"


def test_the_plain_value_of_a_broken_part_is_a_mistake_too() -> None:
    with pytest.raises(ConfigErrors, match=r"p.yaml:1:10: duplicate key 'b'"):
        parse("a: {b: 1,b: 2}\n", "p.yaml").plain(("a",))


def test_files_read_the_same_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "name: x\nstale: &a {window: 4}\nper_tool: {b: *a, c: {<<: *a, window: 5}}\nswitch: off\n"
    fast = load(("p.yaml", text), Policy)
    monkeypatch.setitem(sys.modules, "yaml.cyaml", None)
    assert load(("p.yaml", text), Policy) == fast


def test_a_mistake_that_comes_back_after_other_kinds_of_items_is_told_with_its_index() -> None:
    assert mistakes("name: x\nnames: {a: 1}\nfew: [1, x]\n") == [
        "p.yaml:2:8: expected a list, found a mapping (names)",
        "p.yaml:3:10: expected a whole number, found 'x' (few[1])",
    ]
