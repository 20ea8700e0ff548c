"""A policy in a screen: its stages, and what it sets otherwise than the policy it extends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from .policy import STAGES, PolicyFile

_CONDITIONS = ("upstream", "agent", "model")


def outline(file: PolicyFile, parent: PolicyFile | None, *, every: bool = False) -> list[str]:
    """Lines on a policy: each stage on or off, with the options that differ from its parent's, and what they were.

    Of a policy that extends nothing, the options that are not the stage's own defaults. `every`: all options.
    """
    lines = []
    for stage in STAGES:
        value, base = getattr(file, stage), getattr(parent, stage, None)
        words = [_switch(value, base)]
        if isinstance(value, Struct):
            words.append(", ".join(_options(value, base if isinstance(base, Struct) else None, every=every)))
        lines.append(f"  {stage:<12} {'  '.join(filter(None, words))}")
    return lines + [f"  {'when':<12} {_when(entry)}" for entry in file.when]


def _switch(value: object, base: object) -> str:
    """`on` or `off`, and what the parent has where that is the other."""
    now, then = ("off" if one == "off" else "on" for one in (value, base))
    return now if base is None or now == then else f"{now} (was {then})"


def _options(value: Struct, base: Struct | None, *, every: bool) -> Iterator[str]:
    now: dict[str, Any] = msgspec.to_builtins(value)
    then: dict[str, Any] = msgspec.to_builtins(base or type(value)())
    for name, said in now.items():
        if said == then[name] or base is None:
            if every or said != then[name]:
                yield f"{name} {_plain(said)}"
        elif isinstance(said, dict) and not every:
            other = {key: one for key, one in said.items() if then[name].get(key) != one}
            yield f"{name} {_plain(other)} (the rest as it was)"
        else:
            yield f"{name} {_plain(said)} (was {_plain(then[name])})"


def _when(entry: Struct) -> str:
    given = {name: value for name, value in msgspec.to_builtins(entry).items() if value is not None}
    conditions = ", ".join(f"{name} {given[name]}" for name in _CONDITIONS if name in given)
    stages = ", ".join(f"{name} {_plain(given[name])}" for name in STAGES if name in given)
    return f"{conditions}: {stages or 'nothing'}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
