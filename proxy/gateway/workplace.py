"""Where an agent says that it works: in its system prompt, or in what it injects at the opening of a conversation.

What people write is not looked at, nor any result. Still, what a request says proves nothing: whoever uses it sees to
it that it leads nowhere it should not (`projectfiles`).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from ..agents import Agent
from ..conversation import Reminder, text_of
from ..dialects import Dialect, Opened
from ..errors import BodyError

_OPENING = 4
"""Messages at the beginning that are looked at: agents say it there, if not in the system prompt."""


def workplace(opened: Opened | None, dialect: Dialect, agent: Agent) -> str:
    """The absolute path of the directory, as the agent says it; "" where it says none."""
    if opened is None:
        return ""
    try:
        return next(filter(None, map(agent.workplace, _said(opened, dialect, agent))), "")
    except BodyError:
        return ""


def _said(opened: Opened, dialect: Dialect, agent: Agent) -> Iterator[str]:
    opening = dialect.read(structs.replace(opened, messages=opened.messages[:_OPENING]))
    yield from filter(None, map(text_of, opening.system))
    for message in map(agent.recognise, opening.messages):
        yield from (part.text for part in message.parts if isinstance(part, Reminder))
