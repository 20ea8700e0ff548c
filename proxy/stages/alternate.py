"""Who speaks after whom, where the upstream's template wants turns to alternate [A420 A430 A521].

Stands behind the stages that add and remove turns: what they leave side by side is what the template sees.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ..branch import Promise
from ..conversation import Message, Part, Reasoning, Role, Text
from ..edits import Edit, InsertBefore, Move, Target, target_of
from ..identity import end_of_turn
from .batch import theirs
from .view import Proposal, View, causal

NAME = "alternate"
OWN = f"{NAME}.own"

# The model reads this. Changing it invalidates every prompt cache behind it.
BETWEEN = "(interrupted)"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`merge`: neighbours of one role become one message. `between`: an answer goes between results and the user."""

    merge: bool = True
    between: bool = True


def propose(view: View, config: Config) -> Proposal:
    """Only where the upstream is known to refuse neighbours; so it may reach wherever we have not sent before."""
    edits: list[Edit] = []
    filled: list[Promise] = []
    for edit, under in _between(view) if config.between and not view.facts.model.user_after_results else ():
        if under is None:
            edits.append(edit)
        else:
            filled.append(Promise(anchor=under.key, nth=under.nth, stage=NAME, edits=(edit,)))
    if not config.merge or not view.facts.model.merge_same_role:
        return Proposal(promises=(*causal(NAME, edits).promises, *filled))
    joined = [*_merges(view)]
    edits += [edit for anchor, edit in joined if anchor is None]
    own: dict[Target, list[Edit]] = {}
    for anchor, edit in joined:
        if anchor is not None:
            own.setdefault(anchor, []).append(edit)
    placed = (Promise(anchor=t.key, nth=t.nth, stage=OWN, edits=tuple(group)) for t, group in own.items())
    return Proposal(promises=(*causal(NAME, edits).promises, *filled, *placed))


def _between(view: View) -> Iterator[tuple[Edit, Target | None]]:
    """A user who speaks right behind tool results is refused: an answer of one word goes between [A430].

    Where the results were put there it holds as long as they do, and is promised under what they are: those of the
    client that moved under themselves, ours until the turn goes on otherwise, under its end.
    """
    messages = view.conversation.messages
    start = view.start
    while start > 1 and messages[start - 1].role is not Role.ASSISTANT:
        start -= 1
    for at in range(max(1, start), len(messages)):
        parts = messages[at].parts  # what was told in front of the client's words stands there by them
        first = next(filter(theirs, parts), parts[0] if parts else None)
        if first is None or messages[at].role is not Role.USER:
            continue
        before = next((message for message in reversed(messages[:at]) if message.written), None)
        if before is None or before.role is not Role.TOOL:
            continue
        under = _held_by(view, before, first) if before.index < 0 else None
        if under is None and view.region(first) is None:
            continue
        edit = InsertBefore(
            stage=NAME,
            reason="no user behind tool results here [A430]",
            target=target_of(first),
            part=Text(text=BETWEEN, size=len(BETWEEN)),
            role=Role.ASSISTANT,
            required=True,
            tokens_after=len(BETWEEN) // 4,
        )
        yield edit, under


def _held_by(view: View, results: Message, first: Part) -> Target | None:
    """The part, or the end of a turn, that results in a message of ours stand under; they stand before `first`."""
    moved = next((part for part in reversed(results.parts) if theirs(part)), None)
    if moved is not None:
        return target_of(moved)
    client = view.client.messages
    for at in range(len(client) - 1, -1, -1):
        if any(target_of(part) == target_of(first) for part in client[at].parts):
            return Target(end_of_turn(client, at))
    return None


def _merges(view: View) -> Iterator[tuple[Target | None, Edit]]:
    """Neighbours of one role become one message [A420 A521 F26]. Reasoning stays at the head of its own.

    With the part that the move is promised under; None where that is the part itself. One of ours is none that a
    client sends again, so it moves as long as the client's part before it stands.
    """
    goal: Message | None = None
    sent: Part | None = None
    messages = view.conversation.messages
    start = view.start - 1
    while start > 0 and not messages[start].written:
        start -= 1
    for at in range(max(0, start), len(messages)):
        message, before = messages[at], sent
        if not message.written:
            continue
        sent = _keyed(message.parts) if message.index >= 0 and message.parts else sent
        if (
            goal is None
            or not _are_neighbours(view, goal, message)
            or any(isinstance(part, Reasoning) for part in message.parts)
        ):
            goal = message
            continue
        last = _keyed(goal.parts)
        for part in message.parts if last is not None else ():
            ours = message.index < 0 and before is not None
            if last is not None and (ours or view.region(part) is not None):
                yield (
                    target_of(before) if ours and before is not None else None,
                    Move(
                        stage=NAME,
                        reason="turns alternate here [A521]",
                        target=target_of(part),
                        to=target_of(last),
                        required=True,
                    ),
                )


def _are_neighbours(view: View, one: Message, other: Message) -> bool:
    """Whether the two may not stand side by side."""
    if one.role is not other.role or one.role not in (Role.USER, Role.ASSISTANT):
        return False
    return view.facts.model.calls_alternate or not (one.tally.calls or other.tally.calls)


def _keyed(parts: tuple[Part, ...]) -> Part | None:
    """The last part that a client sends again: nothing can be put behind one of ours, and blank ones come and go."""
    keyed = [part for part in parts if part.key]
    return next((part for part in reversed(keyed) if not _is_blank(part)), keyed[-1] if keyed else None)


def _is_blank(part: Part) -> bool:
    return isinstance(part, Text) and not part.text.strip()
