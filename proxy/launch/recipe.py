"""Recipes: how an agent is pointed at a base URL, read from `config/launch/*.yaml`.

In texts `{url}` stands for the URL of the point at hand, `{at}` for where in a file it was found, `{file}` for a
temporary file of the run, `{entries}` for a JSON object of names and URLs. Paths may begin with `~` (the home) or `^`
(looked for upwards from the working directory), and hold `${NAME}` and `${NAME:-otherwise}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import PurePath
from typing import Annotated

from msgspec import Meta, Struct

from ..shipped import config_dir
from ..yamlfile import Document, parse

Name = Annotated[str, Meta(min_length=1)]

OTHER = "other"
"""The recipe for what no recipe names."""


class Found(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a user may have named another base URL: a variable, or `at` in a file.

    An item of `at` in braces (`{model_provider}`) is the value at that key. `arguments` point the agent where it was
    found here, instead of the point's own.
    """

    variable: str | None = None
    file: str | None = None
    at: list[str] = []
    arguments: list[str] | None = None


class Instead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another upstream, for who is signed in otherwise: the agent is `asked` with these arguments and `says` so."""

    asked: Annotated[list[str], Meta(min_length=1)]
    says: Name
    upstream: Name
    at: Name
    unless_set: list[str] = []


class Point(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One provider as the agent knows it: our `upstream` for it, and `at`, the base URL the agent has by itself.

    `found`: where the user may have set another; the first that is there counts.
    """

    upstream: Name
    at: Name
    variables: dict[str, str] = {}
    arguments: list[str] = []
    found: list[Found] = []
    instead: Instead | None = None


class Setting(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A variable beside the base URL, never over one of the user's.

    Given where all holds: the upstream of `point` is at `host`; all of `if_set` are set, none of `unless_set`; none of
    `unless_file` exists. With `text` the value is a temporary file with that text.
    """

    variable: Name
    value: str = ""
    text: str | None = None
    point: str | None = None
    host: str | None = None
    if_set: list[str] = []
    unless_set: list[str] = []
    unless_file: list[str] = []


class Secrets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keys written out in a configuration, beside a base URL: handed over in variables, and referred to."""

    member: Name
    variable: Name
    written: Name


class Overlay(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A configuration that is laid over the user's own, or stands in for it.

    files      the user's own, a later one over an earlier
    at         where its base URLs stand; `*` is any key or item, and names the provider
    named_by   the member that names the provider where `*` is an item of a list
    points     names of providers whose base URL goes without saying, and their point
    keep       top-level members taken over from the user's; `*` all; none: the base URLs alone
    required   there is nothing to point without a file; the cure
    flag       the agent's own argument for the file
    variable, file, text, arguments
               handed over as JSON in a variable, or in a temporary file (as `text`, or in the form of its suffix)
               that the variable or the arguments name
    """

    at: Annotated[list[str], Meta(min_length=1)]
    files: list[str] = []
    named_by: str | None = None
    points: dict[str, str] = {}
    keep: list[str] = []
    required: str | None = None
    flag: str | None = None
    variable: str | None = None
    file: str | None = None
    text: str | None = None
    arguments: list[str] = []
    secrets: Secrets | None = None


class Note(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a custom base URL changes in the agent, and how that is known."""

    text: Name
    checked: Name


class Recipe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The shape of a file in `config/launch/`. `version`: arguments that make the agent tell its version."""

    agent: Name
    name: Name
    programs: list[str] = []
    version: tuple[str, ...] = ("--version",)
    points: dict[str, Point]
    overlay: Overlay | None = None
    settings: list[Setting] = []
    bypassed_by: dict[str, str] = {}
    notes: list[Note] = []


@cache
def recipes() -> tuple[Recipe, ...]:
    """The shipped recipes by name, the one for any other command last. Raises ConfigErrors where a file is wrong."""
    folder = config_dir() / "launch"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name
    )
    read = [recipe_in(parse(file.read_text(encoding="utf-8"), str(file))) for file in files]
    return tuple(sorted(read, key=lambda recipe: recipe.agent == OTHER))


def recipe_in(document: Document) -> Recipe:
    """A recipe file, checked for what a type cannot say. Raises ConfigError, ConfigErrors."""
    recipe = document.convert(Recipe)
    for name, point in recipe.points.items():
        for index, found in enumerate(point.found):
            if (found.variable is None) == (found.file is None):
                raise document.error(("points", name, "found", index), "name a variable or a file")
            if found.file is not None and not found.at:
                raise document.error(("points", name, "found", index), "say where in the file: at")
    for index, setting in enumerate(recipe.settings):
        if setting.host is not None and setting.point not in recipe.points:
            raise document.error(("settings", index, "host"), "say of which point: point")
    if recipe.overlay is not None:
        _check_overlay(document, recipe, recipe.overlay)
    return recipe


def _check_overlay(document: Document, recipe: Recipe, overlay: Overlay) -> None:
    for name, point in overlay.points.items():
        if point not in recipe.points:
            raise document.error(("overlay", "points", name), f"no point is named {point!r}")
    if "*" not in overlay.at:
        raise document.error(("overlay", "at"), "one item is *, which names the provider")
    if overlay.variable is None and not overlay.arguments:
        raise document.error(("overlay",), "say how it is handed over: variable or arguments", at_key=True)


def recipe_for(program: str, known: Sequence[Recipe], named: str | None = None) -> Recipe | None:
    """The recipe of an agent by its `named` name, else of a program by its path; None where none is."""
    if named is not None:
        return next((one for one in known if named in (one.agent, *one.programs)), None)
    stem = PurePath(program).name.lower()
    for suffix in (".exe", ".cmd", ".bat", ".ps1"):
        stem = stem.removesuffix(suffix)
    return next((one for one in known if stem in one.programs), None)
