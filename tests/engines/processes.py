"""The two servers of these tests, each a process of its own on a free port: the engine, and `stet serve`."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 60
STOP_SECONDS = 20

_SERVE = Path(__file__).with_name("serve.py")
_ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def engine(model: Path, log: Path, *, threads: int = 1) -> Iterator[str]:
    """The URL of a running llama.cpp with a model. Threads wait for each other busily: more than one needs idle cores."""
    command = [sys.executable, str(_SERVE), str(model), str(threads)]
    with _running(command, r"listening on (http://\S+)", log, dict(os.environ)) as url:
        yield url


@contextmanager
def stet(upstream: str, state: Path, *, policy: str = "local") -> Iterator[str]:
    """The URL of a running proxy below which `/local` leads to the engine; its log is `state/log`."""
    state.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "proxy", "serve", "--listen", "127.0.0.1:0", "--admin", "off"]
    command += ["--upstream", f"local={upstream},profile=llama.cpp", "--policy", policy]
    command += ["--log", "json", "--state", str(state / "ledger")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STET_")}
    environment = {**kept, "HOME": str(state), "PYTHONPATH": str(_ROOT)}
    with _running(command, r'"listen":"([^"]+)".*"event":"started"', state / "log", environment) as listen:
        yield f"http://{listen}"


@contextmanager
def _running(command: Sequence[str], told: str, log: Path, environment: dict[str, str]) -> Iterator[str]:
    """A process, once what it prints matches `told`: the first group. All it prints goes into `log` as well."""
    child = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = _Output(child, told, log)
    try:
        yield output.told()
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        output.end()


class _Output:
    """Reads all that a process prints, so that it never blocks."""

    def __init__(self, child: subprocess.Popen[str], told: str, log: Path) -> None:
        self._child, self._pattern, self._log = child, re.compile(told), log
        self._told = ""
        self._known = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def told(self) -> str:
        self._known.wait(START_SECONDS)
        if not self._told:
            printed = self._log.read_text()[-2000:] if self._log.exists() else ""
            raise AssertionError(f"{self._child.args} did not start: {printed}")
        return self._told

    def end(self) -> None:
        """To be called when the process has ended."""
        self._thread.join(STOP_SECONDS)
        assert self._child.stdout is not None
        self._child.stdout.close()

    def _follow(self) -> None:
        assert self._child.stdout is not None
        with self._log.open("a") as log:
            for line in self._child.stdout:
                log.write(line)
                log.flush()
                if not self._told and (match := self._pattern.search(line)):
                    self._told = match[1]
                    self._known.set()
        self._known.set()
