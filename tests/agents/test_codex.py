"""The recogniser of Codex, on requests in its shape."""

from __future__ import annotations

import orjson
import pytest

from proxy.agents import Agents
from .recognising import recognised
from proxy.conversation import Reminder, Role, Text
from proxy.dialects.openai_responses import OpenAIResponses
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.policy import load_policy
from proxy.rewrite import Rewrite, rewrite
from proxy.simulator.responses.codex import Codex, Shape
from proxy.stages import Facts

AGENTS = Agents.load()
WIRE = OpenAIResponses()
SHAPE = Shape(seed=1)


def opening(shape: Shape = SHAPE) -> Codex:
    client = Codex(shape, lambda call: "ok")
    client.ask("Fix a.txt")
    return client


@pytest.mark.parametrize(
    "headers",
    [
        {"user-agent": "codex_cli_rs/0.171.0 (Debian 13; x86_64) xterm"},
        {"user-agent": "codex_exec/0.171.0"},
        {"user-agent": "codex-tui/0.171.0"},
        {"originator": "codex_vscode", "user-agent": "something/1"},
    ],
)
def test_it_is_known_by_its_headers(headers: dict[str, str]) -> None:
    """By its user agent, or by who it says started it."""
    assert AGENTS.of(headers).name == "codex"


def test_its_session_and_its_thread_have_headers_of_their_own() -> None:
    """A sub-agent has the session of its parent, and a thread of its own."""
    agent = AGENTS.of(opening().headers)
    assert (agent.name, agent.session, agent.subagent) == ("codex", ("session-id",), ("thread-id",))


@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-6.1-sol"])
def test_what_it_injects_is_told_from_what_a_person_wrote(model: str) -> None:
    """The environment is a reminder, the instructions are system prompt, and the prompt is a person's."""
    client = opening(Shape(seed=1, model=model))
    body = orjson.dumps(client.body())
    read = recognised(WIRE.read(WIRE.open(body)), AGENTS.of(client.headers))
    told = [part for message in read.messages for part in message.parts]
    assert [
        (type(part), part.text.splitlines()[0]) for part in told if isinstance(part, Text | Reminder)
    ] == [
        (Reminder, "<environment_context>"),
        (Text, "Fix a.txt"),
    ]
    assert len(read.system) == (3 if model == "gpt-6.1-sol" else 2)


@pytest.mark.parametrize(
    ("role", "text", "source"),
    [
        ("user", "# AGENTS.md instructions for /home/dev\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>", "project_files"),
        ("user", "<user_shell_command>\nls\n</user_shell_command>", "expanded_input"),
        ("user", "<turn_aborted>\nInterrupted.\n</turn_aborted>", "reminder"),
        ("developer", "<collaboration_mode># Plan</collaboration_mode>", "reminder"),
        ("user", "What is <environment_context>?", ""),
        ("assistant", "<environment_context>\n", ""),
    ],
)  # fmt: skip
def test_texts_of_the_harness(role: str, text: str, source: str) -> None:
    """By their first words, in messages of the user and the developer alone."""
    kind = "output_text" if role == "assistant" else "input_text"
    items = [
        {"type": "message", "role": "user", "content": "Hello."},
        {"type": "message", "role": role, "content": [{"type": kind, "text": text}]},
    ]
    body = orjson.dumps({"model": "gpt-5.5", "input": items})
    read = recognised(WIRE.read(WIRE.open(body)), AGENTS.of({"user-agent": "codex_exec/1"}))
    (part,) = read.messages[1].parts
    assert (part.source.value if isinstance(part, Reminder) else "") == source


def test_a_session_taken_up_another_day_keeps_its_prefix() -> None:
    """Date and zone stay as first sent, and what they are now is told at the tail; chunk ids are left as they are."""
    client = opening()
    agent = AGENTS.of(client.headers)
    policy, ledger = load_policy("careful"), Ledger()

    def sent(body: bytes, now: float) -> Rewrite:
        facts = Facts(
            now=now,
            tenant=b"tenant",
            model=Models.load().facts("openai", "gpt-5.5", "openai_responses"),
            upstream="openai",
            session=client.session,
            agent=agent,
            strict=True,
        )
        made = rewrite(body, WIRE, policy.choose("openai", "codex", "gpt-5.5"), ledger, facts)
        assert made.commit is not None
        ledger.settle(ledger.commit(made.commit), None, (), success=True)
        return made

    body = orjson.dumps(client.body())
    assert sent(body, 0.0).body is body
    client.take(
        [
            {
                "type": "function_call",
                "id": "fc_1",
                "status": "completed",
                "call_id": "call_1",
                "name": "exec_command",
                "arguments": '{"cmd":"ls"}',
            }
        ]
    )
    client.ask("And b.txt")
    body = orjson.dumps(client.body())
    later = body.replace(b"2026-11-30", b"2026-12-01").replace(b"Etc/UTC", b"Europe/Berlin")
    made = sent(later, 90_000.0)
    read = WIRE.read(WIRE.open(made.body)).messages
    assert read[:4] == WIRE.read(WIRE.open(body)).messages[:4]
    told = "".join(part.text for message in read[4:] for part in message.parts if isinstance(part, Text))
    assert "2026-12-01" in told
    assert "Europe/Berlin" in told
    assert read[-1].role is Role.USER
    assert {edit.stage for edit in made.edits} == {"relocate"}
