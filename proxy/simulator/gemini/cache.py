"""The implicit prompt cache: the longest beginning that an earlier prompt had too [B300 B306].

A prompt is one run of bytes - system instruction, tools, contents - cut into blocks of equal size. A block is found
if all before it and itself were sent before, by the same project to the same model, not too long ago. Nothing is
written that costs, nothing is promised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec
import orjson

from .request import Request
from .schema import Json

_PAD = b"."


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt as the cache sees it: the chain of its blocks, tokens of all of it and of what was found."""

    scope: tuple[str, str]
    chain: tuple[bytes, ...]
    tokens: int
    cached: int
    until: float


class ImplicitCache:
    """All blocks ever seen, each with the second until which it is found."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[str, str], dict[bytes, float]] = {}

    def look(self, request: Request, now: float) -> Prompt:
        """What a request finds. `now` is its start in seconds."""
        model, settings = request.model, request.settings
        rendered = render(request.body, image_bytes=round(model.image_tokens / model.tokens_per_byte))
        size = max(1, round(settings.cache_block / model.tokens_per_byte))
        chain = _chained(rendered, size)
        tokens = round(len(rendered) * model.tokens_per_byte)
        scope = (request.project, model.name)
        known = self._blocks.get(scope, {})
        found = 0
        for block in chain:
            if known.get(block, now) <= now:
                break
            found += 1
        cached = found * settings.cache_block
        enough = tokens >= model.min_prefix and cached >= model.min_prefix
        return Prompt(
            scope=scope,
            chain=chain,
            tokens=tokens,
            cached=min(cached, tokens) if enough else 0,
            until=now + settings.cache_ttl_s,
        )

    def keep(self, prompt: Prompt) -> None:
        """The answer begins: the prompt can be found from now on."""
        blocks = self._blocks.setdefault(prompt.scope, {})
        for block in prompt.chain:
            blocks[block] = max(prompt.until, blocks.get(block, 0.0))


def _chained(rendered: bytes, size: int) -> tuple[bytes, ...]:
    chain: list[bytes] = []
    before = b""
    for at in range(0, len(rendered) - size + 1, size):
        before = hashlib.blake2b(before + rendered[at : at + size], digest_size=12).digest()
        chain.append(before)
    return tuple(chain)


def render(body: Json, image_bytes: int = 1000) -> bytes:
    """The prompt a body becomes, in the order the model reads it [B306]. Key order is kept: it costs the cache."""
    return b"\n".join(piece for _, piece in pieces(body, image_bytes))


def pieces(body: Json, image_bytes: int = 1000) -> Iterator[tuple[int, bytes]]:
    """The same piece by piece, each with the place of its content, -1 in front of the contents."""
    yield -1, b"system"
    for part in body.get("systemInstruction", {}).get("parts", ()):
        yield -1, _part(part, image_bytes)
    yield -1, b"tools"
    for tool in body.get("tools", ()):
        yield -1, orjson.dumps(tool)
    for at, content in enumerate(body.get("contents", ())):
        yield at, b"model" if content.get("role") == "model" else b"user"
        for part in content.get("parts", ()):
            yield at, _part(part, image_bytes)


def _part(part: Json, image_bytes: int) -> bytes:
    """A part; media stand as a digest of their own, as long as what they weigh."""
    if "inlineData" not in part:
        return orjson.dumps(part)
    digest = hashlib.blake2b(orjson.dumps(part), digest_size=24).hexdigest().encode()
    return digest.ljust(image_bytes, _PAD)
