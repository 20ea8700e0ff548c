"""What equals in meaning something already sent leaves in the bytes first sent [B1 B12 B19].

Tools: an equal definition leaves as it was spelt first, in the order first sent, new ones behind. Calls: the
arguments of a call the model made leave as they were spelt first; clients that keep them in hash maps respell
them on every request. Number literals and doubled keys are meaning, not spelling.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw, Struct, structs

from ..branch import Frozen, Promise, Spelling
from ..conversation import ToolCall, ToolDefinition
from ..edits import Edit, Move, Replace, target_of
from ..errors import BodyError
from ..identity import canonical
from ..rawjson import closed_object, members
from .view import Proposal, View, weight

NAME = "steady"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tools`: order and spelling of definitions. `calls`: spelling of call arguments."""

    tools: bool = True
    calls: bool = True


def propose(view: View, config: Config) -> Proposal:
    """Restore first spellings, and remember those of what is sent for the first time."""
    spelt, edits = _tools(view) if config.tools else (view.frozen.tools, [])
    promises = tuple(_calls(view)) if config.calls else ()
    return Proposal(edits=tuple(edits), promises=promises, frozen=Frozen(view.frozen.values, spelt))


def _tools(view: View) -> tuple[tuple[Spelling, ...], list[Edit]]:
    tools = [part for part in view.conversation.tools if isinstance(part, ToolDefinition)]
    if len({tool.name for tool in tools}) < len(tools):
        return (), []  # [F29]: which of two tools of one name is meant is not ours to say
    known = {spelling.name: (place, spelling) for place, spelling in enumerate(view.frozen.tools)}
    current: dict[str, Spelling] = {}
    edits: list[Edit] = []
    for tool in tools:
        _, first = known.get(tool.name, (0, None))
        now = current[tool.name] = _spelling(tool, first)
        if first is not None and first.says == now.says:
            current[tool.name] = first
            if first.raw != now.raw:
                edits.append(_respelt(tool, first))
    order = sorted(tools, key=lambda tool: known[tool.name][0] if tool.name in known else len(known))
    edits += _moves(tools, order)
    return tuple(current[tool.name] for tool in order), edits


def _spelling(tool: ToolDefinition, first: Spelling | None) -> Spelling:
    raw = bytes(tool.raw if tool.raw is not None else tool.base or b"{}")
    if tool.mark is not None:
        raw = closed_object((name, value) for name, value in members(raw) if name != "cache_control")
    if first is not None and first.raw == raw:
        return first
    try:
        members(raw)
        return Spelling(tool.name, canonical(raw), raw)
    except (BodyError, ValueError):
        return Spelling(tool.name, raw, raw)


def _respelt(tool: ToolDefinition, first: Spelling) -> Edit:
    return Replace(
        stage=NAME,
        reason="tool spelt as first sent [B12]",
        target=target_of(tool),
        part=structs.replace(tool, base=Raw(first.raw)),
        tokens_before=weight(tool),
        tokens_after=weight(tool),
    )


def _moves(tools: list[ToolDefinition], order: list[ToolDefinition]) -> Iterator[Edit]:
    """The fewest-looking moves that bring `tools` into `order`: each tool behind the one before it."""
    standing = [tool.name for tool in tools]
    named = {tool.name: tool for tool in tools}
    for place, tool in enumerate(order):
        if standing[place] == tool.name:
            continue
        standing.remove(tool.name)
        standing.insert(place, tool.name)
        to = named[standing[place - 1 if place else 1]]
        yield Move(
            stage=NAME,
            reason="tools in the order first sent [B12]",
            target=target_of(tool),
            to=target_of(to),
            before=not place,
        )


def _calls(view: View) -> Iterator[Promise]:
    """First spellings of calls with more than one argument; replay puts them back where they differ."""
    for _, part, _ in view.fresh():
        if isinstance(part, ToolCall) and not part.server and part.input.count(b":") > 1:
            first = structs.replace(part, raw=None, base=None, mark=None, signature="")
            edit = Replace(
                stage=NAME,
                reason="arguments spelt as first sent [B19]",
                target=target_of(part),
                part=first,
                tokens_before=weight(part),
                tokens_after=weight(part),
            )
            yield Promise(anchor=part.key, stage=NAME, edits=(edit,))
