"""Which response answers which call, where ids are optional [A303].

Responses pair with the calls of the content before them: by id, else by name and order. A call without an id gets
one here, made of its number and its name. Such an id never goes out, and is good for one reading: it says no more
than the order of the calls does. Clients that name only their responses are paired by name too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from ..conversation import Message, Part, Role, ToolCall, ToolResult

_DERIVED = re.compile(r"#(?:0\.[0-9]+|[1-9][0-9]*)\..*", re.DOTALL)
"""An id of ours: of a call without one by number, of a response without a call behind `0.`; then the name.

A client's own id that begins like this is read with one more `#` in front, so that none is ever mistaken.
"""


def inward(wire: str | None) -> str:
    """The id of a part as it stands on the wire, "" where there is none."""
    return f"#{wire}" if wire and wire.startswith("#") else wire or ""


def outward(call_id: str) -> str | None:
    """What the wire says of an id; None of one that is ours alone."""
    if not call_id or _DERIVED.fullmatch(call_id):
        return None
    return call_id[1:] if call_id.startswith("##") else call_id


class _Answer(Struct, frozen=True):
    """A response that looks for its call: place in its content, id on the wire, name."""

    at: int
    id: str
    name: str


_Rule = Callable[[_Answer, ToolCall], bool]

_RULES: tuple[_Rule, ...] = (
    lambda answer, call: bool(answer.id) and answer.id == call.id,
    lambda answer, call: answer.name == call.name and (not answer.id or outward(call.id) is None),
    lambda answer, call: not answer.id and call is not None,
)
"""By id; by name, where one of the two has no id; by order, where the response has none. The first wins."""


class Pairing:
    """Walks the contents in order and gives each call and response its id.

    Only the calls of the newest step wait: a response counts for the content right before it [A302].
    """

    def __init__(self, known: Sequence[Message] = ()) -> None:
        """Go on behind `known`, messages read before."""
        self._waiting: list[ToolCall] = []
        self._answered = False
        self._calls, self._strays = _numbered(known)
        for message in known[_last_step(known) :]:
            self._enter(message.role)
            self._waiting += message.tally.calls
            for result, _ in message.tally.results:
                self._serve([call for call in self._waiting if call.id == result.call_id][:1])

    def paired(self, role: Role, parts: Iterable[Part]) -> tuple[Part, ...]:
        """The parts of the next content, calls and responses with their ids."""
        self._enter(role)
        done = [self._numbered(part) if isinstance(part, ToolCall) else part for part in parts]
        answers = [
            _Answer(at, part.call_id, part.name)
            for at, part in enumerate(done)
            if isinstance(part, ToolResult)
        ]
        for at, call_id in self._answers(answers).items():
            done[at] = structs.replace(done[at], call_id=call_id)
        return tuple(done)

    def _enter(self, role: Role) -> None:
        """A content of this role begins: the model's behind anybody else's is a new step."""
        if role is Role.ASSISTANT and self._answered:
            self._waiting = []
        self._answered = role is not Role.ASSISTANT

    def _numbered(self, call: ToolCall) -> ToolCall:
        if not call.id:
            self._calls += 1
            call = structs.replace(call, id=f"#{self._calls}.{call.name}")
        self._waiting.append(call)
        return call

    def _answers(self, answers: Sequence[_Answer]) -> dict[int, str]:
        """The ids of the calls that the responses of one content answer, by place."""
        found: dict[int, str] = {}
        for rule in _RULES:
            for answer in answers:
                if answer.at not in found:
                    fitting = [call for call in self._waiting if rule(answer, call)][:1]
                    self._serve(fitting)
                    found.update((answer.at, call.id) for call in fitting)
        for answer in answers:
            if answer.at not in found and not answer.id:
                self._strays += 1
                found[answer.at] = f"#0.{self._strays}.{answer.name}"
        return found

    def _serve(self, calls: Sequence[ToolCall]) -> None:
        self._waiting = [call for call in self._waiting if all(call is not other for other in calls)]


_NUMBERED = "ids of ours up to here"


def _numbered(known: Sequence[Message]) -> tuple[int, int]:
    """How many calls, and how many responses without one, have an id of ours. It is kept with the last message: those
    in front of a known message are the same in every request that has it."""
    at = next((at for at in range(len(known), 0, -1) if _NUMBERED in known[at - 1].__dict__), 0)
    calls, strays = known[at - 1].__dict__[_NUMBERED] if at else (0, 0)
    for message in known[at:]:
        calls += sum(outward(call.id) is None for call in message.tally.calls)
        strays += sum(result.call_id.startswith("#0.") for result, _ in message.tally.results)
    if known:
        known[-1].__dict__[_NUMBERED] = (calls, strays)
    return calls, strays


def _last_step(known: Sequence[Message]) -> int:
    """Where the model's newest contents begin."""
    at = len(known)
    while at and known[at - 1].role is not Role.ASSISTANT:
        at -= 1
    while at and known[at - 1].role is Role.ASSISTANT:
        at -= 1
    return at
