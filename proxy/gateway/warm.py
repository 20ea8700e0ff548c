"""`keep_warm`: while a person pauses, what the provider cached is read again shortly before it expires.

A cache entry lives for a while from the start of the request that last read it, and reading refreshes it for the price of
a read [B10]; writing it anew after a pause costs many times as much [B14]. So the last request goes out again, as it was
sent but for no answer (`max_tokens: 0`, no stream) [B30], with that client's own headers, which are kept in memory for
this alone.

**When it pays.** With P tokens cached and U behind the last mark, a refresh costs `read * P + U`, and a pause that it
bridges saves `(write - read) * P`. So at most

    floor((write - read) * P / (read * P + U))

refreshes of a pause ever pay: 11 of a prompt that is marked to its end, at 0.1 and 1.25, which is 50 minutes with a
lifetime of five. How long the pause will be nobody knows: who stops there has paid, at the worst, twice what knowing
would have cost.

A refresh that comes too late would write what it was to keep: it is left out, and so are all after it. The client's
return, a refusal, a cache that was lost, the limit in money and the server's end each end the pause.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import floor

import msgspec
from msgspec import Raw, Struct

from ..errors import BodyError, UpstreamError
from ..rawjson import closed_object, members
from ..turns import TurnReport
from ..usage import Usage
from .draft import Draft
from .exchange import Prepared, Warmth
from .journal import Journal
from .relay import tap_for
from .rewriting import Rewriting
from .routes import Route
from .upstream import Call, UpstreamClient
from .values import KeepWarm

_MARGIN = 30.0
"""Seconds before the end at which a refresh begins, where the lifetime is not shorter than ten times that."""

_DAY = 86_400.0

_MOST = 64
"""Conversations that are kept warm at a time, and bytes of their requests."""
_MOST_BYTES = 32 * 1024 * 1024

Sleep = Callable[[float], Awaitable[None]]


class Pause(Struct, frozen=True, kw_only=True):
    """A conversation whose client is away: what refreshes it, and what its last request used."""

    prepared: Prepared
    warmth: Warmth
    usage: Usage
    call: Call
    route: Route
    began: float
    """When the provider last read it, seconds since the epoch."""

    @property
    def cached(self) -> int:
        """Tokens that the provider holds."""
        return (self.usage.cached or 0) + (self.usage.written or 0)

    @property
    def cost(self) -> float:
        """Of one refresh, in units of a base input token."""
        return self.warmth.read * self.cached + (self.usage.uncached or 0)

    @property
    def size(self) -> int:
        """Bytes that are kept for it."""
        return len(self.call.body) if isinstance(self.call.body, bytes) else 0

    @property
    def refreshes(self) -> int:
        """How many can ever pay."""
        saved = (self.warmth.write - self.warmth.read) * self.cached
        return floor(saved / self.cost + 1e-9) if self.cost > 0 else 0

    def dollars(self, units: float) -> float:
        """What so many units cost here."""
        price = self.warmth.price
        long = price.long is not None and (self.usage.prompt or 0) > price.long.above
        return units * price.input * (price.long.input if long and price.long is not None else 1.0) / 1e6


class WarmCaches:
    """The pauses under way. Without a setting nothing is ever sent.

    `clock` is the wall clock, seconds since the epoch; `sleep` waits for so many seconds.
    """

    def __init__(
        self,
        setting: KeepWarm | None,
        upstreams: UpstreamClient,
        rewriting: Rewriting,
        journal: Journal,
        clock: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._setting = setting
        self._upstreams = upstreams
        self._rewriting = rewriting
        self._journal = journal
        self._clock = clock
        self._sleep = sleep
        self._pauses: OrderedDict[str, tuple[Pause, asyncio.Task[None]]] = OrderedDict()
        self._refused: set[tuple[str, str | None]] = set()
        self._spent: deque[tuple[float, float]] = deque()

    def returned(self, prepared: Prepared) -> None:
        """The client is back: its own request refreshes what it reads."""
        if prepared.warmth is not None:
            self._end(prepared.warmth.conversation)

    def rests(self, prepared: Prepared, draft: Draft, call: Callable[[bytes], Call]) -> None:
        """A request is over. `call` makes one of a body, as the client would send it. Never raises."""
        try:
            self._rests(prepared, draft, call)
        except Exception as fault:  # noqa: BLE001  the client has its answer
            self._journal.failed_open("warm", fault)

    def _rests(self, prepared: Prepared, draft: Draft, call: Callable[[bytes], Call]) -> None:
        setting, warmth, usage = self._setting, prepared.warmth, draft.answer.usage
        if setting is None or warmth is None or usage is None or draft.route is None:
            return
        model = prepared.report.model if prepared.report else None
        if draft.outcome != "ok" or draft.fallback or (draft.route.upstream.name, model) in self._refused:
            return
        body = warming(prepared.body)
        if body is None:
            return
        pause = Pause(
            prepared=prepared,
            warmth=warmth,
            usage=usage,
            call=call(body),
            route=draft.route,
            began=draft.started_at,
        )
        if pause.cached < max(1, warmth.minimum) or pause.refreshes < 1 or pause.size > _MOST_BYTES:
            return
        self._begin(pause, setting)

    def drain(self) -> None:
        """End all pauses, and begin no more."""
        self._setting = None
        for conversation in [*self._pauses]:
            self._end(conversation)

    def _begin(self, pause: Pause, setting: KeepWarm) -> None:
        session = pause.warmth.session
        for conversation, (other, _) in [*self._pauses.items()]:
            if conversation == pause.warmth.conversation or (session and other.warmth.session == session):
                self._end(conversation)  # an agent has one conversation at a time that it comes back to
        task = asyncio.ensure_future(self._keep(pause, setting))
        self._pauses[pause.warmth.conversation] = (pause, task)
        while len(self._pauses) > _MOST or sum(one.size for one, _ in self._pauses.values()) > _MOST_BYTES:
            self._end(next(iter(self._pauses)))

    def _end(self, conversation: str) -> None:
        found = self._pauses.pop(conversation, None)
        if found is not None and found[1] is not asyncio.current_task():
            found[1].cancel()

    async def _keep(self, pause: Pause, setting: KeepWarm) -> None:
        """Refresh until it no longer pays."""
        warmth, began = pause.warmth, pause.began
        most = pause.refreshes if setting.refreshes is None else min(setting.refreshes, pause.refreshes)
        try:
            for _ in range(most):
                due = began + warmth.ttl_s - min(_MARGIN, warmth.ttl_s / 10)
                await self._sleep(max(0.0, due - self._clock()))
                now = self._clock()
                if now >= began + warmth.ttl_s or not self._affords(pause.dollars(pause.cost), now, setting):
                    return
                if not await self._refresh(pause, now):
                    return
                began = now
        finally:
            current = self._pauses.get(warmth.conversation)
            if current is not None and current[0] is pause:
                del self._pauses[warmth.conversation]

    def _affords(self, dollars: float, now: float, setting: KeepWarm) -> bool:
        while self._spent and self._spent[0][0] <= now - _DAY:
            self._spent.popleft()
        return sum(spent for _, spent in self._spent) + dollars <= setting.dollars

    async def _refresh(self, pause: Pause, now: float) -> bool:
        """Send the request for no answer; whether what was cached is still there."""
        draft = _draft(pause, now)
        try:
            await self._ask(pause, draft)
        except asyncio.CancelledError:
            draft.end("cancelled")
            raise
        except UpstreamError as fault:
            draft.error_type = fault.reason
            draft.end("unreachable")
        except Exception as fault:  # noqa: BLE001  nobody waits for this answer
            draft.fail_open("warm", fault)
            self._journal.failed_open("warm", fault)
        finally:
            # What was sent may have been charged for, whatever became of it.
            usage = draft.answer.usage
            self._spent.append((now, pause.dollars(_units(pause, usage) if usage else pause.cost)))
            self._journal.write(draft.turn())
        if draft.status == 400:
            self._refused.add((pause.route.upstream.name, draft.report.model if draft.report else None))
        alive = draft.outcome == "ok" and usage is not None and 2 * (usage.cached or 0) >= pause.cached
        if alive:
            self._rewriting.refreshed(pause.prepared, now)
        return alive

    async def _ask(self, pause: Pause, draft: Draft) -> None:
        reply, draft.retried = await self._upstreams.send(pause.call)
        draft.status = reply.status
        try:
            tap = tap_for(reply, pause.route.dialect or "", self._journal)
            async for chunk in reply.chunks():
                draft.first_byte()
                draft.response_bytes += len(chunk)
                tap.feed(chunk)
            draft.answer = tap.answer(whole=True)
            draft.usage_fault = tap.fault
        finally:
            reply.close()


def _draft(pause: Pause, now: float) -> Draft:
    report = pause.prepared.report or TurnReport()
    draft = Draft(pause.call.method, pause.route.path, now)
    draft.warm = True
    draft.route = pause.route
    draft.request_bytes = pause.size
    draft.report = TurnReport(
        conversation=report.conversation, number=report.number, agent=report.agent, model=report.model
    )
    return draft


def _units(pause: Pause, usage: Usage) -> float:
    """What a refresh did cost, in units of a base input token."""
    rest = usage.uncached or 0
    return pause.warmth.read * (usage.cached or 0) + pause.warmth.write * (usage.written or 0) + rest


class _Asked(Struct, frozen=True):
    """What of a request may stand against asking for no answer."""

    type: str = ""
    format: Raw = Raw(b"")


_asked = msgspec.json.Decoder(_Asked)


def warming(body: bytes) -> bytes | None:
    """The same request for no answer; None where the provider would refuse that [B30].

    What else is said in it stays: thinking and effort are part of what the cache is kept under.
    """
    try:
        named = members(body)
    except BodyError:
        return None
    kept: dict[str, Raw | bytes] = {}
    for name, raw in named:
        said = _Asked()
        with suppress(msgspec.DecodeError):
            said = _asked.decode(raw)
        match name, said.type:
            case ("thinking", "enabled") | ("tool_choice", "any" | "tool") | ("output_format" | "thread", _):
                return None
            case "output_config", _ if said.format:
                return None
            case "stream", _:
                pass
            case "max_tokens", _:
                kept[name] = b"0"
            case _:
                kept[name] = raw
    return closed_object(kept.items()) if "max_tokens" in kept else None
