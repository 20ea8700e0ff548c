"""Preserved thinking: a signed block is only good in the conversation it was made in [A45].

The provider remembers, for every signature it issued, what stood before it. When the block comes
back behind something else it is refused, dropped or let through, by setting and by request.
"""

from typing import Literal

import msgspec

from .bound import THINKING, Before, Piece, Trail, extra_of, signature_of
from .refusal import Refusal
from .request import Json, Request, blocks, every_block
from .schema import BINDING

Behavior = Literal["unenforced", "error", "drop_block"]
HEADER = "anthropic-thinking-prefix-mismatch"


class Issued(msgspec.Struct, frozen=True):
    """A thinking block this provider made."""

    model: str
    organization: str
    before: Before
    run: tuple[str, ...]
    """Signatures of the uninterrupted run of thinking it came in [A42]."""
    text: str


class Transformation(msgspec.Struct, frozen=True, rename={"kind": "type"}):
    """What was done to a thinking block: an entry of `input_transformations`."""

    kind: str
    path: str
    reason: str


class Mismatch(msgspec.Struct, frozen=True):
    """How the conversation differs from the one a block is bound to, in the provider's words."""

    kind: str
    sections: str
    sentence: str
    pattern: str = "unknown"


class Verdict(msgspec.Struct, frozen=True):
    """What came of all thinking blocks of a request."""

    dropped: frozenset[str] = frozenset()
    transformations: tuple[Transformation, ...] = ()
    header: str | None = None


class Memory:
    """All signatures issued, by their text."""

    def __init__(self) -> None:
        self._issued: dict[str, Issued] = {}

    def remember(self, signature: str, issued: Issued) -> None:
        self._issued[signature] = issued

    def get(self, signature: str) -> Issued | None:
        return self._issued.get(signature)

    def __len__(self) -> int:
        return len(self._issued)


def behavior(request: Request) -> Behavior | None:
    """What happens to a block that does not fit; None where nobody looks or is told."""
    if not request.model.checks_prefix:
        return None
    asked: Behavior | None = (request.thinking.get("block_binding") or {}).get("prefix_mismatch_behavior")
    if asked is None and request.settings.binding == "unenforced" and not request.has_beta(BINDING):
        return None
    return asked or request.settings.binding


def judge(request: Request, memory: Memory) -> Verdict:
    """Compare every thinking block of a request with what it is bound to.

    Raises:
        Refusal: where a block does not fit and the behavior is `error`; the response header says how.
    """
    court = _Court(request)
    adopts = request.settings.foreign_thinking == "adopt" and request.model.checks_prefix
    signed = any(
        adopts or memory.get(signature_of(b))
        for _, _, _, b in every_block(request.messages)
        if b.get("type") in THINKING
    )
    for i, message in enumerate(request.messages if signed else ()):
        failed = False
        for j, block in enumerate(blocks(message)):
            path = f"messages.{i}.content.{j}"
            thinks = block.get("type") in THINKING
            issued = memory.get(signature_of(block)) if thinks else None
            if adopts and thinks and issued is None:
                memory.remember(signature_of(block), _adopted(request, block, court.trail))
            if issued is not None:
                failed = court.hear(issued, path, failed=failed)
            court.trail.pass_by(block, message["role"], path, extra_of(message))
    listed = tuple(court.transformations) if request.has_beta(BINDING) else ()
    return Verdict(frozenset(court.dropped), listed, court.header)


def _adopted(request: Request, block: Json, trail: Trail) -> Issued:
    """A block of another provider's, as if it had been made here, where it stands now."""
    return Issued(
        model=request.model.name,
        organization=request.organization,
        before=trail.here(),
        run=(signature_of(block),),
        text=str(block.get("thinking", "")),
    )


