"""The pipeline on one screen: read, place, replay, stages, exit check, write.

`rewrite` is pure and synchronous: bytes, policy, ledger and facts in, a `Rewrite` out. It knows no clock, no IO,
no randomness and no environment; equal arguments give equal bytes. What is to be remembered goes out as a
`Commit`, which the caller hands to the ledger when the request is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from msgspec import Struct, structs

from .branch import Frontier, Place, Promise
from .conversation import Conversation, Message, Reasoning, Role, Text
from .counting import amounts_of
from .dialects import Dialect, Opened
from .economics import estimated
from .edits import (
    Edit,
    Held,
    InsertAfter,
    InsertBefore,
    Mend,
    PlaceMark,
    Remove,
    Replace,
    Target,
    apply,
    target_of,
    unchanged,
)
from .errors import BodyError, LawError
from .identity import setting
from .ledger import Commit, Ledger
from .passage import Passage, enter
from .policy import Policy, Stages, decode_policy
from .rawjson import repair
from .replay import Replayed, crosses, pointers, replay
from .runs import Run, follow, runs, turns_of
from .spool import Spooled
from .stages import ASKING, ORDER, RETROACTIVE, Facts, Heard, Stage, View, breakpoints, question
from .stages.encoding import Config
from .stages.marks import last_mark, lifetime
from .wellformed import faults


class Question(Struct, frozen=True):
    """What the model is to be asked before a request can be rewritten: a `body` for the client's own URL and headers,
    whose answer is waited for so many `seconds` at most."""

    body: bytes
    seconds: float


class Rewrite(Struct, frozen=True, kw_only=True, dict=True):
    """What is sent, and everything about it.

    `body` is the client's own object where nothing was to be done. `fallback` is what goes out instead if this
    body is refused for its structure: the client's, or, where thinking is bound to what was sent before, the
    client's without signed thinking [A45 A47]; ours without it where the client's would be refused anyway. `read`: the conversation as the client wrote it; `sent`: as it
    goes out. `spooled`: what must be kept before the body is sent, for it says where; where that cannot be done, ask
    again without a spool in the facts. `broken`: a law that did not hold, so that the fallback is what is sent.
    `spare`: what the fallback is made of, `bound`: the dialect that takes signed thinking out of it, None where it is
    the fallback itself. `question`: nothing was rewritten yet; ask again with what is `heard` of it in the facts.
    """

    body: bytes
    spare: bytes
    bound: Dialect | None = None
    edits: tuple[Edit, ...] = ()
    held: tuple[Held, ...] = ()
    spooled: tuple[Spooled, ...] = ()
    commit: Commit | None = None
    policy: Policy
    read: Conversation | None = None
    sent: Conversation | None = None
    place: Place | None = None
    broken: str = ""
    question: Question | None = None

    @cached_property
    def fallback(self) -> bytes:
        """Made when it is asked for: it takes reading all of a long history, and is seldom needed."""
        return self.spare if self.bound is None else self.bound.without_reasoning(self.spare)

    @property
    def regrets(self) -> dict[str, int]:
        """How many results came with this request that were taken out before, by tool."""
        promises = self.commit.promises if self.commit is not None else ()
        return dict(Counter(promise.regret for promise in promises if promise.regret))

    @property
    def content_changed(self) -> bool:
        """Whether what the model reads differs from what the client wrote; marks are no content [B1]."""
        return any(not isinstance(edit, PlaceMark) for edit in self.edits)


UNASKABLE = "this request leaves no room for a question"

SHORTEST, LONGEST = 2048, 16_384
"""Tokens that an answer to a question of ours may have, what is thought included, where the client bounds its own."""


def rewrite(
    body: bytes, dialect: Dialect, policy: Policy, ledger: Ledger, facts: Facts, opened: Opened | None = None
) -> Rewrite:
    """Rewrite one request body. `opened`: the same body, opened before, to save doing it twice.

    Raises BodyError where it cannot be read, LawError in strict mode.
    """
    passage, mended = _read(body, dialect, policy, ledger, facts, opened)
    policy, passage = _pinned(policy, passage, ledger, facts)
    if passage.client.partial:
        return Rewrite(
            body=passage.body,
            spare=body,
            edits=mended,
            policy=policy,
            read=passage.client,
            sent=passage.client,
        )
    kept = replay(passage)
    view = View(
        conversation=kept.conversation,
        client=passage.client,
        rules=dialect.rules,
        facts=facts,
        place=passage.place,
        start=passage.start(kept.conversation),
        regions=passage.regions,
        frozen=passage.frozen,
        announced=kept.announced,
        cleared=kept.cleared,
        breaks=kept.breaks,
        pointers=kept.pointers,
        regrets=kept.regrets,
        respelt=kept.respelt,
        fields=policy.fields(facts.agent),
    )
    staged = _staged(view, policy, kept, dialect)
    if staged.asks is not None:
        unheard = structs.replace(view, facts=structs.replace(facts, heard=Heard(fault=UNASKABLE)))
        asked, staged = staged.asks, _staged(unheard, policy, kept, dialect)
        possible = not _faults(passage, staged, facts)
        put = _question(passage, view, policy, kept, dialect, asked) if possible else None
        if put is not None:
            return Rewrite(
                body=passage.body,
                spare=passage.body,
                policy=policy,
                read=passage.client,
                sent=passage.client,
                place=passage.place,
                question=put,
            )
        view = unheard
    if staged.batched and (wrong := _faults(passage, staged, facts)):
        staged = _without_batches(view, policy, kept, dialect, staged, wrong)
    return _closed(dialect, policy, facts, passage, staged, mended)


def _read(
    body: bytes, dialect: Dialect, policy: Policy, ledger: Ledger, facts: Facts, opened: Opened | None
) -> tuple[Passage, tuple[Edit, ...]]:
    try:
        return enter(body, dialect, ledger, facts, opened), ()
    except BodyError:
        encoding = policy.stages.encoding
        mended, count = repair(body) if isinstance(encoding, Config) and encoding.text else (body, 0)
        if not count:
            raise
    edit = Mend(
        stage="encoding", reason="lone surrogate or NUL [A4]", target=Target(b""), required=True, count=count
    )
    return enter(mended, dialect, ledger, facts), (edit,)


def _pinned(policy: Policy, passage: Passage, ledger: Ledger, facts: Facts) -> tuple[Policy, Passage]:
    """A conversation keeps its policy until its cache is cold and no signed thinking stands; then it starts anew."""
    branch = passage.place.branch
    if branch is not None and branch.alone:
        return Policy(name=policy.name, stages=Stages()), passage
    if branch is None or branch.policy == policy.digest:
        return policy, passage
    signed = any(
        isinstance(part, Reasoning) and part.signature
        for message in passage.client.messages
        for part in message.parts
    )
    cold = all(_is_cold(frontier, facts) for frontier in branch.frontiers)
    if cold and not signed:
        return policy, passage.anew()
    encoded = ledger.policy(branch.policy)
    kept = decode_policy(encoded) if encoded is not None else None
    return kept or policy, passage


def _is_cold(frontier: Frontier, facts: Facts) -> bool:
    """Whether the lifetime that the last mark asked for has passed, else the model's [B10]."""
    lifetime = facts.model.ttl_s if frontier.ttl_s is None else frontier.ttl_s
    return lifetime is not None and facts.now - frontier.at > lifetime


