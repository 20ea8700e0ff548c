"""Recorded sessions: one JSON object a line, one line a request, in the order they ended; plain or gzip.

What a request was and how it went, so that it can be played again elsewhere: never a key. Which headers and which
members of the query are written is decided by lists of names, so that one nobody has thought of stays out.
"""

from __future__ import annotations

import gzip
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from .errors import StetError
from .usage import Usage

HEADERS = frozenset(
    {
        *("user-agent", "x-app", "originator", "content-type"),
        *("anthropic-version", "anthropic-beta", "openai-beta"),
    }
)
"""Headers that are written for every agent: they say what the body means."""

SECRETS = frozenset(
    {
        *("authorization", "proxy-authorization", "cookie", "set-cookie"),
        *("x-api-key", "api-key", "x-goog-api-key", "x-auth-token", "ocp-apim-subscription-key"),
    }
)
"""Headers that are never written, whoever asks for them."""

QUERY = frozenset({"beta", "alt", "api-version"})
"""Members of the query that are written. Some providers take a key there."""

SUFFIX = ".jsonl"


class Recorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request.

    path       as the provider sees it, with its query but for keys
    headers    names in lower case
    body       the client's own, plain; `base64` in its place where it is no text
    at         when it arrived, seconds since the epoch; None where that was not written
    dialect    its wire format; `upstream` where it went, by name, `profile` what is known of that upstream
    status     of the answer; None where none came, or where that was not written
    changed    it is the answer to another body than this, made by the rewrite
    usage      tokens, as the provider reported them
    calls      ids of the tool calls in the answer
    """

    path: str
    headers: dict[str, str]
    body: str = ""
    base64: str = ""
    at: float | None = None
    dialect: str = ""
    upstream: str = ""
    profile: str = ""
    status: int | None = None
    changed: bool = False
    usage: Usage | None = None
    calls: tuple[str, ...] = ()

    @property
    def wire(self) -> bytes:
        """The body. Raises ValueError where `base64` is none."""
        return b64decode(self.base64, validate=True) if self.base64 else self.body.encode()


def spelt(body: bytes) -> dict[str, str]:
    """The members that hold a body."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(body).decode()}


def kept_headers(headers: Iterable[tuple[str, str]], allowed: frozenset[str]) -> dict[str, str]:
    """The headers that are written, names in lower case: those of HEADERS and `allowed`, but no secret one."""
    named = {name.lower(): value for name, value in headers}
    wanted = (HEADERS | allowed) - SECRETS
    return {name: value for name, value in named.items() if name in wanted}


def kept_path(path: str, query: str) -> str:
    """A path with what is written of its query."""
    kept = [pair for pair in query.split("&") if pair.partition("=")[0] in QUERY]
    return f"{path}?{'&'.join(kept)}" if kept else path


def line(recorded: Recorded) -> bytes:
    """A request as one line."""
    return msgspec.json.encode(recorded) + b"\n"


class RecordingError(StetError):
    """A recording cannot be read: `session.jsonl:12: what is wrong; what to do`."""


def read(path: Path) -> list[Recorded]:
    """The requests of a recording. Raises RecordingError, naming file and line."""
    return list(each(path))


def each(path: Path) -> Iterator[Recorded]:
    """The same one by one: a long session is large, for each request holds all before it."""
    return (_read(path, number, raw) for number, raw in _lines(path) if raw.strip())


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as lines:
            yield from enumerate(lines, 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise RecordingError("is cut short or damaged", str(path), "copy it again, or unpack it") from fault
    except OSError as fault:
        why = fault.strerror or str(fault)
        raise RecordingError(f"cannot be read ({why})", str(path), "give the path of a recording") from fault


def _read(path: Path, number: int, raw: bytes) -> Recorded:
    place = f"{path}:{number}"
    try:
        found = msgspec.json.decode(raw, type=Recorded)
        found.wire  # noqa: B018  a body that cannot be had is found here, with its line
    except msgspec.ValidationError as fault:
        raise RecordingError(
            f"is no recorded request: {fault}", place, "stet serve --record writes such files"
        ) from fault
    except msgspec.DecodeError as fault:
        cure = "" if raw.endswith(b"\n") else "; the end of the line is missing"
        raise RecordingError(f"is no JSON ({fault})", place, f"delete this line{cure}") from fault
    except ValueError as fault:
        raise RecordingError("its body is no base64", place, "delete this line") from fault
    if not (found.body or found.base64):
        raise RecordingError("has no body", place, "delete this line")
    return found
