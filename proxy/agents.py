"""Recognisers: what coding agents put into a prompt, as data from `config/agents/*.yaml`.

An agent is told by its headers, or, where these say nothing, by how its system prompt begins. What it injects (reminders) and what of that changes from request to request
(volatile fields) is known by patterns, so that the rest of the code speaks of reminders and fields, never of an
agent. Patterns for reminders are matched at the start of a text in the user's turns; patterns for fields have one
group `value` and are looked for only where their `where` says: system, tools, or recognised reminders. Text of
people and tool results are never searched. Calls that ask for a range of something, and those that read or write a
file, are known by tool and argument, and failed ones by how their result begins. Where an agent works, it says in its
system prompt or in a reminder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import Annotated, Literal

from msgspec import DecodeError, Meta, Raw, Struct, structs
from msgspec.json import Decoder

from .conversation import Message, Part, Reminder, Role, Source, Text
from .shipped import config_dir
from .yamlfile import Document, parse

Where = Literal["system", "tools", "reminder"]
Kind = Literal["nonce", "date", "clock", "status", "path", "counter"]
Announce = Literal["never", "on_change", "human_turn"]

_arguments = Decoder(dict[str, Raw])
_text = Decoder(str)


class ReminderRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text that the harness injects; `pattern` is matched at its start."""

    name: Annotated[str, Meta(min_length=1)]
    source: Literal["environment", "project_files", "editor", "expanded_input", "reminder", "tool_result"]
    pattern: str


class VolatileRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A field that changes between requests.

    `mode: freeze` keeps the first value seen in a conversation in its place; `constant` puts `value` there in
    every conversation, so that sessions share a prefix. `announce` says when a changed value is told at the
    tail: `on_change`, `human_turn` (only with a message of a person), or `never`.
    """

    name: Annotated[str, Meta(min_length=1)]
    where: list[Where]
    pattern: str
    kind: Kind = "nonce"
    mode: Literal["freeze", "constant"] = "freeze"
    value: str | None = None
    announce: Announce = "never"


class RangeRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls that ask for a range of something: those of `tools` (names or globs) with one of the `arguments`, or with
    an argument in whose JSON the pattern that `matching` has for it is found."""

    tools: list[str]
    arguments: list[str] = []
    matching: dict[str, str] = {}


class FileRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls of `tools` (names or globs) that read or write one file: the first of the arguments in `paths` that is a
    text names it, or the group `path` of the pattern `matching` in the JSON of the arguments."""

    does: Literal["read", "write"]
    tools: list[str]
    paths: list[str] = []
    matching: str | None = None


class Detect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an agent is told: by any of its `headers`, else by a pattern found in the first characters of its `system`
    prompt, as JSON spells them."""

    headers: dict[str, str] = {}
    system: str | None = None


class AgentFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The shape of a file in `config/agents/`."""

    agent: Annotated[str, Meta(min_length=1)]
    detect: Detect = Detect()
    session: list[str] = []
    subagent: list[str] = []
    attribution: str | None = None
    reminders: list[ReminderRule] = []
    volatile: list[VolatileRule] = []
    ranges: list[RangeRule] = []
    files: list[FileRule] = []
    todos: list[str] = []
    outside: list[str] = []
    failures: list[str] = []
    workplaces: list[str] = []


class Field(Struct, frozen=True, kw_only=True):
    """A volatile rule, compiled."""

    rule: VolatileRule
    pattern: re.Pattern[str]


class Range(Struct, frozen=True, kw_only=True):
    """A range rule, compiled."""

    rule: RangeRule
    matching: tuple[tuple[str, re.Pattern[str]], ...] = ()

    def fits(self, tool: str, given: Mapping[str, Raw]) -> bool:
        """Whether a call of `tool` with these arguments asks for a range. A null asks for nothing."""
        if not any(fnmatchcase(tool, glob) for glob in self.rule.tools):
            return False
        named = {name: bytes(value).decode(errors="replace") for name, value in given.items()}
        return any(named.get(name, "null") != "null" for name in self.rule.arguments) or any(
            pattern.search(named.get(name, "")) for name, pattern in self.matching
        )


class FileUse(Struct, frozen=True):
    """What a call does to a file. `whole`: all of it, no range that was asked for."""

    does: Literal["read", "write"]
    path: str
    whole: bool


class Files(Struct, frozen=True, kw_only=True):
    """A file rule, compiled."""

    rule: FileRule
    matching: re.Pattern[str] | None = None

    def path(self, given: Mapping[str, Raw], arguments: bytes) -> str:
        """The file that a call with these arguments is about; "" where none is named."""
        if self.matching is not None:
            found = self.matching.search(arguments.decode(errors="replace"))
            return found["path"].strip() if found is not None else ""
        for name in self.rule.paths:
            try:
                path = _text.decode(given[name]) if name in given else ""
            except DecodeError:
                continue
            if path:
                return path
        return ""


_HEAD = 400
"""Characters at the beginning of a result that say whether its call failed."""


class Agent(Struct, frozen=True, kw_only=True):
    """A recogniser, compiled. The agent nobody recognises has an empty name and the generic fields."""

    name: str = ""
    detect: tuple[tuple[str, re.Pattern[str]], ...] = ()
    system: re.Pattern[str] | None = None
    session: tuple[str, ...] = ()
    subagent: tuple[str, ...] = ()
    attribution: re.Pattern[str] | None = None
    reminders: tuple[tuple[ReminderRule, re.Pattern[str]], ...] = ()
    fields: tuple[Field, ...] = ()
    ranges: tuple[Range, ...] = ()
    files: tuple[Files, ...] = ()
    todos: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    failures: tuple[re.Pattern[str], ...] = ()
    workplaces: tuple[re.Pattern[str], ...] = ()

    def detects(self, headers: Mapping[str, str]) -> bool:
        """Whether any of the agent's headers says so; names in lower case."""
        return any(name in headers and pattern.search(headers[name]) for name, pattern in self.detect)

    def asks_for_range(self, tool: str, arguments: bytes) -> bool:
        """Whether a call with these arguments (a JSON object) wants a range of something, and so just what it got."""
        if not self.ranges:
            return False
        try:
            given = _arguments.decode(arguments)
        except DecodeError:
            return False
        return any(one.fits(tool, given) for one in self.ranges)

    def file_use(self, tool: str, arguments: bytes) -> FileUse | None:
        """What a call with these arguments (a JSON object) does to a file; None where it is about none."""
        fitting = [one for one in self.files if any(fnmatchcase(tool, glob) for glob in one.rule.tools)]
        try:
            given = _arguments.decode(arguments) if fitting else {}
        except DecodeError:
            given = {}
        for one in fitting:
            path = one.path(given, arguments)
            if path:
                return FileUse(one.rule.does, path, not self.asks_for_range(tool, arguments))
        return None

    def says_failed(self, text: str) -> bool:
        """Whether a result that begins like this is that of a call that failed, where no flag says it."""
        head = text[:_HEAD]
        return any(pattern.search(head) for pattern in self.failures)

    def workplace(self, text: str) -> str:
        """The directory that a system prompt or a reminder says the agent works in; "" where it says none."""
        search = _searched_place if len(text) > REMEMBERED_CHARACTERS else _known_place
        return search(self.workplaces, text)

    def recognise(self, message: Message) -> Message:
        """The message with injected texts told apart from what people wrote."""
        if not self.reminders or message.role not in (Role.USER, Role.SYSTEM):
            return message
        parts = tuple(self._recognised(part) for part in message.parts)
        return message if parts == message.parts else structs.replace(message, parts=parts)

    def _recognised(self, part: Part) -> Part:
        if not isinstance(part, Text):
            return part
        for rule, pattern in self.reminders:
            if pattern.match(part.text):
                return Reminder(
                    raw=part.raw,
                    base=part.base,
                    key=part.key,
                    nth=part.nth,
                    mark=part.mark,
                    size=part.size,
                    text=part.text,
                    source=Source(rule.source),
                    name=rule.name,
                )
        return part

    def mask(self, reminder: Reminder) -> str:
        """Text of a reminder with its volatile values masked: what it says apart from them."""
        text = reminder.text
        for field in self.fields:
            if "reminder" in field.rule.where:
                text = substitute(field.pattern, text, partial(_masked, field.rule.name))
        return text


class Agents:
    """All recognisers."""

    def __init__(self, agents: Sequence[Agent], generic: Agent) -> None:
        self.known = tuple(agents)
        self.generic = generic

    @classmethod
    def load(cls) -> Agents:
        """The shipped recognisers. Raises ConfigErrors where a file is wrong."""
        folder = config_dir() / "agents"
        compiled = [
            compile_agent(parse(file.read_text(encoding="utf-8"), str(file)))
            for file in sorted(folder.iterdir(), key=lambda file: file.name)
            if file.name.endswith(".yaml")
        ]
        generic = next((agent for agent in compiled if agent.name == "generic"), Agent())
        generic = structs.replace(generic, name="")
        special = [
            structs.replace(
                agent,
                fields=merged(agent.fields, generic.fields),
                ranges=(*agent.ranges, *generic.ranges),
                files=(*agent.files, *generic.files),
                todos=(*agent.todos, *generic.todos),
                outside=(*agent.outside, *generic.outside),
                failures=(*agent.failures, *generic.failures),
                workplaces=(*agent.workplaces, *generic.workplaces),
            )
            for agent in compiled
            if agent.name != "generic"
        ]
        return cls(special, generic)

    def of(self, headers: Mapping[str, str], system: str = "") -> Agent:
        """The agent that sends these headers (names in lower case), or whose system prompt begins like this."""
        for agent in self.known:
            if agent.detects(headers):
                return agent
        for agent in self.known:
            if agent.system is not None and agent.system.search(system):
                return agent
        return self.generic


