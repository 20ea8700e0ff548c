"""The embedded chat service: bytes of a request in, bytes of an answer out, and a record of both."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import orjson

from .. import reply
from ..arrival import authenticate, decompress
from ..exchange import Answer, Canned, Exchange
from ..provider import headers_list
from ..refusal import Refusal
from ..reply import Script, derived_id
from ..request import fingerprint
from ..settings import Settings
from . import asking, pairing, reasoning, render, schema, stream
from .cache import Cache, Scope, cache_of
from .flavours import OPENAI, Caching, Flavour, caching_of
from .refusal import ChatRefusal, envelope, request_id
from .render import Piece
from .usage import Count, price, timings, wire

COMPLETIONS = "/v1/chat/completions"
Json = dict[str, Any]
Headers = Iterable[tuple[str, str]]
_SECRETS = ("authorization", "api-key", "x-api-key", "proxy-authorization", "cookie")
_SEPARATES = (
    "prompt_cache_key",
    "reasoning_effort",
    "verbosity",
    "parallel_tool_calls",
    "service_tier",
    "response_format",
)
"""Members that keep caches apart on models with breakpoints [B106]."""


class Kept(msgspec.Struct, frozen=True):
    """What a request will leave in the cache once its answer begins."""

    cache: Cache
    scope: Scope
    prompt: list[Piece]
    output: list[Piece]
    now: float


class ChatAnswer(Answer, frozen=True, kw_only=True):
    """What goes back, and what it leaves in the cache."""

    kept: Kept | None = None


class ChatProvider:
    """Chat completions in one object: validation, cache, answers.

    `script` says what the model answers; `canned` answers go out first, one a request; `hook` may answer any
    single request instead. `log` keeps every exchange in order. `window` is the models' context in tokens.
    """

    def __init__(
        self,
        flavour: Flavour = OPENAI,
        settings: Settings | None = None,
        script: Script = reply.echo,
        hook: Callable[[Exchange], Canned | None] | None = None,
        window: int = 1_000_000,
    ) -> None:
        self.flavour = flavour
        self.settings = settings or Settings()
        self.script = script
        self.hook = hook
        self.window = window
        self.canned: deque[Canned] = deque()
        self.log: list[Exchange] = []
        self._caches: dict[Caching, Cache] = {}

    def answer(self, headers: Headers, body: bytes, now: float, path: str = COMPLETIONS) -> Answer:
        """Answer a POST; what it leaves in the cache can be read at once. `now` is in seconds."""
        answer = self.prepare(headers, body, now, path)
        self.begin(answer)
        return answer

    def begin(self, answer: Answer) -> None:
        """The first byte of an answer goes out: what it leaves in the cache becomes visible."""
        kept = answer.kept if isinstance(answer, ChatAnswer) else None
        if kept is not None:
            kept.cache.keep(kept.scope, kept.prompt, kept.output, kept.now)

    def prepare(self, headers: Headers, body: bytes, now: float, path: str = COMPLETIONS) -> Answer:
        """Answer a POST without its cache entries being visible yet."""
        pairs = headers_list(headers)
        shown = tuple((name, _safe(name, value)) for name, value in pairs)
        record = Exchange(path=path.partition("?")[0], headers=shown, body=body, started=now, status=0)
        try:
            answer = self._injected(record) or self._respond(pairs, body, record)
        except Refusal as refusal:
            answer = self._refused(ChatRefusal(refusal.message, status=refusal.status), record)
        exchange = answer.exchange
        self.log.append(
            exchange if self.settings.keep_bodies else msgspec.structs.replace(exchange, body=b"")
        )
        return answer

    def models(self) -> bytes:
        """The list of models, as `GET /v1/models` answers it."""
        return orjson.dumps({"object": "list", "data": []})

    def error(self, status: int, message: str, code: str | None = None) -> Canned:
        """A failure to inject, in the service's envelope."""
        kinds = {401: "authentication_error", 429: "rate_limit_error"}
        kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
        refusal = ChatRefusal(message, code=code, status=status, kind=kind)
        return Canned(status, envelope(refusal, self.flavour.envelope))

    def _injected(self, record: Exchange) -> Answer | None:
        canned = self.hook(record) if self.hook is not None else None
        if canned is None and self.canned:
            canned = self.canned.popleft()
        if canned is None:
            return None
        exchange = msgspec.structs.replace(record, status=canned.status)
        headers = (*_json_headers(), *canned.headers)
        return ChatAnswer(status=canned.status, headers=headers, body=canned.body, exchange=exchange)

    def _refused(self, refusal: ChatRefusal, record: Exchange) -> Answer:
        exchange = msgspec.structs.replace(record, status=refusal.status, error=refusal.message)
        body = envelope(refusal, self.flavour.envelope)
        return ChatAnswer(status=refusal.status, headers=_json_headers(), body=body, exchange=exchange)

    def _respond(self, headers: list[tuple[str, str]], raw: bytes, record: Exchange) -> Answer:
        if record.path != COMPLETIONS:
            return self._refused(ChatRefusal(f"Invalid URL (POST {record.path})", status=404), record)
        named = {name.lower(): value for name, value in headers}
        plain = decompress(raw, named.get("content-encoding", ""), self.settings)
        account = authenticate(named, self.settings)
        try:
            body = _parsed(plain)
            record = msgspec.structs.replace(record, model=str(body.get("model", "")))
            prompt = self._accepted(body)
        except ChatRefusal as refusal:
            return self._refused(refusal, record)
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


def _parsed(raw: bytes) -> Json:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ChatRefusal(
            f"We could not parse the JSON body of your request: {error}. The OpenAI API expects a JSON payload."
        ) from error
    if not isinstance(body, dict):
        raise ChatRefusal("We expected an object in the JSON body of your request.")
    return body


def _safe(name: str, value: str) -> str:
    if name.lower() not in _SECRETS:
        return value
    scheme, _, token = value.partition(" ")
    return f"{scheme} {fingerprint(token)}" if token else fingerprint(value)


def _scope(body: Json, account: str, caching: Caching) -> Scope:
    if caching.regime != "breakpoints":
        return (account, str(body["model"]), str(body.get("cache_salt", "")))
    mode = str((body.get("prompt_cache_options") or {}).get("mode") or "implicit")
    apart = orjson.dumps([body.get(name) for name in _SEPARATES]).decode()
    return (mode, account, str(body["model"]), apart)


def _json_headers() -> tuple[tuple[str, str], ...]:
    return (("content-type", "application/json"), ("x-request-id", request_id()))


def _written(
    said: reply.Reply, completion: stream.Completion, exchange: Exchange, kept: Kept, *, streaming: bool
) -> Answer:
    if not streaming:
        body = stream.body(completion)
        return ChatAnswer(status=200, headers=_json_headers(), body=body, exchange=exchange, kept=kept)
    events = list(stream.chunks(completion))
    if said.fail_after is not None:
        events = [*events[: said.fail_after], stream.error_event()]
    elif said.cut_after is not None:
        events = events[: said.cut_after]
    headers = (("content-type", "text/event-stream; charset=utf-8"), ("x-request-id", request_id()))
    return ChatAnswer(
        status=200,
        headers=headers,
        events=tuple(events),
        abort=said.cut_after is not None,
        exchange=exchange,
        kept=kept,
    )
