"""The last resort before the provider refuses: old tool output leaves, by what can be missed best.

Nothing happens while the prompt and the room for the answer fit the window. Where they do not, old results become
placeholders, those that are out of date first and then the largest; where that is not enough and the policy allows it,
old calls leave together with their results. What people said, the newest turns, errors, calls without a result and all
reminders stay. As much more leaves as makes it worth breaking the cache once.

A single new output that would fill the window by itself is cut on arrival: its beginning, its end, and what looks like
errors stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, Struct

from ..conversation import Message, Part, Reasoning, Role, ToolCall, ToolResult
from ..economics import BYTES_PER_TOKEN, weight
from ..edits import Edit, Remove, Replace, target_of
from . import stale, stubs
from .contents import saying, text_of
from .excerpt import excerpt
from .files import later, use_of
from .paying import Purse, held, short
from .results import Seen, Survey, survey
from .room import room
from .view import NOTHING, Proposal, Region, View, causal

NAME = "budget"

MORE = 0.1
"""Share of the window that a batch takes out beyond what is needed, where there is so much."""

SHARE = 0.5
"""Share of the window that one output may take."""

# The model reads this. Changing a word invalidates the caches of prompts sent from then on with another one.
NOTE = (
    "[Note on this output ({lines} lines, {size} bytes): it is too long for this conversation, so {what} left out here; the end "
    "follows below.{errors} Ask for a smaller part of it if you need more.]"
)
ERRORS = " Lines left out that look like errors, with their numbers:\n{lines}\n"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`fill`: the share of the window that prompt and answer may take; `keep`: the newest turns of the model whose
    results stay; `pairs`: old calls may leave with their results; `result_bytes`: the largest output that is not cut,
    0: half of the window. `protect`: globs of tools whose results stay."""

    fill: Annotated[float, Meta(gt=0, le=1)] = 0.95
    keep: Annotated[int, Meta(ge=1, le=1000)] = 3
    pairs: bool = True
    result_bytes: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    protect: tuple[str, ...] = ()


def propose(view: View, config: Config) -> Proposal:
    """What is cut on arrival, and at most one batch."""
    cut = causal(NAME, [*_cut(view, config)])
    if cut.promises:
        return cut  # what it leaves is counted with the next request, or refused as it would have been
    model, seen = view.facts.model, survey(view)
    purse = Purse.of(view, seen.total, 1.0)
    limit = config.fill * model.window - room(view.conversation, model.window)
    over = seen.total * purse.unit - limit
    if over <= 0:
        return NOTHING
    going, saved = _chosen(view, config, seen, (over + MORE * model.window) / purse.unit)
    if saved * purse.unit < over:
        less = short(saved * purse.unit)
        reason = f"{short(over)} tokens too many for the window, and {less} that may be left out"
        return held(NAME, reason, len(going), saved * purse.unit)
    edits = [*_edits(view, going, purse.at.scale)]
    first = min(going, key=lambda one: one.seen.before).seen
    kept = purse.kept(first.before, seen.asked_before(first), first.turn - 1)
    return purse.decide(NAME, purse.forced(kept, saved), edits, len(going), keep_thinking=False)


class _Going(Struct, frozen=True):
    """A result that becomes a placeholder, or leaves with its call; `saves` bytes."""

    seen: Seen
    saves: int
    pair: bool = False


def _chosen(view: View, config: Config, survey: Survey, wanted: float) -> tuple[list[_Going], int]:
    """What goes, until `wanted` bytes are saved: in the order in which it can be missed."""
    chosen: list[_Going] = []
    saved = 0
    placed: set[int] = set()
    for one in [*_results(view, config, survey), *(_pairs(view, config, survey) if config.pairs else ())]:
        if saved >= wanted:
            break
        if one.pair and id(one.seen.result) in placed:
            chosen = [other for other in chosen if other.seen is not one.seen]
            saved -= max(0, weight(one.seen.result, view.facts.model) - stale.PLACEHOLDER_BYTES)
        placed.add(id(one.seen.result))
        chosen.append(one)
        saved += one.saves
    return chosen, saved


def _old(view: View, config: Config, survey: Survey) -> Iterator[Seen]:
    """Results of old turns that nothing rests on."""
    needed = stubs.relied_on(survey, stubs.SAYS)
    shown = {to for pointer, to in view.pointers.items() if pointer not in view.cleared}
    for tool, shelf in survey.shelves.items():
        if any(fnmatchcase(tool, glob) for glob in config.protect):
            continue
        for seen in shelf:
            result = seen.result
            if seen.turn > survey.turns - config.keep or result.is_error or result.server:
                continue
            if id(result) not in needed and target_of(result) not in shown:
                yield seen


def _results(view: View, config: Config, survey: Survey) -> list[_Going]:
    """Old results: those whose file was read or written again first, then by size."""
    agent = view.facts.agent
    after = later(survey, agent, -1, lambda _: False)
    ranked: list[tuple[bool, int, int, _Going]] = []
    for seen in _old(view, config, survey):
        saves = weight(seen.result, view.facts.model) - stale.PLACEHOLDER_BYTES
        needed = seen.result.content is None or b'"tool_reference"' in seen.result.content  # [A29]
        gone = seen.result.raw is None and target_of(seen.result) in view.cleared
        if saves <= 0 or needed or gone:
            continue
        use = use_of(agent, seen.call)
        read = use is not None and use.does == "read"
        outdated = read and use is not None and after.outdated(seen, use, by_writes=True) is not None
        ranked.append((not outdated, -saves, seen.before, _Going(seen, saves)))
    return [one for *_, one in sorted(ranked, key=lambda entry: entry[:3])]


