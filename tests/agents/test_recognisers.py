"""The recognisers in `config/agents/` find what they are for in recorded requests, and nothing else."""

import json
import re
import time
from typing import Any

import pytest

from proxy.agents import Agent, Agents, Field
from .recognising import recognised
from proxy.conversation import Conversation, Message, Reminder, Role, Text, ToolResult
from proxy.dialects.anthropic import Anthropic

from .recordings import Recorded, load, main_calls, names

AGENTS = Agents.load()
CLAUDE = next(agent for agent in AGENTS.known if agent.name == "claude-code")
WIRE = Anthropic()


def conversation(request: Recorded) -> Conversation:
    agent = AGENTS.of(request.headers)
    return recognised(WIRE.read(WIRE.open(request.wire)), agent)


def field(name: str, agent: Agent = CLAUDE) -> Field:
    return next(found for found in agent.fields if found.rule.name == name)


def found(conversations: Conversation, name: str) -> list[tuple[str, str]]:
    """Where (system, tools, a reminder's name) a field of Claude Code's stands, and its value there."""
    wanted = field(name)
    places: list[tuple[str, str]] = []
    if "system" in wanted.rule.where:
        places += [("system", part.text) for part in conversations.system if isinstance(part, Text)]
    if "reminder" in wanted.rule.where:
        parts = [part for message in conversations.messages for part in message.parts]
        places += [(part.name, part.text) for part in parts if isinstance(part, Reminder)]
    return [(place, match["value"]) for place, text in places for match in wanted.pattern.finditer(text)]


def reminders(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [
        (part.source.value, part.name)
        for message in messages
        for part in message.parts
        if isinstance(part, Reminder)
    ]


def typed(messages: tuple[Message, ...]) -> list[str]:
    """What is left as text of a person, first lines only."""
    return [
        part.text.splitlines()[0][:40]
        for message in messages
        if message.role is not Role.ASSISTANT
        for part in message.parts
        if isinstance(part, Text) and part.text
    ]


OPENING = [
    ("environment", "environment"),
    ("environment", "model"),
    ("environment", "deferred-tools"),
    ("environment", "agent-types"),
    ("environment", "skills"),
    ("reminder", "total-tokens"),
    ("project_files", "claude-md"),
    ("environment", "git-status"),
    ("environment", "date"),
    ("reminder", "attribution"),
]
MENTION = [("expanded_input", "mention-call"), ("tool_result", "mention-result")]
PROMPTS = ["Look at this project and fix a.txt", "Now explain what you did"]


@pytest.mark.parametrize("name", names())
def test_agent_and_session_are_known_from_the_headers(name: str) -> None:
    """Every request of Claude Code is known as its own; since 2.1 all of a session carry one session id."""
    requests = load(name)
    assert {AGENTS.of(request.headers).name for request in requests} == {"claude-code"}
    sessions = {request.headers.get(header) for request in requests for header in CLAUDE.session}
    assert len(sessions) == 1
    assert (None in sessions) == ("2.0.53" in name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-code-2.0.53-sonnet", [("project_files", "claude-md"), ("editor", "file-modified")]),
        ("claude-code-2.1.114-opus", [("environment", "skills"), ("project_files", "claude-md")]),
        (
            "claude-code-2.1.332-opus",
            [
                ("project_files", "claude-md"),
                ("environment", "git-status"),
                ("reminder", "attribution"),
                ("environment", "environment"),
            ],
        ),
        ("claude-code-2.1.332-sonnet", [*OPENING, ("reminder", "total-tokens")]),
    ],
)
def test_injected_texts_are_told_from_what_a_person_typed(name: str, expected: list[tuple[str, str]]) -> None:
    """In the last request of a resumed session each injected text has its name, and only the prompts are text."""
    messages = conversation(main_calls(name)[-1]).messages
    assert reminders(messages) == expected
    assert typed(messages) == PROMPTS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "claude-code-2.1.332-opus-modes",
            [
                *MENTION,
                ("project_files", "claude-md"),
                ("environment", "git-status"),
                ("reminder", "attribution"),
                ("environment", "environment"),
                ("expanded_input", "command"),
                ("reminder", "plan-mode"),
            ],
        ),
        (
            "claude-code-2.1.332-sonnet-modes",
            [
                *MENTION,
                *OPENING,
                ("expanded_input", "command"),
                ("reminder", "plan-mode"),
                ("reminder", "total-tokens"),
            ],
        ),
    ],
)
def test_mentions_commands_and_plan_mode_are_recognised(name: str, expected: list[tuple[str, str]]) -> None:
    """A mentioned file, a slash command and plan mode are injections; what the command says is the user's."""
    asks_for_summary = main_calls(name)[12]
    messages = conversation(asks_for_summary).messages
    assert reminders(messages) == expected
    assert typed(messages) == [
        "Look at @a.txt please",
        "Do the foo thing with bar",
        "Plan it",
        "CRITICAL: Respond with TEXT ONLY. Do NOT",
    ]


