"""Unmodified Claude Code, three layouts of it, in sessions against the embedded provider."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from proxy.simulator.agent import Agent, Read, Shell, tour
from proxy.simulator.exchange import Exchange
from proxy.simulator.provider import MESSAGES, Provider
from proxy.simulator.reply import Ask, Call, Reply, Say, Script
from proxy.simulator.server import Server
from proxy.simulator.settings import Settings

from .claude import PACKAGE, Claude, Result
from .paths import Edit, Way, base_url, between, blocks, losing

pytestmark = pytest.mark.agents

STEPS = 15
LAYOUTS = [
    pytest.param("2.1.332", "claude-opus-5-5", id="2.1.332-opus"),
    pytest.param("2.1.332", "claude-sonnet-4-5", id="2.1.332-sonnet"),
    pytest.param("2.1.114", "claude-sonnet-4-5", id="2.1.114"),
    pytest.param("2.0.53", "claude-sonnet-4-5", id="2.0.53"),
]
WAYS = ["direct", "stet"]
Install = Callable[[str, str], Path]


@pytest.fixture
def project(tmp_path: Path, git: str) -> Path:
    """A small repository, the same in every test."""
    folder = tmp_path / "shop"
    folder.mkdir()
    for number in range(4):
        lines = [
            f"def price_{number}_{line}(amount: int) -> int:\n    return amount * {line}\n"
            for line in range(40)
        ]
        (folder / f"prices_{number}.py").write_text("\n".join(lines))
    (folder / "CLAUDE.md").write_text("# Rules\n\nUse tabs.\n")
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=T", "-c", "user.email=t@e", "commit", "-qm", "Open"],
    ):
        subprocess.run([git, *command], cwd=folder, check=True, capture_output=True)
    return folder


class Session:
    """One home and one project; every run is another process of the agent, as is a resumption."""

    def __init__(self, claude: Claude, provider: Provider, log: Path) -> None:
        self.claude = claude
        self.provider = provider
        self._log = log

    def run(self, prompt: str, *, resume: bool = False, mode: str = "bypassPermissions") -> Result:
        return self.claude.run(prompt, resume=resume, mode=mode)

    @property
    def calls(self) -> list[Exchange]:
        """Requests of the session itself: those to the model it runs on that offer tools."""
        return [
            made
            for made in self.provider.log
            if made.path == MESSAGES and made.model == self.claude.model and made.json.get("tools")
        ]

    @property
    def refused(self) -> list[tuple[int, str | None]]:
        return [(made.status, made.error) for made in self.provider.log if made.status != 200]

    @property
    def complaints(self) -> list[str]:
        """What the proxy logged beside its one line a turn: a rewrite that failed open, a broken law, a crash."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        logged = [json.loads(line) for line in lines if line.startswith("{")]
        crashes = [line for line in lines if line.startswith("Traceback")]
        return crashes + [str(line) for line in logged if line["level"] != "info" or line.get("failed_open")]

    @property
    def hit_ratio(self) -> float:
        """Share of the prompt tokens that were read from the cache, over all calls but the first."""
        later = self.calls[1:]
        return sum(made.read for made in later) / sum(made.total for made in later)


@contextmanager
def session(
    way: Way,
    version: str,
    model: str,
    project: Path,
    *,
    settings: Settings | None = None,
    script: Script | None = None,
    client: Edit | None = None,
    env: dict[str, str] | None = None,
) -> Iterator[Session]:
    """A session with the provider up, the way laid, and, with `client`, an agent that loses something."""
    home = project.parent / "home"
    home.mkdir()
    files = sorted(str(file) for file in project.glob("*.py"))
    provider = Provider(settings or Settings(binding="error"), script or tour(str(project), files, STEPS))
    state = project.parent / "stet"
    # The embedded provider is no vendor who takes an attribution block out itself.
    with Server(provider) as server, base_url(way, server.url, state, profile="unknown") as url:
        with between(url, client) if client else nullcontext(url) as nearest:
            claude = Claude(
                version=version, base_url=nearest, home=home, cwd=project, model=model, env=env or {}
            )
            work = Session(claude, provider, state / "log")
            yield work
    assert work.complaints == []


def unanswered(call: Exchange) -> list[str]:
    """Tool calls of a request that have no result in it."""
    answered = {block["tool_use_id"] for block in blocks(call.json) if block["type"] == "tool_result"}
    return [
        block["id"]
        for block in blocks(call.json)
        if block["type"] == "tool_use" and block["id"] not in answered
    ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("version", "model"), LAYOUTS)
def test_a_session_and_its_resumption_are_never_refused(
    way: Way, version: str, model: str, project: Path, agent: Install
) -> None:
    """Fifteen steps of tools and an answer, twice, the second time resumed: no refusal, no call without result."""
    agent(PACKAGE, version)
    with session(way, version, model, project) as work:
        first = work.run("Look at this project and tell me what it does")
        (project / "notes.txt").write_text("seen\n")
        second = work.run("Look again, please", resume=True)
    assert work.refused == []
    assert [(result.rc, result.is_error, result.text[:5]) for result in (first, second)] == [
        (0, False, "Done.")
    ] * 2
    assert len(work.calls) == 2 * (STEPS + 1)
    assert [unanswered(call) for call in work.calls] == [[] for _ in work.calls]


@pytest.mark.parametrize(("version", "model"), LAYOUTS[:3])
def test_through_stet_a_resumption_finds_the_prefix_in_the_cache(
    version: str, model: str, project: Path, agent: Install
) -> None:
    """A resumed session reads what the first process left in the cache, though 2.1.114 takes git status again."""
    agent(PACKAGE, version)
    with session("stet", version, model, project) as work:
        work.run("Look at this project and tell me what it does")
        (project / "notes.txt").write_text("seen\n")
        work.run("Look again, please", resume=True)
    before, resumed = work.calls[STEPS : STEPS + 2]
    assert resumed.read >= 0.98 * before.total


SUBTASK = "Look around in the folder"
TODO = {"content": "Look", "status": "in_progress", "activeForm": "Looking"}


def busy(project: Path) -> Script:
    """A model that also uses what changes an agent's own prompt: a sub-agent, a list of tasks, deferred tools."""
    task = {"description": "Look", "prompt": SUBTASK, "subagent_type": "general-purpose"}
    main = Agent(
        [
            (Read(str(project / "prices_0.py")),),
            (Call("TodoWrite", {"todos": [TODO]}),),
            (Call("Agent", task), Call("Task", task)),
            (Call("ToolSearch", {"query": "select:WebFetch,NotebookEdit", "max_results": 5}),),
            (Shell("ls -la"), Shell("git status")),
            (Shell("echo one"),),
        ]
    )

    return lambda ask: Reply(blocks=(Say("Looked around."),)) if is_subtask(ask.body) else main(ask)


def is_subtask(body: dict[str, Any]) -> bool:
    """Whether a sub-agent sends this: its history opens with the task."""
    opening = body["messages"][0]["content"]
    return SUBTASK in ([opening] if isinstance(opening, str) else [block.get("text") for block in opening])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("version", "model"), LAYOUTS)
