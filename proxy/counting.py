"""How many tokens a prompt has, as its provider will count them.

What is counted are *amounts*: what the words of each kind of content come to in cl100k tokens, how much of that is
marks or letters beyond Latin, images and their patches, pieces and their framing. A model's *rates* say what one of
each is worth, and are learned from what the provider reports (see `calibration`).

    first request      rates x amounts
    every later one    what the provider counted last + rates x what is new since - rates x what has left

So a count is wrong only about what is new. How long the model thought in its last answer nobody can see who gets a
summary or a signature; what the answer was billed as output tells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from operator import mul, sub
from typing import TypeAlias, assert_never

from msgspec import Struct

from .conversation import (
    Conversation,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Reminder,
    Role,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from .identity import digest, is_user_side
from .images import base64_image_size, image_tokens
from .memo import Memo
from .modelfacts import ModelFacts
from .runs import Run, runs
from .tokens import weigh
from .usage import Usage

Amounts: TypeAlias = tuple[float, ...]
"""One number for each name in `KINDS`; () where nothing is known."""

KINDS = (
    "text",
    "calls",
    "results",
    "tools",
    "other",
    "thinking",
    "earlier_thinking",
    "dense",
    "wide",
    "bytes",
    "signed",
    "patches",
    "images",
    "pieces",
    "request",
)
"""text, calls, results, tools, other: cl100k tokens by where they stand. thinking, earlier_thinking: the same of what
the model thought since a person last spoke, and before: many providers leave out the latter [A47]. dense, wide: of
all these, marks and digits, and letters beyond Latin. bytes: a quarter of their bytes above their tokens. signed: a
quarter of the bytes of signatures on calls. patches: tokens of images by [A38]; images: their number. pieces: parts,
each with some framing. request: 1."""

(TEXT, CALLS, RESULTS, TOOLS, OTHER, THINKING, EARLIER, DENSE, WIDE, BYTES, SIGNED, PATCHES, IMAGES, PIECES,
 REQUEST) = range(len(KINDS))  # fmt: skip
NOTHING: Amounts = (0.0,) * len(KINDS)
_ALONE: Amounts = (*NOTHING[:REQUEST], 1.0)

Sight: TypeAlias = tuple[int, int]
"""Most tokens of one image, and the pixels of its longer side when they are counted; 0: size does not count [A38]."""

_BASE64 = re.compile(rb'(?<=[",])[A-Za-z0-9+/]{64,}={0,2}(?=")')
_THOUGHT, _SPOKEN = "thinking", "amounts"


class Rates(Struct, frozen=True):
    """What one of each amount is worth in tokens of a model, at one moment: a fact for the pure core.

    `usual`: the rate of thinking that is counted in full.
    """

    worth: Amounts
    usual: float = 1.0

    def tokens(self, amounts: Amounts) -> float:
        """What the amounts come to."""
        return math.fsum(map(mul, self.worth, amounts))


class Counted(Struct, frozen=True):
    """A prompt as its provider counted it: its amounts, and the usage reported. `answer`: amounts of the answer to
    it as it came back with the next request, where it did."""

    amounts: Amounts
    usage: Usage
    answer: Amounts = ()

    @property
    def known(self) -> bool:
        """Whether a later prompt can be counted from here."""
        return len(self.amounts) == len(KINDS) and bool(self.usage.prompt)


def counted(amounts: Amounts, rates: Rates, last: Counted | None = None) -> int:
    """Tokens of a prompt as its provider will count it, before it does."""
    if last is None or not last.known or last.usage.prompt is None:
        return max(0, round(rates.tokens(amounts)))
    new = tuple(map(sub, amounts, last.amounts))
    found = last.usage.prompt + rates.tokens(new)
    if len(last.answer) == len(KINDS) and last.answer[THINKING]:
        found += _thought(amounts, rates, last.answer, last.usage)
    return max(0, round(found))


def _thought(amounts: Amounts, rates: Rates, answer: Amounts, usage: Usage) -> float:
    """By how much thinking that was billed is more than what is seen of it, where the provider counts it again."""
    worth = rates.worth
    seen = answer[THINKING]
    said = (*answer[:THINKING], 0.0, *answer[THINKING + 1 :])
    billed = usage.reasoning
    if billed is None:
        if usage.output is None:
            return 0.0
        billed = max(0, round(usage.output - rates.tokens(said)))
    rate = worth[THINKING] if amounts[THINKING] else worth[EARLIER]
    share = min(1.0, max(0.0, rate / rates.usual))
    return share * billed - rate * seen


# -- amounts -------------------------------------------------------------------------------------------------------


def amounts_of(conversation: Conversation, model: ModelFacts) -> Amounts:
    """What a prompt comes to. Nearly all of it was added up for the request before."""
    found = runs(conversation)
    sight = _sight(model)
    front = (_front(conversation.tools), _front(conversation.system), _ALONE)
    total = _sum((*front, *(_run(run, sight) for run in found)))
    if not total[THINKING]:
        return total
    now = _since_a_person_spoke(found)
    made = [*total]
    made[THINKING], made[EARLIER] = now, total[THINKING] - now
    return tuple(made)


def answer_to(conversation: Conversation, counts: tuple[int, ...], parts: int, model: ModelFacts) -> Amounts:
    """Amounts of the newest answer, if it is the one to a request of so many keyed `parts`; () if it is not.

    `counts`: keyed parts up to and with each of the client's messages.
    """
    last = conversation.last(Role.ASSISTANT)
    first = last
    while first > 0 and conversation.messages[first - 1].role is Role.ASSISTANT:
        first -= 1
    if first <= 0 or counts[first - 1] != parts:
        return ()
    sight = _sight(model)
    return _sum(_message(message, sight) for message in conversation.messages[first : last + 1])


def _sight(model: ModelFacts) -> Sight:
    return (model.image_tokens, 0 if model.image_flat else model.image_long_edge)


def _since_a_person_spoke(found: tuple[Run, ...]) -> float:
    """Thinking behind the last message that is more than results."""
    total = 0.0
    for run in reversed(found):
        known: tuple[bool, float] | None = run.__dict__.get(_THOUGHT)
        if known is None:
            known = run.__dict__[_THOUGHT] = _behind(run)
        spoke, thought = known
        total += thought
        if spoke:
            break
    return total


def _behind(run: Run) -> tuple[bool, float]:
    """Whether a person speaks in a run, and the thinking behind that; all of it where nobody does."""
    total = 0.0
    for message in reversed(run.messages):
        if is_user_side(message.role) and any(not isinstance(part, ToolResult) for part in message.parts):
            return True, total
        total += message.__dict__[_SPOKEN][1][THINKING]
    return False, total


def _run(run: Run, sight: Sight) -> Amounts:
    known: tuple[Sight, Amounts] | None = run.__dict__.get(_SPOKEN)
    if known is None or known[0] != sight:
        known = run.__dict__[_SPOKEN] = (sight, _sum(_message(message, sight) for message in run.messages))
    return known[1]


def _message(message: Message, sight: Sight) -> Amounts:
    known: tuple[Sight, Amounts] | None = message.__dict__.get(_SPOKEN)
    if known is None or known[0] != sight:
        spoken = _sum(_part(part, sight) for part in message.parts)
        known = message.__dict__[_SPOKEN] = (sight, spoken)
    return known[1]


def _sum(many: Iterable[Amounts]) -> Amounts:
    rows = (*many,)
    if len(rows) == 1:
        return rows[0]
    return tuple(map(sum, zip(*rows, strict=True))) if rows else NOTHING


def _part(part: Part, sight: Sight) -> Amounts:
    match part:
        case Text(text=text) | Reminder(text=text):
            return _words(TEXT, text.encode("utf-8", "surrogatepass"))
        case ToolCall():
            said = part.name.encode("utf-8", "surrogatepass") + b" " + part.input
            return _words(CALLS, said, signed=len(part.signature) / 4)
        case ToolResult():
            content = part.content or b""
            return _media(RESULTS, content, part.images, sight) if part.images else _words(RESULTS, content)
        case Image():
            return _media(OTHER, _raw(part), 1, sight)
        case Reasoning():
            return _thinking(part, _raw(part))
        case ToolDefinition():
            return NOTHING if part.deferred else _words(TOOLS, _raw(part))
        case Opaque():
            return _words(OTHER, _raw(part))
        case _:
            assert_never(part)


def _raw(part: Part) -> bytes:
    return bytes(part.raw or part.base or b"")


def _front_part(part: Part) -> Amounts:
    """A tool, or a part of the system prompt: read anew with each request, and the same words nearly always."""
    raw = part.raw or part.base or b""
    name = (type(part), len(raw), digest(raw))
    known = _fronts.get(name)
    if known is None:
        if len(_fronts) >= _FRONTS:
            _fronts.clear()
        known = _fronts[name] = _part(part, (0, 0))
    return known


_FRONTS = 4096
_fronts: dict[tuple[type[Part], int, bytes], Amounts] = {}
_front: Memo[tuple[Part, ...], Amounts] = Memo(lambda parts: _sum(map(_front_part, parts)), 64)


def _words(
    kind: int,
    text: bytes,
    *,
    signed: float = 0.0,
    patches: float = 0.0,
    images: float = 0.0,
) -> Amounts:
    found = weigh(text)
    made = [*NOTHING]
    made[kind] = found.tokens
    made[DENSE], made[WIDE] = found.dense, found.wide
    made[BYTES] = len(text) / 4 - found.tokens
    made[SIGNED], made[PATCHES], made[IMAGES] = signed, patches, images
    made[PIECES] = 1.0
    return tuple(made)


def _media(kind: int, content: bytes, images: int, sight: Sight) -> Amounts:
    """A part with images: its words, and what the provider makes of the pictures. Of one that is only linked the
    size is not known."""
    most, edge = sight
    sizes = {data: base64_image_size(data) for data in set(_BASE64.findall(content))}
    # A text may look like a file; a file of an unknown kind is the longest of what does.
    unknown = sorted((data for data, size in sizes.items() if size is None), key=len, reverse=True)
    drawn = {data for data, size in sizes.items() if size is not None}
    drawn.update(unknown[: max(0, images - len(drawn))])
    patches = sum(image_tokens(sizes[data], most, edge) if edge else most for data in drawn)
    patches += max(0, images - len(drawn)) * most
    words = content if kind != OTHER else b""
    for data in drawn:
        words = words.replace(data, b"")
    return _words(kind, words, patches=patches, images=images)


def _thinking(part: Reasoning, raw: bytes) -> Amounts:
    """What is seen of it: words, or a seal that hides them and grows with them."""
    signature = part.signature.encode("utf-8", "surrogatepass")
    words = raw.replace(signature, b"") if signature and not part.redacted else b"" if part.redacted else raw
    made = [*NOTHING]
    made[THINKING] = max(1.0, weigh(words).tokens - _FRAMING) + (len(raw) - len(words)) / 16
    made[PIECES] = 1.0
    return tuple(made)


_FRAMING = 16
"""Tokens of the members around the words of a thinking block, about."""
