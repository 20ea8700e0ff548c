"""Sums over a history, kept from turn to turn.

A history is thousands of parts, and nearly all of them are those of the turn before. What is asked about all of it -
how long it is, which calls were made, whether a mark stands somewhere - is added up once for each run of messages,
and taken over by a later conversation wherever that has the same messages. Equal messages add up to equal sums: what
a conversation was told of an earlier one changes nothing but the time it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Raw, Struct

from .conversation import Conversation, Message, Role, Source, ToolCall, ToolResult

LENGTHS = (256, 32, 4)
"""Messages in a run: as many as there are, and few at the end, which changes from stage to stage."""

_ADDED, _TOLD = "runs", "runs of an earlier one"


class Placed(Struct, frozen=True):
    """A result in a run: the newest call of its id before it, None where that is none of this run's; the bytes of
    the run that stand before it; the turns of the model that begin before it in the run."""

    result: ToolResult
    call: ToolCall | None
    ahead: int
    turn: int


class Run(Struct, frozen=True, kw_only=True, dict=True):
    """Messages that follow each other, and what their tallies (see `Tally`) add up to.

    `raws`: their bytes, None where one of them has none of its own. `calls` by id, the last one of an id; `answered` and `served`: ids of calls
    whose results are here, the client's and the provider's. `placed`: results that came; `length`: their bytes;
    `loose`: ids of those whose call is not before them in the run.
    `turns`: for each turn of the model the bytes of the run before it, `opens` and `closes` whether the run does so
    with one.
    """

    messages: tuple[Message, ...]
    size: int
    keyed: int
    media: bool
    nothing: bool
    marked: bool
    raws: tuple[Raw, ...] | None
    calls: dict[str, ToolCall]
    answered: frozenset[str]
    served: frozenset[str]
    shares: dict[Source, int]
    placed: tuple[Placed, ...]
    loose: tuple[str, ...]
    length: int
    turns: tuple[int, ...]
    opens: bool
    closes: bool


def runs(conversation: Conversation) -> tuple[Run, ...]:
    """The messages of a conversation in runs, the longest first."""
    found: tuple[Run, ...] | None = conversation.__dict__.get(_ADDED)
    if found is None:
        told: tuple[Run, ...] = conversation.__dict__.pop(_TOLD, ())
        found = conversation.__dict__[_ADDED] = tuple(_runs(conversation.messages, told))
    return found


def follow(conversation: Conversation, earlier: Conversation | tuple[Run, ...]) -> Conversation:
    """The same conversation, told of the sums of an earlier one."""
    told = earlier if isinstance(earlier, tuple) else _known(earlier)
    if told and _ADDED not in conversation.__dict__:
        conversation.__dict__[_TOLD] = told
    return conversation


def _known(conversation: Conversation) -> tuple[Run, ...]:
    known = conversation.__dict__
    found: tuple[Run, ...] = known.get(_ADDED) or known.get(_TOLD, ())
    return found


def _runs(messages: tuple[Message, ...], told: tuple[Run, ...]) -> Iterator[Run]:
    at = number = 0
    while at < len(messages):
        length = next((length for length in LENGTHS if length <= len(messages) - at), LENGTHS[-1])
        here = messages[at : at + length]
        # Messages taken over are the same objects, so that comparing them costs next to nothing.
        known = told[number] if number < len(told) and told[number].messages == here else None
        yield known or _run(here)
        at += length
        number += 1


def _run(messages: tuple[Message, ...]) -> Run:
    size = keyed = length = 0
    media = nothing = marked = False
    calls: dict[str, ToolCall] = {}
    results: dict[bool, list[str]] = {False: [], True: []}
    shares: dict[Source, int] = {}
    for message in messages:
        tally = message.tally
        size += tally.size
        keyed += tally.keyed
        media = media or tally.media
        nothing = nothing or tally.nothing
        marked = marked or tally.marked
        for call in tally.calls:
            calls[call.id] = call
        for result, _ in tally.results:
            results[result.server].append(result.call_id)
            length += result.size
        for source, share in tally.shares:
            shares[source] = shares.get(source, 0) + share
    placed = tuple(_placed(messages))
    raws = tuple(message.raw for message in messages if message.raw is not None)
    return Run(
        messages=messages,
        size=size,
        keyed=keyed,
        media=media,
        nothing=nothing,
        marked=marked,
        raws=raws if len(raws) == len(messages) else None,
        calls=calls,
        answered=frozenset(results[False]),
        served=frozenset(results[True]),
        shares=shares,
        placed=placed,
        loose=tuple(one.result.call_id for one in placed if one.call is None),
        length=length,
        turns=tuple(_turns(messages)),
        opens=messages[0].role is Role.ASSISTANT,
        closes=messages[-1].role is Role.ASSISTANT,
    )


def _placed(messages: tuple[Message, ...]) -> Iterator[Placed]:
    calls: dict[str, ToolCall] = {}
    ahead = turn = 0
    previous = None
    for message in messages:
        turn += message.role is Role.ASSISTANT and previous is not Role.ASSISTANT
        previous = message.role
        tally = message.tally
        if not (tally.calls and tally.results):
            calls |= {call.id: call for call in tally.calls}
            for result, inside in tally.results:
                yield Placed(result, calls.get(result.call_id), ahead + inside, turn)
            ahead += tally.size
            continue
        for part in message.parts:  # calls and results in one message: their order counts
            if isinstance(part, ToolCall):
                calls[part.id] = part
            elif isinstance(part, ToolResult):
                yield Placed(part, calls.get(part.call_id), ahead, turn)
            ahead += part.size


def _turns(messages: tuple[Message, ...]) -> Iterator[int]:
    """Bytes before each turn of the model."""
    ahead, previous = 0, None
    for message in messages:
        if message.role is Role.ASSISTANT and previous is not Role.ASSISTANT:
            yield ahead
        ahead += message.tally.size
        previous = message.role


def turns_of(conversation: Conversation) -> int:
    """Turns of the model in a conversation."""
    count, answering = 0, False
    for run in runs(conversation):
        count += len(run.turns) - (answering and run.opens)
        answering = run.closes
    return count


def leaving(
    conversation: Conversation, written: Callable[[Message], Iterable[Raw | bytes]]
) -> list[Raw | bytes]:
    """The bytes of its messages as they leave; `written` gives those of one that was changed."""
    listed: list[Raw | bytes] = []
    for run in runs(conversation):
        if run.raws is not None:
            listed += run.raws
            continue
        for message in run.messages:
            if message.raw is not None:
                listed.append(message.raw)
            elif message.written:
                listed += written(message)
    return listed


def within(found: Iterable[Run], stop: int) -> tuple[list[Run], int]:
    """The runs that end before message `stop`, and the place behind the last of them."""
    whole: list[Run] = []
    at = 0
    for run in found:
        if at + len(run.messages) > stop:
            break
        whole.append(run)
        at += len(run.messages)
    return whole, at
