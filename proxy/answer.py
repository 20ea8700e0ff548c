"""What an answer said about itself, read in passing: usage, ids, why it stopped, whether it is whole.

Each dialect has a reader that takes the events of a stream or the one JSON document. A reader looks only at the
events that can hold something of interest and never changes what the client gets. What it cannot read it leaves
out: an answer with unknown figures is an honest one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Protocol, cast

import msgspec
from msgspec import Struct

from .sse import Event
from .usage import (
    JsonObject,
    Usage,
    anthropic_usage,
    gemini_usage,
    openai_chat_usage,
    openai_responses_usage,
)


class Answer(Struct, frozen=True):
    """The provider's answer as far as it was seen.

    `signatures` are digests of the reasoning signatures, in order. `complete` says that the answer's own end was
    seen (`message_stop`, `[DONE]`, `response.completed`, a finish reason); a stream without it was cut [C4 C6].
    `error_type` is the provider's word for an error, in an error body or in the middle of a stream [C4].
    """

    usage: Usage | None = None
    message_id: str | None = None
    model: str | None = None
    call_ids: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    stop_reason: str | None = None
    error_type: str | None = None
    complete: bool = False


class AnswerReader(Protocol):
    """Reads one answer: either events as they come or one whole document."""

    def event(self, event: Event) -> None:
        """Take the next event of a stream."""
        ...

    def document(self, body: bytes) -> None:
        """Take a whole JSON body."""
        ...

    def answer(self) -> Answer:
        """Return what was seen so far."""
        ...


def signature_digest(signature: str) -> str:
    """Return the digest under which a reasoning signature is remembered; the signature itself never is."""
    return blake2b(signature.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _decode(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _object(value: object) -> JsonObject:
    return cast(JsonObject, value) if isinstance(value, Mapping) else {}


def _objects(value: object) -> list[JsonObject]:
    return [_object(item) for item in value] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


_LONGEST_NAME = 80
"""Characters of a provider's word that go into a log line."""


class _Seen:
    """What every reader gathers."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.message_id: str | None = None
        self.model: str | None = None
        self.calls: dict[str, None] = {}
        self.signatures: list[str] = []
        self.stop_reason: str | None = None
        self.error_type: str | None = None
        self.complete = False

    def answer(self) -> Answer:
        return Answer(
            usage=self.usage,
            message_id=self.message_id,
            model=self.model,
            call_ids=tuple(self.calls),
            signatures=tuple(self.signatures),
            stop_reason=self.stop_reason,
            error_type=self.error_type,
            complete=self.complete,
        )

    def call(self, call_id: object) -> None:
        if text := _text(call_id):
            self.calls[text] = None

    def failed(self, error: object) -> bool:
        """Note the type of an error object, in the words each provider has for it."""
        if not error:
            return False
        if isinstance(error, str):
            self.error_type = "error"
            return True
        names = _object(error)
        words = (_text(names.get(key)) for key in ("type", "status", "code"))
        self.error_type = next((word[:_LONGEST_NAME] for word in words if word), "error")
        return True


class AnthropicReader(_Seen):
    """Messages: `message_start` opens the usage, `message_delta` overrides what is above zero [C1 C2]."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, object] = {}

    def event(self, event: Event) -> None:
        match event.name:
            case "message_start":
                self._message(_object(_object(_decode(event.data)).get("message")))
            case "content_block_start":
                self._block(_object(_object(_decode(event.data)).get("content_block")))
            case "content_block_delta":
                if b"signature_delta" in event.data:
                    self._sign(_object(_object(_decode(event.data)).get("delta")).get("signature"))
            case "message_delta":
                self._delta(_object(_decode(event.data)))
            case "message_stop":
                self.complete = True
            case "error":
                self.failed(_object(_decode(event.data)).get("error") or "error")
            case "message":
                self._unnamed(event.data)
            case _:
                pass

    def document(self, body: bytes) -> None:
        whole = _object(_decode(body))
        if self.failed(whole.get("error")):
            return
        self._message(whole)
        for block in _objects(whole.get("content")):
            self._block(block)
        self.complete = self.stop_reason is not None

    def _unnamed(self, data: bytes) -> None:
        """Take an event without its `event:` line by the type its data states; they are equal by rule [C1]."""
        name = _text(_object(_decode(data)).get("type"))
        if name and name != "message":
            self.event(Event(name, data))

    def _message(self, message: JsonObject) -> None:
        self.message_id = _text(message.get("id")) or self.message_id
        self.model = _text(message.get("model")) or self.model
        self.stop_reason = _text(message.get("stop_reason")) or self.stop_reason
        self._count(_object(message.get("usage")))

    def _delta(self, event: JsonObject) -> None:
        self.stop_reason = _text(_object(event.get("delta")).get("stop_reason")) or self.stop_reason
        self._count({name: value for name, value in _object(event.get("usage")).items() if value})

    def _count(self, counts: JsonObject) -> None:
        if counts:
            self._counts.update(counts)
            self.usage = anthropic_usage(self._counts)

    def _block(self, block: JsonObject) -> None:
        if block.get("type") == "tool_use":
            self.call(block.get("id"))
        self._sign(block.get("signature"))

    def _sign(self, signature: object) -> None:
        if text := _text(signature):
            self.signatures.append(signature_digest(text))


