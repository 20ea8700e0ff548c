"""Gemini generateContent, at the services that speak it, with and without ids on calls."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import orjson
from msgspec import Struct

from proxy.dialects.gemini import Gemini
from proxy.rawjson import repair
from proxy.simulator.exchange import Answer
from proxy.simulator.gemini import GeminiProvider, GeminiSettings
from proxy.simulator.gemini import request as arrival
from proxy.simulator.gemini.cache import pieces
from proxy.simulator.gemini.schema import camel, snake
from proxy.simulator.gemini.turns import CHECKS
from proxy.simulator.refusal import Refusal
from proxy.usage import gemini_usage
from tests.laws.spelling import Style, spell
from tests.laws.wires import Asked, Heard, Json, Spot, canonical, kind_of, text
from tests.laws.wires.anthropic import unframed

HEADERS = (("x-goog-api-key", "test"), ("content-type", "application/json"))
ASSIST = "gemini-3.5-flash"
"""The model that is asked for by way of Code Assist, inside an envelope [D301]."""
_NAMELESS = "~"
"""How the ids begin that a client of ours gives to calls without one: they are no part of what it sends [A303]."""


class GeminiWire:
    """See `Wire`.

    Gemini 3 gives ids and signatures, 2.5 neither: a client that changes between them has both in its history.
    """

    name = "gemini"
    dialect = Gemini()
    headers = HEADERS
    upstreams = ("gemini", "vertex", "unknown")
    moves = frozenset({"unsigned", "strip_thinking"})

    def models(self, upstream: str) -> tuple[str, ...]:
        """See `Wire.models`."""
        return ("gemini-2.5-pro", "gemini-3-pro", *([ASSIST] if upstream == "gemini" else []))

    def provider(self, upstream: str) -> GeminiProvider:
        """See `Wire.provider`."""
        return GeminiProvider(_settings(upstream))

    def path(self, model: str) -> str:
        """See `Wire.path`."""
        if model == ASSIST:
            return "/v1internal:generateContent"
        return f"/v1beta/models/{model}:generateContent"

    def body(self, asked: Asked, style: Style) -> bytes:
        """See `Wire.body`."""
        spelling = Spelling(style, snakes=asked.thinks)
        members: Json = {"systemInstruction": {"parts": spelling.parts([*asked.system])}}
        if style.marks & 4:
            members["systemInstruction"]["role"] = "user"
        declared = [_declaration(tool) for tool in asked.tools]
        members["tools"] = [{spelling.name("functionDeclarations"): declared}]
        members["contents"] = [*spelling.contents(asked.messages)]
        if asked.thinks:
            members["generationConfig"] = {"thinkingConfig": {"includeThoughts": True}}
        if asked.unknown:
            members["labels"] = {"user_id": "né"}
        if style.order == 1:
            members = dict(reversed(members.items()))
        members = {spelling.name(name): value for name, value in members.items()}
        if asked.model == ASSIST:
            members = {"model": asked.model, "project": "greenhouse", "request": members}
        return spell(members, style)

    def heard(self, answer: Answer) -> Heard:
        """See `Wire.heard`. A signature behind words comes on a part of its own in a stream [C300]."""
        told = answer.json.get("response", answer.json)
        content: list[Json] = []
        for at, part in enumerate(told["candidates"][0]["content"]["parts"]):
            streams = int(hashlib.sha256(told["responseId"].encode()).hexdigest(), 16) % 2
            content += _blocks(part, f"{_NAMELESS}{told['responseId']}.{at}", streams=bool(streams))
        ids = [block["id"] for block in content if block["type"] == "tool_use"]
        named = tuple(ident for ident in ids if not ident.startswith(_NAMELESS))
        return Heard(content, gemini_usage(told["usageMetadata"]), named)

    def complaints(self, body: bytes, upstream: str, model: str) -> frozenset[str]:
        """See `Wire.complaints`."""
        try:
            request = self._request(body, upstream, model)
        except Refusal as refusal:
            return frozenset({f"arrival: {kind_of(refusal.message)}"})
        found = set()
        for check in CHECKS:
            try:
                check(request)
            except Refusal as refusal:
                found.add(f"{check.__name__}: {kind_of(refusal.message)}")
        return frozenset(found)

    def _request(self, body: bytes, upstream: str, model: str) -> arrival.Request:
        return arrival.read([*HEADERS], body, arrival.target(self.path(model)), _settings(upstream))

    def prompt(self, body: bytes, *, hidden: bool) -> list[Spot]:
        """See `Wire.prompt`."""
        del hidden
        request = self._request(repair(body)[0], "", _model(body))
        spots: list[Spot] = []
        chain = b""
        for turn, piece in pieces(request.body):
            chain = hashlib.sha256(chain + piece).digest()
            spots.append(Spot(f"contents.{turn}: {piece[:60]!r}", chain, turn))
        return spots

    def last_answer(self, body: bytes) -> int:
        """See `Wire.last_answer`."""
        contents = self._request(body, "", _model(body)).contents
        return max((at for at, one in enumerate(contents) if one.get("role") == "model"), default=-1)

    def slices(self, body: bytes) -> None:
        """See `Wire.slices`."""
        del body

    def pieces(self, raw: bytes) -> list[bytes]:
        """See `Wire.pieces`. Every part is one slice."""
        return [bytes(raw)]

    def said(self, body: bytes) -> set[object]:
        """See `Wire.said`."""
        found: set[object] = set()
        parsed = json.loads(body)  # not as the provider does: it takes a long integer for a float
        for content in _listed(_get(parsed.get("request", parsed), "contents")):
            role = "assistant" if content.get("role") == "model" else "user"
            for part in _listed(content["parts"]):
                signature, call = _get(part, "thoughtSignature"), _get(part, "functionCall")
                if "text" in part:
                    found |= {(role, part["text"]), ("system", unframed(part["text"])), signature}
                if call is not None:
                    told = (call["name"], canonical(json.dumps(call.get("args") or {})))
                    found |= {told, (*told, signature)}
        return found


def _get(members: Json, name: str) -> Any:
    """A member by its name in camelCase, whatever its spelling."""
    return next((value for known, value in members.items() if camel(known) == name), None)


def _listed(value: Any) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _settings(upstream: str) -> GeminiSettings:
    if upstream == "vertex":
        return GeminiSettings(backend="vertex", strict_text=True)
    return GeminiSettings(strict_ids=upstream == "gemini")


def _model(body: bytes) -> str:
    """A model whose path fits the envelope of a body."""
    return ASSIST if "request" in orjson.loads(repair(body)[0]) else ""


def _blocks(part: Json, ident: str, *, streams: bool) -> Iterator[Json]:
    """A part of an answer as a client keeps it: the signature stays on its part."""
    signature = {name: part[name] for name in ("thoughtSignature",) if name in part}
    if part.get("thought"):
        yield {"type": "thinking", "thinking": part["text"], "signature": "", **signature}
    elif "functionCall" in part:
        call = part["functionCall"]
        made = {"type": "tool_use", "id": call.get("id", ident), "name": call["name"]}
        yield {**made, "input": call["args"], **signature}
    elif streams and signature:
        yield text(part["text"])
        yield {**text(""), **signature}
    else:
        yield {**text(part["text"]), **signature}


def _declaration(tool: Json) -> Json:
    return {
        "name": tool["name"],
        "description": tool["description"],
        "parametersJsonSchema": tool["input_schema"],
    }


class Spelling(Struct, frozen=True):
    """How one request is spelt. What marks are to other formats, roles are to this one.

    Bits of `marks`: nobody named where the user speaks (2), a role of the system's (4), the role that responses once
    had (8). `flip`: one part stands for a list of one. `snakes`: members are named in snake_case; no client has both.
    """

    style: Style
    snakes: bool

    def name(self, name: str) -> str:
        """A member's name."""
        return snake(name) if self.snakes else name

    def contents(self, messages: list[Json]) -> Iterator[Json]:
        """The history. What a harness says between turns is said by the user: there is no role for it [A300]."""
        names: dict[str, str] = {}
        for message in messages:
            content = message["content"]
            blocks = [text(content)] if isinstance(content, str) else content
            parts: Any = self.parts(blocks, names)
            if self.style.empties and parts:
                parts.append({"text": ""})
            if self.style.flip and len(parts) == 1:
                parts = parts[0]
            yield {**self._role(message["role"], blocks), "parts": parts}

    def _role(self, role: str, blocks: list[Json]) -> Json:
        if role == "assistant":
            return {"role": "model"}
        if self.style.marks & 8 and any(block["type"] == "tool_result" for block in blocks):
            return {"role": "function"}
        return {} if self.style.marks & 2 else {"role": "user"}

    def parts(self, blocks: list[Json], names: dict[str, str] | None = None) -> list[Json]:
        """The parts of a message; `names` of calls by their id."""
        return [self._part(block, {} if names is None else names) for block in blocks]

    def _part(self, block: Json, names: dict[str, str]) -> Json:
        signed = block.get("thoughtSignature")
        about = {} if signed is None else {self.name("thoughtSignature"): signed}
        match block["type"]:
            case "text":
                return {"text": block["text"], **about}
            case "thinking":
                return {"text": block["thinking"], "thought": True, **about}
            case "tool_use":
                names[block["id"]] = block["name"]
                call = {**_ident(block["id"]), "name": block["name"], "args": block["input"]}
                return {self.name("functionCall"): call, **about}
            case "tool_result":
                return {self.name("functionResponse"): self._response(block, names)}
            case "image":
                return self._image(block)
            case _:
                return {self.name("executableCode"): {"language": "PYTHON", "id": block["x"]}}

    def _response(self, block: Json, names: dict[str, str]) -> Json:
        content = block["content"]
        told = [text(content)] if isinstance(content, str) else content
        words = "\n".join(one["text"] for one in told if one["type"] == "text")
        response = {} if not told else {"error" if block.get("is_error") else "output": words}
        made = {**_ident(block["tool_use_id"]), "name": names.get(block["tool_use_id"], "run")}
        made["response"] = response
        images = [self._image(one) for one in told if one["type"] == "image"]
        return {**made, "parts": images} if images else made

    def _image(self, block: Json) -> Json:
        source = block["source"]
        media = {self.name("mimeType"): source["media_type"], "data": source["data"]}
        return {self.name("inlineData"): media}


def _ident(ident: str) -> Json:
    return {} if ident.startswith(_NAMELESS) else {"id": ident}
