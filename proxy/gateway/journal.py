"""Where a finished turn goes: the log, the metrics, and a bounded ring of recent turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ..turns import Turn
from .log import Logger, fault_fields, turn_fields
from .metrics import Metrics

_KEPT = 500


class Journal:
    """Takes every turn once. A full disk or a closed pipe costs a line, never a request."""

    def __init__(self, logger: Logger, metrics: Metrics) -> None:
        self.logger = logger
        self.metrics = metrics
        self._recent: deque[Turn] = deque(maxlen=_KEPT)

    def write(self, turn: Turn) -> None:
        """Log and count a turn. Never raises."""
        self._recent.append(turn)
        try:
            self.metrics.observe(turn)
            self.logger.info("turn", **turn_fields(turn))
        except Exception:  # noqa: BLE001  the line may have failed for the very stream that would report it
            self.metrics.failed_open("log")

    def failed_open(self, where: str, fault: BaseException) -> None:
        """Count and log a fault of ours that the request goes past. Never raises."""
        self.metrics.failed_open(where)
        try:
            self.logger.error("failed_open", where=where, **fault_fields(fault))
        except Exception:  # noqa: BLE001  as above
            self.metrics.failed_open("log")

    def recent(self) -> Iterator[Turn]:
        """The newest turns first."""
        return reversed(self._recent)
