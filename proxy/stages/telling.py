"""Where the model is told something by us, and as what: a reminder at the tail that names where it is from.

What is told stays in the history for ever, so it is told once and again when it changed; what stands told is known from
the ledger (`View.announced`), never from text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from ..branch import Promise
from ..conversation import Part, Reminder, Role, Source, Text, ToolCall, ToolResult
from ..edits import Edit, InsertAfter, InsertBefore, Target, target_of
from .view import Region, View, weight

# The model reads this frame. Changing it invalidates prompt caches and thinking blocks.
NOTE = '<system-reminder source="{source}">\n{text}\n</system-reminder>'
LEFT_OUT = "\n[{more} more characters are left out here]\n"

LONGEST_TOLD = 4000
"""Characters of a value that are told: what is told stays in the history, and a long status may change every turn."""

# Project text may stand in a value (a commit's subject, a file's name): it must not end the frame it is told in.
_FRAME_TAG = re.compile(r"<(?=\s{0,8}/?\s{0,8}system-reminder)", re.IGNORECASE)


def as_data(value: str, most: int = LONGEST_TOLD) -> str:
    """A value as it is told: it cannot end its frame, and has an end of its own, if possible behind a line."""
    if len(value) > most:
        line_end = value.rfind("\n", most // 2, most)
        most = line_end if line_end >= 0 else most
    told = _FRAME_TAG.sub("&lt;", value[:most])
    more = len(value) - most
    return f"{told}{LEFT_OUT.format(more=more)}" if more > 0 else told


_TOLD = "told "


def is_told(reminder: Reminder) -> bool:
    """Whether it was told by us: the ledger says that it stands, so the newest about each thing has to."""
    return reminder.name.startswith(_TOLD)


_BRIEF = "told once "


def is_brief(reminder: Reminder) -> bool:
    """Whether it was told by us and is no part of what the next request has."""
    return reminder.name.startswith(_BRIEF)


def briefly(view: View, stage: str, reason: str, source: Source, text: str, about: str) -> Edit | None:
    """A reminder at the very end of this request, behind all that a mark may stand on; None where no turn of the user's
    ends it, or nothing may stand behind its results."""
    messages = view.conversation.messages
    at = next((place for place in range(len(messages) - 1, -1, -1) if messages[place].written), -1)
    message = messages[at] if at >= 0 else None
    if message is None or message.role is not Role.USER or not message.parts or _waits_for_server(view, at):
        return None
    part = _reminder(source, text, f"{_BRIEF}{about}")
    last = target_of(message.parts[-1])
    return InsertAfter(stage=stage, reason=reason, target=last, part=part, tokens_after=weight(part))


def _reminder(source: Source, text: str, name: str) -> Reminder:
    framed = NOTE.format(source=source.value, text=text)
    return Reminder(text=framed, source=source, name=name, size=len(framed.encode()))


class Tail(Struct, frozen=True):
    """Where something is told: beside `target`; whether a person speaks in this turn. With `role` it is a message."""

    target: Target
    before: bool
    human: bool
    role: Role | None = None

    def promise(self, stage: str, edits: Sequence[Edit], announces: Sequence[tuple[str, str]]) -> Promise:
        """That what is told here stands here for ever."""
        return Promise(
            anchor=self.target.key,
            nth=self.target.nth,
            stage=stage,
            edits=tuple(edits),
            announces=tuple(announces),
        )

    def told(self, stage: str, reason: str, source: Source, text: str, about: str) -> Edit:
        """A reminder with this text, put here in the name of a stage. `about`: what it tells; the newest one counts."""
        part = _reminder(source, text, f"{_TOLD}{about}")
        insert = InsertBefore if self.before else InsertAfter
        return insert(
            stage=stage,
            reason=reason,
            target=self.target,
            part=part,
            role=self.role,
            tokens_after=weight(part),
        )


def tail(view: View) -> Tail | None:
    """After the results and before the person's text of the newest turn; nowhere if nothing of it is new.

    Where the model waits for a server tool beside our results, the turn may hold results alone [A31]. Where results are
    messages of their own, it is another message behind them, if the upstream takes one there.
    """
    messages = view.conversation.messages
    at = next((place for place in range(len(messages) - 1, -1, -1) if messages[place].written), -1)
    if at >= 0 and messages[at].role is Role.TOOL:
        return _behind_results(view, messages[at].parts)
    if at < 0 or messages[at].role is not Role.USER:
        return None
    parts = messages[at].parts
    texts = [
        part
        for part in parts
        if isinstance(part, Text) and view.region(part) is Region.NEW and part.text.strip()
    ]
    if texts:
        return Tail(target_of(texts[0]), before=True, human=True)
    last = parts[-1] if parts else None
    if isinstance(last, ToolResult) and view.region(last) is Region.NEW and not _waits_for_server(view, at):
        return Tail(target_of(last), before=False, human=False)
    return None


_TELLERS = {"system": Role.SYSTEM, "user": Role.USER}


def _behind_results(view: View, results: Sequence[Part]) -> Tail | None:
    role = _TELLERS.get(view.facts.model.told_behind_results)
    last = results[-1] if results else None
    if role is None or last is None or view.region(last) is not Region.NEW:
        return None
    return Tail(target_of(last), before=False, human=False, role=role)


def _waits_for_server(view: View, at: int) -> bool:
    if at == 0:
        return False
    parts = view.conversation.messages[at - 1].parts
    served = {part.call_id for part in parts if isinstance(part, ToolResult) and part.server}
    return any(isinstance(part, ToolCall) and part.server and part.id not in served for part in parts)
