"""Recipes: the shipped ones, and what is said of a wrong one."""

import pytest

from proxy.errors import ConfigError
from proxy.launch.recipe import OTHER, recipe_for, recipe_in, recipes
from proxy.yamlfile import parse

NAMED = [
    "aider",
    "claude-code",
    "cline",
    "codex",
    "continue",
    "gemini-cli",
    "opencode",
    "pi",
    "qwen-code",
]


def test_every_agent_has_a_recipe_and_any_other_program_the_last() -> None:
    """The shipped files are sound; no program belongs to two agents."""
    known = recipes()
    assert [one.agent for one in known] == [*NAMED, OTHER]
    programs = [program for one in known for program in one.programs]
    assert len(programs) == len(set(programs)) == len(NAMED)


def test_every_note_says_how_it_is_known() -> None:
    """Doctor's facts are marked: documented, tried, read, reported, or not checked."""
    for recipe in recipes():
        assert recipe.notes, recipe.agent
        for note in recipe.notes:
            assert note.checked.split()[0] in {"documented;", "tried", "read", "reported", "not"}, note


@pytest.mark.parametrize(
    ("program", "agent"),
    [
        ("claude", "claude-code"),
        ("/opt/bin/codex", "codex"),
        ("gemini.CMD", "gemini-cli"),
        ("cn", "continue"),
        ("claude-wrapper", None),
        ("python3", None),
    ],
)
def test_a_program_is_known_by_its_name(program: str, agent: str | None) -> None:
    """Wherever it lies; a name that only begins so is another program."""
    recipe = recipe_for(program, recipes())
    assert (recipe.agent if recipe is not None else None) == agent


def test_an_agent_may_be_named() -> None:
    """By its own name or its program's, for what is started through something else."""
    known = recipes()
    for name in ("claude-code", "claude"):
        named = recipe_for("npx", known, name)
        assert named is not None
        assert named.agent == "claude-code"
    assert recipe_for("npx", known, "nobody") is None


HEAD = "agent: x\nname: X\n"
POINT = "points:\n  a:\n    upstream: a\n    at: http://a\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + POINT + "    varables: {}\n", "7:5: unknown key 'varables'"),
        (HEAD + POINT + "    found: [{at: [x]}]\n", "7:13: name a variable or a file"),
        (HEAD + POINT + "    found: [{file: x}]\n", "7:13: say where in the file: at"),
        (HEAD + POINT + "settings: [{variable: V, host: h}]\n", "7:32: say of which point: point"),
        (HEAD + POINT + 'overlay: {at: [x, "*"], points: {b: c}, variable: V}\n', "no point is named 'c'"),
        (HEAD + POINT + "overlay: {at: [x], variable: V}\n", "one item is *, which names the provider"),
        (HEAD + POINT + 'overlay: {at: ["*"]}\n', "say how it is handed over"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, said: str) -> None:
    """As in every other configuration file."""
    with pytest.raises(ConfigError, match=r"recipe\.yaml:\d+:\d+: ") as caught:
        recipe_in(parse(text, "recipe.yaml"))
    assert said in str(caught.value)
