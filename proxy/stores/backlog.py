"""What has not been written yet, merged per branch.

A turn changes its branch twice, and a slow disk lets turns pile up: only the newest head is worth writing, and
each promise that came or went since. A backlog is filled under the store's lock; once it was taken for writing,
nobody changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..branch import Branch, Promise, PromiseId
from ..conversation import Key


class Unwritten:
    """The changes to one branch.

    `branch`: its newest state, None once it left; `struck` leave before `added` come; `anew`: whatever is stored
    under its id goes first.
    """

    __slots__ = ("added", "anew", "branch", "struck")

    def __init__(self) -> None:
        self.branch: Branch | None = None
        self.added: dict[PromiseId, Promise] = {}
        self.struck: set[PromiseId] = set()
        self.anew = False

    def save(self, branch: Branch, added: Sequence[Promise]) -> None:
        """The branch was sent; promises already standing stay as they are."""
        self.branch = branch
        for promise in added:
            self.added.setdefault(promise.id, promise)

    def strike(self, branch: Branch, struck: Sequence[Promise]) -> None:
        """Promises leave; with its keys gone the branch leaves altogether."""
        if not branch.keys:
            self.branch, self.added, self.struck, self.anew = None, {}, set(), True
            return
        self.branch = branch
        for promise in struck:
            self.added.pop(promise.id, None)
            self.struck.add(promise.id)


class Backlog:
    """All changes since the last one was taken."""

    def __init__(self) -> None:
        self.branches: dict[Key, Unwritten] = {}
        self.policies: dict[bytes, bytes] = {}
        self._roots: dict[Key, Key] = {}

    def __len__(self) -> int:
        """How many branches and policies wait."""
        return len(self.branches) + len(self.policies)

    def of(self, branch: Branch) -> Unwritten:
        """The changes to a branch, none yet for one that is new here."""
        self._roots[branch.id] = branch.root
        return self.branches.setdefault(branch.id, Unwritten())

    def under(self, root: Key) -> Mapping[Key, Branch | None]:
        """The changed branches of a root, None for those that left."""
        return {id_: self.branches[id_].branch for id_, opening in self._roots.items() if opening == root}
