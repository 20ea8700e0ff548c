"""Setting values: from the text of a flag, a variable or a file to what the server uses.

Each reader takes what was given and returns the value, or raises UnusableError with the cure; where the value came
from is the caller's knowledge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from ..models import unknown_profile

_MIB = 1024 * 1024
_LOOPBACK_NAMES = frozenset({"localhost", "ip6-localhost", "ip6-loopback"})


class UnusableError(ValueError):
    """A value that cannot be used: what is wrong, what to write instead, and the keys below the setting that lead there."""

    def __init__(self, message: str, cure: str, *at: str) -> None:
        super().__init__(message, cure)
        self.message, self.cure, self.at = message, cure, at


def is_loopback(host: str) -> bool:
    """Whether `host` (a name or an address, without a port) is this machine's loopback."""
    name = host.strip("[]").lower().rstrip(".")
    if name in _LOOPBACK_NAMES or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


class Address(Struct, frozen=True):
    """Where to listen. Port 0 takes a free one."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Upstream(Struct, frozen=True):
    """A provider by name. `url` has no trailing slash; `profile` names its facts in models.yaml."""

    name: str
    url: str
    profile: str | None = None

    @property
    def host(self) -> str:
        """The value of the `Host` header towards it."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def origin(self) -> str:
        """Scheme and host: what may be shown."""
        return f"{urlsplit(self.url).scheme}://{self.host}"

    def is_at(self, listen: Address) -> bool:
        """Whether it leads to the loopback port that is listened on: a request would go round for ever."""
        parts = urlsplit(self.url)
        return parts.port == listen.port != 0 and is_loopback(parts.hostname or "")


DEFAULT_UPSTREAMS: Mapping[str, Upstream] = MappingProxyType(
    {
        "anthropic": Upstream("anthropic", "https://api.anthropic.com"),
        "openai": Upstream("openai", "https://api.openai.com"),
        "gemini": Upstream("gemini", "https://generativelanguage.googleapis.com"),
    }
)


class UpstreamEntry(Struct, frozen=True):
    """An upstream in the file that says more than its URL."""

    url: str
    profile: str | None = None


class KeepWarm(Struct, frozen=True, forbid_unknown_fields=True):
    """How caches are kept warm: at most so many `refreshes` of a pause (None: as many as can pay), and at most so many
    `dollars` in a day, all conversations together."""

    refreshes: Annotated[int, Meta(ge=1)] | None = None
    dollars: Annotated[float, Meta(ge=0)] = 1.0


def keep_warm(value: Any) -> KeepWarm | None:
    """`off`, `on`, or how."""
    if isinstance(value, KeepWarm):
        return value
    match str(value).strip().lower():
        case "off":
            return None
        case "on":
            return KeepWarm()
        case _:
            raise UnusableError(f"'{value}' is not one of them", "write off or on; the file says more")


def address(value: Any) -> Address:
    text = str(value).strip()
    host, separator, port = text.rpartition(":")
    bare = host.strip("[]")
    if (
        not separator
        or not port.isdecimal()
        or int(port) > 65535
        or (":" in bare and not host.startswith("["))
    ):
        raise UnusableError(f"'{text}' is no address to listen on", "write HOST:PORT, as in 127.0.0.1:8787")
    return Address(bare or "0.0.0.0", int(port))  # noqa: S104  ":8787" says all interfaces


def admin(value: Any) -> Address | None:
    return None if str(value).strip().lower() == "off" else address(value)


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(i?)b?", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)")
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def size(value: Any) -> int:
    found = _SIZE.fullmatch(str(value).strip())
    if found is None:
        raise UnusableError(f"'{value}' is no size", "write bytes or a unit, as in 64MiB")
    number, letter, binary = found.groups()
    size = int(float(number) * (1024 if binary else 1000) ** " kmg".index(letter.lower() or " "))
    if size < _MIB:
        raise UnusableError(f"{size} bytes is too small for any agent", "write at least 1MiB")
    return size


def duration(value: Any) -> float:
    found = _DURATION.fullmatch(str(value).strip())
    if found is None:
        raise UnusableError(f"'{value}' is no duration", "write seconds or a unit, as in 60s")
    return float(found[1]) * _SECONDS[found[2]]


_UPSTREAM_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_TAKEN_NAME = re.compile(r"stet|v\d+(?:alpha|beta)?\d*")


def _upstream(name: str, url: str, profile: str | None, profiles: Collection[str] | None) -> Upstream:
    if not _UPSTREAM_NAME.fullmatch(name) or _TAKEN_NAME.fullmatch(name):
        raise UnusableError(
            f"'{name}' cannot name an upstream", "use lower-case letters and digits, not 'stet' or 'v1'", name
        )
    try:
        parts = urlsplit(url.strip())
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is none
        parts, sound = urlsplit(""), False
    if not sound or parts.query or "," in parts.netloc:
        raise UnusableError(
            f"upstream '{name}' has no usable URL",
            "write http:// or https://, a host, maybe a path",
            name,
            "url",
        )
    if parts.username or parts.password:
        raise UnusableError(
            f"upstream '{name}' has a password in its URL", "let the agent send its own key", name, "url"
        )
    named = profile if profile is not None else parts.fragment or None
    if named is not None and profiles is not None and named not in profiles:
        raise UnusableError(f"upstream '{name}': {unknown_profile(named, profiles)}", "", name, "profile")
    return Upstream(name, parts._replace(fragment="").geturl().rstrip("/"), named)


_BETWEEN = re.compile(r",(?!\s*profile\s*=)")
_PROFILE = re.compile(r",\s*profile\s*=\s*")


def upstreams(value: Any, profiles: Collection[str] | None = None) -> Mapping[str, Upstream]:
    """Read NAME=URL pairs (a list, or one text with commas) or the file's mapping, laid over the defaults.

    `local=http://127.0.0.1:8000,profile=vllm` names the profile, and so does the URL's fragment:
    `local=http://127.0.0.1:8000#vllm`. `profiles` are those there are; None checks no name.
    """
    named = dict(DEFAULT_UPSTREAMS)
    if isinstance(value, Mapping):
        for name, entry in value.items():
            wide = entry if isinstance(entry, UpstreamEntry) else UpstreamEntry(str(entry))
            named[name] = _upstream(name, wide.url, wide.profile, profiles)
        return named
    for name, url, profile in _pairs(_BETWEEN.split(value) if isinstance(value, str) else value):
        named[name] = _upstream(name, url, profile, profiles)
    return named


def _pairs(texts: Iterable[Any]) -> Iterable[tuple[str, str, str | None]]:
    for text in filter(None, (str(text).strip() for text in texts)):
        name, separator, rest = text.partition("=")
        if not separator:
            raise UnusableError(
                f"'{text}' is no upstream", "write NAME=URL, as in local=http://127.0.0.1:8000"
            )
        url, *profile = _PROFILE.split(rest, maxsplit=1)
        yield name.strip(), url, profile[0].strip() if profile else None


def hosts(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    return tuple(name.strip().lower() for name in names if name.strip())


def one_of(*words: str) -> Callable[[Any], str]:
    def choose(value: Any) -> str:
        word = str(value).strip().lower()
        if word not in words:
            raise UnusableError(f"'{value}' is not one of them", f"write {' or '.join(words)}")
        return word

    return choose


def folder(value: Any) -> str:
    """A directory, or `off`."""
    written = text(value)
    return "off" if written.lower() == "off" else str(Path(written).expanduser())


def text(value: Any) -> str:
    text = str(value).strip()
    if not text:
        raise UnusableError("is empty", "leave it out or give it a value")
    return text
