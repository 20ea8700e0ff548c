"""The last request of each conversation, read: nearly all of the next one is the same bytes.

Memory only, and bounded: what is forgotten is read again, which takes longer and changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from msgspec import Raw, Struct

from .conversation import Key, Message
from .edits import Edit
from .rawjson import Listed
from .runs import Run

PART_BYTES, EDIT_BYTES = 700, 1500
"""What a part that was read, and one that was edited, take in memory beside their text, about."""

_END = 64
"""Bytes at the end of a first message that tell it from others: they often begin alike."""


class Recent(Struct, frozen=True):
    """The last request of a conversation, read: messages as the client wrote them and as they were sent.

    `raws`: the bytes of the client's messages, `lead` of what stands in front of them in their list. `keys` and `counts`: their packed keys, and how many keyed parts
    stand up to and with each. `edits` are those of messages. `head`: tools and system as the client wrote them.
    `reach`: the highest message that an edit across messages was bound to; below it nothing may be reused on its
    own. `sums`: of the messages sent. `size`: bytes of memory that all this takes, about.
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
    sums: tuple[Run, ...] = ()
    raws: tuple[Raw, ...] = ()
    lead: tuple[Raw, ...] = ()


class Recall:
    """Recent requests by the name they are filed under and by branch, the newest conversations first to stay.

    `limit`: bytes of memory that all of them may take, about.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._filed: OrderedDict[bytes, list[Recent]] = OrderedDict()
        self._names: dict[Key, bytes] = {}
        self._ends: dict[Key, tuple[int, int, bytes]] = {}
        """By branch: elements that lead, bytes before the end of the first message, that end. There may be thousands."""

    def under(self, name: bytes) -> Sequence[Recent]:
        """Recent requests filed under `name`, newest last."""
        return self._filed.get(name, ())

    def opening(self, listed: Listed) -> Iterator[Recent]:
        """Recent requests whose first message ends where it must in this list, the newest first."""
        body, start, gap = listed.body, listed.start, len(listed.comma)
        found = [
            branch
            for branch, (lead, ahead, end) in self._ends.items()
            if body.startswith(end, start + lead * gap + ahead)
        ]
        yield from filter(None, map(self.of, reversed(found)))

    def of(self, branch: Key) -> Recent | None:
        """The last request of a branch, while it is remembered."""
        filed = self._filed.get(self._names.get(branch, b""), ())
        return next((recent for recent in filed if recent.branch == branch), None)

    def file(self, name: bytes, recent: Recent) -> None:
        """Remember the last request of a branch instead of the one before it."""
        self.forget(recent.branch)
        self._filed[name] = [*self._filed.pop(name, []), recent]
        self._names[recent.branch] = name
        if recent.raws:
            end = bytes(recent.raws[0])[-_END:]
            ahead = sum(map(len, (*recent.lead, recent.raws[0]))) - len(end)
            self._ends[recent.branch] = (len(recent.lead), ahead, end)
        self._bytes += recent.size
        while self._bytes > self._limit and len(self._names) > 1:
            self.forget(next(iter(self._filed.values()))[0].branch)

    def forget(self, branch: Key) -> None:
        """Forget the last request of a branch."""
        name = self._names.pop(branch, None)
        self._ends.pop(branch, None)
        if name is None:
            return
        kept = [recent for recent in self._filed[name] if recent.branch != branch]
        self._bytes -= sum(recent.size for recent in self._filed[name] if recent.branch == branch)
        if kept:
            self._filed[name] = kept
        else:
            del self._filed[name]
