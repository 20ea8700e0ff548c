"""The rewriter behind the gateway: facts from a request, a rewrite, and what the ledger is told of it.

Facts are gathered here, for the core asks the world for nothing: who pays (never a key, its digest), which agent
and session, what is known of the model behind the upstream, how its tokens compare with our estimates. Policies
are looked at again when their file changes, and taken over only if they are sound.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, structs

from ..agents import Agents
from ..answer import Signed
from ..calibration import Calibration
from ..conversation import NO_KEY
from ..counting import Amounts, Counted, amounts_of, answer_to, counted
from ..dialects import DIALECTS, Dialect, Opened
from ..edits import by_stage
from ..errors import BodyError, LawError
from ..explain import structure
from ..identity import chain, origin
from ..ledger import Ledger, Store, Ticket
from ..misses import Expected, expected, held, miss
from ..models import Models
from ..observed import would_be, would_read
from ..passage import open_body
from ..policy import Policies
from ..rawjson import repair
from ..rewrite import Rewrite, rewrite
from ..stages import NOBODY, Facts
from ..turns import Miss, TurnReport
from ..usage import Usage
from .callers import project_of, reached_at, tenant, user_of
from .exchange import Incoming, Outcome, Prepared, Warmth
from .projectfiles import ProjectFiles, environment
from .spool import SpoolDirectory
from .summaries import in_question, written_by
from .workplace import workplace

COUNTING = ("/count_tokens", ":countTokens")
"""Requests that ask what a body would cost: rewritten alike, remembered by nobody [A70]."""

_KEPT = 10_000
"""Conversations of which something is remembered here."""


class _Memo(Struct, frozen=True, kw_only=True):
    """What `settle` needs of `prepare`."""

    rewrite: Rewrite
    ticket: Ticket | None
    facts: Facts
    expected: Expected
    amounts: Amounts
    last: Counted | None


class Conversations:
    """Implements `exchange.Rewriter` with the core. Safe to call from several threads."""

    def __init__(
        self,
        policies: Policies,
        *,
        models: Models | None = None,
        agents: Agents | None = None,
        store: Store | None = None,
        mode: Literal["apply", "observe"] = "apply",
        upstreams: Mapping[str, str] | None = None,
        strict: bool = False,
        spool: SpoolDirectory | None = None,
        project: ProjectFiles | None = None,
    ) -> None:
        """`upstreams` maps an upstream's name to its URL, from which its profile follows unless it is named. `spool` is
        where huge outputs are kept, `project` the files that a policy may inject.
        """
        self.policies = policies
        self.models = models or Models.load()
        self.agents = agents or Agents.load()
        self.ledger = Ledger(store)
        self.calibration = Calibration()
        self._observes = mode == "observe"
        self._urls = dict(upstreams or {})
        self._strict = strict
        self.spool = spool
        self._project = project
        self._lock = threading.Lock()
        self._rewritten: OrderedDict[bytes, None] = OrderedDict()
        self._counted: OrderedDict[bytes, Counted] = OrderedDict()

    @property
    def reads_files(self) -> bool:
        """See `exchange.Rewriter`."""
        return self._project is not None and self.policies.injects

    def prepare(self, request: Incoming) -> Prepared:
        """See `exchange.Rewriter`."""
        dialect = DIALECTS.get(request.dialect)
        if dialect is None or request.method != "POST":
            return Prepared(body=request.body, commit=False)
        opened = _opened(request.body, dialect, self.ledger)
        shown = opened or _opened(repair(request.body)[0], dialect, self.ledger)
        facts = self._facts(request, shown)
        try:
            return self._prepare(request, dialect, facts, opened)
        except BodyError as error:
            return Prepared(
                body=request.body,
                commit=False,
                report=TurnReport(agent=facts.agent.name or None, unread=str(error)),
                session=facts.session,
            )
        except Exception as fault:
            fallback = self._unbound(request.body, dialect, facts)
            if fallback is request.body:
                raise
            # The conversation was sent rewritten to a model that checks prefixes: its thinking is bound to what was
            # sent, and the client's own body would be refused [A45]. Without thinking it is not [A47].
            return Prepared(
                body=fallback,
                changed=True,
                commit=False,
                report=TurnReport(agent=facts.agent.name or None, unread="sent without its reasoning"),
                fault=fault,
                session=facts.session,
            )

    def _prepare(self, request: Incoming, dialect: Dialect, facts: Facts, opened: Opened | None) -> Prepared:
        policy = self.policies.choose(facts.upstream, facts.agent.name, facts.model.model)
        if policy.config("inject") is not None:
            files: Mapping[str, str] = {}
            if self._project is not None and policy.injected:
                files = self._project.texts(policy.injected, workplace(opened, dialect, facts.agent))
            facts = structs.replace(facts, files=files, environment=environment(facts.now))
        counting = request.path.endswith(COUNTING)
        facts = structs.replace(facts, heard=NOBODY if counting or self._observes else request.heard)
        while True:
            made = rewrite(request.body, dialect, policy, self.ledger, facts, opened)
            if made.question is not None:
                return in_question(request.body, made, facts, ask_usage=self._may_ask(dialect, made, facts))
            branch = made.place.branch if made.place else None
            before = branch or self.ledger.latest(facts.session)
            recent = self.ledger.recent_of(before.id) if before else None
            foreseen = expected(made, before, recent, facts, observed=self._observes)
            if self._observes and before is not None and foreseen.tokens:
                known = self._counted.get(before.id)
                foreseen = structs.replace(
                    foreseen, tokens=held(known.usage if known is not None else None, facts.model)
                )
            if counting or made.commit is None:
                ticket = None
                break
            if not self._kept(made):
                facts = structs.replace(facts, spool=None)
                continue
            with self._lock:
                if not self.ledger.conflicts(made.commit):
                    self.ledger.keep_policy(made.policy.digest, made.policy.encoded)
                    ticket = self.ledger.commit(made.commit)
                    break
        if (
            made.content_changed
            and facts.model.prefix_check
            and made.commit is not None
            and not self._observes
        ):
            self._note_rewritten(made.commit.root)
        amounts, last = self._amounts(made, facts)
        body = request.body if self._observes else made.body
        return Prepared(
            body=body,
            spare=None if self._observes else lambda: made.fallback,
            changed=body is not request.body,
            commit=ticket is not None,
            report=structs.replace(
                self._reported(made, facts, foreseen, turn=branch.turns + 1 if branch else 1),
                counted=counted(amounts, self.calibration.rates(facts.model), last) if amounts else None,
            ),
            memo=_Memo(
                rewrite=structs.replace(made, spooled=()),
                ticket=ticket,
                facts=facts,
                expected=foreseen,
                amounts=amounts,
                last=last,
            ),
            fault=LawError(made.broken) if made.broken else None,
            would_repair=self._observes and any(edit.required for edit in made.edits),
            ask_usage=self._may_ask(dialect, made, facts),
            session=facts.session,
            warmth=None if ticket is None or self._observes else _warmth(request, made, facts),
        )

    def _amounts(self, made: Rewrite, facts: Facts) -> tuple[Amounts, Counted | None]:
        """What is sent comes to, and the prompt of this conversation that the provider counted last."""
        if made.commit is None or made.sent is None or made.read is None:
            return (), None
        amounts = amounts_of(made.read, facts.model) if self._observes else made.commit.frontier.amounts
        branch = made.place.branch if made.place is not None else None
        seen = branch.frontier(facts.upstream, made.sent.model) if branch is not None else None
        if branch is None or seen is None:
            return amounts, None
        last = (
            self._counted.get(branch.id) if self._observes else Counted(seen.amounts, seen.usage or Usage())
        )
        if last is None or not last.known or made.commit.recent is None:
            return amounts, None
        answer = answer_to(made.read, made.commit.recent.counts, seen.parts, facts.model)
        return amounts, structs.replace(last, answer=answer)

    def _may_ask(self, dialect: Dialect, made: Rewrite, facts: Facts) -> bool:
        """Whether a stream may be asked for its usage: not where nothing at all is to be changed."""
        idle = self._observes or made.policy.idle
        return dialect.name == "openai_chat" and facts.model.include_usage and not idle

    def _kept(self, made: Rewrite) -> bool:
        """Whether all is kept that the body says is: before it is sent, or it would speak of what is not there."""
        return (
            not made.spooled or self._observes or (self.spool is not None and self.spool.hold(made.spooled))
        )

    def _reported(self, made: Rewrite, facts: Facts, foreseen: Expected, *, turn: int) -> TurnReport:
        report = _report(made, facts, foreseen, turn=turn)
        if not self._observes:
            return report
        return structs.replace(report, observed=True, would_read=would_read(made, facts))

    def settle(self, prepared: Prepared, outcome: Outcome) -> Miss | None:
        """See `exchange.Rewriter`."""
        memo = prepared.memo
        if not isinstance(memo, _Memo) or memo.ticket is None:
            return None
        usage = outcome.usage
        answers = outcome.answer.call_ids
        with self._lock:
            if outcome.retried_with_fallback:
                self.ledger.abandon(memo.ticket)
            else:
                said = self._would_be(prepared, memo, usage)
                signed = _to_come_back(outcome, memo.facts)
                self.ledger.settle(memo.ticket, said, answers, success=outcome.succeeded, signed=signed)
        if not outcome.succeeded or usage is None:
            return None
        if usage.prompt and not outcome.retried_with_fallback:
            estimate = memo.ticket.commit.frontier.estimate
            self.calibration.observe(
                memo.facts.model, memo.amounts, usage.prompt, estimate=estimate, last=memo.last
            )
        return miss(memo.expected, usage, memo.facts)

    def refreshed(self, prepared: Prepared, at: float) -> None:
        """See `exchange.Rewriter`."""
        memo = prepared.memo
        if isinstance(memo, _Memo) and memo.ticket is not None:
            with self._lock:
                self.ledger.refreshed(memo.ticket, at)

    def _would_be(self, prepared: Prepared, memo: _Memo, usage: Usage | None) -> Usage | None:
        """What the ledger is told: where requests are only observed, the usage of what it takes to have been sent.

        What the provider said of the client's own is kept beside it, to know a miss of the client's by.
        """
        if not self._observes or memo.ticket is None or usage is None:
            return usage
        self._counted[memo.ticket.branch] = Counted(memo.amounts, usage)
        self._counted.move_to_end(memo.ticket.branch)
        while len(self._counted) > _KEPT:
            self._counted.popitem(last=False)
        read = prepared.report.would_read if prepared.report is not None else None
        return would_be(memo.rewrite, read, usage, memo.facts)

    # -- facts ----------------------------------------------------------------------------------------

    def _facts(self, request: Incoming, opened: Opened | None) -> Facts:
        envelope = dict(opened.envelope) if opened else {}
        asked = DIALECTS[request.dialect].model(opened, request.path) if opened else ""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.headers}
        agent = self.agents.of(headers, opened.preface if opened else "")
        user = user_of(envelope)
        model = self.models.facts(self._profile(request), asked, request.dialect)
        session = " ".join(headers[name] for name in (*agent.session, *agent.subagent) if name in headers)
        return Facts(
            now=request.started_at,
            tenant=tenant(
                request.headers, user.account_uuid or project_of(envelope), request.upstream, request.query
            ),
            model=model,
            upstream=request.upstream,
            session=session or user.session_id,
            agent=agent,
            scale=self.calibration.scale(model),
            spool=self.spool.seen_from(reached_at(headers)) if self.spool is not None else None,
            strict=self._strict,
        )

    def _profile(self, request: Incoming) -> str:
        if request.profile is not None:
            return self.models.profile_for("", request.profile)
        return self.models.profile_for(self._urls.get(request.upstream, ""))

    # -- the bit that outlives every fault ------------------------------------------------------------

    def _note_rewritten(self, root: bytes) -> None:
        self._rewritten[root] = None
        self._rewritten.move_to_end(root)
        while len(self._rewritten) > _KEPT:
            self._rewritten.popitem(last=False)

    def _unbound(self, body: bytes, dialect: Dialect, facts: Facts) -> bytes:
        """The client's body, without signed thinking where that may be bound to what we sent."""
        if not facts.model.prefix_check or self._observes:
            return body
        try:
            root = _root(body, dialect, facts)
            if root in self._rewritten or any(
                branch.rewritten for branch in tuple(self.ledger.branches(root).values())
            ):
                return dialect.without_reasoning(body)
        except BodyError:
            return body
        return body


