"""A scripted model that works like a coding agent's: so many tool calls, then an answer.

Which step comes next follows from the request alone: the number of assistant messages since the
last human one. So any number of sessions can run against one provider, be resumed, and retried.
"""

from collections.abc import Iterable

import msgspec

from .render import is_human
from .reply import Ask, Call, Reply, Say, echo, last_texts, wanted_schema
from .request import Json

COMPACTION = "CRITICAL: Respond with TEXT ONLY"


class Read(msgspec.Struct, frozen=True, tag=True):
    """Read a file, by its absolute path."""

    path: str


class Shell(msgspec.Struct, frozen=True, tag=True):
    """Run a command."""

    command: str


class Search(msgspec.Struct, frozen=True, tag=True):
    """Search files below an absolute path for a pattern."""

    pattern: str
    path: str


class Find(msgspec.Struct, frozen=True, tag=True):
    """List files below an absolute path by a glob."""

    pattern: str
    path: str


class Write(msgspec.Struct, frozen=True, tag=True):
    """Write a new file."""

    path: str
    content: str


Action = Read | Shell | Search | Find | Write | Call
Step = tuple[Action, ...]
"""The calls of one answer; several are parallel."""


def _spellings(action: Action) -> tuple[Call, ...]:
    """How the tools of known agents take this action, the first offered one wins."""
    match action:
        case Read(path):
            return (
                Call("Read", {"file_path": path}),
                Call("read", {"filePath": path}),
                Call("read", {"path": path}),
                Call("read_file", {"path": path}),
                Call("read_file", {"file_path": path}),
                Call("read_file", {"absolute_path": path}),
            )
        case Shell(command):
            return (
                Call("Bash", {"command": command, "description": "Run a command"}),
                Call("bash", {"command": command, "description": "Run a command"}),
                Call("run", {"cmd": command}),
                Call("run_shell_command", {"command": command}),
            )
        case Search(pattern, path):
            return (
                Call("Grep", {"pattern": pattern, "path": path}),
                Call("grep", {"pattern": pattern, "path": path}),
                Call("grep_search", {"pattern": pattern, "dir_path": path}),
                Call("search_file_content", {"pattern": pattern, "path": path}),
            )
        case Find(pattern, path):
            return (
                Call("Glob", {"pattern": pattern, "path": path}),
                Call("glob", {"pattern": pattern, "path": path}),
                Call("glob", {"pattern": pattern, "dir_path": path}),
            )
        case Write(path, content):
            return (
                Call("Write", {"file_path": path, "content": content}),
                Call("write", {"filePath": path, "content": content}),
                Call("write_file", {"file_path": path, "content": content}),
            )
        case Call():
            return (action,)


class Agent:
    """A script of steps, each an answer with one or more calls, then a closing text.

    Actions whose tool a request does not offer fall back on a shell command, else are left out.
    A request without tools, and a client's request for a summary, are answered in text.
    """

    def __init__(self, steps: Iterable[Step], closing: str = "Done.", remark: str = "") -> None:
        self.steps = tuple(steps)
        self.closing = closing
        self.remark = remark

    def __call__(self, ask: Ask) -> Reply:
        if wanted_schema(ask.body) is not None or not ask.tools:
            return echo(ask)
        if any(text.lstrip().startswith(COMPACTION) for text in last_texts(ask.body)):
            return Reply(blocks=(Say(summary(ask.body)),))
        playable = [calls for step in self.steps if (calls := _playable(step, ask))]
        turn = answers_since_human(ask.body)
        if turn >= len(playable):
            return Reply(blocks=(Say(f"{self.closing} ({turn} steps)"),))
        remark = (Say(f"{self.remark} ({turn + 1})"),) if self.remark else ()
        return Reply(blocks=(*remark, *playable[turn]))


def _playable(step: Step, ask: Ask) -> tuple[Call, ...]:
    schemas = {tool["name"]: tool["input_schema"] for tool in ask.body["tools"] if "input_schema" in tool}
    calls = []
    for action in step:
        for spelling in (*_spellings(action), *_by_shell(action)):
            if spelling.name in ask.tools and _fits(spelling, schemas[spelling.name]):
                calls.append(spelling)
                break
    return tuple(calls)


def _fits(call: Call, schema: Json) -> bool:
    known = schema.get("properties") or {}
    return set(schema.get("required") or ()) <= set(call.input) and all(key in known for key in call.input)


def _by_shell(action: Action) -> tuple[Call, ...]:
    match action:
        case Search(pattern, path):
            return _spellings(Shell(f"grep -rn -e '{pattern}' {path} | head -n 50"))
        case Find(pattern, path):
            return _spellings(
                Shell(f"find {path} -name '{pattern.removeprefix('**/')}' | sort | head -n 100")
            )
        case _:
            return ()


def answers_since_human(body: Json) -> int:
    """How many assistant messages stand behind the last human one."""
    count = 0
    for message in body["messages"]:
        if is_human(message):
            count = 0
        elif message["role"] == "assistant":
            count += 1
    return count


def summary(body: Json) -> str:
    """A summary in the form coding agents ask for."""
    return (
        "<analysis>The session so far was read from start to end.</analysis>\n"
        f"<summary>1. Primary request: inspect the project. 2. Messages so far: {len(body['messages'])}. "
        "3. Pending: nothing.</summary>"
    )


def tour(folder: str, files: Iterable[str], turns: int = 16) -> Agent:
    """An agent that looks around in `folder`: reads `files` (absolute paths), lists and searches.

    Every fourth step makes two calls at once.
    """
    names = list(files)
    steps: list[Step] = []
    for turn in range(turns):
        path = names[turn % len(names)]
        match turn % 4:
            case 0:
                steps.append((Read(path),))
            case 1:
                steps.append((Shell(f"wc -c {path} && ls {folder}"),))
            case 2:
                steps.append((Search("def", folder),))
            case _:
                steps.append((Read(names[(turn + 1) % len(names)]), Find("**/*", folder)))
    return Agent(steps, remark="Looking around")
