"""The model's side of a turn: which calls wait for a result, their copies, their ids and their order [A20 A23 A30-A33]."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from ..conversation import Part, Reasoning, Role, Text, ToolCall, ToolResult
from ..edits import Move, Remove, Replace, target_of
from ..identity import is_user_side, plainly, says
from .copies import alike
from .view import weight
from .walk import NAME, Walk, drop, left


def waiting_calls(walk: Walk, run: list[int]) -> dict[str, ToolCall]:
    """The client's calls of a run that wait for results, its copies and its order mended."""
    messages = walk.view.conversation.messages
    waiting: dict[str, ToolCall] = {}
    kept: list[Part] = []
    for at in run:
        last = at == len(messages) - 1
        if _is_copy(walk, run, at):
            for part in messages[at].parts:
                drop(walk, part, "the same answer again [A23 A42 F13]")
            continue
        kept += [part for part in messages[at].parts if _keeps(walk, part, waiting, last=last)]
    if walk.config.order and waiting and walk.view.rules.adjacent:
        _join(walk, run)
        if walk.view.rules.calls_last:
            _texts_first(walk, kept)
    return waiting


def _is_copy(walk: Walk, run: list[int], at: int) -> bool:
    """Whether a message with calls or thinking is one of the run once more: then it goes as a whole, texts too."""
    parts = walk.view.conversation.messages[at].parts
    if not any(isinstance(part, ToolCall | Reasoning) for part in parts):
        return False
    if any(walk.view.region(part) is None for part in parts):
        return False
    earlier = (walk.view.conversation.messages[place].parts for place in run[: run.index(at)])
    return any(len(parts) == len(others) and all(map(alike, parts, others)) for others in earlier)


def _keeps(walk: Walk, part: Part, waiting: dict[str, ToolCall], *, last: bool) -> bool:
    """Note a call; whether the part stays."""
    match part:
        case ToolCall(server=True):
            if part.id not in walk.served and not last and not _paused(walk, part):
                _unserved(walk, part)
                return False
            walk.calls[part.id] = part
        case ToolResult(server=True):
            if part.call_id not in walk.calls:
                return drop(walk, part, "server result without its call [A32 F24]")
        case ToolCall():
            return _client_call(walk, part, waiting)
        case _:
            pass
    return True


def _unserved(walk: Walk, part: Part) -> None:
    """A server call goes; one that was sent before goes in one promise with the others of its turn."""
    sent = walk.view.region(part) is None
    edit = Remove(
        stage=NAME,
        reason="server call without its result [A31 F24]",
        target=target_of(part),
        required=True,
        committed=sent,
        tokens_before=weight(part),
    )
    walk.gone.add(edit.target)
    (walk.cut if sent else walk.edits).append(edit)


def _paused(walk: Walk, part: Part) -> bool:
    """Whether the provider goes on with the call: it stands in the last answer, and nobody spoke since [A31 A33]."""
    messages = walk.view.conversation.messages
    last = walk.view.conversation.last(Role.ASSISTANT)
    if last < 0 or not any(part is other for other in messages[last].parts):
        return False
    spoken = [message for message in messages[last + 1 :] if message.written and is_user_side(message.role)]
    return all(isinstance(other, ToolResult) for message in spoken for other in message.parts)


def _client_call(walk: Walk, part: ToolCall, waiting: dict[str, ToolCall]) -> bool:
    """Ids are unique in the whole request [A23]: an exact copy leaves, another call gets an id of its own."""
    twin = walk.calls.get(part.id)
    again = twin is not None and (walk.view.rules.unique_ids or part.id in waiting)
    if twin is None or not again or walk.view.region(part) is None:
        walk.calls[part.id] = part
        waiting[part.id] = part
        return True
    copy = says(twin, plainly) == says(part, plainly)
    if copy and (part.id in waiting or part.id in walk.answered):
        return drop(walk, part, "the same call again [A23 F13]")
    fresh = _free_id(part.id, walk.calls)
    walk.edits.append(
        Replace(
            stage=NAME,
            reason="call id used before [A23 F13]",
            target=target_of(part),
            part=structs.replace(part, id=fresh),
            required=True,
        )
    )
    walk.renamed[part.id] = fresh
    walk.calls[fresh] = waiting[fresh] = structs.replace(part, id=fresh)
    return True


def _free_id(call_id: str, taken: Mapping[str, ToolCall]) -> str:
    return next(made for number in range(2, len(taken) + 3) if (made := f"{call_id}_{number}") not in taken)


def _join(walk: Walk, run: list[int]) -> None:
    """Calls pair with the message right behind them as sent [A20]: a run with calls becomes one message.

    Where calls stand right behind a user's message [A302], a call in the last message of the run is enough.
    """
    messages = walk.view.conversation.messages
    calling = run if walk.view.rules.calls_follow_user else run[:-1]
    if len(run) < 2 or not any(
        isinstance(p, ToolCall) and not p.server for at in calling for p in messages[at].parts
    ):
        return
    first, *rest = [parts for at in run if (parts := left(walk, messages[at]))] or [[]]
    for parts in rest:
        for part in parts:
            if walk.view.region(part) is not None:
                walk.edits.append(
                    Move(
                        stage=NAME,
                        reason="one turn in one message [A20]",
                        target=target_of(part),
                        to=target_of(first[-1]),
                        required=True,
                    )
                )


def _texts_first(walk: Walk, parts: list[Part]) -> None:
    """Texts behind a call go before the first one; reasoning is never reordered [A42 F1]."""
    first = next(
        (at for at, part in enumerate(parts) if isinstance(part, ToolCall) and not part.server), len(parts)
    )
    behind = parts[first:]
    if walk.view.rules.reasoning_placed and any(isinstance(part, Reasoning) for part in behind):
        return
    for part in behind:
        moves = (isinstance(part, Text) and part.text.strip()) or isinstance(part, Reasoning)
        if moves and walk.view.region(part) is not None:
            walk.edits.append(
                Move(
                    stage=NAME,
                    reason="text before calls [A20 F1]",
                    target=target_of(part),
                    to=target_of(parts[first]),
                    before=True,
                    required=True,
                )
            )
