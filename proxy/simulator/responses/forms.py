"""Forms of JSON values, and what the API says of one that does not fit [A211]."""

import re
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from ..chat.refusal import bad_type, refuse

Json = dict[str, Any]

EMPTY = "empty array. Expected an array with minimum length 1, but got an empty array instead."
_ID = re.compile(r"[A-Za-z0-9_-]*")


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a form may depend on beside the value. `marks`: the model takes breakpoints [B104]."""

    model: str
    marks: bool


Check = Callable[[Any, str, Context], None]
"""Refuses a value at a place, or does nothing."""


class Member(msgspec.Struct, frozen=True):
    """A member of an object. One that is not required may also be null."""

    check: Check
    required: bool = False


Members = dict[str, Member]


def needs(check: Check) -> Member:
    """A required member."""
    return Member(check, required=True)


def may(check: Check) -> Member:
    """An optional member."""
    return Member(check)


def bad_value(value: Any, where: str, values: tuple[str, ...]) -> NoReturn:
    """Refuse a value that is none of those supported."""
    *others, last = (f"'{one}'" for one in values)
    comma = "," if len(others) > 1 else ""
    listed = f"{', '.join(others)}{comma} and {last}" if others else last
    refuse(f"Invalid value: '{value}'. Supported values are: {listed}.", where, "invalid_value")


def missing(where: str) -> NoReturn:
    """Refuse for want of a member."""
    refuse(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")


def unknown(where: str) -> NoReturn:
    """Refuse a member that nobody knows."""
    refuse(f"Unknown parameter: '{where}'.", where, "unknown_parameter")


def unsupported(where: str) -> NoReturn:
    """Refuse a parameter that this model does not have."""
    refuse(
        f"Unsupported parameter: '{where}' is not supported with this model.", where, "unsupported_parameter"
    )


def anything(value: Any, where: str, context: Context) -> None:
    """Any value."""


def text(value: Any, where: str, context: Context) -> None:  # noqa: ARG001  a check like the others
    """A string."""
    if not isinstance(value, str):
        bad_type(value, where, "a string")


def boolean(value: Any, where: str, context: Context) -> None:  # noqa: ARG001
    """True or false."""
    if not isinstance(value, bool):
        bad_type(value, where, "a boolean")


def whole(value: Any, where: str, context: Context) -> None:  # noqa: ARG001
    """An integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        bad_type(value, where, "an integer")


def mapping(value: Any, where: str, context: Context) -> None:  # noqa: ARG001
    """Any object."""
    if not isinstance(value, dict):
        bad_type(value, where, "an object")


def at_most(length: int, *, least: int = 0) -> Check:
    """A string of so many characters."""

    def check(value: Any, where: str, context: Context) -> None:
        text(value, where, context)
        if len(value) > length:
            refuse(
                f"Invalid '{where}': string too long. Expected a string with maximum length {length}, "
                f"but got a string with length {len(value)} instead.",
                where,
                "string_above_max_length",
            )
        if len(value) < least:
            refuse(
                f"Invalid '{where}': empty string. Expected a string with minimum length {least}, "
                "but got an empty string instead.",
                where,
                "empty_string",
            )

    return check


def one_of(*values: str) -> Check:
    """One of these strings."""

    def check(value: Any, where: str, context: Context) -> None:
        text(value, where, context)
        if value not in values:
            bad_value(value, where, values)

    return check


def item_id(*prefixes: str) -> Check:
    """An id of an item: its length, its letters, and the prefix of its kind [A207]."""
    fits = at_most(64)

    def check(value: Any, where: str, context: Context) -> None:
        fits(value, where, context)
        if not _ID.fullmatch(value):
            refuse(
                f"Invalid '{where}': '{value}'. Expected an ID that contains letters, numbers, underscores, "
                "or dashes, but this value contained additional characters.",
                where,
                "invalid_value",
            )
        if prefixes and not value.startswith(prefixes):
            refuse(
                f"Invalid '{where}': '{value}'. Expected an ID that begins with '{prefixes[0]}'.",
                where,
                "invalid_value",
            )

    return check


def each(check_one: Check, *, least: int = 0) -> Check:
    """An array of such values."""

    def check(value: Any, where: str, context: Context) -> None:
        if not isinstance(value, list):
            bad_type(value, where, "an array of objects")
        if len(value) < least:
            refuse(f"Invalid '{where}': {EMPTY}", where, "empty_array")
        for at, one in enumerate(value):
            check_one(one, f"{where}[{at}]", context)

    return check


def text_or(other: Check) -> Check:
    """A string, or another form."""

    def check(value: Any, where: str, context: Context) -> None:
        if not isinstance(value, str):
            other(value, where, context)

    return check


def form(members: Members, *, open_ended: bool = False) -> Check:
    """An object with these members and, unless open-ended, no others."""

    def check(value: Any, where: str, context: Context) -> None:
        mapping(value, where, context)
        for name, member in members.items():
            here = f"{where}.{name}" if where else name
            given = value.get(name)
            if given is None and (name not in value or not member.required):
                if member.required:
                    missing(here)
                continue
            member.check(given, here, context)
        for name in value if not open_ended else ():
            if name not in members:
                unknown(f"{where}.{name}" if where else name)

    return check


def tagged(kinds: dict[str, Check], *, names: tuple[str, ...] = (), at_type: bool = True) -> Check:
    """An object whose `type` says its form. `names`: the values that a refusal lists, where others than these;
    it points at the member, or at the object itself."""
    listed = names or tuple(kinds)

    def check(value: Any, where: str, context: Context) -> None:
        mapping(value, where, context)
        if value.get("type") is None:
            missing(f"{where}.type")
        kind = value["type"]
        known = kinds.get(kind) if isinstance(kind, str) else None
        if known is None:
            bad_value(kind, f"{where}.type" if at_type else where, listed)
        known(value, where, context)

    return check