class _Staged(Struct, frozen=True, kw_only=True):
    """The conversation behind the last stage. `plain`: as it was before marks were set, `sums`: of its messages; `lasting`: edits
    of messages that replay will make again; `passing`: edits decided anew each time; `brief`: whether some of these are of
    this request alone."""

    view: View
    plain: Conversation
    sums: tuple[Run, ...]
    lasting: tuple[Edit, ...]
    passing: tuple[Edit, ...]
    promises: tuple[Promise, ...]
    held: tuple[Held, ...]
    spooled: tuple[Spooled, ...]
    reach: int
    batched: bool
    asks: float | None
    brief: bool


def _without_batches(
    view: View, policy: Policy, kept: Replayed, dialect: Dialect, staged: _Staged, wrong: frozenset[str]
) -> _Staged:
    """The request without the batches that it would have made: what they would have broken is worse than a prompt that
    is longer than it need be, and the repairs of other stages are not to be lost with them."""
    made = [p for p in staged.promises if p.broke is not None and p.stage in RETROACTIVE]
    if not made:
        return staged
    again = _staged(view, policy, kept, dialect, without=frozenset(promise.stage for promise in made))
    held = [
        Held(
            stage=promise.stage,
            reason=f"a batch would leave {', '.join(sorted(wrong))}",
            targets=len(promise.edits),
            breaks_tokens=0,
            saves_tokens=round(promise.broke.saves if promise.broke is not None else 0),
        )
        for promise in made
    ]
    return structs.replace(again, held=(*again.held, *held))


