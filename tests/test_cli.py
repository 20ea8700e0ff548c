"""The command line, run as people run it: another process, files, standard input and output."""

import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from proxy.cli import main
from proxy.policy import load_policy
from proxy.stages import ORDER, stale

ROOT = Path(__file__).resolve().parents[1]

BODY = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 100,
    "system": "You look after a greenhouse. Today's date: 2026-11-30",
    "messages": [
        {"role": "user", "content": "Check the pump."},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "pump"}}],
        },
        {"role": "user", "content": "Stop."},
    ],
}


def stet(*arguments: str, body: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "proxy", *arguments], input=body, capture_output=True, timeout=60, check=False
    )


def test_rewrite_reads_standard_input_and_writes_standard_output(tmp_path: Path) -> None:
    """`stet rewrite` gives the body that would be sent, and the edits on standard error."""
    done = stet("rewrite", "--policy", "careful", "--explain", body=json.dumps(BODY).encode())
    assert done.returncode == 0, done.stderr
    sent = json.loads(done.stdout)
    assert sent["messages"][2]["content"][0]["type"] == "tool_result"
    explained = json.loads(done.stderr)
    assert "balance" in {edit["stage"] for edit in explained["edits"]}


def huge(output: str) -> bytes:
    """A request with the output of a command in it."""
    result = {"type": "tool_result", "tool_use_id": "t1", "content": output}
    return json.dumps(
        {**BODY, "messages": [*BODY["messages"][:2], {"role": "user", "content": [result]}]}
    ).encode()


def test_rewrite_keeps_huge_outputs_where_it_keeps_its_state(tmp_path: Path) -> None:
    """With a state directory, in its spool; without one, or where that cannot be had, they stay in the body."""
    log = "it works\n" * 9000
    state = tmp_path / "state"
    done = stet("rewrite", "--policy", "frugal", "--state", str(state), body=huge(log))
    shown = json.loads(done.stdout)["messages"][2]["content"][0]["content"]
    (path,) = re.findall(r"- file (\S+) ", shown)
    assert Path(path).parent == state / "spool"
    assert Path(path).read_text() == log

    done = stet("rewrite", "--policy", "frugal", body=huge(log))
    assert json.loads(done.stdout)["messages"][2]["content"][0]["content"] == log
    other = tmp_path / "other"
    other.mkdir()
    (other / "spool").write_text("in the way")
    done = stet("rewrite", "--policy", "frugal", "--state", str(other), body=huge(log))
    assert json.loads(done.stdout)["messages"][2]["content"][0]["content"] == log
    assert b"huge outputs cannot be put into the spool" in done.stderr
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "spool.key").symlink_to(other / "spool")
    done = stet("rewrite", "--policy", "frugal", "--state", str(tmp_path / "linked"), body=huge(log))
    assert json.loads(done.stdout)["messages"][2]["content"][0]["content"] == log
    assert b"spool.key: cannot be had" in done.stderr


def test_explain_says_what_would_be_moved_out(tmp_path: Path) -> None:
    """Though nothing is kept of what is only explained."""
    done = stet("explain", "-", "--policy", "frugal", "--json", body=huge("it works\n" * 9000))
    explained = json.loads(done.stdout)
    (edit,) = [edit for edit in explained["edits"] if edit["stage"] == "externalize"]
    assert edit["reason"] == "huge output: 81000 bytes go to the spool"
    assert explained["bytes_after"] < 8000


def test_rewrite_leaves_a_sound_body_alone() -> None:
    """With nothing to do the bytes are the same, spaces and all."""
    body = (
        b'{"model": "claude-sonnet-4-5",  "max_tokens": 1.0e2, "messages": [{"role":"user","content":"Hi"}]}'
    )
    assert stet("rewrite", "--policy", "careful", body=body).stdout == body


def test_a_body_of_another_format() -> None:
    """Its vendor's profile holds unless another one is named: an unsigned thought of Gemini's is no fault [A304]."""
    model = {"parts": [{"text": "Hm.", "thought": True}, {"functionCall": {"name": "read", "args": {}}}]}
    contents = [{"parts": [{"text": "Check."}]}, {"role": "model", **model}, {"parts": [{"text": "Stop."}]}]
    done = stet(
        "rewrite", "--dialect", "gemini", "--explain", body=json.dumps({"contents": contents}).encode()
    )
    assert done.returncode == 0, done.stderr
    sent = json.loads(done.stdout)["contents"]
    assert sent[1] == contents[1]
    assert sent[2]["parts"][0]["functionResponse"]["name"] == "read"
    assert [edit["place"] for edit in json.loads(done.stderr)["edits"]] == ["contents[2].parts[0]"]


