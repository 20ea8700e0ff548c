"""A request on its way in: size, encoding, JSON, account, version - what is checked before the schema."""

import re
import zlib
from collections.abc import Callable

import brotli
import orjson

from . import models
from .models import Model
from .refusal import Refusal, refuse
from .request import Json, Request, fingerprint
from .settings import Settings

VERSIONS = ("2023-06-01", "2026-10-21")
_NUL = re.compile(rb"\\u0000")


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
    body = parse(decompress(raw, headers.get("content-encoding", ""), settings), settings)
    organization = authenticate(headers, settings)
    version = check_version(headers.get("anthropic-version", ""))
    betas = frozenset(part.strip() for part in headers.get("anthropic-beta", "").split(",") if part.strip())
    wanted = body.get("model")
    facts = _facts(wanted, settings) if isinstance(wanted, str) else settings.otherwise
    return Request(
        body=body,
        version=version,
        betas=betas,
        organization=organization,
        workspace=headers.get("anthropic-workspace-id", ""),
        model=facts,
        settings=settings,
        counting=counting,
    )


def _facts(name: str, settings: Settings) -> Model:
    own = {model.name: model for model in settings.models}.get(models.canonical(name))
    return own or models.find(name, settings.otherwise)


def decompress(raw: bytes, encoding: str, settings: Settings) -> bytes:
    """Undo the content encoding of a body [D7].

    Raises:
        Refusal: a coding the API does not know, a body that is not in it, or too much inside.
    """
    coding = encoding.strip().lower()
    if coding in ("", "identity"):
        return raw
    opener = _OPENERS.get(coding)
    if opener is None:
        raise Refusal(
            f"Unsupported request body encoding: {coding}",
            details={"error_code": "request_body_encoding_unsupported"},
        )
    try:
        plain = opener(raw)
    except Exception as error:  # each codec has its own error class
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


_OPENERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda raw: zlib.decompress(raw, wbits=31),
    "x-gzip": lambda raw: zlib.decompress(raw, wbits=31),
    "deflate": zlib.decompress,
    "br": brotli.decompress,
    "zstd": _zstd,
}


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
    scheme, _, token = headers.get("authorization", "").partition(" ")
    secret = headers.get("x-api-key", "") or (token if scheme.lower() == "bearer" else "")
    if not secret:
        if settings.require_auth:
            raise Refusal("x-api-key header is required", 401)
        return "org_anonymous"
    return "org_" + fingerprint(secret).removeprefix("sha256:")


def check_version(version: str) -> str:
    if not version:
        refuse("anthropic-version: header is required")
    if version not in VERSIONS:
        refuse(f"anthropic-version: {version!r} is not a valid version")
    return version
