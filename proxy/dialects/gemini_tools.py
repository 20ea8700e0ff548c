"""Tools of a Gemini request: declarations stand nested, a tool object may hold many and other tools beside them.

Read, they are one flat list in the order the model sees them. Back on the wire, a part goes where it stood; where
the list was reordered, it goes in a tool object like the one it came from, and order wins over nesting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw, Struct

from ..conversation import Opaque, Part, ToolDefinition
from ..rawjson import closed_array, closed_object, is_array, items, members
from .gemini_parts import camel

DECLARATIONS = "functionDeclarations"


class _Declaration(Struct):
    name: str | None = None


_declaration = msgspec.json.Decoder(_Declaration)


class _Slot(Struct, frozen=True):
    """A tool where it stands: number of its tool object, the member it is in, and its bytes."""

    group: int
    member: str
    part: Part


def read_tools(raw: Raw) -> tuple[Part, ...]:
    """The tools of a request. Raises BodyError where a tool is no object, ValidationError for a name that is none."""
    return tuple(slot.part for slot in _slots(raw))


def _slots(raw: Raw) -> Iterator[_Slot]:
    for group, tool in enumerate(_listed(raw)):
        opened = members(tool)
        if not opened:
            yield _Slot(group, "", Opaque(raw=tool.copy(), size=len(tool), kind=""))
        for name, value in opened:
            declared = items(value) if camel(name) == DECLARATIONS and is_array(value) else []
            yield from (_Slot(group, name, _declared(one.copy())) for one in declared)
            if not declared:
                own = Raw(closed_object([(name, value)]))
                yield _Slot(group, name, Opaque(raw=own, size=len(own), kind=name))


def _listed(raw: Raw) -> list[Raw]:
    if not len(raw) or bytes(raw) == b"null":
        return []
    return items(raw) if is_array(raw) else [raw]


def _declared(raw: Raw) -> ToolDefinition:
    return ToolDefinition(raw=raw, size=len(raw), name=_declaration.decode(raw).name or "")


class _Tool(Struct):
    """A tool object in the making: where its parts came from, and its members; declarations are lists."""

    group: int
    members: dict[str, Raw | bytes | list[Raw | bytes]]

    def takes(self, group: int, member: str, part: Part) -> bool:
        """Whether a part goes in here: behind the declarations before it, or as a member that is not there yet."""
        if group != self.group or not member or not self.members:
            return False
        if isinstance(part, ToolDefinition) and next(reversed(self.members)) == member:
            return True
        return member not in self.members


def written_tools(parts: Sequence[Part], raw: Raw) -> bytes:
    """The tools as a list of tool objects; `raw` is the list they were read from."""
    tools: list[_Tool] = []
    for group, member, part in _placed(parts, [*_slots(raw)]):
        if not tools or not tools[-1].takes(group, member, part):
            tools.append(_Tool(group, {}))
        standing = tools[-1].members
        if isinstance(part, ToolDefinition):
            there = standing.setdefault(member, [])
            assert isinstance(there, list)
            there.append(_own(part))
        elif member:
            standing[member] = members(_own(part))[0][1]
    return closed_array(map(_closed, tools))


def _closed(tool: _Tool) -> bytes:
    return closed_object(
        (member, closed_array(value) if isinstance(value, list) else value)
        for member, value in tool.members.items()
    )


def _placed(parts: Sequence[Part], slots: list[_Slot]) -> Iterator[tuple[int, str, Part]]:
    """Each part with the tool object and the member it belongs in; one of ours goes where the one before it is."""
    group = next((slot.group for slot in slots if isinstance(slot.part, ToolDefinition)), -1)
    member = next((slot.member for slot in slots if isinstance(slot.part, ToolDefinition)), DECLARATIONS)
    for part in parts:
        slot = next((slot for slot in slots if _from(part, slot.part)), None)
        if slot is None:
            yield group, member, part
            continue
        slots.remove(slot)
        if isinstance(part, ToolDefinition):
            group, member = slot.group, slot.member
        yield slot.group, slot.member, part


def _from(part: Part, slot: Part) -> bool:
    """Whether the part is what stood in this slot, changed since or not."""
    match part, slot:
        case ToolDefinition(), ToolDefinition():
            return part.name == slot.name
        case Opaque(), Opaque():
            return part.kind == slot.kind and slot.raw in (part.raw, part.base)
        case _:
            return False


def _own(part: Part) -> Raw | bytes:
    """The bytes of a tool: its own, or those it started from, which an edit of a tool brings along."""
    return part.raw if part.raw is not None else part.base if part.base is not None else b"{}"
