"""Branches and promises as MessagePack, and back.

`msgspec` takes a `Raw` for bytes of the format being written, and those of a part are JSON: they travel
beside the promise, with the place of the edit they belong to. The tools of a branch travel on their own too,
for all conversations of one agent have the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from ..branch import Branch, Promise, Spelling
from ..edits import Edit, InsertAfter, InsertBefore, Replace
from ..errors import StoreError

Value = TypeVar("Value")


class _Wire(Struct, frozen=True, array_like=True):
    """The client's bytes in the part of one edit; `edit` is its place in the promise."""

    edit: int
    raw: bytes | None
    base: bytes | None


class _Record(Struct, frozen=True, array_like=True):
    promise: Promise
    wires: tuple[_Wire, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_records = msgspec.msgpack.Decoder(_Record)
_branches = msgspec.msgpack.Decoder(Branch)
_tools = msgspec.msgpack.Decoder(tuple[Spelling, ...])


def encode_promise(promise: Promise) -> bytes:
    """One promise. Raises StoreError where a text in it is no Unicode."""
    edits: list[Edit] = []
    wires: list[_Wire] = []
    for place, edit in enumerate(promise.edits):
        match edit:
            case Replace(part=part) | InsertBefore(part=part) | InsertAfter(part=part) if (
                part.raw is not None or part.base is not None
            ):
                wires.append(_Wire(place, _bytes(part.raw), _bytes(part.base)))
                edits.append(structs.replace(edit, part=structs.replace(part, raw=None, base=None)))
            case _:
                edits.append(edit)
    return _encoded(_Record(structs.replace(promise, edits=tuple(edits)), tuple(wires)))


def decode_promise(record: bytes) -> Promise:
    """The promise that was encoded. Raises StoreError where `record` is none."""
    found = _decoded(_records, record)
    edits = list(found.promise.edits)
    for wire in found.wires:
        match edits[wire.edit] if 0 <= wire.edit < len(edits) else None:
            case Replace() | InsertBefore() | InsertAfter() as edit:
                part = structs.replace(edit.part, raw=_raw(wire.raw), base=_raw(wire.base))
                edits[wire.edit] = structs.replace(edit, part=part)
            case _:
                raise StoreError("a record is unreadable: bytes of a part belong to no edit")
    return structs.replace(found.promise, edits=tuple(edits))


def encode_head(branch: Branch) -> bytes:
    """A branch without its promises and tools. Raises StoreError as above."""
    return _encoded(structs.replace(branch, promises={}, frozen=structs.replace(branch.frozen, tools=())))


def encode_tools(tools: tuple[Spelling, ...]) -> bytes:
    """The tools a branch froze, as first sent. Raises StoreError as above."""
    return _encoded(tools)


def assemble(head: bytes, tools: bytes | None, promises: Iterable[bytes]) -> tuple[Branch | None, int]:
    """A branch from its records, and how many of these could not be read.

    Without a head there is no branch. Without a promise or the tools there is one that costs a cache miss and
    still knows that it was sent rewritten.
    """
    try:
        branch = _decoded(_branches, head)
    except StoreError:
        return None, 1
    skipped = 0
    grouped: dict[bytes, tuple[Promise, ...]] = {}
    for record in promises:
        try:
            promise = decode_promise(record)
        except StoreError:
            skipped += 1
        else:
            grouped[promise.anchor] = (*grouped.get(promise.anchor, ()), promise)
    try:
        spelt = _decoded(_tools, tools) if tools is not None else ()
    except StoreError:
        spelt, skipped = (), skipped + 1
    return structs.replace(
        branch, promises=grouped, frozen=structs.replace(branch.frozen, tools=spelt)
    ), skipped


def _encoded(value: object) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError as fault:
        raise StoreError(f"a record cannot be written: {fault.reason}") from fault


def _decoded(decoder: msgspec.msgpack.Decoder[Value], record: bytes) -> Value:
    try:
        return decoder.decode(record)
    # A file may hold anything in any column: another type, text that is no UTF-8, nesting without end.
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as fault:
        raise StoreError(f"a record is unreadable: {type(fault).__name__}") from fault


def _bytes(raw: Raw | None) -> bytes | None:
    return None if raw is None else bytes(raw)


def _raw(wire: bytes | None) -> Raw | None:
    return None if wire is None else Raw(wire)
