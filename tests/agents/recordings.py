"""What real agents sent, recorded against a provider on 127.0.0.1: `tests/recordings/<name>.jsonl.gz`.

One JSON object a line, as `proxy.recording` has it: `path`, `headers` (names in lower case, the key replaced) and `body`, the text exactly as
it came, in the client's own spelling. Home, working directory, session and device ids stand for the real ones;
long constant texts (tool descriptions, middle of the system prompt, list of skills) are cut at ` […] `, alike in
every request, which keeps the files small.

Each plain recording is one session in two processes, the second one resuming the first. Those named `-modes`
have a mention of a file, a slash command, plan mode, a compaction and what follows it. Of other agents there are a few
requests of such a session each, the last one the first of a process that resumes it, behind a file that is new.
"""

import json
from pathlib import Path

from proxy.recording import Recorded, read

__all__ = ["FOLDER", "Recorded", "load", "main_calls", "names"]

FOLDER = Path(__file__).parent.parent / "recordings"


def load(name: str) -> list[Recorded]:
    """The requests of a recording in the order they arrived, side calls among them."""
    return read(FOLDER / f"{name}.jsonl.gz")


def main_calls(name: str) -> list[Recorded]:
    """The requests of a recording that carry the session itself: those that offer tools."""
    return [request for request in load(name) if json.loads(request.body).get("tools")]


def names(agent: str = "claude-code") -> list[str]:
    """All recordings of an agent; "" for those of every one."""
    return sorted(file.name.removesuffix(".jsonl.gz") for file in FOLDER.glob(f"{agent}*.jsonl.gz"))
