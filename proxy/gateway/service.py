"""`stet serve`: settings, policy, store and rewriter put together, and the policy looked at again when it changes."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any, TextIO

from ..agents import Agents
from ..errors import StetError, StoreError
from ..models import Models
from ..policy import Policies, load_policy
from ..stores.sqlite import SqliteStore
from .app import Gateway, run
from .banner import banner, facts
from .console import columns
from .conversations import Conversations
from .log import make_logger
from .projectfiles import ProjectFiles
from .recorder import Recorder
from .reload import watch
from .settings import Settings, resolve, strangers
from .spool import Bounds, SpoolDirectory

_TIDY_S = 3600.0

_INDENT = " " * 15
"""Where a folded line of the banner goes on: behind the name of an agent."""


def run_service(flags: Mapping[str, Any], config: Path | None = None, models: Path | None = None) -> int:
    """Serve until told to stop. Raises StetError where a setting, the policy or a port is wrong."""
    table = Models.load(models)
    settings = resolve(flags, None, config, table.profiles)
    voice = Voice(settings)
    for fault in strangers(os.environ):
        voice.warn(fault)
    profiles = {
        name: table.profile_for(upstream.url, upstream.profile)
        for name, upstream in settings.upstreams.items()
    }
    recorder = _recorder(settings, profiles, voice.warn)
    rewriter, store = build(settings, table, voice.warn)
    watching: list[asyncio.Task[None]] = []

    def ready(gateway: Gateway) -> None:
        voice.started(gateway, profiles)
        watching.append(asyncio.ensure_future(watch(settings.policy, rewriter, gateway.journal.logger)))
        if rewriter.spool is not None:
            watching.append(asyncio.ensure_future(_tidy(rewriter.spool)))
        # What a conversation is remembered by are immutable values without cycles, and many: looking through all of
        # them for cycles every few requests would hold up whatever streams meanwhile.
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)

    try:
        run(
            settings,
            rewriter,
            ready=ready,
            stopping=lambda gateway: voice.stopping(gateway.answering),
            spool=rewriter.spool,
            recorder=recorder,
        )
    finally:
        if recorder is not None:
            recorder.close()
        if store is not None:
            store.close()
    return 0


def build(
    settings: Settings,
    table: Models,
    warn: Callable[[StetError], None] | None = None,
    kind: type[Conversations] = Conversations,
) -> tuple[Conversations, SqliteStore | None]:
    """The rewriter for these settings, and the store to close at the end. Raises ConfigError, SettingsError.

    `warn` hears of a store that fails, from any thread; standard error by default. `kind` is the rewriter's class.
    """
    for upstream in settings.upstreams.values():
        table.profile_for(upstream.url, upstream.profile)
    warn = warn or Voice(settings).warn
    store = None if settings.state == "memory" else SqliteStore(Path(settings.state), warn=warn)
    policies = load_policy(settings.policy)
    rewriter = kind(
        policies,
        models=table,
        store=store,
        mode=settings.mode,
        spool=_spool(settings, warn),
        project=_project(settings, policies, warn),
        upstreams={name: upstream.url for name, upstream in settings.upstreams.items()},
    )
    return rewriter, store


def _spool(settings: Settings, warn: Callable[[StetError], None]) -> SpoolDirectory | None:
    """The spool; None, with a warning, where its secret cannot be had."""
    directory = settings.spool_directory
    if directory is None:
        return None
    state = None if settings.state in ("", "memory") else Path(settings.state)
    bounds = Bounds(bytes=settings.spool_size, age_s=settings.spool_age)
    try:
        return SpoolDirectory(directory, state, warn, shown=settings.spool_shown, bounds=bounds)
    except StoreError as fault:
        warn(fault)
        return None


def _project(
    settings: Settings, policies: Policies, warn: Callable[[StetError], None]
) -> ProjectFiles | None:
    """The project's files; a warning where a policy wants some and nobody said where they are."""
    if settings.project != "off":
        return ProjectFiles(Path(settings.project).absolute(), warn)
    if policies.injects:
        warn(
            StetError(
                "no project files are told: nobody said where they are", "inject.files", "give --project DIR"
            )
        )
    return None


def _recorder(
    settings: Settings, profiles: Mapping[str, str], warn: Callable[[StetError], None]
) -> Recorder | None:
    """What writes down what agents send, where that is asked for. Raises SettingsError."""
    if settings.record == "off":
        return None
    return Recorder(Path(settings.record).absolute(), settings.record_size, Agents.load(), warn, profiles)


async def _tidy(spool: SpoolDirectory) -> None:
    """What is too old leaves, also while nobody asks for anything."""
    while True:
        await asyncio.to_thread(spool.purge)
        await asyncio.sleep(_TIDY_S)


class Voice:
    """What the server says of itself: prose on a console, events where the log is JSON."""

    def __init__(self, settings: Settings, stream: TextIO | None = None) -> None:
        self._settings = settings
        self._stream = stream or sys.stderr
        self._logger = make_logger(settings.log, self._stream) if settings.log == "json" else None

    def started(self, gateway: Gateway, profiles: Mapping[str, str]) -> None:
        """Both listeners are up."""
        told = (self._settings, gateway.address, gateway.admin_address, profiles)
        if self._logger is not None:
            self._logger.info("started", **facts(*told))
            return
        for line in banner(*told):
            self._say(line)

    def warn(self, fault: StetError) -> None:
        """Something is wrong that the server goes on without."""
        if self._logger is not None:
            self._logger.warning("warning", message=str(fault))
        else:
            self._say(f"stet: warning: {fault}")

    def stopping(self, answers: int) -> None:
        """Told to stop, with so many answers under way."""
        if self._logger is not None:
            self._logger.info("stopping", answers=answers)
        elif answers:
            said = f"finishing {answers} answer{'s' if answers > 1 else ''}; Ctrl-C again to stop now"
            self._say(f"\n{said}" if self._stream.isatty() else said)

    def _say(self, line: str) -> None:
        width = columns(self._stream)
        self._stream.write((line if width is None else _wrapped(line, width)) + "\n")
        self._stream.flush()


def _wrapped(text: str, width: int) -> str:
    folded = [
        part
        for line in text.split("\n")
        for part in wrap(
            line, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
        )
        or [""]
    ]
    return "\n".join(folded)
