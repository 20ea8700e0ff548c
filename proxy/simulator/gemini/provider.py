"""The Gemini API in one object: bytes of a request in, bytes of an answer out, and a record of both."""

from __future__ import annotations

import msgspec
import orjson

from .. import reply
from ..embedded import Arrived, Embedded, Hook
from ..exchange import Answer, Canned, Exchange
from ..models import Model
from ..refusal import Refusal, refuse
from ..reply import Reply, Script, Think
from ..usage import Usage, price
from . import turns
from .answering import BLOCKED, Composed, array, composed, sse, wrapped
from .asking import asked
from .cache import ImplicitCache, Prompt
from .refusal import envelope, retry_info
from .request import Request, Target, read, target
from .settings import MODELS, GeminiSettings

_JSON = (("content-type", "application/json; charset=UTF-8"),)
_SSE = (("content-type", "text/event-stream"),)
_CACHE_AND_SYSTEM = (
    "CachedContent can not be used with GenerateContent request setting system_instruction, tools or tool_config."
    "\n\nProposed fix: move those values to CachedContent from GenerateContent request."
)


class Served(Answer, frozen=True, kw_only=True):
    """An answer, and the prompt that can be found once it begins."""

    prompt: Prompt | None = None


class GeminiProvider(Embedded):
    """generateContent, streamGenerateContent and countTokens: validation, implicit cache, answers.

    `script` says what the model answers; `canned` answers go out first, one a request; `hook` may answer any single
    request instead. `log` keeps every exchange in order: its `usage` has what was read from the cache apart.
    """

    def __init__(
        self,
        settings: GeminiSettings | None = None,
        script: Script = reply.echo,
        hook: Hook | None = None,
    ) -> None:
        self.settings = settings or GeminiSettings()
        super().__init__(self.settings, script, hook)
        self.cache = ImplicitCache()

    def begin(self, answer: Answer) -> None:
        """The first byte of an answer goes out: its prompt can be found from now on."""
        if isinstance(answer, Served) and answer.prompt is not None:
            self.cache.keep(answer.prompt)

    def respond(self, arrived: Arrived, record: Exchange) -> Answer:
        """See `Embedded`."""
        at = target(arrived.path)
        record = msgspec.structs.replace(record, path=at.path)
        try:
            return self._injected(record, at) or self._respond(arrived.headers, arrived.body, at, record)
        except Refusal as refusal:
            return _refused(refusal, at, record)

    def models(self) -> bytes:
        """The list of models, as `GET /v1beta/models` answers it."""
        return orjson.dumps({"models": [_listed(model) for model in MODELS.values()]})

    def error(self, status: int, message: str, retry_s: float | None = None) -> Canned:
        """A failure to inject, in Google's envelope; `retry_s`: seconds after which to come back [D300]."""
        details = None if retry_s is None else retry_info(retry_s)
        return Canned(status, envelope(status, message, details), _JSON)

    def _injected(self, record: Exchange, at: Target) -> Served | None:
        canned = self.given(record, takes=bool(at.method) and not at.counts)
        if canned is None:
            return None
        given = {name.lower() for name, _ in canned.headers}
        headers = (*(pair for pair in _JSON if pair[0] not in given), *canned.headers)
        exchange = msgspec.structs.replace(record, status=canned.status, error=_message_of(canned.body))
        return Served(status=canned.status, headers=headers, body=canned.body, exchange=exchange)

    def _respond(self, headers: list[tuple[str, str]], raw: bytes, at: Target, record: Exchange) -> Served:
        if not at.method:
            raise Refusal("Requested entity was not found.", 404)
        request = read(headers, raw, at, self.settings)
        record = msgspec.structs.replace(record, model=request.name)
        try:
            turns.check(request)
            _check_cached_content(request)
            prompt = self.cache.look(request, record.started)
            _check_length(request, prompt.tokens)
        except Refusal as refusal:
            return _refused(refusal, at, record)
        record = msgspec.structs.replace(record, status=200, total=prompt.tokens)
        return _counted(prompt, record) if at.counts else self._generate(request, prompt, record)

    def _generate(self, request: Request, prompt: Prompt, record: Exchange) -> Served:
        history = f"{prompt.chain[-1].hex() if prompt.chain else ''}/{len(request.contents)}/{prompt.tokens}"
        said = self._reply(request, history)
        made = composed(
            said, request.model, request.name, history, prompt=prompt.tokens, cached=prompt.cached
        )
        usage = Usage(
            input_tokens=prompt.tokens - prompt.cached,
            cache_read_input_tokens=prompt.cached,
            output_tokens=made.said + made.thoughts,
        )
        exchange = msgspec.structs.replace(
            record, usage=usage, cost=price(usage, request.model), message_id=made.id
        )
        kept = None if made.reason == BLOCKED else prompt
        return _written(said, made, request.target, exchange, kept)

    def _reply(self, request: Request, history: str) -> Reply:
        """What the script says, behind a thought where the request asks to see thoughts."""
        said = self.script(asked(request, history))
        wants = request.shows_thoughts and self.settings.think
        if wants and not any(isinstance(block, Think) for block in said.blocks):
            thought = Think(f"The next step follows from what is known so far ({history[:12]}).")
            return msgspec.structs.replace(said, blocks=(thought, *said.blocks), stop_reason=said.reason)
        return said


