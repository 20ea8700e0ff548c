"""YAML nodes -> `msgspec.Struct`, every mistake noted at its place.

`msgspec.convert` stops at the first mistake and knows no places, so the types are walked here, over the tree that
`msgspec.inspect` makes of them.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import inspect
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from .errors import ConfigError
from .yamlnodes import (
    BOOL,
    FLOAT,
    INT,
    NULL,
    STR,
    YamlPath,
    describe,
    entries,
    fault_at,
    is_plain,
    scalar_value,
)

MOST_ERRORS = 20
_MOST_NODES = 100_000  # a chain of aliases doubles at each step; no file of ours comes near
_MOST_DEPTH = 100


class ConfigErrors(ConfigError):  # noqa: N818  many of them
    """All mistakes of one file, at most twenty, in the order of the file. Its own place is that of the first."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        first = errors[0]
        super().__init__(first.path, first.line, first.column, first.message)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'x'?` for a word close to a known one, else the known ones where they are few."""
    names = [str(name) for name in known]
    close = get_close_matches(word, names, n=1, cutoff=0.6) or [n for n in names if n.lower() == word.lower()]
    if close:
        return f", did you mean {close[0]!r}?"
    return f", known: {', '.join(names)}" if 0 < len(names) <= 12 else ""


class _Bad:
    """Stands for a value that could not be read; its error is already noted."""


_BAD = _Bad()


class Reading:
    """One conversion: notes every mistake and goes on, so that a file is mended in one round."""

    def __init__(self) -> None:
        self.errors: list[ConfigError] = []
        self._nodes = 0

    def note(self, node: Node, message: str, where: YamlPath, tail: str = "") -> _Bad:
        place = f" ({_dotted(where)})" if where else ""
        self.keep(fault_at(node.start_mark, f"{message}{place}{tail}"))
        return _BAD

    def keep(self, error: ConfigError) -> None:
        if str(error) not in map(str, self.errors):  # a merged mapping is read at each place that merges it
            self.errors.append(error)

    def value(self, node: Node, kind: inspect.Type, where: YamlPath) -> Any:
        self._nodes += 1
        if self._nodes > _MOST_NODES or len(where) > _MOST_DEPTH:
            if self._nodes <= _MOST_NODES or self._nodes == _MOST_NODES + 1:
                return self.note(node, "aliases expand too far", ())
            return _BAD
        if len(self.errors) >= MOST_ERRORS:
            return _BAD
        if not is_plain(node):
            return self.note(node, f"tag {node.tag!r} is not allowed", where)
        if isinstance(kind, inspect.Metadata):
            return self.value(node, kind.type, where)
        if isinstance(kind, inspect.UnionType):
            return self._union(node, kind, where)
        if isinstance(kind, inspect.AnyType):
            return self._any(node, where)
        if isinstance(node, MappingNode):
            return self._mapping(node, kind, where)
        if isinstance(node, SequenceNode):
            return self._sequence(node, kind, where)
        assert isinstance(node, ScalarNode)
        return self._scalar(node, kind, where)

    def expected(self, node: Node, kinds: Sequence[inspect.Type], where: YamlPath) -> _Bad:
        words = list(dict.fromkeys(_words(kind) for kind in kinds))
        message = f"expected {' or '.join(words)}, found {describe(node)}"
        if isinstance(node, ScalarNode):
            if any(isinstance(kind, inspect.StrType) for kind in kinds):
                return self.note(node, message, where, "; put it in quotes" if node.tag != NULL else "")
            choices = [str(choice) for kind in kinds for choice in _choices(kind)]
            boolean = _YES_NO.get(node.value.lower())
            if boolean is not None and any(isinstance(kind, inspect.BoolType) for kind in kinds):
                return self.note(node, message, where, f", did you mean {boolean}?")
            close = suggestion(node.value, choices) if choices else ""
            return self.note(node, message, where, close if "did you mean" in close else "")
        return self.note(node, message, where)

    def _union(self, node: Node, kind: inspect.UnionType, where: YamlPath) -> Any:
        kinds = [k.type if isinstance(k, inspect.Metadata) else k for k in kind.types]
        able = [k for k in kinds if _accepts(k, node)]
        if isinstance(node, ScalarNode):
            listed = [k for k in able if _is_listed(k, node)]
            able = listed or [k for k in able if not _choices(k)]
        if not able:
            return self.expected(node, kinds, where)
        whole = [k for k in able if isinstance(k, inspect.IntType)]  # of `int | float`
        return self.value(node, (whole or able)[0], where)

    def _any(self, node: Node, where: YamlPath) -> Any:
        if isinstance(node, MappingNode):
            return self._mapping(node, inspect.DictType(inspect.StrType(), inspect.AnyType()), where)
        if isinstance(node, SequenceNode):
            return self._sequence(node, inspect.ListType(inspect.AnyType()), where)
        assert isinstance(node, ScalarNode)
        try:
            return scalar_value(node)
        except ConfigError as fault:
            self.keep(fault)
            return _BAD

    def _mapping(self, node: MappingNode, kind: inspect.Type, where: YamlPath) -> Any:
        if not isinstance(kind, inspect.StructType | inspect.DictType):
            return self.expected(node, [kind], where)
        try:
            pairs = list(entries(node))
        except ConfigError as fault:
            self.keep(fault)
            return _BAD
        if isinstance(kind, inspect.StructType):
            return self._struct(node, pairs, kind, where)
        values = {key.value: self.value(value, kind.value_type, (*where, key.value)) for key, value in pairs}
        if _BAD in values.values():
            return _BAD
        return self._sized(node, values, kind, where)

    def _struct(
        self, node: Node, pairs: list[tuple[ScalarNode, Node]], kind: inspect.StructType, where: YamlPath
    ) -> Any:
        fields = {field.encode_name: field for field in kind.fields}
        values: dict[str, Any] = {}
        sound = True
        for key, value in pairs:
            field = fields.get(key.value)
            if field is None:
                self.note(key, f"unknown key {key.value!r}", where, suggestion(key.value, fields))
                sound = False
                continue
            values[field.name] = self.value(value, field.type, (*where, key.value))
        for field in kind.fields:
            if field.required and field.name not in values:
                self.note(node, f"missing key {field.encode_name!r}", where)
                sound = False
        if not sound or any(value is _BAD for value in values.values()):
            return _BAD
        try:
            return kind.cls(**values)
        except (ValueError, TypeError) as fault:  # from the Struct's own __post_init__
            return self.note(node, str(fault), where)

    def _sequence(self, node: SequenceNode, kind: inspect.Type, where: YamlPath) -> Any:
        if isinstance(kind, inspect.TupleType):
            if len(node.value) != len(kind.item_types):
                return self.note(
                    node, f"expected {len(kind.item_types)} items, found {len(node.value)}", where
                )
            kinds: Sequence[inspect.Type] = kind.item_types
        elif isinstance(
            kind, inspect.ListType | inspect.VarTupleType | inspect.SetType | inspect.FrozenSetType
        ):
            kinds = [kind.item_type] * len(node.value)
        else:
            return self.expected(node, [kind], where)
        items = [
            self.value(item, k, (*where, i))
            for i, (item, k) in enumerate(zip(node.value, kinds, strict=True))
        ]
        if any(item is _BAD for item in items):
            return _BAD
        if isinstance(kind, inspect.TupleType):
            return tuple(items)
        return self._sized(node, _BUILD[type(kind)](items), kind, where)

    def _sized(self, node: Node, value: Any, kind: Any, where: YamlPath) -> Any:
        low, high = kind.min_length, kind.max_length
        if low is not None and len(value) < low:
            return self.note(node, f"expected at least {_count(low, kind)}", where)
        if high is not None and len(value) > high:
            return self.note(node, f"expected at most {_count(high, kind)}", where)
        return value

    def _scalar(self, node: ScalarNode, kind: inspect.Type, where: YamlPath) -> Any:
        if not _accepts(kind, node):
            return self.expected(node, [kind], where)
        try:
            value = scalar_value(node)
        except ConfigError as fault:
            self.keep(fault)
            return _BAD
        if isinstance(kind, inspect.LiteralType | inspect.EnumType):
            if not _is_listed(kind, node):
                choices = [str(choice) for choice in _choices(kind)]
                message = f"expected one of {', '.join(choices)}, found {describe(node)}"
                close = suggestion(str(node.value), choices)
                return self.note(node, message, where, close if "did you mean" in close else "")
            return kind.cls(value) if isinstance(kind, inspect.EnumType) else value
        if isinstance(kind, inspect.IntType | inspect.FloatType):
            return self._number(node, value, kind, where)
        if isinstance(kind, inspect.StrType):
            if kind.pattern is not None and not re.search(kind.pattern, str(value)):
                return self.note(node, f"expected text like {kind.pattern}, found {describe(node)}", where)
            return self._sized(node, value, kind, where)
        return value

    def _number(
        self, node: Node, value: Any, kind: inspect.IntType | inspect.FloatType, where: YamlPath
    ) -> Any:
        if not math.isfinite(value):
            return self.note(node, f"expected a finite number, found {describe(node)}", where)
        for bound, sign, holds in (
            (kind.ge, ">=", operator.ge),
            (kind.gt, ">", operator.gt),
            (kind.le, "<=", operator.le),
            (kind.lt, "<", operator.lt),
        ):
            if bound is not None and not holds(value, bound):
                return self.note(node, f"expected a number {sign} {bound}, found {describe(node)}", where)
        return float(value) if isinstance(kind, inspect.FloatType) else value


_YES_NO = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}

_BUILD: dict[type, Callable[[list[Any]], Any]] = {
    inspect.ListType: list,
    inspect.VarTupleType: tuple,
    inspect.SetType: set,
    inspect.FrozenSetType: frozenset,
}

_UNITS: dict[type, str] = {inspect.StrType: "character", inspect.DictType: "key"}

_TAGS: dict[type, tuple[str, ...]] = {
    inspect.NoneType: (NULL,),
    inspect.BoolType: (BOOL,),
    inspect.IntType: (INT,),
    inspect.FloatType: (INT, FLOAT),
    inspect.StrType: (STR,),
    inspect.EnumType: (STR, INT),
}

_WORDS: dict[type, str] = {
    inspect.NoneType: "nothing",
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.StrType: "text",
    inspect.StructType: "a mapping",
    inspect.DictType: "a mapping",
}


def _accepts(kind: inspect.Type, node: Node) -> bool:
    """May a node of this shape be read as `kind` at all?"""
    if isinstance(node, MappingNode):
        return isinstance(kind, inspect.StructType | inspect.DictType | inspect.AnyType)
    if isinstance(node, SequenceNode):
        return type(kind) in _BUILD or isinstance(kind, inspect.TupleType | inspect.AnyType)
    if isinstance(kind, inspect.LiteralType):
        return (isinstance(node, ScalarNode) and _is_listed(kind, node)) or node.tag == STR
    if node.tag.startswith("tag:yaml.org,2002:") and node.tag not in (NULL, BOOL, INT, FLOAT, STR):
        return type(kind) in _TAGS  # so that the tag itself is the mistake that is named
    return node.tag in _TAGS.get(type(kind), ())


def _count(number: int, kind: inspect.Type) -> str:
    return f"{number} {_UNITS.get(type(kind), 'item')}{'' if number == 1 else 's'}"


def _choices(kind: inspect.Type) -> tuple[Any, ...]:
    if isinstance(kind, inspect.LiteralType):
        return tuple(kind.values)
    if isinstance(kind, inspect.EnumType):
        return tuple(member.value for member in kind.cls)
    return ()


def _is_listed(kind: inspect.Type, node: ScalarNode) -> bool:
    try:
        value = scalar_value(node)
    except ConfigError:  # named where the value is read
        return False
    return any(type(value) is type(choice) and value == choice for choice in _choices(kind))


def _words(kind: inspect.Type) -> str:
    choices = _choices(kind)
    if choices:
        return " or ".join(str(choice) for choice in choices)
    return _WORDS.get(type(kind), "a list")


def _dotted(path: YamlPath) -> str:
    """`stages.stale.tools[0]`"""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
