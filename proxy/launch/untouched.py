"""What the same requests would have cost had they gone out as the client wrote them. By estimate.

Nobody can know it: the provider saw what we sent. So each request is judged a second time, on the side, as a proxy
that changes nothing would have to judge it: how much of the client's own prompt stands from its last request, up to
where the client had marked it, and what of that a provider would have read or written. The size of the client's
prompt follows from that of ours and from what was left out of it.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec import Struct, structs

from ..dialects import DIALECTS
from ..errors import BodyError
from ..gateway.conversations import Conversations
from ..gateway.exchange import Incoming, Outcome, Prepared
from ..ledger import Ledger
from ..observed import would_be, would_read
from ..policy import Policies, load_policy
from ..rewrite import rewrite
from ..turns import NOISE_TOKENS, Miss
from ..usage import Usage
from .cost import Cost, cost

_BYTES_PER_TOKEN = 4
_PATIENCE_SECONDS = 5.0


class _Both(Struct, frozen=True):
    """What `settle` needs: the rewriter's own memo, and the request as it came."""

    memo: object
    request: Incoming


class Compared(Conversations):
    """The rewriter of a run, which also keeps count of what the requests would have cost untouched.

    The second look is taken in a thread of its own, when a request is over: nobody waits for it.
    """

    def __init__(self, policies: Policies, **options: Any) -> None:
        """Takes what `Conversations` takes."""
        super().__init__(policies, **options)
        self._unchanged = load_policy("transparent")
        self._mirror = Ledger()
        self._looking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="untouched")
        self._difference = Cost()
        self._failed = 0
        self._touched = False
        self._adding = threading.Lock()

    def prepare(self, request: Incoming) -> Prepared:
        """See `exchange.Rewriter`."""
        prepared = super().prepare(request)
        self._touched |= prepared.body is not request.body
        return structs.replace(prepared, memo=_Both(prepared.memo, request)) if prepared.commit else prepared

    def settle(self, prepared: Prepared, outcome: Outcome) -> Miss | None:
        """See `exchange.Rewriter`."""
        if not isinstance(prepared.memo, _Both):
            return super().settle(prepared, outcome)
        request = prepared.memo.request
        missed = super().settle(structs.replace(prepared, memo=prepared.memo.memo), outcome)
        self._looking.submit(self._look, request, prepared, outcome)
        return missed

    def difference(self) -> Cost | None:
        """What all requests so far would have cost more (or less) untouched; None where that could not be found out.

        Waits a moment for requests that have only just ended.
        """
        try:
            self._looking.submit(lambda: None).result(_PATIENCE_SECONDS)
        except TimeoutError:
            return None
        with self._adding:
            if self._failed:
                return None
            return self._difference if self._touched else Cost()

    def close(self) -> None:
        """Look at nothing more."""
        self._looking.shutdown(wait=False, cancel_futures=True)

    def _look(self, request: Incoming, prepared: Prepared, outcome: Outcome) -> None:
        try:
            more = self._untouched(request, prepared, outcome)
        except Exception:  # noqa: BLE001  an estimate beside the work: its failure is counted and told
            with self._adding:
                self._failed += 1
            return
        with self._adding:
            self._difference += more

    def _untouched(self, request: Incoming, prepared: Prepared, outcome: Outcome) -> Cost:
        dialect, usage = DIALECTS[request.dialect], outcome.usage
        try:
            opened = dialect.open(request.body)
        except BodyError:
            return Cost()  # untouched it is refused; that costs nothing, and is told beside the repairs
        facts = self._facts(request, opened)
        policy = self._unchanged.choose(facts.upstream, facts.agent.name, facts.model.model)
        made = rewrite(request.body, dialect, policy, self._mirror, facts, opened)
        share = would_read(made, facts)
        if made.place is None or made.place.branch is None:
            # Met for the first time: what an earlier run left in the cache would have been there directly too.
            share = (usage.hit_ratio if usage is not None else None) or share
        said = None
        if usage is not None and usage.prompt and outcome.succeeded:
            whole = Usage(prompt=_size(usage.prompt, prepared), output=usage.output, cached=usage.cached)
            said = would_be(made, share, whole, facts)
        if made.commit is not None:
            self._mirror.keep_policy(made.policy.digest, made.policy.encoded)
            ticket = self._mirror.commit(made.commit)
            self._mirror.settle(ticket, said, outcome.answer.call_ids, success=outcome.succeeded)
        if said is None or usage is None or _same(usage, said):
            return Cost()
        return cost(_long(said, usage), facts.model) - cost(usage, facts.model)


def _size(prompt: int, prepared: Prepared) -> int:
    """Tokens of the client's own prompt, from those of ours and what was left out of it."""
    left_out = sum(prepared.report.reclaimed.values()) if prepared.report is not None else 0
    return round(prompt * (1 + left_out * _BYTES_PER_TOKEN / max(1, len(prepared.body))))


def _same(usage: Usage, said: Usage) -> bool:
    """Whether the estimate is what the provider counted, as near as an estimate comes."""
    slack = max(NOISE_TOKENS, (usage.prompt or 0) // 50)
    pairs = ((usage.prompt, said.prompt), (usage.cached, said.cached), (usage.written, said.written))
    return all(abs((ours or 0) - (theirs or 0)) <= slack for ours, theirs in pairs)


def _long(said: Usage, usage: Usage) -> Usage:
    """What would have been written at the long lifetime: the share that was."""
    if not usage.written_1h or not usage.written or not said.written:
        return said
    return structs.replace(said, written_1h=round(said.written * usage.written_1h / usage.written))
