"""What should have come from the cache, and why less of it did.

Judged from the ledger: what the provider held after the last request of this branch, what has changed since, and
who changed it: the two sides of the proxy are compared, which no provider can. Where the provider gives a diagnosis
of its own [B20 B108 A206], that is said beside ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec import Struct

from .answer import Diagnosis
from .branch import Branch, Frontier
from .conversation import (
    Conversation,
    Image,
    Message,
    Part,
    Reminder,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from .edits import Edit, target_of
from .identity import head, setting
from .models import ModelFacts
from .recall import Recent
from .rewrite import Rewrite
from .stages import Facts
from .stages.marks import standing
from .turns import NOISE_TOKENS, Miss, MissReason
from .usage import Usage

SLACK_SHARE = 0.9
"""Less than this share of what was expected is a miss."""


class Expected(Struct, frozen=True, kw_only=True):
    """What the provider held, in tokens (None: it never said), and what already speaks against finding it."""

    tokens: int | None = None
    miss: Miss | None = None


def expected(
    rewrite: Rewrite, before: Branch | None, recent: Recent | None, facts: Facts, *, observed: bool = False
) -> Expected:
    """What this request should find in the cache. Judged before it is sent.

    `before`: the branch it goes on from, or, where its history begins otherwise than anything known, the branch
    its session was last sent along; `recent`: the last request of that branch. `observed`: requests go out as the
    client wrote them, so that it is its own changes that count.
    """
    if before is None or rewrite.sent is None or rewrite.read is None or not before.frontiers:
        return Expected(tokens=0)
    if rewrite.place is None or rewrite.place.branch is None:
        return _begun_otherwise(rewrite.read, before, recent, facts)
    last = max(before.frontiers, key=lambda frontier: frontier.at)
    same = before.frontier(facts.upstream, rewrite.sent.model)
    if same is None:
        where = f"last sent to {last.model} at {last.upstream}"
        if last.upstream != facts.upstream:
            return Expected(tokens=0, miss=Miss("upstream", where))
        return Expected(tokens=held(last.usage, facts.model), miss=Miss("model", where))
    return Expected(
        tokens=held(same.usage, facts.model),
        miss=_foreseen(rewrite, recent, same, facts, observed=observed),
    )


def _begun_otherwise(read: Conversation, before: Branch, recent: Recent | None, facts: Facts) -> Expected:
    """A session whose first words changed: the client's change, unless it is a request beside the conversation."""
    same = before.frontier(facts.upstream, read.model)
    beside = read.last(Role.ASSISTANT) < 0 or recent is None or head(read) != recent.head
    if same is None or beside:
        return Expected(tokens=0)
    return Expected(
        tokens=held(same.usage, facts.model),
        miss=Miss("client", first_difference(recent, read) or "the history begins otherwise"),
    )


def held(usage: Usage | None, model: ModelFacts) -> int | None:
    """Tokens in the cache behind a request with this usage; None where the provider did not say.

    What a provider writes without being asked, and without counting it, is all of the prompt in whole blocks, from
    its minimum on [B109 B300 B400 B500 B510].
    """
    if usage is None or usage.cached is None:
        return None
    if usage.written is not None or usage.prompt is None or model.regime not in {"prefix", "automatic"}:
        return usage.cached + (usage.written or 0)
    whole = usage.prompt - usage.prompt % model.block
    return max(usage.cached, whole if usage.prompt >= model.minimum else 0)


