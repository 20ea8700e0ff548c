"""Every rule cited in code, configuration and tests is one that RULES.md defines."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "proxy" / "dialects" / "RULES.md"

Rule = tuple[str, int, str]
"""Letter, number, suffix: A45a is ("A", 45, "a"), which is also the order the file keeps."""

_ONE = r"[A-F]\d+[a-z]?"
_CITATION = re.compile(rf"\[({_ONE}(?:-[A-F]?\d+[a-z]?)?(?:,? {_ONE}(?:-[A-F]?\d+[a-z]?)?)*)\]")
_BULLET = re.compile(rf"^- \*\*({_ONE})\*\* `([DSOI](?: [DSOI])*)` (.+)$")
_ROW = re.compile(r"^\| \*\*(F\d+)\*\* \| (.+) \|$")


def rule(name: str) -> Rule:
    match = re.fullmatch(r"([A-F])(\d+)([a-z]?)", name)
    assert match, name
    return match[1], int(match[2]), match[3]


def sections() -> list[list[str]]:
    """The rule names as they stand, one list for each part of the file."""
    found: list[list[str]] = []
    for line in RULES.read_text().splitlines():
        if line.startswith("## Part "):
            found.append([])
        elif match := _BULLET.match(line) or _ROW.match(line):
            found[-1].append(match[1])
    return found


DEFINED = frozenset(rule(name) for names in sections() for name in names)


def cited(citation: str) -> list[tuple[Rule, Rule]]:
    """The first and last rule of every item in a citation; both are the same where it is no range."""
    ends = []
    for item in re.split(r",? ", citation):
        first, _, last = item.partition("-")
        if last and last[0].isdigit():
            last = first[0] + last
        ends.append((rule(first), rule(last or first)))
    return ends


def faults(citation: str) -> list[str]:
    """What is wrong with a citation. A range needs both its ends: numbers between them may be unused."""
    wrong = []
    for first, last in cited(citation):
        wrong += [f"{r[0]}{r[1]}{r[2]} is not defined" for r in {first, last} if r not in DEFINED]
        if first[0] != last[0] or first > last:
            wrong.append(f"{citation} is no range")
    return wrong


def citations() -> Iterator[tuple[str, str]]:
    """Where a rule is cited, and the text between the brackets."""
    for folder in ("proxy", "config", "tests", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in {".py", ".md", ".yaml", ".yml", ".json"} or path == Path(__file__):
                continue
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                for match in _CITATION.finditer(line):
                    yield f"{path.relative_to(ROOT)}:{number}", match[1]


def test_every_cited_rule_is_defined() -> None:
    """No citation leads nowhere, RULES.md's own included."""
    found = list(citations())
    assert len(found) > 50
    assert [f"{where}: {fault}" for where, text in found for fault in faults(text)] == []


def test_rules_are_unique_and_sorted() -> None:
    """A number names one rule, and is found where one looks for it."""
    parts = sections()
    names = [name for part in parts for name in part]
    assert len(parts) == 6
    assert sorted(set(names)) == sorted(names)
    for part in parts:
        assert sorted(part, key=rule) == part


def test_every_rule_says_how_far_to_trust_it_and_where_it_comes_from() -> None:
    """A rule closes with its source in italics; a row of the table has all its columns."""
    for line in RULES.read_text().splitlines():
        if line.startswith("- **"):
            match = _BULLET.match(line)
            assert match, line
            assert re.search(r" \*[^*]+\*$", match[3]), line
        elif line.startswith("| **"):
            match = _ROW.match(line)
            assert match, line
            assert len(match[2].split(" | ")) == 5, line


@pytest.mark.parametrize(
    ("citation", "ends"),
    [
        ("A45", [(("A", 45, ""), ("A", 45, ""))]),
        ("A45a", [(("A", 45, "a"), ("A", 45, "a"))]),
        ("B3-B9 B31", [(("B", 3, ""), ("B", 9, "")), (("B", 31, ""), ("B", 31, ""))]),
        ("F1-3, F6", [(("F", 1, ""), ("F", 3, "")), (("F", 6, ""), ("F", 6, ""))]),
    ],
)
def test_citations_are_read_as_written(citation: str, ends: list[tuple[Rule, Rule]]) -> None:
    """Ranges, suffixes and lists of rules are all read."""
    assert _CITATION.findall(f"because [{citation}] says so") == [citation]
    assert cited(citation) == ends


@pytest.mark.parametrize("citation", ["A999", "A1-A999", "B9-B3", "A1-B9"])
def test_a_wrong_citation_is_noticed(citation: str) -> None:
    """Unknown rules and impossible ranges are faults."""
    assert faults(citation)
