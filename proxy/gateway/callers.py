"""Who asks: the account that pays, as a digest and never a key, what a body says of its user and model, and where the
client thinks we are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qs

import msgspec
from msgspec import Raw, Struct

from ..identity import digest
from .exchange import RawHeaders

_ROTATING = ("sk-ant-oat", "eyJ", "ya29.")
"""Beginnings of bearer tokens that are renewed in mid-session and so name nobody."""


_KEYS = frozenset({b"x-api-key", b"x-goog-api-key", b"api-key", b"authorization"})
"""Headers in which a key comes; `api-key` is Azure's."""


class UserId(Struct, frozen=True):
    """Account and session as an agent names them in its metadata."""

    account_uuid: str = ""
    session_id: str = ""


class _Metadata(Struct, frozen=True):
    user_id: str = ""


_string = msgspec.json.Decoder(str)
_metadata = msgspec.json.Decoder(_Metadata)
_user = msgspec.json.Decoder(UserId)


def user_of(envelope: Mapping[str, Raw]) -> UserId:
    """Account and session as an agent names them in its metadata; empty where it does not."""
    try:
        return (
            _user.decode(_metadata.decode(envelope["metadata"]).user_id)
            if "metadata" in envelope
            else UserId()
        )
    except msgspec.DecodeError:
        return UserId()


def project_of(envelope: Mapping[str, Raw]) -> str:
    """The project that a request says it is billed to [D301]; "" where it says none."""
    try:
        return _string.decode(envelope["project"]) if "project" in envelope else ""
    except msgspec.DecodeError:
        return ""


def tenant(headers: RawHeaders, account: str, upstream: str, query: str = "") -> bytes:
    """Who pays, as a digest: the account where one is named, else the key, else the upstream alone.

    Some keys stand in the query [D300]. Caches belong to an organization [B16]; a token that rotates would orphan a conversation in its middle.
    """
    if account:
        return digest(b"account", account.encode())
    for name, value in headers:
        lower = name.lower()
        secret = value.removeprefix(b"Bearer ").removeprefix(b"bearer ")
        if lower == b"chatgpt-account-id":
            return digest(b"account", value)
        if lower in _KEYS and not secret.decode("latin-1").startswith(_ROTATING):
            return digest(b"key", secret)
    keys = parse_qs(query).get("key", ()) if "key=" in query else ()
    for key in keys:
        return digest(b"key", key.encode())
    return digest(b"upstream", upstream.encode())


_HOST = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?")


def reached_at(headers: Mapping[str, str]) -> str:
    """The base URL that the client reaches us at, by its own words (names in lower case); "" where it says none.

    It is told to this client alone.
    """
    host = headers.get("host", "")
    if not _HOST.fullmatch(host):
        return ""
    return f"{'https' if headers.get('x-forwarded-proto', '').lower() == 'https' else 'http'}://{host}"
