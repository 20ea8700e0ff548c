"""Drives an unmodified Claude Code from npm, headless, with nothing reachable but 127.0.0.1."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from msgspec import Struct

from .npm import installed

PACKAGE = "@anthropic-ai/claude-code"
KEY = "sk-ant-test-dummy"
DEAD_END = "http://127.0.0.1:9"
"""The discard port: whatever is meant for the world outside fails at once."""


class Result(Struct, frozen=True, kw_only=True):
    """How one prompt ended. `usage` is the agent's own sum over its calls; empty where it printed no result."""

    rc: int
    text: str
    is_error: bool
    num_turns: int
    usage: dict[str, Any]
    stderr: str


class Claude(Struct, frozen=True, kw_only=True):
    """One version of Claude Code in one home and one project; a fresh `home` is a fresh installation.

    `env` is added to the environment it gets.
    """

    version: str
    base_url: str
    home: Path
    cwd: Path
    model: str = "claude-opus-5-5"
    env: dict[str, str] = {}
    timeout: float = 180.0

    def run(
        self, prompt: str, *, resume: bool = False, model: str | None = None, mode: str = "bypassPermissions"
    ) -> Result:
        """One prompt in print mode, to its end; `resume` goes on with the newest session of this folder, `mode`
        is its permission mode.

        Raises `Unavailable` where the version cannot be installed, TimeoutError where it does not end in time.
        """
        command = [
            str(installed(PACKAGE, self.version) / "claude"),
            "-p",
            prompt,
            *(["--continue"] if resume else []),
            *("--output-format", "json", "--permission-mode", mode),
            *("--model", model or self.model),
        ]
        child = subprocess.Popen(
            command,
            cwd=self.cwd,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # its tools' children are its group's, so that nothing outlives a timeout
        )
        try:
            out, err = child.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"Claude Code {self.version} still ran after {self.timeout} s") from None
        finally:
            _end_group(child)
        return _result(child.returncode, out, err)

    def environment(self) -> dict[str, str]:
        """All of the child's environment: nothing of ours gets in but PATH."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "TERM": "xterm",
            "TMPDIR": str(self.home),
            "ANTHROPIC_BASE_URL": self.base_url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "IS_SANDBOX": "1",  # else it refuses bypassPermissions to root
            "HTTPS_PROXY": DEAD_END,
            "HTTP_PROXY": DEAD_END,
            "NO_PROXY": "127.0.0.1,localhost",
            **self.env,
        }


def _end_group(child: subprocess.Popen[str]) -> None:
    """End the child and whatever it started; the group bears the child's own id."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    child.communicate()


def _result(rc: int, out: str, err: str) -> Result:
    try:
        said = json.loads(out)
    except ValueError:
        return Result(rc=rc, text=out, is_error=True, num_turns=0, usage={}, stderr=err)
    return Result(
        rc=rc,
        text=said.get("result") or "",
        is_error=bool(said.get("is_error")),
        num_turns=said.get("num_turns") or 0,
        usage=said.get("usage") or {},
        stderr=err,
    )