class OpenAIChatReader(_Seen):
    """Chat completions: one chunk shape throughout, usage in the last [C100 B440 B521]."""

    def event(self, event: Event) -> None:
        if event.data.strip() == b"[DONE]":
            self.complete = True
            return
        self._chunk(_object(_decode(event.data)))

    def document(self, body: bytes) -> None:
        self._chunk(_object(_decode(body)))

    def _chunk(self, chunk: JsonObject) -> None:
        if self.failed(chunk.get("error")):
            return
        self.message_id = _text(chunk.get("id")) or self.message_id
        self.model = _text(chunk.get("model")) or self.model
        for choice in _objects(chunk.get("choices")):
            if reason := _text(choice.get("finish_reason")):
                self.stop_reason = reason
                self.complete = True
            for part in ("delta", "message"):
                for call in _objects(_object(choice.get(part)).get("tool_calls")):
                    self.call(call.get("id"))
        usage, timings = _object(chunk.get("usage")), _object(chunk.get("timings"))
        if usage or timings:
            self.usage = openai_chat_usage(usage, timings)


class OpenAIResponsesReader(_Seen):
    """Responses: usage and the end stand in one terminal event [C101 B107]."""

    _ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})

    def event(self, event: Event) -> None:
        name = event.name
        if name == "message":
            name = _text(_object(_decode(event.data)).get("type")) or name
        if name in self._ENDS:
            self._response(_object(_object(_decode(event.data)).get("response")))
            self.complete = True
        elif name == "response.created":
            created = _object(_object(_decode(event.data)).get("response"))
            self.message_id = _text(created.get("id"))
            self.model = _text(created.get("model"))
        elif name == "response.output_item.done":
            self._item(_object(_object(_decode(event.data)).get("item")))
        elif name == "error":
            whole = _object(_decode(event.data))
            self.failed(whole.get("error") or {"type": whole.get("code")})

    def document(self, body: bytes) -> None:
        whole = _object(_decode(body))
        if not self.failed(whole.get("error")) or whole.get("object") == "response":
            self._response(whole)
            self.complete = self.stop_reason is not None

    def _response(self, response: JsonObject) -> None:
        self.message_id = _text(response.get("id")) or self.message_id
        self.model = _text(response.get("model")) or self.model
        incomplete = _object(response.get("incomplete_details"))
        self.stop_reason = _text(incomplete.get("reason")) or _text(response.get("status"))
        self.failed(response.get("error"))
        for item in _objects(response.get("output")):
            self._item(item)
        if usage := _object(response.get("usage")):
            self.usage = openai_responses_usage(usage)

    def _item(self, item: JsonObject) -> None:
        if item.get("type") in {"function_call", "custom_tool_call"}:
            self.call(item.get("call_id"))


class GeminiReader(_Seen):
    """generateContent: every chunk has the whole shape, counts are cumulative, the last one holds [C300 B302]."""

    def event(self, event: Event) -> None:
        self._response(_object(_decode(event.data)))

    def document(self, body: bytes) -> None:
        whole = _decode(body)
        for response in _objects(whole) if isinstance(whole, list) else [_object(whole)]:
            self._response(response)

    def _response(self, response: JsonObject) -> None:
        # Code Assist wraps the response [D301].
        response = _object(response.get("response")) or response
        if self.failed(response.get("error")):
            return
        self.message_id = _text(response.get("responseId")) or self.message_id
        self.model = _text(response.get("modelVersion")) or self.model
        for candidate in _objects(response.get("candidates")):
            if reason := _text(candidate.get("finishReason")):
                self.stop_reason = reason
                self.complete = True
            for part in _objects(_object(candidate.get("content")).get("parts")):
                self.call(_object(part.get("functionCall")).get("id"))
                if signature := _text(part.get("thoughtSignature")):
                    self.signatures.append(signature_digest(signature))
        if metadata := _object(response.get("usageMetadata")):
            self.usage = gemini_usage(metadata)


READERS: Mapping[str, Callable[[], AnswerReader]] = {
    "anthropic": AnthropicReader,
    "openai_chat": OpenAIChatReader,
    "openai_responses": OpenAIResponsesReader,
    "gemini": GeminiReader,
}