def _root(body: bytes, dialect: Dialect, facts: Facts) -> bytes:
    opened = dialect.open(body)
    if not opened.messages:  # a system prompt alone
        return NO_KEY
    first = dialect.read(structs.replace(opened, messages=opened.messages[:1])).messages[0]
    keyed = next(chain((facts.agent.recognise(first),), origin(facts.tenant), facts.agent.mask))
    return next((part.key for part in keyed.parts if not part.nth), NO_KEY)


def _warmth(request: Incoming, made: Rewrite, facts: Facts) -> Warmth | None:
    """What keeping a conversation warm takes; None where it cannot be done, or nobody comes back to it.

    A sub-agent ends with its task, and a request without a second one behind it has no conversation.
    """
    model = facts.model
    named = {name.lower() for name, _ in request.headers}
    side = any(name.encode() in named for name in facts.agent.subagent)
    begun = made.place is not None and made.place.branch is not None
    if not (model.warms and model.ttl_s and model.price and made.commit and begun) or side:
        return None
    ttl = made.commit.frontier.ttl_s or model.ttl_s
    return Warmth(
        conversation=f"{facts.upstream} {model.model} {made.commit.root.hex()}",
        session=facts.session,
        ttl_s=ttl,
        read=model.read,
        write=model.write_1h if ttl > model.ttl_s else model.write_5m,
        price=model.price,
        minimum=model.minimum,
    )


