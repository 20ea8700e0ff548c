"""Header lists: order, spelling and duplicates stay; what belongs to one connection goes.

Clients and providers rely on headers nobody has listed yet [D1 D5 D100], so nothing is allowed or dropped by name
beside the hop-by-hop ones of RFC 9110 and what a `Connection` header names.
"""

from __future__ import annotations

from .exchange import RawHeaders

Pairs = list[tuple[str, str]]

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def text_of(raw: bytes) -> str:
    """Return header bytes as text; bytes that are not UTF-8 survive as surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def value_of(headers: RawHeaders, name: str) -> str | None:
    """Return the values of `name` (lower case), joined as HTTP joins a list; None where it is absent."""
    wanted = name.encode("ascii")
    found = [text_of(value).strip() for key, value in headers if key.lower() == wanted]
    return ", ".join(found) if found else None


def end_to_end(headers: RawHeaders) -> Pairs:
    """Return the headers that pass a proxy, in order and in their own spelling."""
    dropped = _HOP_BY_HOP
    if named := value_of(headers, "connection"):
        dropped |= {word.strip().lower() for word in named.split(",")}
    return [(text_of(key), text_of(value)) for key, value in headers if text_of(key).lower() not in dropped]


def for_upstream(headers: RawHeaders, host: str, length: int | None) -> Pairs:
    """Return the headers of the request that goes out.

    `Host` becomes the provider's at its place; `Expect` was answered here and is not passed on. `length` is the
    body's length in bytes: it replaces the client's `Content-Length`, or is added where the client sent its body in
    chunks. None leaves the framing alone (no body, or one that streams through).
    """
    pairs: Pairs = []
    has_host = has_length = False
    for name, value in end_to_end(headers):
        match name.lower():
            case "host":
                if not has_host:
                    pairs.append((name, host))
                has_host = True
            case "content-length":
                if not has_length:
                    pairs.append((name, value if length is None else str(length)))
                has_length = True
            case "expect":
                pass
            case _:
                pairs.append((name, value))
    if not has_host:
        pairs.insert(0, ("Host", host))
    if length is not None and not has_length:
        pairs.append(("Content-Length", str(length)))
    return pairs


def without(pairs: Pairs, name: str) -> Pairs:
    """Return the headers but for `name` (lower case)."""
    return [pair for pair in pairs if pair[0].lower() != name]
