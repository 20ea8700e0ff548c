"""Old tool results become a fixed placeholder, in batches, when that pays.

A result is stale when newer results of its tool have pushed it out of that tool's window, or, where it is what was
read of a file, once that file was read or written again. A window widens when the agent had to fetch again what was
taken out (see `regret`). With `inputs` what a stale call was given goes too (see `inputs`). Never cleared are
errors, results of server tools, results that the model has not answered yet, results that bring tool
definitions with them [A29], and results that a later "unchanged since your last read" relies on. When a batch
pays is the business of `paying`.

Whether a result was cleared before is known from the ledger (`view.cleared`), never from its text: a page
that a tool read may well hold words like ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from ..agents import Agent
from ..conversation import ToolCall, ToolResult
from ..economics import BYTES_PER_TOKEN, Candidate, weight
from ..edits import Replace, Target, target_of
from ..rawjson import encoded
from . import stubs
from .batch import speaks, tail
from .files import later, use_of
from .inputs import Shortened, shortened
from .paying import Choice, Purse, has_expired
from .regret import fetched_again, regrets, widened
from .results import Seen, Survey, main_argument, survey
from .stubs import SAYS
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
    `superseded`: what makes a reading stale at once: a later one of the same file (`read`), that or a change of the
    file (`write`), or nothing (`off`). `inputs`: long arguments of calls whose results go are left out as well.
    `paused`: no window is wider than this where a person goes on after the cache has expired: all of the prompt is
    written anew then, and what earlier work looked at is seldom looked at again. `high_water`: the share of the window above which batches are made though they do not pay yet.
    `forbid_on_prefix_check`: no batch where it would cost signed thinking.
    """

    keep: Count = 8
    tools: dict[str, Count] = {}
    paused: Count | None = None
    min_bytes: Annotated[int, Meta(ge=512, le=100_000_000)] = 1024
    min_batch_bytes: Annotated[int, Meta(ge=0, le=100_000_000)] = 4096
    protect: tuple[str, ...] = ()
    stubs: tuple[Annotated[str, Meta(min_length=3)], ...] = SAYS
    superseded: Literal["off", "read", "write"] = "write"
    inputs: bool = False
    high_water: Annotated[float, Meta(gt=0, le=1)] = 0.8
    forbid_on_prefix_check: bool = False


class _Stale(Struct, frozen=True):
    """A result that could go; `size`: bytes that clearing it takes out, 0 where it stays and only its call gets
    shorter; `turns`: how many requests carried it since it became stale; `asked`: bytes of the request whose answer
    called for it, the last one that did not have it; `given`: what its call would be given instead; `again`: the share
    of such results that were fetched again."""

    seen: Seen
    size: int
    turns: int
    asked: int
    given: Shortened | None = None
    again: float = 0.0

    @property
    def before(self) -> int:
        """Bytes before the first part that changes: of the call, where it does, those of the request it answered."""
        return self.seen.before if self.given is None else min(self.seen.before, self.asked)

    @property
    def saves(self) -> int:
        """Bytes that clearing it reclaims, with what its call was given."""
        return max(0, self.size - PLACEHOLDER_BYTES) + (self.given.saves if self.given is not None else 0)


def propose(view: View, config: Config) -> Proposal:
    """At most one batch, else what was held back and why; and what a stub misses."""
    seen = survey(view)
    says = tuple(words.lower() for words in config.stubs)
    again = (
        *causal(stubs.NAME, [*stubs.restored(view, seen, says)]).promises,
        *regrets(view, seen),
    )
    found = _stale(view, seen, config, says)
    if not found or sum(one.saves for one in found) < config.min_batch_bytes:
        return Proposal(promises=again)
    proposal = _judged(view, seen, config, found, says)
    return Proposal(promises=(*again, *proposal.promises), held=proposal.held)


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
    edits = _edits(going, choice, purse.at.scale) if choice.goes else []
    return purse.decide(NAME, choice, edits, len(going), keep_thinking=config.forbid_on_prefix_check)


def _candidates(found: Sequence[_Stale], purse: Purse) -> list[Candidate]:
    return [
        Candidate(
            purse.kept(one.before, one.asked, one.seen.turn - 1),
            one.saves * purse.unit,
            one.turns,
            one.again * purse.fetched(one.saves) if one.again else 0.0,
        )
        for one in found
    ]


def _position(one: _Stale) -> int:
    return one.before


def _stale(view: View, survey: Survey, config: Config, says: tuple[str, ...]) -> list[_Stale]:
    """The results that are worth clearing and were not cleared before, with the turn in which they became stale."""
    found: list[_Stale] = []
    inside: list[Seen] = []
    least = config.min_bytes
    widest = config.paused if config.paused is not None and _resumed(view) else None
    for tool, shelf in survey.shelves.items():
        if any(fnmatchcase(tool, glob) for glob in config.protect):
            continue
        keep = window(tool, config)
        keep = widened(keep if widest is None else min(keep, widest), view.regrets.get(tool, 0))
        outside = [
            _Stale(
                seen,
                _size_of(view, config, seen.result),
                survey.turns - pusher.turn,
                survey.asked_before(seen),
            )
            for seen, pusher in zip(shelf, shelf[keep:], strict=False)
            if (seen.result.size >= least or config.inputs) and _large(view, survey, config, seen)
        ]
        again = fetched_again(view, tool, shelf) if outside else 0.0
        found += outside if not again else [structs.replace(one, again=again) for one in outside]
        inside += shelf[max(0, len(shelf) - keep) :] if config.superseded != "off" else ()
    found += _outdated(view, survey, config, inside, says)
    if config.inputs:
        found = [structs.replace(one, given=shortened(one.seen.call)) for one in found]
    return [one for one in found if one.saves > 0]


