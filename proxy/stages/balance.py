"""Every call has exactly one result, every result a call, in the order the provider wants [A20-A23 A30-A32].

Walks the turns from the last one the model had before anything new: `calls` looks after the model's side of each,
`answers` after the user's.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence

from ..branch import Promise
from ..conversation import Message, Role, ToolCall, ToolResult
from ..identity import is_user_side
from ..runs import runs, within
from .answers import place_answers
from .bound import free_bereft, remove_bereft, remove_unkept
from .calls import waiting_calls
from .copies import note_names, without_copies
from .view import Proposal, View, causal
from .walk import NAME, Config, Ids, Walk

__all__ = ["NAME", "Config", "propose"]


def propose(view: View, config: Config) -> Proposal:
    """Walk the runs of assistant and user messages from the last answer that was sent."""
    messages = view.conversation.messages
    begin = _begin(messages, view.start)
    calls, answered, served = _seen(view, begin)
    served.update(_served_later(messages[begin:]))
    coming = {
        result.call_id: at
        for at, message in enumerate(messages[begin:], begin)
        for result, _ in message.tally.results
        if not result.server
    }
    walk = Walk(view, config, calls, answered, {}, served, [], [], [], set(), coming, {})
    note_names(walk, messages[:begin])
    at = begin
    while at < len(messages):
        at = _turn(walk, at)
    return Proposal(promises=(*causal(NAME, walk.edits).promises, *walk.promises, *_cut(walk)))


def _cut(walk: Walk) -> Iterator[Promise]:
    """Calls that were sent as paused and that nobody waits for any more: they go, promised under what came instead."""
    last = walk.view.conversation.last(Role.ASSISTANT)
    cause = next((part for at, part, _ in walk.view.fresh() if at > last), None)
    if walk.cut and cause is not None:
        yield Promise(anchor=cause.key, nth=cause.nth, stage=f"{NAME}.paused", edits=tuple(walk.cut))


def _begin(messages: Sequence[Message], start: int) -> int:
    """The first message of the assistant's run before `start`: what is new may belong to its calls. A run of ours has
    none, and may stand in the midst of a turn."""
    at = min(start, len(messages))
    while at > 0 and not _answers(messages[at - 1]):
        at -= 1
    while at > 0 and (messages[at - 1].role is Role.ASSISTANT or not messages[at - 1].written):
        at -= 1
    return at


def _answers(message: Message) -> bool:
    return message.role is Role.ASSISTANT and message.written and message.index >= 0


def _seen(view: View, begin: int) -> tuple[ChainMap[str, ToolCall], Ids, Ids]:
    """Calls before message `begin`, and ids of those with results from the client and from the provider."""
    before, at = within(runs(view.conversation), begin)
    tallies = [message.tally for message in view.conversation.messages[at:begin]]
    last = {call.id: call for tally in tallies for call in tally.calls}
    results = [result for tally in tallies for result, _ in tally.results]
    return (
        ChainMap(last, *(run.calls for run in reversed(before))),
        Ids([run.answered for run in before], {one.call_id for one in results if not one.server}),
        Ids([run.served for run in before], {one.call_id for one in results if one.server}),
    )


def _served_later(messages: Iterable[Message]) -> set[str]:
    return {
        part.call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolResult) and part.server
    }


def _turn(walk: Walk, at: int) -> int:
    """One assistant run and the user's run behind it; returns the place behind both."""
    messages = walk.view.conversation.messages
    if not walk.view.rules.unique_ids:
        walk.answered = Ids([], set())
    run: list[int] = []
    while at < len(messages) and (messages[at].role is Role.ASSISTANT or not messages[at].written):
        run += [at] if messages[at].written else []
        at += 1
    run = without_copies(walk, run)
    answers: list[int] = []
    while at < len(messages) and (messages[at].role is not Role.ASSISTANT or not messages[at].written):
        here = without_copies(walk, [at] if messages[at].written else [])
        answers += [at] if here and is_user_side(messages[at].role) else []
        at += 1
    waiting = waiting_calls(walk, run)
    if walk.view.rules.reasoning_bound:
        free_bereft(walk, run)
        remove_unkept(walk, run)
        remove_bereft(walk, run)
    place_answers(walk, run, answers, waiting)
    return at
