"""What a prompt finds in the cache and leaves in it, by the four ways in which services cache.

All of them are kept apart by scope: account, model, and what else separates caches.
"""

from typing import Protocol

import msgspec

from .flavours import Caching
from .render import BYTES_PER_TOKEN, Piece, weight

Scope = tuple[str, ...]
_CHILDREN = 64


class Hit(msgspec.Struct, frozen=True):
    """Tokens of a prompt read from the cache, and those that are paid for as written to it."""

    read: int = 0
    written: int = 0


class Cache(Protocol):
    """One way to cache."""

    def lookup(self, scope: Scope, pieces: list[Piece], now: float) -> Hit:
        """What a prompt finds, refreshing it. `now` in seconds."""

    def keep(self, scope: Scope, pieces: list[Piece], output: list[Piece], now: float) -> None:
        """The answer begins: what the prompt, and the answer behind it, leave can be found from now on."""


def cache_of(caching: Caching) -> Cache:
    """An empty cache of this kind."""
    match caching.regime:
        case "longest":
            return Longest(caching)
        case "units":
            return Units(caching)
        case "slots":
            return Slots(caching)
        case "breakpoints":
            return Breakpoints(caching)


def common_bytes(one: bytes, other: bytes) -> int:
    """How many leading bytes are the same."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _hit(found: int, total: int, caching: Caching) -> Hit:
    most = total - 1 if caching.computes_one else total
    read = min(found, most) // caching.block * caching.block
    return Hit(read if read >= caching.minimum else 0)


class Tree:
    """Every prompt seen, as a tree of pieces: the longest prefix a new one shares with any, to the token."""

    def __init__(self, ttl_s: float | None) -> None:
        self._ttl_s = ttl_s
        self._used: dict[bytes, float] = {}
        self._children: dict[bytes, dict[bytes, bytes]] = {}

    def common(self, pieces: list[Piece], now: float) -> tuple[int, bytes]:
        """Number of whole pieces shared, and the shared beginning of the next one, cut to whole tokens."""
        whole = 0
        chain = b""
        for piece in pieces:
            if not self._alive(piece.chain, now):
                break
            self._used[piece.chain] = now
            whole, chain = whole + 1, piece.chain
        if whole == len(pieces):
            return whole, b""
        text = pieces[whole].text
        alive = (other for key, other in self._children.get(chain, {}).items() if self._alive(key, now))
        best = max((common_bytes(text, other) for other in alive), default=0)
        return whole, text[: best // BYTES_PER_TOKEN * BYTES_PER_TOKEN]

    def add(self, pieces: list[Piece], now: float) -> None:
        """Remember a prompt."""
        chain = b""
        for piece in pieces:
            children = self._children.setdefault(chain, {})
            children.pop(piece.chain, None)
            children[piece.chain] = piece.text
            if len(children) > _CHILDREN:
                del children[next(iter(children))]
            self._used[piece.chain] = now
            chain = piece.chain

    def _alive(self, chain: bytes, now: float) -> bool:
        used = self._used.get(chain)
        return used is not None and (self._ttl_s is None or now < used + self._ttl_s)


class Longest:
    """The longest common prefix of all prompts, rounded down to blocks [B109 B500 B510]."""

    def __init__(self, caching: Caching) -> None:
        self._caching = caching
        self._trees: dict[Scope, Tree] = {}

    def _tree(self, scope: Scope) -> Tree:
        return self._trees.setdefault(scope, Tree(self._caching.ttl_s))

    def lookup(self, scope: Scope, pieces: list[Piece], now: float) -> Hit:
        """See `Cache.lookup`."""
        whole, part = self._tree(scope).common(pieces, now)
        found = weight(pieces[:whole]) + len(part) // BYTES_PER_TOKEN
        return _hit(found, weight(pieces), self._caching)

    def keep(self, scope: Scope, pieces: list[Piece], output: list[Piece], now: float) -> None:
        """See `Cache.keep`."""
        self._tree(scope).add([*pieces, *(output if self._caching.output else ())], now)


class Slots:
    """What the last prompts left in a few slots, to the token [B520]."""

    SIMILARITY = 0.1

    def __init__(self, caching: Caching) -> None:
        self._caching = caching
        self._slots: dict[Scope, list[list[Piece]]] = {}
        """The least recently used first."""

    def _best(self, scope: Scope, pieces: list[Piece]) -> tuple[int, int]:
        """Number of the slot that shares most with a prompt, and the tokens it shares; -1 where none shares enough."""
        best, shared = -1, 0
        for at, slot in enumerate(self._slots.get(scope, [])):
            found = _common(pieces, slot)
            if found > shared:
                best, shared = at, found
        enough = shared > self.SIMILARITY * weight(pieces)
        return (best, shared) if enough else (-1, 0)

    def lookup(self, scope: Scope, pieces: list[Piece], now: float) -> Hit:  # noqa: ARG002  slots do not expire
        """See `Cache.lookup`."""
        return _hit(self._best(scope, pieces)[1], weight(pieces), self._caching)

    def keep(self, scope: Scope, pieces: list[Piece], output: list[Piece], now: float) -> None:  # noqa: ARG002
        """See `Cache.keep`."""
        slots = self._slots.setdefault(scope, [])
        best, _ = self._best(scope, pieces)
        if best >= 0:
            del slots[best]
        elif len(slots) >= self._caching.slots:
            del slots[0]
        slots.append([*pieces, *output])


def _common(one: list[Piece], other: list[Piece]) -> int:
    shared = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine.chain != theirs.chain:
            return shared + common_bytes(mine.text, theirs.text) // BYTES_PER_TOKEN
        shared += mine.tokens
    return shared


class Units:
    """Whole units only: the ends of prompts and answers, prefixes that two requests shared, fixed intervals [B400]."""

    def __init__(self, caching: Caching) -> None:
        self._caching = caching
        self._trees: dict[Scope, Tree] = {}
        self._units: dict[Scope, dict[bytes, set[bytes]]] = {}
        """By the chain of the whole pieces in it: the beginnings of the next piece that end a unit."""

    def lookup(self, scope: Scope, pieces: list[Piece], now: float) -> Hit:  # noqa: ARG002  a disk forgets late
        """See `Cache.lookup`."""
        units = self._units.get(scope, {})
        best = before = 0
        chain = b""
        for piece in [*pieces, None]:
            for part in units.get(chain, ()):
                if piece is None and part:
                    continue
                if piece is None or piece.text.startswith(part):
                    best = max(best, before + len(part) // BYTES_PER_TOKEN)
            if piece is not None:
                before, chain = before + piece.tokens, piece.chain
        return _hit(best, weight(pieces), self._caching)

    def keep(self, scope: Scope, pieces: list[Piece], output: list[Piece], now: float) -> None:
        """See `Cache.keep`."""
        tree = self._trees.setdefault(scope, Tree(self._caching.ttl_s))
        units = self._units.setdefault(scope, {})
        whole, part = tree.common(pieces, now)
        if whole or part:
            units.setdefault(pieces[whole - 1].chain if whole else b"", set()).add(part)
        for end in (pieces, [*pieces, *output]):
            if end:
                units.setdefault(end[-1].chain, set()).add(b"")
        for chain, start in self._intervals([*pieces, *output]):
            units.setdefault(chain, set()).add(start)
        tree.add([*pieces, *output], now)

    def _intervals(self, pieces: list[Piece]) -> list[tuple[bytes, bytes]]:
        step = self._caching.interval
        found: list[tuple[bytes, bytes]] = []
        before, chain = 0, b""
        for piece in pieces if step else ():
            first = -(-(before + 1) // step) * step
            ends = range(first, before + piece.tokens, step)
            found += [(chain, piece.text[: (end - before) * BYTES_PER_TOKEN]) for end in ends]
            before, chain = before + piece.tokens, piece.chain
        return found


class Breakpoints:
    """Entries at the ends of messages and at marked parts, found again only where one was written [B100-B105]."""

    LIFETIMES = {"": 1800.0, "30m": 1800.0, "12h": 43200.0}  # noqa: RUF012  read only

    def __init__(self, caching: Caching) -> None:
        self._caching = caching
        self._entries: dict[Scope, dict[bytes, tuple[float, float]]] = {}
        """By chain: until when an entry lives, and for how long from its last use."""

    def lookup(self, scope: Scope, pieces: list[Piece], now: float) -> Hit:
        """See `Cache.lookup`. The first element of a scope is its mode."""
        entries = self._entries.setdefault(scope, {})
        found = next(
            (
                at
                for at in self._readable(scope, pieces)
                if entries.get(pieces[at].chain, (0.0, 0.0))[0] > now
            ),
            -1,
        )
        read = weight(pieces[: found + 1])
        if found >= 0:
            _, life = entries[pieces[found].chain]
            entries[pieces[found].chain] = (now + life, life)
        ends = [at for at in self._writable(scope, pieces) if self._is_long(pieces, at)]
        last = weight(pieces[: max(ends) + 1]) if ends else 0
        return Hit(read, max(0, last - read))

    def keep(self, scope: Scope, pieces: list[Piece], output: list[Piece], now: float) -> None:  # noqa: ARG002
        """See `Cache.keep`."""
        entries = self._entries.setdefault(scope, {})
        for at in self._writable(scope, pieces):
            if self._is_long(pieces, at):
                life = self.LIFETIMES.get(pieces[at].marked or "", 1800.0)
                until, longest = entries.get(pieces[at].chain, (0.0, 0.0))
                life = max(life, longest) if until > now else life
                entries[pieces[at].chain] = (now + life, life)

    def _is_long(self, pieces: list[Piece], at: int) -> bool:
        return weight(pieces[: at + 1]) >= self._caching.minimum

    def _explicit(self, pieces: list[Piece]) -> list[int]:
        return [at for at, piece in enumerate(pieces) if piece.marked is not None]

    def _readable(self, scope: Scope, pieces: list[Piece]) -> list[int]:
        """Where an entry is looked for, the longest prefix first [B102]."""
        explicit = self._explicit(pieces)
        places = {*explicit[:2], *explicit[-50:]}
        if scope[0] != "explicit":
            eligible = [at for at, piece in enumerate(pieces) if piece.eligible]
            places |= {*eligible[-21:], *(at for at, piece in enumerate(pieces) if piece.opening)}
        return sorted((at for at in places if self._is_long(pieces, at)), reverse=True)

    def _writable(self, scope: Scope, pieces: list[Piece]) -> list[int]:
        """Where entries are written: excess marks are ignored without a word [B103]."""
        explicit = self._explicit(pieces)
        if scope[0] == "explicit":
            return explicit[-4:]
        eligible = [at for at, piece in enumerate(pieces) if piece.eligible]
        return [*explicit[-3:], *eligible[-1:]]
