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

import msgspec
from msgspec import Raw, Struct, structs

from ..agents import Agents
from ..conversation import NO_KEY
from ..dialects import DIALECTS, Dialect, Opened
from ..edits import by_stage
from ..errors import BodyError, LawError
from ..explain import structure
from ..identity import chain, digest, origin
from ..ledger import Ledger, Store, Ticket
from ..misses import Expected, expected, miss
from ..models import Models
from ..policy import Policies
from ..rawjson import repair
from ..rewrite import Rewrite, rewrite
from ..stages import Facts
from ..tokens import Calibration
from ..turns import Miss, TurnReport
from .exchange import Incoming, Outcome, Prepared, RawHeaders

COUNTING = ("/count_tokens",)
"""Requests that ask what a body would cost: rewritten alike, remembered by nobody [A70]."""

_ROTATING = ("sk-ant-oat", "eyJ")
"""Beginnings of bearer tokens that are renewed in mid-session and so name nobody."""


class _UserId(Struct):
    account_uuid: str = ""
    session_id: str = ""


class _Metadata(Struct):
    user_id: str = ""


_string = msgspec.json.Decoder(str)
_metadata = msgspec.json.Decoder(_Metadata)
_user = msgspec.json.Decoder(_UserId)


class _Memo(Struct, frozen=True, kw_only=True):
    """What `settle` needs of `prepare`."""

    rewrite: Rewrite
    ticket: Ticket | None
    facts: Facts
    expected: Expected


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
    ) -> None:
        """`upstreams` maps an upstream's name to its URL, from which its profile follows unless it is named."""
        self.policies = policies
        self.models = models or Models.load()
        self.agents = agents or Agents.load()
        self.ledger = Ledger(store)
        self.calibration = Calibration()
        self._observes = mode == "observe"
        self._urls = dict(upstreams or {})
        self._strict = strict
        self._lock = threading.Lock()
        self._rewritten: OrderedDict[bytes, None] = OrderedDict()

    def prepare(self, request: Incoming) -> Prepared:
        """See `exchange.Rewriter`."""
        dialect = DIALECTS.get(request.dialect)
        if dialect is None or request.method != "POST":
            return Prepared(body=request.body, commit=False)
        opened = _opened(request.body, dialect)
        shown = opened or _opened(repair(request.body)[0], dialect)
        facts = self._facts(request, dict(shown.envelope) if shown else {})
        try:
            return self._prepare(request, dialect, facts, opened)
        except BodyError as error:
            return Prepared(
                body=request.body,
                commit=False,
                report=TurnReport(agent=facts.agent.name or None, unread=str(error)),
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
            )

    def _prepare(self, request: Incoming, dialect: Dialect, facts: Facts, opened: Opened | None) -> Prepared:
        policy = self.policies.choose(facts.upstream, facts.agent.name, facts.model.model)
        counting = request.path.endswith(COUNTING)
        while True:
            made = rewrite(request.body, dialect, policy, self.ledger, facts, opened)
            branch = made.place.branch if made.place else None
            before = branch or self.ledger.latest(facts.session)
            recent = self.ledger.recent_of(before.id) if before else None
            foreseen = expected(made, before, recent, facts)
            if counting or made.commit is None:
                ticket = None
                break
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
        body = request.body if self._observes else made.body
        return Prepared(
            body=body,
            fallback=None if self._observes or made.fallback is made.body else made.fallback,
            changed=body is not request.body,
            commit=ticket is not None,
            report=_report(made, facts, foreseen, turn=branch.turns + 1 if branch else 1),
            memo=_Memo(rewrite=made, ticket=ticket, facts=facts, expected=foreseen),
            fault=LawError(made.broken) if made.broken else None,
        )

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
                self.ledger.settle(memo.ticket, usage, answers, success=outcome.succeeded)
        if not outcome.succeeded or usage is None:
            return None
        if usage.prompt:
            self.calibration.observe(memo.facts.model.model, len(memo.rewrite.body) // 4, usage.prompt)
        return miss(memo.expected, usage, memo.facts)

    # -- facts ----------------------------------------------------------------------------------------

    def _facts(self, request: Incoming, envelope: Mapping[str, Raw]) -> Facts:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.headers}
        agent = self.agents.of(headers)
        user = _user_id(envelope)
        model = self.models.facts(self._profile(request), _text(envelope, "model"))
        session = " ".join(headers[name] for name in (*agent.session, *agent.subagent) if name in headers)
        return Facts(
            now=request.started_at,
            tenant=tenant(request.headers, user.account_uuid, request.upstream),
            model=model,
            upstream=request.upstream,
            session=session or user.session_id,
            agent=agent,
            scale=self.calibration.scale(model.model, 1.0),
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
        while len(self._rewritten) > 10_000:
            self._rewritten.popitem(last=False)

    def _unbound(self, body: bytes, dialect: Dialect, facts: Facts) -> bytes:
        """The client's body, without signed thinking where that may be bound to what we sent."""
        if not facts.model.prefix_check or self._observes:
            return body
        try:
            root = _root(body, dialect, facts)
            if root in self._rewritten or any(
                branch.rewritten for branch in self.ledger.branches(root).values()
            ):
                return dialect.without_reasoning(body)
        except BodyError:
            return body
        return body


def _root(body: bytes, dialect: Dialect, facts: Facts) -> bytes:
    opened = dialect.open(body)
    first = dialect.read(structs.replace(opened, messages=opened.messages[:1])).messages[0]
    keyed = next(chain((facts.agent.recognise(first),), origin(facts.tenant), facts.agent.mask))
    return next((part.key for part in keyed.parts if not part.nth), NO_KEY)


def _opened(body: bytes, dialect: Dialect) -> Opened | None:
    try:
        return dialect.open(body)
    except BodyError:
        return None


def _text(envelope: Mapping[str, Raw], name: str) -> str:
    try:
        return _string.decode(envelope[name]) if name in envelope else ""
    except msgspec.DecodeError:
        return ""


def _user_id(envelope: Mapping[str, Raw]) -> _UserId:
    """Account and session as an agent names them in its metadata; empty where it does not."""
    try:
        return (
            _user.decode(_metadata.decode(envelope["metadata"]).user_id)
            if "metadata" in envelope
            else _UserId()
        )
    except msgspec.DecodeError:
        return _UserId()


def tenant(headers: RawHeaders, account: str, upstream: str) -> bytes:
    """Who pays, as a digest: the account where one is named, else the key, else the upstream alone.

    Caches belong to an organization [B16]; a token that rotates would orphan a conversation in its middle.
    """
    if account:
        return digest(b"account", account.encode())
    for name, value in headers:
        lower = name.lower()
        secret = value.removeprefix(b"Bearer ").removeprefix(b"bearer ")
        if lower == b"chatgpt-account-id":
            return digest(b"account", value)
        if lower in (b"x-api-key", b"x-goog-api-key", b"authorization") and not secret.decode(
            "latin-1"
        ).startswith(_ROTATING):
            return digest(b"key", secret)
    return digest(b"upstream", upstream.encode())


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
        structure=shares,
        tool_result_mean_chars=mean,
        expected_cached=foreseen.tokens,
        unread=made.broken or None,
    )
