"""What was promised about a conversation, and how far the provider has seen it.

A *promise* is a decision recorded under an anchor key: made when the history was prefix P, it holds for every
later history that extends P, and for no other. Replaying promises gives every request of a conversation the
bytes that were sent before, whatever the policy says by then.

A *branch* is one line of a conversation as it was last sent: the keys of its parts, its promises, the values
frozen at its start, and a *frontier* for each upstream and model: when a request last succeeded there, and
what the provider said it cost. A fork or a rewind makes a new branch that starts with the promises about what
it shares.

The ledger is memory. A store behind it is asked once per conversation root and told of every change; what it
cannot do is its own business and never a request's.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, structs

from .conversation import NO_KEY, Conversation, Key, Message, Part, ToolDefinition, text_of
from .edits import Edit, Target
from .identity import digest
from .usage import Usage

SHORT = 8
"""Bytes of a key kept per part of a branch: enough to tell two parts of one conversation apart."""


PROMISE_BYTES = 1200
"""What a promise takes in memory, about: its edit, the part that this puts in, their places in tables."""

PART_BYTES, EDIT_BYTES = 700, 1500
"""What a part that was read, and one that was edited, take in memory beside their text, about."""

PromiseId = tuple[Key, str, int]


class Promise(Struct, frozen=True, kw_only=True):
    """Edits that hold wherever `anchor` is in the history; `announces` are field values they tell the model.

    Write-once per anchor, stage and `nth`: that of the target, where several parts share a key. `number`: its
    place in the order in which a branch's promises were made; replay keeps that order, for edits build on
    each other.
    """

    anchor: Key
    stage: str
    nth: int = 0
    edits: tuple[Edit, ...] = ()
    announces: tuple[tuple[str, str], ...] = ()
    number: int = 0

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
    that carried its last cache mark; `ttl_s`: lifetime asked for by that mark, seconds; `setting`: digest of
    tools and system as sent.
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
    ttl_s: float | None = None


class Branch(Struct, frozen=True, kw_only=True):
    """One line of a conversation as last sent; see the module's prose.

    `turns`: requests sent; `made`: promises ever made; `answers`: ids the last answer carried, as the relay saw them; `answered`: an
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
    frozen: Frozen = Frozen()
    frontiers: tuple[Frontier, ...] = ()
    answers: tuple[str, ...] = ()
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


class Recent(Struct, frozen=True):
    """The last request of a conversation, read: messages as the client wrote them and as they were sent.

    `keys` and `counts`: the packed keys of the client's messages, and how many keyed parts stand up to and
    with each. `edits` are those of messages. `head`: tools and system as the client wrote them. `reach`: the highest message that an edit across messages
    was bound to; below it nothing may be reused on its own. `size`: bytes of memory that all this takes, about.
    """

    client: tuple[Message, ...]
    sent: tuple[Message, ...]
    keys: bytes
    counts: tuple[int, ...]
    edits: tuple[Edit, ...]
    head: tuple[tuple[str, bytes], ...]
    reach: int
    branch: Key
    size: int


class Commit(Struct, frozen=True, kw_only=True):
    """What a rewrite asks the ledger to remember when it is sent; `bare` instead of its promises, where the
    fallback goes out in its place, or beside them, where it `recovers`: it is the same body without thinking."""

    root: Key
    base: Key | None
    fork: bool
    session: str
    keys: bytes
    policy: bytes
    promises: tuple[Promise, ...]
    bare: tuple[Promise, ...] = ()
    recovers: bool = False
    frozen: Frozen
    rewritten: bool
    frontier: Frontier
    recent: Recent | None
    recall: bytes


class Ticket(Struct, frozen=True, kw_only=True):
    """A request on its way: what it carries, and the branch as it was before."""

    commit: Commit
    branch: Key
    before: Branch | None
    added: tuple[Promise, ...]
    carried: frozenset[PromiseId]
    number: int


