"""The recognisers of agents beside Claude Code: what they find in what these were recorded to send."""

import re
import time

import pytest
from msgspec import Struct

from proxy.agents import Agent, Agents, spans
from .recognising import recognised
from proxy.conversation import Conversation, Reminder, Text
from proxy.dialects import DIALECTS

from .recordings import Recorded, load, names
from .test_recognisers import HOSTILE

AGENTS = Agents.load()
OTHERS = tuple(agent for agent in AGENTS.known if agent.name != "claude-code")
FORMATS = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
}


class Read(Struct, frozen=True):
    """A recorded request, whose it is, and its parts."""

    agent: Agent
    conversation: Conversation

    def fields(self) -> dict[str, list[str]]:
        """The values of all fields that are found, by name."""
        texts = {
            "system": [part.text for part in self.conversation.system if isinstance(part, Text)],
            "reminder": [part.text for part in self._parts if isinstance(part, Reminder)],
        }
        found = {
            field.rule.name: [
                text[start:end]
                for where in field.rule.where
                for text in texts.get(where, ())
                for start, end in spans(field.pattern, text)
            ]
            for field in self.agent.fields
        }
        return {name: values for name, values in found.items() if values}

    def reminders(self) -> list[str]:
        return [part.name for part in self._parts if isinstance(part, Reminder)]

    @property
    def _parts(self) -> list[object]:
        return [part for message in self.conversation.messages for part in message.parts]


def read(request: Recorded) -> Read:
    dialect = DIALECTS[FORMATS.get(request.path, "gemini")]
    opened = dialect.open(request.wire)
    agent = AGENTS.of(request.headers, opened.preface)
    return Read(agent, recognised(dialect.read(opened), agent))


TREE = """\
Showing up to {limit} items{more}

{folder}/
├───prices_0.py
├───prices_1.py
├───prices_2.py
├───prices_3.py
└───.git/...
"""
FULL = (
    " (files + folders). Folders or files indicated with ... contain more items not shown, were ignored, or the "
    "display limit (200 items) was reached."
)
GEMINI = TREE.format(limit=200, more=FULL, folder="/work/shop") + "\n\n"
QWEN = TREE.format(limit=20, more=":", folder="/work/shop")


def with_notes(tree: str) -> str:
    return tree.replace("├───prices_0.py", "├───notes.txt\n├───prices_0.py")


LONG = "Monday, November 30, 2026"
GIT = "git: Current branch: master\ngit: Status:\ngit: {status}\ngit: Recent commits:\ngit: {commit} Open\n"


class Case(Struct, frozen=True):
    """A recording: whose it is, its reminders, and its fields in the first and in the last request."""

    recording: str
    agent: str
    at: int
    reminders: list[str]
    first: dict[str, list[str]]
    last: dict[str, list[str]]


def commit(name: str) -> str:
    """The commit a recording speaks of."""
    match = re.search(r"\b([0-9a-f]{7}) Open", load(name)[0].body)
    assert match is not None
    return match[1]


QWEN_GIT = {"commit": commit("qwen-code-0.24.4")}
CASES = [
    Case("opencode-1.18.33", "opencode", 1, [], {"date": ["Mon Nov 30 2026"]}, {"date": ["Mon Nov 30 2026"]}),
    Case(
        "opencode-1.18.33-responses",
        "opencode",
        0,
        [],
        {"date": ["Mon Nov 30 2026"]},
        {"date": ["Mon Nov 30 2026"]},
    ),
    Case(
        "gemini-cli-0.61.0",
        "gemini-cli",
        1,
        ["session-context"],
        {"date": [LONG], "directory-tree": [GEMINI]},
        {"date": [LONG], "directory-tree": [with_notes(GEMINI)]},
    ),
    Case(
        "qwen-code-0.24.4",
        "qwen-code",
        0,
        ["skills", "session-context", "deferred-tools", "date"],
        {
            "date": [LONG, LONG],
            "directory-tree": [QWEN],
            "git-status": [GIT.format(status="(clean)", **QWEN_GIT)],
        },
        {
            "date": [LONG, LONG],
            "directory-tree": [with_notes(QWEN)],
            "git-status": [GIT.format(status="?? notes.txt", **QWEN_GIT)],
        },
    ),
    Case("cline-3.0.65", "cline", 0, [], {"date": ["11/30/2026"]}, {"date": ["11/30/2026"]}),
    Case(
        "continue-1.5.47",
        "continue",
        0,
        [],
        {"date": ["2026-11-30"], "git-status": ["Working tree clean\n"]},
        {"date": ["2026-11-30"], "git-status": ["?? notes.txt\n"]},
    ),
    Case("pi-1.6.0", "pi", 0, [], {}, {}),
    Case("aider-0.86.2", "aider", 0, [], {"date": ["2026-11-30"]}, {"date": ["2026-11-30"]}),
]


