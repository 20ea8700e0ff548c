"""What a terminal is told and a reader never sees leaves the output of commands as it arrives.

Colours and other escape sequences go, and of a line that was drawn again and again (a progress bar) the last state
stays, as on a screen. Where the policy says so, blanks at line ends go too. No visible character of the text is lost,
and a line that ends in CR LF keeps both. Only tools that run commands are touched: what a tool returns as the exact
content of a file is copied from, and there each blank counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from msgspec import Struct, structs

from ..conversation import ToolResult
from ..economics import BYTES_PER_TOKEN
from ..edits import Replace, target_of
from .contents import retold
from .results import latest_calls
from .view import Proposal, Region, View, causal

NAME = "noise"

COMMANDS = (
    "*[Bb]ash*",
    "*[Ss]hell*",
    "*[Cc]ommand*",
    "*[Ee]xec*",
    "*[Tt]erminal*",
    "*[Pp]rocess*",
    "run",
)
"""Names of tools that run commands, as agents call them."""

LEAST = 64
"""Bytes that must go: a note of the change is kept for as long as the conversation, and takes more than that."""

# Changing these changes prompts that are sent from then on, not those already sent.
ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, erasing
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links; the text of a link stands outside
    r"|[PX^_][^\x1b]*\x1b\\"  # strings for the device
    r"|[ -/]*[0-~])"  # all others
)
ERASURE = re.compile(r"\x1b\[[0-?]*[JK]")
BLANKS = re.compile(r"(?<![ \t])[ \t]++(?=\r?\n|\Z)")

_TERMINAL = re.compile(rb"\\u001[bB]|\\r(?!\\n)")
_BLANKS = re.compile(rb'(?:[ \t]|\\t)(?:(?:\\r)?\\n|")')


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tools`: names or globs of tools that run commands; what other tools return stays as it is.

    `terminal`: escape sequences go, and all but the last state of a line drawn anew. `blanks`: blanks at line ends go.
    """

    tools: tuple[str, ...] = COMMANDS
    terminal: bool = True
    blanks: bool = False


def propose(view: View, config: Config) -> Proposal:
    """Outputs that arrived, without their noise."""
    return causal(NAME, [*_edits(view, config)])


def _edits(view: View, config: Config) -> Iterator[Replace]:
    calls = None
    for _, part, region in view.fresh():
        if region is not Region.NEW or not isinstance(part, ToolResult) or part.server or not part.content:
            continue
        if not _may_be_noisy(part.content, config):
            continue
        calls = latest_calls(view) if calls is None else calls
        call = calls.get(part.call_id)
        if call is None or not any(fnmatchcase(call.name, glob) for glob in config.tools):
            continue
        content = retold(part.content, lambda text: _changed(text, config))
        if content is not None and len(part.content) - len(content) >= LEAST:
            yield _edit(part, content, len(part.content) - len(content))


def _may_be_noisy(content: bytes, config: Config) -> bool:
    """Whether it is worth reading the text: in JSON the characters in question are spelt as escapes."""
    return (config.terminal and _TERMINAL.search(content) is not None) or (
        config.blanks and _BLANKS.search(content) is not None
    )


def _edit(part: ToolResult, content: bytes, less: int) -> Replace:
    return Replace(
        stage=NAME,
        reason="what a terminal is told and nobody reads",
        target=target_of(part),
        part=structs.replace(part, content=content, size=part.size - less),
        tokens_before=part.size // BYTES_PER_TOKEN,
        tokens_after=(part.size - less) // BYTES_PER_TOKEN,
    )


def _changed(text: str, config: Config) -> str | None:
    new = quiet(text, config)
    return None if new == text else new


def quiet(text: str, config: Config) -> str:
    """The text as a terminal leaves it."""
    if config.terminal and ("\x1b" in text or "\r" in text):
        text = "\n".join(_settled(line) for line in text.split("\n"))
    return BLANKS.sub("", text) if config.blanks else text


def _settled(line: str) -> str:
    """The last state of a line without escape sequences; what ends it, CR LF, stays."""
    drawn = line.rstrip("\r")
    end = "\r" if len(drawn) < len(line) else ""
    for state in reversed(drawn.split("\r")):
        seen = ESCAPE.sub("", state)
        if seen or ERASURE.search(state):
            return seen + end
    return end
