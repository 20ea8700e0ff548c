"""Bodies as a coding agent sends them: instructions, tools, and a history of calls and results.

Everything follows from the arguments: the same size gives the same bytes. The client's cache marks stand where
Claude Code puts them, on the last system block and on the last block of the last message, so the mark moves with
every turn and with it the bytes of the message that was last before.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import orjson

MODEL = "claude-sonnet-4-5"
THINKING_MODEL = "claude-opus-5-5"
"""Checks what its signed thinking stands behind."""

MARK = {"type": "ephemeral"}
BYTES_PER_BLOCK = 500
"""At 1 MB a body has 2,000 blocks: many small calls, and results of some hundred bytes to some kilobytes."""

_WORDS = (
    "the function returns value path error file when is not of a class method test import config request response "
    "handler stream token cache prefix message session client server write read open close list dict string bytes "
    "None True self async await raise except for in if else def assert expected found line module package"
).split()
_TOOLS = (
    ("Task", "description prompt subagent_type", 6000),
    ("Bash", "command timeout description run_in_background", 9500),
    ("Glob", "pattern path", 900),
    ("Grep", "pattern path glob output_mode head_limit multiline", 3400),
    ("ExitPlanMode", "plan", 1900),
    ("Read", "file_path offset limit", 2300),
    ("Edit", "file_path old_string new_string replace_all", 2100),
    ("Write", "file_path content", 1300),
    ("NotebookEdit", "notebook_path cell_id new_source cell_type edit_mode", 1500),
    ("WebFetch", "url prompt", 1900),
    ("TodoWrite", "todos", 9800),
    ("WebSearch", "query allowed_domains blocked_domains", 1400),
    ("BashOutput", "bash_id filter", 900),
    ("KillShell", "shell_id", 600),
    ("SlashCommand", "command", 1700),
)


def prose(rng: random.Random, size: int) -> str:
    """About `size` bytes of text in lines, with quotes and backslashes as code has them."""
    lines: list[str] = []
    length = 0
    while length < size:
        words = rng.choices(_WORDS, k=rng.randint(4, 14))
        line = "    " * rng.randint(0, 3) + " ".join(words)
        if rng.random() < 0.2:
            line += ' = "' + rng.choice(_WORDS) + '\\n"'
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)[: max(1, size)]


def tools(rng: random.Random, share: float) -> list[dict[str, Any]]:
    """The tools on offer; `share` scales the length of their descriptions."""
    return [
        {
            "name": name,
            "description": prose(rng, int(size * share)),
            "input_schema": {
                "type": "object",
                "properties": {
                    arg: {"type": "string", "description": prose(rng, 60)} for arg in args.split()
                },
                "required": args.split()[:1],
                "additionalProperties": False,
                "$schema": "http://json-schema.org/draft-07/schema#",
            },
        }
        for name, args, size in _TOOLS[: max(2, round(len(_TOOLS) * share))]
    ]


def system(rng: random.Random, share: float) -> list[dict[str, Any]]:
    """Three blocks: who bills, who speaks, and the instructions with the environment at their end."""
    environment = (
        "\n\nHere is useful information about the environment you are running in:\n<env>\nWorking directory: /home/dev/app\n"
        "Is directory a git repo: Yes\nPlatform: linux\nOS Version: Linux 6.1\nToday's date: 2026-11-30\n</env>\n"
        "You are powered by the model named Sonnet 4.5.\n\ngitStatus: This is the git status at the start of the conversation. "
        "Note that this status is a snapshot in time.\n\nCurrent branch: main\n\nMain branch: main\n\nStatus:\nM app/serve.py\n\n"
        "Recent commits:\n1a2b3c4 Mend the stream"
    )
    return [
        {
            "type": "text",
            "text": "You are Claude Code, Anthropic's official CLI for Claude.",
            "cache_control": MARK,
        },
        {"type": "text", "text": prose(rng, int(13_000 * share)) + environment, "cache_control": MARK},
    ]


def rounds(rng: random.Random) -> Iterator[tuple[dict[str, Any], dict[str, Any], int]]:
    """Endless pairs of an answer with calls and the results of them; the number of blocks in both."""
    number = 0
    while True:
        number += 1
        say: list[dict[str, Any]] = [{"type": "text", "text": prose(rng, rng.randint(40, 260))}]
        results: list[dict[str, Any]] = []
        for part in range(2 if number % 4 == 0 else 1):
            name = rng.choices(("Read", "Bash", "Grep", "Edit", "Glob"), (8, 6, 4, 3, 1))[0]
            call = f"toolu_{number:06d}{part}{rng.getrandbits(64):016x}"
            argument = {
                "Read": {
                    "file_path": f"/home/dev/app/{rng.choice(_WORDS)}/{rng.choice(_WORDS)}.py",
                    "limit": 200,
                },
                "Bash": {"command": prose(rng, 60), "description": prose(rng, 30)},
                "Grep": {"pattern": rng.choice(_WORDS), "path": "/home/dev/app", "output_mode": "content"},
                "Edit": {
                    "file_path": "/home/dev/app/serve.py",
                    "old_string": prose(rng, 90),
                    "new_string": prose(rng, 120),
                },
                "Glob": {"pattern": "**/*.py", "path": "/home/dev/app"},
            }[name]
            say.append({"type": "tool_use", "id": call, "name": name, "input": argument})
            size = min(60_000, max(60, int(rng.lognormvariate(6.3, 1.1))))
            results.append({"tool_use_id": call, "type": "tool_result", "content": prose(rng, size)})
        if number % 3 == 0:
            results.append(
                {
                    "type": "text",
                    "text": "<system-reminder>\nThe TodoWrite tool hasn't been used recently. "
                    + prose(rng, 200)
                    + "\n</system-reminder>",
                }
            )
        if number % 8 == 0:
            results.append({"type": "text", "text": prose(rng, 160)})
        yield (
            {"role": "assistant", "content": say},
            {"role": "user", "content": results},
            len(say) + len(results),
        )


def thought(rng: random.Random) -> dict[str, Any]:
    """A thinking block, with a signature as long as they are."""
    return {"type": "thinking", "thinking": prose(rng, 150), "signature": f"{rng.getrandbits(2000):0500x}"}


class Session:
    """A conversation that grows; `turn(n)` is its request number n as bytes.

    `head` is the share of the usual instructions and tools that it carries: 1.0 is some 60 kB. `thinking`: every
    answer begins with a signed thought.
    """

    def __init__(self, name: str = "", *, seed: int = 1, head: float = 1.0, thinking: bool = False) -> None:
        self._thinking = thinking
        self._rng = random.Random(seed)
        self._rounds = rounds(self._rng)
        opening = f"<system-reminder>\nAs you answer the user's questions, you can use the following context:\n# claudeMd\nCodebase and user instructions are shown below.{prose(self._rng, int(2500 * head))}\n</system-reminder>"
        self.messages: list[dict[str, Any]] = [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": opening},
                    {"type": "text", "text": f"Please mend the stream {name}. {prose(self._rng, 200)}"},
                ],
            }
        ]
        self._front = {
            "model": THINKING_MODEL if thinking else MODEL,
            "system": system(self._rng, head),
            "tools": tools(self._rng, head),
            "metadata": {"user_id": json.dumps({"account_uuid": "bench", "session_id": name or "one"})},
            "max_tokens": 32_000,
            "stream": True,
        }
        self.blocks = 2
        self.size = len(orjson.dumps(self._front)) + len(orjson.dumps(self.messages))

    def grow(self, size: int = 0) -> None:
        """Add rounds until the body has `size` bytes; one where it already has."""
        while True:
            answer, results, blocks = next(self._rounds)
            if self._thinking:
                answer["content"].insert(0, thought(self._rng))
                blocks += 1
            self.messages += (answer, results)
            self.blocks += blocks
            self.size += len(orjson.dumps([answer, results]))
            if self.size >= size:
                return

    def body(self, upto: int | None = None) -> bytes:
        """The request with the first `upto` messages, marked on its last block."""
        messages = self.messages[:upto]
        last = dict(messages[-1])
        last["content"] = [*last["content"][:-1], {**last["content"][-1], "cache_control": MARK}]
        front = dict(self._front)
        model = front.pop("model")
        return orjson.dumps({"model": model, "messages": [*messages[:-1], last], **front})


def session_of(size: int, name: str = "", *, seed: int = 1, thinking: bool = False) -> Session:
    """A session whose body has about `size` bytes, a third of it at most instructions and tools."""
    session = Session(name, seed=seed, head=min(1.0, size / 200_000), thinking=thinking)
    session.grow(size)
    return session
