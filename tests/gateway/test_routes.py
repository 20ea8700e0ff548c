"""From a path, and where it is silent from the headers, to an upstream and a dialect."""

import pytest

from proxy.gateway.routes import route
from proxy.gateway.values import DEFAULT_UPSTREAMS, Upstream

UPSTREAMS = {
    **DEFAULT_UPSTREAMS,
    "local": Upstream("local", "http://127.0.0.1:8000"),
    "router": Upstream("router", "https://router.example/api"),
}
NONE: tuple = ()
ANTHROPIC = ((b"X-API-Key", b"k"),)
BEARER = ((b"Authorization", b"Bearer k"),)
GOOGLE = ((b"x-goog-api-key", b"k"),)

A, O, G = "https://api.anthropic.com", "https://api.openai.com", "https://generativelanguage.googleapis.com"

TABLE = [
    ("POST", "/v1/messages?beta=true", NONE, f"{A}/v1/messages?beta=true", "anthropic", "anthropic"),
    ("POST", "/v1/messages/count_tokens", BEARER, f"{A}/v1/messages/count_tokens", "anthropic", "anthropic"),
    ("POST", "/v1/messages/batches", BEARER, f"{A}/v1/messages/batches", None, "anthropic"),
    ("GET", "/v1/messages", NONE, f"{A}/v1/messages", None, "anthropic"),
    ("POST", "/v1/chat/completions", NONE, f"{O}/v1/chat/completions", "openai_chat", "openai"),
    ("POST", "/chat/completions", NONE, f"{O}/chat/completions", "openai_chat", "openai"),
    ("POST", "/v1/responses", NONE, f"{O}/v1/responses", "openai_responses", "openai"),
    ("POST", "/v1/responses/compact", NONE, f"{O}/v1/responses/compact", None, "openai"),
    ("GET", "/v1/responses/resp_1", ANTHROPIC, f"{O}/v1/responses/resp_1", None, "openai"),
    ("GET", "/v1/models?limit=1000", ANTHROPIC, f"{A}/v1/models?limit=1000", None, "anthropic"),
    ("GET", "/v1/models", BEARER, f"{O}/v1/models", None, "openai"),
    ("GET", "/v1/models", (*BEARER, (b"Anthropic-Version", b"x")), f"{A}/v1/models", None, "anthropic"),
    ("GET", "/v1/models", NONE, f"{A}/v1/models", None, "anthropic"),
    (
        "POST",
        "/v1beta/models/gemini-3:streamGenerateContent?alt=sse",
        NONE,
        f"{G}/v1beta/models/gemini-3:streamGenerateContent?alt=sse",
        "gemini",
        "gemini",
    ),
    ("POST", "/v1internal:generateContent", BEARER, f"{G}/v1internal:generateContent", "gemini", "gemini"),
    ("POST", "/v1beta/models/e:embedContent", GOOGLE, f"{G}/v1beta/models/e:embedContent", None, "gemini"),
    ("GET", "/v1beta/models", NONE, f"{G}/v1beta/models", None, "gemini"),
    ("POST", "/local/v1/messages", NONE, "http://127.0.0.1:8000/v1/messages", "anthropic", "anthropic"),
    (
        "POST",
        "/router/v1/chat/completions?x=%2f",
        NONE,
        "https://router.example/api/v1/chat/completions?x=%2f",
        "openai_chat",
        "openai",
    ),
    ("GET", "/local", NONE, "http://127.0.0.1:8000", None, "anthropic"),
    ("GET", "/local//evil.example/x", NONE, "http://127.0.0.1:8000//evil.example/x", None, "anthropic"),
    ("GET", "/local@evil.example/x", NONE, f"{A}/local@evil.example/x", None, "anthropic"),
    ("GET", "/openai/v1/models", ANTHROPIC, f"{O}/v1/models", None, "anthropic"),
    ("POST", "/api/event_logging/batch", NONE, f"{A}/api/event_logging/batch", None, "anthropic"),
    ("GET", "/", NONE, f"{A}/", None, "anthropic"),
]


@pytest.mark.parametrize(("method", "target", "headers", "url", "dialect", "family"), TABLE)
def test_routes(method, target, headers, url, dialect, family):
    """Each line: where a request goes, whether it carries a conversation, whose errors its client reads."""
    got = route(method, target, headers, UPSTREAMS, "anthropic")
    assert (got.url, got.dialect, got.family) == (url, dialect, family)


def test_the_default_takes_what_names_nobody():
    """A path and headers that speak of no provider go where the settings say."""
    assert route("GET", "/x", NONE, UPSTREAMS, "local").url == "http://127.0.0.1:8000/x"
