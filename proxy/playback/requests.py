"""Recorded requests made ready to be played: each with its wire format, its upstream and its time."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

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
    """A request to play. `facts` are those of its model behind its upstream; `number` is its place in the session."""

    number: int
    recorded: Recorded
    incoming: Incoming
    facts: ModelFacts

    @property
    def failed(self) -> bool:
        """Whether the provider did not look at the prompt: it was overloaded, or wanted another key."""
        status = self.recorded.status
        return status is not None and status >= 401 and status != 413

    @property
    def taken(self) -> bool:
        """Whether the real provider is known to have taken it."""
        return self.recorded.status is not None and self.recorded.status < 400

    @property
    def model(self) -> str:
        """The model, as asked for."""
        return self.facts.model


def requests_of(recorded: Sequence[Recorded], models: Models) -> tuple[list[Request], list[str]]:
    """The requests that carry a conversation, in the order they arrived; and what was left out."""
    made: list[Request] = []
    timed = [one for one in recorded if one.at is not None]
    clock = BEGINS
    ordered = sorted(recorded, key=lambda one: one.at or 0.0) if len(timed) == len(recorded) else recorded
    unread = 0
    for one in ordered:
        clock = one.at if one.at is not None else clock + SECONDS_A_TURN
        request = _request(one, clock, len(made), models)
        if request is None:
            unread += 1
        else:
            made.append(request)
    notes = []
    if unread:
        notes.append(f"{unread} requests left out, of formats that are not read or whose body is none")
    if made and len(timed) < len(recorded):
        notes.append(
            f"no times were recorded: {SECONDS_A_TURN:.0f} seconds are taken from request to request"
        )
    return made, notes


def _request(one: Recorded, at: float, number: int, models: Models) -> Request | None:
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
    try:
        model = dialect.model(dialect.open(one.wire), path)
    except BodyError:
        return None
    incoming = Incoming(
        method="POST",
        path=path,
        query=query,
        headers=headers,
        body=one.wire,
        upstream=one.upstream or FAMILY[dialect.name],
        dialect=dialect.name,
        started_at=at,
        profile=profile,
    )
    facts = models.facts(profile, model, dialect.name)
    return Request(number=number, recorded=one, incoming=incoming, facts=facts)
