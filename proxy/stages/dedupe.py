"""A new output that stands earlier in the prompt already becomes a pointer to it.

It costs nothing when done on arrival, and the model loses nothing: what it is pointed at stands before it, as a whole,
and stays there, for `stale` clears nothing that a pointer rests on (`View.pointers`). Compared is what is sent, behind
every other change on arrival; so an earlier output that was cleared equals nothing, and one that was externalized only
its own excerpt.

A pointer says which output it means: that of the most recent earlier call of a tool with certain arguments. Where that
call is not the one that is meant, or its output stands there in part, there is no pointer. Nor is there one for a call
whose last output was replaced by one: who asks again wants to see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated

from msgspec import Meta, Struct

from ..conversation import ToolCall, ToolResult
from ..economics import BYTES_PER_TOKEN
from ..edits import Replace, Target, target_of
from ..runs import Run, runs
from ..spool import HANDLE
from .blocks import Block, blocks
from .contents import saying, text_of
from .results import Seen, Survey, main_argument, survey
from .view import NOTHING, Proposal, Region, View, causal

NAME = "dedupe"

# The model reads these. Changing a word invalidates the caches of prompts sent from then on with another one.
WHOLE = (
    "[Note on this output: it is the same, byte for byte, as that of the most recent earlier {tool} call{argument}, which "
    "stands above, and is left out here to save space ({size} bytes). This is no error.]"
)
PIECE = (
    "[Note on this output: {lines} left out here to save space ({size} bytes). Byte for byte, the same stands above, in "
    "{there} of the output of the most recent earlier {tool} call{argument}. This is no error and nothing else was changed.]"
)

ARGUMENT_CHARACTERS = 160
"""How much of a call's arguments a note may name: all of them, else the one that says most, cut."""

SHARE = 0.5
"""The part of an output that must stand in the earlier one, if not all of it does."""

