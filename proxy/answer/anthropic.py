"""Messages: what an answer of the Anthropic format says about itself [C1 C2 C5 C500]."""

from __future__ import annotations

from ..sse import Event
from ..usage import JsonObject, anthropic_restated, anthropic_usage, count
from .seen import Seen, Signed, decode, object_of, objects_of, text_of, words_digest


class AnthropicReader(Seen):
    """`message_start` opens the usage, the last `message_delta` may state it anew [C2 C500]."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: JsonObject = {}
        self._thoughts = 0
        self._words: list[str] = []

    def event(self, event: Event) -> None:
        match event.name:
            case "message_start":
                self._message(object_of(object_of(decode(event.data)).get("message")))
            case "content_block_start":
                self._block(object_of(object_of(decode(event.data)).get("content_block")))
            case "content_block_delta":
                if b"thinking_delta" in event.data or b"signature_delta" in event.data:
                    self._thought(object_of(object_of(decode(event.data)).get("delta")))
            case "message_delta":
                self._delta(object_of(decode(event.data)))
            case "message_stop":
                self.complete = True
            case "error":
                self.failed(object_of(decode(event.data)).get("error") or "error")
            case "message":
                self._unnamed(event.data)
            case _:
                pass

    def document(self, body: bytes) -> None:
        whole = object_of(decode(body))
        if self.failed(whole.get("error")):
            return
        self._message(whole)
        for block in objects_of(whole.get("content")):
            self._block(block)
        self.complete = self.stop_reason is not None

    def _unnamed(self, data: bytes) -> None:
        """Take an event without its `event:` line by the type its data states; they are equal by rule [C1]."""
        name = text_of(object_of(decode(data)).get("type"))
        if name and name != "message":
            self.event(Event(name, data))

    def _message(self, message: JsonObject) -> None:
        self.message_id = text_of(message.get("id")) or self.message_id
        self.model = text_of(message.get("model")) or self.model
        self.stop_reason = text_of(message.get("stop_reason")) or self.stop_reason
        self._count(object_of(message.get("usage")))
        self._diagnose(message)

    def _delta(self, event: JsonObject) -> None:
        self.stop_reason = text_of(object_of(event.get("delta")).get("stop_reason")) or self.stop_reason
        self._count(object_of(event.get("usage")))
        self._diagnose(event)

    def _diagnose(self, source: JsonObject) -> None:
        why = object_of(object_of(source.get("diagnostics")).get("cache_miss_reason"))
        self.missed(why.get("type"), count(why, "cache_missed_input_tokens"))
        self.transformed(source.get("input_transformations"))

    def _count(self, counts: JsonObject) -> None:
        if counts:
            self._counts = anthropic_restated(self._counts, counts)
            self.usage = anthropic_usage(self._counts)

    def _block(self, block: JsonObject) -> None:
        if block.get("type") == "tool_use":
            self.call(block.get("id"))
        elif block.get("type") == "thinking":
            self._words.clear()
            self._thought(block)
        else:
            self.sign(block.get("signature"))

    def _thought(self, piece: JsonObject) -> None:
        """A whole block of thinking or a piece of one; its signature comes behind its words [C1]."""
        if words := text_of(piece.get("thinking")):
            self._words.append(words)
        if signature := text_of(piece.get("signature")):
            self.sign(signature)
            self.returns(Signed("thinking", self._thoughts, words_digest("".join(self._words)), signature))
            self._thoughts += 1
            self._words.clear()
