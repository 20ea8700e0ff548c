"""One session, played by two clients side by side: one talks to the provider, one to the proxy.

They go turn by turn, so that both live through the same times of day and the same load of this machine.
"""

from __future__ import annotations

from collections.abc import Callable

from ..simulator import Exchange
from .client import CodingAgent, headers
from .figures import Played
from .plan import TURNS
from .running import HOST, Running, upstream_of
from .sessions import Disposition
from .short import Short, ShortAgent, agent_of
from .wire import Answered, Wire

SIGNED = {
    "anthropic": b'"signature"',
    "openai_chat": b"",
    "openai_responses": b'"encrypted_content"',
    "gemini": b'"thoughtSignature"',
}
"""By dialect: what reasoning that came back is known by; empty where none comes back."""


class _Seat:
    """A client on one of the paths, and what came of its turns so far."""

    def __init__(self, running: Running, session: Disposition | Short, *, direct: bool) -> None:
        self._dialect = "anthropic" if isinstance(session, Disposition) else session.dialect
        self._running = running
        self.agent = self._agent(session, direct=direct)
        self._answers: list[Answered] = []
        self._exchanges: list[Exchange] = []
        self._thinking = 0

    def _agent(self, session: Disposition | Short, *, direct: bool) -> CodingAgent | ShortAgent:
        path = "direct" if direct else "stet"
        key = f"{session.name}-{path}-{self._running.clock():.0f}".replace(" ", "-")
        port = self._running.port_of(self._dialect) if direct else self._running.port
        if isinstance(session, Short):
            prefix = "" if direct else f"/{upstream_of(self._dialect)}"
            return agent_of(session, HOST, port, key, self._running.clock, prefix)
        return CodingAgent(session, Wire(HOST, port, headers(session, key)), self._running.clock)

    def turn(self) -> None:
        log = self._running.log(self._dialect)
        begun = len(log)
        self._answers.append(self.agent.turn())
        self._exchanges += log[begun:]
        mark = SIGNED[self._dialect]
        if mark and len(log) > begun:
            self._thinking = self._running.body.count(mark) - len(log[-1].dropped)

    def played(self) -> Played:
        return Played(tuple(self._answers), tuple(self._exchanges), self._thinking)


def play(
    running: Running, session: Disposition | Short, turns: int = TURNS, *, after_turn: Callable[[int], None]
) -> tuple[Played, Played]:
    """Play a session of so many turns: directly, and through the proxy. `after_turn` hears how many are over.

    Raises OSError where a connection fails.
    """
    seats = (_Seat(running, session, direct=True), _Seat(running, session, direct=False))
    try:
        for turn in range(1, turns + 1):
            running.clock.advance(max(seat.agent.pause for seat in seats))
            for seat in seats:
                seat.turn()
            after_turn(turn)
    finally:
        for seat in seats:
            seat.agent.wire.close()
    direct, through = seats
    return direct.played(), through.played()