@pytest.mark.parametrize("case", CASES, ids=[case.recording for case in CASES])
def test_an_agent_and_what_changes_in_its_prompt(case: Case) -> None:
    """Each request is known as the agent's own; its fields have the values that the next process renders anew."""
    requests = [read(request) for request in load(case.recording)]
    assert {request.agent.name for request in requests} == {case.agent}
    first, last = requests[case.at], requests[-1]
    assert first.reminders() == case.reminders
    assert sorted(last.reminders()) == sorted(case.reminders)
    assert first.fields() == case.first
    assert last.fields() == case.last


def test_every_recording_is_read_here() -> None:
    """All that do not belong to Claude Code, or to Codex, which has its own."""
    known = {case.recording for case in CASES} | set(names("claude-code")) | set(names("codex"))
    assert set(names("")) == known


def test_opencode_names_its_session() -> None:
    """One id for all requests of a session, the title's among them."""
    opencode = next(agent for agent in OTHERS if agent.name == "opencode")
    ids = {request.headers.get(name) for request in load("opencode-1.18.33") for name in opencode.session}
    assert len(ids) == 1
    assert None not in ids


HARD = [
    "<session_context>\nx\nToday's date is " * 5_000,
    "\n- **Directory Structure:**\n\nShowing up to 9 items\n" * 4_000,
    '<context name="gitStatus">This is the git status at the start of the conversation. x\n\nx\n' * 2_000,
    '<context name="gitStatus">This is the git status at the start of the conversation. x\n\n'
    + "x\n" * 90_000,
    "\n```text\ngit: Current branch: x\n" + "git: x\n" * 25_000,
    "\n```text\ngit: Current branch: x\n" * 6_000,
    "\n<env>\n1. Platform: x\n2. Date: 1" * 6_000,
    "\nHere is the folder structure of the current working directories:\n\nShowing up to 9 items\n" * 2_000,
    "<system-reminder>\nThis is the Qwen Code.\nToday's date is " * 3_500,
]


@pytest.mark.parametrize("text", [*HOSTILE, *HARD], ids=lambda text: repr(text[:30]))
def test_patterns_take_linear_time(text: str) -> None:
    """No text of 200 kB keeps a pattern busy: the longest of these takes milliseconds, a bad pattern minutes."""
    for agent in OTHERS:
        for rule, pattern in agent.reminders:
            began = time.perf_counter()
            pattern.match(text)
            assert time.perf_counter() - began < 5, (agent.name, rule.name)
        for field in agent.fields:
            began = time.perf_counter()
            for _ in field.pattern.finditer(text):
                pass
            assert time.perf_counter() - began < 5, (agent.name, field.rule.name)
        if agent.system is not None:
            began = time.perf_counter()
            agent.system.search(text)
            assert time.perf_counter() - began < 5, agent.name


@pytest.mark.parametrize("name", [case.recording for case in CASES])
def test_recordings_hold_no_secret_and_no_place(name: str) -> None:
    """Dummy keys and an invented home."""
    for request in load(name):
        keys = {request.headers.get(key) for key in ("x-api-key", "x-goog-api-key", "authorization")}
        assert keys <= {None, "sk-test-dummy", "Bearer sk-test-dummy"}
        assert re.findall(r"/root\b|/tmp/stet", request.body) == []
