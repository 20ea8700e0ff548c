"""A replay charges a recorded session as the provider charged it live, under whatever policy."""

import gzip
import json
from pathlib import Path

import pytest
from msgspec import structs

from proxy.cli import main
from proxy.demo.plan import TURNS
from proxy.demo.sessions import SESSIONS
from proxy.errors import SettingsError
from proxy.models import Models
from proxy.playback import Session, replay
from proxy.playback.figures import Line
from proxy.recording import Recorded, RecordingError, line
from tests.agents.recordings import FOLDER

from .live import played

NAMED = {one.name: one for one in SESSIONS}


def written(folder: Path, name: str, recorded: list[Recorded]) -> Path:
    file = folder / f"{name}.jsonl"
    file.write_bytes(b"".join(map(line, recorded)))
    return file


def only(file: Path, *policies: str) -> Session:
    (session,) = replay([file], policies or ("default",), Models.load()).sessions
    return session


def row(session: Session, path: str) -> Line:
    return next(line for line in session.lines if line.path == path)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_replay_costs_what_the_session_did(tmp_path: Path, name: str) -> None:
    """Directly and through the rewrite: to the token what the provider charged live, times of the recording and all.

    What the agent sends does not depend on the path here but for the session that is refused directly: there the
    recording holds other requests.
    """
    direct = played(NAMED[name], TURNS)
    session = only(written(tmp_path, "s", direct.recorded))
    assert row(session, "direct").cost == round(direct.cost, 1)
    assert row(session, "direct").refused == sum(one.status != 200 for one in direct.recorded)
    if all(one.status == 200 for one in direct.recorded):
        assert row(session, "default").cost == round(played(NAMED[name], TURNS, "default").cost, 1)
        assert session.notes == []


def test_the_best_schedule_is_the_last_row(tmp_path: Path) -> None:
    """It is charged by the provider like all others, and no policy with these windows is cheaper."""
    recorded = played(next(iter(NAMED.values())), TURNS).recorded
    session = only(written(tmp_path, "s", recorded), "careful", "default")
    assert [one.path for one in session.lines] == ["direct", "careful", "default", "hindsight"]
    best = row(session, "hindsight")
    assert (best.requests, best.refused, best.batches) == (TURNS, 0, 1)
    assert best.left_out is not None
    assert best.left_out > 100_000
    assert best.cost <= row(session, "default").cost < row(session, "careful").cost


def test_a_summary_that_a_model_would_write_is_made_without_it(tmp_path: Path) -> None:
    """Nothing leaves the machine: the replay charges for the history's own words, and says so."""
    recorded = played(next(iter(NAMED.values())), TURNS).recorded
    file = written(tmp_path, "s", recorded)
    (tmp_path / "models.yaml").write_text("models:\n- {match: ['*'], window: 40000}\n")
    models = Models.load(tmp_path / "models.yaml")
    for mode in ("extractive", "model"):
        (tmp_path / f"{mode}.yaml").write_text(f"extends: careful\ncompact: {{mode: {mode}}}\n")
    names = [str(tmp_path / f"{mode}.yaml") for mode in ("extractive", "model")]
    (session,) = replay([file], names, models).sessions
    extractive, model = (row(session, name) for name in names)
    assert structs.replace(model, path="") == structs.replace(extractive, path="")
    assert model.cost != row(session, "direct").cost
    (note,) = [note for note in session.notes if "replay asks no model" in note]
    assert note.startswith(f"{names[1]}: ")


def test_what_failed_live_is_charged_on_no_path(tmp_path: Path) -> None:
    """An overloaded provider has read nothing: neither the direct path nor a policy pays for it."""
    recorded = played(next(iter(NAMED.values())), 6).recorded
    busy = structs.replace(recorded[3], status=529, usage=None, calls=())
    session = only(written(tmp_path, "s", [*recorded[:3], busy, *recorded[3:]]))
    whole = only(written(tmp_path, "w", recorded))
    assert session.lines == whole.lines


