"""How clients spell JSON: the same value in other bytes, and values that Python would not print as they were.

A history is kept as plain Python values with two additions: `Num` is a number with its literal, and strings may hold
lone surrogates and NUL. `spell` prints them, in a `Style` that says what a client respells this time.
"""

from __future__ import annotations

import json
import re

from msgspec import Struct


class Num(Struct, frozen=True):
    """A number as its literal: 1.0, 1e2, thirty digits."""

    literal: str


class Style(Struct, frozen=True, kw_only=True):
    """What of the spelling differs in this request; none of it is meaning.

    `marks`: bits for a mark on system (1), the tail (2), the tail before (4), the last tool (8). `flip`: strings
    become lists of one text block and back. `order`: keys of call inputs and schemas as they are, reversed or sorted.
    `tools`: how far the list of tools is rotated. `empties`: empty texts are added. `escape`: non-ASCII is escaped.
    `spaces`: separators with spaces.
    """

    marks: int = 0
    flip: bool = False
    order: int = 0
    tools: int = 0
    empties: bool = False
    escape: bool = False
    spaces: bool = False


PLAIN = Style()
_LONE = re.compile("[\ud800-\udfff]")
_OPEN = ("input", "input_schema", "args", "parametersJsonSchema")


def spell(value: object, style: Style = PLAIN) -> bytes:
    """`value` as JSON bytes. A lone surrogate leaves as an escape, as JavaScript prints it."""
    return _value(value, style, inside=False).encode("utf-8")


def _value(value: object, style: Style, *, inside: bool) -> str:
    comma, colon = (", ", ": ") if style.spaces else (",", ":")
    match value:
        case Num(literal=literal):
            return literal
        case str():
            return _string(value, style)
        case dict():
            pairs = list(value.items())
            if inside and style.order:
                pairs = pairs[::-1] if style.order == 1 else sorted(pairs)
            told = (
                f"{_string(key, style)}{colon}{_value(inner, style, inside=inside or key in _OPEN)}"
                for key, inner in pairs
            )
            return "{" + comma.join(told) + "}"
        case list() | tuple():
            return "[" + comma.join(_value(inner, style, inside=inside) for inner in value) + "]"
        case _:
            return json.dumps(value)


def _string(text: str, style: Style) -> str:
    if style.escape:
        return json.dumps(text)
    return _LONE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", json.dumps(text, ensure_ascii=False))
