"""Reading what a user has set: paths, the forms of files, and values in them."""

from pathlib import Path

import pytest

from proxy.launch.places import Places, parsed, value_at


@pytest.mark.parametrize(
    ("written", "env", "path"),
    [
        ("~/.claude/settings.json", {}, "home/.claude/settings.json"),
        ("${X}/config.toml", {"X": "/x"}, "/x/config.toml"),
        ("${X:-~/.codex}/config.toml", {}, "home/.codex/config.toml"),
        ("${X:-${Y:-~/.y}/data}/s", {}, "home/.y/data/s"),
        ("${X:-${Y:-~/.y}/data}/s", {"Y": "/y"}, "/y/data/s"),
        ("${X:-${Y:-~/.y}/data}/s", {"Y": "/y", "X": "/x"}, "/x/s"),
        ("${X}", {}, None),
        (".env", {}, "work/inner/.env"),
        ("^.env", {}, "work/.env"),
        ("^nowhere", {}, None),
    ],
)
def test_paths(tmp_path: Path, written: str, env: dict[str, str], path: str | None) -> None:
    """Home, variables with what stands for them, the working directory, and upwards from it."""
    (tmp_path / "work" / "inner").mkdir(parents=True)
    (tmp_path / "work" / ".env").write_text("A=1\n")
    places = Places({"HOME": str(tmp_path / "home"), **env}, tmp_path / "work" / "inner", [])
    assert places.path(written) == (None if path is None else tmp_path / path)


@pytest.mark.parametrize(
    ("name", "text", "document"),
    [
        (
            "a.json",
            '{"a": "http://x//y" /* no */, "b": [1, 2,], // end\n}',
            {"a": "http://x//y", "b": [1, 2]},
        ),
        ("a.jsonc", "", None),
        ("a.toml", 'model = "x"\n[p.q]\nu = 1\n', {"model": "x", "p": {"q": {"u": 1}}}),
        ("a.yml", "a: {b: [c]}\n", {"a": {"b": ["c"]}}),
        (
            ".env",
            "# no\nexport A=http://x/v1 # why\nB='two words'\nC=\n D=\"q\"\n",
            {"A": "http://x/v1", "B": "two words", "D": "q"},
        ),
    ],
)
def test_forms(name: str, text: str, document: object) -> None:
    """JSON with comments and trailing commas, TOML, YAML, assignments."""
    assert parsed(name, text) == document


DOCUMENT = {
    "use": "p.q",
    "providers": {"p.q": {"url": "1"}, "r": {"url": "2"}},
    "models": [{"u": 1}, {}, {"u": 3}],
}


@pytest.mark.parametrize(
    ("at", "found"),
    [
        (["use"], [(("use",), "p.q")]),
        (["providers", "{use}", "url"], [(("providers", "p.q", "url"), "1")]),
        (["providers", "{nothing}", "url"], []),
        (["providers", "*", "url"], [(("providers", "p.q", "url"), "1"), (("providers", "r", "url"), "2")]),
        (["models", "*", "u"], [(("models", 0, "u"), 1), (("models", 2, "u"), 3)]),
        (["models", "0", "u"], []),
        (["use", "deeper"], []),
    ],
)
def test_values(at: list[str], found: list[object]) -> None:
    """A path, the value of another key in it, and all of a level."""
    assert list(Places({}, Path(), []).values(DOCUMENT, at)) == found
    assert all(
        value_at(DOCUMENT, path) == value for path, value in Places({}, Path(), []).values(DOCUMENT, at)
    )


def test_a_file_that_cannot_be_read_is_named_and_left_aside(tmp_path: Path) -> None:
    """Without a word of what stands in it: that may be a key."""
    (tmp_path / "a.json").write_text('{"key": "sk-secret", ')
    (tmp_path / "b.toml").write_text("key = sk-secret")
    places = Places({"HOME": str(tmp_path)}, tmp_path, [])
    assert [places.document(name) for name in ("a.json", "b.toml", "c.json")] == [None] * 3
    assert len(places.faults) == 2
    assert "sk-secret" not in "".join(places.faults)