def test_what_the_real_provider_took_is_never_refused(tmp_path: Path) -> None:
    """A request beyond the embedded provider is counted nowhere, and said; reasoning of others is no reason."""
    recorded = played(next(iter(NAMED.values())), 5).recorded
    body = json.loads(recorded[1].body)
    strange = structs.replace(recorded[1], body=json.dumps(body | {"temperature": "warm"}))
    session = only(written(tmp_path, "s", [recorded[0], strange, *recorded[2:]]))
    assert [(one.path, one.requests, one.refused) for one in session.lines] == [
        ("direct", 4, 0),
        ("default", 4, 0),
        ("hindsight", 4, 0),
    ]
    assert session.notes[0].startswith("not counted: 1, in which the real provider and the embedded one")
    signed = structs.replace(
        recorded[3], body=recorded[3].body.replace('"signature": "', '"signature": "RXFRQkNr')
    )
    assert signed.body != recorded[3].body
    (session,) = replay([written(tmp_path, "t", [signed])], ("default",), Models.load()).sessions
    assert row(session, "direct").refused == 0


@pytest.mark.parametrize(
    "name",
    ["qwen-code-0.24.4", "opencode-1.18.33-responses", "gemini-cli-0.61.0", "claude-code-2.1.332-opus"],
)
def test_recordings_of_real_agents_in_every_format(name: str) -> None:
    """They have no times, which is said; nothing is refused through the rewrite, and nothing fails."""
    session = only(FOLDER / f"{name}.jsonl.gz")
    through = row(session, "default")
    assert (through.refused, through.faults) == (0, 0)
    assert through.requests >= 3
    assert "no times were recorded: 12 seconds are taken from request to request" in session.notes


def test_a_long_pause_is_one(tmp_path: Path) -> None:
    """The times are those of the recording: an hour's pause costs the cache."""
    recorded = played(next(iter(NAMED.values())), 4).recorded
    later = [structs.replace(one, at=(one.at or 0) + 3600 * at) for at, one in enumerate(recorded)]
    near = row(only(written(tmp_path, "near", recorded)), "direct")
    far = row(only(written(tmp_path, "far", later)), "direct")
    assert near.cached is not None
    assert near.cached > 0.5
    assert far.cached == 0.0
    assert far.breaks == 0


def test_several_files_are_several_sessions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its rows, then all together; gzipped ones too."""
    recorded = played(next(iter(NAMED.values())), 5).recorded
    one = written(tmp_path, "one", recorded)
    two = tmp_path / "two.jsonl.gz"
    two.write_bytes(gzip.compress(one.read_bytes()))
    assert main(["replay", str(one), str(two), "--policy", "careful", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    first, second = found["sessions"]
    assert (first["name"], second["name"]) == ("one", "two")
    assert first["lines"] == second["lines"]
    assert [line["cost"] for line in found["total"]] == [
        pytest.approx(2 * line["cost"]) for line in first["lines"]
    ]
    assert main(["replay", str(one), str(two), "--turns"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown if line[:1] not in (" ", "-", "")][:4] == [
        *("session", "one", "two", "all")
    ]
    assert sum(line.startswith(("1  ", "2  ", "5  ")) for line in shown) == 6


def test_a_bad_recording_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """File, line and cure; so is one without a conversation, and a policy that is none."""
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"nonsense\n")
    assert main(["replay", str(file)]) == 1
    assert capsys.readouterr().err.startswith(f"stet: {file}:1: is no JSON (JSON is malformed")
    file.write_bytes(line(Recorded(path="/v1/models", headers={}, body="{}")))
    with pytest.raises(RecordingError, match="holds no request with a conversation; record"):
        only(file)
    with pytest.raises(SettingsError, match="'direct' is a row of its own"):
        only(file, "direct")
    assert main(["replay", str(file), "--policy", "nosuch"]) == 1
