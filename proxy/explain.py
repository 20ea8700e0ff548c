"""A rewrite in words and in JSON: what was changed and why, what was left and why, what the prompt is made of.

Texts name stages, reasons, places and sizes. Content is shown only where the caller asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from textwrap import wrap
from typing import assert_never

from msgspec import Struct

from .conversation import Conversation, Part, Reminder, Role, Source, Text, ToolResult, source_of
from .edits import (
    AddMember,
    Edit,
    InsertAfter,
    InsertBefore,
    JoinSystem,
    Mend,
    Move,
    PlaceMark,
    Remove,
    Replace,
    Sign,
    Target,
    Unname,
)
from .rewrite import Rewrite
from .runs import runs

_MESSAGE = re.compile(r"(messages|contents|input)\[(\d+)\]")


class EditLine(Struct, frozen=True, kw_only=True):
    """One edit as shown: `place` as in the client's body, tokens estimated."""

    stage: str
    action: str
    place: str
    reason: str
    tokens_before: int
    tokens_after: int
    required: bool
    committed: bool


class HeldLine(Struct, frozen=True, kw_only=True):
    """One edit that was not made, and what it would have broken and saved in tokens."""

    stage: str
    reason: str
    targets: int
    breaks_tokens: int
    saves_tokens: int


class Explanation(Struct, frozen=True, kw_only=True):
    """A rewrite, explained. `structure`: share of each source in the bytes of what is sent."""

    policy: str
    changed: bool
    bytes_before: int
    bytes_after: int
    edits: list[EditLine]
    held: list[HeldLine]
    structure: dict[str, float]
    tokens: dict[str, int] = {}
    tool_result_mean_chars: float | None
    broken: str
    regrets: dict[str, int] = {}


def structure(conversation: Conversation) -> tuple[dict[str, float], float | None]:
    """Share of each source in the prompt's bytes, largest first; and the mean length of a tool result in bytes."""
    sizes: dict[Source, int] = {}
    count = length = 0
    for role, parts in ((Role.META, conversation.tools), (Role.SYSTEM, conversation.system)):
        for part in parts:
            source = source_of(part, role)
            sizes[source] = sizes.get(source, 0) + part.size
    for run in runs(conversation):
        for source, size in run.shares.items():
            sizes[source] = sizes.get(source, 0) + size
        count += len(run.placed)
        length += run.length
    total = sum(sizes.values()) or 1
    ordered = sorted(sizes.items(), key=lambda pair: -pair[1])
    return {source.value: round(size / total, 4) for source, size in ordered if size}, (
        length / count if count else None
    )


def tokens_by_source(conversation: Conversation, count: Callable[[bytes], int]) -> dict[str, int]:
    """Tokens of each source as `count` has them, largest first. Media count as they are sent, not as they are seen."""
    sizes: dict[Source, int] = {}
    groups: list[tuple[Role, tuple[Part, ...]]] = [
        (Role.META, conversation.tools),
        (Role.SYSTEM, conversation.system),
    ]
    groups += [(message.role, message.parts) for message in conversation.messages]
    for role, parts in groups:
        for part in parts:
            source = source_of(part, role)
            sizes[source] = sizes.get(source, 0) + count(_wire(part))
    ordered = sorted(sizes.items(), key=lambda pair: -pair[1])
    return {source.value: tokens for source, tokens in ordered if tokens}


def _wire(part: Part) -> bytes:
    match part:
        case Text(text=said) | Reminder(text=said):
            return said.encode("utf-8", "surrogatepass")
        case ToolResult(content=content) if content is not None:
            return content
        case _:
            return bytes(part.raw or part.base or b"")


def explain(rewrite: Rewrite, before: bytes, count: Callable[[bytes], int] | None = None) -> Explanation:
    """The rewrite of the body `before`, explained; with `count`, in tokens too."""
    places = _places(rewrite.read)
    shares, mean = structure(rewrite.sent) if rewrite.sent is not None else ({}, None)
    return Explanation(
        policy=rewrite.policy.name,
        changed=rewrite.body is not before,
        bytes_before=len(before),
        bytes_after=len(rewrite.body),
        edits=[_line(edit, places) for edit in rewrite.edits],
        held=[
            HeldLine(
                stage=h.stage,
                reason=h.reason,
                targets=h.targets,
                breaks_tokens=h.breaks_tokens,
                saves_tokens=h.saves_tokens,
            )
            for h in rewrite.held
        ],
        structure=shares,
        tokens=tokens_by_source(rewrite.sent, count)
        if count is not None and rewrite.sent is not None
        else {},
        tool_result_mean_chars=mean,
        broken=rewrite.broken,
        regrets=rewrite.regrets,
    )


def _places(conversation: Conversation | None) -> Mapping[Target, str]:
    if conversation is None:
        return {}
    found: dict[Target, str] = {}
    turns, blocks = conversation.named
    for name, parts in (("tools", conversation.tools), ("system", conversation.system)):
        found |= {Target(part.key, part.nth): f"{name}[{at}]" for at, part in enumerate(parts)}
    for message in conversation.messages:
        found |= {
            Target(part.key, part.nth): f"{turns}[{message.index}].{blocks}[{at}]"
            for at, part in enumerate(message.parts)
        }
    return found


