"""Sessions played both ways against one engine, each measured once."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import orjson

from .playing import Turn, play, processed_by
from .sessions import BRIEF, TURNS, Fault, Scale, session

Way = Literal["direct", "stet"]

LOG_SECONDS = 10


class Bench:
    """An engine, and a proxy before it: their URLs, and the proxy's log."""

    def __init__(self, engine: str, proxy: str, log: Path, scale: Scale = BRIEF) -> None:
        self.engine = engine
        self._bases: dict[Way, str] = {"direct": engine, "stet": f"{proxy}/local"}
        self._log = log
        self._scale = scale
        self._measured: dict[tuple[str, Fault, Way, int], list[Turn]] = {}

    def measured(self, format: str, fault: Fault, way: Way, turns: int = TURNS) -> list[Turn]:
        """The first turns of a client's session, which no other session shares a prefix with.

        Raises AssertionError where the engine's own total differs from what its answers say.
        """
        key = (format, fault, way, turns)
        if key not in self._measured:
            before = processed_by(self.engine)
            work = session(f"{len(self._measured):03d}-shop", self._scale)
            played = play(self._bases[way], format, fault, work, slice(turns))
            assert processed(played) == processed_by(self.engine) - before
            self._measured[key] = played
        return self._measured[key]

    def logged(self) -> list[dict[str, Any]]:
        """The lines of the proxy's log that tell of turns, one for each that was played through it.

        Waits for lines under way: each is written behind its answer. Raises AssertionError where one does not come.
        """
        played = sum(len(turns) for (_, _, way, _), turns in self._measured.items() if way == "stet")
        until = time.monotonic() + LOG_SECONDS
        while True:
            lines = [
                orjson.loads(line)
                for line in self._log.read_bytes().splitlines(keepends=True)
                if line.endswith(b"}\n")
            ]
            told = [line for line in lines if line["event"] == "turn"]
            if len(told) >= played:
                return told
            assert time.monotonic() < until, f"{len(told)} of {played} turns are in the log"
            time.sleep(0.05)


def processed(turns: Sequence[Turn]) -> int:
    """Tokens the engine read anew."""
    return sum(turn.processed for turn in turns)
