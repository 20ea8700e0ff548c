"""`stet report`: what the turns of a proxy come to, out of its admin page or its log in JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from ..errors import SettingsError, StetError
from ..gateway.banner import base_url
from ..gateway.console import columns
from ..gateway.settings import resolve
from ..models import Models
from .own import turns_page
from .summary import Summary, text
from .tally import Facts, Line, Tally, known, lines_of


class _Upstream(Struct, frozen=True):
    profile: str = "unknown"


class _Event(Struct, frozen=True):
    """What a line of the log may say beside a turn: when it was written, and with what the server started."""

    event: str = ""
    time: str = ""
    policy: str = ""
    upstreams: dict[str, _Upstream] = {}


_event = msgspec.json.Decoder(_Event)


class Found(Struct, kw_only=True):
    """Turns added up. `first` and `last` are seconds since the epoch; `policies` in the order they were in force."""

    tally: Tally
    first: float = 0.0
    last: float = 0.0
    policies: list[str] = []

    def see(self, at: float) -> None:
        """Note when something was."""
        self.first = min(self.first or at, at)
        self.last = max(self.last, at)


def run_report(
    logs: Sequence[str], *, config: Path | None = None, models: Path | None = None, as_json: bool = False
) -> int:
    """Print what the turns come to; the exit code.

    `logs` are files in JSON, - for standard input; without one the running proxy is asked. Raises StetError where
    there is nothing to read.
    """
    table = Models.load(models)
    settings = resolve({}, None, config, table.profiles)
    profiles = {
        name: table.profile_for(upstream.url, upstream.profile)
        for name, upstream in settings.upstreams.items()
    }
    if logs:
        found, source = from_logs(logs, profiles, table), ", ".join(logs)
    elif settings.admin is None:
        raise SettingsError(
            "the proxy has no admin page", "report", "name a log that it wrote with --log json"
        )
    else:
        source = base_url(settings.admin)
        page = turns_page(settings.admin, settings.admin_token)
        if page is None:
            raise SettingsError(
                f"no proxy answers at {source}",
                "report",
                "start one, or name a log that it wrote with --log json",
            )
        found = from_page(page, known(profiles, table.facts))
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
        return 0
    summary = Summary(
        agent=source,
        seconds=found.last - found.first,
        policy=", ".join(found.policies) or "of the proxy",
        tally=found.tally,
        more=None,
        log="",
    )
    sys.stdout.write(text(summary, columns(sys.stdout)) + "\n")
    return 0


def from_page(page: bytes, facts: Facts) -> Found:
    """Out of the admin page `/turns`, which has the newest. Raises StetError where it is none."""
    try:
        lines = lines_of(page)
    except ValueError as fault:
        raise StetError(
            "its list of turns cannot be read", "report", "is it another version of stet?"
        ) from fault
    found = Found(tally=Tally())
    for line in lines:
        _add(found, line, line.started_at, facts)
    return found


def from_logs(logs: Sequence[str], profiles: Mapping[str, str], models: Models) -> Found:
    """Out of logs. What each says of its upstreams at the start counts more than `profiles`. Raises StetError."""
    found = Found(tally=Tally(), policies=[])
    read = 0
    for log in logs:
        named = dict(profiles)
        facts = known(named, models.facts)
        for raw in _lines(log):
            try:
                event = _event.decode(raw)
                line = msgspec.json.decode(raw, type=Line)
            except msgspec.DecodeError:
                continue
            read += 1
            if event.event == "started":
                named |= {name: upstream.profile for name, upstream in event.upstreams.items()}
                found.policies += [event.policy] if event.policy not in found.policies else []
            if event.event == "turn" and line.outcome:
                _add(found, line, _seconds(event.time), facts)
    if not read:
        raise StetError("holds no line of a log in JSON", ", ".join(logs), "start stet serve with --log json")
    return found


def _add(found: Found, line: Line, at: float, facts: Facts) -> None:
    found.tally.add(line, facts)
    if at:
        found.see(at)


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0


def _lines(log: str) -> Iterable[bytes]:
    if log == "-":
        yield from sys.stdin.buffer
        return
    try:
        with Path(log).open("rb") as lines:
            yield from lines
    except OSError as fault:
        raise StetError(f"cannot be read ({fault.strerror})", log, "give the path of a log") from fault
