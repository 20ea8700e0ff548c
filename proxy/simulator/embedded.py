"""What all embedded services do alike: answers put in from outside, and the record of every exchange."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from . import reply
from .exchange import Answer, Canned, Exchange
from .reply import Script
from .request import fingerprint

Headers = Iterable[tuple[str, str]]
Hook = Callable[[Exchange], Canned | None]
_SECRETS = ("authorization", "api-key", "x-api-key", "x-goog-api-key", "proxy-authorization", "cookie")


class Keeps(Protocol):
    """`keep_bodies`: whether the log holds the bodies of requests."""

    @property
    def keep_bodies(self) -> bool: ...


class Arrived(msgspec.Struct, frozen=True):
    """A request as it came: `path` with its query."""

    headers: list[tuple[str, str]]
    body: bytes
    path: str


class Embedded(ABC):
    """A service in one object.

    `script` says what the model answers; `canned` answers go out first, one a request; `hook` may answer any single
    request instead. `log` keeps every exchange in order. `path` is where requests go that name none.
    """

    path = ""

    def __init__(self, keeps: Keeps, script: Script = reply.echo, hook: Hook | None = None) -> None:
        self.script = script
        self.hook = hook
        self.canned: deque[Canned] = deque()
        self.log: list[Exchange] = []
        self._keeps = keeps

    def answer(self, headers: Headers, body: bytes, now: float, path: str = "") -> Answer:
        """Answer a POST; what it leaves in the cache can be read at once. `now` is in seconds."""
        answer = self.prepare(headers, body, now, path)
        self.begin(answer)
        return answer

    def prepare(self, headers: Headers, body: bytes, now: float, path: str = "") -> Answer:
        """Answer a POST without its cache entries being visible yet. In the log keys stand as fingerprints."""
        named = list(headers.items()) if isinstance(headers, dict) else list(headers)
        path = path or self.path
        shown = tuple((name, _safe(name, value)) for name, value in named)
        record = Exchange(path=path.partition("?")[0], headers=shown, body=body, started=now, status=0)
        answer = self.respond(Arrived(named, body, path), record)
        exchange = answer.exchange
        self.log.append(exchange if self._keeps.keep_bodies else msgspec.structs.replace(exchange, body=b""))
        return answer

    def given(self, record: Exchange, *, takes: bool = True) -> Canned | None:
        """What was put in for this request: by the hook, else the next canned answer where it `takes` one."""
        found = self.hook(record) if self.hook is not None else None
        return self.canned.popleft() if found is None and self.canned and takes else found

    @abstractmethod
    def begin(self, answer: Answer) -> None:
        """The first byte of an answer goes out: what it leaves in the cache becomes visible."""

    @abstractmethod
    def respond(self, arrived: Arrived, record: Exchange) -> Answer:
        """The answer to a request, whose record it completes."""


def _safe(name: str, value: str) -> str:
    if name.lower() not in _SECRETS:
        return value
    scheme, _, token = value.partition(" ")
    return f"{scheme} {fingerprint(token)}" if token else fingerprint(value)