SOUGHT = 4
"""Earlier outputs of the same tool and main argument in which blocks are looked for, the newest."""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`min_bytes`: shorter outputs stay. `protect`: globs of tools whose outputs stay.

    `blocks`: of an output that is not the same as a whole, but shows again what an earlier one of the same tool and main
    argument shows, blocks of whole lines are left out, of at least `block_bytes` each.
    """

    min_bytes: Annotated[int, Meta(ge=1024, le=100_000_000)] = 4096
    blocks: bool = False
    block_bytes: Annotated[int, Meta(ge=1024, le=100_000_000)] = 4096
    protect: tuple[str, ...] = ()


def propose(view: View, config: Config) -> Proposal:
    """Pointers for what arrived. Where the server takes results out itself, none is sure to stand."""
    arrived = [
        part
        for _, part, region in view.fresh()
        if region is Region.NEW and isinstance(part, ToolResult) and _may_go(part, config.min_bytes)
    ]
    if not arrived or view.conversation.thinned:
        return NOTHING
    history = _History(view=view, runs=runs(view.conversation), pointers=dict(view.pointers))
    edits: list[Replace] = []
    for part in arrived:
        edit = _whole(history, part, config) or _pieces(history, part, config)
        if edit is not None and edit.rests_on is not None:
            edits.append(edit)
            history.pointers[edit.target] = edit.rests_on
    return causal(NAME, [*edits])


def _may_go(part: ToolResult, least: int) -> bool:
    """Whether this is an output of a tool, of some length, and nothing but text."""
    if part.is_error or part.server or part.images:
        return False
    return part.content is not None and len(part.content) >= least and part.content[:1] in (b'"', b"[")


# -- what stands earlier ----------------------------------------------------------------------------------------


class _History(Struct, frozen=True, dict=True):
    """The prompt up to here. `pointers`: those of earlier requests and of this one."""

    view: View
    runs: tuple[Run, ...]
    pointers: dict[Target, Target]

    @cached_property
    def survey(self) -> Survey:
        """All results with their calls; most requests need none of it."""
        return survey(self.view)

    def equal(self, part: ToolResult) -> ToolResult | None:
        """The newest result before this one with the same content, which is no pointer itself."""
        wanted, before = target_of(part), False
        for run in reversed(self.runs):
            if before and len(part.content or b"") not in _lengths(run):
                continue
            for placed in reversed(run.placed):
                one = placed.result
                if not before:
                    before = target_of(one) == wanted
                elif one.content == part.content and self.stands(one):
                    return one
        return None

    def stands(self, result: ToolResult) -> bool:
        """Whether a result is one of a tool that went well, and no pointer itself."""
        return not (result.is_error or result.server or target_of(result) in self.pointers)

    def seen(self, part: ToolResult) -> Seen | None:
        """A result with its call."""
        wanted = target_of(part)
        shelves = self.survey.shelves.values()
        return next(
            (one for shelf in shelves for one in reversed(shelf) if target_of(one.result) == wanted), None
        )

    def earlier(self, seen: Seen) -> Iterator[Seen]:
        """Results of the same tool before this one, newest first."""
        shelf = self.survey.shelves[seen.call.name]
        wanted = target_of(seen.result)
        place = next(at for at, one in enumerate(shelf) if target_of(one.result) == wanted)
        return reversed(shelf[:place])

    def asked_again(self, seen: Seen) -> bool:
        """Whether the last output of the very same call was replaced by a pointer."""
        same = (one for one in self.earlier(seen) if one.call.input == seen.call.input)
        last = next(same, None)
        return last is not None and target_of(last.result) in self.pointers

    def is_newest(self, meant: Seen, seen: Seen) -> bool:
        """Whether, read at the place of `seen`, the words of a note can mean this one only."""
        shelf = self.survey.shelves[meant.call.name]
        place = next(at for at, one in enumerate(shelf) if one is meant)
        said, here = _said(meant.call), target_of(seen.result)
        for one in shelf[place + 1 :]:
            if target_of(one.result) == here:
                break
            if one.before < seen.before and _said(one.call) == said:
                return False
        return True


_LENGTHS = "lengths of results"


def _lengths(run: Run) -> frozenset[int]:
    """The lengths of the contents in a run, kept with it: nearly every run is that of the request before."""
    known: frozenset[int] | None = run.__dict__.get(_LENGTHS)
    if known is None:
        known = run.__dict__[_LENGTHS] = frozenset(len(one.result.content or b"") for one in run.placed)
    return known


# -- what becomes a pointer ---------------------------------------------------------------------------------------


def _whole(history: _History, part: ToolResult, config: Config) -> Replace | None:
    """A pointer to an output that is the same as a whole."""
    twin = history.equal(part)
    text = text_of(part.content or b"") if twin is not None else None
    if twin is None or text is None:
        return None
    seen, meant = history.seen(part), history.seen(twin)
    if (
        seen is None
        or meant is None
        or not _free(history, seen, config)
        or not history.is_newest(meant, seen)
    ):
        return None
    note = WHOLE.format(size=len(text.encode()), **_named(meant.call))
    return _edit(part, note, meant, "the same output stands earlier in the prompt")


def _free(history: _History, seen: Seen, config: Config) -> bool:
    if any(fnmatchcase(seen.call.name, glob) for glob in config.protect):
        return False
    return not history.asked_again(seen)


def _pieces(history: _History, part: ToolResult, config: Config) -> Replace | None:
    """Pointers in the place of long blocks that an earlier output of the same tool and main argument has."""
    if not config.blocks or len(part.content or b"") < config.block_bytes:
        return None
    seen = history.seen(part)
    if seen is None or not _free(history, seen, config):
        return None
    sources = [*_sources(history, seen, config)]
    text = text_of(part.content or b"") if sources else None
    if text is None or HANDLE.search(text):
        return None
    lines = text.split("\n")
    for meant in sources:
        older = (text_of(meant.result.content or b"") or "").split("\n")
        found = [*blocks(lines, older, config.block_bytes)]
        if sum(block.size for block in found) >= SHARE * len(text.encode()):
            note = _abridged(lines, found, meant.call)
            return _edit(part, note, meant, "long blocks of this output stand earlier in the prompt")
    return None


def _sources(history: _History, seen: Seen, config: Config) -> Iterator[Seen]:
    """Earlier outputs that may show the same: as a whole, and named by their call without doubt."""
    about, left = main_argument(seen.call), SOUGHT
    for one in history.earlier(seen):
        result = one.result
        if main_argument(one.call) != about:
            continue
        if not left:
            return
        left -= 1
        whole = history.stands(result) and not HANDLE.search((result.content or b"").decode(errors="replace"))
        if whole and _may_go(result, config.block_bytes) and history.is_newest(one, seen):
            yield one


# -- what stands there instead ------------------------------------------------------------------------------------


def _edit(part: ToolResult, text: str, meant: Seen, reason: str) -> Replace:
    """`text` instead of the whole."""
    told = saying(part, text)
    return Replace(
        stage=NAME,
        reason=reason,
        target=target_of(part),
        tokens_before=part.size // BYTES_PER_TOKEN,
        tokens_after=told.size // BYTES_PER_TOKEN,
        part=told,
        rests_on=target_of(meant.result),
    )


def _abridged(lines: Sequence[str], found: Sequence[Block], call: ToolCall) -> str:
    """The text with a note in the place of each block."""
    shown: list[str] = []
    at = 0
    for block in found:
        length = block.stop - block.start
        verb = "is" if length == 1 else "are"
        shown += lines[at : block.start]
        shown.append(
            PIECE.format(
                lines=f"{_range(block.start, length)} {verb}",
                there=_range(block.there, length),
                size=block.size,
                **_named(call),
            )
        )
        at = block.stop
    return "\n".join([*shown, *lines[at:]])


def _range(start: int, length: int) -> str:
    """Lines by number, from 1 as tools count them."""
    return f"line {start + 1}" if length == 1 else f"lines {start + 1} to {start + length}"


def _named(call: ToolCall) -> dict[str, str]:
    tool, argument = _said(call)
    return {"tool": tool, "argument": f" ({argument})" if argument else ""}


def _said(call: ToolCall) -> tuple[str, str]:
    """What a note says of a call: its tool, and its arguments as they stand there, or the one that says most."""
    if len(call.input) <= ARGUMENT_CHARACTERS:
        return call.name, call.input.decode(errors="replace")
    name, value = main_argument(call)
    if not name:
        return call.name, ""
    return call.name, f"{name}: {value if len(value) <= 80 else value[:77] + '...'}"
