"""Short sessions in the other formats: eighteen turns of the same play, by a clean client and by a careless one.

The careless one has the time of day in front of its conversation, and loses the results of what the person stops.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct

from ..dialects import DIALECTS
from ..simulator import Clock
from ..simulator.responses.codex import Codex, Shape
from ..simulator.responses.codex_tools import PROSE
from .plan import INTERRUPTED, INTERRUPTION, TASKS, Task
from .project import ROOT, Json, output, system_prompt, tools
from .wire import Answered, Wire, only_choice, only_content, whole_output

TURNS = len(TASKS[0].steps) + len(TASKS[1].steps)
"""Turns of a short session: the first two things the person asks for."""

SECONDS_A_TURN = 12.0


class Short(Struct, frozen=True, kw_only=True):
    """How a client of another format sends its requests; `careless` as said above."""

    name: str
    dialect: str
    model: str
    careless: bool = False


SHORT = tuple(
    Short(name=f"{format_}: {kind} client", dialect=dialect, model=model, careless=kind == "careless")
    for format_, dialect, model in (
        ("chat", "openai_chat", "gpt-5.6-sol"),
        ("responses", "openai_responses", "gpt-6.1-sol"),
        ("gemini", "gemini", "gemini-3.1-pro"),
    )
    for kind in ("clean", "careless")
)


def short_sessions() -> tuple[Short, ...]:
    """Those whose format the proxy reads."""
    return tuple(session for session in SHORT if session.dialect in DIALECTS)


class ShortAgent(ABC):
    """One conversation. `pause`: seconds until it sends its next request."""

    def __init__(self, session: Short, wire: Wire, clock: Clock) -> None:
        self.session = session
        self.pause = 0.0
        self.wire = wire
        self._clock = clock
        self._answers = 0
        self._tasks = iter(TASKS)
        self._prepare()
        self._ask(next(self._tasks))

    def turn(self) -> Answered:
        """Send the next request, and take in how it is answered; a refusal changes nothing."""
        answered = self.wire.post(self.body())
        self.pause = SECONDS_A_TURN
        if answered.content is not None:
            step, self._answers = self._answers, self._answers + 1
            self._go_on(answered.content, stopped=self.session.careless and step == INTERRUPTED)
        return answered

    @abstractmethod
    def body(self) -> Json:
        """The next request, whole."""

    @abstractmethod
    def _say(self, text: str) -> None:
        """The person says something."""

    @abstractmethod
    def _take(self, content: list[Json], *, lose: bool) -> bool:
        """Take in an answer and the results of its calls, or lose these; whether it made any."""

    def _prepare(self) -> None:
        """Set up an empty history."""
        self._history: list[Json] = []

    def _go_on(self, content: list[Json], *, stopped: bool) -> None:
        called = self._take(content, lose=stopped)
        if stopped:
            self._say(INTERRUPTION)
        elif not called and (task := next(self._tasks, None)) is not None:
            self._ask(task)

    def _ask(self, task: Task) -> None:
        self.pause += min(task.pause, 40.0)
        self._say(task.says)

    def _opening(self, text: str) -> str:
        """What stands in front of the conversation."""
        if not self.session.careless:
            return text
        now = time.gmtime(self._clock())
        return f"{text}\n\n# Environment\n" + time.strftime(
            "Today's date: %Y-%m-%d\nCurrent time: %H:%M:%S\n", now
        )


class ChatAgent(ShortAgent):
    """A client of chat completions."""

    def body(self) -> Json:
        """The next request."""
        functions = [
            {"name": one["name"], "description": one["description"], "parameters": one["input_schema"]}
            for one in tools()
        ]
        return {
            "model": self.session.model,
            "messages": [
                {"role": "system", "content": self._opening(system_prompt())},
                *self._history,
            ],
            "tools": [{"type": "function", "function": one} for one in functions],
        }

    def _say(self, text: str) -> None:
        self._history.append({"role": "user", "content": text})

    def _take(self, content: list[Json], *, lose: bool) -> bool:
        (message,) = content
        calls = message.get("tool_calls") or []
        self._history.append(message)
        self._history += (
            {
                "role": "tool",
                "tool_call_id": call["id"],
                "content": output(call["function"]["name"], call["function"]["arguments"]),
            }
            for call in calls
            if not lose
        )
        return bool(calls)


class CodexAgent(ShortAgent):
    """A client of the Responses API, in the shape of Codex."""

    def _prepare(self) -> None:
        self._lose = False
        self._codex = Codex(
            Shape(seed=20417 + self.session.careless, model=self.session.model, folder=ROOT),
            self._run,
            opening=lambda: self._opening(PROSE),
            keep=self._kept,
        )

    def body(self) -> Json:
        """The next request."""
        return self._codex.body()

    def _say(self, text: str) -> None:
        self._codex.ask(text)

    def _take(self, content: list[Json], *, lose: bool) -> bool:
        self._lose = lose
        return self._codex.take(content)

    def _kept(self, items: list[Json]) -> list[Json]:
        return [item for item in items if not (self._lose and item["type"].endswith("_output"))]

    def _run(self, call: Json) -> str:
        return output("Bash", str(call.get("arguments") or call.get("input")))


class GeminiAgent(ShortAgent):
    """A client of the Gemini API."""

    def body(self) -> Json:
        """The next request."""
        declarations = [
            {
                "name": one["name"],
                "description": one["description"],
                "parametersJsonSchema": one["input_schema"],
            }
            for one in tools()
        ]
        return {
            "contents": self._history,
            "systemInstruction": {"role": "user", "parts": [{"text": self._opening(system_prompt())}]},
            "tools": [{"functionDeclarations": declarations}],
        }

    def _say(self, text: str) -> None:
        self._history.append({"role": "user", "parts": [{"text": text}]})

    def _take(self, content: list[Json], *, lose: bool) -> bool:
        self._history.append({"role": "model", "parts": content})
        calls = [part["functionCall"] for part in content if "functionCall" in part]
        if calls and not lose:
            self._history.append({"role": "user", "parts": [_response(call) for call in calls]})
        return bool(calls)


def _response(call: Json) -> Json:
    named = {"id": call["id"]} if "id" in call else {}
    arguments = " ".join(map(str, call["args"].values()))
    given = {"output": output(call["name"], arguments)}
    return {"functionResponse": {**named, "name": call["name"], "response": given}}


def agent_of(session: Short, host: str, port: int, key: str, clock: Clock, prefix: str = "") -> ShortAgent:
    """The client of a session, with its connection. `prefix` stands before the path: the name of an upstream."""
    bearer: Mapping[str, str] = {"authorization": f"Bearer {key}", "user-agent": "scripted-agent/1.0"}
    make: Callable[..., Wire] = partial(Wire, host, port)
    match session.dialect:
        case "openai_chat":
            wire = make(bearer, f"{prefix}/v1/chat/completions", only_choice)
            return ChatAgent(session, wire, clock)
        case "openai_responses":
            wire = make(bearer, f"{prefix}/v1/responses", whole_output)
            return CodexAgent(session, wire, clock)
        case _:
            path = f"{prefix}/v1beta/models/{session.model}:generateContent"
            return GeminiAgent(session, make({"x-goog-api-key": key}, path, only_content), clock)
