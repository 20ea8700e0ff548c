"""An answer of the Gemini API: one object, chunks of a stream, or an array of them [B302 C300 C301]."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import orjson

from ..models import Model
from ..reply import Call, Reply, Say, Think, derived_id
from ..tokens import of_text
from .schema import Json
from .turns import sign

_PIECES = 3
_REASONS = {
    "end_turn": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    "refusal": "SAFETY",
}
"""There is no reason of its own for a call [A308]. Any other goes out as the script gives it."""

BLOCKED = "blocked"
"""A script's word for a prompt that is not answered at all [C301]."""


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """A finished answer before it is written out. `parts` as one object has them, `streamed` as chunks do."""

    id: str
    model: str
    parts: tuple[Json, ...]
    streamed: tuple[Json, ...]
    reason: str
    prompt: int
    cached: int
    thoughts: int
    said: int

    def usage(self, said: int | None = None) -> Json:
        """`usageMetadata`, cumulative; a count that is zero is absent [B302]."""
        said = self.said if said is None else said
        counts = {
            "promptTokenCount": self.prompt,
            "cachedContentTokenCount": self.cached,
            "candidatesTokenCount": said,
            "thoughtsTokenCount": self.thoughts,
            "totalTokenCount": self.prompt + said + self.thoughts,
        }
        metadata: Json = {name: count for name, count in counts.items() if count}
        metadata["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": self.prompt}]
        if self.cached:
            metadata["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": self.cached}]
        return metadata

    def whole(self) -> Json:
        """The answer as one object."""
        if self.reason == BLOCKED:
            return self._members({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, self.usage(0))
        candidate = {
            "content": {"parts": [*self.parts], "role": "model"},
            "finishReason": self.reason,
            "index": 0,
        }
        return self._members({"candidates": [candidate]}, self.usage())

    def chunks(self) -> Iterator[Json]:
        """The answer as the objects of a stream: the reason stands in the last one alone."""
        if self.reason == BLOCKED:
            yield self.whole()
            return
        last = len(self.streamed) - 1
        for at, part in enumerate(self.streamed):
            candidate: Json = {"content": {"parts": [part], "role": "model"}}
            if at == last:
                candidate["finishReason"] = self.reason
            candidate["index"] = 0
            said = self.said if at == last else self.said * (at + 1) // (last + 1)
            yield self._members({"candidates": [candidate]}, self.usage(said))

    def _members(self, body: Json, usage: Json) -> Json:
        return {**body, "usageMetadata": usage, "modelVersion": self.model, "responseId": self.id}


def composed(said: Reply, model: Model, name: str, history: str, *, prompt: int, cached: int) -> Composed:
    """From what a script says to an answer: ids and signatures derive from the history.

    Gemini 3 names its calls and signs the first one of a step, else the last text [A303 A304]; in a stream that
    signature comes behind the words, on a text without any [C300].
    """
    parts: list[Json] = []
    streamed: list[Json] = []
    for at, block in enumerate(said.blocks):
        match block:
            case Say(words):
                parts.append({"text": words})
                streamed += [{"text": piece} for piece in _split(words)]
            case Think(words):
                parts.append({"text": words, "thought": True})
                streamed += [{"text": piece, "thought": True} for piece in _split(words)]
            case Call(function, arguments, given):
                call: Json = {"name": function, "args": arguments}
                if given or model.checks_signatures:
                    call = {"id": given or derived_id("call", history, str(at)), **call}
                parts.append({"functionCall": call})
                streamed.append(parts[-1])
    spoken = sum(
        of_text(str(p.get("functionCall") or p.get("text")), model) for p in parts if "thought" not in p
    )
    thoughts = sum(of_text(part["text"], model) for part in parts if "thought" in part)
    if model.checks_signatures:
        parts, streamed = _signed(parts, streamed)
    return Composed(
        id=derived_id("resp", history),
        model=name,
        parts=tuple(parts),
        streamed=tuple(streamed) or ({"text": ""},),
        reason=said.reason if said.reason == BLOCKED else _REASONS.get(said.reason, said.reason),
        prompt=prompt,
        cached=cached,
        thoughts=thoughts,
        said=spoken,
    )


def _signed(parts: list[Json], streamed: list[Json]) -> tuple[list[Json], list[Json]]:
    first = next((at for at, part in enumerate(parts) if "functionCall" in part), None)
    if first is not None:
        call = parts[first]
        signed = {**call, "thoughtSignature": sign(call)}
        return [signed if p is call else p for p in parts], [signed if p is call else p for p in streamed]
    if parts and "thought" not in parts[-1]:
        signature = {"thoughtSignature": sign(parts[-1])}
        return [*parts[:-1], {**parts[-1], **signature}], [*streamed, {"text": "", **signature}]
    return parts, streamed


def _split(text: str) -> Iterator[str]:
    size = max(1, -(-len(text) // _PIECES))
    for at in range(0, len(text), size):
        yield text[at : at + size]


def wrapped(answer: Json, *, assist: bool) -> bytes:
    """An answer as bytes, inside `response` where Code Assist asks [D301]."""
    return orjson.dumps({"response": answer} if assist else answer)


def sse(chunk: bytes) -> bytes:
    """One unnamed event [C300]."""
    return b"data: %s\r\n\r\n" % chunk


def array(chunks: list[bytes]) -> Iterator[bytes]:
    """The pieces of an array of chunks, as a stream without `alt=sse` sends it."""
    for at, chunk in enumerate(chunks):
        yield (b",\r\n" if at else b"[") + chunk
    yield b"]"
