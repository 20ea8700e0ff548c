"""Recorded requests made ready to be played: each with its wire format, its upstream and its time."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, structs

from ..dialects import DIALECTS
from ..errors import BodyError
from ..gateway.conversations import COUNTING
from ..gateway.exchange import Incoming
from ..gateway.routes import FAMILY, route
from ..gateway.values import DEFAULT_UPSTREAMS
from ..modelfacts import ModelFacts
from ..models import Models
from ..recording import Recorded

SECONDS_A_TURN = 12.0
"""From one request to the next where a recording has no times: what a model and its tools take."""

BEGINS = 1_796_082_840.0
"""When such a recording begins."""


class Request(Struct, frozen=True, kw_only=True):
    """A request to play: `incoming` as it came, `status` and `calls` of the recorded answer, which may be one to a
    `changed` body.

    `facts` are those of its model behind its upstream; `number` is its place in the session.
    """

    number: int = 0
    incoming: Incoming
    status: int | None
    changed: bool
    calls: tuple[str, ...]
    facts: ModelFacts

    @property
    def failed(self) -> bool:
        """Whether the provider did not look at the prompt: it was overloaded, or wanted another key."""
        return self.status is not None and self.status >= 401 and self.status != 413

    @property
    def answered(self) -> bool:
        """Whether the real provider answered it, or what the rewrite had made of it."""
        return self.status is not None and self.status < 400

    @property
    def refused(self) -> bool:
        """Whether the real provider refused it as the client had sent it."""
        return self.status in (400, 413) and not self.changed


def requests_of(recorded: Iterable[Recorded], models: Models) -> tuple[list[Request], list[str]]:
    """The requests that carry a conversation, in the order they arrived; and what was left out."""
    made: list[Request] = []
    clock, unread, untimed = BEGINS, 0, 0
    for one in recorded:
        clock = one.at if one.at is not None else clock + SECONDS_A_TURN
        untimed += one.at is None
        request = _request(one, clock, models)
        if request is None:
            unread += 1
        else:
            made.append(request)
    if not untimed:
        made.sort(key=lambda request: request.incoming.started_at)  # lines are written as requests end
    notes = []
    if unread:
        notes.append(
            f"left out: {unread} of formats that are not read, that only count tokens, or without a sound body"
        )
    if made and untimed:
        notes.append(
            f"no times were recorded: {SECONDS_A_TURN:.0f} seconds are taken from request to request"
        )
    return [structs.replace(request, number=number) for number, request in enumerate(made)], notes


def _request(one: Recorded, at: float, models: Models) -> Request | None:
    headers = tuple(
        (name.encode(), value.encode("latin-1", "replace")) for name, value in one.headers.items()
    )
    path, _, query = one.path.partition("?")
    name = one.dialect or route("POST", one.path, headers, DEFAULT_UPSTREAMS, "anthropic").dialect
    dialect = DIALECTS.get(name or "")
    if dialect is None or path.endswith(COUNTING):
        return None
    profile = one.profile or FAMILY[dialect.name]
    if profile not in models.profiles:
        profile = "unknown"
    body = one.wire
    try:
        model = dialect.model(dialect.open(body), path)
    except BodyError:
        return None
    incoming = Incoming(
        method="POST",
        path=path,
        query=query,
        headers=headers,
        body=body,
        upstream=one.upstream or FAMILY[dialect.name],
        dialect=dialect.name,
        started_at=at,
        profile=profile,
    )
    facts = models.facts(profile, model, dialect.name)
    return Request(incoming=incoming, status=one.status, changed=one.changed, calls=one.calls, facts=facts)
