"""Shapes of JSON values and the complaint where a value has another one.

A shape is a function of value, path and request that refuses in the provider's own words
[A1 A24 A25]; the tables of `schema` are built from the few below. Paths name members as sent.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from .refusal import refuse
from .request import Request

Shape = Callable[[Any, str, Request], None]


class Member(msgspec.Struct, frozen=True):
    """One member of an object: its shape, whether it must be there, and the betas that allow it."""

    shape: Shape
    required: bool = False
    betas: tuple[str, ...] = ()


Members = dict[str, Member]


def join(path: str, key: str | int) -> str:
    return f"{path}.{key}" if path else str(key)


def anything(_value: Any, _path: str, _request: Request) -> None:
    """Any value."""


def string(pattern: str | None = None) -> Shape:
    """A string, of this pattern if one is given."""
    compiled = re.compile(pattern) if pattern else None

    def check(value: Any, path: str, _request: Request) -> None:
        if not isinstance(value, str):
            refuse(f"{path}: Input should be a valid string")
        if compiled is not None and not compiled.search(value):
            refuse(f"{path}: String should match pattern '{pattern}'")

    return check


def boolean(value: Any, path: str, _request: Request) -> None:
    if not isinstance(value, bool):
        refuse(f"{path}: Input should be a valid boolean")


def number(value: Any, path: str, _request: Request) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        refuse(f"{path}: Input should be a valid number")


def integer(minimum: int | None = None) -> Shape:
    """A whole number, not below `minimum`."""

    def check(value: Any, path: str, _request: Request) -> None:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not whole:
            refuse(f"{path}: Input should be a valid integer")
        if minimum is not None and value < minimum:
            refuse(f"{path}: Input should be greater than or equal to {minimum}")

    return check


def dictionary(value: Any, path: str, _request: Request) -> None:
    if not isinstance(value, dict):
        refuse(f"{path}: Input should be a valid dictionary")


def one_of(*words: str) -> Shape:
    """One of these strings."""
    quoted = [f"'{word}'" for word in words]
    listed = quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]

    def check(value: Any, path: str, _request: Request) -> None:
        if value not in words:
            refuse(f"{path}: Input should be {listed}")

    return check


def array(item: Shape, name: str = "list") -> Shape:
    """An array of `item`."""

    def check(value: Any, path: str, request: Request) -> None:
        if not isinstance(value, list):
            refuse(f"{path}: Input should be a valid {name}")
        for index, element in enumerate(value):
            item(element, join(path, index), request)

    return check


def text_or(other: Shape) -> Shape:
    """A string, or else `other`."""

    def check(value: Any, path: str, request: Request) -> None:
        if not isinstance(value, str):
            other(value, path, request)

    return check


def members(table: Members, *, open_ended: bool = False) -> Shape:
    """An object with these members and, unless open-ended, no others; null is absent.

    A member whose beta was not sent is an extra input like any unknown one [A1].
    """

    def check(value: Any, path: str, request: Request) -> None:
        if not isinstance(value, dict):
            refuse(f"{path}: Input should be a valid dictionary")
        for key, member in table.items():
            if key not in value or (value[key] is None and not member.required):
                if member.required:
                    refuse(f"{join(path, key)}: Field required")
                continue
            if member.betas and not request.has_beta(*member.betas):
                refuse(f"{join(path, key)}: Extra inputs are not permitted")
            member.shape(value[key], join(path, key), request)
        for key in value if not open_ended else ():
            if key not in table:
                refuse(f"{join(path, key)}: Extra inputs are not permitted")

    return check


def tagged(kinds: dict[str, Shape], label: Callable[[str], str] = str) -> Shape:
    """An object whose `type` chooses its shape; the tag joins the path of what is inside."""
    expected = ", ".join(f"'{kind}'" for kind in kinds)

    def check(value: Any, path: str, request: Request) -> None:
        if not isinstance(value, dict):
            refuse(f"{path}: Input should be a valid dictionary")
        if "type" not in value:
            refuse(f"{path}.type: Field required")
        kind = value["type"]
        shape = kinds.get(kind) if isinstance(kind, str) else None
        if shape is None:
            refuse(
                f"{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags: "
                f"{expected}"
            )
        shape(value, join(path, label(kind)), request)

    return check
