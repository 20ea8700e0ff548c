"""Processes of their own for tests: started, known to be ready by what they print, ended by pid."""

import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 60
STOP_SECONDS = 20

STARTED = r'"listen":"([^"]+)".*"event":"started"'
"""What `stet serve` prints once it listens, and where."""


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listened on just now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def await_port(port: int) -> None:
    """Wait until somebody listens on a port of 127.0.0.1. Raises TimeoutError where nobody does."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"nobody listens on port {port}")


@contextmanager
def running(
    command: Sequence[str],
    told: str,
    log: Path,
    environment: dict[str, str],
    *,
    seconds: float = START_SECONDS,
) -> Iterator[str]:
    """A process, once what it prints matches `told`: the first group. All it prints goes into `log` as well.
    At once, and "", where nothing is `told`.

    Raises AssertionError where it does not come within `seconds`.
    """
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
        yield output.told(seconds) if told else ""
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

    def told(self, seconds: float) -> str:
        self._known.wait(seconds)
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
