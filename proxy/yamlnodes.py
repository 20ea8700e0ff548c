"""YAML text -> nodes that know their place, read by the YAML 1.2 core schema.

PyYAML's own resolver speaks YAML 1.1, where `off` is false, `1:30` is ninety and `2026-01-01` a date. In a policy
those are words, so plain scalars are resolved here by the core schema: only `true` and `false` are booleans.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from yaml import MappingNode, MarkedYAMLError, Node, ScalarNode, SequenceNode, YAMLError
from yaml.composer import Composer
from yaml.error import Mark
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from .errors import ConfigError

YamlPath: TypeAlias = tuple[str | int, ...]
Scalar: TypeAlias = str | int | float | bool | None

NULL, BOOL, INT, FLOAT, STR, MERGE = (
    f"tag:yaml.org,2002:{t}" for t in ("null", "bool", "int", "float", "str", "merge")
)
_CONTAINERS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")

_CORE = (
    (NULL, r"~|null|Null|NULL|", "~nN\0"),
    (BOOL, r"true|True|TRUE|false|False|FALSE", "tTfF"),
    (INT, r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (FLOAT, r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+.0123456789"),
    (MERGE, r"<<", "<"),
)  # fmt: skip


_SPECIAL = re.compile(r"\.(inf|nan)$")


class _Resolver(BaseResolver):
    pass


for _tag, _pattern, _first in _CORE:
    _starts = ["" if letter == "\0" else letter for letter in _first]
    _Resolver.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern})$"), _starts)


class _Source(io.StringIO):
    """Text with the name that libyaml puts into its marks."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


class _Loader(Reader, Scanner, Parser, Composer, _Resolver):
    def __init__(self, text: str, name: str) -> None:
        Reader.__init__(self, text)
        self.name = name  # marks carry it, so that a merged document still says which file a key came from
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        _Resolver.__init__(self)


def compose(text: str, name: str) -> Node:
    """The one document in `text`. Raises ConfigError for bad syntax, no or several documents, hopeless nesting."""
    root = _compose_fast(text, name) or _compose(text, name)
    if root is None:
        raise ConfigError(name, 1, 1, "the file is empty")
    return root


def _compose_fast(text: str, name: str) -> Node | None:
    """With libyaml, ten times as fast; None where it is missing or objects: PyYAML's own parser says why in better words."""
    try:
        from yaml._yaml import CParser  # noqa: PLC0415  a build of PyYAML without libyaml has no such module
    except ImportError:
        return None

    class Fast(CParser, _Resolver):
        def __init__(self) -> None:
            CParser.__init__(self, _Source(text, name))
            _Resolver.__init__(self)

    try:
        return Fast().get_single_node()
    except (YAMLError, RecursionError):
        return None


def _compose(text: str, name: str) -> Node | None:
    try:
        return _Loader(text, name).get_single_node()
    except ReaderError as fault:
        before = text[: fault.position]
        line, column = before.count("\n") + 1, fault.position - (before.rfind("\n") + 1) + 1
        raise ConfigError(name, line, column, f"character U+{fault.character:04X} is not allowed") from fault
    except MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise ConfigError(name, line, column, _in_words(fault)) from fault
    except RecursionError as fault:
        raise ConfigError(name, 1, 1, "nested too deeply") from fault


def _in_words(fault: MarkedYAMLError) -> str:
    problem = fault.problem or "syntax error"
    if "'\\t'" in problem:
        return "a tab where only spaces may indent"
    if problem == "but found another document":
        return "a second document; a file holds one"
    return f"{problem} ({fault.context})" if fault.context else problem


def fault_at(mark: Mark, message: str) -> ConfigError:
    """An error that points at a mark."""
    return ConfigError(mark.name, mark.line + 1, mark.column + 1, message)


def entries(node: MappingNode) -> Iterator[tuple[ScalarNode, Node]]:
    """Keys and values of a mapping, merge keys (`<<`) opened. What stands in the mapping itself hides what is merged.

    Raises ConfigError for keys that are not text, for a key given twice, and for a merge of anything but mappings.
    """
    yield from _entries(node, ())


def _entries(node: MappingNode, above: tuple[MappingNode, ...]) -> Iterator[tuple[ScalarNode, Node]]:
    if any(node is parent for parent in above):
        raise fault_at(node.start_mark, "a mapping that merges itself")
    own: dict[str, ScalarNode] = {}
    merges: list[Node] = []
    for key, value in node.value:
        if key.tag == MERGE:
            merges.extend(value.value if isinstance(value, SequenceNode) else [value])
            continue
        if not isinstance(key, ScalarNode) or key.tag != STR:
            raise fault_at(key.start_mark, f"a key must be text, found {describe(key)}")
        first = own.get(key.value)
        if first is not None:
            raise fault_at(
                key.start_mark, f"duplicate key {key.value!r}, first on line {first.start_mark.line + 1}"
            )
        own[key.value] = key
        yield key, value
    for merged in merges:
        if not isinstance(merged, MappingNode):
            raise fault_at(merged.start_mark, f"only mappings can be merged, found {describe(merged)}")
        for key, value in _entries(merged, (*above, node)):
            if key.value not in own:
                own[key.value] = key
                yield key, value


def scalar_value(node: ScalarNode) -> Scalar:
    """The value of a scalar by its tag. Raises ConfigError for a tag outside the core schema or one that does not fit."""
    read = _READ.get(node.tag)
    if read is None:
        raise fault_at(node.start_mark, f"tag {node.tag!r} is not allowed")
    try:
        return read(node.value)
    except (ValueError, KeyError) as fault:
        raise fault_at(node.start_mark, f"{describe(node)} cannot be read") from fault


_READ: dict[str, Callable[[str], Scalar]] = {
    STR: str,
    MERGE: str,
    NULL: lambda _: None,
    BOOL: lambda text: {"true": True, "false": False}[text.lower()],
    INT: lambda text: int(text, 0) if text.startswith(("0o", "0x")) else int(text),
    FLOAT: lambda text: float(_SPECIAL.sub(r"\1", text.lower())),
}


def is_plain(node: Node) -> bool:
    """Does a container carry no tag of its own (`!!python/tuple` and the like)?"""
    return isinstance(node, ScalarNode) or node.tag in _CONTAINERS


def describe(node: Node) -> str:
    """What a node is, in the words of a message."""
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    text = node.value if len(node.value) <= 40 else node.value[:39] + "\N{HORIZONTAL ELLIPSIS}"
    if node.tag == NULL:
        return "nothing"
    if node.tag in (INT, FLOAT):
        return f"the number {text}"
    return text if node.tag == BOOL else repr(text)


def overlay(above: Node, below: Node) -> Node:
    """`above` laid over `below`: mappings key by key, anything else replaces. Places stay where they were written."""
    if not (isinstance(above, MappingNode) and isinstance(below, MappingNode)):
        return above
    own = {key.value: (key, value) for key, value in entries(above)}
    merged: list[tuple[Node, Node]] = []
    for key, value in entries(below):
        found = own.pop(key.value, None)
        merged.append((key, value) if found is None else (found[0], overlay(found[1], value)))
    merged.extend(own.values())
    return MappingNode(above.tag, merged, above.start_mark, above.end_mark)