def _opened(body: bytes, dialect: Dialect, ledger: Ledger) -> Opened | None:
    try:
        return open_body(body, dialect, ledger)
    except BodyError:
        return None


def _to_come_back(outcome: Outcome, facts: Facts) -> tuple[Signed, ...]:
    """What is kept of an answer until the client sends it back: words only where the upstream demands them."""
    required = facts.model.reasoning == "required"
    return tuple(one for one in outcome.answer.signed if required or one.kind != "words")


def _report(made: Rewrite, facts: Facts, foreseen: Expected, *, turn: int) -> TurnReport:
    reclaimed: dict[str, int] = {}
    for edit in made.edits:
        if edit.tokens_after < edit.tokens_before:
            reclaimed[edit.stage] = reclaimed.get(edit.stage, 0) + edit.tokens_before - edit.tokens_after
    held: dict[str, int] = {}
    for kept in made.held:
        held[kept.stage] = held.get(kept.stage, 0) + kept.targets
    shares, mean = structure(made.sent) if made.sent is not None else ({}, None)
    return TurnReport(
        conversation=made.commit.root.hex()[:12] if made.commit else None,
        number=turn,
        agent=facts.agent.name or None,
        model=facts.model.model or None,
        edits=by_stage(made.edits),
        reclaimed=reclaimed,
        held=held,
        regrets=made.regrets,
        structure=shares,
        tool_result_mean_chars=mean,
        expected_cached=foreseen.tokens,
        unread=made.broken or None,
        summary=written_by(made, facts),
    )
