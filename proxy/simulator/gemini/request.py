"""A Gemini request on its way in: its path, who asks, its JSON, the model; and what it is once all that is known."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs

import msgspec
import orjson

from ..arrival import decompress
from ..models import Model
from ..refusal import Refusal
from ..request import fingerprint
from ..settings import Settings
from .schema import COUNT, GENERATE, Json
from .settings import GeminiSettings, find

_TARGET = re.compile(r"(?:.*/(?:models|tunedModels)/(?P<model>[^/:]+)|.*/v1internal):(?P<method>[A-Za-z]+)")
_METHODS = ("generateContent", "streamGenerateContent", "countTokens")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What the path and the query ask for. `path` has no query: keys stand there [D300]."""

    path: str
    method: str = ""
    model: str = ""
    sse: bool = False
    key: str = ""

    @property
    def streams(self) -> bool:
        return self.method == "streamGenerateContent"

    @property
    def counts(self) -> bool:
        return self.method == "countTokens"

    @property
    def assist(self) -> bool:
        """Whether it is Code Assist, which wraps requests and answers [D301]."""
        return "/v1internal:" in self.path

    @property
    def listed(self) -> bool:
        """Whether answers come inside an array: a stream without `alt=sse` [C300]."""
        return self.streams and not self.sse


def target(raw: str) -> Target:
    """Take a request target apart; one that is no method of ours has an empty `method`."""
    path, _, query = raw.partition("?")
    given = parse_qs(query)
    found = _TARGET.fullmatch(path)
    if found is None or found["method"] not in _METHODS:
        return Target(path=path)
    return Target(
        path=path,
        method=found["method"],
        model=found["model"] or "",
        sse=given.get("alt") == ["sse"],
        key=next(iter(given.get("key", ())), ""),
    )


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose body has the shape of one, in camelCase."""

    target: Target
    body: Json
    model: Model
    name: str
    """The model's name as asked for."""
    project: str
    """Who pays: caches are kept apart by it [B306]."""
    settings: GeminiSettings

    @property
    def contents(self) -> list[Json]:
        return self.body.get("contents", [])  # type: ignore[no-any-return]

    @property
    def shows_thoughts(self) -> bool:
        config: Any = self.body.get("generationConfig", {}).get("thinkingConfig") or {}
        return bool(config.get("includeThoughts"))


def read(headers: list[tuple[str, str]], raw: bytes, at: Target, settings: GeminiSettings) -> Request:
    """Read a request: size, JSON, account, model, shape, in this order.

    Raises:
        Refusal: of the first that is wrong.
    """
    named = {name.lower(): value for name, value in headers}
    if len(raw) > settings.max_body_bytes:
        raise Refusal(
            f"Request payload size exceeds the limit: {settings.max_body_bytes} bytes. Please refer to "
            "https://ai.google.dev/gemini-api/docs/files for uploading large files."
        )
    limit = Settings(max_body_bytes=settings.max_body_bytes)
    body = _parsed(decompress(raw, named.get("content-encoding", ""), limit))
    project = _account(named, at, settings)
    inner, name = _inner(body, at)
    model = find(name)
    if settings.known_models_only and not model.known:
        raise Refusal(
            f"models/{name} is not found for API version v1beta, or is not supported for {at.method}. Call "
            "ListModels to see the list of available models and their supported methods.",
            404,
        )
    return Request(target=at, body=inner, model=model, name=name, project=project, settings=settings)


def _parsed(raw: bytes) -> Json:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Refusal(f"Invalid JSON payload received. {error}") from error
    if not isinstance(body, dict):
        raise Refusal('Invalid JSON payload received. Unknown name "": Root element must be a message.')
    return body


def _account(headers: dict[str, str], at: Target, settings: GeminiSettings) -> str:
    token = headers.get("authorization", "").partition(" ")[2]
    secret = headers.get("x-goog-api-key", "") or at.key or token
    if not secret and settings.require_auth:
        raise Refusal(
            "Method doesn't allow unregistered callers (callers without established identity). Please use API Key "
            "or other form of API consumer identity to call this API.",
            403,
        )
    return fingerprint(secret) if secret else "anonymous"


def _inner(body: Json, at: Target) -> tuple[Json, str]:
    """The request itself, out of its envelope [D301], and the model's name."""
    name = at.model
    if at.assist:
        name = str(body.get("model") or "")
        inner = body.get("request")
        if not isinstance(inner, dict):
            raise Refusal("Request contains an invalid argument.")
        body = inner
    shaped = (COUNT if at.counts else GENERATE)(body, "")
    shaped = shaped.get("generateContentRequest", shaped)
    return shaped, (name or str(shaped.get("model") or "")).rpartition("/")[2]