def _staged(
    view: View,
    policy: Policy,
    kept: Replayed,
    dialect: Dialect,
    without: frozenset[str] = frozenset(),
    order: Sequence[Stage[Any]] = ORDER,
) -> _Staged:
    """Each stage sees what the ones before it left; stages in `without` do nothing."""
    lasting, passing = [*kept.edits], list[Edit]()
    promises: list[Promise] = []
    held: list[Held] = []
    spooled: list[Spooled] = []
    brief: list[Edit] = []
    asks: float | None = None
    for stage in order:
        if stage is breakpoints:
            view = structs.replace(view, conversation=_sealed(view.conversation, dialect))
            plain, sums = view.conversation, runs(view.conversation)
            conversation, done = apply(plain, brief, view.start)
            passing += done
            view = structs.replace(view, conversation=conversation)
        config = policy.config(stage.NAME)
        if config is None or stage.NAME in without:
            continue
        proposal = stage.propose(view, config)
        if order is ASKING:  # a batch that another stage makes now can wait for the request itself
            kept_back = tuple(promise for promise in proposal.promises if promise.broke is None)
            proposal = structs.replace(proposal, promises=kept_back)
        held += proposal.held
        spooled += proposal.spooled
        asks = proposal.asks if asks is None else asks
        promises += proposal.promises
        brief += proposal.brief if order is ORDER else ()  # nothing stands behind a question of ours
        conversation, done = apply(view.conversation, _changing(view, proposal.promises), view.start)
        lasting += done
        conversation, done = apply(conversation, proposal.edits, view.start)
        passing += done
        batch = view.batch or _batch(proposal.promises)
        pointing = pointers(proposal.promises)
        view = structs.replace(
            view,
            conversation=conversation,
            frozen=proposal.frozen or view.frozen,
            batch=batch,
            pointers={**view.pointers, **pointing} if pointing else view.pointers,
        )
    reach = len(view.client.messages) if any(map(crosses, promises)) else kept.reach
    return _Staged(
        view=view,
        plain=plain,
        sums=sums,
        lasting=tuple(lasting),
        passing=tuple(passing),
        promises=tuple(map(_lean, promises)),
        held=tuple(held),
        spooled=tuple(spooled),
        reach=reach,
        batched=any(edit.committed for promise in promises for edit in promise.edits),
        asks=asks,
        brief=bool(brief),
    )


def _question(
    passage: Passage, view: View, policy: Policy, kept: Replayed, dialect: Dialect, seconds: float
) -> Question | None:
    """What the model is asked: the request with nothing taken out, so that what is cached of it is read, and a question
    in place of what is new. None where it could not be answered in words, or would be refused."""
    staged = _staged(view, policy, kept, dialect, order=ASKING)
    tail = staged.view.conversation.messages[staged.view.conversation.last(Role.ASSISTANT) + 1 :]
    put = any(isinstance(part, Text) and part.text == question.QUESTION for m in tail for part in m.parts)
    if not put or _faults(passage, staged, view.facts):
        return None
    sent, model = staged.view.conversation, view.facts.model
    left = model.window - round(estimated(sent, model) * view.facts.scale)
    most = min(max(SHORTEST, min(LONGEST, left)), model.max_output)
    bounded = dialect.bounded(sent, min(SHORTEST, most), most)
    return None if bounded is None else Question(dialect.write(bounded), seconds)


