"""Every call has exactly one result, every result a call, in the order the provider wants [A20-A23 A30-A32].

Walks the turns from the last one the model had before anything new. A result that is missing becomes a fixed
placeholder, promised under the *end* of the turn that lacks it: in a history where that turn went on and the
real result came, the placeholder is not. A result that comes when its slot was already sent filled stays
where it stands, as labelled text.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

import msgspec
from msgspec import Raw, Struct, structs

from ..branch import Promise
from ..conversation import Image, Message, Part, Reasoning, Reminder, Role, Source, Text, ToolCall, ToolResult
from ..edits import Edit, InsertAfter, InsertBefore, Move, Remove, Replace, target_of
from ..identity import content_says, end_of_turn, is_user_side, plainly, says
from ..rawjson import encoded, is_array, items
from ..runs import runs, within
from .view import Proposal, View, causal, weight

NAME = "balance"

# The model reads these. Changing one invalidates every prompt cache and thinking block behind it.
MISSING = "No result: the tool call was interrupted before it returned."
LATE = "[Result of the earlier tool call {name} ({call_id}), which arrived late]"
ORPHAN = "[Result of an earlier tool call ({call_id}) that is no longer part of this conversation]"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`missing`: fill in lost results. `orphans`: results without a call. `order`: order of blocks and turns."""

    missing: bool = True
    orphans: bool = True
    order: bool = True


class _Ids:
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


class _Turns(Struct):
    """The walk's memory: calls ever made, ids answered, and the edits found."""

    view: View
    config: Config
    calls: ChainMap[str, ToolCall]
    answered: _Ids
    renamed: dict[str, str]
    served: _Ids
    edits: list[Edit]
    promises: list[Promise]
    cut: list[Edit]


def propose(view: View, config: Config) -> Proposal:
    """Walk the runs of assistant and user messages from the last answer that was sent."""
    messages = view.conversation.messages
    begin = _begin(messages, view.start)
    calls, answered, served = _seen(view, begin)
    served.update(_served_later(messages[begin:]))
    turns = _Turns(view, config, calls, answered, {}, served, [], [], [])
    at = begin
    while at < len(messages):
        at = _turn(turns, at)
    return Proposal(promises=(*causal(NAME, turns.edits).promises, *turns.promises, *_cut(turns)))


def _cut(turns: _Turns) -> Iterator[Promise]:
    """Calls that were sent as paused and that nobody waits for any more: they go, promised under what came instead."""
    last = turns.view.conversation.last(Role.ASSISTANT)
    cause = next((part for at, part, _ in turns.view.fresh() if at > last), None)
    if turns.cut and cause is not None:
        yield Promise(anchor=cause.key, nth=cause.nth, stage=f"{NAME}.paused", edits=tuple(turns.cut))


def _begin(messages: Sequence[Message], start: int) -> int:
    """The first message of the assistant's run before `start`: what is new may belong to its calls."""
    at = min(start, len(messages))
    while at > 0 and not (messages[at - 1].role is Role.ASSISTANT and messages[at - 1].written):
        at -= 1
    while at > 0 and (messages[at - 1].role is Role.ASSISTANT or not messages[at - 1].written):
        at -= 1
    return at


def _seen(view: View, begin: int) -> tuple[ChainMap[str, ToolCall], _Ids, _Ids]:
    """Calls before message `begin`, and ids of those with results from the client and from the provider."""
    before, at = within(runs(view.conversation), begin)
    tallies = [message.tally for message in view.conversation.messages[at:begin]]
    last = {call.id: call for tally in tallies for call in tally.calls}
    results = [result for tally in tallies for result, _ in tally.results]
    return (
        ChainMap(last, *(run.calls for run in reversed(before))),
        _Ids([run.answered for run in before], {one.call_id for one in results if not one.server}),
        _Ids([run.served for run in before], {one.call_id for one in results if one.server}),
    )


def _served_later(messages: Iterable[Message]) -> set[str]:
    return {
        part.call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolResult) and part.server
    }


