"""What a stage is shown, and what it may propose.

A stage is a module with a `NAME`, a `Config` (its part of a policy file) and a pure function
`propose(view, config) -> Proposal`. It never changes anything: it names edits, and `edits.apply` makes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Protocol, TypeVar

from msgspec import Struct

from ..agents import Agent, Field
from ..branch import Break, Frozen, Place, Promise
from ..conversation import Conversation, Part, Reminder
from ..edits import Edit, Held, Target, target_of
from ..models import ModelFacts
from ..rules import Rules
from ..spool import Spool, Spooled


class Region(Enum):
    """Where a part stands that we have not sent before.

    ADOPTED: the provider has seen it as the client wrote it (its own answer, or a conversation first met in
    mid-life): only what is required may change it. NEW: the provider has not cached it; causal edits apply.
    """

    ADOPTED = "adopted"
    NEW = "new"


class Heard(Struct, frozen=True):
    """What came of a question to the model: its words, or "" and why there are none (`fault`). `cost`: what the question
    cost, in units of base input."""

    text: str = ""
    fault: str = ""
    cost: float = 0.0


NOBODY = Heard(fault="no model is asked here")
"""Where a question cannot be put: in a replay, on the command line, where requests are only observed or counted."""


class Facts(Struct, frozen=True, kw_only=True):
    """What the world says about a request; the core asks for nothing else.

    `now`: wall-clock seconds at the request's start. `tenant`: who pays, as bytes that are no key. `scale`:
    the provider's tokens per estimated token, learned from its usage. `session`: what names the session, ""
    where nothing does. `spool`: where huge outputs can be put, None where there is none (or it is full). `files`: project
    files by the names that a policy gives them, `environment`: what is told of it, by name (`inject`). `heard`: what came
    of a question to the model; None: it can be asked, and was not yet. `strict`: a broken law raises instead of falling
    back.
    """

    now: float
    tenant: bytes
    model: ModelFacts
    upstream: str
    session: str = ""
    agent: Agent = Agent()
    scale: float = 1.0
    spool: Spool | None = None
    files: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}
    heard: Heard | None = NOBODY
    strict: bool = False


class View(Struct, frozen=True, kw_only=True):
    """The conversation as the stages before left it, and what is known about it.

    `start`: the first message that may hold parts not sent before. `regions`: those parts, by target; what is
    in neither region was sent before, or is ours. `frozen` and `announced` (field to value) come from the
    ledger along this history. `cleared`: what earlier batches replaced by a placeholder, `breaks`: what they cost,
    `regrets`: how often a tool was asked again for what was taken out.
    `pointers`: what points the model at an earlier part, and at which, which must stay as it is. `client`: the
    conversation as the client wrote it. `respelt`: reminders that the client rendered anew, as it wrote them
    now. `fields`: the volatile fields to look for. `batch`: the first and the last part that a batch of this very
    request changes; what the provider has cached ends before the first.
    """

    conversation: Conversation
    rules: Rules
    facts: Facts
    place: Place
    start: int
    regions: Mapping[Target, Region]
    frozen: Frozen
    announced: Mapping[str, str]
    client: Conversation
    cleared: frozenset[Target] = frozenset()
    breaks: tuple[Break, ...] = ()
    pointers: Mapping[Target, Target] = {}
    regrets: Mapping[str, int] = {}
    respelt: tuple[Reminder, ...] = ()
    fields: tuple[Field, ...] = ()
    batch: tuple[Target, Target] | None = None

    def fresh(self) -> Iterator[tuple[int, Part, Region]]:
        """Message place, part and region of each of the client's parts that was not sent before."""
        messages = self.conversation.messages
        for at in range(self.start, len(messages)):
            for part in messages[at].parts:
                region = self.regions.get(target_of(part))
                if region is not None:
                    yield at, part, region

    def region(self, part: Part) -> Region | None:
        """The region of one part; None where it was sent before or is ours."""
        return self.regions.get(target_of(part))


def weight(part: Part) -> int:
    """A part's rough size in tokens, for explanations and stakes: a quarter of its bytes."""
    return part.size // 4


class Proposal(Struct, frozen=True, kw_only=True):
    """What a stage wants.

    `promises` are applied now and remembered; `edits` are applied now and decided anew each time (marks, and
    what follows from `frozen`). `brief` edits belong to this request alone: they are applied when all but the marks
    stands, and the next request knows nothing of them. `frozen` replaces what the ledger holds of it. `held`: wanted, but
    not now. `spooled`: what must be kept before what it proposes is sent. `asks`: seconds that an answer of the model's is
    to be waited for, which it wants first (see `question`); then it proposes nothing yet.
    """

    edits: tuple[Edit, ...] = ()
    promises: tuple[Promise, ...] = ()
    brief: tuple[Edit, ...] = ()
    held: tuple[Held, ...] = ()
    frozen: Frozen | None = None
    spooled: tuple[Spooled, ...] = ()
    asks: float | None = None


NOTHING = Proposal()

C_contra = TypeVar("C_contra", contravariant=True)


class Stage(Protocol[C_contra]):
    """A stage module."""

    NAME: str

    def propose(self, view: View, config: C_contra) -> Proposal:
        """What this stage wants done."""


def causal(name: str, edits: list[Edit]) -> Proposal:
    """Edits that depend on their own target and what stands before it, each promised under that target."""
    anchored: dict[Target, list[Edit]] = {}
    for edit in edits:
        anchored.setdefault(edit.target, []).append(edit)
    return Proposal(
        promises=tuple(
            Promise(anchor=t.key, stage=name, nth=t.nth, edits=tuple(group)) for t, group in anchored.items()
        )
    )
