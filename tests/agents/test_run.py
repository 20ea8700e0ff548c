"""`stet run` with unmodified agents from npm, each started as its users start it, against an embedded provider."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from proxy.simulator.agent import tour
from proxy.simulator.provider import Provider
from proxy.simulator.reply import echo
from proxy.simulator.server import Server, Service
from proxy.simulator.settings import Settings

from .claude import DEAD_END, KEY
from .formats import Codexs

pytestmark = pytest.mark.agents

Install = Callable[[str, str], Path]
STET = Path(sys.executable).with_name("stet")
STEPS = 6
SECONDS = 180


class Done(Struct, frozen=True):
    """How a run ended. `summary` has one line for each label."""

    rc: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, str]:
        rows = re.findall(r"^  (\w+) +(.*)$", self.err, re.MULTILINE)
        return dict(rows)


class Machine:
    """A home and a project, an agent's programs on the PATH."""

    def __init__(self, root: Path, programs: Path) -> None:
        self.home, self.cwd, self._programs = root / "home", root / "shop", programs
        self.home.mkdir()
        self.cwd.mkdir()
        for number in range(3):
            body = "\n".join(f"def price_{number}_{line}(): return {line}" for line in range(200))
            (self.cwd / f"prices_{number}.py").write_text(body)

    @property
    def files(self) -> list[str]:
        return sorted(str(file) for file in self.cwd.glob("*.py"))

    def run(self, command: Sequence[str], env: Mapping[str, str], options: Sequence[str] = ()) -> Done:
        child = subprocess.Popen(
            [str(STET), "run", *options, "--", *command],
            cwd=self.cwd,
            env={
                "PATH": f"{self._programs}:{os.environ.get('PATH', os.defpath)}",
                "HOME": str(self.home),
                "TMPDIR": str(self.home),
                "TERM": "xterm",
                "STET_LISTEN": "127.0.0.1:9",  # the discard port: no proxy runs there
                "HTTPS_PROXY": DEAD_END,
                "HTTP_PROXY": DEAD_END,
                **env,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = child.communicate(timeout=SECONDS)
        finally:
            with_group(child)
        return Done(child.returncode, out, err)


def with_group(child: "subprocess.Popen[str]") -> None:
    """End whatever it left behind; the group bears its id."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    child.communicate()


@contextmanager
def serving(provider: Service) -> Iterator[str]:
    with Server(provider) as server:
        yield server.url


CLAUDE_ENV = {
    "ANTHROPIC_API_KEY": KEY,
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",
}
CLAUDE = [
    "claude",
    "-p",
    "Look at this project",
    "--output-format",
    "json",
    "--permission-mode",
    "bypassPermissions",
]


@pytest.mark.parametrize("where", ["flag", "variable", "settings"])
def test_claude_code(tmp_path: Path, agent: Install, where: str) -> None:
    """A session of tools to its end, its requests through us, whichever way its upstream was named; and a summary."""
    machine = Machine(tmp_path, agent("@anthropic-ai/claude-code", "2.1.332"))
    provider = Provider(Settings(binding="error"), tour(str(machine.cwd), machine.files, STEPS))
    with serving(provider) as url:
        options, env = [], dict(CLAUDE_ENV)
        match where:
            case "flag":
                options = ["--upstream", f"anthropic={url}#anthropic"]
            case "variable":
                env["ANTHROPIC_BASE_URL"] = url
            case _:
                (machine.home / ".claude").mkdir()
                settings = json.dumps({"env": {"ANTHROPIC_BASE_URL": url}})
                (machine.home / ".claude" / "settings.json").write_text(settings)
        done = machine.run([*CLAUDE, "--model", "claude-opus-5-5"], env, options)
    assert done.rc == 0, done.err
    assert json.loads(done.out)["result"].startswith("Done.")
    assert [made.status for made in provider.log] == [200] * (STEPS + 1)
    assert done.summary["requests"] == f"{STEPS + 1} (claude-opus-5-5)"
    assert re.search(r"(\d+)% of them from cache", done.summary["tokens"])
    log = Path(done.summary["log"].replace("~", str(machine.home)))
    assert KEY not in log.read_text()
    told = "" if where == "flag" else f"is the upstream 'anthropic' of this run: {url}"
    assert told in done.err


@pytest.mark.parametrize("own", [False, True])
def test_codex(tmp_path: Path, agent: Install, own: bool) -> None:
    """With its built-in provider, where the upgrade to a websocket is refused once, and with one of its user's."""
    machine = Machine(tmp_path, agent("@openai/codex", "0.171.0"))
    provider = Codexs(Settings(), echo)
    with serving(provider) as url:
        (machine.home / ".codex").mkdir()
        lines = ['model = "gpt-5.5"', "check_for_update_on_startup = false"]
        if own:
            lines = [*lines, 'model_provider = "mine"', "[model_providers.mine]", 'name = "mine"']
            lines += [f'base_url = "{url}/v1"', 'env_key = "MINE"', 'wire_api = "responses"']
        config = machine.home / ".codex" / "config.toml"
        config.write_text("\n".join([*lines, ""]))
        before = config.read_text()
        done = machine.run(
            ["codex", "exec", "--skip-git-repo-check", "Say hello"],
            {"MINE": "sk-test-dummy"} if own else {"CODEX_API_KEY": "sk-test-dummy"},
            [] if own else ["--upstream", f"openai={url}#openai"],
        )
    assert done.rc == 0, done.err
    assert [made.status for made in provider.log] == [200]
    assert done.summary["requests"].startswith("1 (gpt-5.5)"), done.err
    assert config.read_text().startswith(before)


def test_opencode(tmp_path: Path, agent: Install) -> None:
    """Its configuration is handed over in a variable; the title's request and the prompt's come through."""
    machine = Machine(tmp_path, agent("opencode-ai", "1.18.33"))
    provider = Provider(Settings(), echo)
    with serving(provider) as url:
        done = machine.run(
            ["opencode", "run", "-m", "anthropic/claude-sonnet-4-5", "Say hello"],
            {
                "ANTHROPIC_API_KEY": KEY,
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
            },
            ["--upstream", f"anthropic={url}#anthropic"],
        )
    assert done.rc == 0, done.err
    assert {made.status for made in provider.log} == {200}
    assert len(provider.log) == 2
    assert done.summary["requests"].startswith("2 ("), done.err
