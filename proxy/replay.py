"""Old promises, applied again: what was decided about a history holds for every request that extends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, structs

from .branch import Branch, Break, Promise, standing
from .conversation import Conversation, Key, Message, Reminder, Role
from .edits import Edit, InsertAfter, InsertBefore, Move, Replace, Target, apply, target_of, unchanged
from .identity import turn_end
from .passage import Passage
from .runs import follow

STALE, DEDUPE = "stale", "dedupe"


class Replayed(Struct, frozen=True, kw_only=True):
    """A conversation with its promises kept; `respelt` are reminders that the client wrote otherwise than first,
    `breaks` what the batches made along it cost, `regrets` how often a tool was asked again for what they took out."""

    conversation: Conversation
    edits: tuple[Edit, ...] = ()
    announced: Mapping[str, str] = {}
    cleared: frozenset[Target] = frozenset()
    breaks: tuple[Break, ...] = ()
    pointers: Mapping[Target, Target] = {}
    regrets: Mapping[str, int] = {}
    respelt: tuple[Reminder, ...] = ()
    reach: int = 0


def replay(passage: Passage) -> Replayed:
    """Apply what the branch promised to the client's conversation."""
    branch = passage.place.branch
    client = passage.client
    if branch is None:
        return Replayed(conversation=client)
    cut, prefix, edits, reach = _taken_over(passage, branch)
    found = sorted(_promised(client.messages, cut, branch.promises), key=lambda pair: pair[1].number)
    wanted = [edit for _, promise in found for edit in promise.edits]
    conversation = structs.replace(client, messages=(*prefix, *client.messages[cut:]))
    conversation = follow(conversation, passage.recent.sums if passage.recent is not None else ())
    skipped, respelt = _spellings(client.messages[cut:], wanted)
    conversation, applied = apply(
        conversation, [edit for edit in wanted if id(edit) not in skipped], len(prefix)
    )
    reach = max((at + 1 for at, promise in found if crosses(promise)), default=reach)
    every = [
        promise
        for group in branch.promises.values()
        for promise in group
        if promise.announces or promise.regret or promise.broke is not None or promise.stage == DEDUPE
    ]
    stand = standing(every, passage.keys)
    return Replayed(
        conversation=conversation,
        edits=(*edits, *applied),
        announced={name: value for promise in stand for name, value in promise.announces},
        cleared=frozenset(
            edit.target
            for promise in stand
            if promise.broke is not None
            for edit in promise.edits
            if isinstance(edit, Replace)
        ),
        breaks=tuple(promise.broke for promise in stand if promise.broke is not None),
        pointers=pointers(stand),
        regrets=Counter(promise.regret for promise in stand if promise.regret),
        respelt=respelt,
        reach=reach,
    )


def pointers(promises: Iterable[Promise]) -> dict[Target, Target]:
    """What points the model at an earlier part by these promises, and at which."""
    return {
        edit.target: edit.rests_on
        for promise in promises
        for edit in promise.edits
        if isinstance(edit, Replace) and edit.rests_on is not None
    }


def crosses(promise: Promise) -> bool:
    """Whether a promise binds more than the message of its anchor: then nothing before that stands on its own."""
    return any(
        isinstance(edit, Move)
        or edit.committed
        or edit.target.key != promise.anchor
        or (isinstance(edit, InsertBefore | InsertAfter) and edit.role is not None)
        for edit in promise.edits
    )


def _taken_over(passage: Passage, branch: Branch) -> tuple[int, tuple[Message, ...], tuple[Edit, ...], int]:
    """Up to the last answer that is the same bytes as last time, what was sent then is what is sent now."""
    recent = passage.recent
    if recent is None or recent.branch != branch.id:
        return 0, (), (), 0
    messages = passage.client.messages
    cut = next((at for at in range(passage.shared - 1, 0, -1) if messages[at].role is Role.ASSISTANT), 0)
    if recent.reach > cut or not cut or passage.counts[cut - 1] > passage.place.common:
        return 0, (), (), 0
    end = next(
        (at for at, message in enumerate(recent.sent[cut:], cut) if message.index >= cut), len(recent.sent)
    )
    later = (*recent.client[cut:], *recent.sent[end:])
    gone = {target_of(part) for message in later for part in message.parts}
    keys = {target.key for target in gone}
    return (
        cut,
        recent.sent[:end],
        tuple(edit for edit in recent.edits if edit.target.key not in keys or edit.target not in gone),
        recent.reach,
    )


def _promised(
    messages: tuple[Message, ...], cut: int, promises: Mapping[Key, tuple[Promise, ...]]
) -> Iterator[tuple[int, Promise]]:
    if not promises:
        return
    # A turn of blanks ends with the key of the turn before it: what is promised there holds once.
    ended = set(_ends(messages, cut))
    for at in range(cut, len(messages)):
        message = messages[at]
        for part in message.parts:
            yield from ((at, promise) for promise in promises.get(part.key, ()) if promise.nth == part.nth)
        model = message.role is Role.ASSISTANT
        if at + 1 == len(messages) or (messages[at + 1].role is Role.ASSISTANT) != model:
            end = turn_end(message.parts[-1].key, model=model)
            if end not in ended:
                ended.add(end)
                yield from ((at, promise) for promise in promises.get(end, ()))


def _ends(messages: tuple[Message, ...], cut: int) -> Iterator[Key]:
    """Ends of turns before message `cut` that a blank turn behind it would share."""
    at = cut
    while at and messages[at - 1].parts[-1].key == messages[cut - 1].parts[-1].key:
        at -= 1
        model = messages[at].role is Role.ASSISTANT
        if (messages[at + 1].role is Role.ASSISTANT) != model:
            yield turn_end(messages[at].parts[-1].key, model=model)


def _spellings(messages: tuple[Message, ...], edits: list[Edit]) -> tuple[set[int], tuple[Reminder, ...]]:
    """Replacements that say what stands there already, and the reminders whose replacement does not."""
    replacing = {edit.target: edit for edit in edits if isinstance(edit, Replace)}
    skipped: set[int] = set()
    respelt: list[Reminder] = []
    if replacing:
        for message in messages:
            for part in message.parts:
                edit = replacing.get(Target(part.key, part.nth))
                if edit is not None and unchanged(edit, part):
                    skipped.add(id(edit))
                elif edit is not None and isinstance(part, Reminder):
                    respelt.append(part)
    return skipped, tuple(respelt)
