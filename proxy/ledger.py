"""All that is known about conversations: where a request stands, and what its sending is to be remembered for.

The ledger is memory. A store behind it is asked once per conversation root and told of every change; what it
cannot do is its own business and never a request's. A fork or a rewind makes a new branch that starts with the
promises about what it shares.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, structs

from .answer import Signed
from .branch import (
    ENDS,
    PROMISE_BYTES,
    SHORT,
    Branch,
    Frontier,
    Frozen,
    Place,
    Promise,
    PromiseId,
    along,
    bulk,
    extended,
    shared,
    without,
)
from .conversation import NO_KEY, Key
from .identity import digest
from .rawjson import Listed
from .recall import Recall, Recent
from .usage import Usage


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
        self._recall = Recall(recent_bytes)
        self._sessions: OrderedDict[str, tuple[Key, Key]] = OrderedDict()
        self._policies: dict[bytes, bytes] = {}
        self._flying: dict[int, Ticket] = {}
        self._counter = 0
        self._conversations = conversations
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
            common = shared(branch.keys, keys)
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
        return self._recall.under(name)

    def opening(self, listed: Listed) -> Iterator[Recent]:
        """Recent requests, anybody's, whose first message stands where it must in this list, newest first."""
        return self._recall.opening(listed)

    def latest(self, session: str) -> Branch | None:
        """The branch that a named session was last sent along; None where nothing names it."""
        root, branch = self._sessions.get(session, (NO_KEY, NO_KEY))
        return self._roots.get(root, {}).get(branch)

    def recent_of(self, branch: Key) -> Recent | None:
        """The last request of a branch, while it is remembered."""
        return self._recall.of(branch)

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
        promises, added = extended(along(held, commit.keys) if fresh else held, commit.promises, made)
        number = self._counter = self._counter + 1
        branch_id = self._name(commit, number, known) if before is None or fresh else before.id
        new = (p for group in promises.values() for p in group) if fresh else added
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
            bulk=bulk(new) + (before.bulk if before is not None and not fresh else 0),
            frozen=commit.frozen,
            frontiers=before.frontiers if before else (),
            answers=(),
            signed=(),
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
            self._recall.file(commit.recall, structs.replace(commit.recent, branch=branch_id))
        if self._store is not None:
            self._store.save(branch, tuple(p for ps in promises.values() for p in ps) if fresh else added)
        while self._loaded:
            self._weigh(self._loaded.pop(0))
        self._weigh(branch)
        self._bound()
        return ticket

    def settle(
        self,
        ticket: Ticket,
        usage: Usage | None,
        answers: tuple[str, ...],
        *,
        success: bool,
        signed: tuple[Signed, ...] = (),
    ) -> None:
        """The answer is known. Success moves the frontier; a refusal strikes what nothing else carries.

        `success`: the provider took the request (an answer began); a 529 or an error is none. `answers` and `signed`:
        ids of the answer, and what it gave to come back.
        """
        ticket = self._flying.pop(ticket.number, ticket)
        if success:
            self._keep(ticket.carried)
        known = self._roots.get(ticket.commit.root, {})
        branch = known.get(ticket.branch)
        if branch is None:
            return
        if success:
            self._stand_on(
                ticket, lambda left: structs.replace(left, answers=answers, signed=signed, answered=True)
            )
            known[branch.id] = branch = _settled(branch, ticket.commit, usage, answers, signed)
            if self._store is not None:
                self._store.save(branch, ())
        else:
            self._stand_on(ticket, lambda _: ticket.before)
            self._withdraw(known, branch, ticket)

    def refreshed(self, ticket: Ticket, at: float) -> None:
        """The provider read what a request had left in its cache again, in a request that began `at` (seconds since the
        epoch): it lives from then on [B10].
        """
        known = self._roots.get(ticket.commit.root, {})
        branch = known.get(ticket.branch)
        if branch is None:
            return
        sent = ticket.commit.frontier
        frontiers = tuple(
            structs.replace(
                frontier,
                at=max(at, frontier.at),
                ends=(*frontier.ends[:-1], (frontier.turns, max(at, frontier.at))),
            )
            if (frontier.upstream, frontier.model, frontier.setting, frontier.parts)
            == (sent.upstream, sent.model, sent.setting, sent.parts)
            else frontier
            for frontier in branch.frontiers
        )
        known[branch.id] = branch = structs.replace(branch, frontiers=frontiers)
        if self._store is not None:
            self._store.save(branch, ())

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
        promises, added = extended(standing_, ticket.commit.bare, branch.made)
        known[branch.id] = branch = structs.replace(
            branch,
            promises=promises,
            frozen=branch.frozen if recovers else Frozen(),
            made=branch.made + len(added),
            rewritten=True,
            alone=not recovers,
        )
        self._recall.forget(branch.id)
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
                signed=ticket.before.signed,
                answered=ticket.before.answered,
            )
        known[branch.id] = branch = structs.replace(branch, promises=without(branch.promises, struck))
        if self._store is not None:
            self._store.strike(branch, struck)

    def _weigh(self, branch: Branch) -> None:
        """Note what a branch takes, as the one used last."""
        self._unweigh(branch.id)
        size = len(branch.keys) + PROMISE_BYTES * len(branch.promises) + branch.bulk
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


def _settled(
    branch: Branch, commit: Commit, usage: Usage | None, answers: tuple[str, ...], signed: tuple[Signed, ...]
) -> Branch:
    sent = commit.frontier
    last = branch.frontier(sent.upstream, sent.model, sent.setting)
    broken = any(promise.broke is not None for promise in commit.promises)
    before = last.ends[1 - ENDS :] if last is not None and not broken else ()
    frontier = structs.replace(sent, usage=usage, ends=(*before, (sent.turns, sent.at)))
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
        signed=signed if latest else branch.signed,
        answered=branch.answered or latest,
    )
