"""The tool results of a history, each with its call, on one shelf per tool."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from ..conversation import Role, ToolCall, ToolResult
from ..economics import size_of, weight
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
    """All results by tool, in prompt order; bytes of the whole prompt; turns of the model in it."""

    shelves: dict[str, list[Seen]]
    total: int
    turns: int


def survey(view: View) -> Survey:
    """One walk over the history. A result belongs to the newest call of its id before it: providers reuse ids."""
    conversation, model = view.conversation, view.facts.model
    total = sum([weight(part, model) for part in (*conversation.tools, *conversation.system)])
    calls: dict[str, ToolCall] = {}
    shelves: dict[str, list[Seen]] = {}
    turns, assistant, previous = 0, Role.ASSISTANT, None
    for message in conversation.messages:
        role, tally = message.role, message.tally
        if role is assistant and previous is not assistant:
            turns += 1
        previous = role
        if not tally.results:
            for call in tally.calls:
                calls[call.id] = call
            total += size_of(message, model)
            continue
        for part in message.parts:
            # `isinstance` costs several times as much here: every result of the history is asked.
            if type(part) is ToolCall:
                calls[part.id] = part
            elif type(part) is ToolResult:
                call = calls.get(part.call_id)
                if call is not None:
                    shelf = shelves.get(call.name)
                    if shelf is None:
                        shelf = shelves[call.name] = []
                    shelf.append(Seen(part, call, total, turns))
            total += weight(part, model) if tally.media else part.size
    return Survey(shelves, total, turns)


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
