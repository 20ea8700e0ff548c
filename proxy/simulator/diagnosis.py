"""Why a prompt missed the cache, told by the provider itself where a client asks [B20]."""

from typing import Any

import msgspec

from .render import Position
from .request import Request


class _Fingerprint(msgspec.Struct, frozen=True):
    model: str
    positions: tuple[Position, ...]


class Diagnoses:
    """Fingerprints of the requests that asked for diagnostics, by the id of their answer."""

    def __init__(self) -> None:
        self._seen: dict[str, _Fingerprint] = {}

    def remember(self, request: Request, message_id: str, positions: list[Position]) -> None:
        """Keep what a request looked like, if it carried `diagnostics`."""
        if request.body.get("diagnostics") is not None:
            self._seen[message_id] = _Fingerprint(_model(request), tuple(positions))

    def diagnose(self, request: Request, positions: list[Position]) -> dict[str, Any] | None:
        """What changed since the message named: None at first, and a null reason where nothing did."""
        previous = (request.body.get("diagnostics") or {}).get("previous_message_id")
        if previous is None:
            return None
        before = self._seen.get(previous)
        if before is None:
            return {"cache_miss_reason": {"type": "previous_message_not_found"}}
        if before.model != _model(request):
            return _reason("model_changed", before.positions, 0)
        for index, old in enumerate(before.positions):
            if index >= len(positions) or positions[index].chain != old.chain:
                return _reason(f"{old.section}_changed", before.positions, index)
        return {"cache_miss_reason": None}


def _model(request: Request) -> str:
    return f"{request.body['model']}/{request.body.get('speed') or 'standard'}"


def _reason(kind: str, positions: tuple[Position, ...], index: int) -> dict[str, Any]:
    missed = sum(position.tokens for position in positions[index:])
    return {"cache_miss_reason": {"type": kind, "cache_missed_input_tokens": missed}}
