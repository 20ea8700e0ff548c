"""Chat completions and Responses: what an answer of OpenAI's two formats says about itself [C100 C101]."""

from __future__ import annotations

from ..sse import Event
from ..usage import JsonObject, count, openai_chat_usage, openai_responses_usage
from .seen import Answer, Seen, Signed, decode, object_of, objects_of, text_of


class OpenAIChatReader(Seen):
    """One chunk shape throughout. Usage stands in a chunk of its own [C100 B440], in the last choice (Kimi [B410]),
    in a member of the vendor's (Groq [B430]), or in all chunks [C500]; llama.cpp's `timings` beside it or instead
    [B521]. The last of each counts."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: JsonObject = {}
        self._timings: JsonObject = {}
        self._words: list[str] = []

    def answer(self) -> Answer:
        """See `Seen.answer`; what was thought comes back as a whole or not at all [A400 A410]."""
        if self.complete and self._words:
            self.returns(Signed("words", 0, "", "".join(self._words)))
        return super().answer()

    def event(self, event: Event) -> None:
        if event.data.strip() == b"[DONE]":
            self.complete = True
            return
        self._chunk(object_of(decode(event.data)))

    def document(self, body: bytes) -> None:
        self._chunk(object_of(decode(body)))

    def _chunk(self, chunk: JsonObject) -> None:
        if self.failed(chunk.get("error")):
            return
        self.message_id = text_of(chunk.get("id")) or self.message_id
        self.model = text_of(chunk.get("model")) or self.model
        usage = object_of(chunk.get("usage")) or object_of(object_of(chunk.get("x_groq")).get("usage"))
        for choice in objects_of(chunk.get("choices")):
            usage = usage or object_of(choice.get("usage"))
            if reason := text_of(choice.get("finish_reason")):
                self.stop_reason = reason
                self.complete = True
            for part in ("delta", "message"):
                said = object_of(choice.get(part))
                if words := text_of(said.get("reasoning_content")):
                    self._words.append(words)
                for call in objects_of(said.get("tool_calls")):
                    self.call(call.get("id"))
        timings = object_of(chunk.get("timings"))
        if usage or timings:
            self._counts, self._timings = usage or self._counts, timings or self._timings
            self.usage = openai_chat_usage(self._counts, self._timings)


class OpenAIResponsesReader(Seen):
    """Usage and the end stand in one terminal event [C101 B107]; so do diagnoses [B108 A206]."""

    _ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
    _UNDER_WAY = frozenset({"queued", "in_progress"})

    def __init__(self) -> None:
        super().__init__()
        self._thought = ""

    def event(self, event: Event) -> None:
        name = event.name
        if name == "message":
            name = text_of(object_of(decode(event.data)).get("type")) or name
        if name in self._ENDS:
            self._response(object_of(object_of(decode(event.data)).get("response")))
            self.complete = True
        elif name == "response.created":
            created = object_of(object_of(decode(event.data)).get("response"))
            self.message_id = text_of(created.get("id"))
            self.model = text_of(created.get("model"))
        elif name == "response.output_item.done":
            self._item(object_of(object_of(decode(event.data)).get("item")))
        elif name == "error":
            whole = object_of(decode(event.data))
            self.failed(whole.get("error") or {"type": whole.get("code")})

    def document(self, body: bytes) -> None:
        whole = object_of(decode(body))
        if not self.failed(whole.get("error")) or whole.get("object") == "response":
            self._response(whole)
            self.complete = self.stop_reason is not None and self.stop_reason not in self._UNDER_WAY

    def _response(self, response: JsonObject) -> None:
        self.message_id = text_of(response.get("id")) or self.message_id
        self.model = text_of(response.get("model")) or self.model
        incomplete = object_of(response.get("incomplete_details"))
        self.stop_reason = text_of(incomplete.get("reason")) or text_of(response.get("status"))
        self.failed(response.get("error"))
        self._thought = ""
        for item in objects_of(response.get("output")):
            self._item(item)
        if usage := object_of(response.get("usage")):
            self.usage = openai_responses_usage(usage)
        self._diagnose(object_of(response.get("prompt_cache_diagnostics")))
        self.transformed(response.get("input_transformations"))

    def _diagnose(self, diagnostics: JsonObject) -> None:
        if diagnostics.get("type") == "cache_miss":
            self.missed(diagnostics.get("reason"), count(diagnostics, "cache_missed_tokens"))

    def _item(self, item: JsonObject) -> None:
        """Calls of every kind that wait for a result of the client's carry a `call_id` [A201]. What stands right behind
        reasoning is stored with it [A202]."""
        name = text_of(item.get("id")) or ""
        if str(item.get("type")).endswith("_call"):
            self.call(item.get("call_id"))
        elif item.get("type") == "reasoning" and name:
            self.returns(Signed("item", 0, name, text_of(item.get("encrypted_content")) or ""))
            self._thought = name
            return
        if name:
            self.returns(Signed("led", 0, name, self._thought))
        self._thought = ""
