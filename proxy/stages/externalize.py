"""A huge output goes to the spool as it arrives: head, tail, errors and a handle stay.

It costs nothing when done on arrival, for the provider has not seen the output yet, and it is promised like every
edit: the excerpt stands for ever, also when the spool has long forgotten the rest. Left alone are outputs with
anything but text in them, those of protected tools, those that a call asked for by a range, and what is read back from
the spool: taking that away again would send the model round in a circle.

The stage does no IO. It says what is to be kept (`Proposal.spooled`), and whoever sends the request keeps it first, or
asks for a rewrite without a spool.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, Struct

from ..conversation import ToolCall, ToolResult
from ..economics import BYTES_PER_TOKEN
from ..edits import Edit, Held, Replace, target_of
from ..runs import runs
from ..spool import HANDLE, Spool, Spooled
from .contents import saying, text_of
from .excerpt import Excerpt, excerpt
from .results import latest_calls
from .view import Proposal, Region, View, causal

NAME = "externalize"

# The model reads these. Changing a word invalidates the caches of prompts sent from then on with another one.
NOTE = (
    "[Note on this output ({lines} lines, {size} bytes): to save space, {what} left out here; the end follows below, and "
    "nothing else was changed. The whole output is kept for a while, to be read again where needed:\n"
    "{ways}\n{errors}End of the note.]"
)
FILE = "- file {path} (read it in ranges)"
ADDRESS = "- GET {url}?{range} (other ranges alike, lines=A-B or bytes=A-B)"
ERRORS = "Left out, but looking like errors ({shown} of {alike}), with their line numbers:\n{lines}\n"

RANGE_LINES, RANGE_BYTES = 200, 20_000
"""What the example of a range asks for."""

Threshold = Annotated[int, Meta(ge=2048, le=100_000_000)]
Share = Annotated[int, Meta(ge=0, le=1_000_000)]


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`threshold`: bytes of text from which on an output is externalized; `tools`: other ones, by name or glob of a tool.

    `head`, `tail`, `errors`: bytes that stay of the beginning, the end, and the lines between that look like an
    error. `protect`: globs of tools whose outputs stay whole.
    """

    threshold: Threshold = 32_768
    tools: dict[str, Threshold] = {}
    head: Share = 2048
    tail: Share = 2048
    errors: Share = 2048
    protect: tuple[str, ...] = ()

    @property
    def least(self) -> int:
        """The lowest threshold of all."""
        return min((self.threshold, *self.tools.values()))

    def threshold_of(self, tool: str) -> int:
        """The threshold of a tool: by its name, else by the first glob that fits."""
        if tool in self.tools:
            return self.tools[tool]
        return next((size for glob, size in self.tools.items() if fnmatchcase(tool, glob)), self.threshold)


def propose(view: View, config: Config) -> Proposal:
    """Externalize what arrived; without a spool say what would have been."""
    spool = view.facts.spool
    edits: list[Edit] = []
    spooled: list[Spooled] = []
    unkept = reclaimed = 0
    for part, text in _huge(view, config):
        kept = excerpt(text, config.head, config.tail, config.errors)
        if kept is None:
            continue
        if spool is None:
            unkept += 1
            reclaimed += kept.size - config.head - config.tail - config.errors
            continue
        one = Spooled(handle=spool.handle(text.encode()), data=text.encode())
        spooled.append(one)
        edits.append(_edit(part, kept, shortened(kept, spool, one.handle)))
    made = causal(NAME, edits)
    reason = "huge output, and no spool to keep it in"
    held = Held(
        stage=NAME,
        reason=reason,
        targets=unkept,
        breaks_tokens=0,
        saves_tokens=reclaimed // BYTES_PER_TOKEN,
    )
    return Proposal(promises=made.promises, spooled=tuple(spooled), held=(held,) if unkept else ())


# -- which ----------------------------------------------------------------------------------------------------


def _huge(view: View, config: Config) -> Iterator[tuple[ToolResult, str]]:
    """The results that arrived, are too long and may go, each with its text."""
    calls: dict[str, ToolCall] | None = None
    for _, part, region in view.fresh():
        if region is not Region.NEW or not isinstance(part, ToolResult) or part.server or part.images:
            continue
        if part.content is None or len(part.content) < config.least:  # JSON is never shorter than its text
            continue
        calls = latest_calls(view) if calls is None else calls
        call = calls.get(part.call_id)
        if call is None or any(fnmatchcase(call.name, glob) for glob in config.protect):
            continue
        text = text_of(part.content)
        if text is None or len(text.encode()) < config.threshold_of(call.name):
            continue
        if not _asked_for(view, call, text):
            yield part, text


def _asked_for(view: View, call: ToolCall, text: str) -> bool:
    """Whether the call wanted just this: it named a range, or reads what was externalized before."""
    if view.facts.agent.asks_for_range(call.name, call.input):
        return True
    if HANDLE.search(call.input.decode(errors="replace")) or HANDLE.search(text):
        return True
    return any(text.strip("\n") in whole and len(text) < len(whole) for whole in _externalized(view))


def _externalized(view: View) -> Iterator[str]:
    """The whole texts of outputs of this conversation that were externalized, as the client still sends them."""
    shown = {
        target_of(placed.result)
        for run in runs(view.conversation)
        for placed in run.placed
        if b"/spool-" in (placed.result.content or b"")
    }
    for run in runs(view.client) if shown else ():
        for placed in run.placed:
            if target_of(placed.result) in shown:
                yield text_of(placed.result.content or b"") or ""


# -- what stands there instead --------------------------------------------------------------------------------


def _edit(part: ToolResult, kept: Excerpt, text: str) -> Replace:
    """`text` instead of the whole."""
    told = saying(part, text)
    return Replace(
        stage=NAME,
        reason=f"huge output: {kept.size} bytes go to the spool",
        target=target_of(part),
        tokens_before=part.size // BYTES_PER_TOKEN,
        tokens_after=told.size // BYTES_PER_TOKEN,
        part=told,
    )


def shortened(kept: Excerpt, spool: Spool, handle: str) -> str:
    """What the model reads instead of the whole output."""
    ways = []
    if spool.directory:
        ways.append(FILE.format(path=spool.file(handle)))
    if spool.url:
        ways.append(ADDRESS.format(url=spool.address(handle), range=_example(kept)))
    errors = ERRORS.format(shown=len(kept.errors), alike=kept.alike, lines=kept.told)
    note = NOTE.format(
        lines=kept.lines,
        size=kept.size,
        what=kept.missing,
        ways="\n".join(ways),
        errors=errors if kept.errors else "",
    )
    return kept.around(note)


def _example(kept: Excerpt) -> str:
    """The range that begins where the head ends."""
    if kept.cut:
        begin = len(kept.head.encode())
        return f"bytes={begin}-{min(kept.size, begin + RANGE_BYTES) - 1}"
    return f"lines={kept.first}-{min(kept.last, kept.first + RANGE_LINES - 1)}"
