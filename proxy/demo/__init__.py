"""`stet demo`: coding sessions against the embedded provider, each played directly and through the proxy.

    plan, project   what the person asks, what the model does, what the tools return: one play of forty answers
    sessions        five clients, each with one habit that real clients have
    short           two clients of each other format, for fewer turns
    client, faults  the client: a history, kept and sent; wire: its connection
    running         provider and proxy on free ports, by one clock that is moved by hand
    playing         a session, turn by turn, directly and through the proxy at the same time
    figures, table  what the provider counted, and how that is shown

Tokens, refusals and costs are the provider's own; the proxy is only asked what it edited.
"""

from __future__ import annotations

import sys
from functools import partial
from http.client import HTTPException

import msgspec
from msgspec import Struct

from ..errors import StetError
from ..gateway.console import columns
from ..policy import load_policy
from .figures import Edited, Figures, edited, figures
from .plan import TURNS
from .playing import play
from .running import HOST, Running
from .sessions import CLEAN, SESSIONS
from .short import TURNS as SHORT_TURNS
from .short import Short, short_sessions
from .table import Progress, report

_UNFOLDED = 100
"""Columns where nothing says how many there are."""

WARMING = 6
"""Turns played on both paths before anything is measured."""


class Demonstration(Struct, frozen=True):
    """All that was found out; what `--json` prints."""

    policy: str
    sessions: list[Figures]
    edits: list[Edited]


def run_demo(policy: str = "default", *, as_json: bool = False) -> int:
    """Play all sessions and print what came of it; the exit code: 1 where the proxy failed and stood aside.

    Raises StetError where the policy is wrong or a port cannot be had.
    """
    progress = Progress(sys.stderr)
    found = demonstrate(policy, progress)
    if as_json:
        shown = msgspec.json.encode(found).decode()
    else:
        shown = report(found.policy, found.sessions, found.edits, columns(sys.stdout) or _UNFOLDED)
    sys.stdout.write(f"{shown}\n")
    return 1 if any(one.failed_open for one in found.edits) else 0


def demonstrate(policy: str, progress: Progress) -> Demonstration:
    """Play all sessions, one after the other. Raises StetError."""
    policies = load_policy(policy)
    lines: list[Figures] = []
    edits: list[Edited] = []
    try:
        with Running(policies) as running:
            play(running, CLEAN, WARMING, after_turn=lambda _: None)
            lengths = dict.fromkeys(SESSIONS, TURNS) | dict.fromkeys(short_sessions(), SHORT_TURNS)
            for session, turns in lengths.items():
                began = running.next_evening()
                told = partial(progress.turn, session.name, turns=turns)
                direct, through = play(running, session, turns, after_turn=told)
                keeps_all = isinstance(session, Short) and session.dialect == "gemini"
                lines.append(figures(session.name, "direct", direct, direct, keeps_all=keeps_all))
                lines.append(figures(session.name, "stet", through, direct, keeps_all=keeps_all))
                edits.append(edited(session.name, through, running.turns(began, turns)))
    except (OSError, HTTPException) as fault:
        raise StetError(
            f"provider or proxy cannot be reached: {str(fault) or type(fault).__name__}",
            "demo",
            f"free a port of {HOST}",
        ) from fault
    finally:
        progress.done()
    return Demonstration(policies.file.name, lines, edits)
