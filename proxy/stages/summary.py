"""What a stretch of a conversation came to, told from the history: the same text for the same history.

Where the model was asked, its words say what the work came to, and the lists stand behind them: what was asked, done, left
open and touched is not left to what it remembers. Else nothing judges what is important: what people asked stands in their words, what the model concluded in its own, and
the rest are lists of names. Calls are never written out, for a model imitates what it reads of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice

import msgspec
from msgspec import Struct

from ..agents import Agent
from ..conversation import Message, Role, Text, ToolCall, ToolResult
from .contents import text_of
from .files import use_of
from .results import main_argument

# The model reads these. Changing a word invalidates the caches of prompts sent from then on with another one.
OPENING = (
    "Summary of the work so far. It stands here in place of {count} earlier messages, to save space; what comes before and "
    "behind it is complete. Output of tools from then is gone: where it is needed, it has to be fetched again."
)
ASKED = "What the user asked since the first message, oldest first:"
DONE = "Done:"
OPEN = "Still open:"
LIST = "The list of tasks as last written:"
FOUND = "Concluded, oldest first:"
TOLD = "What it came to:"
WRITTEN = "Files changed:"
READ = "Files read:"
FAILED = "Failed, and not seen to succeed since:"

ASKED_BYTES, FOUND_BYTES, FAILED_BYTES, LIST_BYTES = 400, 800, 240, 2000
MOST_ASKED, MOST_FOUND, MOST_FILES, MOST_FAILED, MOST_TASKS = 30, 12, 40, 8, 60

_FINISHED = frozenset({"completed", "complete", "done", "finished", "cancelled", "canceled"})
_LISTS = ("todos", "plan", "items", "tasks", "todoList", "todo_list")
_NAMES = ("content", "step", "title", "task", "description", "text", "name", "subject")


class Tasks(Struct, frozen=True):
    """A list of tasks: those that are done, those that are not, or, where it has another form, what was written."""

    done: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    text: str = ""


def summary(messages: Sequence[Message], agent: Agent, count: int, told: str = "") -> str:
    """The summary of these messages, as the client wrote them; it stands in place of `count` of them.

    `told`: what the model itself wrote of them, in place of its last words in each turn.
    """
    calls = [call for message in messages for call in message.tally.calls]
    results = {result.call_id: result for message in messages for result, _ in message.tally.results}
    tasks = _tasks(calls, results, agent)
    changed, read = _files(calls, results, agent)
    sections = (
        (ASKED, _newest(_asked(messages), MOST_ASKED)),
        (LIST, [tasks.text] if tasks.text else []),
        (DONE, _newest(tasks.done, MOST_TASKS)),
        (OPEN, _newest(tasks.open, MOST_TASKS)),
        (FOUND, [] if told else _newest(_found(messages), MOST_FOUND)),
        (WRITTEN, _newest(changed, MOST_FILES)),
        (READ, _newest(read, MOST_FILES)),
        (FAILED, _newest(_failed(calls, results), MOST_FAILED)),
    )
    parts = [OPENING.format(count=count), *([f"{TOLD}\n{told}"] if told else [])]
    parts += ["\n".join([title, *(f"- {line}" for line in lines)]) for title, lines in sections if lines]
    return "\n\n".join(parts)


def _newest(lines: Iterable[str], most: int) -> list[str]:
    """The last of them, once each, in their order."""
    kept = list(islice(dict.fromkeys(reversed([*lines])), most))
    return kept[::-1]


def _line(text: str, most: int) -> str:
    """A text on one line of at most about so many bytes."""
    words = " ".join(text.split())
    raw = words.encode("utf-8", "replace")
    return words if len(raw) <= most else f"{raw[:most].decode('utf-8', 'ignore')} ..."


def _asked(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if message.role is Role.USER:
            yield from (
                _line(part.text, ASKED_BYTES)
                for part in message.parts
                if isinstance(part, Text) and part.text.strip()
            )


def _found(messages: Sequence[Message]) -> Iterator[str]:
    """The last words of the model before each message of a person, and at the end."""
    last = ""
    for message in messages:
        said = [part.text for part in message.parts if isinstance(part, Text) and part.text.strip()]
        if message.role is Role.ASSISTANT and said:
            last = said[-1]
        elif message.role is Role.USER and said:
            if last:
                yield _line(last, FOUND_BYTES)
            last = ""
    if last:
        yield _line(last, FOUND_BYTES)


def _tasks(calls: Sequence[ToolCall], results: dict[str, ToolResult], agent: Agent) -> Tasks:
    for call in reversed(calls):
        if not any(fnmatchcase(call.name, glob) for glob in agent.todos):
            continue
        result = results.get(call.id)
        if result is not None and result.is_error:
            continue
        found = _listed(call.input)
        if found is not None:
            return found
        text = text_of(result.content) if result is not None and result.content is not None else None
        if text and text.strip():
            return Tasks(text=_line(text, LIST_BYTES))
    return Tasks()


def _listed(arguments: bytes) -> Tasks | None:
    """The tasks in what a call was given; None where they are in none of the known forms."""
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return None
    tasks = next((given[name] for name in _LISTS if name in given), None) if isinstance(given, dict) else None
    if isinstance(tasks, str) and tasks.strip():
        return Tasks(text=_line(tasks, LIST_BYTES))
    if not isinstance(tasks, list) or not tasks:
        return None
    done: list[str] = []
    open_: list[str] = []
    for task in tasks:
        named = task if isinstance(task, dict) else {"content": task}
        name = next((named[key] for key in _NAMES if isinstance(named.get(key), str)), "")
        if name.strip():
            finished = str(named.get("status", "")).lower() in _FINISHED or named.get("done") is True
            (done if finished else open_).append(_line(name, ASKED_BYTES))
    return Tasks(tuple(done), tuple(open_)) if done or open_ else None


def _files(
    calls: Sequence[ToolCall], results: dict[str, ToolResult], agent: Agent
) -> tuple[list[str], list[str]]:
    """Files that were changed, and those that were only read."""
    found: dict[str, list[str]] = {"write": [], "read": []}
    for call in calls:
        result = results.get(call.id)
        use = use_of(agent, call) if result is not None and not result.is_error else None
        if use is not None:
            found[use.does].append(_line(use.path, ASKED_BYTES))
    changed = set(found["write"])
    return found["write"], [path for path in found["read"] if path not in changed]


def _failed(calls: Sequence[ToolCall], results: dict[str, ToolResult]) -> Iterator[str]:
    """Errors of which no like call was successful later."""
    good: set[tuple[str, str]] = set()
    lines: list[str] = []
    for call in reversed(calls):
        result = results.get(call.id)
        if result is None:
            continue
        about = (call.name, main_argument(call)[1])
        if not result.is_error:
            good.add(about)
        elif about not in good:
            text = text_of(result.content) if result.content is not None else None
            first = next((line for line in (text or "").splitlines() if line.strip()), "an error")
            said = _line(about[1], FAILED_BYTES)
            lines.append(f"{said}: {_line(first, FAILED_BYTES)}" if said else _line(first, FAILED_BYTES))
            good.add(about)
    yield from reversed(lines)
