"""Questions of our own: the model is asked for a summary while its client waits.

One call with the client's own headers to where its request would have gone, bounded in time. The client sees nothing of
it; where it leaves, the call is cancelled. A question is put once: what came of it, or that nothing did, is remembered
for as long as clients try again, so that a request that fails and comes back costs no second one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import blake2b

from ..answer import READERS, Words
from ..errors import UpstreamError
from ..stages import Heard
from ..turns import HEARD
from .draft import Draft
from .exchange import Prepared
from .journal import Journal
from .relay import tap_for
from .routes import Route
from .upstream import Reply

_KEPT = 128
"""Questions of which it is remembered what came of them."""

Send = Callable[[Prepared, Draft], Awaitable[Reply]]
"""Sends what was prepared as the client would have sent it."""


class Questions:
    """Puts questions. `clock` is the wall clock, seconds since the epoch."""

    def __init__(self, journal: Journal, clock: Callable[[], float]) -> None:
        self._journal = journal
        self._clock = clock
        self._known: OrderedDict[bytes, Heard] = OrderedDict()

    async def ask(self, prepared: Prepared, client: Draft, send: Send) -> Heard:
        """What came of the question of a request. Raises nothing but CancelledError."""
        question = prepared.question
        if question is None or client.route is None:
            return Heard(fault="nothing to ask")
        name = blake2b(question.body, digest_size=16).digest()
        if name in self._known:
            return self._known[name]
        draft = _draft(prepared, client, client.route, self._clock())
        heard = Heard(fault="the client left")
        try:
            sent = Prepared(body=question.body, changed=True, commit=False, ask_usage=prepared.ask_usage)
            async with asyncio.timeout(question.seconds):
                heard = await self._heard(sent, draft, client.route, send)
        except TimeoutError:
            heard = Heard(fault=f"no answer in {question.seconds:g} s")
            draft.error_type = "timeout"
            draft.end("unreachable" if draft.status is None else "truncated")
        except UpstreamError as fault:
            heard = Heard(fault=f"the provider gave no answer: {fault.reason}")
            draft.error_type = fault.reason
            draft.end("unreachable" if draft.status is None else "truncated")
        except asyncio.CancelledError:
            draft.end("cancelled")
            raise
        except Exception as fault:  # noqa: BLE001  the client's request goes on without an answer
            heard = Heard(fault="a fault of ours, see the log")
            draft.end("error")
            draft.fail_open("question", fault)
            self._journal.failed_open("question", fault)
        finally:
            usage = draft.answer.usage
            cost = prepared.spent(usage) if usage is not None and prepared.spent is not None else 0.0
            heard = Heard(heard.text, heard.fault, cost)
            self._remember(name, heard)
            draft.asked = heard.fault or HEARD
            self._journal.write(draft.turn())
        return heard

    async def _heard(self, sent: Prepared, draft: Draft, route: Route, send: Send) -> Heard:
        dialect = route.dialect or ""
        reply = await send(sent, draft)
        draft.status = reply.status
        words = Words(dialect, READERS[dialect]())
        tap = tap_for(reply, dialect, self._journal, words)
        whole = False
        try:
            async for chunk in reply.chunks():
                draft.first_byte()
                draft.response_bytes += len(chunk)
                tap.feed(chunk)
            whole = True
        finally:
            reply.close()
            draft.answer = tap.answer(whole=whole)
            draft.streamed = tap.streamed and reply.status < 400
            draft.usage_fault = tap.fault
            draft.refusal = tap.refusal
        if reply.status != 200:
            return Heard(fault=f"refused with {reply.status}")
        fault = tap.fault or words.fault
        return Heard(fault=fault) if fault else Heard(text=words.text)

    def _remember(self, name: bytes, heard: Heard) -> None:
        self._known[name] = heard
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)


def _draft(prepared: Prepared, client: Draft, route: Route, now: float) -> Draft:
    draft = Draft(client.method, client.path, now)
    draft.asked = "under way"
    draft.route = route
    draft.request_bytes = len(prepared.question.body) if prepared.question is not None else None
    draft.report = prepared.report
    return draft
