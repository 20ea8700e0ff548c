"""The one seam between the gateway and the rewrite.

The gateway knows sockets, the rewrite knows conversations. Before a request leaves, `prepare` turns the client's
body into what is sent; when it is over, `settle` learns how it went. Both are plain functions of bytes and values,
so that either side runs, and is tested, without the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

from msgspec import Struct

from ..answer import Answer
from ..modelfacts import Price
from ..rewrite import Question
from ..stages import NOBODY, Heard
from ..turns import Miss, OutcomeName, TurnReport
from ..usage import Usage

RawHeaders = tuple[tuple[bytes, bytes], ...]


class Incoming(Struct, frozen=True):
    """A request as the client sent it.

    `path` is the raw path as the provider will see it (without our upstream prefix), `query` the raw query or "".
    `headers` are the raw pairs in order. `body` is plain: any content-encoding is opened. `profile` is the name of
    the upstream's facts, where configured. `started_at` is wall-clock seconds since the epoch. `heard`: see `stages.Facts`.
    """

    method: str
    path: str
    query: str
    headers: RawHeaders
    body: bytes
    upstream: str
    dialect: str
    started_at: float
    profile: str | None = None
    heard: Heard | None = NOBODY


class Warmth(Struct, frozen=True, kw_only=True):
    """What is to be known of a conversation to keep its cache warm.

    conversation  names it; `session` names the one of these that an agent has at a time, "" where it does not say
    ttl_s         seconds that its cache lives from the start of a request
    read, write   prices of a token in units of base input, whose own price is `price`
    minimum       tokens below which nothing is cached
    """

    conversation: str
    session: str
    ttl_s: float
    read: float
    write: float
    price: Price
    minimum: int


class Prepared(Struct, frozen=True, dict=True):
    """What to send.

    `body` may be the incoming object itself; then the client's own bytes go out, compressed as they came.
    `fallback` is sent instead, once, where the provider refuses the body for its structure; there is one where we
    changed the body, or where an earlier change of ours may be what it is refused for. `spare` makes it. With `commit` False (a
    request that only counts tokens) nothing is remembered and `settle` is not called. `memo` is the rewriter's
    own: the gateway carries it to `settle` unseen. `fault`: what the rewriter went past by itself, where `body` is
    not what it would have been. `would_repair`: `body` is the client's because nothing is to be changed, and an edit
    that a provider's rules require was not made. `ask_usage`: usage may be asked for on the client's behalf.
    `session`: what the agent calls its session, "" where it names none. `question`: what is to be asked before there is
    anything to send: then this is not sent, and `prepare` is called again with what was heard; `spent` says what it
    cost, in units of base input. `warmth`: there where the provider can keep
    what it caches of this conversation alive.
    """

    body: bytes
    spare: Callable[[], bytes] | None = None
    changed: bool = False
    commit: bool = True
    report: TurnReport | None = None
    memo: object = None
    fault: Exception | None = None
    would_repair: bool = False
    ask_usage: bool = False
    session: str = ""
    warmth: Warmth | None = None
    question: Question | None = None
    spent: Callable[[Usage], float] | None = None

    @cached_property
    def fallback(self) -> bytes | None:
        """Made by `spare` when it is asked for; None where it is none or the body itself."""
        made = self.spare() if self.spare is not None else None
        return None if made is self.body else made


class Outcome(Struct, frozen=True):
    """How a request went. `status` is None where no answer came; `answer` holds usage, ids and the stop reason."""

    name: OutcomeName
    status: int | None
    error_type: str | None
    answer: Answer
    retried_with_fallback: bool = False

    @property
    def usage(self) -> Usage | None:
        """The tokens the provider reported."""
        return self.answer.usage

    @property
    def truncated(self) -> bool:
        """Whether the answer ended before its end."""
        return self.name == "truncated"

    @property
    def cancelled(self) -> bool:
        """Whether the client left first."""
        return self.name == "cancelled"

    @property
    def succeeded(self) -> bool:
        """Whether the provider took the request: it has now seen this prompt."""
        return self.status is not None and self.status < 400


class Rewriter(Protocol):
    """The rewrite as the gateway sees it.

    `prepare` runs on the event loop, and in a worker thread for large bodies or where it `reads_files`, so that no
    request need wait for another: it must be safe to call from both at once. `settle` runs on the event loop, once
    for each prepare with `commit`. Whatever either raises is logged and counted, and the client's bytes go out.
    """

    @property
    def reads_files(self) -> bool:
        """Whether `prepare` reads files that are not the proxy's own, on a disk that may be slow."""
        ...

    def prepare(self, request: Incoming) -> Prepared:
        """Return what to send for `request`. CPU, and what must be on disk before it is sent."""
        ...

    def settle(self, prepared: Prepared, outcome: Outcome) -> Miss | None:
        """Learn how it went; return why the cache missed, where it did."""
        ...

    def refreshed(self, prepared: Prepared, at: float) -> None:
        """Learn that the provider read what was sent again at that time, seconds since the epoch, and keeps it from then."""
        ...


class PassThrough:
    """A rewriter that changes nothing."""

    reads_files = False

    def prepare(self, request: Incoming) -> Prepared:
        """Return the client's own bytes."""
        return Prepared(body=request.body, commit=False)

    def settle(self, prepared: Prepared, outcome: Outcome) -> Miss | None:
        """Learn nothing."""
        del prepared, outcome
        return None

    def refreshed(self, prepared: Prepared, at: float) -> None:
        """Learn nothing."""
        del prepared, at
