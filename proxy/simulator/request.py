"""One request as the provider sees it: parsed body, headers that matter, model and account."""

import hashlib
import re
import zlib
from collections.abc import Iterator
from typing import Any

import brotli
import msgspec
import orjson

from . import models
from .models import Model
from .refusal import Refusal
from .settings import Settings

VERSIONS = ("2023-06-01", "2026-10-21")
Json = dict[str, Any]
_NUL = re.compile(rb"\\u0000")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose body is JSON; nothing else about it is known to be right."""

    body: Json
    version: str
    betas: frozenset[str]
    organization: str
    workspace: str
    model: Model
    settings: Settings
    counting: bool
    """True for count_tokens."""

    def has_beta(self, *prefixes: str) -> bool:
        """Whether a beta value that starts with one of these was sent."""
        return any(beta.startswith(prefixes) for beta in self.betas)

    @property
    def messages(self) -> list[Json]:
        return self.body["messages"]  # type: ignore[no-any-return]

    @property
    def thinking(self) -> Json:
        """The thinking parameter, empty where absent."""
        return self.body.get("thinking") or {}

    @property
    def thinks(self) -> bool:
        """Whether the model thinks in its answer to this request [A40]."""
        kind = self.thinking.get("type")
        if kind is None:
            return self.model.thinks_by_default
        return kind in ("adaptive", "enabled")

    @property
    def manual(self) -> bool:
        return self.thinking.get("type") == "enabled"


def fingerprint(secret: str) -> str:
    """What stands for a key in records: keys themselves are not kept."""
    return "sha256:" + hashlib.sha256(secret.encode()).hexdigest()[:16]


def header(headers: dict[str, str], name: str) -> str:
    return headers.get(name, "")


def read(raw_headers: list[tuple[str, str]], raw: bytes, settings: Settings, *, counting: bool) -> Request:
    """Read a request, checking what comes before the schema: size, encoding, JSON, auth, version.

    Raises:
        Refusal: 413, 400 or 401, in this order [Part 7].
    """
    headers: dict[str, str] = {}
    for name, value in raw_headers:
        key = name.lower()
        headers[key] = f"{headers[key]},{value}" if key in headers else value
    if len(raw) > settings.max_body_bytes:
        raise Refusal("Request exceeds the maximum allowed number of bytes.", 413)
    body = parse(decompress(raw, header(headers, "content-encoding"), settings), settings)
    organization = authenticate(headers, settings)
    version = check_version(header(headers, "anthropic-version"))
    betas = frozenset(part.strip() for part in header(headers, "anthropic-beta").split(",") if part.strip())
    wanted = body.get("model")
    facts = models.find(wanted, settings.otherwise) if isinstance(wanted, str) else None
    return Request(
        body=body,
        version=version,
        betas=betas,
        organization=organization,
        workspace=header(headers, "anthropic-workspace-id"),
        model=facts or settings.otherwise,
        settings=settings,
        counting=counting,
    )


def decompress(raw: bytes, encoding: str, settings: Settings) -> bytes:
    """Undo the content encoding [D7]."""
    coding = encoding.strip().lower()
    try:
        match coding:
            case "" | "identity":
                return raw
            case "gzip" | "x-gzip":
                plain = zlib.decompress(raw, wbits=31)
            case "deflate":
                plain = zlib.decompress(raw)
            case "br":
                plain = brotli.decompress(raw)
            case "zstd":
                plain = _zstd(raw)
            case _:
                raise Refusal(
                    f"Unsupported request body encoding: {coding}",
                    details={"error_code": "request_body_encoding_unsupported"},
                )
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(
            f"The request body is not valid {coding}.",
            details={"error_code": "request_body_encoding_invalid"},
        ) from error
    if len(plain) > settings.max_body_bytes:
        raise Refusal(
            "Request exceeds the maximum allowed number of bytes.",
            413,
            {"error_code": "request_body_too_large_after_decoding"},
        )
    return plain


def _zstd(raw: bytes) -> bytes:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
    except ImportError:
        from backports import zstd  # noqa: PLC0415  from Python 3.14 on the library has it
    return bytes(zstd.decompress(raw))


def parse(raw: bytes, settings: Settings) -> Json:
    """The JSON object in the body; lone surrogates fail here as they do in the real one [A4]."""
    for nul in _NUL.finditer(raw) if settings.refuse_nul else ():
        at = nul.start()
        if not _escaped(raw, at):
            raise Refusal(
                "The request body is not valid JSON: "
                f"unexpected end of data: line 1 column {at + 1} (char {at})"
            )
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Refusal(f"The request body is not valid JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refusal("Input should be a valid dictionary")
    return body


def _escaped(raw: bytes, at: int) -> bool:
    """Whether the backslash at `at` is itself escaped."""
    start = at
    while start and raw[start - 1] == 0x5C:
        start -= 1
    return (at - start) % 2 == 1


def authenticate(headers: dict[str, str], settings: Settings) -> str:
    """The account a request belongs to: one for each key [B16 D2]."""
    scheme, _, token = header(headers, "authorization").partition(" ")
    secret = header(headers, "x-api-key") or (token if scheme.lower() == "bearer" else "")
    if not secret:
        if settings.require_auth:
            raise Refusal("x-api-key header is required", 401)
        return "org_anonymous"
    return "org_" + fingerprint(secret).removeprefix("sha256:")


def check_version(version: str) -> str:
    if not version:
        raise Refusal("anthropic-version: header is required")
    if version not in VERSIONS:
        raise Refusal(f"anthropic-version: {version!r} is not a valid version")
    return version


def blocks(message: Json) -> list[Json]:
    """The content of a message as blocks; a string is one text block [A13]."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def every_block(messages: list[Json]) -> Iterator[tuple[int, int, Json, Json]]:
    """All content blocks as (message index, block index, message, block)."""
    for i, message in enumerate(messages):
        for j, block in enumerate(blocks(message)):
            yield i, j, message, block


def nested(block: Json) -> list[Json]:
    """The blocks inside a tool result; a string is one text block, nothing is none."""
    content = block.get("content")
    if isinstance(content, list):
        return [item for item in content if isinstance(item, dict)]
    return []