def _turn(turns: _Turns, at: int) -> int:
    """One assistant run and the user's run behind it; returns the place behind both."""
    messages = turns.view.conversation.messages
    run: list[int] = []
    while at < len(messages) and (messages[at].role is Role.ASSISTANT or not messages[at].written):
        run += [at] if messages[at].written else []
        at += 1
    answers: list[int] = []
    while at < len(messages) and (messages[at].role is not Role.ASSISTANT or not messages[at].written):
        answers += [at] if messages[at].written and is_user_side(messages[at].role) else []
        at += 1
    open_calls = _calls(turns, run)
    _answers(turns, run, answers, open_calls)
    return at


# -- the model's side ------------------------------------------------------------------------------------


def _calls(turns: _Turns, run: list[int]) -> dict[str, ToolCall]:
    """The client's calls of a run that wait for results, its copies and its order mended."""
    messages = turns.view.conversation.messages
    waiting: dict[str, ToolCall] = {}
    kept: list[Part] = []
    for at in run:
        last = at == len(messages) - 1
        if _is_copy(turns, run, at):
            for part in messages[at].parts:
                _drop(turns, part, "the same answer again [A23 A42 F13]")
            continue
        kept += [part for part in messages[at].parts if _keeps(turns, part, waiting, last=last)]
    if turns.config.order and waiting:
        _join(turns, run)
        _texts_first(turns, kept)
    return waiting


def _is_copy(turns: _Turns, run: list[int], at: int) -> bool:
    """Whether a message with calls or thinking is one of the run once more: then it goes as a whole, texts too."""
    parts = turns.view.conversation.messages[at].parts
    if not any(isinstance(part, ToolCall | Reasoning) for part in parts):
        return False
    if any(turns.view.region(part) is None for part in parts):
        return False
    earlier = (turns.view.conversation.messages[place].parts for place in run[: run.index(at)])
    return any(len(parts) == len(others) and all(map(_alike, parts, others)) for others in earlier)


def _alike(one: Part, other: Part) -> bool:
    """Whether two parts say the same; thinking is what it is, byte for byte."""
    if isinstance(one, Reasoning) or isinstance(other, Reasoning):
        return one.raw is not None and one.raw == other.raw
    return type(one) is type(other) and says(one, plainly) == says(other, plainly)


def _keeps(turns: _Turns, part: Part, waiting: dict[str, ToolCall], *, last: bool) -> bool:
    """Note a call; whether the part stays."""
    match part:
        case ToolCall(server=True):
            if part.id not in turns.served and not last and not _paused(turns, part):
                _unserved(turns, part)
                return False
            turns.calls[part.id] = part
        case ToolResult(server=True):
            if part.call_id not in turns.calls:
                return _drop(turns, part, "server result without its call [A32 F24]")
        case ToolCall():
            return _client_call(turns, part, waiting)
        case _:
            pass
    return True


def _unserved(turns: _Turns, part: Part) -> None:
    """A server call goes; one that was sent before goes in one promise with the others of its turn."""
    sent = turns.view.region(part) is None
    edit = Remove(
        stage=NAME,
        reason="server call without its result [A31 F24]",
        target=target_of(part),
        required=True,
        committed=sent,
        tokens_before=weight(part),
    )
    (turns.cut if sent else turns.edits).append(edit)


def _paused(turns: _Turns, part: Part) -> bool:
    """Whether the provider goes on with the call: it stands in the last answer, and nobody spoke since [A31 A33]."""
    messages = turns.view.conversation.messages
    last = turns.view.conversation.last(Role.ASSISTANT)
    if last < 0 or not any(part is other for other in messages[last].parts):
        return False
    spoken = [message for message in messages[last + 1 :] if message.written and is_user_side(message.role)]
    return all(isinstance(other, ToolResult) for message in spoken for other in message.parts)


def _client_call(turns: _Turns, part: ToolCall, waiting: dict[str, ToolCall]) -> bool:
    """Ids are unique in the whole request [A23]: an exact copy leaves, another call gets an id of its own."""
    twin = turns.calls.get(part.id)
    if twin is None or turns.view.region(part) is None:
        turns.calls[part.id] = part
        waiting[part.id] = part
        return True
    copy = says(twin, plainly) == says(part, plainly)
    if copy and (part.id in waiting or part.id in turns.answered):
        return _drop(turns, part, "the same call again [A23 F13]")
    fresh = _free_id(part.id, turns.calls)
    turns.edits.append(
        Replace(
            stage=NAME,
            reason="call id used before [A23 F13]",
            target=target_of(part),
            part=structs.replace(part, id=fresh),
            required=True,
        )
    )
    turns.renamed[part.id] = fresh
    turns.calls[fresh] = waiting[fresh] = structs.replace(part, id=fresh)
    return True


def _free_id(call_id: str, taken: Mapping[str, ToolCall]) -> str:
    return next(made for number in range(2, len(taken) + 3) if (made := f"{call_id}_{number}") not in taken)


def _drop(turns: _Turns, part: Part, reason: str) -> bool:
    if turns.view.region(part) is None:
        return True
    turns.edits.append(
        Remove(stage=NAME, reason=reason, target=target_of(part), required=True, tokens_before=weight(part))
    )
    return False


def _join(turns: _Turns, run: list[int]) -> None:
    """Calls pair with the message right behind them as sent [A20]: a run with calls becomes one message."""
    messages = turns.view.conversation.messages
    if len(run) < 2 or not any(
        isinstance(p, ToolCall) and not p.server for at in run[:-1] for p in messages[at].parts
    ):
        return
    goal = messages[run[0]].parts[-1]
    for at in run[1:]:
        for part in messages[at].parts:
            if turns.view.region(part) is not None:
                turns.edits.append(
                    Move(
                        stage=NAME,
                        reason="one turn in one message [A20]",
                        target=target_of(part),
                        to=target_of(goal),
                        required=True,
                    )
                )


def _texts_first(turns: _Turns, parts: list[Part]) -> None:
    """Texts behind a call go before the first one; reasoning is never reordered [A42 F1]."""
    first = next(
        (at for at, part in enumerate(parts) if isinstance(part, ToolCall) and not part.server), len(parts)
    )
    behind = parts[first:]
    if any(isinstance(part, Reasoning) for part in behind):
        return
    for part in behind:
        if isinstance(part, Text) and part.text.strip() and turns.view.region(part) is not None:
            turns.edits.append(
                Move(
                    stage=NAME,
                    reason="text before calls [A20 F1]",
                    target=target_of(part),
                    to=target_of(parts[first]),
                    before=True,
                    required=True,
                )
            )


# -- the user's side -------------------------------------------------------------------------------------


def _answers(turns: _Turns, run: list[int], answers: list[int], waiting: dict[str, ToolCall]) -> None:
    messages = turns.view.conversation.messages
    given: list[ToolResult] = []
    misplaced: list[ToolResult] = []
    for at in answers:
        leading = at == answers[0]
        for part in messages[at].parts:
            if not isinstance(part, ToolResult):
                leading = leading and _is_blank(part)
                continue
            fate = _fate(turns, part, waiting, given)
            leading = leading and fate is not _Fate.TEXT
            if fate is _Fate.ANSWER:
                given.append(part)
                if not leading:
                    misplaced.append(part)
    if turns.config.order:
        _lead(turns, messages, answers, misplaced, [r for r in given if not any(r is m for m in misplaced)])
    if turns.config.missing:
        _fill(
            turns,
            run,
            answers,
            [call for call_id, call in waiting.items() if call_id not in turns.answered],
            given,
        )


def _is_blank(part: Part) -> bool:
    return isinstance(part, Text) and not part.text.strip()


class _Fate(Enum):
    """What becomes of a result: it answers a waiting call, is kept as text, or is none of this turn's."""

    ANSWER = "answer"
    TEXT = "text"
    NEITHER = "neither"


def _fate(turns: _Turns, part: ToolResult, waiting: dict[str, ToolCall], given: list[ToolResult]) -> _Fate:
    """A result answers a waiting call once; what else comes for it leaves if it is the same, or becomes text."""
    call_id = turns.renamed.get(part.call_id, part.call_id)
    if call_id in waiting and call_id not in turns.answered:
        if call_id != part.call_id and turns.view.region(part) is not None:
            renamed = structs.replace(part, call_id=call_id)
            turns.edits.append(
                Replace(
                    stage=NAME,
                    reason="id of its renamed call [A23 F13]",
                    target=target_of(part),
                    part=renamed,
                    required=True,
                )
            )
        turns.answered.add(call_id)
        return _Fate.ANSWER
    if turns.view.region(part) is None or not turns.config.orphans:
        return _Fate.NEITHER
    first = next((other for other in given if other.call_id == part.call_id), None)
    if first is not None and content_says(first.content) == content_says(part.content):
        _drop(turns, part, "a second, equal result [A23 F20]")
        return _Fate.NEITHER
    _to_text(turns, part)
    return _Fate.TEXT


