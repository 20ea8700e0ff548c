"""The server's settings and where they come from: a flag, else a `STET_*` variable, else the file, else a default.

Every setting is one line of a table. A value that cannot be used is reported with the place it came from and what
to write instead; a variable with our prefix that is no setting is warned of, unless Kubernetes made it up, as it does
`STET_PORT=tcp://...` for a service named `stet`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ..errors import SettingsError
from ..yamlfile import Document, read
from . import values
from .values import DEFAULT_UPSTREAMS, Address, KeepWarm, UnusableError, Upstream, UpstreamEntry

Mode: TypeAlias = Literal["apply", "observe"]
LogFormat: TypeAlias = Literal["console", "json"]


class Settings(Struct, frozen=True, kw_only=True):
    """All that `stet serve` can be told.

    `max_body` is in bytes, plain or compressed; `drain` in seconds. `allowed_hosts` are names a `Host` header may
    carry beside loopback names and addresses; `*` allows any. `state` is a directory or `memory`. `policy` is a
    file or the name of a shipped one. `spool` is the directory for huge outputs, `spool_path` where agents see it, each
    "" for what follows from the other settings, or `off`; `spool_size` is in bytes, `spool_age` in seconds.
    `project` is the folder whose files, or those of projects below it, a policy may tell the model about, `off` for none.
    `record` is the directory into which requests are written, `off` for none; `record_size` is in bytes.
    `keep_warm`: whether caches are kept alive while a client pauses, and at what cost.
    """

    listen: Address = Address("127.0.0.1", 8787)
    admin: Address | None = Address("127.0.0.1", 8788)
    admin_token: str | None = None
    upstreams: Mapping[str, Upstream] = DEFAULT_UPSTREAMS
    default_upstream: str = "anthropic"
    policy: str = "default"
    state: str = ""
    mode: Mode = "apply"
    log: LogFormat = "console"
    allowed_hosts: tuple[str, ...] = ()
    max_body: int = 64 * 1024 * 1024
    drain: float = 60.0
    websocket: Literal["refuse", "tunnel"] = "refuse"
    spool: str = ""
    spool_path: str = ""
    spool_size: int = 512 * 1024 * 1024
    spool_age: float = 30 * 86400.0
    project: str = "off"
    record: str = "off"
    record_size: int = 1024 * 1024 * 1024
    keep_warm: KeepWarm | None = None

    @property
    def spool_directory(self) -> Path | None:
        """Where huge outputs are kept: beside the ledger, unless it is said otherwise; None for nowhere."""
        if self.spool == "off" or (not self.spool and self.state in ("", "memory")):
            return None
        return Path(self.spool or Path(self.state) / "spool").absolute()

    @property
    def spool_shown(self) -> str:
        """The path at which agents find them, "" where they do not.

        Who reaches us over loopback mostly shares the disk; a container beside us does not, and `off` says so.
        """
        if self.spool_path:
            return "" if self.spool_path == "off" else self.spool_path
        return str(self.spool_directory) if self.spool_directory is not None and self.listen.loopback else ""

    def __repr__(self) -> str:
        """Everything but the token."""
        shown = {name: getattr(self, name) for name in self.__struct_fields__ if name != "admin_token"}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class FileSettings(Struct, frozen=True):
    """The server file. Every key is optional; `stet schema server` prints this as JSON Schema."""

    listen: str | None = None
    admin: str | None = None
    admin_token: str | None = None
    upstreams: dict[str, str | UpstreamEntry] | None = None
    default_upstream: str | None = None
    policy: str | None = None
    state: str | None = None
    mode: Mode | None = None
    log: LogFormat | None = None
    allowed_hosts: list[str] | None = None
    max_body: int | str | None = None
    drain: int | float | str | None = None
    websocket: Literal["refuse", "tunnel"] | None = None
    spool: str | None = None
    spool_path: str | None = None
    spool_size: int | str | None = None
    spool_age: int | float | str | None = None
    project: str | None = None
    record: str | None = None
    record_size: int | str | None = None
    keep_warm: Literal["off", "on"] | KeepWarm | None = None


_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "listen": values.address,
    "admin": values.admin,
    "admin_token": values.text,
    "upstreams": values.upstreams,
    "default_upstream": values.text,
    "policy": values.text,
    "state": values.text,
    "mode": values.one_of("apply", "observe"),
    "log": values.one_of("console", "json"),
    "allowed_hosts": values.hosts,
    "max_body": values.size,
    "drain": values.duration,
    "websocket": values.one_of("refuse", "tunnel"),
    "spool": values.folder,
    "spool_path": values.folder,
    "spool_size": values.size,
    "spool_age": values.duration,
    "project": values.folder,
    "record": values.folder,
    "record_size": values.size,
    "keep_warm": values.keep_warm,
}
"""Every setting by name; its variable is `STET_NAME`, its key in the file the name itself."""

_FLAGS = {"upstreams": "upstream", "allowed_hosts": "allowed_host"}
"""Flags that may be given several times are named in the singular; all others are `--name`."""


def default_state(env: Mapping[str, str]) -> str:
    """Return the directory for what outlives the process: below XDG_STATE_HOME."""
    home = env.get("XDG_STATE_HOME") or str(Path(env.get("HOME") or "~").expanduser() / ".local" / "state")
    return str(Path(home) / "stet")


def resolve(
    flags: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    file: Path | None = None,
    profiles: Collection[str] | None = None,
) -> Settings:
    """Return the settings in force. Raises SettingsError or ConfigError, naming the place and the cure.

    `flags` maps setting names to values as given, None for those that were not. `file` comes from `--config`, else
    from `STET_CONFIG`. `profiles` are the upstream profiles there are; None lets any name pass.
    """
    env = os.environ if env is None else env
    path = file or (Path(env["STET_CONFIG"]) if env.get("STET_CONFIG") else None)
    document = read(path) if path else None
    from_file = document.convert(FileSettings) if document else FileSettings()
    found: dict[str, Any] = {"state": default_state(env)}
    parsers: dict[str, Callable[[Any], Any]] = {
        **_PARSERS,
        "upstreams": partial(values.upstreams, profiles=profiles),
    }
    for name, parse in parsers.items():
        given = (flags or {}).get(name)
        variable = f"STET_{name.upper()}"
        if given is not None and given != []:
            found[name] = _parsed(parse, given, f"--{_FLAGS.get(name, name).replace('_', '-')}")
        elif env.get(variable):
            found[name] = _parsed(parse, env[variable], variable)
        elif (written := getattr(from_file, name)) is not None and document:
            found[name] = _parsed(parse, _beside(path, name, written), (document, name))
    settings = Settings(**found)
    for upstream in settings.upstreams.values():
        if upstream.is_at(settings.listen):
            raise SettingsError(
                f"upstream '{upstream.name}' is this server itself",
                "upstreams",
                "write the provider's own URL",
            )
    if settings.admin is not None and not settings.admin.loopback and settings.admin_token is None:
        raise SettingsError(
            f"{settings.admin} can be reached from other machines and would show recent turns to all of them",
            "admin",
            "set STET_ADMIN_TOKEN, or listen on 127.0.0.1",
        )
    if settings.default_upstream not in settings.upstreams:
        known = ", ".join(settings.upstreams)
        raise SettingsError(
            f"no upstream is named '{settings.default_upstream}'", "default_upstream", f"write one of {known}"
        )
    return settings


_MADE_UP = re.compile(r"STET_SERVICE_(?:HOST|PORT)(?:_.*)?|STET_PORT(?:_\d+_.*)?")
"""Variables that Kubernetes sets in every pod beside a service named `stet`."""


def strangers(env: Mapping[str, str]) -> list[SettingsError]:
    """What to warn of: variables with our prefix that set nothing."""
    known = ["STET_CONFIG", *(f"STET_{name.upper()}" for name in _PARSERS)]
    return [
        SettingsError("is no setting and changes nothing", name, _near(name, known))
        for name, value in sorted(env.items())
        if name.startswith("STET_")
        and name not in known
        and not (_MADE_UP.fullmatch(name) and (name != "STET_PORT" or "://" in value))
    ]


def _near(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else "stet serve --help names what can be set"


def _parsed(parse: Callable[[Any], Any], value: Any, place: str | tuple[Document, str]) -> Any:
    try:
        return parse(value)
    except UnusableError as fault:
        if isinstance(place, str):
            raise SettingsError(fault.message, place, fault.cure) from fault
        document, name = place
        line = f"{fault.message}; {fault.cure}" if fault.cure else fault.message
        raise document.error((name, *fault.at), line) from fault


def _beside(file: Path | None, name: str, written: Any) -> Any:
    """A relative path in the file is relative to the file; a bare word is a name (`default`, `memory`)."""
    if (
        file is None
        or name not in {"policy", "state", "spool", "project", "record"}
        or not isinstance(written, str)
    ):
        return written
    is_path = "/" in written or written.endswith((".yaml", ".yml"))
    return str(file.parent / Path(written).expanduser()) if is_path else written
