"""What a provider refuses for its form: blank texts, blank turns, the first and the last speaker.

What is blank leaves; nothing is filled with spaces, which are refused as well [A14]. A turn that would vanish
where a turn is needed gets one short constant text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, takewhile

from msgspec import Struct, structs

from ..branch import Promise
from ..conversation import (
    Message,
    Opaque,
    Part,
    Reasoning,
    Reminder,
    Role,
    Source,
    Text,
    ToolCall,
    ToolResult,
    may_hold_blanks,
)
from ..edits import Edit, InsertAfter, InsertBefore, JoinSystem, Move, Remove, Replace, Target, target_of
from ..identity import is_user_side
from ..rawjson import closed_array, encoded, is_array, is_string, items
from ..rules import Rules
from ..runs import runs
from .contents import text_in
from .view import Proposal, View, causal, weight

NAME = "normalize"

# The model reads these. Changing one invalidates every prompt cache and thinking block behind it.
BLANK = "(empty message)"
OPENING = "(earlier messages of this conversation are not shown)"
CONTINUE = "Continue."
NO_OUTPUT = "(no output)"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`blank`: blank blocks and turns. `ends`: first and last speaker. `system`: system messages among turns, and
    several in front of them."""

    blank: bool = True
    ends: bool = True
    system: bool = True


def propose(view: View, config: Config) -> Proposal:
    """Only what the provider would refuse; so it may reach wherever we have not sent before."""
    edits: list[Edit] = []
    promises: list[Promise] = []
    system: tuple[Edit, ...] = ()
    if config.blank:
        edits += _voids(view)
    if config.blank and not _takes_blank(view):
        edits += _silent(view)
        edits += _blanks(view)
        system = tuple(
            _removed(part, "empty system block [A8]")
            for part in view.conversation.system
            if _says_nothing(part, view.rules)
        )
        if len(system) == len(view.conversation.system):
            system = ()
    if config.system and view.facts.model.single_system and view.conversation.leads > 1:
        joined: Edit = JoinSystem(stage=NAME, reason="one system message here [A420 A521]", required=True)
        system = (*system, joined)
    gone = {edit.target for edit in edits if isinstance(edit, Remove)}
    if config.system and (view.rules.system_follows_user or _folds_all(view)):
        if _folds_all(view) and (_takes_blank(view) or not config.blank):
            edits += _silent_system(view)
            gone |= {edit.target for edit in edits if isinstance(edit, Remove)}
        promises += _folds(view, gone)
        gone |= {edit.target for promise in promises for edit in promise.edits}
    if config.ends:
        edits += _opening(view, gone)
        edits += _closing(view, gone)
    return Proposal(edits=system, promises=(*causal(NAME, edits).promises, *promises))


def _takes_blank(view: View) -> bool:
    """Whether blank texts may stand. Where turns are merged a client could add one to a message that is none any more."""
    model = view.facts.model
    return view.rules.blank_text and model.blank_text and not model.merge_same_role


def _is_blank(part: Part) -> bool:
    return isinstance(part, Text) and not part.text.strip()


def _says_nothing(part: Part, rules: Rules) -> bool:
    return isinstance(part, Text) and rules.nothing(part.text)


def _removed(part: Part, reason: str) -> Remove:
    return Remove(
        stage=NAME, reason=reason, target=target_of(part), required=True, tokens_before=weight(part)
    )


def _blanks(view: View) -> Iterator[Edit]:
    """Blank texts wherever they stand: a client may add one to a message that was sent before."""
    messages = view.conversation.messages
    every = range(len(messages))
    ends = {
        next((at for at in order if _stays(messages[at], view.rules)), -1)
        for order in (every, reversed(every))
    }
    for at, message in _suspects(view):
        blank = [part for part in message.parts if part.nth and _says_nothing(part, view.rules)]
        directive = message.role is Role.SYSTEM and any(
            name == "output_config" for name, _ in message.frame
        )  # [A62]
        if blank and message.role is not Role.META and not directive:
            keeps_place = (
                at in ends and len(blank) == len(message.parts) and _is_alone(messages, at, view.rules)
            )
            yield from _without_blanks(blank, keeps_place=keeps_place)
        for part in message.parts:
            if isinstance(part, ToolResult) and may_hold_blanks(part):
                yield from _inner_blanks(part, silent=view.facts.model.blank_text)