def _to_text(turns: _Turns, part: ToolResult) -> None:
    call = turns.calls.get(part.call_id)
    label = LATE.format(name=call.name, call_id=part.call_id) if call else ORPHAN.format(call_id=part.call_id)
    text, media = _inside(part)
    said = f"{label}\n{text}" if text else label
    turns.edits.append(
        Replace(
            stage=NAME,
            reason="result without a call, kept as text [A22 F20]",
            target=target_of(part),
            part=Reminder(text=said, source=Source.TOOL_RESULT, name="late result", size=len(said)),
            required=True,
            tokens_before=weight(part),
            tokens_after=len(said) // 4,
        )
    )
    turns.edits += [
        InsertAfter(
            stage=NAME,
            reason="media of a result kept as text",
            target=target_of(part),
            part=Image(raw=block.copy(), media_type="", data_bytes=len(block), size=len(block)),
            required=True,
            tokens_after=len(block) // 4,
        )
        for block in media
    ]


class _Block(Struct):
    type: str = ""
    text: str = ""


def _inside(part: ToolResult) -> tuple[str, list[Raw]]:
    """Text and media blocks of a result."""
    if part.content is None:
        return "", []
    if not is_array(part.content):
        return str(msgspec.json.decode(part.content)), []
    texts: list[str] = []
    media: list[Raw] = []
    for block in items(part.content):
        read = msgspec.json.decode(block, type=_Block)
        if read.type == "text":
            texts.append(read.text)
        elif read.type in ("image", "document"):
            media.append(block)
    return "\n".join(texts), media


def _lead(
    turns: _Turns,
    messages: Sequence[Message],
    answers: list[int],
    misplaced: list[ToolResult],
    placed: list[ToolResult],
) -> None:
    """Results open the first message behind their calls [A20 A21]; those that do not go there, in their order."""
    for result in misplaced:
        if turns.view.region(result) is None:
            continue
        if placed:
            goal: Part = placed[-1]
            before = False
        else:
            goal, before = messages[answers[0]].parts[0], True
        turns.edits.append(
            Move(
                stage=NAME,
                reason="results first [A21 F1]",
                target=target_of(result),
                to=target_of(goal),
                before=before,
                required=True,
            )
        )
        if before:
            placed = [result]


def _fill(
    turns: _Turns, run: list[int], answers: list[int], lost: list[ToolCall], given: list[ToolResult]
) -> None:
    """Placeholders for results that never came, promised under the end of the turn that lacks them."""
    if not lost or not run:
        return
    messages = turns.view.conversation.messages
    ours = _fills(lost, given, messages, run, answers)
    client = turns.view.client.messages
    place = messages[run[-1]].index
    # The turn behind the calls as the client has it: what we put there may have no place in it.
    if place + 1 < len(client) and client[place + 1].role is not Role.ASSISTANT:
        place += 1
    anchor = end_of_turn(client, place)
    turns.promises.append(Promise(anchor=anchor, stage=NAME, edits=tuple(ours)))
    turns.answered.update(call.id for call in lost)


def _fills(
    lost: list[ToolCall],
    given: list[ToolResult],
    messages: Sequence[Message],
    run: list[int],
    answers: list[int],
) -> Iterator[Edit]:
    for call in lost:
        part = ToolResult(call_id=call.id, content=encoded(MISSING), is_error=True, size=len(MISSING))
        common = {
            "stage": NAME,
            "reason": "call without a result [A20 F1]",
            "part": part,
            "required": True,
            "tokens_after": len(MISSING) // 4,
        }
        if given:
            yield InsertAfter(target=target_of(given[-1]), **common)  # type: ignore[arg-type]
        elif answers:
            yield InsertBefore(target=target_of(messages[answers[0]].parts[0]), **common)  # type: ignore[arg-type]
        else:
            yield InsertAfter(target=target_of(messages[run[-1]].parts[-1]), role=Role.USER, **common)  # type: ignore[arg-type]
