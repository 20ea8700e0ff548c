"""What `stet doctor` looks at: the proxy, its state, the vocabulary, and one agent. Each check is one finding."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from ..errors import StetError
from ..gateway.banner import base_url
from ..gateway.settings import Settings
from ..models import UNKNOWN, Models
from ..policy import load_policy
from ..tokens import exact
from .own import answers
from .places import Places
from .pointing import pointed
from .recipe import Recipe
from .session import asker, found
from .survey import Survey, Surveyor

Mark: TypeAlias = Literal["ok", "warn", "FAIL", "note", ""]

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?[\w.+-]*")


class Finding(Struct, frozen=True):
    """One line of the report. `FAIL` is a fault; `note` and an empty mark only say how things are."""

    mark: Mark
    text: str


def proxy_findings(settings: Settings) -> Iterator[Finding]:
    """The policy, the configured address, the state directory, the vocabulary."""
    yield _policy(settings)
    yield _address(settings)
    yield _state(settings)
    yield _vocabulary()


def _policy(settings: Settings) -> Finding:
    try:
        file = load_policy(settings.policy).file
    except StetError as fault:
        return Finding("FAIL", str(fault))
    return Finding("ok", f"policy {settings.policy} is sound{f': {file.about}' if file.about else ''}")


def _address(settings: Settings) -> Finding:
    base = base_url(settings.listen)
    match answers(settings.listen):
        case True:
            return Finding(
                "ok", f"a proxy answers at {base}; `stet run` uses it, with its policy and upstreams"
            )
        case None:
            return Finding(
                "ok", f"no proxy runs at {base}; `stet run` starts one for each agent, on a free port"
            )
        case _:
            return Finding(
                "FAIL", f"{base} is taken by another program; set --listen (STET_LISTEN) to another port"
            )


def _state(settings: Settings) -> Finding:
    if settings.state == "memory":
        return Finding("ok", "what was sent is kept in memory only")
    folder = Path(settings.state)
    near = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    try:
        if not near.is_dir():
            raise NotADirectoryError(0, "it is no directory")
        with tempfile.TemporaryFile(dir=near):
            pass
    except OSError as fault:
        why = f"{near} cannot be written ({fault.strerror or fault})"
        return Finding("FAIL", f"state: {why}; choose --state DIR (STET_STATE)")
    size = sum(file.stat().st_size for file in folder.glob("ledger.sqlite3*")) if folder.is_dir() else 0
    told = f"ledger {size / 1_000_000:.1f} MB" if size else "empty so far"
    return Finding("ok", f"state {folder} can be written, {told}")


def _vocabulary() -> Finding:
    began = time.perf_counter()
    try:
        exact(b"one two three")
    except (ImportError, OSError, ValueError) as fault:
        return Finding(
            "warn", f"the vocabulary does not load ({type(fault).__name__}): tokens are estimated by bytes"
        )
    return Finding("ok", f"the vocabulary loads, in {time.perf_counter() - began:.2f} s")


class Examined(Struct, frozen=True, kw_only=True):
    """An agent: where it is, which version, what stands in its way, and what it would get."""

    recipe: Recipe
    path: str
    version: str
    findings: tuple[Finding, ...]


def examined(
    recipe: Recipe, program: str, settings: Settings, models: Models, given: Sequence[str]
) -> Examined:
    """Look at one agent as `stet run` would start it. Raises StetError where a setting of the user's is unusable."""
    path = found(program)
    if isinstance(path, int):
        missing = Finding("FAIL", f"{program} is not found on PATH")
        return Examined(recipe=recipe, path="", version="", findings=(missing,))
    places = Places(os.environ, Path.cwd(), [])
    survey = Surveyor(settings, places, frozenset(given), asker(path)).survey(recipe, [program])
    findings = [*_reached(survey, settings, places, program), *_served(survey, settings, models)]
    return Examined(recipe=recipe, path=path, version=version(recipe, path), findings=tuple(findings))


def version(recipe: Recipe, path: str) -> str:
    """The version that a program tells, empty where it tells none."""
    said = _VERSION.search(asker(path)(recipe.version)) if recipe.version else None
    return said[0] if said is not None else ""


def _reached(survey: Survey, settings: Settings, places: Places, program: str) -> Iterator[Finding]:
    for line in survey.lines:
        yield Finding("note", line)
    if survey.unpointed:
        yield Finding("FAIL", survey.unpointed)
        return
    known = {**settings.upstreams, **survey.upstreams}
    with tempfile.TemporaryDirectory(prefix="stet-doctor-") as folder:
        made = pointed(survey, [program], "http://127.0.0.1:PORT", known, places, Path(folder))
        words = [_shown(word, folder) for word in made.command[1:]]
        for name, value in made.variables.items():
            yield Finding("ok", f"gets {name}={_hidden(survey, name, _shown(value, folder))}")
        if words:
            yield Finding("ok", f"gets arguments: {' '.join(words)}")


def _shown(text: str, folder: str) -> str:
    return text.replace(folder, "TEMPORARY")


def _hidden(survey: Survey, name: str, value: str) -> str:
    """A key that is handed over is not shown."""
    secrets = survey.recipe.overlay.secrets if survey.recipe.overlay is not None else None
    return (
        "(a key of its configuration)" if secrets is not None and name.startswith(secrets.variable) else value
    )


def _served(survey: Survey, settings: Settings, models: Models) -> Iterator[Finding]:
    known = {**settings.upstreams, **survey.upstreams}
    for name in survey.used:
        upstream = known[name]
        profile = models.profile_for(upstream.url, upstream.profile)
        if profile == UNKNOWN:
            yield Finding(
                "warn", f"{name} goes on to {upstream.url}: an unknown service, nothing is taken for granted"
            )
        else:
            yield Finding("ok", f"{name} goes on to {upstream.url} (facts: {profile})")
