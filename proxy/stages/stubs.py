"""Short results that say nothing of their own: "unchanged since your last read".

A client that sends such a stub relies on an earlier result still being there. Two rules keep that true: what a stub
points at is not cleared, and a stub that points at something cleared before gets its content back. Otherwise the
model reads, is told to look at a placeholder, and reads again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from ..conversation import ToolResult
from ..economics import BYTES_PER_TOKEN
from ..edits import Replace, Target, target_of
from .results import Seen, Survey, main_argument
from .view import Region, View

NAME = "stub"
"""The stage in whose name a stub gets its content back: what `stale` promises is known as cleared."""

SAYS = (
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
"""What a stub says, in any case, unless a policy has it otherwise."""

STUB_BYTES = 300
"""Content of this length or more says something of its own."""


def is_stub(content: bytes | None, says: Sequence[str]) -> bool:
    """Whether a result's content is short and says one of these words, in lower case."""
    if content is None or len(content) >= STUB_BYTES:
        return False
    text = content.decode("utf-8", "replace").lower()
    return any(words in text for words in says)


def relied_on(survey: Survey, says: Sequence[str]) -> set[int]:
    """`id()` of each result that a stub relies on: all of one tool and argument up to the last stub, stubs included."""
    needed: set[int] = set()
    for shelf in survey.shelves.values():
        if not any(is_stub(seen.result.content, says) for seen in shelf):
            continue
        chains: dict[str, list[Seen]] = {}
        for seen in shelf:
            chains.setdefault(main_argument(seen.call)[1], []).append(seen)
        for chain in chains.values():
            last = max(
                (at for at, seen in enumerate(chain) if is_stub(seen.result.content, says)), default=-1
            )
            needed.update(id(seen.result) for seen in chain[: last + 1])
    return needed


def meant(survey: Survey, says: Sequence[str], stubs: Collection[int]) -> set[int]:
    """`id()` of the results that these stubs (by `id()` of theirs) mean: the newest that says something."""
    found: set[int] = set()
    for shelf in survey.shelves.values():
        for at, seen in enumerate(shelf):
            if id(seen.result) in stubs and is_stub(seen.result.content, says):
                chain = _chain(shelf[:at], seen)
                found.update(
                    id(one.result)
                    for one in islice((o for o in chain if not is_stub(o.result.content, says)), 1)
                )
    return found


def restored(view: View, survey: Survey, says: Sequence[str]) -> list[Replace]:
    """For each new stub whose result was cleared: the content it points at, in its place.

    Causal: it depends on the stub and on what stands before it, and the stub was not sent before.
    """
    edits: list[Replace] = []
    for shelf in survey.shelves.values():
        for at in range(len(shelf) - 1, -1, -1):
            seen = shelf[at]
            if seen.turn < survey.turns:
                break
            result = seen.result
            if view.region(result) is Region.NEW and is_stub(result.content, says):
                edits += _restored(view, seen, list(_chain(shelf[:at], seen)), says)
    return edits


def _chain(earlier: Sequence[Seen], seen: Seen) -> Iterator[Seen]:
    """Earlier results of the same argument, the likeliest to be meant first: equal calls, newest first."""
    argument = main_argument(seen.call)
    same = [one for one in reversed(earlier) if main_argument(one.call) == argument]
    yield from (one for one in same if one.call.input == seen.call.input)
    yield from (one for one in same if one.call.input != seen.call.input)


def _restored(view: View, stub: Seen, chain: Sequence[Seen], says: Sequence[str]) -> Iterator[Replace]:
    meant = next((one for one in chain if not is_stub(one.result.content, says)), None)
    if meant is None or target_of(meant.result) not in view.cleared:
        return
    originals = _originals(view, {target_of(one.result) for one in chain})
    found = (originals.get(target_of(one.result)) for one in chain)
    original = next((one for one in found if one is not None and not is_stub(one.content, says)), None)
    if original is None or original.content is None:
        return
    result = stub.result
    size = result.size - len(result.content or b"") + len(original.content)
    yield Replace(
        stage=NAME,
        reason="points at a result that was cleared: its content again",
        target=target_of(result),
        tokens_before=result.size // BYTES_PER_TOKEN,
        tokens_after=size // BYTES_PER_TOKEN,
        part=ToolResult(call_id=result.call_id, content=original.content, size=size, images=original.images),
    )


def _originals(view: View, targets: Collection[Target]) -> dict[Target, ToolResult]:
    """These results as the client wrote them."""
    parts = (part for message in view.client.messages for part in message.parts)
    return {
        target_of(part): part for part in parts if isinstance(part, ToolResult) and target_of(part) in targets
    }
