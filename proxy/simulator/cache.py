"""The prompt cache: entries at breakpoints only, found by looking back a fixed way.

An entry is written for each breakpoint whose prefix reaches the model's minimum [B5 B13], can be
read from the moment the first answer begins [B11], and lives for its lifetime from the start of
the request that last wrote or read it [B10].
"""

import msgspec

from .render import Position
from .usage import Usage

TTL_SECONDS = {"5m": 300.0, "1h": 3600.0}
_RUNS = ("tool_use", "tool_result")
Scope = tuple[str, ...]
"""What keeps caches apart: organization, workspace, model, speed [B16]."""


class Write(msgspec.Struct, frozen=True):
    """An entry a request will leave once its answer begins."""

    key: bytes
    ttl: str


class Lookup(msgspec.Struct, frozen=True):
    """What the cache means for one request: its usage, and what it will write."""

    usage: Usage
    writes: tuple[Write, ...]
    scope: Scope
    now: float


class _Entry(msgspec.Struct):
    ttl: str
    expires: float


class PromptCache:
    """All entries of one provider, kept apart by scope."""

    def __init__(self, lookback: int = 20, *, collapse_runs: bool = True) -> None:
        self._lookback = lookback
        self._runs = _RUNS if collapse_runs else ()
        self._entries: dict[Scope, dict[bytes, _Entry]] = {}

    def __len__(self) -> int:
        return sum(len(entries) for entries in self._entries.values())

    def clear(self) -> None:
        """Forget every entry."""
        self._entries.clear()

    def lookup(self, scope: Scope, positions: list[Position], minimum: int, now: float) -> Lookup:
        """Read what a request of these positions finds, refreshing it; `now` is its start in seconds."""
        ends = _ends(positions)
        total = ends[-1] if ends else 0
        points = [i for i, position in enumerate(positions) if position.ttl and ends[i] >= minimum]
        if not points:
            return Lookup(Usage(input_tokens=total), (), scope, now)
        best = -1
        for point in points:
            found = self._find(scope, positions, point, now)
            if found is not None:
                self._refresh(scope, positions[found].chain, now)
                best = max(best, found)
        read = ends[best] if best >= 0 else 0
        long = max((ends[i] for i in points if positions[i].ttl == "1h" and i > best), default=read)
        last = max(ends[points[-1]], read)
        usage = Usage(
            input_tokens=total - last,
            cache_read_input_tokens=read,
            write_1h=long - read,
            write_5m=last - long,
        )
        writes = tuple(Write(positions[i].chain, str(positions[i].ttl)) for i in points)
        return Lookup(usage, writes, scope, now)

    def begin(self, lookup: Lookup) -> None:
        """The answer begins: what the request writes can be read from now on."""
        entries = self._entries.setdefault(lookup.scope, {})
        for write in lookup.writes:
            expires = lookup.now + TTL_SECONDS[write.ttl]
            entry = entries.get(write.key)
            if entry is None or entry.expires <= lookup.now:
                entries[write.key] = _Entry(write.ttl, expires)
            else:
                entry.expires = max(entry.expires, lookup.now + TTL_SECONDS[entry.ttl])

    def _alive(self, scope: Scope, key: bytes, now: float) -> _Entry | None:
        entry = self._entries.get(scope, {}).get(key)
        return entry if entry is not None and entry.expires > now else None

    def _refresh(self, scope: Scope, key: bytes, now: float) -> None:
        entry = self._alive(scope, key, now)
        if entry is not None:
            entry.expires = max(entry.expires, now + TTL_SECONDS[entry.ttl])

    def _find(self, scope: Scope, positions: list[Position], point: int, now: float) -> int | None:
        """The nearest entry at or before `point` within the lookback; runs of tool blocks count once [B6]."""
        seen = 0
        run: str | None = None
        for at in range(point, -1, -1):
            position = positions[at]
            if not position.is_parameters and (position.kind not in self._runs or position.kind != run):
                seen += 1
                run = position.kind
            if seen > self._lookback:
                return None
            if self._alive(scope, position.chain, now) is not None:
                return at
        return None


def _ends(positions: list[Position]) -> list[int]:
    """Tokens up to and with each position."""
    total = 0
    ends = []
    for position in positions:
        total += position.tokens
        ends.append(total)
    return ends
