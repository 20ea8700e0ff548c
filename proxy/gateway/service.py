"""`stet serve`: settings, policy, store and rewriter put together, and the policy looked at again when it changes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..models import Models
from ..policy import load_policy
from ..stores.sqlite import SqliteStore
from .app import Gateway, run
from .banner import banner
from .conversations import Conversations
from .reload import watch
from .settings import Settings, resolve


def run_service(flags: Mapping[str, Any], config: Path | None = None, models: Path | None = None) -> int:
    """Serve until told to stop. Raises StetError where a setting, the policy or a port is wrong."""
    settings = resolve(flags, None, config)
    rewriter, store = build(settings, models)

    watching: list[asyncio.Task[None]] = []

    def ready(gateway: Gateway) -> None:
        for line in banner(settings, gateway.address, gateway.admin_address):
            _say(line)
        watching.append(asyncio.ensure_future(watch(settings.policy, rewriter, gateway.journal.logger)))

    try:
        run(settings, rewriter, ready=ready)
    finally:
        if store is not None:
            store.close()
    return 0


def build(settings: Settings, models: Path | None = None) -> tuple[Conversations, SqliteStore | None]:
    """The rewriter for these settings, and the store to close at the end. Raises ConfigError, SettingsError."""
    table = Models.load(models)
    for upstream in settings.upstreams.values():
        table.profile_for(upstream.url, upstream.profile)
    store = None if settings.state == "memory" else SqliteStore(Path(settings.state), warn=_warn)
    rewriter = Conversations(
        load_policy(settings.policy),
        models=table,
        store=store,
        mode=settings.mode,
        upstreams={name: upstream.url for name, upstream in settings.upstreams.items()},
    )
    return rewriter, store


def _warn(fault: StoreError) -> None:
    _say(f"stet: {fault}")


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
