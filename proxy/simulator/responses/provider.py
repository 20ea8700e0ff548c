"""The embedded Responses API: bytes of a request in, bytes of an answer out, and a record of both."""

from typing import Any

import msgspec
import orjson

from .. import reply
from ..arrival import authenticate, decompress
from ..chat.cache import Hit
from ..chat.refusal import ChatRefusal
from ..chat.render import BYTES_PER_TOKEN, Piece, weight
from ..chat.serving import Kept, OpenAiService, answered, parsed, streamed, whole
from ..chat.usage import Count, price
from ..embedded import Arrived, Hook
from ..exchange import Answer, Exchange
from ..refusal import Refusal
from ..reply import Reply, Script, derived_id
from ..settings import Settings
from . import asking, chatgpt, composing, reading, render, schema, stream
from .composing import Made
from .diagnosis import Footprint, diagnosed, footprint
from .facts import Behaviour
from .keeping import Caches, caching_for, scope_of
from .reading import Read
from .responding import response_of
from .store import Store
from .usage import wire

RESPONSES = "/v1/responses"
COMPACT = "/compact"
INPUT_TOKENS = "/input_tokens"
Json = dict[str, Any]
_COMPARED = 64
"""Responses that later ones can be compared with [B108]."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A request that passed every check, and its prompt. `history` names the conversation."""

    body: Json
    account: str
    read: Read
    prompt: list[Piece]

    @property
    def history(self) -> str:
        return f"{self.prompt[-1].chain.hex() if self.prompt else ''}/{len(self.read.items)}"


