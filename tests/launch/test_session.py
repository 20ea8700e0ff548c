"""`stet run` in a process of its own: a real child, a real proxy, the embedded provider, and a terminal where it matters."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.simulator.provider import Provider
from proxy.simulator.server import Server
from proxy.simulator.settings import Settings
from proxy.simulator.reply import echo

STET = [sys.executable, "-m", "proxy", "run"]
ROOT = Path(__file__).resolve().parents[2]

ASKS = """
import json, os, sys, urllib.request
def ask(text, url=None):
    body = {"model": "claude-sonnet-4-5", "max_tokens": 50, "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request((url or os.environ["ANTHROPIC_BASE_URL"]) + "/v1/messages", json.dumps(body).encode(),
        {"content-type": "application/json", "x-api-key": "sk-ant-secret", "anthropic-version": "2023-06-01"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
"""
WAITS = """
import os, signal, sys, time
def told(number, frame):
    os.write(1, b"got " + signal.Signals(number).name.encode() + b"\\n")
    if number != signal.SIGINT: sys.exit(40 + number)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, told)
print("ready", flush=True)
for _ in range(600): time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """The embedded provider, on a port of its own (`server.url` is in `url`)."""
    made = Provider(Settings(), echo)
    with Server(made) as server:
        made.url = server.url  # type: ignore[attr-defined]
        yield made


class Run:
    """What a run leaves behind, and the ways to make one."""

    def __init__(self, root: Path, provider: Provider) -> None:
        self.root, self.state, self.url = root, root / "state", provider.url  # type: ignore[attr-defined]
        self.home, self.cwd, self.tmp = root / "home", root / "cwd", root / "tmp"
        for folder in (self.home, self.cwd, self.tmp):
            folder.mkdir()

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "PYTHONPATH": str(ROOT),
            "STET_STATE": str(self.state),
            "STET_LISTEN": "127.0.0.1:9",  # the discard port: no proxy runs there
            "STET_UPSTREAMS": f"anthropic={self.url}#anthropic",
        }

    def __call__(
        self, script: str, *options: str, words: tuple[str, ...] = (), stdin: str = "", **env: str
    ) -> Any:
        return subprocess.run(
            [*STET, *options, "--", sys.executable, "-c", script, *words],
            cwd=self.cwd,
            env={**self.env, **env},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def start(self, script: str, *options: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*STET, *options, "--", sys.executable, "-c", script],
            cwd=self.cwd,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    @property
    def logs(self) -> list[Path]:
        return sorted((self.state / "runs").glob("*.log"))


@pytest.fixture
def run(tmp_path: Path, provider: Provider) -> Run:
    return Run(tmp_path, provider)


# -- what is passed through -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 255])
def test_the_exit_code_is_the_agents(run: Run, code: int) -> None:
    """Whatever it is."""
    assert run(f"raise SystemExit({code})").returncode == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_that_a_signal_ends_gives_128_and_the_number(run: Run, number: signal.Signals) -> None:
    """As a shell says it."""
    assert run(f"import os; os.kill(os.getpid(), {number})").returncode == 128 + number


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [("nowhere-to-be-found", 127, "not found on PATH"), ("./data", 126, "is no program")],
)
def test_what_cannot_be_run_gives_the_codes_of_a_shell(run: Run, program: str, code: int, said: str) -> None:
    """Before any proxy is started."""
    (run.cwd / "data").write_text("x")
    done = subprocess.run(
        [*STET, program], cwd=run.cwd, env=run.env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert run.logs == []


def test_standard_input_and_output_are_the_agents(run: Run) -> None:
    """Nothing of ours is between its lines, and arguments arrive as they were given."""
    script = "import sys; print(sys.stdin.read()[::-1], sys.argv[1:])"
    done = run(script, words=("--policy", "a b", "--"), stdin="olleh")
    assert done.stdout == "hello ['--policy', 'a b', '--']\n"


def test_without_a_command_the_command_line_is_wrong(run: Run) -> None:
    """Exit code 2, as for any other."""
    done = subprocess.run(
        [*STET, "--"], cwd=run.cwd, env=run.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "name the agent, as in: stet run -- claude" in done.stderr


# -- signals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_for_us_is_passed_on(run: Run, number: signal.Signals) -> None:
    """To the agent, once; how it ends is how we end."""
    child = run.start(WAITS)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(number)
    out, err = child.communicate(timeout=30)
    assert (out, child.returncode) == (f"got {number.name}\n", 40 + number), err
    assert "stet: " in err


def test_an_interrupt_without_a_terminal_is_passed_on(run: Run) -> None:
    """A script that interrupts us means the agent, which may go on."""
    child = run.start(WAITS, start_new_session=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "got SIGINT\n"
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == 40 + signal.SIGTERM
    child.communicate()


def test_what_is_ignored_stays_ignored(run: Run) -> None:
    """Under nohup a hang-up reaches neither us nor the agent."""
    script = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)"
    child = run.start(script, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    out, _ = child.communicate(timeout=30)
    assert out == "True True\n"


# -- a terminal -------------------------------------------------------------------------------------------------


class Terminal:
    """A pseudo-terminal with `stet run` as its session leader, as a shell's foreground job would be."""

    def __init__(self, run: Run, script: str, size: tuple[int, int] = (24, 80)) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(run.cwd)
            os.execve(sys.executable, [*STET, "--", sys.executable, "-c", script], run.env)
        self.resize(size)
        self.text = ""

    def resize(self, size: tuple[int, int]) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def until(self, pattern: str, seconds: float = 40.0) -> "re.Match[str]":
        """Read until it is there; what came is in `text`."""
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern, self.text)) is None:
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern!r} did not come: {self.text!r}"
            assert self._read(left), f"{pattern!r} did not come before the end: {self.text!r}"
        return found

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read(40.0):
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)

    def _read(self, seconds: float) -> bool:
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            more = os.read(self.fd, 65536)
        except OSError:
            return False
        self.text += more.decode(errors="replace")
        return bool(more)