def _check_cached_content(request: Request) -> None:
    """No explicit cache is kept here: one that is named is not found [B304].

    Raises:
        Refusal: where one is named.
    """
    if not request.body.get("cachedContent"):
        return
    if request.body.keys() & {"systemInstruction", "tools", "toolConfig"}:
        refuse(_CACHE_AND_SYSTEM)
    raise Refusal("CachedContent not found (or permission denied)", 403)


def _check_length(request: Request, tokens: int) -> None:
    """Refuse a prompt that does not fit the window.

    Raises:
        Refusal: with the status that is set.
    """
    if tokens > request.model.window:
        raise Refusal(
            f"The input token count ({tokens}) exceeds the maximum number of tokens allowed "
            f"({request.model.window}).",
            request.settings.overflow_status,
        )


def _message_of(body: bytes) -> str:
    try:
        parsed = orjson.loads(body)
        return str((parsed[0] if isinstance(parsed, list) else parsed)["error"]["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
        return body[:200].decode("utf-8", "replace")


def _refused(refusal: Refusal, at: Target, record: Exchange) -> Served:
    body = envelope(refusal.status, refusal.message, listed=at.listed, assist=at.assist)
    exchange = msgspec.structs.replace(record, status=refusal.status, error=refusal.message)
    return Served(status=refusal.status, headers=(*_JSON, *refusal.headers), body=body, exchange=exchange)


def _counted(prompt: Prompt, record: Exchange) -> Served:
    details = [{"modality": "TEXT", "tokenCount": prompt.tokens}]
    body = orjson.dumps({"totalTokens": prompt.tokens, "promptTokensDetails": details})
    return Served(status=200, headers=_JSON, body=body, exchange=record)


def _written(said: Reply, made: Composed, at: Target, exchange: Exchange, kept: Prompt | None) -> Served:
    """The finished answer as a body, as events, or as the pieces of an array."""
    if not at.streams:
        body = wrapped(made.whole(), assist=at.assist)
        return Served(status=200, headers=_JSON, body=body, exchange=exchange, prompt=kept)
    chunks = [wrapped(chunk, assist=at.assist) for chunk in made.chunks()]
    if said.fail_after is not None:
        failed = envelope(503, "The model is overloaded. Please try again later.", assist=at.assist)
        chunks = [*chunks[: said.fail_after], failed]
    events = [*map(sse, chunks)] if at.sse else [*array(chunks)]
    if said.cut_after is not None:
        events = events[: said.cut_after]
    return Served(
        status=200,
        headers=_SSE if at.sse else _JSON,
        events=tuple(events),
        abort=said.cut_after is not None,
        exchange=exchange,
        prompt=kept,
    )


def _listed(model: Model) -> dict[str, object]:
    return {
        "name": f"models/{model.name}",
        "displayName": model.name,
        "inputTokenLimit": model.window,
        "outputTokenLimit": model.max_output,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }
