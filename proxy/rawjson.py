"""Open and close JSON without respelling it.

`members` and `items` open one level of a JSON value and give the client's own slices; `closed_object` and
`closed_array` put slices together again. Number literals, escapes, inner spacing and key order of what is
not opened stay as they came. `repair` mends, in the bytes, what no strict parser reads [A4].
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Raw, Struct

from .errors import BodyError

_object = msgspec.json.Decoder(dict[str, Raw])
_array = msgspec.json.Decoder(list[Raw])
_encode = msgspec.json.Encoder().encode

REPLACEMENT = b"\\ufffd"
NUL = b"\\u0000"
EMPTY = Raw(b"[]")

_BETWEEN = re.compile(rb"[\s,]*")

_STRETCH = 64
"""Elements compared at once: longer stretches fall out of the processor's cache."""

# A run of \uXXXX escapes, with the backslashes before it so that an escaped backslash is not taken for one.
_ESCAPES = re.compile(
    rb"(\\\\)|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([dD][89a-fA-F][0-9a-fA-F]{2}|0000)"
)


def members(raw: Raw | bytes) -> list[tuple[str, Raw]]:
    """The members of a JSON object in order, values as the client's slices.

    Raises BodyError where the value is not an object, is not valid JSON, or names a key twice: such an
    object cannot be opened and closed again without deciding which value was meant.
    """
    try:
        opened = _object.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BodyError(f"not a JSON object: {error}") from None
    pairs = list(opened.items())
    compact = 1 + sum(len(memoryview(value)) + 2 for _, value in pairs)
    compact += sum(len(key) + 2 if key.isascii() else len(_encode(key)) for key, _ in pairs)
    length = len(memoryview(raw))
    if compact != length and not (not pairs and length == 2):
        spaced = compact + 2 * len(pairs) - 1
        if spaced != length or _spaced(pairs) != bytes(raw):
            _refuse_twins(raw, len(pairs))
    return pairs


def _spaced(pairs: Iterable[tuple[str, Raw]]) -> bytes:
    """An object of these members as many writers put it, with a space behind each colon and comma."""
    return b"{%b}" % b", ".join([b"%b: %b" % (_encode(key), value) for key, value in pairs])


def _refuse_twins(raw: Raw | bytes, distinct: int) -> None:
    """Raise BodyError if the outermost object has more members than `distinct` keys, or is not UTF-8 inside."""
    counts = [0]

    def count(pairs: Sequence[tuple[str, object]]) -> None:
        counts[0] = len(pairs)  # called innermost first, so the outermost object is the last one

    try:
        # Numbers stay text: their values do not matter, and Python refuses to convert very long ones.
        json.loads(bytes(memoryview(raw)), object_pairs_hook=count, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        raise BodyError("not a JSON object: not UTF-8, or nested too deeply") from None
    if counts[0] != distinct:
        raise BodyError("a key stands twice in one JSON object")


def items(raw: Raw | bytes) -> list[Raw]:
    """The elements of a JSON array as the client's slices. Raises BodyError where it is none."""
    try:
        return _array.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BodyError(f"not a JSON array: {error}") from None


def without_array(body: bytes, name: bytes, elements: Sequence[Raw]) -> bytes | None:
    """`body` with the array under the key `name` emptied; its `elements`, not none, were read before.

    So the other members of a long object can be opened without going over that array once more. None where the
    array is not found as compact JSON. A key of that name further down may hold the same: look what is empty then.
    """
    first, last = bytes(elements[0]), bytes(elements[-1])
    length = sum(map(len, elements)) + len(elements) - 1
    opening = b'"' + name + b'":['
    at = body.find(opening)
    while at >= 0:
        start = at + len(opening)
        stop = start + length
        if body.startswith(first, start) and body.endswith(last, start, stop) and body.startswith(b"]", stop):
            return body[:start] + body[stop:]
        at = body.find(opening, start)
    return None


class Listed(Struct, frozen=True):
    """An array in a body: the keys it stands under, where its first element stands, and what stands between two. What
    comes behind may be anything."""

    body: bytes
    path: Sequence[str]
    start: int
    comma: bytes

    def span(self, elements: Sequence[Raw]) -> int:
        """Bytes that elements take here, a comma behind each."""
        return sum(map(len, elements)) + len(elements) * len(self.comma)

    def leading(self, elements: Sequence[Raw]) -> int:
        """How many of the elements stand here from the start on, a comma behind each."""
        count, at = 0, self.start
        for place in range(0, len(elements), _STRETCH):
            stretch = self.comma.join((*elements[place : place + _STRETCH], b""))
            if not self.body.startswith(stretch, at):
                break
            at += len(stretch)
            count += _STRETCH
        for element in elements[count : count + _STRETCH]:
            behind = at + len(element)
            if not self.body.startswith(element, at) or not self.body.startswith(self.comma, behind):
                break
            at = behind + len(self.comma)
            count += 1
        return min(count, len(elements))


def opening(body: bytes, path: Sequence[str]) -> Listed | None:
    """The array under a path of keys, the outermost first; None where it is not found as JSON without spaces, or with
    one behind each colon and comma as many writers put them. What is before it was read."""
    key = b'"%b":' % path[-1].encode()
    at = body.find(key) + len(key)
    comma = b", " if body.startswith(b" ", at) else b","
    start = at + len(comma)
    if at < len(key) or not body.startswith(b"[", start - 1):
        return None
    value: bytes | Raw = b"%b]%b" % (body[:start], b"}" * len(path))
    for name in path:
        try:
            last, value = members(value)[-1]
        except BodyError:
            return None
        if last != name:
            return None
    return Listed(body, path, start, comma) if value == EMPTY else None


def placed(array: Raw, elements: Sequence[Raw]) -> Iterator[tuple[int, int]]:
    """Where each element of an array begins and ends in it."""
    whole, at = memoryview(array), 1
    for element in elements:
        at = _BETWEEN.match(whole, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        yield at, at + len(element)
        at += len(element)


def encoded(value: object) -> bytes:
    """`value` as compact JSON, UTF-8, not escaped beyond need."""
    return _encode(value)


def closed_object(pairs: Iterable[tuple[str, Raw | bytes | list[Raw | bytes]]]) -> bytes:
    """An object of the given members, without spaces, values as they are. A list is the elements of an array: put
    together with all else in one go, for a history is long and every copy of it counts."""
    pieces: list[Raw | bytes] = []
    listed: list[Raw | bytes] = []
    for key, value in pairs:
        pieces += (b"," if pieces else b"{", _encode(key), b":")
        if not isinstance(value, list):
            pieces.append(value)
        elif not value:
            pieces.append(b"[]")
        else:
            # What stands between two arrays goes with the elements beside it: only their commas are put in.
            pieces += (b"[", value[0])
            listed += (b"".join(pieces), *value[1:])
            pieces = [listed.pop(), b"]"]
    pieces.append(b"}" if pieces else b"{}")
    return b",".join((*listed, b"".join(pieces)))


def closed_array(elements: Iterable[Raw | bytes]) -> bytes:
    """An array of the given elements, without spaces, elements as they are."""
    return b"[%b]" % b",".join(elements)


def is_string(raw: Raw | bytes) -> bool:
    """Whether the value is a JSON string."""
    return bytes(memoryview(raw)[:1]) == b'"'


def is_array(raw: Raw | bytes) -> bool:
    """Whether the value is a JSON array."""
    return bytes(memoryview(raw)[:1]) == b"["


def owned(raw: Raw) -> Raw:
    """A copy that stands alone: a slice would keep its whole body in memory."""
    return raw.copy()


def holds_nul(raw: bytes) -> bool:
    """Whether a string in the JSON holds U+0000. The six letters behind an escaped backslash are no NUL."""
    return NUL in raw and any(match[4] == b"0000" for match in _ESCAPES.finditer(raw))


def repair(body: bytes) -> tuple[bytes, int]:
    """Replace lone surrogate escapes and NUL by U+FFFD; the new bytes and how many were replaced.

    Both are refused as invalid JSON by the strict parsers of providers [A4], or cut the text at the NUL.
    Deterministic, and done on the bytes: whole pairs and everything else stay as they were.
    """
    replaced = 0

    def mend(match: re.Match[bytes]) -> bytes:
        nonlocal replaced
        if match[4] is None:
            return match[0]
        replaced += 1
        return REPLACEMENT

    return _ESCAPES.sub(mend, body), replaced
