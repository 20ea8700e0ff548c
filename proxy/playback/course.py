"""A session as `hindsight` charges it: rows of items that only grow, with the results that become stale.

A recording holds more than one row: side calls, sub-agents, what follows a compaction. A request goes on with the row
that it extends, and begins one of its own where there is none. What is in a row is told by what it says, so that marks
and spelling do not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from hashlib import blake2b

from msgspec import Raw, Struct, structs

from ..agents import Agent, Agents
from ..conversation import NO_KEY, Conversation, Message, Part, Reasoning, Role, ToolCall, ToolResult
from ..dialects import DIALECTS
from ..economics import weight
from ..errors import BodyError
from ..hindsight import NEVER, Course, Item
from ..identity import chained_on, plainly, says
from ..memo import Memo
from ..policy import load_policy
from ..rawjson import encoded
from ..simulator import Exchange
from ..stages import stale
from ..stages.results import Seen, Survey
from .path import WINDOWS, Sent
from .requests import Request

_SHORT = 0.5
"""The share of the last prompt below which a read says that the cache was lost."""


class Cell(Struct, frozen=True):
    """A part of a prompt; `name` says what stands there, whatever stands before it."""

    part: Part
    name: bytes


class Charged(Struct, frozen=True):
    """A request that was sent and answered."""

    request: Request
    body: bytes
    exchange: Exchange
    agent: str


class Row(Struct):
    """A stretch of requests that only grows. `ends` are the cells of each request, `end` names all of the last."""

    requests: list[Charged]
    cells: list[Cell]
    ends: list[int]
    end: bytes


def charged(sent: Sequence[Sent]) -> list[Charged]:
    """The requests of a path that the provider answered."""
    return [
        Charged(one.request, one.body, one.exchange, (one.report.agent or "") if one.report else "")
        for one in sent
        if one.exchange is not None and one.exchange.status == 200
    ]


def courses(requests: Sequence[Charged]) -> Iterator[tuple[Course, Row]]:
    """Each row, and how it is charged."""
    for row in rows(requests):
        yield _course(row), row


def rows(requests: Sequence[Charged]) -> list[Row]:
    """The rows of a session, in the order in which they begin."""
    reader = Reader()
    found: list[Row] = []
    for one in requests:
        cells = reader.cells(one)
        names = _chain(cells)
        going_on = [row for row in found if row.cells and _extends(row, one, names)]
        row = max(going_on, key=lambda row: len(row.cells), default=None)
        if row is None:
            row = Row([], [], [], b"")
            found.append(row)
        row.requests.append(one)
        row.cells, row.end = cells, names[-1] if names else b""
        row.ends.append(len(cells))
    return found


def _extends(row: Row, one: Charged, names: Sequence[bytes]) -> bool:
    last = row.requests[-1].request
    same = last.facts == one.request.facts and last.incoming.upstream == one.request.incoming.upstream
    return same and len(names) >= len(row.cells) and names[len(row.cells) - 1] == row.end


def _chain(cells: Sequence[Cell]) -> list[bytes]:
    """Names of all beginnings."""
    names: list[bytes] = []
    state = blake2b(digest_size=16)
    for cell in cells:
        state.update(cell.name)
        names.append(state.digest())
    return names


class Reader:
    """Reads bodies one after the other, and messages that are the same as in the last one only once."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[tuple[Raw, ...], tuple[Message, ...]]] = {}
        self._told: Memo[Message, tuple[Cell, ...]] = Memo(_told, 20_000)

    def cells(self, one: Charged) -> list[Cell]:
        """The parts of a prompt; none where the body cannot be read."""
        try:
            conversation = self.read(one)
        except BodyError:
            return []
        head = [Cell(part, _name(part, "")) for part in (*conversation.tools, *conversation.system)]
        return head + [cell for message in conversation.messages for cell in self._told(message)]

    def read(self, one: Charged) -> Conversation:
        """The conversation, with keys. Raises BodyError."""
        dialect = DIALECTS[one.request.incoming.dialect]
        raws, known = self._last.get(dialect.name, ((), ()))
        opened = dialect.open(one.body)
        shared = 0
        for then, now in zip(raws, opened.messages, strict=False):
            if bytes(then) != bytes(now):
                break
            shared += 1
        conversation = dialect.read(opened, known[:shared])
        keyed = (
            *known[:shared],
            *chained_on(conversation.messages[shared:], NO_KEY, plainly, known[:shared]),
        )
        self._last[dialect.name] = (opened.messages, keyed)
        return structs.replace(conversation, messages=keyed)