def _foreseen(
    rewrite: Rewrite, recent: Recent | None, frontier: Frontier, facts: Facts, *, observed: bool
) -> Miss | None:
    assert rewrite.sent is not None
    assert rewrite.read is not None
    if (lifetime := outlived(frontier, facts)) is not None:
        return Miss(
            "expired", f"{facts.now - frontier.at:.0f} s since the last request, kept for {lifetime:.0f} s"
        )
    if observed:
        otherwise = recent is not None and head(rewrite.read) != recent.head
    else:
        otherwise = frontier.setting != setting(rewrite.sent)
    if otherwise:
        return Miss("client", _head_change(rewrite.read, recent))
    if rewrite.place is not None and rewrite.place.broke:
        return Miss("client", first_difference(recent, rewrite.read) or "the history went on otherwise")
    made = () if observed else batch(rewrite)
    if made:
        saved = sum(edit.tokens_before - edit.tokens_after for edit in made)
        return Miss("ours", f"{made[0].stage}: {made[0].reason}, about {saved} tokens lighter from here on")
    return _unreached(rewrite.read if observed else rewrite.sent, frontier, facts.model)


def _unreached(conversation: Conversation, frontier: Frontier, model: ModelFacts) -> Miss | None:
    """Where only what is marked is kept: whether a mark of this request looks back as far as the last one of the
    request before. Runs of calls, and of results, are one position [B6]."""
    if model.regime != "breakpoints" or frontier.tail is None or conversation.automatic_mark is not None:
        return None
    marked = {target_of(one.spot.part) for one in standing(conversation)}
    steps, run = 0, None
    for part in chain.from_iterable(message.parts for message in conversation.messages):
        kind = type(part)
        if not steps and target_of(part) != frontier.tail:
            continue
        steps += kind is not run or kind not in (ToolCall, ToolResult)
        run = kind
        if target_of(part) in marked:
            if steps <= model.lookback:
                return None
            return Miss(
                "lookback",
                f"the next mark stands {steps} blocks behind the last one, and {model.lookback} are looked back",
            )
    return Miss("client", "no cache mark where the last request ended, or behind it") if steps else None


def outlived(frontier: Frontier, facts: Facts) -> float | None:
    """The lifetime that has passed since the last request, in seconds; None where it has not."""
    lifetime = frontier.ttl_s or facts.model.ttl_s
    return lifetime if lifetime is not None and facts.now - frontier.at > lifetime else None


def batch(rewrite: Rewrite) -> tuple[Edit, ...]:
    """The edits of what was sent before that this request makes for the first time."""
    promises = rewrite.commit.promises if rewrite.commit is not None else ()
    return tuple(edit for promise in promises for edit in promise.edits if edit.committed)


def _head_change(read: Conversation, recent: Recent | None) -> str:
    if recent is None:
        return "tools or system changed"
    now, then = dict(head(read)), dict(recent.head)
    for name in (*then, *now):
        if name not in now:
            return f"{name} is gone"
        if name not in then:
            return f"{name} is new"
        if now[name] != then[name]:
            at = _common(then[name], now[name])
            return f"{name} changed at byte {at} of {len(then[name])}"
    return "the order of tools changed" if [*now] != [*then] else "tools or system changed in what is sent"