def _resumed(view: View) -> bool:
    """Whether a person goes on with a conversation that the provider has let go of."""
    return has_expired(view) and any(speaks(view, message) for message in tail(view.conversation))


def leaving(
    survey: Survey, config: Config, agent: Agent, resumed: Collection[int] = ()
) -> Iterator[tuple[Seen, int]]:
    """Each result of a whole history that becomes stale, and the turn in which it does. No regret widens a window.

    `resumed`: turns in which a person went on after the cache had expired.
    """
    says = tuple(words.lower() for words in config.stubs)
    after = later(survey, agent, -1, lambda result: stubs.is_stub(result.content, says))
    for tool, shelf in survey.shelves.items():
        if any(fnmatchcase(tool, glob) for glob in config.protect):
            continue
        keep = window(tool, config)
        pushers = shelf[keep:]
        for at, seen in enumerate(shelf):
            result = seen.result
            if result.size < config.min_bytes or result.is_error or result.server:
                continue
            turns = [pushers[at].turn] if at < len(pushers) else []
            if config.paused is not None and at + min(keep, config.paused) < len(shelf):
                newer = shelf[at + min(keep, config.paused)].turn
                turns += [turn for turn in resumed if turn >= newer]
            use = use_of(agent, seen.call) if config.superseded != "off" else None
            if use is not None and use.does == "read":
                turn = after.outdated(seen, use, by_writes=config.superseded == "write")
                turns += [] if turn is None else [turn]
            if turns:
                yield seen, min(turns)


def _large(view: View, survey: Survey, config: Config, seen: Seen) -> bool:
    """Whether a result is one that may be cleared, by its size and kind."""
    result = seen.result
    least = config.min_bytes
    if result.size < least and not (config.inputs and len(seen.call.input) >= least):
        return False
    if result.is_error or result.server or seen.turn == survey.turns:
        return False
    return result.raw is not None or target_of(result) not in view.cleared


def _size_of(view: View, config: Config, result: ToolResult) -> int:
    """Bytes that clearing takes out; a small result stays, whatever becomes of its call."""
    if result.size < config.min_bytes:
        return 0
    return weight(result, view.facts.model) if result.images else result.size


def _outdated(
    view: View, survey: Survey, config: Config, inside: Sequence[Seen], says: tuple[str, ...]
) -> Iterator[_Stale]:
    """Readings inside their windows whose file was read or written again."""
    agent = view.facts.agent
    readings = [
        (seen, use)
        for seen in inside
        if _large(view, survey, config, seen)
        and (use := use_of(agent, seen.call)) is not None
        and use.does == "read"
    ]
    if not readings:
        return
    since = min(seen.turn for seen, _ in readings)
    after = later(survey, agent, since, lambda result: stubs.is_stub(result.content, says))
    for seen, use in readings:
        # Who had to read a file again after changing it wants to see what stands around the change.
        by_writes = config.superseded == "write" and not view.regrets.get(seen.call.name)
        turn = after.outdated(seen, use, by_writes=by_writes)
        if turn is not None:
            yield _Stale(
                seen, _size_of(view, config, seen.result), survey.turns - turn, survey.asked_before(seen)
            )


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


def _edits(going: Sequence[_Stale], choice: Choice, scale: float) -> list[Replace]:
    """In prompt order: the calls of a turn stand before its results, behind all that the request before had."""
    placed: list[tuple[int, Replace]] = []
    why, of_calls = choice.why("stale result"), choice.why("what a call of long ago was given")
    for one in going:
        if one.given is not None:
            placed.append((one.asked, one.given.edit(NAME, of_calls, scale)))
        if one.size > PLACEHOLDER_BYTES:
            placed.append((one.seen.before, cleared(one.seen, one.size, why, NAME, scale)))
    return [edit for _, edit in sorted(placed, key=itemgetter(0))]


def cleared(seen: Seen, size: int, why: str, stage: str, scale: float) -> Replace:
    """The placeholder in place of a result of `size` bytes (an image by its tokens), as part of a batch."""
    result = seen.result
    content = encoded(placeholder(seen.call, result))
    left = result.size - len(result.content or b"") + len(content)
    return Replace(
        stage=stage,
        reason=why,
        target=target_of(result),
        tokens_before=round(size / BYTES_PER_TOKEN * scale),
        tokens_after=round(left / BYTES_PER_TOKEN * scale),
        committed=True,
        part=ToolResult(call_id=result.call_id, content=content, size=left),
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