def merged(first: Sequence[Field], then: Sequence[Field]) -> tuple[Field, ...]:
    """Fields of both; of one name the first wins."""
    names = {field.rule.name for field in first}
    return (*first, *(field for field in then if field.rule.name not in names))


def compile_agent(document: Document) -> Agent:
    """Compile a recogniser file. Raises ConfigErrors that point at the pattern that is wrong."""
    file = document.convert(AgentFile)

    def regex(pattern: str, *place: str | int, group: str = "") -> re.Pattern[str]:
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise document.error(place, f"not a regular expression: {error}") from None
        if group and group not in compiled.groupindex:
            around = "what changes" if group == "value" else f"the {group}"
            raise document.error(place, f"the pattern needs a group (?P<{group}>...) around {around}")
        return compiled

    detect = file.detect
    return Agent(
        name=file.agent,
        detect=tuple(
            (name.lower(), regex(pattern, "detect", "headers", name))
            for name, pattern in detect.headers.items()
        ),
        system=regex(detect.system, "detect", "system") if detect.system is not None else None,
        session=tuple(name.lower() for name in file.session),
        subagent=tuple(name.lower() for name in file.subagent),
        attribution=regex(file.attribution, "attribution") if file.attribution else None,
        reminders=tuple(
            (rule, regex(rule.pattern, "reminders", at, "pattern")) for at, rule in enumerate(file.reminders)
        ),
        fields=tuple(
            Field(rule=rule, pattern=regex(rule.pattern, "volatile", at, "pattern", group="value"))
            for at, rule in enumerate(file.volatile)
        ),
        ranges=tuple(
            Range(
                rule=rule,
                matching=tuple(
                    (name, regex(pattern, "ranges", at, "matching", name))
                    for name, pattern in rule.matching.items()
                ),
            )
            for at, rule in enumerate(file.ranges)
        ),
        files=tuple(
            Files(
                rule=rule,
                matching=regex(rule.matching, "files", at, "matching", group="path")
                if rule.matching
                else None,
            )
            for at, rule in enumerate(file.files)
        ),
        todos=tuple(file.todos),
        outside=tuple(file.outside),
        failures=tuple(regex(pattern, "failures", at) for at, pattern in enumerate(file.failures)),
        workplaces=tuple(
            regex(pattern, "workplaces", at, group="path") for at, pattern in enumerate(file.workplaces)
        ),
    )


def _masked(name: str, _value: str) -> str:
    return f"\0{name}\0"


REMEMBERED_CHARACTERS = 65_536
"""Longer texts are searched each time: what is remembered must not grow with what a client sends."""


def spans(pattern: re.Pattern[str], text: str) -> tuple[tuple[int, int], ...]:
    """Where the group `value` stands in `text`. A system prompt is the same text for a whole session."""
    return _remembered(pattern, text) if len(text) <= REMEMBERED_CHARACTERS else _searched(pattern, text)


def found(patterns: tuple[re.Pattern[str], ...], text: str) -> bool:
    """Whether the group `value` of one of the patterns stands in `text`."""
    return _known(patterns, text) if len(text) <= REMEMBERED_CHARACTERS else _found(patterns, text)


def _searched(pattern: re.Pattern[str], text: str) -> tuple[tuple[int, int], ...]:
    return tuple(match.span("value") for match in pattern.finditer(text) if match["value"] is not None)


def _found(patterns: tuple[re.Pattern[str], ...], text: str) -> bool:
    return any(_searched(pattern, text) for pattern in patterns)


def _searched_place(patterns: tuple[re.Pattern[str], ...], text: str) -> str:
    """The first path that any of the patterns finds."""
    return next((match["path"] for pattern in patterns if (match := pattern.search(text))), "")


_known_place = lru_cache(maxsize=512)(_searched_place)
_remembered, _known = lru_cache(maxsize=512)(_searched), lru_cache(maxsize=512)(_found)


def substitute(pattern: re.Pattern[str], text: str, value: Callable[[str], str]) -> str:
    """`text` with the group `value` of each match replaced by what `value` gives for it."""
    pieces: list[str] = []
    end = 0
    for start, stop in spans(pattern, text):
        if start < end:
            continue
        pieces += (text[end:start], value(text[start:stop]))
        end = stop
    return text if not pieces else "".join((*pieces, text[end:]))
