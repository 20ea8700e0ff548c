"""generateContent: what an answer of the Gemini format says about itself [C300 B302 D301]."""

from __future__ import annotations

from ..sse import Event
from ..usage import JsonObject, gemini_usage
from .seen import Seen, Signed, decode, object_of, objects_of, text_of


class GeminiReader(Seen):
    """Every chunk has the whole shape, counts are cumulative, the last that is stated holds [C300 B302]."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, object] = {}
        self._made = 0

    def event(self, event: Event) -> None:
        self._response(object_of(decode(event.data)))

    def document(self, body: bytes) -> None:
        whole = decode(body)
        for response in objects_of(whole) if isinstance(whole, list) else [object_of(whole)]:
            self._response(response)

    def _response(self, response: JsonObject) -> None:
        # Code Assist wraps the response [D301].
        response = object_of(response.get("response")) or response
        if self.failed(response.get("error")):
            return
        self.message_id = text_of(response.get("responseId")) or self.message_id
        self.model = text_of(response.get("modelVersion")) or self.model
        for candidate in objects_of(response.get("candidates")):
            self._ended(candidate.get("finishReason"))
            for part in objects_of(object_of(candidate.get("content")).get("parts")):
                if call := object_of(part.get("functionCall")):
                    self._called(call, part.get("thoughtSignature"))
                self.sign(part.get("thoughtSignature"))
        # A prompt that is blocked gets no candidate at all.
        self._ended(object_of(response.get("promptFeedback")).get("blockReason"))
        if metadata := object_of(response.get("usageMetadata")):
            self._counts.update(metadata)
            self.usage = gemini_usage(self._counts)

    def _called(self, call: JsonObject, signature: object) -> None:
        self.call(call.get("id"))
        self.returns(Signed("call", self._made, text_of(call.get("name")) or "", text_of(signature) or ""))
        self._made += 1

    def _ended(self, reason: object) -> None:
        if text := text_of(reason):
            self.stop_reason = text
            self.complete = True
