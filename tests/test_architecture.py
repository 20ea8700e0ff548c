"""Data goes one way: which module may import which, read from the source with `ast`."""

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "proxy"

ORDER = [
    {
        "errors",
        "rawjson",
        "yamlfile",
        "yamlnodes",
        "yamlstruct",
        "sse",
        "jsonarray",
        "modelfacts",
        "shipped",
        "images",
        "imaging",
        "inline",
    },
    {"conversation", "memo", "rules", "runs"},
    {"identity", "edits", "usage", "streamusage", "answer", "models", "tokens", "agents", "wellformed"},
    {"counting", "calibration"},
    {"ledger", "branch", "recall", "economics", "hindsight", "spool"},
    {"stages", "dialects"},
    {"policy", "passage", "replay"},
    {"rewrite", "outline"},
    {"explain", "turns", "misses", "observed", "recording"},
    {"stores"},
    {"gateway", "simulator"},
    {"demo", "launch", "playback"},
    {"cli"},
]
"""What is on a line may import what is on its own or an earlier one. Packages count as one."""

RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}

PURE = {
    "rewrite",
    "passage",
    "replay",
    "wellformed",
    "misses",
    "observed",
    "stages",
    "ledger",
    "economics",
    "hindsight",
    "counting",
    "calibration",
    "identity",
    "edits",
    "conversation",
    "runs",
    "dialects",
    "rawjson",
    "memo",
    "spool",
}
"""The core: a function of its arguments. Time and state of the world come in as facts."""

IMPURE = {
    *("time", "datetime", "random", "secrets", "uuid"),
    *("os", "io", "pathlib", "tempfile", "shutil", "subprocess", "glob"),
    *("socket", "asyncio", "threading", "sqlite3", "logging", "structlog", "aiohttp"),
}

ONLY: dict[str, set[str]] = {
    "dialects": {
        "dialects",
        "errors",
        "rawjson",
        "memo",
        "rules",
        "runs",
        "images",
        "inline",
        "conversation",
        "usage",
        "models",
    },
    "simulator": {"simulator"},
}
"""Packages that see no more than this, whatever the order would allow."""


class Import(NamedTuple):
    importer: str
    """Dotted, below the package: `stages.balance`."""
    target: str
    """Dotted; inside the package it starts with a dot: `.conversation`."""
    line: int

    @property
    def unit(self) -> str:
        return self.importer.partition(".")[0]

    @property
    def inner(self) -> str | None:
        """The unit of the package that is imported, if it is one of ours."""
        return self.target[1:].partition(".")[0] if self.target.startswith(".") else None

    @property
    def outer(self) -> str | None:
        """The top-level name that is imported, if it is not ours."""
        return None if self.target.startswith(".") else self.target.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


