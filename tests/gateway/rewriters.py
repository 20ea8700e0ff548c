"""Rewriters for tests of the gateway: they do one visible thing to a body, or fail at it."""

import threading
import time

from proxy.gateway.exchange import Incoming, Prepared
from proxy.turns import Miss, TurnReport


class Marking:
    """Puts a mark behind the body, and remembers what it was given and told."""

    reads_files = False

    def __init__(self, fallback: bytes | None = b"", *, slow: float = 0.0) -> None:
        self.fallback = fallback
        self.slow = slow
        self.incoming: list[Incoming] = []
        self.outcomes: list = []
        self.threads: list[bool] = []

    def prepare(self, request: Incoming) -> Prepared:
        self.incoming.append(request)
        self.threads.append(threading.current_thread() is threading.main_thread())
        time.sleep(self.slow if len(request.body) > 2**20 else 0)
        fallback = request.body if self.fallback == b"" else self.fallback
        return Prepared(
            body=request.body + b" marked",
            spare=None if fallback is None else lambda: fallback,
            changed=True,
            commit=not request.path.endswith("/count_tokens"),
            report=TurnReport(
                conversation="c1",
                number=3,
                agent="claude-code",
                model="m",
                edits={"relocate": 2},
                reclaimed={"stale": 700},
                held={"compact": 1},
                structure={"tool result": 0.75, "user": 0.25},
                tool_result_mean_chars=1234.4,
                expected_cached=80,
            ),
            memo=len(self.incoming),
        )

    def settle(self, prepared: Prepared, outcome) -> Miss | None:
        self.outcomes.append((prepared.memo, outcome))
        return Miss("expired", "7 minutes") if outcome.name == "ok" else None


class Watching:
    """Changes nothing, and remembers."""

    reads_files = False

    def __init__(self) -> None:
        self.incoming: list[Incoming] = []
        self.outcomes: list = []

    def prepare(self, request: Incoming) -> Prepared:
        self.incoming.append(request)
        return Prepared(body=request.body)

    def settle(self, prepared: Prepared, outcome) -> None:
        self.outcomes.append(outcome)


class Failing:
    """Raises, with the body in its message."""

    reads_files = False

    def __init__(self, where: str) -> None:
        self.where = where

    def prepare(self, request: Incoming) -> Prepared:
        if self.where == "prepare":
            raise KeyError(request.body.decode())
        return Prepared(body=request.body + b" marked", changed=True)

    def settle(self, prepared: Prepared, outcome) -> None:
        raise KeyError(prepared.body.decode())
