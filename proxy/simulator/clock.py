"""A clock that can be set: it runs, or stands still and is moved by hand."""

import time


class Clock:
    """Seconds since some start. `frozen` stands still; `advance` moves either kind."""

    def __init__(self, start: float = 0.0, *, frozen: bool = False) -> None:
        self._offset = start
        self._frozen = frozen
        self._origin = time.monotonic()

    def __call__(self) -> float:
        return self._offset + (0.0 if self._frozen else time.monotonic() - self._origin)

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self._offset += seconds