def test_ctrl_c_reaches_the_agent_once(run: Run) -> None:
    """The terminal sends it to both of us; we let the agent decide."""
    terminal = Terminal(run, WAITS)
    terminal.until("ready")
    terminal.type("\x03")
    terminal.until("got SIGINT")
    time.sleep(0.3)
    terminal.type("\x03")
    terminal.until("got SIGINT(?s:.*)got SIGINT")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.end() == 40 + signal.SIGTERM
    assert terminal.text.count("got SIGINT") == 2


def test_an_agent_that_ctrl_c_ends_gives_130(run: Run) -> None:
    """And the summary comes all the same."""
    terminal = Terminal(
        run,
        "import signal, time; signal.signal(2, signal.SIG_DFL); print('ready', flush=True); time.sleep(60)",
    )
    terminal.until("ready")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "no request came through stet" in terminal.text


SIZES = """
import os, signal, time
def told(*_): os.write(1, b"size %d %d\\n" % tuple(os.get_terminal_size()))
signal.signal(signal.SIGWINCH, told)
print("ready", os.isatty(0), os.isatty(1), os.isatty(2), os.tcgetpgrp(0) == os.getpgrp(), *os.get_terminal_size(), flush=True)
input()
print("typed", flush=True)
"""


def test_the_terminal_is_the_agents(run: Run) -> None:
    """It is on it, in its foreground, sees its size and each change of that, and reads its keys."""
    terminal = Terminal(run, SIZES, size=(30, 101))
    assert terminal.until(r"ready (.*?)\r\n")[1] == "True True True True 101 30"
    terminal.resize((50, 133))
    terminal.until("size 133 50")
    terminal.type("x\n")
    terminal.until("typed")
    assert terminal.end() == 0


