"""A line of a conversation as it was sent, and what was promised about it.

A *promise* is a decision recorded under an anchor key: made when the history was prefix P, it holds for every
later history that extends P, and for no other. Replaying promises gives every request of a conversation the
bytes that were sent before, whatever the policy says by then.

A *branch* is one line of a conversation as it was last sent: the keys of its parts, its promises, the values
frozen at its start, and a *frontier* for each upstream and model: when a request last succeeded there, and
what the provider said it cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from .answer import Signed
from .conversation import Key, Message, Part
from .counting import Amounts
from .edits import Edit, InsertAfter, InsertBefore, Replace, Target
from .usage import Usage

SHORT = 8
"""Bytes of a key kept per part of a branch: enough to tell two parts of one conversation apart."""

ENDS = 64
"""Ends of requests that are remembered: a break goes no further back, or all the way."""

PROMISE_BYTES = 1200
"""What a promise takes in memory, about: its edit, the part that this puts in, their places in tables."""

PromiseId = tuple[Key, str, int]


class Break(Struct, frozen=True):
    """What a batch cost on top of leaving everything when it was made, in units of base input, and the tokens that it
    has left out of each request since; `turn`: how many turns of the model stood in the history."""

    turn: int
    cost: float
    saves: float


class Promise(Struct, frozen=True, kw_only=True):
    """Edits that hold wherever `anchor` is in the history; `announces` are field values they tell the model.

    Write-once per anchor, stage and `nth`: that of the target, where several parts share a key. `number`: its
    place in the order in which a branch's promises were made; replay keeps that order, for edits build on
    each other. `broke`: of a retroactive batch, what it cost. `regret`: no edit, but the tool whose result was taken
    out and fetched again here.
    """

    anchor: Key
    stage: str
    nth: int = 0
    edits: tuple[Edit, ...] = ()
    announces: tuple[tuple[str, str], ...] = ()
    number: int = 0
    broke: Break | None = None
    regret: str = ""

    @property
    def id(self) -> PromiseId:
        """What makes it one of its kind."""
        return (self.anchor, self.stage, self.nth)


class Spelling(Struct, frozen=True):
    """A tool definition as first sent: what it says, and its bytes without a cache mark."""

    name: str
    says: bytes
    raw: bytes


class Frozen(Struct, frozen=True):
    """What holds from the first request of a branch on: volatile values by (field, scope), tools in order."""

    values: Mapping[str, tuple[str, ...]] = {}
    tools: tuple[Spelling, ...] = ()


class Frontier(Struct, frozen=True, kw_only=True):
    """How far one upstream and model has seen a branch.

    `at`: start of the last successful request, seconds since the epoch: lifetimes count from there [B10].
    `parts`: how many keyed parts that request had; `estimate`: our token estimate of it; `tail`: the part
    that carried its last cache mark; `amounts`: what it came to (see `counting`); `ttl_s`: lifetime asked for by that
    mark, seconds; `setting`: digest of tools and system as sent. `turns`: how many turns of the model it had; `ends`:
    of it and of the requests before it since the last batch, their turns and when they were sent, the newest last.
    """

    upstream: str
    model: str
    setting: bytes
    at: float
    parts: int
    estimate: int
    usage: Usage | None = None
    tail: Target | None = None
    tail_parts: int = 0
    turns: int = 0
    ends: tuple[tuple[int, float], ...] = ()
    ttl_s: float | None = None
    amounts: Amounts = ()


class Branch(Struct, frozen=True, kw_only=True):
    """One line of a conversation as last sent; see the module's prose.

    `turns`: requests sent; `made`: promises ever made; `bulk`: bytes that those which stand put into prompts;
    `answers`: ids the last answer carried, as the relay saw them, `signed`: what it gave to come back; `answered`: an
    answer to the last request was seen; `rewritten`: content was ever sent otherwise than the client wrote
    it; `policy`: digest of the policy it is pinned to; `alone`: nothing new is done to it any more.
    """

    id: Key
    root: Key
    session: str
    keys: bytes
    policy: bytes
    touched: float
    turns: int = 0
    made: int = 0
    promises: Mapping[Key, tuple[Promise, ...]] = {}
    bulk: int = 0
    frozen: Frozen = Frozen()
    frontiers: tuple[Frontier, ...] = ()
    answers: tuple[str, ...] = ()
    signed: tuple[Signed, ...] = ()
    answered: bool = False
    rewritten: bool = False
    alone: bool = False

    def frontier(self, upstream: str, model: str, setting: bytes | None = None) -> Frontier | None:
        """The newest frontier at an upstream and model, of one setting if given."""
        fitting = [
            f
            for f in self.frontiers
            if f.upstream == upstream and f.model == model and setting in (None, f.setting)
        ]
        return max(fitting, key=lambda f: f.at, default=None)


class Place(Struct, frozen=True, kw_only=True):
    """Where a request stands: `common` leading keyed parts were sent before along `branch`.

    `broke`: the branch had gone on otherwise behind them, so what follows is new to the provider.
    """

    branch: Branch | None
    common: int
    broke: bool


def shared(mine: bytes, theirs: bytes) -> int:
    """How many leading keys are equal."""
    low, high = 0, min(len(mine), len(theirs)) // SHORT
    if mine[: high * SHORT] == theirs[: high * SHORT]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if mine[: middle * SHORT] == theirs[: middle * SHORT]:
            low = middle
        else:
            high = middle
    return low


def bulk(promises: Iterable[Promise]) -> int:
    """Bytes of what these promises put into prompts: whole outputs and images may be among it."""
    return sum(
        edit.part.size
        for promise in promises
        for edit in promise.edits
        if isinstance(edit, Replace | InsertBefore | InsertAfter)
    )


def extended(
    held: Mapping[Key, tuple[Promise, ...]], new: Iterable[Promise], made: int
) -> tuple[Mapping[Key, tuple[Promise, ...]], tuple[Promise, ...]]:
    """Promises with new ones; write-once: what stands under an anchor and stage stays."""
    result: dict[Key, tuple[Promise, ...]] | None = None
    added: list[Promise] = []
    for promise in new:
        standing = (held if result is None else result).get(promise.anchor, ())
        if any(p.id == promise.id for p in standing):
            continue
        result = dict(held) if result is None else result
        numbered = structs.replace(promise, number=made + len(added))
        result[promise.anchor] = (*standing, numbered)
        added.append(numbered)
    return (held if result is None else result), tuple(added)


def along(held: Mapping[Key, tuple[Promise, ...]], keys: bytes) -> Mapping[Key, tuple[Promise, ...]]:
    """Promises about this history: their anchor is a part of it, or the end of a turn with a part that they edit."""
    said = {keys[at : at + SHORT] for at in range(0, len(keys), SHORT)}
    return {
        anchor: group
        for anchor, group in held.items()
        if anchor[:SHORT] in said or any(e.target.key[:SHORT] in said for p in group for e in p.edits)
    }


def without(
    held: Mapping[Key, tuple[Promise, ...]], struck: Sequence[Promise]
) -> Mapping[Key, tuple[Promise, ...]]:
    if not struck:
        return held
    gone = {p.id for p in struck}
    result: dict[Key, tuple[Promise, ...]] = {}
    for anchor, promises in held.items():
        kept = tuple(p for p in promises if p.id not in gone)
        if kept:
            result[anchor] = kept
    return result


def standing(promises: Iterable[Promise], keys: bytes) -> tuple[Promise, ...]:
    """Those of the promises whose anchor is a part of this history, in its order."""
    found: list[tuple[int, Promise]] = []
    for promise in promises:
        at = keys.find(promise.anchor[:SHORT])
        while at >= 0 and at % SHORT:
            at = keys.find(promise.anchor[:SHORT], at + 1)
        if at >= 0:
            found.append((at, promise))
    return tuple(promise for _, promise in sorted(found, key=lambda pair: pair[0]))


def packed(messages: Iterable[Message]) -> bytes:
    """The short keys of all parts that say something."""
    return b"".join(part.key[:SHORT] for message in messages for part in message.parts if not part.nth)


def keyed(parts: Iterable[Part]) -> int:
    """How many of the parts say something."""
    return sum(not part.nth for part in parts)
