"""The embedded chat service: bytes of a request in, bytes of an answer out, and a record of both."""

from typing import Any

import msgspec
import orjson

from .. import reply
from ..arrival import authenticate, decompress
from ..embedded import Arrived, Hook
from ..exchange import Answer, Exchange
from ..refusal import Refusal
from ..reply import Script, derived_id
from ..settings import Settings
from . import asking, pairing, reasoning, render, schema, stream
from .cache import Cache, Scope, cache_of
from .flavours import OPENAI, Caching, Flavour, caching_of
from .refusal import ChatRefusal
from .render import Piece
from .serving import Kept, OpenAiService, parsed, streamed, whole
from .usage import Count, price, timings, wire

COMPLETIONS = "/v1/chat/completions"
Json = dict[str, Any]
_SEPARATES = (
    "prompt_cache_key",
    "reasoning_effort",
    "verbosity",
    "parallel_tool_calls",
    "service_tier",
    "response_format",
)
"""Members that keep caches apart on models with breakpoints [B106]."""


class ChatProvider(OpenAiService):
    """Chat completions in one object: validation, cache, answers.

    `script` says what the model answers; `canned` answers go out first, one a request; `hook` may answer any
    single request instead. `log` keeps every exchange in order. `window` is the models' context in tokens.
    """

    path = COMPLETIONS

    def __init__(
        self,
        flavour: Flavour = OPENAI,
        settings: Settings | None = None,
        script: Script = reply.echo,
        hook: Hook | None = None,
        window: int = 1_000_000,
    ) -> None:
        self.settings = settings or Settings()
        super().__init__(self.settings, script, hook)
        self.flavour = flavour
        self.shape = flavour.envelope
        self.window = window
        self._caches: dict[Caching, Cache] = {}

    def respond(self, arrived: Arrived, record: Exchange) -> Answer:
        """See `Embedded`."""
        try:
            return self.injected(record) or self._respond(arrived.headers, arrived.body, record)
        except Refusal as refusal:
            return self.refused(ChatRefusal(refusal.message, status=refusal.status), record)

    def _respond(self, headers: list[tuple[str, str]], raw: bytes, record: Exchange) -> Answer:
        if record.path != COMPLETIONS:
            return self.refused(ChatRefusal(f"Invalid URL (POST {record.path})", status=404), record)
        named = {name.lower(): value for name, value in headers}
        plain = decompress(raw, named.get("content-encoding", ""), self.settings)
        account = authenticate(named, self.settings)
        try:
            body = parsed(plain)
            record = msgspec.structs.replace(record, model=str(body.get("model", "")))
            prompt = self._accepted(body)
        except ChatRefusal as refusal:
            return self.refused(refusal, record)
        return self._generated(body, prompt, account, record)

    def _accepted(self, body: Json) -> list[Piece]:
        """The prompt of a request that passes every check.

        Raises:
            ChatRefusal: of the first that fails.
        """
        schema.check(body, self.flavour)
        pairing.check(body["messages"], self.flavour)
        reasoning.check(body, self.flavour)
        prompt = render.prompt(body, self.flavour)
        total = render.weight(prompt)
        if total > self.window:
            raise ChatRefusal(
                f"This model's maximum context length is {self.window} tokens. However, your messages resulted "
                f"in {total} tokens. Please reduce the length of the messages.",
                "messages",
                "context_length_exceeded",
            )
        return prompt

    def _generated(self, body: Json, prompt: list[Piece], account: str, record: Exchange) -> Answer:
        caching = caching_of(self.flavour, record.model)
        cache = self._caches.setdefault(caching, cache_of(caching))
        scope = _scope(body, account, caching)
        hit = cache.lookup(scope, prompt, record.started)
        history = f"{prompt[-1].chain.hex()}/{len(body['messages'])}"
        said = self.script(asking.ask(body, history))
        thought = None
        if reasoning.is_on(body, self.flavour):
            thought = f"The next step follows from what is known so far ({history[:12]})."
        message = asking.message(said, self.flavour, history, thought)
        output = render.answer(message, self.flavour, prompt)
        count = Count(
            prompt=render.weight(prompt),
            hit=hit,
            output=render.weight(output),
            reasoning=len(message.get("reasoning_content") or "") // render.BYTES_PER_TOKEN,
        )
        options = body.get("stream_options") or {}
        completion = stream.Completion(
            id=derived_id("chatcmpl", history, str(len(self.log))),
            model=record.model,
            created=1_700_000_000 + int(record.started),
            message=message,
            finish_reason=asking.finish_reason(said),
            usage=wire(count, self.flavour, writes=caching.regime == "breakpoints"),
            include_usage=bool(body.get("stream")) and bool(options.get("include_usage")),
            timings=timings(count, self.flavour),
        )
        exchange = msgspec.structs.replace(
            record,
            status=200,
            usage=count.plain,
            cost=price(count, caching),
            total=count.prompt,
            message_id=completion.id,
        )
        kept = Kept(cache, scope, prompt, output, record.started)
        return _written(said, completion, exchange, kept, streaming=bool(body.get("stream")))


def _scope(body: Json, account: str, caching: Caching) -> Scope:
    if caching.regime != "breakpoints":
        return (account, str(body["model"]), str(body.get("cache_salt", "")))
    mode = str((body.get("prompt_cache_options") or {}).get("mode") or "implicit")
    apart = orjson.dumps([body.get(name) for name in _SEPARATES]).decode()
    return (mode, account, str(body["model"]), apart)


def _written(
    said: reply.Reply, completion: stream.Completion, exchange: Exchange, kept: Kept, *, streaming: bool
) -> Answer:
    if not streaming:
        return whole(stream.body(completion), exchange, kept)
    events = list(stream.chunks(completion))
    if said.fail_after is not None:
        events = [*events[: said.fail_after], stream.error_event()]
    return streamed(events, said, exchange, kept)
