"""`stet doctor` as people run it: what it finds, and when that is a fault."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.launch.recipe import recipes
from proxy.cli import main
from proxy.launch.checks import Finding
from proxy.launch.doctor import Report

ROOT = Path(__file__).resolve().parents[2]


class Doctor:
    """A machine with a few programs on its PATH."""

    def __init__(self, root: Path) -> None:
        self.home, self.cwd, self.bin = root / "home", root / "cwd", root / "bin"
        for folder in (self.home, self.cwd, self.bin):
            folder.mkdir()
        self.env = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "STET_LISTEN": "127.0.0.1:9",
        }

    def install(self, program: str, says: str) -> None:
        file = self.bin / program
        file.write_text(f"#!/bin/sh\necho '{says}'\n")
        file.chmod(0o755)

    def __call__(self, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "proxy", "doctor", *arguments],
            cwd=self.cwd,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    return Doctor(tmp_path)


def lines(done: "subprocess.CompletedProcess[str]") -> list[str]:
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_a_sound_machine(doctor: Doctor) -> None:
    """Policy, address, state, vocabulary, and one line for each agent; nothing is written."""
    doctor.install("claude", "2.1.332 (Claude Code)")
    done = doctor()
    assert done.returncode == 0, done.stdout
    said = lines(done)
    assert said[1].startswith("ok policy default is sound")
    assert said[2].startswith("ok no proxy runs at http://127.0.0.1:9;")
    assert said[3] == f"ok state {doctor.home}/.local/state/stet can be written, empty so far"
    assert said[4].startswith("ok the vocabulary loads, in ")
    assert f"ok Claude Code 2.1.332 ({doctor.bin}/claude)" in said
    assert "Codex: codex is not found on PATH" in said
    assert list(doctor.home.iterdir()) == []


def test_an_agent(doctor: Doctor) -> None:
    """What it would get, where its requests would go, and every note with its source."""
    doctor.install("claude", "2.1.332 (Claude Code)")
    done = doctor("claude", ANTHROPIC_BASE_URL="https://gw.example/x")
    assert done.returncode == 0, done.stdout
    said = lines(done)
    assert f"Claude Code 2.1.332 ({doctor.bin}/claude)" in said
    assert "note ANTHROPIC_BASE_URL is the upstream 'anthropic' of this run: https://gw.example/x" in said
    assert "ok gets ANTHROPIC_BASE_URL=http://127.0.0.1:PORT/anthropic" in said
    assert any(
        line.startswith("warn anthropic goes on to https://gw.example/x: an unknown service") for line in said
    )
    whole = " ".join(done.stdout.split())
    [recipe] = [one for one in recipes() if one.agent == "claude-code"]
    for note in recipe.notes:
        assert f"- {' '.join(note.text.split())} [{note.checked}]" in whole


@pytest.mark.parametrize(
    "name", [name for recipe in recipes() for name in dict.fromkeys((recipe.agent, *recipe.programs))]
)
def test_every_agent_can_be_asked_for(
    doctor: Doctor, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its name and by its program, though it may not be here."""
    for variable, value in {**doctor.env, "PATH": str(doctor.bin)}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(doctor.cwd)
    assert main(["doctor", name]) == 1
    assert "is not found on PATH" in capsys.readouterr().out


def test_a_program_that_no_recipe_knows(doctor: Doctor) -> None:
    """It gets the usual variables."""
    doctor.install("my-agent", "my agent, version 7.8")
    done = doctor("my-agent")
    assert done.returncode == 0
    assert f"my-agent 7.8 ({doctor.bin}/my-agent)" in lines(done)
    assert "ok gets OPENAI_API_BASE=http://127.0.0.1:PORT/v1" in lines(done)


def test_keys_are_not_shown(doctor: Doctor) -> None:
    """Though Continue would get one in its environment."""
    doctor.install("cn", "1.5.47")
    (doctor.home / ".continue").mkdir()
    (doctor.home / ".continue" / "config.yaml").write_text(
        "name: x\nversion: 1\nschema: v1\nmodels: [{name: m, provider: anthropic, model: x, apiKey: sk-secret}]\n"
    )
    done = doctor("cn", ANTHROPIC_API_KEY="sk-other")
    assert done.returncode == 0, done.stdout
    assert "sk-" not in done.stdout + done.stderr
    assert "ok gets CONTINUE_KEY_1=(a key of its configuration)" in lines(done)


@pytest.fixture
def stranger() -> Iterator[str]:
    """A port that something else holds, and answers nothing on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_port_that_something_else_holds_is_a_fault(doctor: Doctor, stranger: str) -> None:
    """`stet serve` could not have it."""
    done = doctor(STET_LISTEN=stranger)
    assert done.returncode == 1
    assert (
        f"FAIL http://{stranger} is taken by another program; set --listen (STET_LISTEN) to another port"
        in lines(done)
    )


def test_a_state_directory_that_cannot_be_made_is_a_fault(doctor: Doctor) -> None:
    """A file stands in its way."""
    (doctor.home / "file").write_text("x")
    done = doctor("--state", str(doctor.home / "file" / "state"))
    assert done.returncode == 1
    assert any(line.startswith("FAIL state: ") for line in lines(done))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_state_directory_that_is_not_ours_is_a_fault(doctor: Doctor) -> None:
    """Nobody but its owner may write there."""
    doctor.home.chmod(0o500)
    assert doctor().returncode == 1
    doctor.home.chmod(0o700)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"STET_POLICY": "carefull"}, "did you mean 'careful'"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, "CLAUDE_CODE_USE_BEDROCK is set"),
        (
            {"ANTHROPIC_BASE_URL": "gw.example"},
            "FAIL ANTHROPIC_BASE_URL: upstream 'anthropic' has no usable URL",
        ),
    ],
)
def test_what_would_keep_requests_away_is_a_fault(doctor: Doctor, env: dict[str, str], said: str) -> None:
    """The exit code says so to scripts."""
    doctor.install("claude", "2.1.332")
    done = doctor("claude", **env)
    assert done.returncode == 1
    assert said in " ".join(done.stdout.split())


@pytest.mark.parametrize("width", [60, 80])
def test_the_report_fits_the_terminal(width: int) -> None:
    """Folded behind its marks."""
    report = Report(width)
    report.head("head")
    report.findings([Finding("FAIL", "a word " * 30), Finding("ok", "short")])
    report.notes([("a word " * 30, "tried")])
    made = report.text().splitlines()
    assert max(map(len, made)) <= width
    assert made[2].startswith(" " * 8) and made[2][8] != " "
    assert report.faults == 1