def _batch(promises: Sequence[Promise]) -> tuple[Target, Target] | None:
    """The first and the last part that a batch changes; its edits are in prompt order."""
    changed = [e.target for p in promises for e in p.edits if e.committed and isinstance(e, Replace)]
    return (changed[0], changed[-1]) if changed else None


def _sealed(conversation: Conversation, dialect: Dialect) -> Conversation:
    """Changed messages, written once: the next request takes them over as they are."""
    if all(run.raws is not None for run in runs(conversation)):
        return conversation
    messages = tuple(dialect.sealed(m) if m.raw is None and m.written else m for m in conversation.messages)
    return follow(structs.replace(conversation, messages=messages), conversation)


def _changing(view: View, promises: Sequence[Promise]) -> list[Edit]:
    """The edits of new promises, but for first spellings, which say what stands there."""
    edits = [edit for promise in promises for edit in promise.edits]
    spellings = {edit.target: edit for edit in edits if isinstance(edit, Replace)}
    same: set[int] = set()
    for message in view.conversation.messages[view.start :] if spellings else ():
        for part in message.parts:
            edit = spellings.get(Target(part.key, part.nth))
            if edit is not None and unchanged(edit, part):
                same.add(id(edit))
    return [edit for edit in edits if id(edit) not in same]


def _closed(
    dialect: Dialect,
    policy: Policy,
    facts: Facts,
    passage: Passage,
    staged: _Staged,
    mended: tuple[Edit, ...],
) -> Rewrite:
    """The exit check, the bytes, and what the ledger is to remember."""
    edits = (*mended, *staged.lasting, *staged.passing)
    content = any(not isinstance(edit, PlaceMark) for edit in edits)
    broken = _check(passage, staged, facts) if staged.lasting or staged.passing else ""
    bare = _bare(policy, facts, passage)
    shown = {
        "policy": policy,
        "read": passage.client,
        "place": passage.place,
        "held": staged.held,
        "spare": passage.body,
        "bound": dialect if bare else None,
    }
    if broken:
        held_back = Rewrite(body=passage.body, sent=passage.client, broken=broken, **shown)  # type: ignore[arg-type]  # same names
        if passage.place.branch is None:
            return held_back
        fallback = held_back.fallback
        return structs.replace(held_back, body=fallback, spare=fallback, bound=None)
    sent = staged.view.conversation
    written = dialect.write(sent) if staged.lasting or staged.passing else passage.body
    commit = _commit(policy, facts, passage, staged, bare=bare, rewritten=content)
    if commit is not None and bare and _met(passage, dialect, facts, content=content):
        shown["spare"] = written
        commit = structs.replace(commit, recovers=True)
    shown["spooled"] = staged.spooled
    return Rewrite(body=written, edits=edits, commit=commit, sent=sent, **shown)  # type: ignore[arg-type]  # same names


def _check(passage: Passage, staged: _Staged, facts: Facts) -> str:
    """Faults that the client's body does not have, as text; "" where there are none [law 6].

    What was sent before was checked then; only a batch reaches back into it.
    """
    new = _faults(passage, staged, facts)
    if new and facts.strict:
        raise LawError(f"the rewrite would send: {', '.join(sorted(new))}")
    return ", ".join(sorted(new))


def _faults(passage: Passage, staged: _Staged, facts: Facts) -> frozenset[str]:
    """The faults of what would be sent that the client's body does not have."""
    view = staged.view
    messages = view.conversation.messages
    since = 0 if staged.batched else _settled(messages, view.start)
    ours = faults(messages, view.rules, facts.model, since)
    return ours - faults(passage.client.messages, view.rules, facts.model) if ours else frozenset()


