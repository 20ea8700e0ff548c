"""A scripted coding agent of twelve turns, as four clients, in each format an engine speaks.

What the model said is scripted: the engine's own words are noise. What the clients send differs in nothing but
the one fault of each.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import orjson
from msgspec import Struct

Fault = Literal["stable", "clock", "tools", "arguments", "all"]
"""Nothing; a clock in the first line of the system prompt; tools in another order, and call arguments with their
keys in another order, on each request; all three."""

FAULTS: tuple[Fault, ...] = ("stable", "clock", "tools", "arguments")
"""The four clients."""

TURNS = 12

Json = dict[str, Any]

_WORDS = (
    "the function returns value path error file when not of class method test import config request handler stream "
    "token cache prefix message session client server write read open close list bytes None True self await raise"
).split()
_TOOLS: Mapping[str, tuple[str, ...]] = {
    "read": ("path", "offset", "limit"),
    "edit": ("path", "old", "new"),
    "shell": ("command", "directory", "seconds"),
    "search": ("pattern", "path", "glob"),
    "tasks": ("add", "done", "drop"),
    "fetch": ("url", "question"),
}


class Scale(Struct, frozen=True):
    """How long a session's texts are, in bytes."""

    instructions: int
    tool: int
    result: int


BRIEF = Scale(instructions=1000, tool=180, result=360)
"""Prompts of 4,500 to 10,000 tokens of a byte each."""


class Called(Struct, frozen=True):
    """What the model said and called in one turn, and what came of it; without a call, what a person then said."""

    said: str
    id: str
    tool: str
    arguments: Mapping[str, str | int]
    result: str


class Session(Struct, frozen=True):
    """All that a session will have come to. `project` names it in its first bytes, so that no other shares its prefix."""

    project: str
    instructions: str
    tools: Sequence[Json]
    question: str
    turns: Sequence[Called]


def session(project: str, scale: Scale = BRIEF, turns: int = TURNS) -> Session:
    """The session of a project: the same but for the name, whatever the project.

    The name stands in the question and the ids of calls too, as no two real sessions have the same history.
    """
    draw = random.Random(12)
    return Session(
        project=project,
        instructions=_prose(draw, scale.instructions),
        tools=[_tool(draw, name, scale.tool) for name in _TOOLS],
        question=f"For {project}: {_prose(draw, 90)}",
        turns=[_called(draw, f"call_{project}_{number:02d}", number, scale) for number in range(1, turns)],
    )


def _prose(draw: random.Random, size: int) -> str:
    words: list[str] = []
    while sum(map(len, words)) + len(words) < size:
        words += [*draw.choices(_WORDS, k=9), "\n"]
    return " ".join(words)[:size].strip()


def _tool(draw: random.Random, name: str, size: int) -> Json:
    properties = {argument: {"type": "string", "description": _prose(draw, 30)} for argument in _TOOLS[name]}
    return {
        "name": name,
        "description": _prose(draw, size),
        "parameters": {"type": "object", "properties": properties, "required": [_TOOLS[name][0]]},
    }


