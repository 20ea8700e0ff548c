"""Old tool results become a fixed placeholder, in batches, when that pays.

A result is stale when newer results of its tool have pushed it out of that tool's window. Never cleared are
errors, results of server tools, results that the model has not answered yet, results that bring tool
definitions with them [A29], and results that a later "unchanged since your last read" relies on. When a batch
pays is the business of `paying`.

Whether a result was cleared before is known from the ledger (`view.cleared`), never from its text: a page
that a tool read may well hold words like ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, Struct

from ..conversation import ToolCall, ToolResult
from ..economics import BYTES_PER_TOKEN, Candidate, weight
from ..edits import Replace, Target, target_of
from ..rawjson import encoded
from . import stubs
from .paying import Purse
from .results import Seen, Survey, main_argument, survey
from .view import NOTHING, Proposal, View, causal

NAME = "stale"

# Changing a word of this changes every prompt it stands in, and so invalidates prompt caches.
PLACEHOLDER = (
    "[Note on this conversation: the output of an earlier {tool} call{argument} is left out here to save space ({size}). "
    "This is no error and nothing else was changed; run the tool again if you need it.]"
)

PLACEHOLDER_BYTES = 320
"""What a placeholder is taken to cost before it is written: its text, a path, the result's own members."""

ARGUMENT_CHARACTERS = 80

Count = Annotated[int, Meta(ge=0, le=100_000)]


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`keep`: the newest results of each tool that stay; `tools`: other numbers, by name or glob of a tool.

    `min_bytes`: smaller results stay. `min_batch_bytes`: a batch that would reclaim less is not made. `protect`: globs
    of tools whose results stay. `stubs`: what a short result says (in any case) that points back at an earlier one.
    `high_water`: the share of the window above which batches are made though they do not pay yet.
    `forbid_on_prefix_check`: no batch where it would cost signed thinking.
    """

    keep: Count = 8
    tools: dict[str, Count] = {}
    min_bytes: Annotated[int, Meta(ge=512, le=100_000_000)] = 1024
    min_batch_bytes: Annotated[int, Meta(ge=0, le=100_000_000)] = 4096
    protect: tuple[str, ...] = ()
    stubs: tuple[Annotated[str, Meta(min_length=3)], ...] = (
        "unchanged",
        "not changed",
        "no changes since",
        "same as before",
        "same as the previous",
        "identical to",
        "see earlier",
        "see the earlier",
        "refer to that",
        "still current",
        "already read",
    )
    high_water: Annotated[float, Meta(gt=0, le=1)] = 0.8
    forbid_on_prefix_check: bool = False


class _Stale(Struct, frozen=True):
    """A result that could go; `turns`: how many requests carried it since it became stale; `asked`: bytes of the
    request whose answer called for it, the last one that did not have it."""

    seen: Seen
    saves: int
    turns: int
    asked: int


def propose(view: View, config: Config) -> Proposal:
    """At most one batch, else what was held back and why; and what a stub misses."""
    seen = survey(view)
    says = tuple(words.lower() for words in config.stubs)
    again = causal(stubs.NAME, [*stubs.restored(view, seen, says)])
    found = _stale(view, seen, config)
    if not found or sum(one.saves for one in found) < config.min_batch_bytes:
        return again
    proposal = _judged(view, seen, config, found, says)
    return Proposal(promises=(*again.promises, *proposal.promises), held=proposal.held)


def _judged(view: View, seen: Survey, config: Config, found: list[_Stale], says: tuple[str, ...]) -> Proposal:
    """What to do about the stale results. What may never go is looked for only where something would."""
    found.sort(key=_position)
    purse = Purse.of(view, seen.total, config.high_water)
    choice = purse.choose(_candidates(found, purse), config.min_batch_bytes)
    if choice is not None and choice.goes:
        needed = stubs.relied_on(seen, says)
        shown = {to for pointer, to in view.pointers.items() if pointer not in view.cleared}
        kept = [one for one in found if _may_go(one.seen, needed, shown)]
        if len(kept) < len(found):
            found = kept
            choice = purse.choose(_candidates(found, purse), config.min_batch_bytes)
    if choice is None:
        return NOTHING
    going = found[choice.suffix.start :]
    edits = [_edit(one, choice.why("stale result"), purse.at.scale) for one in going] if choice.goes else []
    return purse.decide(NAME, choice, edits, len(going), keep_thinking=config.forbid_on_prefix_check)


def _candidates(found: Sequence[_Stale], purse: Purse) -> list[Candidate]:
    unit = purse.unit
    return [Candidate(purse.kept(one.seen.before, one.asked), one.saves * unit, one.turns) for one in found]


def _position(one: _Stale) -> int:
    return one.seen.before


def _stale(view: View, all_results: Survey, config: Config) -> list[_Stale]:
    """The results outside their windows that are worth clearing and were not cleared before."""
    found: list[_Stale] = []
    cleared = view.cleared
    for tool, shelf in all_results.shelves.items():
        keep = window(tool, config)
        if len(shelf) <= keep or any(fnmatchcase(tool, glob) for glob in config.protect):
            continue
        for seen, pusher in zip(shelf, shelf[keep:], strict=False):
            result = seen.result
            if (
                result.size < config.min_bytes
                or result.is_error
                or result.server
                or seen.turn == all_results.turns
            ):
                continue
            if result.raw is None and target_of(result) in cleared:
                continue
            size = weight(result, view.facts.model) if result.images else result.size
            saves = size - PLACEHOLDER_BYTES
            if saves > 0:
                asked = all_results.asked[seen.turn - 1] if seen.turn else 0
                found.append(_Stale(seen, saves, all_results.turns - pusher.turn, asked))
    return found


def window(tool: str, config: Config) -> int:
    """How many of the tool's newest results stay: by its name, else by the first glob that fits."""
    if tool in config.tools:
        return config.tools[tool]
    return next((number for glob, number in config.tools.items() if fnmatchcase(tool, glob)), config.keep)


def _may_go(seen: Seen, needed: set[int], shown: set[Target]) -> bool:
    """A result must stay that a stub or a pointer relies on, or that brings tool definitions: calls rest on it [A29]."""
    content = seen.result.content
    if content is None or id(seen.result) in needed or target_of(seen.result) in shown:
        return False
    return b'"tool_reference"' not in content


# -- what stands there instead -----------------------------------------------------------------------------


def _edit(one: _Stale, why: str, scale: float) -> Replace:
    result = one.seen.result
    content = encoded(placeholder(one.seen.call, result))
    size = result.size - len(result.content or b"") + len(content)
    return Replace(
        stage=NAME,
        reason=why,
        target=target_of(result),
        tokens_before=round((one.saves + PLACEHOLDER_BYTES) / BYTES_PER_TOKEN * scale),
        tokens_after=round(size / BYTES_PER_TOKEN * scale),
        committed=True,
        part=ToolResult(call_id=result.call_id, content=content, size=size),
    )


def placeholder(call: ToolCall, result: ToolResult) -> str:
    """The text that stands for a cleared result: whose it was, how much it was, how to get it again."""
    name, argument = main_argument(call)
    if len(argument) > ARGUMENT_CHARACTERS:
        argument = argument[: ARGUMENT_CHARACTERS - 3] + "..."
    return PLACEHOLDER.format(
        tool=call.name, argument=f" ({name}: {argument})" if argument else "", size=_size(result)
    )


def _size(result: ToolResult) -> str:
    size = len(result.content or b"")
    said = f"{size} bytes" if size < 1000 else f"{size / 1000:.1f} kB"
    if not result.images:
        return said
    return f"{said} with {result.images} image{'s' if result.images > 1 else ''}"