def _bare(policy: Policy, facts: Facts, passage: Passage) -> tuple[Promise, ...]:
    """What the fallback does on a model that checks prefixes, as a promise: no thinking up to here [A47].

    Thinking may be bound to what we sent instead of what the client wrote: where we ever sent this conversation
    rewritten, and where we meet it in mid-life, for what we knew of it may be lost.
    """
    branch = passage.place.branch
    suspect = not policy.idle if branch is None else branch.rewritten
    if not suspect or not facts.model.prefix_check:
        return ()
    messages = passage.client.messages
    edits = tuple(chain.from_iterable(map(_unbinding, messages)))
    if not edits or not passage.keys:
        return ()
    anchor = next(part.key for message in reversed(messages) for part in message.parts[::-1] if not part.nth)
    return (Promise(anchor=anchor, stage="reasoning", edits=edits),)


_UNBINDING = "edits that leave no reasoning"


def _unbinding(message: Message) -> tuple[Remove, ...]:
    """The edits that leave nothing of its reasoning, kept with the message."""
    known: tuple[Remove, ...] | None = message.__dict__.get(_UNBINDING)
    if known is None:
        known = message.__dict__[_UNBINDING] = tuple(
            Remove(
                stage="reasoning",
                reason="bound to what was sent before",
                target=target_of(part),
                committed=True,
            )
            for part in message.parts
            if isinstance(part, Reasoning)
        )
    return known


def _met(passage: Passage, dialect: Dialect, facts: Facts, *, content: bool) -> bool:
    """Whether the fallback is our own body: in mid-life, where the client's is no better or would be refused anyway."""
    if passage.place.branch is not None:
        return False
    return not content or bool(faults(passage.client.messages, dialect.rules, facts.model))


def _settled(messages: Sequence[Message], start: int) -> int:
    """The last answer before what is new: nothing in front of it can come out of balance by what stands behind.

    An answer that was emptied is none: what is new may have gone to the turn before it.
    """
    at = min(start, len(messages)) - 1
    while at > 0 and not (
        messages[at].role is Role.ASSISTANT
        and messages[at].written
        and messages[at - 1].role is not Role.ASSISTANT
    ):
        at -= 1
    return max(0, at)


def _commit(
    policy: Policy,
    facts: Facts,
    passage: Passage,
    staged: _Staged,
    *,
    bare: tuple[Promise, ...],
    rewritten: bool,
) -> Commit | None:
    """What to remember; None for a request that says nothing."""
    if not passage.keys:
        return None
    branch = passage.place.branch
    sent = staged.view.conversation
    tail = last_mark(sent)
    frontier = Frontier(
        upstream=facts.upstream,
        model=sent.model,
        setting=setting(sent),
        at=facts.now,
        parts=passage.counts[-1],
        estimate=estimated(sent, facts.model),
        tail=tail.target if tail else None,
        tail_parts=tail.parts if tail else 0,
        turns=turns_of(sent),
        ttl_s=lifetime(tail.ttl, facts.model) if tail else None,
        amounts=amounts_of(sent if staged.brief else staged.plain, facts.model),
    )
    return Commit(
        root=passage.root,
        base=branch.id if branch else None,
        fork=passage.place.broke,
        session=facts.session,
        keys=passage.keys,
        policy=policy.digest,
        promises=staged.promises,
        bare=bare,
        frozen=staged.view.frozen,
        rewritten=rewritten,
        frontier=frontier,
        recent=passage.remembered(staged.plain.messages, staged.sums, staged.lasting, staged.reach),
        recall=passage.name,
    )


def _lean(promise: Promise) -> Promise:
    """A promise without the client's bytes: the part an edit replaces brings its own."""
    return structs.replace(promise, edits=tuple(map(_lean_edit, promise.edits)))


def _lean_edit(edit: Edit) -> Edit:
    if not isinstance(edit, Replace | InsertBefore | InsertAfter):
        return edit
    part = edit.part
    if part.raw is None and part.base is None:
        return edit
    raw = None if isinstance(edit, Replace) else part.raw
    return structs.replace(edit, part=structs.replace(part, raw=raw, base=None))
