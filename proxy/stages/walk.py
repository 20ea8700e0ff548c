"""The walk of `balance` along the turns: its settings, and what it remembers on the way."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ..branch import Promise
from ..conversation import Message, Part, Role, Text, ToolCall
from ..edits import Edit, Remove, Target, target_of
from ..identity import end_of_turn
from .view import View, weight

NAME = "balance"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`missing`: fill in lost results. `orphans`: results without a call. `order`: order of blocks and turns."""

    missing: bool = True
    orphans: bool = True
    order: bool = True


class Ids:
    """Ids of calls: those of older runs of the history, and what comes to them while the turns are walked."""

    def __init__(self, older: Sequence[frozenset[str]], newer: set[str]) -> None:
        self._older = [ids for ids in older if ids]
        self._newer = newer

    def __contains__(self, call_id: object) -> bool:
        return call_id in self._newer or any(call_id in ids for ids in self._older)

    def add(self, call_id: str) -> None:
        self._newer.add(call_id)

    def update(self, call_ids: Iterable[str]) -> None:
        self._newer.update(call_ids)


class Walk(Struct):
    """The walk's memory: calls ever made, ids answered, the edits found, and what leaves by them. `coming`: for each
    id the place of the last message with a result of it; `named`: the messages by name, the first of each."""

    view: View
    config: Config
    calls: ChainMap[str, ToolCall]
    answered: Ids
    renamed: dict[str, str]
    served: Ids
    edits: list[Edit]
    promises: list[Promise]
    cut: list[Edit]
    gone: set[Target]
    coming: Mapping[str, int]
    named: dict[str, Message]


def drop(walk: Walk, part: Part, reason: str) -> bool:
    if walk.view.region(part) is None:
        return True
    walk.gone.add(target_of(part))
    walk.edits.append(
        Remove(stage=NAME, reason=reason, target=target_of(part), required=True, tokens_before=weight(part))
    )
    return False


def left(walk: Walk, message: Message) -> list[Part]:
    """The parts of a message that stay: nothing can be put behind one that leaves."""
    return [part for part in message.parts if target_of(part) not in walk.gone]


def standing(walk: Walk, run: Iterable[int]) -> list[Part]:
    """The parts of a run that stay and that a client sends again, which blank ones are not; all where none is."""
    messages = [walk.view.conversation.messages[at] for at in run]
    stays = [part for message in messages for part in left(walk, message)]
    kept = [part for part in stays if not is_blank(part)]
    return kept or stays or [part for message in messages for part in message.parts]


def lasting(walk: Walk, place: int, stage: str, edits: tuple[Edit, ...]) -> Promise:
    """A promise for as long as the turn that client message `place` belongs to ends as it does now.

    Where the model's turn may be several messages and nothing stands behind it yet, its next answer makes the turn a
    longer one, and what was sent stays sent: then it is promised under the last part there is.
    """
    client = walk.view.client.messages
    last = client[-1].parts[-1] if client[-1].parts else None
    open_end = all(message.role is Role.ASSISTANT for message in client[place:])
    if open_end and last is not None and not walk.view.rules.adjacent:
        return Promise(anchor=last.key, nth=last.nth, stage=f"{stage}.open", edits=edits)
    return Promise(anchor=end_of_turn(client, place), stage=stage, edits=edits)


def is_blank(part: Part) -> bool:
    return isinstance(part, Text) and not part.text.strip()
