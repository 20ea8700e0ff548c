"""`stet replay`: recorded sessions under several policies, by the clock of the recording, and what they would have cost.

    providers   the embedded provider behind each recorded request, told to take what the real one took
    path        a session played on one path: directly, or through the rewrite under a policy
    course      the session as rows of items that only grow; best: the row of the best schedule in hindsight
    figures     what the provider counted; table: how that is shown

Nothing leaves the machine, and no answer is made up that matters: the client's next request is the recorded one,
whatever the embedded provider said.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from ..demo.table import Progress
from ..errors import SettingsError
from ..gateway.console import columns, lively
from ..models import Models
from ..policy import Policies, load_policy
from ..recording import SUFFIX, RecordingError, each
from .best import in_hindsight
from .figures import DIRECT, Line, Step, line_of, refusals, steps_of, total, unasked
from .path import BASE, Stage
from .requests import requests_of
from .table import report

DEFAULT = ("default",)
"""The policies where none is named."""

_UNFOLDED = 120


class Session(Struct, frozen=True):
    """What came of one recording. `steps` are there where each request was asked for."""

    name: str
    lines: list[Line]
    steps: list[Step]
    notes: list[str]


class Replay(Struct, frozen=True):
    """What `--json` prints."""

    sessions: list[Session]
    total: list[Line]


def run_replay(
    files: Sequence[str],
    policies: Sequence[str] = (),
    *,
    models: Path | None = None,
    turns: bool = False,
    as_json: bool = False,
) -> int:
    """Play the recordings and print what came of it; the exit code.

    Raises RecordingError where a file cannot be read, ConfigErrors where a policy is wrong.
    """
    found = replay([Path(file) for file in files], policies or DEFAULT, Models.load(models), turns=turns)
    if as_json:
        shown = msgspec.json.format(msgspec.json.encode(found), indent=2).decode()
    else:
        whole = [(one.name, one.lines) for one in found.sessions]
        if len(whole) > 1:
            whole.append(("all", found.total))
        steps = [(one.name, one.steps) for one in found.sessions]
        notes = [f"{one.name}: {note}" for one in found.sessions for note in one.notes]
        shown = report(whole, steps if turns else [], notes, columns(sys.stdout) or _UNFOLDED)
    sys.stdout.write(f"{shown}\n")
    return 0


def replay(files: Sequence[Path], policies: Sequence[str], models: Models, *, turns: bool = False) -> Replay:
    """Play each recording on every path. Raises RecordingError, ConfigErrors, SettingsError."""
    taken = {BASE, DIRECT} & {*policies}
    if taken:
        raise SettingsError(
            f"'{min(taken)}' is a row of its own", "--policy", "name a shipped policy or a file"
        )
    loaded = {name: load_policy(name) for name in policies}
    sessions = [_session(file, loaded, models, turns=turns) for file in files]
    return Replay(sessions, total([one.lines for one in sessions]))


def _session(file: Path, policies: Mapping[str, Policies], models: Models, *, turns: bool) -> Session:
    requests, notes = requests_of(each(file), models)
    if not requests:
        raise RecordingError(
            "holds no request with a conversation", str(file), "record a session with stet serve --record"
        )
    with TemporaryDirectory() as spool:
        progress = Progress(sys.stderr)
        told = partial(progress.turn, file.name, turns=len(requests)) if lively(sys.stderr) else None
        stage = Stage(requests, models, Path(spool), told)
        played = {DIRECT: stage.direct, **{name: stage.play(policy) for name, policy in policies.items()}}
        progress.done()
    lines = [line_of(name, path, stage.conversations) for name, path in played.items()]
    return Session(
        name=file.name.removesuffix(".gz").removesuffix(SUFFIX),
        lines=[*lines, in_hindsight(stage.base, stage.binding)],
        steps=steps_of(requests, played) if turns else [],
        notes=[
            *notes,
            *stage.notes,
            *(said for name, path in played.items() for said in refusals(name, path)),
            *(said for name, path in played.items() for said in unasked(name, path)),
        ],
    )
