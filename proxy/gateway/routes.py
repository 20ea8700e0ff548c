"""Where a request goes: from its path to an upstream, a dialect and an error shape.

An optional first segment names the upstream (`/local/v1/messages`). The end of the path tells the dialect, for
gateways put the same endpoints below paths of their own [D104 D301]. What no row of the table knows passes
through to the provider its path or its headers speak of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from ..yamlfile import suggestion
from .exchange import RawHeaders
from .headers import value_of
from .values import Upstream

Family: TypeAlias = Literal["anthropic", "openai", "gemini"]

FAMILY: Mapping[str, Family] = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "gemini",
}
"""The API family, and so the error shape, of each dialect."""

_DIALECTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r".*/v1/messages(?:/count_tokens)?"), "anthropic"),
    (re.compile(r".*/chat/completions"), "openai_chat"),
    (re.compile(r".*/responses"), "openai_responses"),
    (
        re.compile(
            r".*/(?:models|tunedModels|endpoints)/[^/]+:(?:generateContent|streamGenerateContent|countTokens)"
        ),
        "gemini",
    ),
    (re.compile(r".*/v1internal:(?:generateContent|streamGenerateContent|countTokens)"), "gemini"),
)
"""Paths whose POST carries a conversation."""

_FAMILY_PATHS: tuple[tuple[re.Pattern[str], Family], ...] = (
    (re.compile(r"/v1/(?:messages|skills|organizations|complete)(?:/.*)?|/api/.*"), "anthropic"),
    (re.compile(r"/(?:v1beta|v1alpha|upload|v1internal)[/:].*"), "gemini"),
    (
        re.compile(
            r"/v1/(?:responses|chat|conversations|completions|embeddings|audio|images|moderations|vector_stores"
            r"|realtime|assistants|threads|fine_tuning|uploads|batches|evals|containers)(?:/.*)?|/responses/.+"
        ),
        "openai",
    ),
)
"""Paths that belong to one provider. `/v1/models` and `/v1/files` do not: there the headers tell."""

_FAMILY_HEADERS: tuple[tuple[str, Family], ...] = (
    ("anthropic-version", "anthropic"),
    ("anthropic-beta", "anthropic"),
    ("x-api-key", "anthropic"),
    ("x-goog-api-key", "gemini"),
    ("x-goog-api-client", "gemini"),
    ("openai-beta", "openai"),
    ("openai-organization", "openai"),
    ("originator", "openai"),
)


_VERSION = re.compile(r"/v\d+(?:alpha|beta)?\d*")
_AT_ROOT = re.compile(rf"{_VERSION.pattern}(?:internal)?[/:].*|/chat/completions|/responses")
"""Endpoints as providers have them below their own URL."""


class Route(Struct, frozen=True):
    """Where one request goes. `path` is the raw path the upstream sees below its URL; `dialect` is None for a path
    without a conversation."""

    upstream: Upstream
    path: str
    query: str
    dialect: str | None
    family: Family

    @property
    def url(self) -> str:
        """The raw URL, byte for byte as the client wrote its target.

        A version that both the upstream's URL and the path have (`https://host/v1` and `/v1/messages`) stands once.
        """
        base = self.upstream.url
        version = _VERSION.match(self.path)
        if version is not None and self.path.startswith("/", version.end()):
            base = base.removesuffix(version[0])
        return f"{base}{self.path}?{self.query}" if self.query else f"{base}{self.path}"

    @property
    def counts_only(self) -> bool:
        """Whether the request only asks for the number of its tokens."""
        return self.path.endswith(("/count_tokens", ":countTokens"))


def _family(path: str, headers: RawHeaders) -> Family | None:
    for pattern, family in _FAMILY_PATHS:
        if pattern.fullmatch(path):
            return family
    for name, family in _FAMILY_HEADERS:
        if value_of(headers, name) is not None:
            return family
    return "openai" if path.startswith("/v1/") and value_of(headers, "authorization") else None


def route(
    method: str, target: str, headers: RawHeaders, upstreams: Mapping[str, Upstream], default: str
) -> Route:
    """Return the route of a request with the raw `target` (`/path?query`)."""
    path, _, query = target.partition("?")
    first, slash, rest = path[1:].partition("/")
    named = upstreams.get(first)
    if named is not None:
        path = slash + rest
    dialect = next((name for pattern, name in _DIALECTS if pattern.fullmatch(path)), None)
    family = FAMILY[dialect] if dialect else _family(path, headers)
    upstream = named or upstreams.get(family or default) or upstreams[default]
    return Route(
        upstream=upstream,
        path=path,
        query=query,
        dialect=dialect if method == "POST" else None,
        family=family or _own_family(upstream.name),
    )


def misnamed(target: str, upstreams: Mapping[str, Upstream]) -> str | None:
    """What is wrong with a path that begins with the name of no upstream, in front of a known endpoint; else None.

    It would reach the default provider, and with it a key that is meant for another.
    """
    path = target.partition("?")[0]
    first, slash, rest = path[1:].partition("/")
    if not first or first in upstreams or _VERSION.fullmatch(f"/{first}"):
        return None
    if not _AT_ROOT.fullmatch(slash + rest) or any(known.fullmatch(path) for known, _ in _FAMILY_PATHS):
        return None
    shown = first[:60].encode("ascii", "replace").decode()
    return f"no upstream is named '{shown}'{suggestion(first, upstreams)}"


def _own_family(name: str) -> Family:
    match name:
        case "openai" | "gemini":
            return name
        case _:
            return "anthropic"
