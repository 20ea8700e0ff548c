"""From a path, and where it is silent from the headers, to an upstream and a dialect."""

import pytest

from proxy.gateway.routes import misnamed, route
from proxy.gateway.values import DEFAULT_UPSTREAMS, Upstream

UPSTREAMS = {
    **DEFAULT_UPSTREAMS,
    "local": Upstream("local", "http://127.0.0.1:8000"),
    "router": Upstream("router", "https://router.example/api"),
    "chatgpt": Upstream("chatgpt", "https://chatgpt.com/backend-api/codex"),
}
NONE: tuple = ()
ANTHROPIC = ((b"X-API-Key", b"k"),)
BEARER = ((b"Authorization", b"Bearer k"),)
GOOGLE = ((b"x-goog-api-key", b"k"),)

A, O, G = "https://api.anthropic.com", "https://api.openai.com", "https://generativelanguage.googleapis.com"
C = "https://chatgpt.com/backend-api/codex"

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
        "/local/v1/messages/count_tokens",
        NONE,
        "http://127.0.0.1:8000/v1/messages/count_tokens",
        "anthropic",
        "anthropic",
    ),
    (
        "POST",
        "/local/v1/chat/completions",
        BEARER,
        "http://127.0.0.1:8000/v1/chat/completions",
        "openai_chat",
        "openai",
    ),
    (
        "POST",
        "/local/v1/responses",
        BEARER,
        "http://127.0.0.1:8000/v1/responses",
        "openai_responses",
        "openai",
    ),
    ("GET", "/local/v1/models", NONE, "http://127.0.0.1:8000/v1/models", None, "anthropic"),
    ("POST", "/chatgpt/responses", BEARER, f"{C}/responses", "openai_responses", "openai"),
    ("POST", "/chatgpt/responses/compact", BEARER, f"{C}/responses/compact", None, "openai"),
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


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://x.example/v1", "/v1/messages", "https://x.example/v1/messages"),
        (
            "https://x.example/api/v1",
            "/v1/chat/completions?a=1",
            "https://x.example/api/v1/chat/completions?a=1",
        ),
        ("https://x.example/v1", "/chat/completions", "https://x.example/v1/chat/completions"),
        ("https://x.example/v1", "/v1beta/models", "https://x.example/v1/v1beta/models"),
        ("https://x.example/v1", "/v1", "https://x.example/v1/v1"),
        (
            "https://x.example/v1beta",
            "/v1beta/models/g:generateContent",
            "https://x.example/v1beta/models/g:generateContent",
        ),
        ("https://v1.example", "/v1/messages", "https://v1.example/v1/messages"),
    ],
)
def test_a_version_stands_once(base, path, url):
    """An upstream may be given with the version that clients put in front of the endpoint as well, or without."""
    upstreams = {**UPSTREAMS, "own": Upstream("own", base)}
    assert route("POST", f"/own{path}", NONE, upstreams, "anthropic").url == url


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("/locl/v1/messages", "no upstream is named 'locl', did you mean 'local'?"),
        ("/locl/v1/messages?beta=true", "no upstream is named 'locl'"),
        ("/LOCAL/v1/models", "no upstream is named 'LOCAL'"),
        ("/openia/chat/completions", "did you mean 'openai'?"),
        (
            "/nothing/v1beta/models/g:generateContent",
            "'nothing', known: anthropic, openai, gemini, local, router, chatgpt",
        ),
        ("/locl/v1internal:generateContent", "'locl'"),
    ],
)
def test_a_misspelt_upstream_is_told(target, says):
    """A key meant for one provider does not go to another because of a letter."""
    assert says in misnamed(target, UPSTREAMS)


@pytest.mark.parametrize(
    "target", [line[1] for line in TABLE] + ["//v1//messages", "/upload/v1beta/files", "/x/y"]
)
def test_what_names_nobody_is_no_mistake(target):
    """Paths that providers have themselves, and paths that are no known endpoint behind their first segment."""
    assert misnamed(target, UPSTREAMS) is None