class _Court:
    """Walks one request and decides on each thinking block."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.mode = behavior(request)
        self.trail = Trail(request.body)
        self.dropped: set[str] = set()
        self.transformations: list[Transformation] = []
        self.header: str | None = None

    def hear(self, issued: Issued, path: str, *, failed: bool) -> bool:
        """Whether this block fails; a failing one takes the rest of its turn's with it."""
        reason = _unreadable(self.request, issued)
        if reason is not None:
            self._drop(path, reason)
            return failed
        if self.mode is None:
            return False
        mismatch = difference(issued.before, self.trail)
        if mismatch is None and not failed:
            return False
        if mismatch is not None:
            self._note(path, mismatch)
        if self.mode == "drop_block":
            self._drop(path, "prefix_binding_mismatch")
        else:
            self.transformations.append(
                Transformation("thinking_mismatch_allowed", path, "prefix_binding_mismatch")
            )
        return True

    def _note(self, path: str, mismatch: Mismatch) -> None:
        """Refuse, or keep the first mismatch for the response header."""
        if self.mode == "unenforced" or self.header is not None:
            return
        self.header = (
            f"block={path};kind={mismatch.kind};pattern={mismatch.pattern};sections={mismatch.sections}"
        )
        if self.mode == "error":
            raise Refusal(_wording(self.request, path, mismatch), headers=((HEADER, self.header),))

    def _drop(self, path: str, reason: str) -> None:
        self.dropped.add(path)
        self.transformations.append(Transformation("thinking_dropped", path, reason))


def _unreadable(request: Request, issued: Issued) -> str | None:
    """Why this model cannot use a block another one made [A44]."""
    reads = request.model.reads
    if reads is not None and issued.model != request.model.name and issued.model not in reads:
        return "model_binding_mismatch"
    if issued.model == "claude-sonnet-5-5" and issued.organization != request.organization:
        return "organization_binding_mismatch"
    return None


def _wording(request: Request, path: str, mismatch: Mismatch) -> str:
    text = (
        f"{path}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
        'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
    )
    if not request.has_beta(BINDING):
        text += f" That setting requires the `{BINDING}` value in the `anthropic-beta` header."
    return f"{text} {mismatch.sentence}".rstrip()


def difference(bound: Before, trail: Trail) -> Mismatch | None:
    """How what stands before a block now differs from what it is bound to; None if it does not."""
    if bound.system != trail.system:
        return Mismatch(
            "system_changed",
            "system",
            "The `system` prompt differs from when this block was created.",
            "system_block_rerendered",
        )
    if bound.tools != trail.tools:
        return Mismatch(
            "tools_changed", "tools", "The `tools` list differs from when this block was created."
        )
    if bound.chain != trail.chain:
        return _messages(bound.pieces, trail.pieces)
    kept = tuple(trail.thinking)
    if kept and bound.thinking[len(bound.thinking) - len(kept) :] != kept:
        return Mismatch(
            "predecessor_missing",
            "messages",
            "The `thinking` block that preceded this one when it was created is missing from this request.",
        )
    return None


def _messages(before: tuple[Piece, ...], present: list[Piece]) -> Mismatch:
    """Name the first place where the messages differ; positions of missing ones are those of old."""
    then = [piece.digest for piece in before]
    now = [piece.digest for piece in present]
    at = next(
        (k for k, (a, b) in enumerate(zip(then, now, strict=False)) if a != b), min(len(then), len(now))
    )
    path = present[at].path if at < len(present) else (before[at].path if at < len(before) else "messages.0")
    if len(now) < len(then) and now == then[len(then) - len(now) :] and now:
        sentence = f"A message older than `{present[0].path}` differs from when this block was created."
        return Mismatch("blocks_removed", "messages", sentence, "rolling_truncation")
    if len(now) < len(then) and _within(now, then):
        sentence = (
            "Content that preceded this block when it was created is missing from this request, starting at "
            f"`{path}`."
        )
        pattern = "history_block_stripped"
        return Mismatch("blocks_removed", "messages", sentence, pattern)
    if len(now) > len(then) and _within(then, now):
        return Mismatch(
            "blocks_inserted",
            "messages",
            f"Content before this block differs from when it was created, first at `{path}`.",
            "block_inserted",
        )
    kind = before[at].kind if at < len(before) else ""
    if kind == "tool_result":
        return Mismatch("blocks_modified", "messages", "", "tool_results_rewritten")
    sentence = f"Content before this block differs from when it was created, first at `{path}`."
    pattern = (
        "tool_use_rewritten" if kind == "tool_use" else "first_message_rewritten" if at == 0 else "unknown"
    )
    return Mismatch("blocks_modified", "messages", sentence, pattern)


def _within(few: list[bytes], many: list[bytes]) -> bool:
    """Whether `few` is `many` with some left out."""
    rest = iter(many)
    return all(item in rest for item in few)