def test_rewrite_keeps_its_promises_between_calls(tmp_path: Path) -> None:
    """With `--state` the next call of the conversation repeats what the first one did: the date stays frozen."""
    first = {**BODY, "messages": BODY["messages"][:1]}
    state = str(tmp_path / "state")
    one = stet("rewrite", "--state", state, body=json.dumps(first).encode())
    answered = [
        *first["messages"],
        {"role": "assistant", "content": "Fine."},
        {"role": "user", "content": "And the fan?"},
    ]
    later = {**first, "system": first["system"].replace("11-30", "12-01"), "messages": answered}
    two = stet("rewrite", "--state", state, body=json.dumps(later).encode())
    assert json.loads(two.stdout)["system"] == json.loads(one.stdout)["system"]
    assert "2026-12-01" in json.dumps(json.loads(two.stdout)["messages"][-1])


def test_explain_is_for_people(tmp_path: Path) -> None:
    """`stet explain` names stage, place and reason, and what the prompt is made of."""
    file = tmp_path / "body.json"
    file.write_text(json.dumps(BODY))
    done = stet("explain", str(file))
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert "balance" in text
    assert "messages[2].content[0]" in text
    assert "what is sent is made of" in text
    as_json = json.loads(stet("explain", "--json", str(file)).stdout)
    assert as_json["changed"] is True
    assert abs(sum(as_json["structure"].values()) - 1) < 0.01


def test_check_says_what_a_policy_does(tmp_path: Path) -> None:
    """A sound policy is shown stage by stage and the exit code is 0."""
    file = tmp_path / "mine.yaml"
    file.write_text("extends: careful\nsteady: off\n")
    done = stet("check", str(file))
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    assert lines[0] == f"{file}: sound (mine, extends careful)"
    assert "  steady       off (was on)" in lines
    assert lines[-1] == "  (--all shows every option)"
    assert "ids true" in stet("check", "--all", str(file)).stdout.decode()


def test_check_warns_of_conditions_that_nothing_known_meets(tmp_path: Path) -> None:
    """A policy that never applies is worse than one that is refused; a server may know more names, so it is none."""
    file = tmp_path / "policy.yaml"
    file.write_text(
        "extends: default\nwhen:\n  - {agent: claude-cod, stale: off}\n  - {upstream: open*, stale: off}\n"
        "  - {upstream: turbine-hall, stale: off}\n"
    )
    done = stet("check", str(file))
    said = [line for line in done.stdout.decode().splitlines() if line.startswith("warning")]
    assert done.returncode == 0
    assert said == [
        f"warning: {file}:3:13: no agent that comes with Stet is called 'claude-cod', did you mean 'claude-code'?",
        f"warning: {file}:5:16: no upstream that comes with Stet is called 'turbine-hall', known: anthropic, openai, gemini",
    ]


def test_check_names_the_place_of_a_mistake(tmp_path: Path) -> None:
    """A mistake is one line with file, line and column, the exit code is 1, and there is no traceback."""
    file = tmp_path / "mine.yaml"
    file.write_text("extends: careful\nstael: off\n")
    done = stet("check", str(file))
    assert done.returncode == 1
    assert done.stderr.decode().startswith(f"stet: {file}:2:1: unknown key 'stael'")
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize("kind", ["policy", "server", "models", "agent", "launch"])
def test_schema_prints_a_json_schema(kind: str) -> None:
    """Each kind of file has a JSON Schema for editors."""
    assert json.loads(stet("schema", kind).stdout)["$schema"].startswith("https://json-schema.org/")