def _told(message: Message) -> tuple[Cell, ...]:
    return tuple(Cell(part, _name(part, message.role)) for part in message.parts)


def _name(part: Part, role: Role | str) -> bytes:
    said = says(part, plainly)
    if said is None:
        said = bytes(part.raw or b"") if isinstance(part, Reasoning) else b""
    return blake2b(role.encode() + b"\0" + said, digest_size=16).digest()


def _course(row: Row) -> Course:
    last = row.requests[-1]
    facts = last.request.facts
    sizes = [weight(cell.part, facts) for cell in row.cells]
    scale = last.exchange.usage.total / sum(sizes) if sum(sizes) else 0.0
    tokens = [round(size * scale) for size in sizes]
    arrives: list[int] = []
    for turn, end in enumerate(row.ends):
        arrives += [turn] * (end - len(arrives))
    breaks = _breaks(row, tokens)
    leaves = {at: (turn, size) for at, turn, size in _stale(row, arrives, breaks)}
    items = []
    for at, (cell, count, turn) in enumerate(zip(row.cells, tokens, arrives, strict=True)):
        if at in leaves:
            when, size = leaves[at]
            saves = max(0, count - round(size * scale))
            items.append(Item(turn, count, saves, when if saves else NEVER))
        elif facts.prefix_check and isinstance(cell.part, Reasoning):
            items.append(Item(turn, count, count, turn + 1, alone=False))
        else:
            items.append(Item(turn, count))
    return Course(tuple(items), len(row.ends), breaks, facts.read, facts.write_5m)


def _stale(row: Row, arrives: Sequence[int], resumed: Collection[int]) -> Iterator[tuple[int, int, int]]:
    """Results that become stale; `resumed`: turns whose cache had expired.

    Where each stands, the turn in which it happens, and the bytes of what would stand there instead.
    """
    last = row.requests[-1]
    chosen = load_policy(WINDOWS).choose(last.request.incoming.upstream, last.agent, last.request.facts.model)
    windows = chosen.stages.stale
    if not isinstance(windows, stale.Config):
        windows = stale.Config()
    calls = calls_of(row)
    shelves: dict[str, list[Seen]] = {}
    places: dict[int, int] = {}
    for at, cell in enumerate(row.cells):
        call = calls.get(cell.part.call_id) if isinstance(cell.part, ToolResult) else None
        if isinstance(cell.part, ToolResult) and call is not None:
            shelves.setdefault(call.name, []).append(Seen(cell.part, call, 0, arrives[at]))
            places[id(cell.part)] = at
    for seen, turn in stale.leaving(Survey(shelves, 0, []), windows, _agent(last.agent), resumed):
        part = seen.result
        left = len(encoded(stale.placeholder(seen.call, part)))
        yield places[id(part)], turn, part.size - len(part.content or b"") + left


@cache
def _agent(name: str) -> Agent:
    agents = Agents.load()
    return next((agent for agent in agents.known if agent.name == name), agents.generic)


def calls_of(row: Row) -> dict[str, ToolCall]:
    """The calls of a row by id."""
    return {cell.part.id: cell.part for cell in row.cells if isinstance(cell.part, ToolCall)}


def _breaks(row: Row, tokens: Sequence[int]) -> dict[int, int]:
    """Turns in which nothing, or only the beginning, was still cached, though nothing was cleared."""
    found: dict[int, int] = {}
    for turn in range(1, len(row.requests)):
        before, now = row.requests[turn - 1].exchange, row.requests[turn].exchange
        ttl = row.requests[turn].request.facts.ttl_s
        gone = ttl is not None and now.started - before.started >= ttl
        if gone or now.read < before.usage.total * _SHORT:
            read, kept = now.read, 0
            while kept < row.ends[turn] and read >= tokens[kept] > 0:
                read -= tokens[kept]
                kept += 1
            found[turn] = kept
    return found
