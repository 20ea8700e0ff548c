"""The sessions: one play, five clients. Each client does one thing that real ones were seen to do."""

from __future__ import annotations

from msgspec import Struct


class Disposition(Struct, frozen=True, kw_only=True):
    """How a client sends its requests.

    marks      puts cache marks on its system prompt and its last block, and streams
    clock      has a line with the time in its system prompt
    breaks     loses results, keeps blank texts and copies of calls, and sends all of that again each turn
    reminds    puts reminders in front of the conversation and renders them anew when they change
    """

    name: str
    model: str = "claude-opus-5"
    marks: bool = True
    clock: bool = False
    breaks: bool = False
    reminds: bool = False


CLEAN = Disposition(name="clean client")
CHANGING = Disposition(name="changing system line", clock=True)
UNMARKED = Disposition(name="no breakpoints", marks=False)
BROKEN = Disposition(name="broken history", breaks=True)
CHECKED = Disposition(name="prefix-checked model", model="claude-opus-5-5", reminds=True)

SESSIONS = (CLEAN, CHANGING, UNMARKED, BROKEN, CHECKED)
