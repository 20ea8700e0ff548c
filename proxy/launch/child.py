"""The agent's process: the same terminal, the same process group, its signals and its exit code.

It inherits everything. What the terminal sends (Ctrl-C, a new size, a stop) reaches it without us; what is sent to us
alone is passed on. When it stops, we stop, so that the shell notices.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from ..errors import SettingsError

_PASSED_ON = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_OF_THE_TERMINAL = ("SIGINT", "SIGQUIT")
"""What a terminal sends to all of its foreground group: the child has it already."""

NOT_FOUND, NOT_RUNNABLE = 127, 126
"""Exit codes, as shells have them."""


class Child:
    """One process. `run` starts it and returns its exit code, 128 + the signal's number where one ended it."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._command = command
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Run to the end. Raises SettingsError where the program cannot be started."""
        with self._signals(), _terminal() as restore:
            try:
                # Handlers, other than ignored signals, are not inherited: the child begins with the defaults.
                self._process = subprocess.Popen(self._command, env=dict(self._env))  # noqa: S603  what the user named
            except OSError as fault:
                why = "has no known form" if fault.errno == errno.ENOEXEC else fault.strerror or str(fault)
                raise SettingsError(f"cannot be started: {why}", self._command[0]) from fault
            code = self._wait(self._process)
            if code > 128:
                restore()
            return code

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        if not hasattr(os, "WUNTRACED"):
            return process.wait()
        while True:
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                break
            os.kill(os.getpid(), signal.SIGSTOP)  # until the shell has us go on
            self._send(signal.SIGCONT)
        # The process is gone and waited for: subprocess must not look for it again.
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode if process.returncode >= 0 else 128 - process.returncode

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Pass signals on while the child runs. What was ignored before us stays ignored, for the child too."""
        before: dict[signal.Signals, Any] = {}
        for name in (*_PASSED_ON, *_OF_THE_TERMINAL):
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) is signal.SIG_IGN:
                continue
            before[number] = signal.signal(number, self._passed_on)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _passed_on(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if name in _OF_THE_TERMINAL and in_foreground():
            return
        self._send(number)

    def _send(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


def in_foreground() -> bool:
    """Whether ours is the foreground group of a terminal: what that one sends, it sends to the child as well."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


@contextlib.contextmanager
def _terminal() -> Iterator[Any]:
    """Gives a function that puts the terminal's mode back, for a child that was killed with it in raw mode."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield lambda: None
        return
    import termios  # noqa: PLC0415  not there on Windows

    mode = termios.tcgetattr(sys.stdin)

    def restore() -> None:
        if in_foreground():
            with contextlib.suppress(termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, mode)

    yield restore
