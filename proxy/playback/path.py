"""A recorded session on one path: directly, or through the rewrite under a policy, with a ledger of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path as Folder

from msgspec import Struct, structs

from ..answer import Answer as Heard
from ..gateway.conversations import Conversations
from ..gateway.exchange import Outcome, Prepared
from ..gateway.refusals import structural_class
from ..gateway.spool import SpoolDirectory
from ..modelfacts import ModelFacts
from ..models import Models
from ..policy import Policies, load_policy
from ..simulator import Answer, Exchange
from ..turns import OutcomeName, TurnReport
from ..usage import Usage
from .providers import Binding, Providers
from .requests import Request

BASE = "hindsight"
"""The row of the best schedule."""

WINDOWS = "default"
"""The policy that it starts from, and by whose windows results become stale."""


_BOUND = "bound to a different conversation"
"""What a refusal says of thinking that does not stand where it was made."""


class Sent(Struct, frozen=True):
    """A request as it was sent on a path (`body` empty where it is not kept), and what the provider noted; None where
    it was not asked.

    `refused`: what the provider said against it, where it did.
    """

    request: Request
    body: bytes
    exchange: Exchange | None
    report: TurnReport | None = None
    refused: str | None = None
    fault: str | None = None


class Played(Struct, frozen=True):
    """A session on one path."""

    sent: tuple[Sent, ...]


class Path:
    """One path. `policies` None is the direct one. Requests in `skipped` are sent past the provider's count."""

    def __init__(
        self,
        policies: Policies | None,
        models: Models,
        binding: Binding,
        spool: Folder,
        skipped: Collection[int],
    ) -> None:
        self._providers = Providers(binding)
        self._skipped = skipped
        self._rewriter: Conversations | None = None
        if policies is not None:
            kept = SpoolDirectory(spool, None, lambda _: None, shown=str(spool))
            self._rewriter = Conversations(policies, models=models, spool=kept)

    def play(self, request: Request) -> Sent:
        """Send one request."""
        if self._rewriter is None:
            return self._sent(request, request.incoming.body, None, self._ask(request, request.incoming.body))
        fault = None
        try:
            prepared = self._rewriter.prepare(request.incoming)
        except Exception as error:  # noqa: BLE001  as live: the client's body goes out, and it is said
            prepared = Prepared(body=request.incoming.body, commit=False, fault=error)
        if prepared.fault is not None:
            fault = type(prepared.fault).__name__
        answer = self._ask(request, prepared.body)
        body, fallen = prepared.body, False
        if answer is not None and answer.status == 400 and structural_class(400, answer.body) is not None:
            spare = prepared.fallback
            second = self._ask(request, spare) if spare is not None else None
            if spare is not None and second is not None and second.status == 200:
                answer, body, fallen = second, spare, True
        if prepared.commit:
            self._rewriter.settle(prepared, _outcome(request, answer, fallen=fallen))
        return self._sent(request, body, prepared.report, answer, fault)

    def _ask(self, request: Request, body: bytes) -> Answer | None:
        if request.failed or request.number in self._skipped:
            return None
        return self._providers.answer(request, body)

    def _sent(
        self,
        request: Request,
        body: bytes,
        report: TurnReport | None,
        answer: Answer | None,
        fault: str | None = None,
    ) -> Sent:
        exchange = answer.exchange if answer is not None else None
        refused = (
            exchange.error or f"status {exchange.status}" if exchange and exchange.status != 200 else None
        )
        return Sent(request, body, exchange, report, refused, fault)


def _outcome(request: Request, answer: Answer | None, *, fallen: bool) -> Outcome:
    """How it went: by the embedded provider's count, with the recorded answer's calls."""
    if answer is None:
        status = request.status if request.failed else 200
        name: OutcomeName = "refused" if request.failed else "ok"
        return Outcome(name, status, None, Heard(call_ids=request.calls))
    usage = usage_of(answer.exchange, request.facts) if answer.status == 200 else None
    name = "ok" if answer.status == 200 else "refused"
    heard = Heard(usage=usage, call_ids=request.calls if usage is not None else ())
    return Outcome(name, answer.status, None, heard, fallen)


def usage_of(exchange: Exchange, facts: ModelFacts) -> Usage:
    """What the provider counted, as the proxy reads it: what is written unasked is not counted [B109 B300]."""
    counted = exchange.usage
    counts_writes = facts.regime == "breakpoints" or counted.written > 0
    return Usage(
        prompt=counted.total,
        uncached=counted.input_tokens,
        cached=counted.cache_read_input_tokens,
        written=counted.written if counts_writes else None,
        written_1h=counted.write_1h,
        output=counted.output_tokens,
    )


def without_clearing(policies: Policies) -> Policies:
    """The same, but no old result is cleared."""
    file = policies.file
    return Policies(
        structs.replace(file, stale="off", when=[structs.replace(one, stale=None) for one in file.when])
    )


class Stage:
    """A session's requests, to be played on one path after the other. `direct` and `base`, which clears nothing, are played at once.

    Where the real provider and the embedded one do not agree on a request it is counted on no path: one that was taken
    as the client sent it and is refused here, one that was answered and is refused here both as it came and repaired,
    one that was refused as it came and is taken here. Where preserved thinking is what is refused, it is not enforced
    instead [A45].
    """

    def __init__(
        self,
        requests: Sequence[Request],
        models: Models,
        spool: Folder,
        told: Callable[[int], None] | None = None,
    ) -> None:
        """`told` hears how many requests of a path were played."""
        self._requests, self._models, self._spool = requests, models, spool
        self._told = told
        self.binding: Binding = "error"
        self._skipped: frozenset[int] = frozenset()
        self.notes: list[str] = []
        keeping = without_clearing(load_policy(WINDOWS))
        self.direct, self.base = self.play(None), self.play(keeping, keep=True)
        if any(_BOUND in (one.refused or "") for one in self._beyond()):
            self.binding = "unenforced"
            self.notes.append(
                "the real provider did not enforce preserved thinking, so it is not enforced here"
            )
            self.direct, self.base = self.play(None), self.play(keeping, keep=True)
        beyond = self._beyond()
        if beyond:
            self._skipped = frozenset(one.request.number for one in beyond)
            said = next((one.refused for one in beyond if one.refused), None)
            why = f": {said[:100]}" if said else ""
            self.notes.append(
                f"not counted: {len(beyond)}, in which the real provider and the embedded one do not agree{why}"
            )
            self.direct, self.base = self.play(None), self.play(keeping, keep=True)

    def play(self, policies: Policies | None, *, keep: bool = False) -> Played:
        """The session on one path; what was sent stays with it where it is to be kept."""
        path = Path(policies, self._models, self.binding, self._spool, self._skipped)
        sent: list[Sent] = []
        for request in self._requests:
            one = path.play(request)
            sent.append(one if keep else structs.replace(one, body=b""))
            if self._told is not None:
                self._told(len(sent))
        return Played(tuple(sent))

    @property
    def conversations(self) -> list[str]:
        """Which conversation each request belongs to, as the rewrite knows them."""
        return [(one.report.conversation or "") if one.report else "" for one in self.base.sent]

    def _beyond(self) -> list[Sent]:
        return [
            one
            for one, repaired in zip(self.direct.sent, self.base.sent, strict=True)
            if _disagree(one.request, one.refused, repaired.refused)
        ]


def _disagree(request: Request, direct: str | None, repaired: str | None) -> bool:
    """Whether the real provider and the embedded one do, on a request that the latter refused as is said here."""
    if request.answered:
        return direct is not None and (not request.changed or repaired is not None)
    return request.refused and direct is None
