"""The demo, run as a person runs it: figures of the embedded provider for five clients, directly and through stet."""

import io
import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from msgspec import structs

from proxy.demo import demonstrate, faults, plan, run_demo, short
from proxy.demo.client import CodingAgent, headers
from proxy.demo.figures import Edited, Figures, Played, figures
from proxy.demo.playing import play
from proxy.demo.project import Json, result, system_prompt, tools
from proxy.demo.running import BEGINS, HOST, Running
from proxy.demo.sessions import BROKEN, CHECKED, CLEAN, SESSIONS
from proxy.demo.table import Progress, report
from proxy.demo.wire import Answered, Wire, assembled
from proxy.errors import StetError
from proxy.policy import load_policy
from proxy.simulator import Call, Clock, Exchange, Provider, Reply, Say, Server, Settings, Think, Usage
from proxy.simulator.chat import ChatProvider
from proxy.simulator.gemini import GeminiProvider
from proxy.simulator.responses import ResponsesProvider
from proxy.simulator.responses.codex import explorer
from proxy.sse import SseParser
from proxy.stages import stale

PLAYED = {one.name: 40 for one in SESSIONS} | {one.name: 18 for one in short.short_sessions()}
"""Turns of each session, by name."""

KEYS = [
    "name",
    "path",
    "turns",
    "refused",
    "stuck_at",
    "prompt_tokens",
    "cached_share",
    "cost",
    "breaks",
    "added_ms",
]