def _pairs(view: View, config: Config, survey: Survey) -> list[_Going]:
    """Old calls with their results, the largest first; signed calls bind their turn together [A304]."""
    model = view.facts.model
    messages = view.conversation.messages
    between = _between_words(messages) if model.merge_same_role else set()
    if view.rules.system_follows_user:
        between |= _before_system(messages)
    found = [
        _Going(seen, weight(seen.result, model) + weight(seen.call, model), pair=True)
        for seen in _old(view, config, survey)
        if not seen.call.signature and not seen.call.server and id(seen.call) not in between
        if b'"tool_reference"' not in (seen.result.content or b"")
    ]
    return sorted(found, key=lambda one: (-one.saves, one.seen.before))


def _between_words(messages: Sequence[Message]) -> set[int]:
    """`id()` of the calls in answers that are nothing but calls, where more than their results follows: without such an
    answer two turns of the user would stand side by side [A521]."""
    found: set[int] = set()
    calls: list[int] = []
    for message in (one for one in messages if one.written):
        said = [part for part in message.parts if not part.nth and not isinstance(part, Reasoning)]
        if message.role is Role.ASSISTANT:
            bare = all(isinstance(part, ToolCall) for part in said)
            calls = [id(part) for part in said] if bare else []
        elif not all(isinstance(part, ToolResult) for part in said):
            found.update(calls)
    return found


def _before_system(messages: Sequence[Message]) -> set[int]:
    """`id()` of the calls whose results a system message follows: it may not stand behind the model's own words [A60]."""
    found: set[int] = set()
    calls: list[int] = []
    for message in (one for one in messages if one.written):
        if message.role is Role.ASSISTANT:
            calls = [id(call) for call in message.tally.calls]
        elif message.role is Role.SYSTEM:
            found.update(calls)
    return found


def _edits(view: View, going: Sequence[_Going], scale: float) -> Iterator[Edit]:
    """In prompt order, as a walk over the conversation finds their targets."""
    results = {id(one.seen.result): one for one in going}
    calls = {id(one.seen.call) for one in going if one.pair}
    idle = _idle(view.conversation.messages, calls) if calls else set()
    for part in (part for message in view.conversation.messages for part in message.parts):
        one = results.get(id(part))
        if id(part) in calls or id(part) in idle or (one is not None and one.pair):
            yield _removal(part, scale)
        elif one is not None:
            size = one.saves + stale.PLACEHOLDER_BYTES
            yield stale.cleared(one.seen, size, "the window is full", NAME, scale)


def _idle(messages: Sequence[Message], calls: set[int]) -> set[int]:
    """`id()` of reasoning that would lead to nothing once these calls are gone [A44 A202]: where another call of its
    stays, so does the reasoning, which an upstream may want with it [A400]."""
    found: set[int] = set()
    thought: list[int] = []
    acted = stays = False
    for message in (one for one in messages if one.written):
        for part in message.parts if message.role is Role.ASSISTANT else ():
            if not isinstance(part, Reasoning):
                acted, stays = True, stays or id(part) not in calls
                continue
            if acted:
                found.update(() if stays else thought)
                thought, acted, stays = [], False, False
            thought.append(id(part))
        if message.role is not Role.ASSISTANT:
            found.update(() if stays else thought)
            thought, acted, stays = [], False, False
    return found


def _removal(part: Part, scale: float) -> Remove:
    return Remove(
        stage=NAME,
        reason="the window is full: an old call leaves with its result",
        target=target_of(part),
        tokens_before=round(part.size / BYTES_PER_TOKEN * scale),
        committed=True,
        blanks=True,
    )


# -- on arrival ---------------------------------------------------------------------------------------------


def _cut(view: View, config: Config) -> Iterator[Edit]:
    """New outputs that are too long, cut. The limit is in bytes, so that it is the same in every turn."""
    most = config.result_bytes or round(SHARE * view.facts.model.window * BYTES_PER_TOKEN)
    for _, part, region in view.fresh():
        if region is not Region.NEW or not isinstance(part, ToolResult) or part.server or part.images:
            continue
        text = text_of(part.content) if part.content is not None and len(part.content) > most else None
        kept = excerpt(text, most // 4, most // 4, most // 8) if text is not None else None
        if kept is None:
            continue
        errors = ERRORS.format(lines=kept.told) if kept.errors else ""
        note = NOTE.format(lines=kept.lines, size=kept.size, what=kept.missing, errors=errors)
        told = saying(part, kept.around(note))
        yield Replace(
            stage=NAME,
            reason=f"an output of {kept.size} bytes, more than the window has room for",
            target=target_of(part),
            tokens_before=part.size // BYTES_PER_TOKEN,
            tokens_after=told.size // BYTES_PER_TOKEN,
            part=told,
        )
