"""Reminders that the policy adds: project files, the environment, fixed texts, a hint after a failed call.

Each stands in a container that names its source, behind results and before what the person says, and is told again
only when it changed. Files and environment come in with the facts: what is to be read is the policy's to say, and from
where the server's.

For one turn only (`persist: turn`) each stands at the very end of every request, as it is then, and never in the history:
where the provider can forget it without harm. It can where it caches nothing, or nothing but what stands in front of a
mark, for a mark stands in front of it; and where no thinking is bound to what it was thought behind [A45]. Elsewhere what
was once sent has to stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ..conversation import Role, Source, Text, ToolResult
from ..edits import Edit, Held
from ..identity import digest
from .contents import text_of
from .telling import as_data, briefly, tail
from .view import NOTHING, Proposal, Region, View

NAME = "inject"

# The model reads these. Changing a word changes prompts that are sent from then on, not those already sent.
FILE = "Contents of {name}, a file of this project with conventions for work on it:\n\n{text}"
FILE_AGAIN = "{name} has changed. Its contents are now:\n\n{text}"
ENVIRONMENT = "{name}: {value}"

LONGEST_FILE = 40_000
"""Characters of a file that are told."""

Name = Annotated[str, Meta(min_length=1, max_length=200)]


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`files`: names of project files, below the folder that the server has as `project`. `environment`: date and
    platform. `texts`: fixed ones by a name of yours, for instance a warning about a production host. `on_error`: a hint
    for the first failed call behind each message of a person. `persist: turn`: all of it for one turn only, where that can
    be; a hint then follows each failed call."""

    files: tuple[Name, ...] = ()
    environment: bool = False
    texts: dict[str, Annotated[str, Meta(min_length=1, max_length=20_000)]] = {}
    on_error: Annotated[str, Meta(max_length=20_000)] = ""
    persist: Literal["ever", "turn"] = "ever"


class _Item(Struct, frozen=True):
    """Something to tell, with what tells whether it changed."""

    name: str
    value: str
    source: Source
    text: str


def propose(view: View, config: Config) -> Proposal:
    """Tell what is not told yet, or was told otherwise; or all of it, for this turn."""
    bound = _bound(view) if config.persist == "turn" else ""
    if config.persist == "turn" and not bound:
        return _briefly(view, config)
    place = tail(view)
    if place is None:
        return NOTHING
    items = _items(view, config, human=place.human, brief=False)
    new = [item for item in items if view.announced.get(item.name) != item.value]
    if not new:
        return NOTHING
    edits: list[Edit] = [
        place.told(NAME, f"the policy adds {_name(item)}", item.source, item.text, item.name) for item in new
    ]
    promise = place.promise(NAME, edits, [(item.name, item.value) for item in new])
    return Proposal(promises=(promise,), held=(_held(edits, bound),) if bound else ())


def _name(item: _Item) -> str:
    return item.name.partition("/")[2]


def _held(edits: Sequence[Edit], bound: str) -> Held:
    return Held(
        stage=NAME,
        reason=f"told for good: {bound}",
        targets=len(edits),
        breaks_tokens=0,
        saves_tokens=sum(edit.tokens_after for edit in edits),
    )


def _bound(view: View) -> str:
    """Why what is told cannot be taken back; "" where it can."""
    model, conversation = view.facts.model, view.conversation
    if model.prefix_check:
        return "thinking is bound to what stands before it [A45]"
    if conversation.automatic_mark is not None:
        return "the client has the end itself cached [B4]"
    if model.regime not in ("breakpoints", "none"):
        return "the provider caches all of the prompt [B109]"
    return ""


def _briefly(view: View, config: Config) -> Proposal:
    found = [
        briefly(
            view, NAME, f"the policy adds {_name(item)}, for this turn", item.source, item.text, item.name
        )
        for item in _items(view, config, human=True, brief=True)
    ]
    return Proposal(brief=tuple(edit for edit in found if edit is not None))


def _items(view: View, config: Config, *, human: bool, brief: bool) -> Iterator[_Item]:
    facts = view.facts
    for name in config.files:
        text = facts.files.get(name)
        if text is None:
            continue
        key = f"{NAME}/{name}"
        frame = FILE_AGAIN if key in view.announced else FILE
        told = frame.format(name=name, text=as_data(text.rstrip("\n"), LONGEST_FILE))
        yield _Item(key, _digest(text), Source.PROJECT_FILES, told)
    # A date that changed in the middle of a task is no news to it.
    if config.environment and (human or not any(n.startswith(f"{NAME}/") for n in view.announced)):
        for name, value in facts.environment.items():
            told = ENVIRONMENT.format(name=name, value=as_data(value))
            yield _Item(f"{NAME}/{name}", value, Source.ENVIRONMENT, told)
    for name, text in config.texts.items():
        yield _Item(f"{NAME}/text {name}", _digest(text), Source.REMINDER, text)
    if config.on_error and _failed(view, again=brief):
        yield _Item(
            f"{NAME}/hint", f"{_people(view)} {_digest(config.on_error)}", Source.REMINDER, config.on_error
        )


def _digest(text: str) -> str:
    return digest(b"told", text.encode("utf-8", "surrogatepass")).hex()


def _failed(view: View, *, again: bool) -> bool:
    """Whether a call failed whose result is new; `again`: or is what this request was sent for, once more."""
    messages = view.conversation.messages
    newest = messages[view.conversation.last(Role.ASSISTANT) + 1 :] if again else ()
    fresh = [part for _, part, region in view.fresh() if region is Region.NEW]
    return any(
        isinstance(part, ToolResult) and (part.is_error or _says_failed(view, part))
        for part in (*fresh, *(part for message in newest for part in message.parts))
    )


def _says_failed(view: View, part: ToolResult) -> bool:
    """Whether its text says so, where no flag does."""
    text = text_of(part.content) if part.content is not None else None
    return text is not None and view.facts.agent.says_failed(text)


def _people(view: View) -> int:
    """Messages of people so far."""
    return sum(
        message.role is Role.USER
        and any(isinstance(part, Text) and part.text.strip() for part in message.parts)
        for message in view.client.messages
    )


PLAIN_NAME = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))[^/\\\0][^\\\0]*")
"""A relative path without steps up."""
