"""The admin listener: health, readiness, metrics, recent turns. Never on the agents' port.

It shows counts, names and ids, no content. A name in the `Host` header must be one of ours, so that a web page cannot
read it by rebinding its own name to this machine; a token is asked for where one is set.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from itertools import islice

import msgspec
from aiohttp import web

from .guard import host_allowed, origin_allowed
from .journal import Journal
from .log import turn_fields
from .settings import Settings

_EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
_MOST_TURNS = 500

_PAGES = {
    "/healthz": "200 while the process lives",
    "/readyz": "200 while it takes requests, 503 while it finishes the last ones",
    "/metrics": "Prometheus",
    "/turns?limit=100": "recent requests, the newest first",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Admin:
    """The pages. `draining` turns readiness off while answers under way are finished."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self._settings = settings
        self._journal = journal
        self.draining = False

    def application(self) -> web.Application:
        """Return the application of the admin listener."""
        app = web.Application(middlewares=[self._guarded])
        app.add_routes(
            [
                web.get("/", self._index),
                web.get("/healthz", self._health),
                web.get("/readyz", self._ready),
                web.get("/metrics", self._metrics),
                web.get("/turns", self._turns),
            ]
        )
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        settings = self._settings
        origin = request.headers.get("Origin")
        if not host_allowed(request.host, settings.allowed_hosts):
            return _json({"error": "this host is not served; add it to allowed_hosts"}, 403)
        if origin is not None and not origin_allowed(origin, settings.allowed_hosts):
            return _json({"error": "requests from web pages are not served"}, 403)
        token = settings.admin_token
        probe = request.path in {"/healthz", "/readyz"}
        if token is not None and not probe and not _bearer(request, token):
            return _json({"error": "send the admin token as a bearer token"}, 401)
        try:
            return await handler(request)
        except web.HTTPException as fault:
            return _json({"error": fault.reason}, fault.status)

    async def _index(self, _request: web.Request) -> web.Response:
        return _json({"name": "stet", "version": version("stet-proxy"), "pages": _PAGES})

    async def _health(self, _request: web.Request) -> web.Response:
        return _json({"status": "ok"})

    async def _ready(self, _request: web.Request) -> web.Response:
        return _json({"status": "draining"}, 503) if self.draining else _json({"status": "ready"})

    async def _metrics(self, _request: web.Request) -> web.Response:
        body = self._journal.metrics.exposition()
        return web.Response(body=body, headers={"Content-Type": _EXPOSITION})

    async def _turns(self, request: web.Request) -> web.Response:
        asked = request.query.get("limit", "100")
        limit = min(int(asked), _MOST_TURNS) if asked.isdecimal() else 100
        turns = islice(self._journal.recent(), limit)
        return _json({"turns": [{"started_at": turn.started_at, **turn_fields(turn)} for turn in turns]})


def _bearer(request: web.Request, token: str) -> bool:
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), token.encode())


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
