"""Who may speak to us, and in what form: the requests that are answered here and never forwarded."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from .exchange import RawHeaders
from .headers import value_of
from .settings import Settings
from .values import is_loopback


class Rejection(Struct, frozen=True):
    """An answer of ours. `close` ends the connection after it."""

    status: int
    message: str
    error_type: str
    close: bool = False


def rejection(method: str, target: str, headers: RawHeaders, settings: Settings) -> Rejection | None:
    """Return why a request is not forwarded, or None."""
    if method == "CONNECT" or not target.startswith("/"):
        return Rejection(
            400,
            "this is no forward proxy: send the path alone, as to the provider itself",
            "form",
            close=True,
        )
    host = value_of(headers, "host")
    if host is not None and not host_allowed(host, settings.allowed_hosts):
        name = _shown(_bare(host))
        cure = f"add it with --allowed-host {name}" if name else "name one"
        return Rejection(403, f"host '{name}' is not served here; {cure} (allowed_hosts in the file)", "host")
    origin = value_of(headers, "origin")
    if origin is not None and not origin_allowed(origin, settings.allowed_hosts):
        return Rejection(403, f"requests from web pages of '{_shown(origin)}' are not served", "origin")
    if settings.websocket == "refuse" and asks_websocket(headers):
        # Only a plain GET ends where it seems to: behind an upgrade with a body nobody can say what is whose.
        plain = method == "GET" and not any(value_of(headers, name) for name in _FRAMING)
        return Rejection(426, "websockets are not served here; use plain HTTP", "websocket", close=not plain)
    return None


_FRAMING = ("content-length", "transfer-encoding")


def asks_websocket(headers: RawHeaders) -> bool:
    """Whether a request asks to go on as a websocket, however it spells that and whatever else it would take."""
    asked = (value_of(headers, "upgrade") or "").lower().split(",")
    return any(word.partition("/")[0].strip() == "websocket" for word in asked)


def host_allowed(host: str, allowed: tuple[str, ...]) -> bool:
    """Whether a `Host` header is one of ours.

    Loopback names and plain addresses always are: a page that rebinds its name to our address (DNS rebinding)
    arrives with its name, on loopback too. Other names must be listed. Only what is no browser leaves the header out.
    """
    name = _bare(host)
    return "*" in allowed or is_loopback(name) or _is_address(name) or name in allowed


def origin_allowed(origin: str, allowed: tuple[str, ...]) -> bool:
    """Whether a browser's `Origin` may speak to us: none of the web's pages but those of this machine or listed."""
    try:
        parts = urlsplit(origin.strip())
    except ValueError:
        return False  # no browser writes such a one
    if parts.scheme not in {"http", "https"}:
        return True  # `null`, editors' web views, extensions
    name = _bare(parts.netloc)
    return "*" in allowed or is_loopback(name) or name in allowed


def _bare(host: str) -> str:
    """A host without its port."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.rpartition(":")[0] if name.count(":") == 1 else name


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _shown(text: str) -> str:
    return text[:100].encode("ascii", "replace").decode()
