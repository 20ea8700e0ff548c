"""What real agents sent, recorded against a provider on 127.0.0.1: `tests/recordings/<name>.jsonl.gz`.

One JSON object a line: `path`, `headers` (names in lower case, the key replaced) and `body`, the text exactly as
it came, in the client's own spelling. Home, working directory, session and device ids stand for the real ones;
long constant texts (tool descriptions, middle of the system prompt, list of skills) are cut at ` […] `, alike in
every request, which keeps the files small.

Each plain recording is one session in two processes, the second one resuming the first. Those named `-modes`
have a mention of a file, a slash command, plan mode, a compaction and what follows it. Of other agents there are a few
requests of such a session each, the last one the first of a process that resumes it, behind a file that is new.
"""

import gzip
import json
from pathlib import Path

from msgspec import Struct

FOLDER = Path(__file__).parent.parent / "recordings"


class Recorded(Struct, frozen=True):
    """One request."""

    path: str
    headers: dict[str, str]
    body: str

    @property
    def wire(self) -> bytes:
        return self.body.encode()


def load(name: str) -> list[Recorded]:
    """The requests of a recording in the order they arrived, side calls among them."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [Recorded(**json.loads(line)) for line in lines]


def main_calls(name: str) -> list[Recorded]:
    """The requests of a recording that carry the session itself: those that offer tools."""
    return [request for request in load(name) if json.loads(request.body).get("tools")]


def names(agent: str = "claude-code") -> list[str]:
    """All recordings of an agent; "" for those of every one."""
    return sorted(file.name.removesuffix(".jsonl.gz") for file in FOLDER.glob(f"{agent}*.jsonl.gz"))
