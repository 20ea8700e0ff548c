"""A scripted model for any agent: it calls whichever known tools are on offer, so many steps a prompt, then answers.

Which step comes next follows from the request alone: the steps since the newest prompt, which begins with `PROMPT`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from proxy.simulator.agent import COMPACTION
from proxy.simulator.reply import Ask, Call, Reply, Say, echo, wanted_schema
from proxy.simulator.request import Json, blocks

PROMPT = "Please look"
DONE = "Done."

Arguments = Callable[[str], dict[str, Any]]
"""The arguments of a tool, given a file's path."""

READING: dict[str, tuple[Arguments, ...]] = {
    "Read": (lambda path: {"filepath": path}, lambda path: {"file_path": path}),
    "read": (lambda path: {"filePath": path}, lambda path: {"path": path}),
    "read_file": (lambda path: {"file_path": path}, lambda path: {"path": path}),
    "read_files": (lambda path: {"files": [{"path": path}]},),
    "exec_command": (lambda path: {"cmd": f"cat {path}"},),
    "exec": (lambda path: {"input": f'text(await tools.exec_command({{cmd: "cat {path}"}}))'},),
}
LOOKING: dict[str, tuple[Arguments, ...]] = {
    "Bash": (lambda path: {"command": f"wc -c {path}"},),
    "bash": (
        lambda path: {"command": f"wc -c {path}", "description": "Count"},
        lambda path: {"command": f"wc -c {path}"},
    ),
    "run_shell_command": (lambda path: {"command": f"wc -c {path}", "is_background": False},),
    "run_commands": (lambda path: {"commands": [f"wc -c {path}"]},),
    "exec_command": (lambda path: {"cmd": f"wc -c {path}"},),
    "exec": (lambda path: {"input": f'text(await tools.exec_command({{cmd: "wc -c {path}"}}))'},),
}


class Work:
    """Reads `files` (absolute paths) one after the other, `steps` a prompt, and every third time counts one as well."""

    def __init__(self, files: Sequence[str], steps: int) -> None:
        self.files = files
        self.steps = steps

    def __call__(self, ask: Ask) -> Reply:
        if wanted_schema(ask.body) is not None or not ask.tools:
            return echo(ask)
        since = answers_since_prompt(ask.body)
        if since is None:
            return echo(ask)
        if since >= self.steps:
            return Reply(blocks=(Say(f"{DONE} ({since} steps)"),))
        schemas = {tool["name"]: tool["input_schema"] for tool in ask.body["tools"] if "input_schema" in tool}
        path = self.files[since % len(self.files)]
        calls = [
            call
            for table in (READING, LOOKING)[: 1 + (since % 3 == 2)]
            if (call := _call(table, schemas, path))
        ]
        return Reply(blocks=(Say(f"Looking around ({since + 1})"), *calls)) if calls else echo(ask)


def _call(table: dict[str, tuple[Arguments, ...]], schemas: dict[str, Json], path: str) -> Call | None:
    for name, ways in table.items():
        if name in schemas:
            for way in ways:
                if (
                    set(schemas[name].get("required") or ())
                    <= set(way(path))
                    <= set(schemas[name]["properties"])
                ):
                    return Call(name, way(path))
    return None


def answers_since_prompt(body: Json) -> int | None:
    """How many answers stand behind the newest prompt; None where there is no prompt of ours."""
    count: int | None = None
    for message in body["messages"]:
        texts = [block["text"].lstrip('"') for block in blocks(message) if block.get("type") == "text"]
        if message["role"] == "user" and any(PROMPT in text for text in texts):
            count = 0
        elif message["role"] == "assistant" and count is not None:
            count += 1
    return count
