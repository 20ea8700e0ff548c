"""The embedded provider: bytes of a request in, bytes of an answer out, and a record of both."""

from typing import Any

import msgspec
import orjson

from . import editing, models, reply, stream, validate
from .arrival import read
from .binding import HEADER, Memory, Verdict
from .cache import Lookup, PromptCache
from .composing import compose, weigh
from .diagnosis import Diagnoses
from .embedded import Arrived, Embedded, Hook
from .exchange import Answer, Exchange
from .refusal import Refusal, envelope, request_id
from .render import Position, prompt
from .reply import Ask, Reply, Script, Think, derived_id
from .request import Json, Request
from .settings import Settings
from .stream import Message
from .threads import Threads
from .usage import price

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
MODELS = "/v1/models"


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A request that passed every check: its prompt, and its tokens before and after context editing."""

    request: Request
    verdict: Verdict
    positions: list[Position]
    original: int
    total: int
    edits: tuple[Json, ...] | None


class Provider(Embedded):
    """Anthropic Messages in one object: validation, cache, preserved thinking, answers.

    `script` says what the model answers; `canned` answers go out first, one a request; `hook` may
    answer any single request instead. `log` keeps every exchange in order.
    """

    path = MESSAGES

    def __init__(
        self, settings: Settings | None = None, script: Script = reply.echo, hook: Hook | None = None
    ) -> None:
        self.settings = settings or Settings()
        super().__init__(self.settings, script, hook)
        self.cache = PromptCache(self.settings.lookback, collapse_runs=self.settings.collapse_runs)
        self.memory = Memory()
        self.threads = Threads()
        self._diagnoses = Diagnoses()

    def begin(self, answer: Answer) -> None:
        """The first byte of an answer goes out: its cache entries become visible [B11]."""
        if answer.lookup is not None:
            self.cache.begin(answer.lookup)

    def respond(self, arrived: Arrived, record: Exchange) -> Answer:
        """See `Embedded`."""
        try:
            return self._injected(record) or self._respond(arrived.headers, arrived.body, record)
        except Refusal as refusal:
            return _refused(refusal, record)

    def models(self) -> bytes:
        """The list of models, as `GET /v1/models` answers it."""
        data = [{"type": "model", "id": name, "display_name": name} for name in models.MODELS]
        return orjson.dumps({"data": data, "has_more": False, "first_id": None, "last_id": None})

    def _injected(self, record: Exchange) -> Answer | None:
        canned = self.given(record, takes=record.path == MESSAGES)
        if canned is None:
            return None
        exchange = msgspec.structs.replace(record, status=canned.status, error=_message_of(canned.body))
        given = {name.lower() for name, _ in canned.headers}
        usual = (("content-type", "application/json"), ("request-id", request_id()))
        headers = (*(pair for pair in usual if pair[0] not in given), *canned.headers)
        return Answer(status=canned.status, headers=headers, body=canned.body, exchange=exchange)

    def _respond(self, headers: list[tuple[str, str]], raw: bytes, record: Exchange) -> Answer:
        if record.path not in (MESSAGES, COUNT):
            raise Refusal("Not found", 404)
        request = read(headers, raw, self.settings, counting=record.path == COUNT)
        record = msgspec.structs.replace(record, model=str(request.body.get("model", "")))
        try:
            accepted = self._accept(self.threads.whole(request, record.started))
        except Refusal as refusal:
            return _refused(refusal, record)
        dropped = tuple(sorted(accepted.verdict.dropped))
        record = msgspec.structs.replace(record, total=accepted.total, dropped=dropped)
        return _counted(accepted, record) if request.counting else self._generate(accepted, record)

    def _accept(self, request: Request) -> Accepted:
        """Validate and render; what context editing clears is rendered cleared.

        Raises:
            Refusal: of the first check that fails.
        """
        verdict = validate.validate(request, self.memory)
        sent = self._render(request, request.body, verdict)
        cleared = editing.clear(request, sent)
        positions = sent if cleared is None else self._render(request, cleared.body, verdict)
        original, total = _weight(sent), _weight(positions)
        validate.check_length(request, total)
        edits = editing.applied(request, cleared, original - total)
        return Accepted(
            request=request, verdict=verdict, positions=positions, original=original, total=total, edits=edits
        )

    def _render(self, request: Request, body: Json, verdict: Verdict) -> list[Position]:
        return prompt(
            body,
            model=request.model,
            dropped=verdict.dropped,
            hash_billing_header=self.settings.hash_billing_header,
        )

    def _generate(self, accepted: Accepted, record: Exchange) -> Answer:
        request, positions = accepted.request, accepted.positions
        scope = (
            request.organization,
            request.workspace,
            models.canonical(request.body["model"]),
            request.body.get("speed") or "standard",
        )
        lookup = self.cache.lookup(scope, positions, request.model.min_prefix, record.started)
        history = f"{positions[-1].chain.hex() if positions else ''}/{len(request.messages)}"
        said = self._reply(request, history)
        content = compose(request, said.blocks, self.memory, history, len(self.log))
        usage = msgspec.structs.replace(lookup.usage, output_tokens=weigh(content, request))
        message = Message(
            id=derived_id("msg", history, str(len(self.log))),
            model=request.body["model"],
            content=content,
            stop_reason=said.reason,
            usage=usage,
            members=self._members(accepted),
            applied_edits=accepted.edits,
        )
        self._diagnoses.remember(request, message.id, positions)
        self.threads.remember(request, message.id, content, record.started)
        exchange = msgspec.structs.replace(
            record, status=200, usage=usage, cost=price(usage, request.model), message_id=message.id
        )
        kept = None if said.reason == "refusal" else lookup
        return _written(said, message, _headers(accepted), exchange, kept)

    def _reply(self, request: Request, history: str) -> Reply:
        """What the script says, behind a thought where the request asks for thinking."""
        if request.body.get("max_tokens") == 0:
            return Reply(blocks=(), stop_reason="max_tokens")
        said = self.script(Ask.of(request, history))
        wants = request.thinks and self.settings.think
        if wants and not any(isinstance(block, Think) for block in said.blocks):
            thought = Think(f"The next step follows from what is known so far ({history[:12]}).")
            return msgspec.structs.replace(said, blocks=(thought, *said.blocks), stop_reason=said.reason)
        return said

    def _members(self, accepted: Accepted) -> Json:
        request, members = accepted.request, dict[str, Any]()
        if validate.reports_transformations(request):
            members["input_transformations"] = [
                msgspec.to_builtins(transformation) for transformation in accepted.verdict.transformations
            ]
        if "diagnostics" in request.body:
            members["diagnostics"] = self._diagnoses.diagnose(request, accepted.positions)
        return members


def _weight(positions: list[Position]) -> int:
    return sum(position.tokens for position in positions)


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


def _counted(accepted: Accepted, record: Exchange) -> Answer:
    body: Json = {"input_tokens": accepted.total}
    if "context_management" in accepted.request.body:
        body["context_management"] = {"original_input_tokens": accepted.original}
    exchange = msgspec.structs.replace(record, status=200)
    return Answer(status=200, headers=_headers(accepted), body=orjson.dumps(body), exchange=exchange)


def _headers(accepted: Accepted) -> tuple[tuple[str, str], ...]:
    request, mismatch = accepted.request, accepted.verdict.header
    streaming = bool(request.body.get("stream")) and not request.counting
    headers = (
        ("content-type", "text/event-stream; charset=utf-8" if streaming else "application/json"),
        ("request-id", request_id()),
        ("anthropic-organization-id", request.organization),
    )
    return headers if mismatch is None else (*headers, (HEADER, mismatch))


def _written(
    said: Reply,
    message: Message,
    headers: tuple[tuple[str, str], ...],
    exchange: Exchange,
    lookup: Lookup | None,
) -> Answer:
    """The finished message as a body or as events, as the content type announces."""
    if headers[0][1] == "application/json":
        return Answer(
            status=200, headers=headers, body=stream.body(message), exchange=exchange, lookup=lookup
        )
    events = list(stream.events(message))
    if said.fail_after is not None:
        events = [*events[: said.fail_after], stream.error_event()]
    elif said.cut_after is not None:
        events = events[: said.cut_after]
    return Answer(
        status=200,
        headers=headers,
        events=tuple(events),
        abort=said.cut_after is not None,
        exchange=exchange,
        lookup=lookup,
    )
