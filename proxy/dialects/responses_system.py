"""The system prompt of a Responses request, written back: instructions, and leading messages with tools among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Raw

from ..conversation import Opaque, Part, Reminder, Role, Text
from ..rawjson import encoded, is_string, members
from .chat_marks import ABSENT, says_nothing
from .chat_wire import plain_text
from .responses_content import written_content
from .responses_items import MESSAGE, TOOLS, framed, head_of, new_message, system_parts

_INSTRUCTIONS = -1


def written_system(
    parts: Sequence[Part], instructions: Raw, lead: Sequence[Raw]
) -> tuple[bytes, list[Raw | bytes]]:
    """Instructions and leading items with these parts: each part where it came from, a new one with its neighbour."""
    origins = [(_INSTRUCTIONS, bytes(instructions))] if len(instructions) else []
    origins += [(at, bytes(part.raw or b"")) for at, raw in enumerate(lead) for part in system_parts(raw)]
    homes = _homes(parts, origins)
    kept: list[Raw | bytes] = []
    for at, raw in enumerate(lead):
        came = [part for home, part in origins if home == at]
        now = [part for home, part in zip(homes, parts, strict=True) if home == at]
        same = [bytes(part.raw) if part.raw is not None else None for part in now] == came
        kept += [raw] if same else _leading(now, raw)
    own = [part for home, part in zip(homes, parts, strict=True) if home == _INSTRUCTIONS]
    return _instructions(own, instructions), kept


def leads_of(system: Sequence[Part], instructions: Raw, lead: Sequence[Raw]) -> int:
    """How many messages the system prompt came as; one where they cannot be one, for instructions are text alone."""
    told = bool(len(instructions)) and not says_nothing(instructions)
    count = told + sum(head_of(raw).type == MESSAGE for raw in lead)
    others = [part for part in system if not isinstance(part, Text | Reminder)]
    return 1 if told and any(not _is_tools(part) for part in others) else count


def _is_tools(part: Part) -> bool:
    return isinstance(part, Opaque) and part.kind == TOOLS


def joined_system(
    parts: Sequence[Part], instructions: Raw, lead: Sequence[Raw]
) -> tuple[bytes, list[Raw | bytes]]:
    """All that is said in the instructions, or in the first leading message where there are none."""
    said = [part for part in parts if not _is_tools(part)]
    told = bool(len(instructions)) and not says_nothing(instructions)
    kept: list[Raw | bytes] = []
    left: Sequence[Part] = () if told else said
    for raw in lead:
        if head_of(raw).type == TOOLS:
            kept.append(raw)
        elif left:
            said_at_once = plain_text(left)
            kept += (
                _leading(left, raw) if said_at_once is None else [framed(tuple(members(raw)), said_at_once)]
            )
            left = ()
    return (_instructions(said, instructions) if told else bytes(instructions)), kept


def _leading(parts: Sequence[Part], raw: Raw) -> Iterator[Raw | bytes]:
    """A leading item that says something else; beside tools a message of its own, nothing where no part is left."""
    items_of_it = [part for part in parts if _is_tools(part)]
    said = [part for part in parts if not any(part is other for other in items_of_it)]
    yield from (part.raw or part.base or raw for part in items_of_it)
    if said and head_of(raw).type == TOOLS:
        yield new_message(said, Role.SYSTEM)
    elif said:
        frame = tuple(members(raw))
        old = dict(frame).get("content", ABSENT)
        bare = len(old) > 0 and is_string(old)
        yield framed(frame, written_content(said, Role.SYSTEM, old, bare=bare))


def _instructions(parts: Sequence[Part], old: Raw) -> bytes:
    match parts:
        case [only] if only.raw is not None and is_string(only.raw):
            return bytes(only.raw)
        case [] if says_nothing(old):
            return bytes(old)
        case _:
            texts = [part.text for part in parts if isinstance(part, Text | Reminder)]
            return encoded("\n\n".join(texts))


def _homes(parts: Sequence[Part], origins: Sequence[tuple[int, bytes]]) -> list[int]:
    """For each part the place it belongs to: its own, else that of the part before it, else the first there is."""
    left = [*origins]
    homes: list[int | None] = []
    for part in parts:
        origin = part.raw if part.raw is not None else part.base
        found = next((one for one in left if origin is not None and one[1] == bytes(origin)), None)
        if found is not None:
            left.remove(found)
        homes.append(None if found is None else found[0])
    known = next((home for home in homes if home is not None), _INSTRUCTIONS)
    placed: list[int] = []
    for home in homes:
        known = known if home is None else home
        placed.append(known)
    return placed
