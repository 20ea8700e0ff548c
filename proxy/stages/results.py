"""The tool results of a history, each with its call, on one shelf per tool."""

from __future__ import annotations

from collections import defaultdict

import msgspec
from msgspec import Raw, Struct

from ..conversation import Message, Role, ToolCall, ToolResult
from ..economics import weight
from ..models import ModelFacts
from .view import View

ARGUMENTS = (
    "file_path",
    "path",
    "notebook_path",
    "filename",
    "command",
    "cmd",
    "pattern",
    "query",
    "url",
    "prompt",
)
"""Names of the argument that says most about a call, the strongest first."""

_strings = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)


class Seen(Struct, frozen=True):
    """A result, its call, the bytes that stand before it, and the model's turns before it."""

    result: ToolResult
    call: ToolCall
    before: int
    turn: int


class Survey(Struct, frozen=True):
    """All results by tool, in prompt order; bytes of the whole prompt; turns of the model in it.

    `asked`: for each of these turns the bytes of the request that it answered: what stands before it.
    """

    shelves: dict[str, list[Seen]]
    total: int
    asked: list[int]

    @property
    def turns(self) -> int:
        """How many turns of the model there are."""
        return len(self.asked)


def survey(view: View) -> Survey:
    """One walk over the history. A result belongs to the newest call of its id before it: providers reuse ids."""
    conversation, model = view.conversation, view.facts.model
    total = sum([weight(part, model) for part in (*conversation.tools, *conversation.system)])
    calls: dict[str, ToolCall] = {}
    shelves: defaultdict[str, list[Seen]] = defaultdict(list)
    asked, assistant, previous = list[int](), Role.ASSISTANT, None
    for message in conversation.messages:
        tally = message.tally
        if message.role is assistant and previous is not assistant:
            asked.append(total)
        previous = message.role
        if tally.media or (tally.calls and tally.results):
            total = _walked(message, model, calls, shelves, total, len(asked))
            continue
        for call in tally.calls:
            calls[call.id] = call
        for result, ahead in tally.results:
            made = calls.get(result.call_id)
            if made is not None:
                shelves[made.name].append(Seen(result, made, total + ahead, len(asked)))
        total += tally.size
    return Survey(shelves, total, asked)


def _walked(
    message: Message,
    model: ModelFacts,
    calls: dict[str, ToolCall],
    shelves: dict[str, list[Seen]],
    total: int,
    turns: int,
) -> int:
    """Part by part, where their order counts or their bytes do not say what they weigh."""
    for part in message.parts:
        if isinstance(part, ToolCall):
            calls[part.id] = part
        elif isinstance(part, ToolResult) and part.call_id in calls:
            call = calls[part.call_id]
            shelves[call.name].append(Seen(part, call, total, turns))
        total += weight(part, model)
    return total


def main_argument(call: ToolCall) -> tuple[str, str]:
    """Name and value, on one line, of the argument that says most about a call; both empty where none is a string."""
    try:
        given = _strings.decode(call.input)
    except msgspec.DecodeError:
        return "", ""
    for name in (*(name for name in ARGUMENTS if name in given), *given):
        try:
            value = " ".join(_string.decode(given[name]).split())
        except msgspec.DecodeError:
            continue
        if value:
            return name, value
    return "", ""
