"""A request on its way in: read, keyed, and placed along what the ledger knows.

Almost all of a turn is old. What the last request of a conversation was read as is remembered by the ledger
(`Recent`) and taken over for every leading message whose bytes are the same; the rest is read. The result does
not depend on it: without anything remembered the same comes out, later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, takewhile
from operator import eq

from msgspec import Raw, Struct, structs

from .branch import SHORT, Frozen, Place, keyed, packed
from .conversation import NO_KEY, Conversation, Key, Message, Part, Role, ToolCall, ToolDefinition
from .dialects import Dialect, Opened
from .edits import Edit, Target, target_of
from .errors import BodyError
from .identity import chained_on, digest, head, origin
from .ledger import Ledger
from .memo import Memo
from .rawjson import opening, owned
from .recall import EDIT_BYTES, PART_BYTES, Recent
from .runs import Run
from .stages.view import Facts, Region

_STRETCH = 64

SHORT_BYTES = 1 << 16
"""A body up to this length is opened sooner than what is known of it is found."""


class Passage(Struct, frozen=True, kw_only=True):
    """A request, read and placed.

    `body`: the bytes that were read. `keys` and `counts`: see `Recent`. `shared`: how many leading messages are
    the same bytes as in `recent`. `first`: the first message with parts not sent before.
    """

    body: bytes
    client: Conversation
    keys: bytes
    counts: tuple[int, ...]
    root: Key
    name: bytes
    place: Place
    frozen: Frozen
    regions: dict[Target, Region]
    first: int
    recent: Recent | None
    shared: int

    def start(self, conversation: Conversation) -> int:
        """The place in an edited conversation where what was not sent before begins."""
        at = len(conversation.messages)
        while at and not 0 <= conversation.messages[at - 1].index < self.first:
            at -= 1
        return at

    def anew(self) -> Passage:
        """The same request as if nothing were known: all of it is new to the provider."""
        place = Place(branch=None, common=0, broke=True)
        regions = {target_of(part): Region.NEW for message in self.client.messages for part in message.parts}
        return structs.replace(
            self, place=place, frozen=Frozen(), regions=regions, first=0, recent=None, shared=0
        )

    def remembered(
        self, sent: tuple[Message, ...], sums: tuple[Run, ...], edits: Sequence[Edit], reach: int
    ) -> Recent:
        """What to take over when the next request comes. Texts are held twice: as they were sent, and read."""
        front = head(self.client)
        same = self.recent is not None and self.recent.head == front
        known = self.recent.raws[: self.shared] if self.recent is not None else ()
        lead = self.recent.lead if self.recent is not None else ()
        fresh = self.client.messages[self.shared :]
        return Recent(
            client=self.client.messages,
            raws=(*known, *(message.raw for message in fresh if message.raw is not None)),
            lead=lead if lead == self.client.lead else tuple(map(owned, self.client.lead)),
            sent=sent,
            keys=self.keys,
            counts=self.counts,
            edits=tuple(edits),
            head=self.recent.head if self.recent is not None and same else front,
            reach=reach,
            branch=NO_KEY,
            sums=sums,
            size=2 * len(self.body) + PART_BYTES * self.counts[-1] + EDIT_BYTES * len(edits),
        )


def open_body(body: bytes, dialect: Dialect, ledger: Ledger) -> Opened:
    """`dialect.open`, without going over the messages at the beginning that a recent request had as well.

    Raises BodyError where it cannot be read.
    """
    paths = dialect.turns if len(body) > SHORT_BYTES else ()
    found = next(filter(None, (opening(body, path) for path in paths)), None)
    if found is None:
        return dialect.open(body)
    known: tuple[Raw, ...] = ()
    lead: tuple[Raw, ...] = ()
    for recent in ledger.opening(found):
        if len(recent.raws) > len(known):
            count = found.leading((*recent.lead, *recent.raws)) - len(recent.lead)
            # The last answer stays to be opened: what follows it is read alike, whatever stands in front of it.
            last = next((at for at in range(count - 1, 0, -1) if recent.client[at].role is Role.ASSISTANT), 0)
            if last > len(known):
                known, lead = recent.raws[:last], recent.lead
    begin = found.start + found.span(lead)
    try:
        rest = dialect.open(body[:begin] + body[begin + found.span(known) :]) if known else None
    except BodyError:
        rest = None  # it says where: said of the whole body
    if rest is None or found.path[0] != next(key for key, *_ in dialect.turns if key in dict(rest.envelope)):
        return dialect.open(body)
    return structs.replace(rest, messages=(*known, *rest.messages))


def enter(
    body: bytes, dialect: Dialect, ledger: Ledger, facts: Facts, opened: Opened | None = None
) -> Passage:
    """Read a body and find its place. Raises BodyError where it cannot be read."""
    opened = opened or open_body(body, dialect, ledger)
    name = digest(
        b"recall",
        facts.tenant,
        facts.agent.name.encode(),
        bytes(opened.messages[0]) if opened.messages else b"",
    )
    recent, shared = _recalled(opened, ledger.recall(name))
    known = recent.client[:shared] if recent is not None else ()
    client = _keyed(dialect.read(opened, known), facts, shared)
    counts, keys = _packed(client.messages, recent, shared)
    root = next((part.key for message in client.messages for part in message.parts if not part.nth), NO_KEY)
    last = client.last(Role.ASSISTANT)
    ids = [
        part.id
        for message in client.messages[max(0, last) :]
        for part in message.parts
        if isinstance(part, ToolCall)
    ]
    answer = next((at for at, message in enumerate(client.messages) if message.role is Role.ASSISTANT), 0)
    asked = counts[answer - 1] if answer else 0
    place = ledger.place(keys, root, facts.session, ids, opening=last < 0, asked=asked)
    first, regions = _regions(client.messages, counts, place, last, facts)
    return Passage(
        body=body,
        client=client,
        keys=keys,
        counts=counts,
        root=root,
        name=name,
        place=place,
        frozen=place.branch.frozen if place.branch else Frozen(),
        regions=regions,
        first=first,
        recent=recent,
        shared=shared,
    )


def _recalled(opened: Opened, recents: Sequence[Recent]) -> tuple[Recent | None, int]:
    """The recent request that shares the most leading messages with this one."""
    best: Recent | None = None
    shared = 0
    for recent in reversed(recents):
        same = _common(opened.messages, recent.raws)
        if same > shared:
            best, shared = recent, same
    return best, shared


def _common(one: tuple[Raw, ...], other: tuple[Raw, ...]) -> int:
    """How many leading elements are equal. Those that are the same objects cost next to nothing."""
    at = 0
    while at < len(one) and one[at : at + _STRETCH] == other[at : at + _STRETCH]:
        at += _STRETCH
    equal = map(eq, one[at : at + _STRETCH], other[at : at + _STRETCH])
    return min(at + len([*takewhile(bool, equal)]), len(one))


def _keyed(conversation: Conversation, facts: Facts, shared: int) -> Conversation:
    known = conversation.messages[:shared]
    fresh = map(facts.agent.recognise, conversation.messages[shared:])
    return structs.replace(
        conversation,
        model=conversation.model or facts.model.model,  # it may stand in the path alone
        messages=(*known, *chained_on(fresh, origin(facts.tenant), facts.agent.mask, known)),
        tools=_named_tools(conversation.tools),
        system=_named_system(conversation.system),
    )


def _named(parts: tuple[Part, ...], where: bytes) -> tuple[Part, ...]:
    """Keys for tools and system parts: by name or place, good for one request."""
    made: list[Part] = []
    for place, part in enumerate(parts):
        name = f"{place}" if not isinstance(part, ToolDefinition) else f"{part.name}\0{place}"
        made.append(structs.replace(part, key=digest(where, name.encode())))
    return tuple(made)


_named_tools: Memo[tuple[Part, ...], tuple[Part, ...]] = Memo(lambda parts: _named(parts, b"tool"), 16)
_named_system: Memo[tuple[Part, ...], tuple[Part, ...]] = Memo(lambda parts: _named(parts, b"system"), 16)


def _packed(
    messages: tuple[Message, ...], recent: Recent | None, shared: int
) -> tuple[tuple[int, ...], bytes]:
    before = recent.counts[:shared] if recent is not None else ()
    total = before[-1] if before else 0
    fresh = messages[shared:]
    counts = (*before, *list(accumulate((keyed(message.parts) for message in fresh), initial=total))[1:])
    keys = (recent.keys[: total * SHORT] if recent is not None else b"") + packed(fresh)
    return counts, keys


def _regions(
    messages: tuple[Message, ...], counts: tuple[int, ...], place: Place, last: int, facts: Facts
) -> tuple[int, dict[Target, Region]]:
    """What of the messages was not sent before, and whether the provider has seen it all the same."""
    common = place.common
    seen_here = place.branch is not None and any(f.upstream == facts.upstream for f in place.branch.frontiers)
    if place.branch is not None and place.branch.frontiers and not seen_here:
        common = 0  # another upstream: what its rules require holds for everything
    first = bisect_left(counts, common) if common else 0
    whole = common and first < len(counts) and counts[first] == common
    regions: dict[Target, Region] = {}
    seen = counts[first] if whole else counts[first - 1] if first else 0
    for at in range(first + 1 if whole else first, len(messages)):
        region = Region.NEW if (place.broke and common) or at > last else Region.ADOPTED
        for part in messages[at].parts:
            seen += not part.nth
            if seen > common or part.nth:
                regions[Target(part.key, part.nth)] = region
    return (first + 1 if whole else first), regions
