"""One request's life, from its arrival to its Turn.

    guard -> route -> read and open the body -> prepare -> send (-> the fallback, once) -> relay -> settle -> journal

A path without a conversation goes straight from route to send and streams both ways.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable

from aiohttp import hdrs, web
from msgspec import structs

from ..errors import BodyError, BodyTooLarge, StetError, UpstreamError
from .asking import Asking, plain, uncompressed
from .bodies import Body, open_body, read_body
from .draft import Draft
from .exchange import Incoming, Prepared
from .guard import asks_websocket, rejection
from .headers import for_upstream, value_of, without
from .journal import Journal
from .question import Questions
from .recorder import Recorder
from .refusals import LONGEST_REFUSAL, structural_class
from .relay import relay, tap_for
from .rewriting import Rewriting
from .routes import Route, misnamed, route
from .settings import Settings
from .shapes import error_body
from .spool import SpoolDirectory
from .spooled import PATH, shown_path, spooled
from .tunnel import Tunnels
from .upstream import Call, Reply, UpstreamClient
from .warm import Sleep, WarmCaches


class Handler:
    """Serves the agents' port."""

    def __init__(
        self,
        settings: Settings,
        rewriting: Rewriting,
        upstreams: UpstreamClient,
        journal: Journal,
        clock: Callable[[], float] = time.time,
        spool: SpoolDirectory | None = None,
        recorder: Recorder | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._rewriting = rewriting
        self._upstreams = upstreams
        self._journal = journal
        self._clock = clock
        self._asking = Asking()
        self._questions = Questions(journal, clock)
        self.tunnels = Tunnels(upstreams, journal, clock)
        self._spool = spool
        self._recorder = recorder
        self.warm = WarmCaches(settings.keep_warm, upstreams, rewriting, journal, clock, sleep)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request. Whatever happens, exactly one Turn is written."""
        path = request.raw_path.partition("?")[0]
        draft = Draft(request.method, shown_path(path), self._clock())
        self._journal.metrics.in_flight(1)
        try:
            return await self._serve(request, draft)
        except asyncio.CancelledError:
            draft.end("cancelled")
            raise
        except ConnectionResetError:
            draft.end("cancelled")
            return web.Response(status=499)  # never arrives: the client is gone
        except StetError as fault:
            return self._own_answer(draft, fault.status, str(fault), type(fault).__name__)
        except Exception as fault:  # noqa: BLE001  a bug of ours: one request fails, in words its client can read
            draft.end("error")
            draft.fail_open("gateway", fault)
            self._journal.failed_open("gateway", fault)
            if draft.begun:
                if request.transport is not None:
                    request.transport.close()
                return web.Response(status=500)  # never arrives: half an answer went out, and ends as one
            return self._own_answer(draft, 500, "an internal error, see the log", "internal")
        finally:
            self._journal.metrics.in_flight(-1)
            self._journal.write(draft.turn())

    async def _serve(self, request: web.Request, draft: Draft) -> web.StreamResponse:
        settings, headers, target = self._settings, request.raw_headers, request.raw_path
        refused = rejection(request.method, target, headers, settings)
        if target.startswith("/"):
            draft.route = route(
                request.method, target, headers, settings.upstreams, settings.default_upstream
            )
        if refused is not None:
            return self._own_answer(
                draft, refused.status, refused.message, refused.error_type, close=refused.close
            )
        if self._spool is not None and target.startswith(PATH):
            return await self._kept(request, self._spool, draft)
        if draft.path == "/" and request.method != "HEAD":  # a HEAD asks whether the provider is there
            return self._own_answer(draft, 404, _hello(settings.upstreams), "not_found")
        wrong = misnamed(target, settings.upstreams)
        if wrong is not None:
            return self._own_answer(draft, 404, wrong, "unknown_upstream", close=request.body_exists)
        if draft.route is None or draft.path == "/stet" or draft.path.startswith("/stet/"):
            return self._own_answer(draft, 404, f"nothing is served at {draft.path}", "not_found")
        if asks_websocket(headers):
            return await self._tunnel(request, draft.route, draft)
        if draft.route.dialect is None:
            return await self._pass(request, draft.route, draft)
        return await self._turn(request, draft.route, draft.route.dialect, draft)

    async def _tunnel(self, request: web.Request, to: Route, draft: Draft) -> web.StreamResponse:
        """Serve a websocket for as long as it is open."""
        try:
            response = await self.tunnels.serve(request, to, draft, self._settings.max_body)
        except UpstreamError as fault:
            return self._unreachable(draft, fault)
        if response is None:
            return self._own_answer(draft, 400, "this is no websocket handshake", "websocket", close=True)
        return response

    async def _pass(self, request: web.Request, to: Route, draft: Draft) -> web.StreamResponse:
        """Stream both ways, unread."""
        draft.request_bytes = request.content_length
        call = Call(
            upstream=to.upstream,
            method=request.method,
            url=to.url,
            headers=for_upstream(request.raw_headers, to.upstream.host, None),
            body=_uploaded(request) if request.body_exists else None,
        )
        try:
            reply, draft.retried = await self._upstreams.send(call)
        except UpstreamError as fault:
            return self._unreachable(draft, fault)
        try:
            return await relay(request, reply, None, draft)
        finally:
            reply.close()

    async def _turn(self, request: web.Request, to: Route, dialect: str, draft: Draft) -> web.StreamResponse:
        """Serve a request that carries a conversation."""
        limit = self._settings.max_body
        try:
            wire = await read_body(request, limit)
            began = time.perf_counter()
            body = await open_body(wire, value_of(request.raw_headers, "content-encoding"), limit)
            draft.added_s += time.perf_counter() - began
        except BodyTooLarge as fault:
            return self._own_answer(draft, fault.status, str(fault), "too_large", close=True)
        except BodyError as fault:
            return self._own_answer(draft, fault.status, str(fault), "body", close=True)
        draft.request_bytes = len(wire)
        prepared, incoming = Prepared(body=wire, commit=False), None
        if body.plain is not None:
            incoming = Incoming(
                method=request.method,
                path=to.path,
                query=to.query,
                headers=request.raw_headers,
                body=body.plain,
                upstream=to.upstream.name,
                dialect=dialect,
                started_at=draft.started_at,
                profile=to.upstream.profile,
                heard=None,
            )
            prepared = await self._prepared(request, to, body, incoming, draft)
            self.warm.returned(prepared)
        try:
            return await self._exchange(request, to, body, prepared, draft)
        except (asyncio.CancelledError, ConnectionResetError):
            draft.end("cancelled")
            raise
        finally:
            self._rewriting.settle(prepared, draft)
            self.warm.rests(prepared, draft, lambda sent: _call(request, to, body, sent))
            if self._recorder is not None and incoming is not None:
                self._recorder.take(incoming, prepared, draft.settled())

    async def _prepared(
        self, request: web.Request, to: Route, body: Body, incoming: Incoming, draft: Draft
    ) -> Prepared:
        """What is to be sent; where the rewrite wants the model asked first, once that is done."""
        prepared = await self._rewriting.prepare(incoming, draft)
        if prepared.question is None:
            return prepared

        async def send(sent: Prepared, own: Draft) -> Reply:
            return await self._send(request, to, body, sent, own)

        heard = await self._questions.ask(prepared, draft, send)
        return await self._rewriting.prepare(structs.replace(incoming, heard=heard), draft)

    async def _exchange(
        self, request: web.Request, to: Route, body: Body, prepared: Prepared, draft: Draft
    ) -> web.StreamResponse:
        """Send what was prepared and hand the answer on."""
        try:
            reply = await self._send(request, to, body, prepared, draft)
        except UpstreamError as fault:
            return self._unreachable(draft, fault)
        try:
            fallback = await self._rewriting.fallback(prepared, draft) if reply.status == 400 else None
            if fallback is not None:
                other = _call(request, to, body, fallback)
                reply = await self._second_chance(reply, other, draft)
            elif reply.status == 400 and prepared.would_repair:
                draft.would_repair = await self._structural(reply, draft)
            draft.usage_asked = reply.asked
            tap = tap_for(reply, to.dialect, self._journal) if to.dialect else None
            return await relay(request, reply, tap, draft)
        finally:
            reply.close()

    async def _send(
        self, request: web.Request, to: Route, body: Body, prepared: Prepared, draft: Draft
    ) -> Reply:
        """Send what was prepared: asking for usage where that may be, and without where it is not taken."""
        sent = prepared.body if prepared.changed else body.plain
        upstream = to.upstream.name
        asked = self._asking.body(sent, upstream) if prepared.ask_usage and sent is not None else None
        if asked is not None:
            reply, draft.retried = await self._upstreams.send(_call(request, to, body, asked, asked=True))
            if not await self._asking.refused(reply, upstream):
                return reply
            reply.close()
        reply, again = await self._upstreams.send(_call(request, to, body, sent))
        draft.retried = again or asked is not None
        return reply

    async def _second_chance(self, reply: Reply, other: Call, draft: Draft) -> Reply:
        """Send the fallback, once, where the refusal speaks of structure; return the answer the client gets.

        That is the fallback's where it was taken, and the first one otherwise: its wording is about the request
        the client knows least about, but it came first and clients act on the wording [D9].
        """
        if not await self._structural(reply, draft):
            return reply
        draft.retried = True
        try:
            second, _ = await self._upstreams.send(other)
        except UpstreamError:
            return reply
        if second.status >= 400:
            second.close()
            return reply
        reply.close()
        draft.fallback = True
        return second

    async def _structural(self, reply: Reply, draft: Draft) -> bool:
        """Whether a refusal speaks of the request's structure; the client reads it all the same."""
        seen = await reply.peek(LONGEST_REFUSAL)
        draft.refusal = structural_class(reply.status, plain(seen, reply.headers))
        return draft.refusal is not None

    async def _kept(self, request: web.Request, spool: SpoolDirectory, draft: Draft) -> web.Response:
        """Give out of the spool. No provider has to do with it."""
        draft.route = None
        response = await spooled(request, request.raw_path.partition("?")[0], spool)
        draft.status = response.status
        draft.end("passed" if response.status == 200 else "rejected")
        return response

    def _unreachable(self, draft: Draft, fault: UpstreamError) -> web.Response:
        draft.end("unreachable")
        return self._own_answer(draft, fault.status, str(fault), fault.reason)

    def _own_answer(
        self, draft: Draft, status: int, message: str, error_type: str, *, close: bool = False
    ) -> web.Response:
        """Answer in the provider's error shape."""
        draft.end("rejected")
        draft.status = status
        draft.error_type = error_type
        family = draft.route.family if draft.route else "anthropic"
        response = web.Response(
            status=status, body=error_body(family, status, message), content_type="application/json"
        )
        if status == 426:
            response.headers[hdrs.UPGRADE] = (
                "HTTP/1.1"  # what is asked of the client instead (RFC 9110, 15.5.22)
            )
            response.headers[hdrs.CONNECTION] = "Upgrade, close" if close else "Upgrade"
        if close:
            response.force_close()
        return response


def _hello(upstreams: Iterable[str]) -> str:
    """For who looks in with a browser."""
    named = ", ".join(f"/{name}/" for name in upstreams)
    return f"this is a proxy for LLM providers: point an agent's base URL here (with {named} in front to name one)"


def _call(request: web.Request, to: Route, body: Body, sent: bytes | None, *, asked: bool = False) -> Call:
    """The request that goes out: the client's own bytes and headers, unless `sent` is another body.

    `asked`: it asks for usage on the client's behalf, so that the answer must be one we can read.
    """
    own = sent is None or sent is body.plain
    wire = body.wire if own else sent
    assert wire is not None
    headers = for_upstream(request.raw_headers, to.upstream.host, len(wire))
    if not own:
        headers = without(headers, "content-encoding")
    return Call(
        upstream=to.upstream,
        method=request.method,
        url=to.url,
        headers=uncompressed(headers) if asked else headers,
        body=wire,
        asked=asked,
    )


async def _uploaded(request: web.Request) -> AsyncIterator[bytes]:
    async for chunk in request.content.iter_any():
        yield chunk