@pytest.mark.parametrize("name", ["claude-code-2.1.332-opus-modes", "claude-code-2.1.332-sonnet-modes"])
def test_the_summary_after_a_compaction_is_conversation(name: str) -> None:
    """The summary is not an injection that could go stale, though it holds a tagged line; the next prompt is text."""
    messages = conversation(main_calls(name)[-1]).messages
    assert typed(messages) == ["This session is being continued from a p", "go on"]


def test_the_nonce_stands_in_the_attribution_block_only() -> None:
    """2.1.114 sends another `cch` with every request, in its first system block, and nothing else has one."""
    values = [found(conversation(request), "cch") for request in load("claude-code-2.1.114-opus")]
    assert [[place for place, _ in value] for value in values] == [["system"]] * 14
    assert len({value for ((_, value),) in values}) == 14
    others = [name for name in names() if "2.1.114" not in name]
    assert [found(conversation(request), "cch") for name in others for request in load(name)] == [
        [] for name in others for _ in load(name)
    ]


def test_the_version_suffix_changes_with_the_first_prompt() -> None:
    """`cc_version` ends in a fingerprint of the first prompt: constant in a session, another after compaction."""
    per_request = [
        found(conversation(request), "cc-version") for request in load("claude-code-2.1.332-opus-modes")
    ]
    assert per_request == [[("system", "ea5")]] * 14 + [[("system", "cf6")]] * 4


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("claude-code-2.0.53-sonnet", ["system"]),
        ("claude-code-2.1.114-opus", ["claude-md"]),
        ("claude-code-2.1.332-opus", ["environment"]),
        ("claude-code-2.1.332-sonnet", ["date"]),
        ("claude-code-2.1.332-opus-modes", ["environment", "deferred-tools"]),
        ("claude-code-2.1.332-sonnet-modes", ["date"]),
    ],
)
def test_the_date_is_found_where_each_version_puts_it(name: str, places: list[str]) -> None:
    """Every request of a session has today's date exactly once."""
    dates = [found(conversation(request), "date") for request in main_calls(name)]
    assert {len(date) for date in dates} == {1}
    assert {value for date in dates for _, value in date} == {"2026-11-30"}
    assert list(dict.fromkeys(place for date in dates for place, _ in date)) == places


STATUS = "Current branch: master\n\nMain branch (you will usually use this for PRs): {main}\n\nStatus:\n{status}\n\nRecent commits:\na34e6ab init"


@pytest.mark.parametrize(
    ("name", "place", "values"),
    [
        (
            "claude-code-2.0.53-sonnet",
            "system",
            [STATUS.format(main="", status="(clean)"), STATUS.format(main="", status="?? new.txt")],
        ),
        (
            "claude-code-2.1.114-opus",
            "system",
            [STATUS.format(main="main", status="(clean)"), STATUS.format(main="main", status="?? new.txt")],
        ),
        ("claude-code-2.1.332-opus", "git-status", [STATUS.format(main="main", status="(clean)")]),
        ("claude-code-2.1.332-sonnet", "git-status", [STATUS.format(main="main", status="(clean)")]),
    ],
)
def test_the_git_status_is_found_whole(name: str, place: str, values: list[str]) -> None:
    """A snapshot: taken again when a session is resumed by 2.0.53 and 2.1.114, kept by 2.1.332."""
    seen = [found(conversation(request), "git-status") for request in main_calls(name)]
    assert {where for status in seen for where, _ in status} == {place}
    assert list(dict.fromkeys(value for status in seen for _, value in status)) == values


def test_token_counters_are_found_in_the_system_prompt_and_in_reminders() -> None:
    """The counters of 2.1.332 with 4.5 models; those that stand inside tool results are not looked for."""
    last = conversation(main_calls("claude-code-2.1.332-sonnet")[-1])
    assert found(last, "total-tokens") == [
        ("system", "15000000"),
        ("total-tokens", "15000000"),
        ("total-tokens", "15000000"),
    ]
    inside = [
        part.content for message in last.messages for part in message.parts if isinstance(part, ToolResult)
    ]
    assert sum(b"<total_tokens>" in (content or b"") for content in inside) == 12


