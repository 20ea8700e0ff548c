"""`stet run`: an agent, the proxy it speaks to, and what came of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

from msgspec import Struct, structs

from ..errors import SettingsError
from ..gateway.banner import base_url
from ..gateway.console import columns
from ..gateway.settings import Settings, resolve
from ..models import Models
from .child import NOT_FOUND, NOT_RUNNABLE, Child
from .own import LogFile, Own, answers, turns_page
from .places import Places
from .pointing import Pointed, pointed
from .recipe import OTHER, Recipe, recipe_for, recipes
from .summary import Summary, text
from .survey import Survey, Surveyor
from .tally import Facts, Tally, known, lines_of

_ASK_SECONDS = 10.0


class Order(Struct, frozen=True, kw_only=True):
    """What the command line asks for. `flags` are settings by name, as `resolve` takes them; None is not given."""

    command: Sequence[str]
    named: str | None = None
    port: int | None = None
    quiet: bool = False
    flags: Mapping[str, Any] = {}
    config: Path | None = None
    models: Path | None = None

    @property
    def wants_own(self) -> bool:
        """Whether a proxy that runs already may do otherwise than what is asked for."""
        asked = any(value not in (None, []) for value in self.flags.values())
        return asked or self.port is not None or self.models is not None


def run_agent(order: Order) -> int:
    """Run an agent through the proxy; its exit code. Raises StetError where it cannot be started so."""
    program = found(order.command[0])
    if isinstance(program, int):
        why = "is no program" if program == NOT_RUNNABLE else "is not found on PATH"
        _say(f"stet: {order.command[0]} {why}")
        return program
    models = Models.load(order.models)
    configured = resolve({}, None, order.config, models.profiles)
    own = {**order.flags, "listen": f"127.0.0.1:{order.port or 0}", "admin": "off"}
    settings = resolve(own, None, order.config, models.profiles)
    survey = _surveyed(order, configured, settings)
    for line in survey.lines if not order.quiet else ():
        _say(f"stet: {line}")
    if survey.unpointed:
        _say(f"stet: {survey.unpointed}")
    if not order.wants_own and not survey.needs_own and answers(configured.listen):
        return _beside(order, survey, configured, models)
    return _with_own(order, survey, settings, models)


def found(program: str) -> str | int:
    """Where a program is, else the exit code that says why it cannot be run."""
    path = shutil.which(program)
    if path is not None:
        return path
    there = Path(program)
    return NOT_RUNNABLE if os.sep in program and there.exists() else NOT_FOUND


def recipe_of(program: str, named: str | None = None) -> Recipe:
    """The recipe for a program. Raises SettingsError where the name is of no agent."""
    all_known = recipes()
    recipe = recipe_for(program, all_known, named)
    if recipe is None and named is not None:
        names = ", ".join(one.agent for one in all_known)
        raise SettingsError(f"no agent is named {named!r}", "--as", f"write one of {names}")
    return recipe or next(one for one in all_known if one.agent == OTHER)


def asker(program: str) -> Any:
    """Runs an agent with arguments, and returns all that it says; nothing where it does not answer in time."""

    def ask(arguments: Sequence[str]) -> str:
        try:
            done = subprocess.run(  # noqa: S603  the program is what the user asked to run
                [program, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_ASK_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return f"{done.stdout}\n{done.stderr}"

    return ask


def _surveyed(order: Order, configured: Settings, settings: Settings) -> Survey:
    recipe = recipe_of(order.command[0], order.named)
    given = frozenset(str(pair).partition("=")[0].strip() for pair in order.flags.get("upstreams") or ())
    places = Places(os.environ, Path.cwd(), [])
    looking = structs.replace(settings, listen=configured.listen)
    return Surveyor(looking, places, given, asker(order.command[0])).survey(recipe, order.command)


# -- with a proxy of its own --------------------------------------------------------------------------------


def _with_own(order: Order, survey: Survey, settings: Settings, models: Models) -> int:
    settings = structs.replace(
        settings,
        upstreams={**settings.upstreams, **survey.upstreams},
        project=str(Path.cwd()) if settings.project == "off" else settings.project,
    )
    facts, tally = known(_profiles(settings, models), models.facts), Tally()
    folder = Path(tempfile.gettempdir()) if settings.state == "memory" else Path(settings.state) / "runs"
    prefix = "stet-run-" if settings.state == "memory" else ""
    log = LogFile(folder, f"{prefix}{survey.recipe.agent}", lambda line: tally.read(line, facts))
    try:
        with Own(settings, models, cast(TextIO, log)) as own:
            began = time.monotonic()
            code = _started(survey, order.command, own.base, settings)
            took = time.monotonic() - began
    finally:
        log.close()
    if not order.quiet:
        _say(
            text(
                Summary(
                    agent=survey.recipe.name if survey.recipe.agent != OTHER else order.command[0],
                    seconds=took,
                    policy=settings.policy,
                    tally=tally,
                    more=own.more,
                    log=_short(log.path),
                    cure=_cure(survey),
                ),
                columns(sys.stderr),
            )
        )
    return code


def _started(survey: Survey, command: Sequence[str], base: str, settings: Settings) -> int:
    """Run the child with what it needs to speak to the proxy at `base`."""
    places = Places(os.environ, Path.cwd(), [])
    with tempfile.TemporaryDirectory(prefix="stet-run-", dir=private_folder(settings)) as folder:
        made: Pointed = pointed(survey, command, base, settings.upstreams, places, Path(folder))
        return Child(made.command, {**os.environ, **made.variables}).run()


def private_folder(settings: Settings) -> Path | None:
    """Where temporary files lie: in memory where the system has a place for that, else beside the state.

    Not among everybody's files: some agents refuse a configuration below a directory that all can write to. None
    where there is no other place.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK | os.X_OK):
        return Path(runtime)
    if settings.state == "memory":
        return None
    folder = Path(settings.state) / "runs"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


