"""The rewriter, called so that no fault of it keeps a request from being answered."""

from __future__ import annotations

import asyncio
import time

from ..misses import diagnosed
from ..turns import Miss
from .draft import Draft
from .exchange import Incoming, Outcome, Prepared, Rewriter
from .journal import Journal

_THREAD_FROM = 128 * 1024
"""Bodies from this many bytes on are prepared in a worker thread, so that other requests go on meanwhile: a long history
that is met for the first time takes a second or more."""


class Rewriting:
    """Calls `prepare` and `settle`, times them, and fails open."""

    def __init__(self, rewriter: Rewriter, journal: Journal) -> None:
        self._rewriter = rewriter
        self._journal = journal

    async def prepare(self, incoming: Incoming, draft: Draft) -> Prepared:
        """Return what to send: the client's own bytes where the rewrite fails."""
        started = time.perf_counter()
        try:
            if len(incoming.body) < _THREAD_FROM and not self._rewriter.reads_files:
                prepared = self._rewriter.prepare(incoming)
            else:
                prepared = await self._in_thread(incoming, draft)
        except Exception as fault:  # noqa: BLE001  whatever the rewrite does wrong, the request goes out
            prepared = Prepared(body=incoming.body, commit=False, fault=fault)
        if prepared.fault is not None:
            draft.fail_open("prepare", prepared.fault)
            self._journal.failed_open("prepare", prepared.fault)
        draft.added_s += time.perf_counter() - started
        draft.report = prepared.report
        return prepared

    async def fallback(self, prepared: Prepared, draft: Draft) -> bytes | None:
        """Return what to send instead where the body is refused; None where there is nothing, or it cannot be made."""
        if prepared.spare is None:
            return None
        try:
            if len(prepared.body) < _THREAD_FROM:
                return prepared.fallback
            return await asyncio.to_thread(lambda: prepared.fallback)
        except Exception as fault:  # noqa: BLE001  the refusal is the client's then
            draft.fail_open("fallback", fault)
            self._journal.failed_open("fallback", fault)
            return None

    def settle(self, prepared: Prepared, draft: Draft) -> None:
        """Tell the rewriter how it went. What the provider says of its cache is noted for every turn."""
        if prepared.commit:
            draft.miss = self._settle(prepared, draft.settled(), draft)
        draft.miss = diagnosed(draft.miss, draft.answer.diagnosis)

    def refreshed(self, prepared: Prepared, at: float) -> None:
        """Tell the rewriter that what was sent was read again. Never raises."""
        try:
            self._rewriter.refreshed(prepared, at)
        except Exception as fault:  # noqa: BLE001  nothing was asked by a client
            self._journal.failed_open("refreshed", fault)

    async def _in_thread(self, incoming: Incoming, draft: Draft) -> Prepared:
        working = asyncio.ensure_future(asyncio.to_thread(self._rewriter.prepare, incoming))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            # The thread goes on to its end and may commit: what it commits must be settled as never sent.
            draft.end("cancelled")
            outcome = draft.settled()
            working.add_done_callback(lambda done: self._settle_late(done, outcome))
            raise

    def _settle_late(self, done: asyncio.Future[Prepared], outcome: Outcome) -> None:
        if done.cancelled():
            return
        fault = done.exception()
        if fault is not None:
            self._journal.failed_open("prepare", fault)
        elif done.result().commit:
            self._settle(done.result(), outcome, None)

    def _settle(self, prepared: Prepared, outcome: Outcome, draft: Draft | None) -> Miss | None:
        try:
            return self._rewriter.settle(prepared, outcome)
        except Exception as fault:  # noqa: BLE001  the answer is already the client's
            if draft is not None:
                draft.fail_open("settle", fault)
            self._journal.failed_open("settle", fault)
            return None
