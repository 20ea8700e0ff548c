"""A policy file that changed is taken over while the server runs, if it is sound; a broken one changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ..errors import StetError
from ..policy import Policies, load_policy
from .conversations import Conversations
from .log import Logger

INTERVAL_SECONDS = 1.0


async def watch(
    source: str, rewriter: Conversations, logger: Logger, interval: float = INTERVAL_SECONDS
) -> None:
    """Look at the policy's files for ever. Living conversations keep the policy they began with (see `rewrite`)."""
    seen = _stamps(rewriter.policies)
    while True:
        await asyncio.sleep(interval)
        now = _stamps(rewriter.policies)
        if now == seen:
            continue
        seen = now
        try:
            rewriter.policies = await asyncio.to_thread(load_policy, source)
        except (StetError, OSError) as error:
            logger.warning("policy_rejected", file=source, error=str(error))
        else:
            seen = _stamps(rewriter.policies)
            logger.info("policy_reloaded", file=source, name=rewriter.policies.file.name)


def _stamps(policies: Policies) -> tuple[tuple[str, int, int], ...]:
    """What tells that a file changed; a file that is gone for a moment counts as unchanged by its absence alone."""
    return tuple((path, *_stamp(Path(path))) for path in policies.files)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