def _voids(view: View) -> Iterator[Edit]:
    """Members that are there and hold nothing, as an empty list of calls."""
    for _, message in _suspects(view):
        for part in message.parts:
            if isinstance(part, Opaque) and part.void:
                yield _removed(part, "a list of calls with nothing in it [A103]")


def _silent(view: View) -> Iterator[Edit]:
    """An answer of reasoning alone says nothing where each message must: it gets a text [A410 F31]."""
    if view.facts.model.blank_text or view.rules.reasoning_placed:
        return
    for at in range(view.start, len(view.conversation.messages)):
        message = view.conversation.messages[at]
        parts = [part for part in message.parts if not _is_blank(part)]
        if not parts or message.role is not Role.ASSISTANT or view.region(parts[-1]) is None:
            continue
        if all(isinstance(part, Reasoning) for part in parts):
            yield InsertAfter(
                stage=NAME,
                reason="an answer that says nothing [A410 F31]",
                target=target_of(parts[-1]),
                part=Text(text=BLANK, size=len(BLANK)),
                required=True,
                tokens_after=len(BLANK) // 4,
            )


def _suspects(view: View) -> Iterator[tuple[int, Message]]:
    """Messages with a blank text in them, and those not sent before."""
    start = 0
    for run in runs(view.conversation):
        behind = start + len(run.messages)
        if run.nothing or behind > view.start:
            for at, message in enumerate(run.messages, start):
                if message.tally.nothing or at >= view.start:
                    yield at, message
        start = behind


def _stays(message: Message, rules: Rules) -> bool:
    """Whether the message leaves: it says something, or is the user's, who must have a turn."""
    silent = all(_says_nothing(part, rules) for part in message.parts)
    return message.written and not (silent and message.role in (Role.ASSISTANT, Role.SYSTEM))


def _is_alone(messages: tuple[Message, ...], at: int, rules: Rules) -> bool:
    """Whether the message is the user's, and no other of the same turn says anything: then it has to stand for it."""
    if messages[at].role is not Role.USER:
        return False
    beside = (
        takewhile(lambda message: is_user_side(message.role), others)
        for others in (reversed(messages[:at]), messages[at + 1 :])
    )
    return not any(
        message.written and not all(_says_nothing(part, rules) for part in message.parts)
        for message in chain.from_iterable(beside)
    )


def _last(messages: tuple[Message, ...]) -> int:
    return next((at for at in range(len(messages) - 1, -1, -1) if messages[at].written), -1)


def _without_blanks(blank: list[Part], *, keeps_place: bool) -> Iterator[Edit]:
    if keeps_place:
        first, *blank = blank
        yield Replace(
            stage=NAME,
            reason="blank message where a turn is needed [A13 A14]",
            target=target_of(first),
            part=Text(text=BLANK, size=len(BLANK)),
            required=True,
            tokens_after=len(BLANK) // 4,
        )
    for part in blank:
        yield _removed(part, "blank text [A14]")


def _inner_blanks(part: ToolResult, *, silent: bool) -> Iterator[Edit]:
    """Blank text blocks inside a tool result's list. An absent or empty content is fine where it may be `silent` [A26]."""
    content = part.content or b'""'
    blocks = items(content) if is_array(content) else []
    kept = [block for block in blocks if bytes(block).find(b'text"') < 0 or not _blank_block(bytes(block))]
    nothing = b'""' if silent else encoded(NO_OUTPUT)
    if len(kept) < len(blocks) or not (kept or silent or (is_string(content) and len(content) > 2)):
        yield Replace(
            stage=NAME,
            reason="blank text in a tool result [A14]",
            target=target_of(part),
            part=structs.replace(part, content=closed_array(kept) if kept else nothing),
            required=True,
            tokens_before=weight(part),
            tokens_after=weight(part),
        )


