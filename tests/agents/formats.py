"""All embedded providers behind one address: what an agent speaks follows from the path it asks."""

import json

from msgspec import structs

from proxy.simulator.arrival import decompress
from proxy.simulator.chat import ChatProvider
from proxy.simulator.exchange import Answer, Exchange
from proxy.simulator.gemini import GeminiProvider
from proxy.simulator.embedded import Headers
from proxy.simulator.provider import Provider
from proxy.simulator.reply import Script
from proxy.simulator.responses import ResponsesProvider
from proxy.simulator.settings import Settings


class Codexs(ResponsesProvider):
    """Takes a member that Codex gives to items for OpenAI itself, and that no reference speaks of."""

    def prepare(self, headers: Headers, body: bytes, now: float, path: str) -> Answer:
        plain = decompressed(headers, body)
        if b"internal_chat_message_metadata_passthrough" not in plain:
            return super().prepare(headers, body, now, path)
        asked = json.loads(plain)
        for item in asked["input"]:
            item.pop("internal_chat_message_metadata_passthrough", None)
        kept = [(name, value) for name, value in headers if name.lower() != "content-encoding"]
        return super().prepare(kept, json.dumps(asked, ensure_ascii=False).encode(), now, path)


def decompressed(headers: Headers, body: bytes) -> bytes:
    """A body as JSON, whatever it is packed in."""
    named = {name.lower(): value for name, value in headers}
    return decompress(body, named.get("content-encoding", ""), Settings())


class Formats:
    """Messages, chat completions, responses and generateContent, each strict and each with a cache of its own."""

    def __init__(self, script: Script) -> None:
        self.settings = Settings()
        self.anthropic = Provider(self.settings, script)
        self.chat = ChatProvider(script=script)
        self.responses = Codexs(script=script)
        self.gemini = GeminiProvider(script=script)
        self.log: list[Exchange] = []

    def models(self) -> bytes:
        return self.anthropic.models()

    def prepare(self, headers: Headers, body: bytes, now: float, path: str) -> Answer:
        headers = [*headers]
        answer = self._of(path).prepare(headers, body, now, path)
        # The log has what came, in the encoding it came in.
        packed = tuple(pair for pair in headers if pair[0].lower() == "content-encoding")
        kept = tuple(pair for pair in answer.exchange.headers if pair[0].lower() != "content-encoding")
        self.log.append(structs.replace(answer.exchange, headers=(*kept, *packed), body=body))
        return answer

    def begin(self, answer: Answer) -> None:
        self._of(answer.exchange.path).begin(answer)

    def _of(self, path: str) -> Provider | ChatProvider | ResponsesProvider | GeminiProvider:
        if "/messages" in path:
            return self.anthropic
        if path.startswith("/v1beta") or "enerateContent" in path:
            return self.gemini
        return self.chat if "/chat/" in path else self.responses
