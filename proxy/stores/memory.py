"""Encoded copies in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from ..branch import Branch, Promise, PromiseId
from ..conversation import Key
from ..errors import StoreError
from .records import assemble, encode_head, encode_promise, encode_tools


class _Kept:
    """One branch, encoded."""

    __slots__ = ("head", "promises", "tools")

    def __init__(self) -> None:
        self.head = b""
        self.tools = b""
        self.promises: dict[PromiseId, bytes] = {}

    @property
    def size(self) -> int:
        return len(self.head) + len(self.tools) + sum(map(len, self.promises.values()))


class MemoryStore:
    """A store as long as the process lives, of at most `limit` bytes: the root saved longest ago leaves first.

    A ledger needs none to remember; it is for what a ledger has let go of while the disk is out of reach, and for
    a second ledger that must give the same bytes as the first. Not safe for threads on its own.
    """

    def __init__(self, limit: int = 64 << 20) -> None:
        self._limit = limit
        self._size = 0
        self._roots: OrderedDict[Key, dict[Key, _Kept]] = OrderedDict()
        self._policies: dict[bytes, bytes] = {}
        self.skipped = 0
        """Records that could not be encoded."""

    @property
    def size(self) -> int:
        """Bytes held for branches."""
        return self._size

    def load(self, root: Key) -> Iterable[Branch]:
        """The branches of a conversation root, oldest first."""
        found = (
            assemble(kept.head, kept.tools, kept.promises.values())[0]
            for kept in self._roots.get(root, {}).values()
        )
        return [branch for branch in found if branch is not None]

    def save(self, branch: Branch, added: Sequence[Promise]) -> None:
        """A branch changed; one that is new here is taken with all promises it holds."""
        self._keep(branch, added, ())

    def strike(self, branch: Branch, struck: Sequence[Promise]) -> None:
        """Promises leave; with its keys gone the branch leaves altogether."""
        if branch.keys:
            self._keep(branch, (), struck)
            return
        known = self._roots.get(branch.root, {})
        gone = known.pop(branch.id, None)
        self._size -= gone.size if gone else 0
        if not known:
            self._roots.pop(branch.root, None)

    def policy(self, digest: bytes) -> bytes | None:
        """A policy as it was encoded."""
        return self._policies.get(digest)

    def keep_policy(self, digest: bytes, encoded: bytes) -> None:
        """Remember a policy; they are few and small."""
        self._policies.setdefault(digest, encoded)

    def _keep(self, branch: Branch, added: Sequence[Promise], struck: Sequence[Promise]) -> None:
        try:
            head, tools = encode_head(branch), encode_tools(branch.frozen.tools)
        except StoreError:
            self.skipped += 1
            return
        known = self._roots.setdefault(branch.root, {})
        self._roots.move_to_end(branch.root)
        kept = known.get(branch.id)
        if kept is None:
            kept = known[branch.id] = _Kept()
            added = [promise for group in branch.promises.values() for promise in group]
        self._size -= kept.size
        kept.head, kept.tools = head, tools
        for promise in struck:
            kept.promises.pop(promise.id, None)
        for promise in added:
            if promise.id not in kept.promises:
                self._add(kept, promise)
        self._size += kept.size
        self._bound()

    def _add(self, kept: _Kept, promise: Promise) -> None:
        try:
            kept.promises[promise.id] = encode_promise(promise)
        except StoreError:
            self.skipped += 1

    def _bound(self) -> None:
        while self._size > self._limit and self._roots:
            _, dropped = self._roots.popitem(last=False)
            self._size -= sum(kept.size for kept in dropped.values())