# -- beside a proxy that runs ---------------------------------------------------------------------------------


def _beside(order: Order, survey: Survey, settings: Settings, models: Models) -> int:
    base = base_url(settings.listen)
    since, began = time.time(), time.monotonic()
    code = _started(survey, order.command, base, settings)
    if order.quiet:
        return code
    tally = _since(settings, since, known(_profiles(settings, models), models.facts))
    name = survey.recipe.name if survey.recipe.agent != OTHER else order.command[0]
    if tally is None:
        _say(
            f"stet: {name} ran through the proxy at {base}, which has the log (no summary: its admin page is not there)"
        )
        return code
    _say(
        text(
            Summary(
                agent=name,
                seconds=time.monotonic() - began,
                policy=f"of the proxy at {base}",
                tally=tally,
                more=None,
                log=f"of the proxy at {base}",
                shared=True,
                cure=_cure(survey),
            ),
            columns(sys.stderr),
        )
    )
    return code


def _profiles(settings: Settings, models: Models) -> dict[str, str]:
    return {
        name: models.profile_for(upstream.url, upstream.profile)
        for name, upstream in settings.upstreams.items()
    }


def _since(settings: Settings, since: float, facts: Facts) -> Tally | None:
    page = turns_page(settings.admin, settings.admin_token) if settings.admin is not None else None
    if page is None:
        return None
    try:
        lines = lines_of(page)
    except ValueError:
        return None
    tally = Tally()
    for line in lines:
        if line.started_at >= since:
            tally.add(line, facts)
    return tally


def _cure(survey: Survey) -> str:
    program = survey.recipe.programs[0] if survey.recipe.programs else ""
    return f"`stet doctor {program}` may say why" if program else "it may not read these variables"


def _short(path: Path) -> str:
    home = str(Path.home())
    return f"~{str(path)[len(home) :]}" if str(path).startswith(home + os.sep) else str(path)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