class Store(Protocol):
    """Where branches outlive the process. Write-behind; a fault inside is logged there and stays there."""

    def load(self, root: Key) -> Iterable[Branch]:
        """The branches of a conversation root."""

    def save(self, branch: Branch, added: Sequence[Promise]) -> None:
        """A branch changed; `added` are its new promises."""

    def strike(self, branch: Branch, struck: Sequence[Promise]) -> None:
        """Promises that no request carries any more leave; a branch given without keys leaves altogether."""

    def policy(self, digest: bytes) -> bytes | None:
        """A policy that a branch is pinned to, as it was encoded."""

    def keep_policy(self, digest: bytes, encoded: bytes) -> None:
        """Remember a policy for the branches pinned to it."""


class Ledger:
    """All branches of a process, bounded by conversations and by the memory that they and recent requests take.

    A recent request takes some 3.5 times its own bytes, a branch some 0.7 times. What goes first was not used longest:
    a request then is read anew, which takes longer and changes nothing; a branch comes back from the store with its
    root, or its conversation is one first met in mid-life.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        conversations: int = 4000,
        recent_bytes: int = 112 << 20,
        branch_bytes: int = 64 << 20,
    ) -> None:
        self._store = store
        self._roots: OrderedDict[Key, dict[Key, Branch]] = OrderedDict()
        self._recent: OrderedDict[bytes, list[Recent]] = OrderedDict()
        self._names: dict[Key, bytes] = {}
        self._sessions: OrderedDict[str, tuple[Key, Key]] = OrderedDict()
        self._policies: dict[bytes, bytes] = {}
        self._flying: dict[int, Ticket] = {}
        self._counter = 0
        self._conversations = conversations
        self._recent_limit = recent_bytes
        self._recent_bytes = 0
        self._weights: OrderedDict[Key, tuple[Key, int]] = OrderedDict()
        self._loaded: list[Branch] = []
        self._branch_limit = branch_bytes
        self._branch_bytes = 0

    # -- reading --------------------------------------------------------------------------------------

    def branches(self, root: Key) -> dict[Key, Branch]:
        """The branches that open with `root`, from memory or the store."""
        known = self._roots.get(root)
        if known is None:
            known = loaded = (
                {branch.id: branch for branch in self._store.load(root)} if self._store is not None else {}
            )
            if loaded:
                # Two requests may ask the store at once: what the first one got stays, a commit may stand in it.
                known = self._roots.setdefault(root, loaded)
            if loaded and known is loaded:
                self._loaded += sorted(known.values(), key=lambda branch: branch.touched)
        return known

    def place(
        self, keys: bytes, root: Key, session: str, call_ids: Iterable[str], *, opening: bool, asked: int = 0
    ) -> Place:
        """Where a request with these part keys stands.

        Longest common beginning first; among equals the same session, then the answer it continues, then
        the newest. Another conversation may have begun with the same words: an `opening` request (no answer in
        it yet) joins a branch only as its own retry or by its session, and one that shares no more than the
        `asked` parts before the first answer joins none of another session, but where that ends there.
        """
        ids = set(call_ids)
        best: tuple[tuple[int, bool, bool, bool, float], Branch, int] | None = None
        least, answered = b"", keys[: (asked + 1) * SHORT]
        for branch in tuple(self.branches(root).values()):
            if not branch.keys.startswith(least):
                continue  # hundreds of conversations may begin with one reminder
            mine = bool(session) and branch.session == session
            if opening and not mine and (len(keys) != len(branch.keys) or branch.answered):
                continue
            if (
                session
                and branch.session
                and not mine
                and not branch.keys.startswith(answered[: len(branch.keys)])
            ):
                continue
            common = _common(branch.keys, keys)
            whole = common * SHORT == len(branch.keys)
            if opening and not mine and not whole:
                continue
            rank = (common, mine, not ids.isdisjoint(branch.answers), whole, branch.touched)
            if common and (best is None or rank > best[0]):
                best = (rank, branch, common)
                least = keys[: common * SHORT]
        if best is None:
            return Place(branch=None, common=0, broke=False)
        _, branch, common = best
        return Place(branch=branch, common=common, broke=common * SHORT < len(branch.keys))

    def recall(self, name: bytes) -> Sequence[Recent]:
        """Recent requests filed under `name`, newest last."""
        return self._recent.get(name, ())

    def latest(self, session: str) -> Branch | None:
        """The branch that a named session was last sent along; None where nothing names it."""
        root, branch = self._sessions.get(session, (NO_KEY, NO_KEY))
        return self._roots.get(root, {}).get(branch)

    def recent_of(self, branch: Key) -> Recent | None:
        """The last request of a branch, while it is remembered."""
        name = self._names.get(branch)
        return (
            next((recent for recent in self._recent.get(name, ()) if recent.branch == branch), None)
            if name
            else None
        )

    def policy(self, digest_: bytes) -> bytes | None:
        """The encoded policy with this digest, if a branch was ever pinned to it."""
        found = self._policies.get(digest_)
        if found is None and self._store is not None:
            found = self._store.policy(digest_)
            if found is not None:
                self._policies[digest_] = found
        return found

    # -- writing --------------------------------------------------------------------------------------

    def keep_policy(self, digest_: bytes, encode: Callable[[], bytes]) -> None:
        """Remember a policy, so that branches pinned to it find it after a reload or a restart."""
        if digest_ not in self._policies:
            self._policies[digest_] = encode()
            if self._store is not None:
                self._store.keep_policy(digest_, self._policies[digest_])

    @staticmethod
    def _name(commit: Commit, number: int, taken: Mapping[Key, Branch]) -> Key:
        """An id for a new branch, also new to a store that other runs and processes write to."""
        started = struct.pack(">d", commit.frontier.at)
        while True:
            name = digest(b"branch", commit.root, commit.keys, started, number.to_bytes(8, "big"))
            if name not in taken:
                return name
            number += 1

    def conflicts(self, commit: Commit) -> bool:
        """Whether another request of the branch was committed meanwhile with promises this rewrite did not see."""
        base = self.branches(commit.root).get(commit.base) if commit.base is not None else None
        standing = base.promises if base is not None else {}
        return any(
            held.id == promise.id and (held.edits, held.announces) != (promise.edits, promise.announces)
            for promise in commit.promises
            for held in standing.get(promise.anchor, ())
        )

    def commit(self, commit: Commit) -> Ticket:
        """The request leaves now: from here on its promises hold, for itself and for those beside it."""
        known = self.branches(commit.root)
        self._roots[commit.root] = known
        self._roots.move_to_end(commit.root)
        before = known.get(commit.base) if commit.base is not None else None
        made = before.made if before else 0
        fresh = before is None or commit.fork
        held = before.promises if before else {}
        promises, added = _with(_along(held, commit.keys) if fresh else held, commit.promises, made)
        number = self._counter = self._counter + 1
        branch_id = self._name(commit, number, known) if before is None or fresh else before.id
        known[branch_id] = branch = Branch(
            id=branch_id,
            root=commit.root,
            session=commit.session or (before.session if before else ""),
            keys=commit.keys,
            policy=commit.policy,
            touched=commit.frontier.at,
            turns=(before.turns if before else 0) + 1,
            made=made + len(added),
            promises=promises,
            frozen=commit.frozen,
            frontiers=before.frontiers if before else (),
            answers=(),
            answered=False,
            rewritten=commit.rewritten or (before is not None and before.rewritten),
            alone=before is not None and before.alone,
        )
        carried = (
            frozenset(promise.id for group in promises.values() for promise in group)
            if len(self._flying)
            else frozenset[PromiseId]()
        )
        ticket = Ticket(
            commit=commit,
            branch=branch_id,
            before=None if fresh else before,
            added=added,
            carried=carried,
            number=number,
        )
        self._flying[number] = ticket
        if commit.session:
            self._sessions[commit.session] = (commit.root, branch_id)
            self._sessions.move_to_end(commit.session)
        if commit.recent is not None:
            self._file(commit.recall, structs.replace(commit.recent, branch=branch_id))
        if self._store is not None:
            self._store.save(branch, tuple(p for ps in promises.values() for p in ps) if fresh else added)
        while self._loaded:
            self._weigh(self._loaded.pop(0))
        self._weigh(branch)
        self._bound()
        return ticket

    def settle(self, ticket: Ticket, usage: Usage | None, answers: tuple[str, ...], *, success: bool) -> None:
        """The answer is known. Success moves the frontier; a refusal strikes what nothing else carries.

        `success`: the provider took the request (an answer began); a 529 or an error is none.
        """
        ticket = self._flying.pop(ticket.number, ticket)
        if success:
            self._keep(ticket.carried)
        known = self._roots.get(ticket.commit.root, {})
        branch = known.get(ticket.branch)
        if branch is None:
            return
        if success:
            self._stand_on(ticket, lambda left: structs.replace(left, answers=answers, answered=True))
            known[branch.id] = branch = _settled(branch, ticket.commit, usage, answers)
            if self._store is not None:
                self._store.save(branch, ())
        else:
            self._stand_on(ticket, lambda _: ticket.before)
            self._withdraw(known, branch, ticket)

    def abandon(self, ticket: Ticket) -> None:
        """What was sent was refused for its structure, and the fallback was taken: this chain is left alone.

        Its promises go, but for the one that repeats what the fallback did: where it left reasoning out, the
        provider has seen the history without it, and so it stays. Where the fallback recovers, nothing of ours was
        at fault but that we had forgotten: all promises stay, and the chain goes on.
        """
        self._flying.pop(ticket.number, None)
        known = self._roots.get(ticket.commit.root, {})
        branch = known.get(ticket.branch)
        if branch is None:
            return
        recovers = ticket.commit.recovers
        standing_ = branch.promises if recovers else {}
        struck = () if recovers else tuple(p for group in branch.promises.values() for p in group)
        promises, added = _with(standing_, ticket.commit.bare, branch.made)
        known[branch.id] = branch = structs.replace(
            branch,
            promises=promises,
            frozen=branch.frozen if recovers else Frozen(),
            made=branch.made + len(added),
            rewritten=True,
            alone=not recovers,
        )
        self._forget(branch.id)
        if self._store is not None:
            self._store.strike(branch, struck)
            self._store.save(branch, added)

    def _keep(self, seen: frozenset[PromiseId]) -> None:
        """The provider has seen these promises: no request that still is on its way takes them back."""
        for number, other in self._flying.items():
            added = tuple(p for p in other.added if p.id not in seen)
            if len(added) < len(other.added):
                self._flying[number] = structs.replace(other, added=added)

    def _hand_over(self, added: tuple[Promise, ...]) -> tuple[Promise, ...]:
        """Promises of a failed request, but for those that others on their way carry: they take them back if need be."""
        left = {p.id: p for p in added}
        for number, other in self._flying.items():
            shared = tuple(p for p in added if p.id in other.carried)
            if shared:
                self._flying[number] = structs.replace(other, added=(*other.added, *shared))
            left = {name: p for name, p in left.items() if name not in other.carried}
        return tuple(left.values())

    def _stand_on(self, ticket: Ticket, now: Callable[[Branch], Branch | None]) -> None:
        """Requests that still are on their way and began where this one left the branch: where that is `now`."""
        for number, other in self._flying.items():
            left = other.before
            if other.branch != ticket.branch or left is None or left.answered:
                continue
            if left.keys == ticket.commit.keys:
                self._flying[number] = structs.replace(other, before=now(left))

    def _withdraw(self, known: dict[Key, Branch], branch: Branch, ticket: Ticket) -> None:
        struck = self._hand_over(ticket.added)
        latest = branch.keys == ticket.commit.keys and not branch.answered
        if latest and not any(other.branch == branch.id for other in self._flying.values()):
            if ticket.before is None:
                del known[branch.id]
                self._unweigh(branch.id)
                if self._store is not None:
                    self._store.strike(
                        structs.replace(branch, keys=b""),
                        tuple(p for ps in branch.promises.values() for p in ps),
                    )
                return
            branch = structs.replace(
                branch,
                keys=ticket.before.keys,
                answers=ticket.before.answers,
                answered=ticket.before.answered,
            )
        known[branch.id] = branch = structs.replace(branch, promises=_without(branch.promises, struck))
        if self._store is not None:
            self._store.strike(branch, struck)

    def _file(self, name: bytes, recent: Recent) -> None:
        """Keep the last request of each branch, the newest conversations first to stay."""
        self._forget(recent.branch)
        self._recent[name] = [*self._recent.pop(name, []), recent]
        self._names[recent.branch] = name
        self._recent_bytes += recent.size
        while self._recent_bytes > self._recent_limit and len(self._names) > 1:
            oldest = next(iter(self._recent.values()))[0]
            self._forget(oldest.branch)

    def _forget(self, branch: Key) -> None:
        name = self._names.pop(branch, None)
        if name is None:
            return
        kept = [recent for recent in self._recent[name] if recent.branch != branch]
        self._recent_bytes -= sum(recent.size for recent in self._recent[name]) - sum(
            recent.size for recent in kept
        )
        if kept:
            self._recent[name] = kept
        else:
            del self._recent[name]

    def _weigh(self, branch: Branch) -> None:
        """Note what a branch takes, as the one used last."""
        self._unweigh(branch.id)
        size = len(branch.keys) + PROMISE_BYTES * len(branch.promises)
        self._weights[branch.id] = (branch.root, size)
        self._branch_bytes += size

    def _unweigh(self, branch: Key) -> None:
        _, size = self._weights.pop(branch, (NO_KEY, 0))
        self._branch_bytes -= size

    def _bound(self) -> None:
        while self._branch_bytes > self._branch_limit and len(self._weights) > 1:
            branch, (root, _) = next(iter(self._weights.items()))
            self._unweigh(branch)
            known = self._roots.get(root, {})
            known.pop(branch, None)
            if not known:
                self._roots.pop(root, None)
        while len(self._roots) > self._conversations:
            for branch in self._roots.popitem(last=False)[1]:
                self._unweigh(branch)
        while len(self._sessions) > self._conversations:
            self._sessions.popitem(last=False)


def _common(mine: bytes, theirs: bytes) -> int:
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


def _with(
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


def _along(held: Mapping[Key, tuple[Promise, ...]], keys: bytes) -> Mapping[Key, tuple[Promise, ...]]:
    """Promises about this history: their anchor is a part of it, or the end of a turn with a part that they edit."""
    said = {keys[at : at + SHORT] for at in range(0, len(keys), SHORT)}
    return {
        anchor: group
        for anchor, group in held.items()
        if anchor[:SHORT] in said or any(e.target.key[:SHORT] in said for p in group for e in p.edits)
    }


def _without(
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


def _settled(branch: Branch, commit: Commit, usage: Usage | None, answers: tuple[str, ...]) -> Branch:
    frontier = structs.replace(commit.frontier, usage=usage)
    kept = [
        f
        for f in branch.frontiers
        if (f.upstream, f.model, f.setting) != (frontier.upstream, frontier.model, frontier.setting)
    ]
    latest = branch.keys == commit.keys
    return structs.replace(
        branch,
        frontiers=(*kept[-3:], frontier),
        answers=answers if latest else branch.answers,
        answered=branch.answered or latest,
    )


def head(conversation: Conversation) -> tuple[tuple[str, bytes], ...]:
    """Tools and system as they stand, each by place and text: what a provider caches before the turns [B1]."""
    named = [(f"tools.{part.name}", part) for part in conversation.tools if isinstance(part, ToolDefinition)]
    named += [(f"system.{place}", part) for place, part in enumerate(conversation.system)]  # type: ignore[misc]  # of any kind
    return tuple((name, _wire(part)) for name, part in named)


def _wire(part: Part) -> bytes:
    said = text_of(part)
    return said.encode("utf-8", "surrogatepass") if said is not None else bytes(part.raw or part.base or b"")


def setting(conversation: Conversation) -> bytes:
    """Digest of tools and system as they stand [B1 B12]."""
    tools = [part for part in conversation.tools if isinstance(part, ToolDefinition)]
    return digest(*map(_digest, (*tools, *conversation.system)))


_DIGESTS: dict[int, tuple[Part, bytes]] = {}
"""Digests of tools and system parts, by identity: a request asks three times for most of them."""


def _digest(part: Part) -> bytes:
    known = _DIGESTS.get(id(part))
    if known is None or known[0] is not part:
        if len(_DIGESTS) > 256:
            _DIGESTS.clear()
        known = _DIGESTS[id(part)] = (part, digest(_wire(part)))
    return known[1]


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