def _line(edit: Edit, places: Mapping[Target, str]) -> EditLine:
    place = (
        "body"
        if isinstance(edit, Mend | AddMember | JoinSystem)
        else places.get(edit.target, "a part of ours")
    )
    return EditLine(
        stage=edit.stage,
        action=_action(edit, places),
        place=place,
        reason=edit.reason,
        tokens_before=edit.tokens_before,
        tokens_after=edit.tokens_after,
        required=edit.required,
        committed=edit.committed,
    )


def _action(edit: Edit, places: Mapping[Target, str]) -> str:  # noqa: C901  one case for each kind of edit
    match edit:
        case Replace():
            return "replace"
        case InsertBefore():
            return "insert before"
        case InsertAfter():
            return "insert behind"
        case Remove():
            return "remove"
        case Move(to=to, before=before):
            return f"move {'before' if before else 'behind'} {places.get(to, 'a part of ours')}"
        case PlaceMark(mark=mark):
            return "unmark" if mark is None else "mark"
        case AddMember(name=name):
            return f"add {name}"
        case JoinSystem():
            return "join system"
        case Unname():
            return "drop id"
        case Sign():
            return "sign"
        case Mend(count=count):
            return f"mend {count}"
        case _:
            assert_never(edit)


FOLDED_FROM = 3
"""So many edits in a row that differ in their place alone are shown as one line."""


def text(explanation: Explanation, *, every: bool = False, columns: int | None = None) -> str:
    """The explanation for a terminal: `every` edit on its own, lines folded to `columns` where that is given."""
    lines = [
        f"policy {explanation.policy}: {explanation.bytes_before:,} bytes in, {explanation.bytes_after:,} out"
        + ("" if explanation.changed else ", unchanged")
    ]
    if explanation.broken:
        lines.append(f"not sent, a law would break: {explanation.broken}")
    lines += ["", "edits" if explanation.edits else "no edits"]
    shown = [[edit] for edit in explanation.edits] if every else _grouped(explanation.edits)
    lines += [_said(group) for group in shown]
    if len(shown) < len(explanation.edits):
        lines.append("  (--all lists each)")
    if explanation.held:
        lines += ["", "held back"]
        lines += [
            f"  {held.stage:<12} {held.targets} result{'s' if held.targets != 1 else ''}: {held.reason}"
            for held in explanation.held
        ]
    if explanation.regrets:
        lines += ["", "fetched again after it was taken out"]
        lines += [f"  {tool:<12} {times}" for tool, times in explanation.regrets.items()]
    lines += ["", "what is sent is made of"] if explanation.structure else []
    total = sum(explanation.tokens.values())
    if total:
        lines += [_share(source, n / total, f"{n:>11,} tokens") for source, n in explanation.tokens.items()]
    else:
        lines += [_share(source, share, "") for source, share in explanation.structure.items()]
    if explanation.tool_result_mean_chars is not None:
        lines.append(f"  a tool result is {explanation.tool_result_mean_chars:,.0f} bytes on average")
    return "\n".join(part for line in lines for part in _fitted(line, columns))


def _fitted(line: str, columns: int | None) -> list[str]:
    if columns is None or len(line) <= columns:
        return [line]
    return wrap(line, columns, subsequent_indent=" " * 15, break_long_words=False, break_on_hyphens=False)


def _grouped(edits: Sequence[EditLine]) -> list[list[EditLine]]:
    """Runs of edits that differ in their place and size alone; short runs stay apart."""
    groups: list[list[EditLine]] = []
    for _, run in groupby(
        edits, lambda edit: (edit.stage, edit.action, edit.reason, edit.required, edit.committed)
    ):
        listed = list(run)
        groups += [listed] if len(listed) >= FOLDED_FROM else [[edit] for edit in listed]
    return groups


def _said(group: Sequence[EditLine]) -> str:
    first, last = group[0], group[-1]
    if first is last:
        return f"  {first.stage:<12} {first.place:<24} {first.action}: {first.reason}{_tokens(group)}"
    stage = f"{first.stage} x{len(group)}"
    return f"  {stage:<12} {_from_to(first.place, last.place):<24} {first.action}: {first.reason}{_tokens(group)}"


def _from_to(first: str, last: str) -> str:
    """`messages[2]...[110]`; whole places where they are not both in messages."""
    ends = [_MESSAGE.match(place) for place in (first, last)]
    if ends[0] is None or ends[1] is None:
        return f"{first}...{last}"
    return f"{ends[0][1]}[{ends[0][2]}]...[{ends[1][2]}]"


def _share(source: str, share: float, tokens: str) -> str:
    return f"  {source:<16} {share:7.1%}{tokens}  {'#' * round(share * 40)}".rstrip()


def _tokens(group: Sequence[EditLine]) -> str:
    change = sum(edit.tokens_after - edit.tokens_before for edit in group)
    said = [f"{change:+,} tokens"] * bool(change)
    said += [word for word, on in (("required", group[0].required), ("committed", group[0].committed)) if on]
    return f" ({', '.join(said)})" if said else ""