@pytest.mark.parametrize("name", [name for name in names() if not name.endswith("-modes")])
def test_behind_the_masks_a_session_has_one_system_prompt(name: str) -> None:
    """What changes in the system prompt within a session, its resumption included, is all known by name."""
    system: set[tuple[str, ...]] = set()
    for request in main_calls(name):
        texts = [part.text for part in conversation(request).system if isinstance(part, Text)]
        for known in CLAUDE.fields:
            if "system" in known.rule.where:
                texts = [
                    known.pattern.sub(lambda match: match[0].replace(match["value"], "*"), text)
                    for text in texts
                ]
        system.add(tuple(texts))
    assert len(system) == 1


ORDINARY = [
    "Today's date is 2026-11-30.",
    "Today's date is wrong in the footer. Please fix it.",
    "# Environment\nWe run this on Kubernetes.",
    "Plan mode is active. What does that mean?",
    "The user opened the file dialog in the IDE and it crashed.",
    "The following skills are needed for this job: patience.",
    "Contents of the box:\n\nthree apples",
    "Note: x.py was modified by me.",
    "Called the Read tool with the following input: {}",
    "Please explain <system-reminder>Today's date is 2026-11-30.</system-reminder>",
    "<system-reminder>quoted</system-reminder> is what I see in the log, why?",
    "The TodoWrite tool hasn't been used recently. Why?",
    "x-anthropic-billing-header: cc_version=2.1.114.727; cc_entrypoint=sdk-cli; cch=332a3;",
    "cch=332a3;",
    "Caveat: this is untested.",
    "<command>ls</command>",
    "<task>\nfix it\n</task>",
    "Available agent types: none",
    "Token usage: 12/50; 38 remaining",
    "",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_of_a_person_is_never_a_reminder(text: str) -> None:
    """What a person may type, near as it comes to an injection, stays their text."""
    message = Message(role=Role.USER, parts=(Text(text=text),))
    assert CLAUDE.recognise(message) is message


@pytest.mark.parametrize("name", names())
def test_tool_results_and_answers_are_never_reminders(name: str) -> None:
    """Recognising leaves every tool result and everything the model said as it was read."""
    for request in load(name):
        read = WIRE.read(WIRE.open(request.wire))
        for before, after in zip(read.messages, recognised(read, CLAUDE).messages, strict=True):
            if before.role is Role.ASSISTANT:
                assert after is before
            else:
                kept = [part for part in before.parts if not isinstance(part, Text)]
                assert [part for part in after.parts if not isinstance(part, Text | Reminder)] == kept


GENERIC: list[tuple[str, str, list[str]]] = [
    ("date", "Today's date: Mon Nov 30 2026\n", ["Mon Nov 30 2026"]),
    ("date", "Today's date: 2026-11-30\n", ["2026-11-30"]),
    ("date", "Today’s date is Monday, November 30, 2026.", ["Monday, November 30, 2026"]),
    ("date", "The current date is 11/30/2026.", ["11/30/2026"]),
    ("date", "Current date: 2026-11-30", ["2026-11-30"]),
    ("date", "Released on 2026-11-30, the date: 2026-11-30", []),
    ("date", "Never ask for today's date.", []),
    ("date", "Current date: 2026-11-30T12:30:05Z", []),
    ("clock", "Current date: 2026-11-30T12:30:05Z", ["2026-11-30T12:30:05Z"]),
    ("clock", "Current date and time: 2026-11-30 12:30:05 UTC\n", ["2026-11-30 12:30:05 UTC"]),
    ("clock", "Current date/time: Mon, Nov 30, 2026, 12:30 PM", ["Mon, Nov 30, 2026, 12:30 PM"]),
    ("date", "Current date/time: Mon, Nov 30, 2026, 12:30 PM", []),
    ("clock", "Current time is 12:30:05.", ["12:30:05"]),
    ("clock", "The current time is 12:30 PM, hurry.", ["12:30 PM"]),
    ("clock", "current timestamp: 1796042405", ["1796042405"]),
    ("clock", "Current date: 2026-11-30", []),
    ("clock", "The meeting is at 12:30.", []),
    (
        "session-id",
        "Session ID: 0f8b5a3e-3b8e-4d7f-9d1a-4c1b5b9f0a11\n",
        ["0f8b5a3e-3b8e-4d7f-9d1a-4c1b5b9f0a11"],
    ),
    (
        "session-id",
        'session_id="0f8b5a3e-3b8e-4d7f-9d1a-4c1b5b9f0a11"',
        ["0f8b5a3e-3b8e-4d7f-9d1a-4c1b5b9f0a11"],
    ),
    ("session-id", "document 0f8b5a3e-3b8e-4d7f-9d1a-4c1b5b9f0a11", []),
    ("request-id", "Request id: req_011CQ4f2aa\n", ["req_011CQ4f2aa"]),
    ("request-id", "request_id: identifier of the request", []),
    (
        "git-status",
        "## Git status\n M src/a.py\n?? new.txt\n\nBe careful.",
        [" M src/a.py\n?? new.txt"],
    ),
    (
        "git-status",
        "Git status:\nOn branch main\nnothing to commit\n\nNext",
        ["On branch main\nnothing to commit"],
    ),
    ("git-status", "Git status:\nAlways look at it before a commit.\n", []),
]


@pytest.mark.parametrize(("name", "text", "values"), GENERIC)
def test_labelled_fields_of_any_agent(name: str, text: str, values: list[str]) -> None:
    """A label makes a field: the same value without one is text."""
    assert [match["value"] for match in field(name, AGENTS.generic).pattern.finditer(text)] == values


def test_generic_fields_are_not_looked_for_in_messages() -> None:
    """The agent nobody knows has fields of system and tools only, and recognises no reminder."""
    assert {place for known in AGENTS.generic.fields for place in known.rule.where} == {"system", "tools"}
    assert AGENTS.generic.reminders == ()


RECOGNISERS = {rule.name: pattern for rule, pattern in CLAUDE.reminders}
FIELDS = {
    f"{agent.name}/{known.rule.name}": known.pattern
    for agent in (CLAUDE, AGENTS.generic)
    for known in agent.fields
}
FIELDS |= {f"workplace {at}": pattern for at, pattern in enumerate(AGENTS.generic.workplaces)}
FIELDS |= {f"failure {at}": pattern for at, pattern in enumerate(AGENTS.generic.failures)}


HOSTILE = [  # 200 kB each
    "<system-reminder>\n" * 12_000,
    "</system-reminder> " * 12_000,
    "<system-reminder>\n" + "</system-reminder>\n" * 10_000 + "x",
    "x-anthropic-billing-header: " + "cch=" * 50_000,
    "\ngitStatus: This is the git status at the start of the conversation. x\nCurrent branch: m\n"
    + "\n\nRecent commits" * 12_000,
    "\ngitStatus: This is the git status at the start of the conversation. x\nCurrent branch: m\n" * 2_200,
    "\n# gitStatus\nThis is the git status at the start of the conversation. x\n\nCurrent branch: m\n"
    * 2_200,
    "\n\nRecent commits:" + "\n0123456 x" * 20_000,
    "git status:\n" * 16_000,
    "Git status:\n" + " M a\n" * 40_000,
    "git status" + "*" * 200_000,
    ("git status" + "*" * 500 + " " * 500 + "x\n") * 200,
    "current date and time is " * 8_000,
    "today is " * 22_000,
    "request id: " + "a-" * 100_000,
    "session id: " + "0123abcd-" * 20_000,
    "working directory: /" * 10_000,
    "<cwd>/" * 33_000,
    "<cwd>/" + "a " * 100_000,
    "error a" * 28_000,
    "command failed with exit code " * 7_000,
    "\n" * 200_000,
    " " * 200_000,
    "- " * 100_000,
    "a" * 200_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=[repr(text[:20]) for text in HOSTILE])
def test_patterns_take_linear_time(text: str) -> None:
    """No text of 200 kB keeps a pattern busy: the longest of these takes milliseconds, a bad pattern minutes."""
    for name, pattern in RECOGNISERS.items():
        began = time.perf_counter()
        pattern.match(text)
        assert time.perf_counter() - began < 5, name
    for name, pattern in FIELDS.items():
        began = time.perf_counter()
        for _ in pattern.finditer(text):
            pass
        assert time.perf_counter() - began < 5, name


@pytest.mark.parametrize("name", names())
def test_recordings_hold_no_secret_and_no_place(name: str) -> None:
    """Recordings carry a dummy key, an invented home, and bodies spelt as the client spells them."""
    allowed = {
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "content-type",
        "user-agent",
        "x-api-key",
        "x-app",
        "x-claude-code-session-id",
        "x-stainless-helper-method",
    }
    for request in load(name):
        assert set(request.headers) <= allowed
        assert request.headers["x-api-key"] == "sk-test-dummy"
        assert re.findall(r"/(?:root|tmp/tmp)\b", request.body) == []
        body: dict[str, Any] = json.loads(request.body)
        assert json.dumps(body, ensure_ascii=False, separators=(",", ":")) == request.body
