"""Old tool results become a fixed placeholder, in batches, when that pays.

A result is stale when newer results of its tool have pushed it out of that tool's window. Never cleared are
errors, results of server tools, results that the model has not answered yet, results that bring tool
definitions with them [A29], and results that a later "unchanged since your last read" relies on. When a batch
pays is the business of `economics`; how it is committed, of `batch`.

Whether a result was cleared before is known from the ledger (`view.cleared`), never from its text: a page
that a tool read may well hold words like ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, Struct

from ..branch import Promise
from ..conversation import ToolCall, ToolResult
from ..economics import BYTES_PER_TOKEN, Candidate, Suffix, Terms, best, needed_at, weight
from ..edits import Held, Replace, target_of
from ..models import ModelFacts
from ..rawjson import encoded
from . import stubs
from .batch import batch, terms_of
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
    at = terms_of(view)
    choice, forced = _choice(found, at, seen.total, view, config)
    if choice is not None and (choice.pays or forced):
        needed = stubs.relied_on(seen, says)
        kept = [one for one in found if _may_go(one.seen, needed)]
        if len(kept) < len(found):
            found = kept
            choice, forced = _choice(found, at, seen.total, view, config)
    if choice is None:
        return NOTHING
    return _decided(view, config, found[choice.start :], (choice, forced), at)


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


def _choice(
    found: Sequence[_Stale], at: Terms, total: int, view: View, config: Config
) -> tuple[Suffix | None, bool]:
    """The best batch, and whether the window forces it: then it need not pay, but reclaim enough."""
    unit = at.scale / BYTES_PER_TOKEN
    model = view.facts.model
    candidates = [Candidate(_kept(one, model, unit), one.saves * unit, one.turns) for one in found]
    least = config.min_batch_bytes * unit
    needed = needed_at(total * unit, config.high_water, model.window)
    usual = best(candidates, at, least)
    if needed is None:
        return usual, False
    if usual is not None and usual.pays and usual.saves >= needed:
        return usual, True
    forced = best(candidates, at, max(least, needed))
    return (usual, False) if forced is None else (forced, True)


def _kept(one: _Stale, model: ModelFacts, unit: float) -> float:
    """Tokens before a result that can still be read from the cache if it changes.

    Where the provider keeps what is marked, only what earlier requests had as a whole is kept, above the minimum [B13].
    """
    if model.regime != "breakpoints":
        return one.seen.before * unit
    kept = one.asked * unit
    return kept if kept >= model.minimum else 0.0


def _decided(
    view: View, config: Config, going: Sequence[_Stale], choice: tuple[Suffix, bool], at: Terms
) -> Proposal:
    """The batch of the chosen results, or why it is held."""
    suffix, forced = choice
    stakes = f"would break {_short(suffix.breaks)} cached tokens to save {_short(suffix.saves)}"
    if not (suffix.pays or forced):
        return Proposal(held=(_held(suffix, len(going), stakes),))
    why = _why(suffix, forced=forced)
    edits = [_edit(one, why, at.scale) for one in going]
    made = batch(view, NAME, edits, forced=forced, keep_thinking=config.forbid_on_prefix_check)
    if isinstance(made, Promise):
        return Proposal(promises=(made,))
    return Proposal(held=(_held(suffix, len(going), f"{stakes}; {made.reason}"),))


def _why(suffix: Suffix, *, forced: bool) -> str:
    if suffix.breaks <= 0:
        return "stale result; nothing behind it is cached"
    broken = f"breaks {_short(suffix.breaks)} cached tokens"
    if suffix.pays:
        paid = f"carrying it cost {_short(suffix.rent)}, breaking costs {_short(max(0.0, suffix.cost))}"
        return f"stale result; {broken} to save {_short(suffix.saves)}: {paid}"
    return f"stale result; {broken} to save {_short(suffix.saves)}{': the window is nearly full' if forced else ''}"


def _held(suffix: Suffix, targets: int, reason: str) -> Held:
    return Held(
        stage=NAME,
        reason=reason,
        targets=targets,
        breaks_tokens=round(suffix.breaks),
        saves_tokens=round(suffix.saves),
    )


def _short(tokens: float) -> str:
    return f"{tokens / 1000:.0f}k" if tokens >= 10_000 else f"{tokens:.0f}"


def _may_go(seen: Seen, needed: set[int]) -> bool:
    """A result that brings tool definitions with it must stay: calls of those tools rest on it [A29]."""
    content = seen.result.content
    return content is not None and id(seen.result) not in needed and b'"tool_reference"' not in content


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
