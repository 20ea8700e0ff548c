"""`stet serve` as people start it: what it says of itself, to them and to machines, and how it takes its leave."""

import asyncio
import contextlib
import io
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import StoreError
from proxy.gateway.banner import banner
from proxy.gateway.service import Voice
from proxy.gateway.settings import Settings, strangers
from proxy.gateway.values import Address
from tests.gateway.rig import LAST, SSE_HEAD, START, STOP, Client, Provider, chunk, post, run


ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("STET_")}
"""Without the settings of whoever runs the tests."""


@contextlib.asynccontextmanager
async def served(tmp_path: Path, *options: str, **env: str) -> AsyncIterator[tuple[Any, Provider]]:
    """`stet serve` in a process of its own in front of a scripted provider."""
    provider = Provider()
    url = await provider.start()
    command = (
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "off",
        "--upstream",
        f"anthropic={url}#anthropic",
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "proxy",
        *command,
        *options,
        stderr=asyncio.subprocess.PIPE,
        env={**ENVIRONMENT, "XDG_STATE_HOME": str(tmp_path), **env},
    )
    try:
        yield process, provider
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await provider.stop()


async def line_with(process: Any, pattern: str) -> re.Match[str]:
    """The next line of standard error that matches."""
    while True:
        line = (await process.stderr.readline()).decode()
        assert line, "the server ended"
        if found := re.search(pattern, line):
            return found


def test_where_the_log_is_json_every_line_is(tmp_path: Path) -> None:
    """The server starts with one event that holds what the banner says, warns in events, and stops with one."""

    async def scene() -> None:
        async with served(tmp_path, "--log", "json", STET_LITSEN="x") as (process, provider):
            warning = json.loads(await process.stderr.readline())
            assert warning["level"] == "warning"
            assert warning["message"] == (
                "STET_LITSEN: is no setting and changes nothing; did you mean STET_LISTEN?"
            )
            started = json.loads(await process.stderr.readline())
            port = int(started["listen"].rpartition(":")[2])
            assert {name: started[name] for name in ("event", "admin", "policy", "mode", "state")} == {
                "event": "started",
                "admin": "off",
                "policy": "default",
                "mode": "apply",
                "state": str(tmp_path / "stet"),
            }
            assert started["upstreams"]["anthropic"]["profile"] == "anthropic"
            assert started["upstreams"]["openai"] == {"url": "https://api.openai.com", "profile": "openai"}
            client = await Client.connect(port)
            await client.send(post())
            await client.answer()
            client.close()
            process.send_signal(signal.SIGTERM)
            rest = [json.loads(line) for line in (await process.stderr.read()).splitlines()]
            assert [line["event"] for line in rest] == ["turn", "stopping"]
            assert await process.wait() == 0

    run(scene())


def test_who_stops_it_is_told_what_it_waits_for(tmp_path: Path) -> None:
    """With an answer under way the server says so at once; a second signal ends it."""

    async def scene() -> None:
        async with served(tmp_path) as (process, provider):
            port = int((await line_with(process, r"stet listens on http://127\.0\.0\.1:(\d+)"))[1])
            provider.play(SSE_HEAD, chunk(START), 60)
            client = await Client.connect(port)
            await client.send(post())
            await client.head()
            process.send_signal(signal.SIGINT)
            assert await line_with(process, r"^finishing 1 answer; Ctrl-C again to stop now$")
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
            client.close()

    run(scene())


def test_an_idle_server_leaves_without_a_word(tmp_path: Path) -> None:
    """There is nothing to wait for."""

    async def scene() -> None:
        async with served(tmp_path) as (process, provider):
            port = int((await line_with(process, r"stet listens on http://127\.0\.0\.1:(\d+)"))[1])
            provider.play(SSE_HEAD, chunk(START + STOP), LAST)
            client = await Client.connect(port)
            await client.send(post())
            await client.answer()
            client.close()
            await line_with(process, " ok ")
            process.send_signal(signal.SIGINT)
            assert b"finishing" not in await process.stderr.read()
            assert await process.wait() == 0

    run(scene())


def test_variables_that_set_nothing_are_warned_of() -> None:
    """A misspelt one with what was meant; those that Kubernetes makes up for a service named `stet` are not ours."""
    env = {
        "STET_POLICY": "careful",
        "STET_CONFIG": "x.yaml",
        "STET_POLCY": "careful",
        "STET_PORT": "8787",
        "STET_SERVICE_HOST": "10.0.0.1",
        "STET_SERVICE_PORT_AGENTS": "8787",
        "STET_PORT_8787_TCP": "tcp://10.0.0.1:8787",
        "STET_PORT_8787_TCP_ADDR": "10.0.0.1",
        "STETSON": "hat",
    }
    said = [str(fault) for fault in strangers(env)]
    assert [line.partition(":")[0] for line in said] == ["STET_POLCY", "STET_PORT"]
    assert said[0].endswith("did you mean STET_POLICY?")
    assert strangers({**env, "STET_PORT": "tcp://10.0.0.1:8787"})[1:] == []


class Terminal(io.StringIO):
    """Takes what is said as a terminal does."""

    def isatty(self) -> bool:
        return True


def test_a_warning_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that fails costs nobody an answer, and the line says so."""
    monkeypatch.delenv("COLUMNS", raising=False)
    terminal = Terminal()
    Voice(Settings(state="memory"), terminal).warn(
        StoreError("cannot be opened", "/x", "all stays in memory")
    )
    assert terminal.getvalue() == "stet: warning: /x: cannot be opened; all stays in memory\n"


def test_behind_the_echo_of_ctrl_c_a_line_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal shows ^C where the cursor stands."""
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    voice = Voice(Settings(state="memory"), terminal)
    voice.stopping(0)
    voice.stopping(2)
    assert terminal.getvalue() == "\nfinishing 2 answers; Ctrl-C again to stop now\n"


@pytest.mark.parametrize("width", [80, 120])
def test_the_banner_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is longer; each upstream is there with what is taken to stand behind it."""
    monkeypatch.setenv("COLUMNS", str(width))

    class Up:
        address, admin_address = Address("127.0.0.1", 8787), Address("127.0.0.1", 8788)

    terminal = Terminal()
    up: Any = Up()
    Voice(Settings(state="/home/someone/.local/state/stet"), terminal).started(up, {"gemini": "gemini"})
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    whole = " ".join(terminal.getvalue().split())
    assert "/gemini/... -> https://generativelanguage.googleapis.com (gemini)" in whole
    assert "/openai/... -> https://api.openai.com (unknown)" in whole
    assert "what was sent is remembered in /home/someone/.local/state/stet" in whole
    assert "in memory" in banner(Settings(state="memory"), Address("127.0.0.1", 1), None, {})[1]


def test_settings_errors_are_still_errors(tmp_path: Path) -> None:
    """What cannot be served is said in one line, with exit code 1."""

    async def scene() -> None:
        async with served(tmp_path, "--admin", "0.0.0.0:8788") as (process, _):
            said = (await process.stderr.read()).decode()
            assert await process.wait() == 1
            assert said.startswith("stet: admin: 0.0.0.0:8788 can be reached from other machines")
            assert "STET_ADMIN_TOKEN" in said and len(said.splitlines()) == 1

    run(scene())
