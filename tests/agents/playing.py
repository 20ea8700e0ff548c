"""A session of any agent of the line-up: its home, its project, its prompts, and what came of them."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from proxy.simulator.exchange import Exchange
from proxy.simulator.server import Server

from . import npm, pypi
from .claude import DEAD_END
from .formats import Formats, decompressed
from .lineup import Kind, Seat
from .paths import Way, base_url
from .working import DONE, PROMPT, Work, answers_since_prompt

STEPS = 10
SECONDS = 180.0
PROMPTS = (f"{PROMPT} at this project and say what it does", f"{PROMPT} at it once more")

MEMORY = re.compile(rb"memory extraction", re.IGNORECASE)
"""Qwen Code looks back over the session when a process ends: an agent of its own, with tools of its own."""

Turn = dict[str, Any]
"""A line of the proxy's log."""


class Ended(Struct, frozen=True):
    """How one prompt ended."""

    rc: int
    out: str
    err: str


class Played(Struct, frozen=True):
    """A session: how each prompt ended, what reached the provider, and what the proxy logged of it."""

    kind: Kind
    ended: tuple[Ended, ...]
    log: tuple[Exchange, ...]
    lines: tuple[str, ...]

    @property
    def refused(self) -> list[tuple[int, str | None]]:
        return [(made.status, made.error) for made in self.log if made.status != 200]

    @property
    def calls(self) -> list[Exchange]:
        """Requests of the session itself: those with tools in which a prompt of ours is worked on."""
        return [made for made in self.log if is_main(made, self.kind)]

    @property
    def turns(self) -> list[Turn]:
        logged = [json.loads(line) for line in self.lines if line.startswith("{")]
        return [line for line in logged if line.get("prompt") is not None]

    @property
    def complaints(self) -> list[str]:
        """What the proxy logged beside its one line a turn: a rewrite that failed open, a broken law, a crash."""
        logged = [json.loads(line) for line in self.lines if line.startswith("{")]
        crashes = [line for line in self.lines if line.startswith("Traceback")]
        return crashes + [str(line) for line in logged if line["level"] != "info" or line.get("failed_open")]

    @property
    def ratio(self) -> float:
        """Share of all prompt tokens of the session's own calls that was read from the cache, the first call among them."""
        return sum(made.read for made in self.calls) / sum(made.total for made in self.calls)


def body(made: Exchange) -> Any:
    return json.loads(decompressed(made.headers, made.body))


def is_main(made: Exchange, kind: Kind) -> bool:
    """Whether a request is the session's own: it offers tools, where the agent has any."""
    if made.status != 200:
        return False
    sent = body(made)
    first = sent["input"][0] if isinstance(sent.get("input"), list) else {}
    tools = sent.get("tools") or first.get("tools") or "previous_response_id" in sent or kind.agent == "aider"
    return bool(tools) and not MEMORY.search(decompressed(made.headers, made.body))


def project(folder: Path, files: int = 4, lines: int = 60) -> list[str]:
    """A small repository, the same every time; its files by absolute path."""
    folder.mkdir(parents=True)
    names = []
    for number in range(files):
        text = "\n".join(
            f"def price_{number}_{line}(amount: int) -> int:\n    return amount * {line}"
            for line in range(lines)
        )
        file = folder / f"prices_{number}.py"
        file.write_text(text + "\n")
        names.append(str(file))
    who = ["-c", "user.name=T", "-c", "user.email=t@e"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "Open"]):
        subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)
    return names


def programs(kind: Kind) -> list[Path]:
    """Where an agent's programs are, installed on first use. Raises `Unavailable`."""
    found = [npm.installed(package, version) for package, version in reversed(kind.packages)]
    if kind.requirements:
        name = kind.requirements[0] if len(kind.requirements) == 1 else "sdks"
        found.append(pypi.installed(name, kind.requirements))
    return found


@contextmanager
def seated(way: Way, root: Path, formats: Formats, policy: str) -> Iterator[Seat]:
    """The provider up, the way laid."""
    (root / "home").mkdir(parents=True)
    with Server(formats) as server, base_url(way, server.url, root / "stet", policy=policy) as url:
        yield Seat(url, root / "home", root / "shop")


def play(
    kind: Kind,
    way: Way,
    root: Path,
    programs: Sequence[Path],
    *,
    steps: int = STEPS,
    policy: str = "default",
    between: Callable[[Path], None] | None = None,
) -> Played:
    """Two prompts, the second one resumed where the agent can; `between` may change the project in between."""
    files = project(root / "shop")
    formats = Formats(Work(files, steps))
    with seated(way, root, formats, policy) as seat:
        env = {**environment(seat, programs), **kind.configure(seat)}
        ended = []
        for number, prompt in enumerate(["\n".join(PROMPTS)] if kind.together else PROMPTS):
            if number and between is not None:
                between(seat.cwd)
            ended.append(run(kind.command(seat, prompt, bool(number) and kind.resumes), seat.cwd, env))
    log = root / "stet" / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return Played(kind, tuple(ended), tuple(formats.log), tuple(lines))


def environment(seat: Seat, programs: Sequence[Path]) -> dict[str, str]:
    """All of an agent's environment but what it needs to be pointed: nothing of ours gets in but PATH."""
    return {
        "PATH": os.pathsep.join([*map(str, programs), os.environ.get("PATH", os.defpath)]),
        "HOME": str(seat.home),
        "TMPDIR": str(seat.home),
        "TERM": "xterm",
        "HTTPS_PROXY": DEAD_END,
        "HTTP_PROXY": DEAD_END,
        "NO_PROXY": "127.0.0.1,localhost",
    }


def run(command: Sequence[str], cwd: Path, env: dict[str, str]) -> Ended:
    """A command to its end. Raises TimeoutError where that does not come."""
    child = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{command[0]} still ran after {SECONDS} s") from None
    finally:
        end_group(child)
    return Ended(child.returncode, out, err)


def end_group(child: "subprocess.Popen[str]") -> None:
    """End the child and whatever it started; the group bears the child's own id."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    child.communicate()