def test_mentions_commands_sub_agents_and_a_compaction_are_never_refused(
    way: Way, version: str, model: str, project: Path, agent: Install
) -> None:
    """Five prompts in five processes: a mentioned file, one changed meanwhile, a slash command, a compaction."""
    agent(PACKAGE, version)
    commands = project / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "look.md").write_text("Look at $ARGUMENTS once more\n")
    # After a compaction the agent itself sends thinking that no longer stands behind what it was bound to.
    with session(way, version, model, project, settings=Settings(), script=busy(project)) as work:
        results = [work.run("Look at @prices_1.py please")]
        (project / "prices_1.py").write_text("changed = 1\n")
        results += [work.run("/look prices_0.py", resume=True), work.run("Go on", resume=True)]
        compacted = work.run("/compact", resume=True)
        results += [work.run("Go on", resume=True)]
    assert work.refused == []
    assert [(result.rc, result.is_error, result.text[:5]) for result in results] == [(0, False, "Done.")] * 4
    assert (compacted.rc, compacted.is_error) == (0, False)
    assert [unanswered(call) for call in work.calls] == [[] for _ in work.calls]
    assert sum(is_subtask(made.json) for made in work.provider.log if made.path == MESSAGES) == 4


LOST = [pytest.param(3, id="alone"), pytest.param(4, id="one-of-two")]


@pytest.mark.parametrize("nth", LOST)
@pytest.mark.parametrize(("version", "model"), LAYOUTS)
def test_without_stet_a_lost_result_ends_the_session(
    version: str, model: str, nth: int, project: Path, agent: Install
) -> None:
    """The provider refuses a history with an unanswered call, and the agent has no way on."""
    agent(PACKAGE, version)
    with session("direct", version, model, project, client=losing(nth)) as work:
        result = work.run("Look at this project and tell me what it does")
    assert (result.is_error, result.text[:5] == "Done.") == (True, False)
    assert {status for status, _ in work.refused} == {400}
    assert all("without `tool_result` blocks" in (error or "") for _, error in work.refused)


@pytest.mark.parametrize("nth", LOST)
@pytest.mark.parametrize(("version", "model"), LAYOUTS)
def test_through_stet_a_lost_result_goes_unnoticed(
    version: str, model: str, nth: int, project: Path, agent: Install
) -> None:
    """The same history goes out with every call answered, is accepted to the end, and resumed."""
    agent(PACKAGE, version)
    with session("stet", version, model, project, client=losing(nth)) as work:
        first = work.run("Look at this project and tell me what it does")
        second = work.run("Look again, please", resume=True)
    assert work.refused == []
    assert [(result.is_error, result.text[:5]) for result in (first, second)] == [(False, "Done.")] * 2
    assert [unanswered(call) for call in work.calls] == [[] for _ in work.calls]


def test_without_stet_the_billing_nonce_leaves_no_cache(project: Path, agent: Install) -> None:
    """2.1.114 towards a host that takes its attribution block for prompt: nothing is ever read from the cache."""
    agent(PACKAGE, "2.1.114")
    with session(
        "direct", "2.1.114", "claude-sonnet-4-5", project, settings=Settings(hash_billing_header=True)
    ) as work:
        work.run("Look at this project and tell me what it does")
    assert work.hit_ratio < 0.01


def test_through_stet_the_billing_nonce_costs_nothing(project: Path, agent: Install) -> None:
    """2.1.114 through Stet has the hit ratio, to one point, of the same agent told to leave the nonce out."""
    agent(PACKAGE, "2.1.114")
    ratios: dict[Way, float] = {}
    for way, env in (("direct", {"CLAUDE_CODE_ATTRIBUTION_HEADER": "0"}), ("stet", {})):
        folder = project.parent / way / "shop"
        folder.parent.mkdir()
        subprocess.run(["cp", "-a", str(project), str(folder)], check=True)
        settings = Settings(hash_billing_header=True)
        with session(way, "2.1.114", "claude-sonnet-4-5", folder, settings=settings, env=env) as work:
            work.run("Look at this project and tell me what it does")
        ratios[way] = work.hit_ratio
        assert work.refused == []
    assert ratios["direct"] > 0.9
    assert ratios["stet"] >= ratios["direct"] - 0.01
