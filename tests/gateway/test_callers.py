"""Who pays, as far as a request says it."""

import pytest

from proxy.gateway.callers import tenant

NOBODY = tenant((), "", "openai")


@pytest.mark.parametrize("name", [b"x-api-key", b"X-Goog-Api-Key", b"api-key", b"Authorization"])
def test_a_key_names_who_pays(name: bytes) -> None:
    """Two keys are two tenants, and no key stands in the digest."""
    one, other = (tenant(((name, key),), "", "openai") for key in (b"secret-one", b"secret-other"))
    assert len({one, other, NOBODY}) == 3
    assert b"secret" not in one


def test_a_key_is_the_same_in_either_header() -> None:
    """SDKs send it bare, or as a bearer token too."""
    bare, bearer = ((b"x-api-key", b"k"),), ((b"authorization", b"Bearer k"),)
    assert tenant(bare, "", "anthropic") == tenant(bearer, "", "anthropic")


@pytest.mark.parametrize("token", [b"sk-ant-oat-1", b"eyJ.x", b"ya29.x"])
def test_a_token_that_is_renewed_names_nobody(token: bytes) -> None:
    """The next one would orphan the conversation; an account that is named counts."""
    headers = ((b"authorization", b"Bearer " + token),)
    assert tenant(headers, "", "openai") == NOBODY
    assert tenant(((b"chatgpt-account-id", b"acc"), *headers), "", "openai") != NOBODY


def test_a_key_in_the_query_names_who_pays() -> None:
    """As Gemini's clients send it."""
    assert tenant((), "", "gemini", "key=a&alt=sse") != tenant((), "", "gemini", "alt=sse&key=b")