def stet_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `stet demo` as a process of its own."""
    command = [sys.executable, "-m", "proxy", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


@pytest.fixture(scope="module")
def shown() -> Json:
    """What `stet demo --json` prints."""
    done = stet_demo("--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [f"{name}: {turns} turns played" for name, turns in PLAYED.items()]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def lines(shown: Json) -> dict[tuple[str, str], Json]:
    """The figures by session and path."""
    return {(line["name"], line["path"]): line for line in shown["sessions"]}


@pytest.fixture(scope="module")
def edits(shown: Json) -> dict[str, Json]:
    """What the proxy did, by session."""
    return {one["name"]: one for one in shown["edits"]}


def test_every_session_has_a_line_for_each_path(shown: Json) -> None:
    """The JSON names the same ten figures for each session, first directly, then through stet."""
    assert [list(line) for line in shown["sessions"]] == [KEYS] * 2 * len(PLAYED)
    assert [(line["name"], line["path"]) for line in shown["sessions"]] == [
        (name, path) for name in PLAYED for path in ("direct", "stet")
    ]
    assert [line["turns"] for line in shown["sessions"][::2]] == [*PLAYED.values()]
    assert shown["policy"] == "default"


def test_nothing_is_refused_through_stet(lines: dict[tuple[str, str], Json], edits: dict[str, Json]) -> None:
    """All clients reach the end of their session, and the proxy never had to stand aside."""
    assert {name: lines[name, "stet"]["refused"] for name in PLAYED} == dict.fromkeys(PLAYED, 0)
    assert {name: edits[name]["failed_open"] for name in PLAYED} == dict.fromkeys(PLAYED, 0)


@pytest.mark.parametrize("session", short.short_sessions(), ids=lambda one: one.name)
def test_every_format_gains(session: short.Short, lines: dict[tuple[str, str], Json]) -> None:
    """A clean client pays no more through stet; a careless one reads its cache again and is not stuck."""
    direct, through = lines[session.name, "direct"], lines[session.name, "stet"]
    assert through["cached_share"] > 0.85
    if session.careless:
        assert direct["cached_share"] < 0.05
        assert (direct["refused"], direct["stuck_at"]) == (6, 13)
    else:
        assert through["cost"] <= 1.02 * direct["cost"]
        assert (direct["refused"], direct["breaks"], through["breaks"]) == (0, 0, 0)


def test_what_goes_well_directly_goes_no_worse(lines: dict[tuple[str, str], Json]) -> None:
    """The clean client pays at most 2 % more through stet, and its cache never breaks."""
    direct, through = lines["clean client", "direct"], lines["clean client", "stet"]
    assert direct["cached_share"] > 0.9
    assert through["cost"] <= 1.02 * direct["cost"]
    assert (direct["breaks"], through["breaks"]) == (0, 0)


def test_a_changing_line_costs_the_cache_only_directly(lines: dict[tuple[str, str], Json]) -> None:
    """With the time in its system prompt a client reads nothing from the cache; through stet nearly all it could."""
    direct, through = lines["changing system line", "direct"], lines["changing system line", "stet"]
    assert direct["cached_share"] < 0.05
    assert through["cached_share"] >= 0.9 * lines["clean client", "direct"]["cached_share"]
    assert through["cost"] < 0.2 * direct["cost"]
    assert (direct["breaks"], through["breaks"]) == (38, 0)  # one of forty finds its cache expired


def test_a_client_without_marks_gets_them(lines: dict[tuple[str, str], Json]) -> None:
    """A provider that caches at marks caches nothing for a client that sets none."""
    assert lines["no breakpoints", "direct"]["cached_share"] == 0
    assert lines["no breakpoints", "stet"]["cached_share"] > 0.8


def test_a_broken_history_is_stuck_only_directly(lines: dict[tuple[str, str], Json]) -> None:
    """Directly every turn behind the interrupt is refused."""
    direct = lines["broken history", "direct"]
    assert direct["refused"] == 40 - plan.INTERRUPTED - 1
    assert direct["stuck_at"] == plan.INTERRUPTED + 2
    assert lines["broken history", "stet"]["cached_share"] > 0.9


def test_thinking_is_lost_only_behind_a_batch(
    lines: dict[tuple[str, str], Json], edits: dict[str, Json]
) -> None:
    """All thinking returns to the model, but what stood behind results that were cleared on a prefix-checked one."""
    assert lines["prefix-checked model", "direct"]["refused"] > 0
    for session in SESSIONS:
        one = edits[session.name]
        assert one["thinking_given"] == 39
        assert one["batches"] == 1  # at the long pause, where it costs nothing
        if session is CHECKED:
            assert one["thinking"] >= 39 - sum(len(task.steps) for task in plan.TASKS[:3])
            assert one["stages"]["reasoning"] == one["stages"]["stale"]
        else:
            assert one["thinking"] == 39


def test_prompts_have_the_size_of_real_ones(lines: dict[tuple[str, str], Json]) -> None:
    """The system prompt has 7 kB, the tools 30 kB; forty prompts of up to 90k tokens have some 2 million."""
    assert len(system_prompt()) == pytest.approx(7000, rel=0.1)
    assert len(json.dumps(tools())) == pytest.approx(30_000, rel=0.1)
    assert 1_800_000 < lines["clean client", "direct"]["prompt_tokens"] < 2_600_000


def test_figures_are_the_same_in_every_run(shown: Json) -> None:
    """Only the time added depends on the machine."""
    again = json.loads(stet_demo("--json").stdout)

    def timeless(found: Json) -> Json:
        return found | {"sessions": [{**line, "added_ms": None} for line in found["sessions"]]}

    assert timeless(again) == timeless(shown)


def test_an_unknown_policy_is_one_line() -> None:
    """What is wrong with the command is said before anything is played."""
    done = stet_demo("--policy", "no-such-policy")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "no-such-policy" in done.stderr


def test_a_connection_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Provider and proxy are stopped, and the person reads what went wrong."""

    def reset(self: Wire, body: Json) -> Answered:
        raise ConnectionResetError("reset by peer")

    monkeypatch.setattr(Wire, "post", reset)
    with pytest.raises(StetError, match=r"^demo: .*cannot be reached: reset by peer; .*127\.0\.0\.1$"):
        demonstrate("default", Progress(io.StringIO()))
    assert not [thread for thread in threading.enumerate() if thread.name == "demo"]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_proxy_that_fails_open_fails_the_demo(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1, and the first line and the JSON say which fault it was and where, with no content."""

    def fail(view: Any, config: Any) -> Any:
        raise KeyError("what the person wrote")

    monkeypatch.setattr(stale, "propose", fail)
    monkeypatch.setattr("proxy.demo.SESSIONS", (CLEAN,))
    monkeypatch.setattr("proxy.demo.short_sessions", lambda: ())
    assert run_demo("default", as_json=as_json) == 1
    out = capsys.readouterr().out
    assert "what the person wrote" not in out
    if as_json:
        (one,) = json.loads(out)["edits"]
        assert one["failed_open"] == 40
        assert [fault.partition(":")[0] for fault in one["faults"]] == ["prepare"]
    else:
        first, second, *_ = out.splitlines()
        assert first.startswith("FAILED: in 40 turns stet failed")
        assert second.startswith("  clean client: prepare: KeyError in rewrite.py:")


# -- the play --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [plan.INTERRUPTED, 20, 23, 29, 35])
def test_each_fault_alone_is_refused(step: int) -> None:
    """The provider takes the history as it was, and refuses what the careless client makes of it."""
    provider = Provider(Settings(), plan.model)
    calls = plan.STEPS[step]
    answer: list[Json] = [
        {"type": "text", "text": "Now this."},
        *(
            {"type": "tool_use", "id": f"toolu_{n}", "name": call.name, "input": call.input}
            for n, call in enumerate(calls)
        ),
    ]
    results = [result(block) for block in answer[1:]]

    def status(said: list[Json], answered: list[Json]) -> int:
        messages = [
            {"role": "user", "content": "Go on."},
            {"role": "assistant", "content": said},
            {"role": "user", "content": [*answered, {"type": "text", "text": "And then?"}]},
        ]
        body = {"model": CLEAN.model, "max_tokens": 1000, "tools": tools(), "messages": messages}
        return provider.answer(headers(CLEAN, "k").items(), json.dumps(body).encode(), 0.0).status

    assert status(answer, results) == 200
    assert status(*faults.broken(step, answer, results)) == 400


@pytest.mark.parametrize("session", short.SHORT, ids=lambda one: one.name)
def test_other_formats_directly(session: short.Short) -> None:
    """Their providers take the clean client's whole session, and the careless one's to where it loses results."""
    files = ["/srv/billing/a.py"]
    services: dict[str, Any] = {
        "openai_chat": ChatProvider(script=plan.model),
        "openai_responses": ResponsesProvider(script=explorer(files, turns=8)),
        "gemini": GeminiProvider(script=plan.model),
    }
    service = services[session.dialect]
    with Server(service, clock=Clock(BEGINS, frozen=True)) as server:
        agent = short.agent_of(session, HOST, server.port, "key", server.clock)
        statuses = [agent.turn().status for _ in range(short.TURNS)]
        agent.wire.close()
    assert statuses == ([200] * 12 + [400] * 6 if session.careless else [200] * 18)
    refusals = {one.error for one in service.log if one.error}
    wordings = {
        "openai_chat": "An assistant message with 'tool_calls' must be followed by tool messages",
        "openai_responses": "No tool output found for custom tool call",
        "gemini": "Please ensure that",
    }
    assert [one.startswith(wordings[session.dialect]) for one in refusals] == [True] * session.careless


def test_a_careful_step_is_left_alone() -> None:
    """The careless client is careless five times, not always."""
    said = [{"type": "tool_use"}]
    answered = [{"type": "tool_result", "content": ""}]
    careless = [step for step in range(40) if faults.broken(step, said, answered) != (said, answered)]
    assert careless == [plan.INTERRUPTED, 23, 29, 35]  # and at 20, where words stand before the call


def test_a_client_that_is_refused_sends_the_same_again() -> None:
    """A refusal changes nothing in the history; nothing of it is dropped in silence."""

    class Refusing(Wire):
        def post(self, body: Json) -> Answered:
            sent.append(json.loads(json.dumps(body)))
            return Answered(400, None, 0.001)

    sent: list[Json] = []
    agent = CodingAgent(BROKEN, Refusing(HOST, 1, {}), Clock(BEGINS, frozen=True))
    assert [agent.turn().content for _ in range(3)] == [None] * 3
    assert sent[0] == sent[1] == sent[2]


def test_a_stream_says_what_a_body_says() -> None:
    """The client takes the same blocks from events as from one body."""
    said = (
        Think("hm"),
        Say("Look, ünïcode."),
        Call("Read", {"file_path": "/a", "lines": [1, 2]}),
        Call("Stop", {}),
    )

    def answer(*, stream: bool) -> Any:
        provider = Provider(Settings(), lambda _: Reply(blocks=said))
        body = {"model": CLEAN.model, "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}
        raw = json.dumps({**body, "stream": stream}).encode()
        return provider.answer(headers(CLEAN, "k").items(), raw, 0.0)

    events = SseParser().feed(b"".join(answer(stream=True).events))
    assert assembled(events) == answer(stream=False).json["content"]


def test_both_paths_live_at_the_same_time() -> None:
    """The clients take turns: the provider sees the same requests at the same times on both paths."""
    with Running(load_policy("transparent")) as running:
        began = running.next_evening()
        direct, through = play(running, CLEAN, 3, after_turn=lambda _: None)
        turns = running.turns(began, 3)
    assert [one.started for one in through.exchanges] == [one.started for one in direct.exchanges]
    assert [one.usage for one in through.exchanges] == [one.usage for one in direct.exchanges]
    assert [turn.started_at for turn in turns] == [began + 40, began + 52, began + 64]
    assert direct.thinking == through.thinking == 2


# -- what is made of it ----------------------------------------------------------------------------


def exchange(started: float, read: int, written: int, rest: int, *, status: int = 200) -> Exchange:
    usage = Usage(cache_read_input_tokens=read, write_5m=written, input_tokens=rest)
    cost = 0.1 * read + 1.25 * written + rest
    return Exchange(path="/", headers=(), body=b"", started=started, status=status, usage=usage, cost=cost)


def test_figures_add_up_what_the_provider_noted() -> None:
    """A break is a read of less than was held; an expired cache and a refused turn are none."""
    exchanges = (
        exchange(0, 0, 1000, 10),
        exchange(10, 1000, 500, 10),
        exchange(20, 0, 0, 0, status=400),
        exchange(30, 1000, 1000, 10),  # 1500 were held
        exchange(400, 0, 2500, 10),  # expired
        exchange(410, 2490, 10, 10),  # a few tokens less is no break
    )
    content: list[list[Json] | None] = [[], [], None, [], [], []]
    answers = tuple(Answered(200 if one is not None else 400, one, 0.010) for one in content)
    slower = tuple(
        Answered(one.status, one.content, ttfb)
        for one, ttfb in zip(answers, (0.011, 0.012, 9, 0.013, 0.012, 0.010), strict=True)
    )
    direct, through = Played(answers, exchanges, 0), Played(slower, exchanges, 0)
    assert figures("s", "stet", through, direct) == Figures(
        name="s",
        path="stet",
        turns=6,
        refused=1,
        stuck_at=None,
        prompt_tokens=9550,
        cached_share=round(4490 / 9550, 4),
        cost=6761.5,
        breaks=1,
        added_ms=2.0,
    )
    assert figures("s", "direct", direct, direct).added_ms == 0


def test_a_provider_that_does_not_report_writes_keeps_whole_prompts() -> None:
    """What is missing of the prompt before is a break, but for what reads are rounded down by."""

    def read(started: float, cached: int, total: int) -> Exchange:
        usage = Usage(cache_read_input_tokens=cached, input_tokens=total - cached)
        return Exchange(path="/", headers=(), body=b"", started=started, status=200, usage=usage, total=total)

    exchanges = (
        read(0, 0, 1000),
        read(10, 992, 2000),
        read(20, 992, 3000),
        read(30, 0, 3000),
        read(400, 0, 3000),
    )
    played = Played(tuple(Answered(200, [], 0.01) for _ in exchanges), exchanges, 0)
    assert figures("s", "direct", played, played, keeps_all=True).breaks == 2
    assert figures("s", "direct", played, played).breaks == 1


def line(name: str, path: Any, *, refused: int = 0, cost: float = 100.0) -> Figures:
    return Figures(
        name=name,
        path=path,
        turns=40,
        refused=refused,
        stuck_at=41 - refused if refused else None,
        prompt_tokens=2_345_678,
        cached_share=0.9,
        cost=cost,
        breaks=0,
        added_ms=1.25,
    )


def edit(name: str, **stages: int) -> Edited:
    return Edited(
        name=name,
        stages=stages,
        left_out=0,
        batches=0,
        held=0,
        thinking=39,
        thinking_given=39,
        failed_open=0,
        faults=[],
    )


@pytest.mark.parametrize("columns", [80, 99, 100, 200])
def test_the_report_fits_a_terminal_and_hides_nothing(columns: int) -> None:
    """A hundred columns or fewer; refusals, and a session that stet makes dearer, are said at the end."""
    sessions = [
        line("clean client", "direct"),
        line("clean client", "stet", cost=103.0),
        line("broken history", "direct", refused=28),
        line("broken history", "stet"),
        line(short.SHORT[0].name, "direct"),
        line(short.SHORT[0].name, "stet"),
    ]
    stages = dict.fromkeys(
        ("encoding", "normalize", "balance", "reasoning", "relocate", "stale", "breakpoints"), 40
    )
    did = [edit("clean client"), edit("broken history", **stages)]
    text = report("default", sessions, did, columns)
    assert max(map(len, text.splitlines())) <= min(columns, 100)
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert "2,345,678" in text
    assert text.index("The same in other formats") < text.index(short.SHORT[0].name)
    alone = report("default", sessions[:4], did, columns)
    assert "other formats" not in alone
    assert text.startswith("A scripted coding agent, 40 turns, as 2 clients")
    assert "stuck at 13" in text
    assert "careful" not in text
    lost = [*did, structs.replace(edit("prefix-checked model"), thinking=13, batches=1)]
    assert "The policy careful" in " ".join(report("default", sessions, lost, columns).split())
    assert all(f"{stage} 40" in text for stage in stages)
    closing = " ".join(text.split())
    assert "Refused turns: 28 directly, 0 through stet." in closing
    assert "Stuck directly: broken history" in closing
    assert "Dearer through stet: clean client, +3.0%." in closing


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_moves_only_on_a_terminal() -> None:
    """A log gets a line for each session, a terminal one line that changes and then goes away."""
    log, screen = io.StringIO(), Terminal()
    for out in (log, screen):
        progress = Progress(out)
        for turn in (1, 39, 40):
            progress.turn("clean client", turn)
        progress.turn("short", 18, 18)
        progress.done()
    assert log.getvalue() == "clean client: 40 turns played\nshort: 18 turns played\n"
    assert screen.getvalue().count("\n") == 0
    assert screen.getvalue().endswith("18/18 turns\r\033[K")