@pytest.mark.parametrize(
    ("arguments", "body", "says"),
    [
        (("explain", "nowhere.json"), b"", "nowhere.json: cannot be read"),
        (("rewrite",), b"{not json", "not a JSON object"),
        (
            ("rewrite", "--upstream", "anthropc"),
            b"{}",
            "stet: --upstream: 'anthropc' is not known, did you mean 'ant",
        ),
        (("explain", "--upstream", "zzz", "-"), b"{}", "'zzz' is not known; there are anthropic, "),
        (
            ("explain", "--agent", "claud-code", "-"),
            b"{}",
            "'claud-code' is not known, did you mean 'claude-code'?",
        ),
        (("explain", "-"), b"{}", "stet: messages is missing"),
        (("explain", "-"), b'{"messages": {}}', "stet: messages is not a list"),
        (("check", "carefull"), b"", "no such policy, did you mean 'careful'? or give"),
        (("serve", "--listen", "nonsense"), b"", "--listen: 'nonsense' is no address"),
        (("serve", "--policy", "nowhere.yaml"), b"", "cannot be read"),
    ],
)
def test_a_bad_input_is_one_clear_line(arguments: tuple[str, ...], body: bytes, says: str) -> None:
    """No traceback for what a user got wrong."""
    done = stet(*arguments, body=body)
    assert done.returncode == 1
    assert says in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_every_line_of_a_fault_says_whose_it_is(tmp_path: Path) -> None:
    """One mistake or several: each line begins with our name, then the place."""
    file = tmp_path / "mine.yaml"
    file.write_text("extends: careful\nstael: off\nstaedy: off\n")
    said = stet("check", str(file)).stderr.decode().splitlines()
    assert [line.partition(": unknown")[0] for line in said] == [f"stet: {file}:2:1", f"stet: {file}:3:1"]


def mentions() -> list[tuple[str, str]]:
    """Every `stet COMMAND` with the options behind it that the README and the shipped files speak of."""
    files = [ROOT / "README.md", ROOT / "Dockerfile", *sorted((ROOT / "config").rglob("*.*"))]
    found = []
    for file in files:
        text = file.read_text().replace("\\\n", " ")
        found += re.findall(r"(?<![\w./-])(?:\.venv/bin/)?stet ([a-z]+)\b([^\n`;]*)", text)
    return found


def test_every_command_that_is_written_about_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """No file of ours sends people to a command, or an option of one, that is not there."""
    named = mentions()
    assert {"serve", "run", "doctor", "demo", "check", "explain", "rewrite", "schema"} <= {
        command for command, _ in named
    }
    for command in {command for command, _ in named}:
        with pytest.raises(SystemExit) as left:
            main([command, "--help"])
        assert left.value.code == 0, command
        options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
        written = {
            option for name, rest in named if name == command for option in re.findall(r"--[a-z-]+", rest)
        }
        assert written <= options, command


def test_without_a_command_the_help_is_shown() -> None:
    """`stet` alone says what there is."""
    done = stet()
    assert done.returncode == 2
    assert b"serve" in done.stdout


def test_the_readme_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever reads it need not ask the program what there is."""
    readme = (ROOT / "README.md").read_text()
    for command in ("serve", "run", "doctor", "report", "demo", "replay", "explain", "check", "rewrite"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
        assert {option for option in options if not re.search(rf"{option}\b", readme)} == set(), command


def test_the_readme_names_every_stage_and_its_options() -> None:
    """The table of stages is the policies' reference: a row for each, in the order they run, with all it takes."""
    readme = (ROOT / "README.md").read_text()
    table = readme.partition("| stage | what it does | options |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in table.splitlines()]
    assert [name for name, _, _ in rows] == [f"`{stage.NAME}`" for stage in ORDER]
    for stage, (_, _, options) in zip(ORDER, rows, strict=True):
        written = {re.split(r"\W", option)[0] for option in re.findall(r"`([^`]+)`", options)}
        assert written == {field.encode_name for field in msgspec.structs.fields(vars(stage)["Config"])}, (
            stage.NAME
        )


def test_the_readmes_policy_is_sound(tmp_path: Path) -> None:
    """The example may be copied as it stands, and keeps what the policy it extends protects."""
    readme = (ROOT / "README.md").read_text()
    [example] = [
        block for block in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL) if "extends:" in block
    ]
    (tmp_path / "mine.yaml").write_text(example)
    mine, parent = load_policy(tmp_path / "mine.yaml").file.stale, load_policy("default").file.stale
    assert isinstance(mine, stale.Config)
    assert isinstance(parent, stale.Config)
    assert set(parent.protect) < set(mine.protect)
