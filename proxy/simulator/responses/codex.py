"""A client in the shape of Codex: it keeps a history of items and sends all of it each turn, with `store` off.

As seen of the real one: the instructions are a developer message, not `instructions`; every item has an id of its own
that no two sessions share; outputs open with a chunk id and a time; the keys of `client_metadata` come in another
order each time. From GPT-6 on the tools are an item in front, and calls are custom ones in JavaScript.
"""

import random
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import orjson

from ..agent import Agent, Step
from ..chat.flavours import version
from ..reply import Call
from .codex_tools import PROSE, function_tools, namespace

Json = dict[str, Any]

Keep = Callable[[list[Json]], list[Json]]
"""What the client keeps of the newest items: the model's own and the outputs."""

Runs = Callable[[Json], str]
"""What a call gives back, as text."""

_OUTPUTS = {
    "function_call": ("function_call_output", "fco"),
    "custom_tool_call": ("custom_tool_call_output", "ctco"),
}


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `seed` is all that two sessions differ by; `folder` is where it works."""

    seed: int
    model: str = "gpt-5.5"
    folder: str = "/home/dev/project"
    date: str = "2026-11-30"
    effort: str = "medium"

    @property
    def in_code(self) -> bool:
        """Whether the model calls tools from code."""
        return version(self.model) >= (6, 0)


class Codex:
    """One conversation. `opening` says the instructions anew each turn; `keep` may lose or change items."""

    def __init__(
        self,
        shape: Shape,
        run: Runs,
        *,
        opening: Callable[[], str] = lambda: PROSE,
        keep: Keep = lambda items: items,
    ) -> None:
        self.shape = shape
        self._run = run
        self._opening = opening
        self._keep = keep
        self._random = random.Random(shape.seed)
        self.session = self._uuid()
        self._turn = self._uuid()
        self._items = self._front()

    @property
    def headers(self) -> dict[str, str]:
        """The headers that name the session."""
        return {
            "session-id": self.session,
            "thread-id": self.session,
            "x-client-request-id": self.session,
            "x-codex-window-id": f"{self.session}:0",
            "originator": "codex_exec",
            "user-agent": "codex_exec/0.171.0",
        }

    def ask(self, text: str) -> None:
        """The person says something."""
        self._turn = self._uuid()
        self._items.append(self._message("user", text))

    def body(self) -> Json:
        """The next request."""
        self._items[self._place]["content"] = [{"type": "input_text", "text": self._opening()}]
        tools = {} if self.shape.in_code else {"tools": function_tools()}
        return {
            "model": self.shape.model,
            "stream": True,
            "input": self._items,
            **tools,
            "tool_choice": "auto",
            "parallel_tool_calls": not self.shape.in_code,
            "reasoning": {"effort": self.shape.effort}
            | ({"context": "all_turns"} if self.shape.in_code else {}),
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": self.session,
            "text": {"verbosity": "low"},
            "client_metadata": self._metadata(),
        }

    def take(self, output: list[Json]) -> bool:
        """Take an answer into the history and run its calls; whether there were any, so that the turn goes on."""
        calls = [item for item in output if item["type"] in _OUTPUTS]
        new = [*map(_respelt, output), *(self._ran(call) for call in calls)]
        self._items += self._keep(new)
        return bool(calls)

    @property
    def _place(self) -> int:
        """Where the instructions stand."""
        return 1 if self.shape.in_code else 0

    def _front(self) -> list[Json]:
        tools = {
            "type": "additional_tools",
            "id": self._id("at"),
            "role": "developer",
            "tools": [namespace()],
        }
        environment = (
            f"<environment_context>\n  <cwd>{self.shape.folder}</cwd>\n  <shell>bash</shell>\n"
            f"  <current_date>{self.shape.date}</current_date>\n  <timezone>Etc/UTC</timezone>\n"
            "</environment_context>"
        )
        return [
            *([tools] if self.shape.in_code else []),
            self._message("developer", self._opening()),
            self._message("developer", "<permissions instructions>\nYou may read and write files.\n"),
            self._message("user", environment),
        ]

    def _message(self, role: str, text: str) -> Json:
        return {
            "type": "message",
            "id": self._id("msg"),
            "role": role,
            "content": [{"type": "input_text", "text": text}],
        }

    def _ran(self, call: Json) -> Json:
        kind, prefix = _OUTPUTS[call["type"]]
        text = self._run(call)
        if self.shape.in_code:
            head = "Script completed\nWall time 0.1 seconds\nOutput:\n"
            output: str | list[Json] = [{"type": "input_text", "text": part} for part in (head, text)]
        else:
            chunk = f"{self._random.getrandbits(24):06x}"
            output = f"Chunk ID: {chunk}\nWall time: 0.0{self._random.randrange(1000):03d} seconds\n{text}"
        return {"type": kind, "id": self._id(prefix), "call_id": call["call_id"], "output": output}

    def _metadata(self) -> Json:
        turn = {"turn_id": self._turn, "turn_started_at_unix_ms": 1_796_000_000_000, "has_changes": True}
        pairs = [
            ("session_id", self.session),
            ("thread_id", self.session),
            ("turn_id", self._turn),
            ("root_turn_id", self._turn),
            ("x-codex-window-id", f"{self.session}:0"),
            ("x-codex-installation-id", str(uuid.UUID(int=self.shape.seed, version=4))),
            ("x-codex-turn-metadata", orjson.dumps(turn).decode()),
        ]
        self._random.shuffle(pairs)
        return dict(pairs)

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{self._uuid()}"


_MEMBERS = ("type", "status", "id", "name", "arguments", "call_id")
"""The order in which the client has the members of a call."""


def _respelt(item: Json) -> Json:
    """An item of the model's as the client sends it back: its own order of members, and all of reasoning's."""
    if item["type"] == "reasoning":
        return {
            "type": "reasoning",
            "id": item["id"],
            "summary": item["summary"],
            "content": None,
            "encrypted_content": item["encrypted_content"],
        }
    if item["type"] == "function_call":
        return {name: item[name] for name in _MEMBERS}
    return item


def explorer(files: list[str], turns: int = 12, closing: str = "Done.") -> Agent:
    """A model that works like one behind Codex: it lists, reads and patches `files`, in calls of either kind.

    Every third step makes two calls at once where the client allows for them.
    """
    steps: list[Step] = []
    for turn in range(turns):
        path = files[turn % len(files)]
        match turn % 3:
            case 0:
                steps.append(_commands(f"sed -n 1,200p {path}"))
            case 1:
                patch = (
                    f"*** Begin Patch\n*** Update File: {path}\n@@\n-old {turn}\n+new {turn}\n*** End Patch"
                )
                code = f"await tools.apply_patch({orjson.dumps(patch).decode()})"
                steps.append((Call("apply_patch", {"input": patch}), Call("exec", {"input": code})))
            case _:
                steps.append(
                    (*_commands(f"git diff -- {path}"), Call("exec_command", {"cmd": "git status -s"}))
                )
    return Agent(steps, closing=closing, remark="Next")


def _commands(command: str) -> Step:
    code = f"text(await tools.exec_command({orjson.dumps({'cmd': command}).decode()}))"
    return (Call("exec_command", {"cmd": command}), Call("exec", {"input": code}))