def _called(draw: random.Random, id: str, number: int, scale: Scale) -> Called:
    """Every fifth turn the model ends, and the person asks for something else."""
    if number % 5 == 0:
        return Called(_prose(draw, 120), "", "", {}, _prose(draw, 90))
    tool = draw.choice(["read", "edit", "shell", "search"])
    arguments: dict[str, str | int] = {name: _prose(draw, 24) for name in _TOOLS[tool]}
    arguments["attempt"] = number
    size = draw.randint(scale.result // 2, scale.result * 3 // 2)
    return Called(_prose(draw, 60), id, tool, arguments, _prose(draw, size))


def requests(format: str, fault: Fault, work: Session) -> Iterator[Json]:
    """The bodies a client of a format sends, turn by turn: each has the history so far."""
    for turn in range(len(work.turns) + 1):
        yield FORMATS[format].body(_Turn(fault, turn), work)


class _Turn(Struct, frozen=True):
    """A client with its fault, in one of its turns."""

    fault: Fault
    number: int

    def has(self, fault: Fault) -> bool:
        return self.fault in (fault, "all")

    def system(self, work: Session) -> str:
        clock = f" Current time: 2026-11-30 12:{self.number:02d}:17." if self.has("clock") else ""
        return f"{work.project}: you are its coding agent.{clock}\n{work.instructions}"

    def tools(self, work: Session) -> list[Json]:
        tools = [*work.tools]
        if self.has("tools"):
            random.Random(self.number).shuffle(tools)
        return tools

    def arguments(self, called: Called) -> Mapping[str, str | int]:
        if not self.has("arguments"):
            return called.arguments
        names = [*called.arguments]
        random.Random(f"{called.id} {self.number}").shuffle(names)
        return {name: called.arguments[name] for name in names}

    def history(self, work: Session) -> Sequence[Called]:
        return work.turns[: self.number]


def _chat(turn: _Turn, work: Session) -> Json:
    messages: list[Json] = [
        {"role": "system", "content": turn.system(work)},
        {"role": "user", "content": work.question},
    ]
    for called in turn.history(work):
        if not called.id:
            messages += [
                {"role": "assistant", "content": called.said},
                {"role": "user", "content": called.result},
            ]
            continue
        function = {"name": called.tool, "arguments": orjson.dumps(turn.arguments(called)).decode()}
        call = {"id": called.id, "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": called.said, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": called.id, "content": called.result},
        ]
    return {
        "model": "random",
        "max_tokens": 1,
        "stream": True,
        "temperature": 0,
        "stream_options": {"include_usage": True},
        "messages": messages,
        "tools": [{"type": "function", "function": tool} for tool in turn.tools(work)],
    }


def _messages(turn: _Turn, work: Session) -> Json:
    messages: list[Json] = [{"role": "user", "content": work.question}]
    for called in turn.history(work):
        said = {"type": "text", "text": called.said}
        if not called.id:
            messages += [
                {"role": "assistant", "content": [said]},
                {"role": "user", "content": [{"type": "text", "text": called.result}]},
            ]
            continue
        call = {"type": "tool_use", "id": called.id, "name": called.tool, "input": turn.arguments(called)}
        result = {"type": "tool_result", "tool_use_id": called.id, "content": called.result}
        messages += [{"role": "assistant", "content": [said, call]}, {"role": "user", "content": [result]}]
    return {
        "model": "random",
        "max_tokens": 1,
        "stream": True,
        "temperature": 0,
        "system": turn.system(work),
        "messages": messages,
        "tools": [
            {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
            for tool in turn.tools(work)
        ],
    }


def _responses(turn: _Turn, work: Session) -> Json:
    def say(role: str, kind: str, text: str) -> Json:
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    items = [say("user", "input_text", work.question)]
    for called in turn.history(work):
        items.append(say("assistant", "output_text", called.said))
        if not called.id:
            items.append(say("user", "input_text", called.result))
            continue
        arguments = orjson.dumps(turn.arguments(called)).decode()
        items += [
            {
                "type": "function_call",
                "call_id": called.id,
                "name": called.tool,
                "arguments": arguments,
            },
            {"type": "function_call_output", "call_id": called.id, "output": called.result},
        ]
    return {
        "model": "random",
        "max_output_tokens": 1,
        "stream": True,
        "temperature": 0,
        "store": False,
        "instructions": turn.system(work),
        "input": items,
        "tools": [{"type": "function", **tool} for tool in turn.tools(work)],
    }


class Format(Struct, frozen=True):
    """One format: its endpoint, and how its clients spell a request."""

    path: str
    body: Callable[[_Turn, Session], Json]


FORMATS: Mapping[str, Format] = {
    "openai_chat": Format("/v1/chat/completions", _chat),
    "anthropic": Format("/v1/messages", _messages),
    "openai_responses": Format("/v1/responses", _responses),
}
"""By the names the proxy has for them."""
