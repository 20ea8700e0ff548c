"""A fault in words that may be logged: its kind and its place in our code, never its message.

An exception from the depths of a parser may quote the body.
"""

from __future__ import annotations

from pathlib import Path
from traceback import FrameSummary, extract_tb

_PACKAGE = Path(__file__).resolve().parents[1]
_FRAMES = 12


def named(fault: BaseException) -> str:
    """The kind of a fault and the innermost place of ours that it passed: `KeyError in stages/stale.py:120 propose`."""
    ours = [frame for frame in _frames(fault) if _PACKAGE in Path(frame.filename).parents]
    kind = type(fault).__name__
    return f"{kind} in {_place(ours[-1], short=False)}" if ours else kind


def trace(fault: BaseException) -> list[str]:
    """Its innermost frames, the innermost last: `stale.py:120 propose`."""
    return [_place(frame, short=True) for frame in _frames(fault)][-_FRAMES:]


def _frames(fault: BaseException) -> list[FrameSummary]:
    return list(extract_tb(fault.__traceback__))


def _place(frame: FrameSummary, *, short: bool) -> str:
    path = Path(frame.filename)
    shown = path.name if short else path.relative_to(_PACKAGE).as_posix()
    return f"{shown}:{frame.lineno} {frame.name}"