def imports(source: str, importer: str, *, package: bool = False) -> list[Import]:
    """Every import of a module, wherever in it. `package`: the source is that of an `__init__`."""
    found: list[Import] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [Import(importer, alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found += [Import(importer, f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            home = importer.split(".") if importer else []
            base = home[: len(home) - node.level + (1 if package else 0)]
            inside = ".".join([*base, *([node.module] if node.module else [])])
            found += [
                Import(importer, f".{inside}" if inside else f".{alias.name}", node.lineno)
                for alias in node.names
            ]
    return found


def modules() -> dict[str, Path]:
    """Every module below the package by its dotted name; the package itself is the empty name."""
    named = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        named[".".join(part for part in parts if part != "__init__")] = path
    return named


def all_imports() -> list[Import]:
    return [
        found
        for name, path in modules().items()
        for found in imports(path.read_text(), name, package=path.name == "__init__.py")
    ]


def outside_the_order(found: Iterable[Import]) -> list[str]:
    """Imports that go against the order, or beyond what a closed package may see."""
    wrong = []
    for one in found:
        if one.inner is None or one.unit not in RANK or one.inner == one.unit:
            continue
        allowed = ONLY.get(one.unit, {name for name, rank in RANK.items() if rank <= RANK[one.unit]})
        if one.inner not in allowed:
            wrong.append(str(one))
    return wrong


def test_every_module_has_a_place_in_the_order() -> None:
    """A new module is put into the order before anything imports it."""
    units = {name.partition(".")[0] for name in modules()} - {"", "__main__"}
    assert units - RANK.keys() == set()


def test_imports_follow_the_order() -> None:
    """Nothing imports what comes after it; dialects and the simulator see only what they must."""
    assert outside_the_order(all_imports()) == []


def test_stages_and_dialects_do_not_see_each_other() -> None:
    """A stage does not know which provider it serves, a dialect not what is done to a request."""
    pairs = {(one.unit, one.inner) for one in all_imports()}
    assert pairs & {("stages", "dialects"), ("dialects", "stages")} == set()


def test_only_the_commands_import_the_gateway_and_the_simulator() -> None:
    """The core runs without a server, the server without a provider."""
    inward = [one for one in all_imports() if one.inner in {"gateway", "simulator"} and one.inner != one.unit]
    assert [
        str(one) for one in inward if one.unit not in {"cli", "demo", "launch", "playback", "__main__"}
    ] == []


def test_the_package_itself_imports_nothing() -> None:
    """`import proxy` costs nothing and pulls in no server."""
    assert [str(one) for one in all_imports() if one.unit == "" and one.outer != "__future__"] == []


def test_aiohttp_stays_at_the_edge() -> None:
    """Only the gateway and the simulator's server know the HTTP library."""
    users = {one.importer for one in all_imports() if one.outer == "aiohttp"}
    assert {name for name in users if not name.startswith("gateway.") and name != "simulator.server"} == set()


def test_the_core_is_pure() -> None:
    """No clock, no randomness, no environment, no files, no sockets, no logging in the core."""
    assert [str(one) for one in all_imports() if one.unit in PURE and one.outer in IMPURE] == []


def test_imports_inside_the_package_are_relative() -> None:
    """Another distribution owns the import name `proxy` too: we never ask for it by name."""
    assert [str(one) for one in all_imports() if one.outer == "proxy"] == []


def circles(found: Iterable[Import], known: Iterable[str]) -> set[str]:
    """The modules that take part in an import circle, or depend on one.

    A member may import its own package, whose `__init__` lists it: the protocol stands beside the table there.
    """
    graph: dict[str, set[str]] = {name: set() for name in known}
    for one in found:
        target = one.target[1:]
        if one.inner is not None and target in graph and not f"{one.importer}.".startswith(f"{target}."):
            graph[one.importer].add(target)
    done: set[str] = set()
    while ready := {name for name, needs in graph.items() if name not in done and needs <= done}:
        done |= ready
    return set(graph) - done


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """Within a line of the order, too, imports go one way."""
    assert circles(all_imports(), modules()) == set()


def test_a_circle_is_noticed() -> None:
    """Two modules of one line that need each other are found, a package and its member are not."""
    mutual = [*imports("from .usage import U", "models"), *imports("from .models import M", "usage")]
    assert circles(mutual, ["models", "usage"]) == {"models", "usage"}
    listed = [
        *imports("from .a import A", "stages", package=True),
        *imports("from . import Stage", "stages.a"),
    ]
    assert circles(listed, ["stages", "stages.a"]) == set()


def test_no_module_is_named_after_nothing() -> None:
    """A module has the name of what it holds."""
    names = {part for name in modules() for part in name.split(".")}
    assert (
        names & {"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc", "base"}
        == set()
    )


@pytest.mark.parametrize(
    ("importer", "package", "source", "targets"),
    [
        ("rewrite", False, "import os, a.b", ["os", "a.b"]),
        ("rewrite", False, "from .edits import Edit", [".edits"]),
        ("rewrite", False, "from . import stages", [".stages"]),
        ("stages.balance", False, "from ..dialects.anthropic import read", [".dialects.anthropic"]),
        ("stages.balance", False, "from .. import dialects", [".dialects"]),
        ("stages", True, "from . import balance\nfrom ..edits import Edit", [".stages", ".edits"]),
        ("ledger", False, "def f():\n    from datetime import datetime", ["datetime.datetime"]),
    ],
)
def test_imports_are_found(importer: str, package: bool, source: str, targets: list[str]) -> None:
    """Relative levels, packages and imports inside functions are all seen."""
    assert [one.target for one in imports(source, importer, package=package)] == targets


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("edits", "from .rewrite import rewrite"),
        ("dialects.anthropic", "from ..identity import key"),
        ("simulator.cache", "from ..conversation import Part"),
        ("stages.balance", "from ..gateway import app"),
    ],
)
def test_an_import_against_the_order_is_noticed(importer: str, source: str) -> None:
    """The order is not vacuous."""
    assert outside_the_order(imports(source, importer))