class ResponsesProvider(OpenAiService):
    """The Responses API in one object: validation, stored responses, cache, answers.

    `script` says what the model answers; `canned` answers go out first, one a request; `hook` may answer any
    single request instead. `log` keeps every exchange in order.
    """

    path = RESPONSES

    def __init__(
        self,
        settings: Settings | None = None,
        script: Script = reply.echo,
        hook: Hook | None = None,
        behaviour: Behaviour | None = None,
    ) -> None:
        self.settings = settings or Settings()
        super().__init__(self.settings, script, hook)
        self.behaviour = behaviour or Behaviour()
        self._caches = Caches()
        self._store = Store()
        self._prints: dict[str, Footprint] = {}

    def respond(self, arrived: Arrived, record: Exchange) -> Answer:
        """See `Embedded`."""
        try:
            return self.injected(record) or self._respond(arrived.headers, arrived.body, record)
        except Refusal as refusal:
            return self.refused(ChatRefusal(refusal.message, status=refusal.status), record)

    def _respond(self, headers: list[tuple[str, str]], raw: bytes, record: Exchange) -> Answer:
        base = next((base for base in (RESPONSES, chatgpt.PATH) if record.path.startswith(base)), None)
        task = record.path.removeprefix(base) if base is not None else None
        if task not in ("", COMPACT, INPUT_TOKENS):
            return self.refused(ChatRefusal(f"Invalid URL (POST {record.path})", status=404), record)
        named = {name.lower(): value for name, value in headers}
        plain = decompress(raw, named.get("content-encoding", ""), self.settings)
        account = authenticate(named, self.settings)
        try:
            body = parsed(plain)
            record = msgspec.structs.replace(record, model=str(body.get("model", "")))
            detail = chatgpt.fault(body) if base == chatgpt.PATH and not task else None
            if detail is not None:
                return answered(chatgpt.envelope(detail), record, status=400, error=detail)
            taken = self._accepted(body, account)
        except ChatRefusal as refusal:
            return self.refused(refusal, record)
        match task:
            case "":
                return self._generated(taken, record)
            case "/compact":
                return self._compacted(taken, record)
            case _:
                return _counted(taken, record)

    def _accepted(self, body: Json, account: str) -> Taken:
        """A request that passes every check, cut to the window where it asks for that.

        Raises:
            ChatRefusal: of the first check that fails.
        """
        schema.check(body)
        read = reading.read(body, account, self._store.of(account), self.behaviour)
        prompt = render.prompt(body, read.items, read.thoughts)
        if weight(prompt) > self.behaviour.window and body.get("truncation") == "auto":
            read = _cut(body, read, self.behaviour.window)
            prompt = render.prompt(body, read.items, read.thoughts)
        if weight(prompt) > self.behaviour.window:
            raise ChatRefusal(
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
                "input",
                "context_length_exceeded",
            )
        return Taken(body=body, account=account, read=read, prompt=prompt)

    def _generated(self, taken: Taken, record: Exchange) -> Answer:
        body, history = taken.body, taken.history
        if taken.read.wants_compaction:
            said = Reply(blocks=())
            made = Made([composing.compacted(body, taken.read, taken.account, history)], [])
        else:
            said = self.script(asking.ask(body, taken.read.items, history))
            compacts = _is_over(body, weight(taken.prompt))
            made = composing.composed(said, body, taken.read, taken.account, history, compacts=compacts)
        count, kept = self._counted(taken, made, record.started)
        mark = footprint(body, taken.prompt)
        response = response_of(
            body,
            taken.read,
            said,
            name=derived_id("resp", history, str(len(self.log))),
            created=1_700_000_000 + int(record.started),
            output=made.items,
            usage=self._usage(body, count),
            diagnostics=self._compared(body, mark, count.hit),
        )
        self._remember(taken, response, mark)
        exchange = _priced(record, taken, count, response["id"])
        if not body.get("stream"):
            return whole(orjson.dumps(response), exchange, kept)
        return streamed([*stream.events(response, said.fail_after)], said, exchange, kept)

    def _compacted(self, taken: Taken, record: Exchange) -> Answer:
        """The answer of the endpoint that compacts: what users said, and one item for all else [E100]."""
        body, history = taken.body, taken.history
        item = composing.compacted(body, taken.read, taken.account, history)
        count, kept = self._counted(taken, Made([item], []), record.started)
        compaction: Json = {
            "id": derived_id("resp", history, str(len(self.log))),
            "object": "response.compaction",
            "created_at": 1_700_000_000 + int(record.started),
            "output": [*composing.user_words(taken.read.items, history), item],
            "usage": self._usage(body, count),
        }
        exchange = _priced(record, taken, count, compaction["id"])
        return whole(orjson.dumps(compaction), exchange, kept)

    def _counted(self, taken: Taken, made: Made, now: float) -> tuple[Count, Kept]:
        """What the request uses, and what it will leave in the cache."""
        cache = self._caches.of(caching_for(taken.body))
        scope = scope_of(taken.body, taken.account)
        output = render.answer(made.items, made.thoughts, taken.prompt)
        count = Count(
            prompt=weight(taken.prompt),
            hit=cache.lookup(scope, taken.prompt, now),
            output=weight(output),
            reasoning=sum(map(len, made.thoughts)) // BYTES_PER_TOKEN,
        )
        return count, Kept(cache, scope, taken.prompt, output, now)

    def _usage(self, body: Json, count: Count) -> Json:
        writes = caching_for(body).regime == "breakpoints"
        return wire(count, writes=writes, ttl=(body.get("prompt_cache_options") or {}).get("ttl"))

    def _compared(self, body: Json, mark: Footprint, hit: Hit) -> Json | None:
        asked = (body.get("prompt_cache_options") or {}).get("comparison_response_id")
        return None if asked is None else diagnosed(mark, self._prints.get(asked), hit.read)

    def _remember(self, taken: Taken, response: Json, mark: Footprint) -> None:
        self._prints[response["id"]] = mark
        if len(self._prints) > _COMPARED:
            del self._prints[next(iter(self._prints))]
        if response["store"]:
            self._store.keep(taken.account, response["id"], taken.read.items, response["output"])


def _cut(body: Json, read: Read, window: int) -> Read:
    """The conversation without as many of its first items as it must lose [A212]."""
    low, high = 0, len(read.items) - 1
    while low < high:
        middle = (low + high) // 2
        cut = reading.without_first(read, middle)
        if weight(render.prompt(body, cut.items, cut.thoughts)) <= window:
            high = middle
        else:
            low = middle + 1
    return reading.without_first(read, low)


def _is_over(body: Json, tokens: int) -> bool:
    """Whether a threshold asks for compaction [E101]."""
    limits = [rule.get("compact_threshold") for rule in body.get("context_management") or ()]
    return any(limit is not None and tokens > limit for limit in limits)


def _counted(taken: Taken, record: Exchange) -> Answer:
    tokens = weight(taken.prompt)
    body = orjson.dumps({"object": "response.input_tokens", "input_tokens": tokens})
    return answered(body, msgspec.structs.replace(record, total=tokens), status=200)


def _priced(record: Exchange, taken: Taken, count: Count, name: str) -> Exchange:
    return msgspec.structs.replace(
        record,
        status=200,
        usage=count.plain,
        cost=price(count, caching_for(taken.body)),
        total=count.prompt,
        dropped=tuple(one["id"] for one in taken.read.withheld),
        message_id=name,
    )
