"""One session, played by two clients side by side: one talks to the provider, one to the proxy.

They go turn by turn, so that both live through the same times of day and the same load of this machine.
"""

from __future__ import annotations

from collections.abc import Callable

from ..simulator import Exchange
from .client import CodingAgent, headers
from .figures import Played
from .plan import TURNS
from .running import HOST, Running
from .sessions import Disposition
from .wire import Answered, Wire


class _Seat:
    """A client on one of the paths, and what came of its turns so far."""

    def __init__(self, running: Running, session: Disposition, path: str, port: int) -> None:
        key = f"{session.name}-{path}-{running.clock():.0f}".replace(" ", "-")
        self.wire = Wire(HOST, port, headers(session, key))
        self.agent = CodingAgent(session, self.wire, running.clock)
        self._running = running
        self._answers: list[Answered] = []
        self._exchanges: list[Exchange] = []
        self._thinking = 0

    def turn(self) -> None:
        log = self._running.provider.log
        begun = len(log)
        self._answers.append(self.agent.turn())
        self._exchanges += log[begun:]
        self._thinking = self._running.body.count(b'"signature"')

    def played(self) -> Played:
        return Played(tuple(self._answers), tuple(self._exchanges), self._thinking)


def play(
    running: Running, session: Disposition, turns: int = TURNS, *, after_turn: Callable[[int], None]
) -> tuple[Played, Played]:
    """Play a session of so many turns: directly, and through the proxy. `after_turn` hears how many are over.

    Raises OSError where a connection fails.
    """
    seats = (
        _Seat(running, session, "direct", running.provider_port),
        _Seat(running, session, "stet", running.port),
    )
    try:
        for turn in range(1, turns + 1):
            running.clock.advance(max(seat.agent.pause for seat in seats))
            for seat in seats:
                seat.turn()
            after_turn(turn)
    finally:
        for seat in seats:
            seat.wire.close()
    direct, through = seats
    return direct.played(), through.played()