def _common(then: bytes, now: bytes) -> int:
    """How many leading bytes are equal."""
    low, high = 0, min(len(then), len(now))
    while low < high:
        middle = (low + high + 1) // 2
        if then[:middle] == now[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def first_difference(recent: Recent | None, read: Conversation) -> str | None:
    """The first part of the last request that is otherwise in this one, in words; None for a plain append."""
    if recent is None:
        return None
    turns, blocks = read.named
    for at, then in enumerate(recent.client):
        if at >= len(read.messages):
            return f"{turns}[{at}] and what stood behind it is gone"
        now = read.messages[at]
        if then is now:
            continue
        place = _part_difference(then, now) or _grown(recent.client[at + 1 :], then, now)
        if place is not None:
            behind = sum(part.size for message in recent.client[at:] for part in message.parts)
            return f"{turns}[{at}].{blocks}[{place[0]}] {place[1]}, {behind} bytes stand there and behind"
    return None


def _grown(later: Sequence[Message], then: Message, now: Message) -> tuple[int, str] | None:
    """What stands behind all that a message said, where the history went on otherwise than with that."""
    said = sum(not part.nth for part in then.parts)
    more = [(at, part) for at, part in enumerate(now.parts) if not part.nth][said:]
    after = next((part for message in later for part in message.parts if not part.nth), None)
    if not more or after is None or more[0][1].key == after.key:
        return None
    return more[0][0], f"({_kind(more[0][1])}) is new"


def _part_difference(then: Message, now: Message) -> tuple[int, str] | None:
    """Where two messages stop saying the same, and how."""
    mine = [(at, part) for at, part in enumerate(then.parts) if not part.nth]
    theirs = [part for part in now.parts if not part.nth]
    for at, (place, part) in enumerate(mine):
        if at == len(theirs):
            return place, f"({_kind(part)}) is missing"
        if part.key != theirs[at].key:
            stands = _said(part) in map(_said, theirs)
            stood = _said(theirs[at]) in [_said(other) for _, other in mine]
            how = "is missing" if stood and not stands else "has something new before it"
            return place, f"({_kind(part)}) {how if stood != stands else 'changed'}"
    return None


def _said(part: Part) -> bytes:
    match part:
        case Text(text=text) | Reminder(text=text):
            return text.encode("utf-8", "surrogatepass")
        case ToolCall(id=name):
            return b"call " + name.encode()
        case ToolResult(call_id=name, content=content):
            return b"result " + name.encode() + (content or b"")
        case _:
            return bytes(part.raw or part.base or b"")


def _kind(part: Part) -> str:
    names = {
        Text: "text",
        Reminder: "reminder",
        Image: "media",
        ToolCall: "tool call",
        ToolResult: "tool result",
    }
    return names.get(type(part), "block")


def miss(foreseen: Expected, usage: Usage | None, facts: Facts) -> Miss | None:
    """Why less came from the cache than the provider held; None where it did not, or nothing is known."""
    if usage is None or usage.cached is None:
        return None
    if foreseen.miss is not None and foreseen.miss.reason == "upstream":
        return foreseen.miss if usage.cached < NOISE_TOKENS else None
    if not foreseen.tokens:
        return None
    if usage.cached >= foreseen.tokens * SLACK_SHARE or foreseen.tokens - usage.cached < NOISE_TOKENS:
        return None
    if foreseen.miss is not None:
        return foreseen.miss
    if usage.prompt is not None and usage.prompt < facts.model.minimum:
        return Miss("small", f"{usage.prompt} tokens, cached from {facts.model.minimum} on")
    return Miss("unknown", "what was sent goes on from what the provider held")


_SAID: dict[str, MissReason] = {
    "model_changed": "model",
    "prompt_cache_key_changed": "client",
    "text_format_changed": "client",
    "reasoning_effort_changed": "client",
    "verbosity_changed": "client",
    "service_tier_changed": "client",
}
"""Whose a change is that a provider names [B20 B108], where its word alone tells: settings that no edit touches. Whether
a changed tool, system prompt or message is the client's or ours, it cannot know."""


def diagnosed(found: Miss | None, diagnosis: Diagnosis | None) -> Miss | None:
    """`found` with the provider's own word for it. Where nothing was expected here, its word is all there is."""
    if diagnosis is None:
        return found
    said = [] if diagnosis.reason is None else [diagnosis.reason]
    if said and diagnosis.missed is not None:
        said.append(f"{diagnosis.missed} tokens")
    if found is None and (diagnosis.missed is None or diagnosis.missed < NOISE_TOKENS):
        return None
    reason = found.reason if found is not None else "unknown"
    if reason == "unknown":
        reason = _SAID.get(diagnosis.reason or "", "unknown")
    withheld = f"reasoning withheld ({', '.join(diagnosis.removed)})" if diagnosis.removed else ""
    words = ": ".join(["the provider says", ", ".join(filter(None, [*said, withheld]))])
    return Miss(reason, "; ".join(filter(None, [found.detail if found is not None else "", words])))
