"""The embedded provider: bytes of a request in, bytes of an answer out, and a record of both."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import orjson

from . import models, reply, stream, tokens, validate
from .binding import HEADER, Issued, Memory, Verdict
from .bound import Trail
from .cache import Lookup, PromptCache
from .diagnosis import Diagnoses
from .refusal import Refusal, envelope, request_id
from .render import Position, prompt
from .reply import Ask, Block, Call, Reply, Say, Script, Think, derived_id
from .request import Json, Request, fingerprint, read
from .settings import Settings
from .signature import seal
from .stream import Message
from .usage import Usage, price

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
MODELS = "/v1/models"
Headers = Iterable[tuple[str, str]]
_SECRETS = ("x-api-key", "authorization", "proxy-authorization", "cookie")


class Canned(msgspec.Struct, frozen=True):
    """An answer given instead of the provider's own: a failure to inject."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def error(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> "Canned":
        """A failure in the provider's own envelope."""
        return Canned(status, envelope(status, message), headers)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What goes back: a body, or the events of a stream and then no body.

    `abort` says that the connection breaks behind the last event; `exchange` is the record.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    events: tuple[bytes, ...] | None = None
    abort: bool = False
    exchange: "Exchange"
    lookup: Lookup | None = None

    @property
    def json(self) -> Json:
        """The body, parsed."""
        return orjson.loads(self.body)  # type: ignore[no-any-return]


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it arrived and what was answered. Keys stand as fingerprints.

    Tokens are the provider's own count; `cost` is the prompt's price in base input tokens, zero
    where nothing was answered. For count_tokens only `total` is set.
    """

    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    started: float
    status: int
    model: str = ""
    error: str | None = None
    usage: Usage = Usage()
    cost: float = 0.0
    total: int = 0
    dropped: tuple[str, ...] = ()
    message_id: str | None = None

    @property
    def read(self) -> int:
        """Tokens read from the cache."""
        return self.usage.cache_read_input_tokens

    @property
    def written(self) -> int:
        """Tokens written to the cache."""
        return self.usage.written

    @property
    def json(self) -> Json:
        """The body as the provider parsed it."""
        return orjson.loads(self.body)  # type: ignore[no-any-return]


Hook = Callable[[Exchange], Canned | None]


class Provider:
    """Anthropic Messages in one object: validation, cache, preserved thinking, answers.

    `script` says what the model answers; `canned` answers go out first, one a request; `hook` may
    answer any single request instead. `log` keeps every exchange in order.
    """

    def __init__(
        self, settings: Settings | None = None, script: Script = reply.echo, hook: Hook | None = None
    ) -> None:
        self.settings = settings or Settings()
        self.script = script
        self.hook = hook
        self.canned: deque[Canned] = deque()
        self.log: list[Exchange] = []
        self.cache = PromptCache(self.settings.lookback)
        self.memory = Memory()
        self._diagnoses = Diagnoses()

    def answer(self, headers: Headers, body: bytes, now: float, path: str = MESSAGES) -> Answer:
        """Answer a POST; what it writes to the cache can be read at once. `now` is in seconds."""
        answer = self.prepare(headers, body, now, path)
        self.begin(answer)
        return answer

    def begin(self, answer: Answer) -> None:
        """The first byte of an answer goes out: its cache entries become visible [B11]."""
        if answer.lookup is not None:
            self.cache.begin(answer.lookup)

    def prepare(self, headers: Headers, body: bytes, now: float, path: str = MESSAGES) -> Answer:
        """Answer a POST without its cache entries being visible yet."""
        kept = tuple((name, _safe(name, value)) for name, value in headers_list(headers))
        record = Exchange(path=path, headers=kept, body=body, started=now, status=0)
        try:
            answer = self._injected(record) or self._respond(headers_list(headers), body, record)
        except Refusal as refusal:
            answer = _refused(refusal, record)
        self.log.append(answer.exchange)
        return answer

    def models(self) -> bytes:
        """The list of models, as `GET /v1/models` answers it."""
        data = [{"type": "model", "id": name, "display_name": name} for name in models.MODELS]
        return orjson.dumps({"data": data, "has_more": False, "first_id": None, "last_id": None})

    def _injected(self, record: Exchange) -> Answer | None:
        canned = self.hook(record) if self.hook is not None else None
        if canned is None and self.canned and record.path == MESSAGES:
            canned = self.canned.popleft()
        if canned is None:
            return None
        exchange = msgspec.structs.replace(record, status=canned.status, error=_message_of(canned.body))
        headers = (("content-type", "application/json"), ("request-id", request_id()), *canned.headers)
        return Answer(status=canned.status, headers=headers, body=canned.body, exchange=exchange)

    def _respond(self, headers: list[tuple[str, str]], raw: bytes, record: Exchange) -> Answer:
        if record.path not in (MESSAGES, COUNT):
            raise Refusal("Not found", 404)
        request = read(headers, raw, self.settings, counting=record.path == COUNT)
        record = msgspec.structs.replace(record, model=str(request.body.get("model", "")))
        try:
            verdict = validate.validate(request, self.memory)
            positions = prompt(
                request.body,
                model=request.model,
                dropped=verdict.dropped,
                hash_billing_header=self.settings.hash_billing_header,
            )
            total = sum(position.tokens for position in positions)
            validate.check_length(request, total)
        except Refusal as refusal:
            return _refused(refusal, record)
        record = msgspec.structs.replace(record, total=total, dropped=tuple(sorted(verdict.dropped)))
        if request.counting:
            return _counted(request, verdict, record)
        return self._generate(request, verdict, positions, record)

    def _generate(
        self, request: Request, verdict: Verdict, positions: list[Position], record: Exchange
    ) -> Answer:
        scope = (
            request.organization,
            request.workspace,
            models.canonical(request.body["model"]),
            request.body.get("speed") or "standard",
        )
        lookup = self.cache.lookup(scope, positions, request.model.min_prefix, record.started)
        said = self._reply(request, positions)
        content = self._content(request, said.blocks, positions, len(self.log))
        usage = msgspec.structs.replace(lookup.usage, output_tokens=_weigh(content, request))
        message = Message(
            id=derived_id("msg", positions[-1].chain.hex() if positions else "", str(len(self.log))),
            model=request.body["model"],
            content=content,
            stop_reason=said.reason,
            usage=usage,
            members=self._members(request, verdict, positions),
            applied_edits="context_management" in request.body,
        )
        self._diagnoses.remember(request, message.id, positions)
        exchange = msgspec.structs.replace(
            record, status=200, usage=usage, cost=price(usage, request.model), message_id=message.id
        )
        return _write(request, verdict, message, said, exchange, None if said.reason == "refusal" else lookup)

    def _reply(self, request: Request, positions: list[Position]) -> Reply:
        if request.body.get("max_tokens") == 0:
            return Reply(blocks=(), stop_reason="max_tokens")
        digest = positions[-1].chain if positions else b""
        said = self.script(Ask.of(request, digest))
        wants = request.thinks and self.settings.think
        if wants and not any(isinstance(block, Think) for block in said.blocks):
            thought = Think(f"The next step follows from what is known so far ({digest.hex()[:12]}).")
            return msgspec.structs.replace(said, blocks=(thought, *said.blocks), stop_reason=said.reason)
        return said

    def _content(
        self, request: Request, said: tuple[Block, ...], positions: list[Position], number: int
    ) -> tuple[Json, ...]:
        """The blocks on the wire: ids derived from the history, thinking signed and remembered."""
        history = f"{positions[-1].chain.hex() if positions else ''}/{len(request.messages)}"
        index = len(request.messages)
        trail = Trail(request.body)
        for i, message in enumerate(request.messages):
            trail.pass_message(message, i)
        signatures = {
            j: seal(f"{history}/{j}/{number}".encode(), max(1, tokens.of_text(block.text, request.model)))
            for j, block in enumerate(said)
            if isinstance(block, Think)
        }
        content: list[Json] = []
        for j, block in enumerate(said):
            match block:
                case Say(text):
                    made: Json = {"type": "text", "text": text}
                case Call(name, arguments, given):
                    made = {
                        "type": "tool_use",
                        "id": given or derived_id("toolu", history, str(j)),
                        "name": name,
                        "input": arguments,
                    }
                case Think(text):
                    hidden = request.thinking.get("display") == "omitted"
                    made = {
                        "type": "thinking",
                        "thinking": "" if hidden else text,
                        "signature": signatures[j],
                    }
                    self.memory.remember(
                        signatures[j],
                        Issued(
                            request.model.name,
                            request.organization,
                            trail.here(),
                            _run(j, signatures),
                            made["thinking"],
                        ),
                    )
            trail.pass_by(made, "assistant", f"messages.{index}.content.{j}")
            content.append(made)
        return tuple(content)

    def _members(self, request: Request, verdict: Verdict, positions: list[Position]) -> Json:
        members: dict[str, Any] = {}
        if validate.reports_transformations(request):
            members["input_transformations"] = [msgspec.to_builtins(t) for t in verdict.transformations]
        if "diagnostics" in request.body:
            members["diagnostics"] = self._diagnoses.diagnose(request, positions)
        return members


def headers_list(headers: Headers) -> list[tuple[str, str]]:
    """Headers as pairs, from pairs or from a mapping."""
    return list(headers.items()) if isinstance(headers, dict) else list(headers)


def _safe(name: str, value: str) -> str:
    if name.lower() not in _SECRETS:
        return value
    scheme, _, token = value.partition(" ")
    return f"{scheme} {fingerprint(token)}" if token else fingerprint(value)


def _message_of(body: bytes) -> str:
    try:
        return str(orjson.loads(body)["error"]["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")


def _refused(refusal: Refusal, record: Exchange) -> Answer:
    ident = request_id()
    headers = (("content-type", "application/json"), ("request-id", ident), *refusal.headers)
    exchange = msgspec.structs.replace(record, status=refusal.status, error=refusal.message)
    body = envelope(refusal.status, refusal.message, refusal.details, ident)
    return Answer(status=refusal.status, headers=headers, body=body, exchange=exchange)


def _counted(request: Request, verdict: Verdict, record: Exchange) -> Answer:
    body: Json = {"input_tokens": record.total}
    if "context_management" in request.body:
        body["context_management"] = {"original_input_tokens": record.total}
    exchange = msgspec.structs.replace(record, status=200)
    return Answer(
        status=200,
        headers=_headers("application/json", request, verdict),
        body=orjson.dumps(body),
        exchange=exchange,
    )


def _headers(kind: str, request: Request, verdict: Verdict) -> tuple[tuple[str, str], ...]:
    headers = [
        ("content-type", kind),
        ("request-id", request_id()),
        ("anthropic-organization-id", request.organization),
    ]
    if verdict.header is not None:
        headers.append((HEADER, verdict.header))
    return tuple(headers)


def _weigh(content: tuple[Json, ...], request: Request) -> int:
    return sum(tokens.of_bytes(len(orjson.dumps(block)), request.model) for block in content)


def _run(j: int, signatures: dict[int, str]) -> tuple[str, ...]:
    first = last = j
    while first - 1 in signatures:
        first -= 1
    while last + 1 in signatures:
        last += 1
    return tuple(signatures[k] for k in range(first, last + 1))


def _write(
    request: Request,
    verdict: Verdict,
    message: Message,
    said: Reply,
    exchange: Exchange,
    lookup: Lookup | None,
) -> Answer:
    if not request.body.get("stream"):
        return Answer(
            status=200,
            headers=_headers("application/json", request, verdict),
            body=stream.body(message),
            exchange=exchange,
            lookup=lookup,
        )
    events = list(stream.events(message))
    if said.fail_after is not None:
        events = [*events[: said.fail_after], stream.error_event()]
    elif said.cut_after is not None:
        events = events[: said.cut_after]
    return Answer(
        status=200,
        headers=_headers("text/event-stream; charset=utf-8", request, verdict),
        events=tuple(events),
        abort=said.cut_after is not None,
        exchange=exchange,
        lookup=lookup,
    )