def _blank_block(raw: bytes) -> bool:
    text = text_in(raw)
    return text is not None and not text.strip()


def _opening(view: View, gone: set[Target]) -> Iterator[Edit]:
    """The first speaker is the user [A11], or where calls come first [A302]; a compaction block is the one exception [E10].

    `gone`: what leaves anyhow.
    """
    rules = view.rules
    opens = rules.opens_with_user or view.facts.model.opens_with_user  # [A11 A420 A521]
    if not (opens or rules.calls_follow_user):
        return
    stays = (_left(message, gone) for message in view.conversation.messages if message.written)
    leading = [*takewhile(lambda message: message.role is Role.ASSISTANT or not message.parts, stays)]
    first = next((part for message in leading for part in message.parts), None)
    if first is None or not (opens or any(message.tally.calls for message in leading)):
        return
    if (isinstance(first, Opaque) and first.kind == "compaction") or view.region(first) is None:
        return
    yield InsertBefore(
        stage=NAME,
        reason="the first turn is the user's [A11]",
        target=target_of(first),
        part=Text(text=OPENING, size=len(OPENING)),
        role=Role.USER,
        required=True,
        tokens_after=len(OPENING) // 4,
    )


def _closing(view: View, gone: set[Target]) -> Iterator[Edit]:
    """The last speaker, where the model takes no prefill [A12]; a call or a paused turn waits for its own answer."""
    messages = view.conversation.messages
    at = _last(messages)
    if at < 0 or messages[at].role is not Role.ASSISTANT:
        return
    parts = [part for part in messages[at].parts if target_of(part) not in gone]
    last = parts[-1] if parts else None
    if last is None or isinstance(last, ToolCall | ToolResult) or view.region(last) is None:
        return
    if not view.facts.model.prefill or view.conversation.thinking in ("enabled", "adaptive"):
        yield InsertAfter(
            stage=NAME,
            reason="the last turn is the user's [A12]",
            target=target_of(last),
            part=Text(text=CONTINUE, size=len(CONTINUE)),
            role=Role.USER,
            required=True,
            tokens_after=2,
        )
    elif view.rules.stripped_prefill and isinstance(last, Text) and last.text != last.text.rstrip():
        yield Replace(
            stage=NAME,
            reason="a prefill cannot end in blanks [A12]",
            target=target_of(last),
            part=structs.replace(last, text=last.text.rstrip()),
            required=True,
        )


def _folds_all(view: View) -> bool:
    """Whether the model takes no system message among the turns at all [A60 A502 A521]."""
    model = view.facts.model
    return model.fold_system or (view.rules.system_follows_user and model.mid_system is False)


def _folds(view: View, gone: set[Target]) -> Iterator[Promise]:
    """System messages where none may stand go into a neighbouring turn of the user [A60 A502 F22].

    Promised under the part that makes it necessary: the same message may stand well in another history. `gone`:
    what leaves anyhow and is no place to go to.
    """
    messages = view.conversation.messages
    folded: dict[Target, list[Edit]] = {}
    for at in range(max(0, view.start - 1), len(messages)):
        message = _left(messages[at], gone)
        if message.role is not Role.SYSTEM or not message.parts or not _is_text(message):
            continue
        before = _neighbour(reversed(messages[:at]), gone)
        after = _neighbour(messages[at + 1 :], gone)
        if not _folds_all(view) and _stands_well(before, after):
            continue
        if view.region(message.parts[0]) is not None or (
            after is not None and view.region(after.parts[0]) is not None
        ):
            anchor, edits = _folded(
                message, _listener(reversed(messages[:at]), gone), _listener(messages[at + 1 :], gone)
            )
            if anchor is not None:
                folded.setdefault(target_of(anchor), []).extend(edits)
    for target, group in folded.items():
        yield Promise(anchor=target.key, stage=f"{NAME}.system", nth=target.nth, edits=tuple(group))