def test_nothing_of_ours_is_on_the_screen_while_the_agent_runs(run: Run) -> None:
    """The log goes to a file; behind the agent's last word comes the summary."""
    terminal = Terminal(
        run, f"{ASKS}\nprint('begin', flush=True); ask('hello'); ask('again'); print('over', flush=True)"
    )
    assert terminal.end() == 0
    begun, _, rest = terminal.text.partition("begin")
    between, _, behind = rest.partition("over")
    assert (begun, between.strip()) == ("", "")
    assert "requests   2 (claude-sonnet-4-5)" in behind


def test_the_terminals_mode_is_put_back_behind_an_agent_that_was_killed(run: Run) -> None:
    """One that dies in raw mode would leave a shell without echo."""
    script = "import os, tty; tty.setraw(0); print('raw', flush=True); os.kill(os.getpid(), 9)"
    terminal = Terminal(run, script)
    before = termios.tcgetattr(terminal.fd)
    terminal.until("raw")
    terminal.until("no request came")
    assert termios.tcgetattr(terminal.fd)[3] == before[3]
    assert terminal.end() == 137


STOPS = "import os, signal; print('ready', flush=True); os.kill(os.getpid(), signal.SIGSTOP); print('on again', flush=True)"


def test_when_the_agent_stops_we_stop(run: Run) -> None:
    """A shell waits for us: it must see that its job has stopped, and can have it go on."""
    child = run.start(STOPS, start_new_session=True)
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    os.kill(child.pid, signal.SIGCONT)
    out, _ = child.communicate(timeout=30)
    assert (out, child.returncode) == ("ready\non again\n", 0)


# -- the proxy, and what is told --------------------------------------------------------------------------------


def test_a_run_is_summed_up(run: Run) -> None:
    """Requests, tokens, cost, and where the log is, which has a line for each request and no key."""
    done = run(f"{ASKS}\nfor n in range(3): ask(f'hello {{n}}')")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert re.fullmatch(r"stet: \S*python\S*, [\d.]+ s, policy default", lines[0])
    assert lines[1] == "  requests   3 (claude-sonnet-4-5)"
    assert re.fullmatch(r"  tokens     \d+ in, 0% of them from cache; \d+ out", lines[2])
    assert re.fullmatch(r"  cost       \$0\.0\d{3}, the same directly", lines[3])
    [log] = run.logs
    assert lines[4] == f"  log        {log}"
    assert len(lines) == 5
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["event"] for line in told] == ["turn"] * 3
    assert "sk-ant-secret" not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_quiet_says_nothing(run: Run) -> None:
    """For scripts."""
    done = run(f"{ASKS}\nask('hello')", "--quiet", ANTHROPIC_BASE_URL=run.url)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def test_a_gateway_of_the_users_is_the_upstream(run: Run, provider: Provider) -> None:
    """Its requests arrive there through us, at the path they would have had, with the agent's own key."""
    before = len(provider.log)
    done = run(f"{ASKS}\nask('through the gateway')", STET_UPSTREAMS="", ANTHROPIC_BASE_URL=run.url)
    assert done.returncode == 0, done.stderr
    assert (
        done.stderr.splitlines()[0]
        == f"stet: ANTHROPIC_BASE_URL is the upstream 'anthropic' of this run: {run.url}"
    )
    assert len(provider.log) == before + 1
    assert "requests   1 (claude-sonnet-4-5)" in done.stderr


def test_the_policy_is_the_one_asked_for(run: Run) -> None:
    """A wrong one is one clear line, before the agent is started."""
    assert "policy careful" in run(f"{ASKS}\nask('x')", "--policy", "careful").stderr
    done = run("print('started')", "--policy", "carefull")
    assert (done.returncode, done.stdout) == (1, "")
    assert "did you mean 'careful'" in done.stderr


def test_the_port_is_the_one_asked_for(run: Run) -> None:
    """A taken one is said before the agent is started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("print('started')", "--port", str(taken.getsockname()[1]))
    assert (done.returncode, done.stdout) == (1, "")
    assert "the port is taken" in done.stderr


def test_nothing_is_written_but_the_state_and_what_is_removed_again(run: Run) -> None:
    """Not into the home, nor the project; nothing stays behind among temporary files."""
    script = (
        "import os, pathlib; path = pathlib.Path(os.environ['QWEN_CODE_SYSTEM_SETTINGS_PATH']);"
        "print(path.stat().st_mode & 0o777 == 0o600, path.parent.stat().st_mode & 0o777 == 0o700, path.is_file())"
    )
    (run.home / ".qwen").mkdir()
    settings = run.home / ".qwen" / "settings.json"
    settings.write_text(json.dumps({"modelProviders": {"openai": [{"baseUrl": f"{run.url}/v1"}]}}))
    before = settings.read_text()
    done = run(script, "--as", "qwen-code")
    assert (done.returncode, done.stdout) == (0, "True True True\n"), done.stderr
    assert [path for path in run.home.rglob("*") if path.is_file()] == [settings]
    assert settings.read_text() == before
    assert [*run.cwd.iterdir(), *run.tmp.iterdir()] == []
    assert {path.name for path in run.state.iterdir()} == {"runs", "ledger.sqlite3", "spool.key"}
    assert [path.suffix for path in (run.state / "runs").iterdir()] == [".log"]


def test_with_memory_as_state_only_the_log_is_left(run: Run) -> None:
    """Among temporary files, readable by its owner."""
    done = run(f"{ASKS}\nask('x')", "--state", "memory")
    [log] = run.tmp.iterdir()
    assert str(log) in done.stderr
    assert log.stat().st_mode & 0o777 == 0o600
    assert not run.state.exists()


@pytest.fixture
def serving(run: Run) -> Iterator[tuple[str, str]]:
    """A `stet serve` that runs before: its address, and that of its admin page."""
    env = {
        **run.env,
        "STET_LISTEN": "127.0.0.1:0",
        "STET_ADMIN": "127.0.0.1:0",
        "STET_LOG": "json",
        "STET_STATE": "memory",
    }
    command = [sys.executable, "-m", "proxy", "serve"]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        started = json.loads(server.stderr.readline())
        yield started["listen"], started["admin"]
        server.terminate()
        server.communicate(timeout=30)


def test_a_proxy_that_runs_is_used(run: Run, serving: tuple[str, str]) -> None:
    """The agent gets its address, the summary comes from its page of turns, and it is not stopped."""
    listen, admin = serving
    script = f"{ASKS}\nprint(os.environ['ANTHROPIC_BASE_URL']); ask('hello')"
    for _ in range(2):
        done = run(script, STET_LISTEN=listen, STET_ADMIN=admin, STET_UPSTREAMS="")
        assert done.stdout == f"http://{listen}\n"
        assert "requests   1 (claude-sonnet-4-5)" in done.stderr
        assert f"of the proxy at http://{listen}" in done.stderr
        assert "other agents' requests in this time are counted too" in done.stderr
    assert run.logs == []


@pytest.mark.parametrize("options", [("--policy", "careful"), ("--port", "0")])
def test_who_asks_for_something_of_their_own_gets_a_proxy_of_their_own(
    run: Run, serving: tuple[str, str], options: tuple[str, ...]
) -> None:
    """The one that runs may do otherwise."""
    listen, admin = serving
    done = run(
        f"{ASKS}\nprint(os.environ['ANTHROPIC_BASE_URL']); ask('x')",
        *options,
        STET_LISTEN=listen,
        STET_ADMIN=admin,
    )
    assert done.stdout.startswith("http://127.0.0.1:")
    assert done.stdout != f"http://{listen}\n"
    assert len(run.logs) == 1


def test_without_its_admin_page_there_is_no_summary(run: Run, serving: tuple[str, str]) -> None:
    """And the user is told why."""
    listen, _ = serving
    done = run(f"{ASKS}\nask('x')", STET_LISTEN=listen, STET_ADMIN="off", STET_UPSTREAMS="")
    assert done.returncode == 0
    assert "no summary: its admin page is not there" in " ".join(done.stderr.split())