def _silent_system(view: View) -> Iterator[Edit]:
    """Blank texts of system messages that are folded: a client adds them and takes them away, so each goes for itself."""
    for _, message in _suspects(view):
        if message.role is Role.SYSTEM and _is_text(message):
            yield from (_removed(part, _FOLD) for part in message.parts if part.nth and _is_blank(part))


def _is_text(message: Message) -> bool:
    return all(isinstance(part, Text | Reminder) for part in message.parts)


def _left(message: Message, gone: set[Target]) -> Message:
    """The message without what leaves anyhow."""
    return structs.replace(message, parts=tuple(p for p in message.parts if target_of(p) not in gone))


def _neighbour(messages: Iterable[Message], gone: set[Target]) -> Message | None:
    """The first of the messages that says something in a turn."""
    left = (_left(message, gone) for message in messages if message.role is not Role.SYSTEM)
    return next((message for message in left if message.parts), None)


def _listener(messages: Iterable[Message], gone: set[Target]) -> Message | None:
    """The user's own message of the same turn: results go in front of it, wherever they stand now."""
    turn = takewhile(
        lambda message: message.role is not Role.ASSISTANT or not _left(message, gone).parts, messages
    )
    left = (_left(message, gone) for message in turn if message.role is Role.USER)
    return next((message for message in left if any(not part.nth for part in message.parts)), None)


def _stands_well(before: Message | None, after: Message | None) -> bool:
    behind = before is not None and (is_user_side(before.role) or _ends_served(before))
    return behind and (after is None or after.role is Role.ASSISTANT)


def _ends_served(message: Message) -> bool:
    return bool(message.parts) and isinstance(message.parts[-1], ToolResult)


def _folded(
    message: Message, before: Message | None, after: Message | None
) -> tuple[Part | None, list[Edit]]:
    """The part that makes the fold necessary, and the edits. Without a user's turn beside it, it becomes one."""
    spoken = [part for part in message.parts if not _is_blank(part)]
    if not spoken:
        return None, []
    if after is not None:
        # Wherever the anchor is the goal is too; `balance` puts further results before what is folded in.
        goal = _kept(after.parts)[0]
        return goal, [*_moved(spoken, goal, before=not isinstance(goal, ToolResult))]
    if before is not None:
        return spoken[-1], [*_moved(spoken, _kept(before.parts)[-1], before=False)]
    turn = [
        InsertAfter(
            stage=NAME,
            reason=_FOLD,
            target=target_of(spoken[-1]),
            part=_as_reminder(part),
            role=Role.USER,
            required=True,
        )
        for part in spoken
    ]
    gone = [Remove(stage=NAME, reason=_FOLD, target=target_of(part), required=True) for part in spoken]
    return spoken[-1], [*turn, *gone]


def _kept(parts: Sequence[Part]) -> Sequence[Part]:
    """Parts a client sends again; blank ones come and go."""
    return [part for part in parts if not _is_blank(part)] or parts


def _moved(parts: Iterable[Part], goal: Part, *, before: bool) -> Iterator[Edit]:
    for part in parts:
        yield Replace(
            stage=NAME, reason=_FOLD, target=target_of(part), part=_as_reminder(part), required=True
        )
        yield Move(
            stage=NAME,
            reason=_FOLD,
            target=target_of(part),
            to=target_of(goal),
            before=before,
            required=True,
        )


_FOLD = "system message folded into the user's turn [A60]"


def _as_reminder(part: Part) -> Part:
    # The model reads this frame. Changing it invalidates prompt caches.
    text = part.text if isinstance(part, Text | Reminder) else ""
    framed = f"<system-message>\n{text}\n</system-message>"
    return Reminder(text=framed, source=Source.REMINDER, name="system message", size=len(framed))
