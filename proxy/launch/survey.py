"""Where an agent's requests are to go on to: the vendor, or the provider that the user had named.

Looked into before the proxy starts, since what the user had set becomes an upstream of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..errors import SettingsError
from ..gateway.settings import Settings
from ..gateway.values import DEFAULT_UPSTREAMS, UnusableError, Upstream, upstreams
from .places import Path_, Places, parsed, value_at
from .recipe import Instead, Overlay, Point, Recipe

_TAIL = re.compile(r"(?:/v\d+(?:alpha|beta)?\d*)?/?$")
"""The end of a base URL that stays as the agent, or its user, writes it: a version, a slash."""

_OFF = frozenset({"", "0", "false", "no", "off"})

Ask = Callable[[Sequence[str]], str]
"""Runs the agent with arguments and returns all that it printed."""


class Target(Struct, frozen=True, kw_only=True):
    """Where the requests of one base URL go on to.

    `url` is what the upstream gets in this run, None where it stands as the settings have it. `tail` ends the URL that
    the agent gets, `named` says that the proxy's path must name the upstream. `origin`: where the user had set it.
    """

    upstream: str
    url: str | None = None
    tail: str = ""
    named: bool = False
    origin: str = ""
    arguments: tuple[str, ...] = ()
    at: str = ""

    def through(self, base: str) -> str:
        """The URL for the agent, at a proxy of this base URL."""
        return f"{base}{f'/{self.upstream}' if self.named else ''}{self.tail}"


class Configuration(Struct, frozen=True, kw_only=True):
    """An overlay to be handed over: a document, and the URLs to set in it."""

    overlay: Overlay
    document: Any
    entries: Mapping[Path_, Target]


class Survey(Struct, frozen=True, kw_only=True):
    """All that was found out.

    `used` names the upstreams that requests will go to, `upstreams` are those among them that the settings do not
    have so. `lines` are for the user; `unpointed`: why nothing will come through, where that is so.
    """

    recipe: Recipe
    points: Mapping[str, Target]
    configuration: Configuration | None
    used: tuple[str, ...]
    upstreams: Mapping[str, Upstream]
    lines: tuple[str, ...]
    unpointed: str = ""

    @property
    def needs_own(self) -> bool:
        """Whether the proxy needs upstreams that it does not have by its settings."""
        return bool(self.upstreams)


class Surveyor:
    """Looks into one agent's places. `given` are upstreams that the command line names: they beat what is found."""

    def __init__(self, settings: Settings, places: Places, given: frozenset[str], ask: Ask) -> None:
        self._settings = settings
        self._places = places
        self._given = given
        self._ask = ask
        self._lines: list[str] = []
        self._urls: dict[str, str] = {}
        self._told: set[str] = set()

    def survey(self, recipe: Recipe, command: Sequence[str]) -> Survey:
        """Where the requests of this agent go. Raises SettingsError where a URL of the user's cannot be used."""
        points = {name: self._point(point) for name, point in recipe.points.items()}
        unpointed, configuration = "", None
        if recipe.overlay is not None:
            configuration = self._configuration(recipe.overlay, points, command)
            if configuration is None and recipe.overlay.required is not None:
                unpointed = f"{recipe.name} has no configuration file to point; {recipe.overlay.required}"
        for variable, why in recipe.bypassed_by.items():
            if self._places.env.get(variable, "").lower() not in _OFF:
                unpointed = f"{variable} is set: {why}, not through stet"
        handed = configuration.entries.values() if configuration is not None else ()
        used = (*handed, *(target for name, target in points.items() if _in_use(recipe.points[name])))
        return Survey(
            recipe=recipe,
            points=points,
            configuration=configuration,
            used=tuple(dict.fromkeys(target.upstream for target in used)),
            upstreams={target.upstream: _upstream(target) for target in used if target.url is not None},
            lines=(*self._places.faults, *self._lines),
            unpointed=unpointed,
        )

    # -- points -----------------------------------------------------------------------------------------

    def _point(self, point: Point) -> Target:
        for found in point.found:
            for url, origin, at in self._found(found.variable, found.file, found.at):
                target = self._own(url, origin, point.upstream)
                if target is not None:
                    arguments = point.arguments if found.arguments is None else found.arguments
                    return _with(target, arguments, at)
                return _with(self._vendor(point.upstream, point.at), found.arguments or point.arguments, at)
        instead = point.instead
        if instead is not None and self._signed_in(instead):
            self._say(f"signed in {instead.says}: requests go on to {instead.at}")
            return _with(self._vendor(instead.upstream, instead.at), point.arguments)
        return _with(self._vendor(point.upstream, point.at), point.arguments)

    def _signed_in(self, instead: Instead) -> bool:
        if any(self._places.env.get(name) for name in instead.unless_set):
            return False
        return instead.says in self._ask(instead.asked)

    def _found(
        self, variable: str | None, file: str | None, at: Sequence[str]
    ) -> Iterator[tuple[str, str, str]]:
        """URLs as (URL, where it stands, the key as TOML writes it)."""
        if variable is not None:
            if value := self._places.env.get(variable):
                yield value, variable, ""
        elif file is not None:
            for path, there in self._places.values(self._places.document(file), at):
                if isinstance(there, str) and there:
                    yield there, f"{self._places.path(file)}: {'.'.join(map(str, path))}", _dotted(path)

    def _vendor(self, upstream: str, at: str) -> Target:
        known = upstream in self._settings.upstreams
        return Target(
            upstream=upstream,
            url=None if known else _bare(at),
            tail=_tail(at),
            named=upstream not in DEFAULT_UPSTREAMS,
        )

    def _own(self, url: str, origin: str, upstream: str) -> Target | None:
        """What the user had set, as a target; None where the proxy or the command line is meant."""
        if upstream in self._given:
            self._say(f"{origin} is left aside: --upstream names '{upstream}'")
            return None
        target = Target(upstream=upstream, url=url.strip(), tail=_tail(url), named=True, origin=origin)
        made = _upstream(target)
        if made.is_at(self._settings.listen):
            return None
        if (known := self._settings.upstreams.get(upstream)) is not None and known.url == _bare(made.url):
            return self._vendor(upstream, url)
        self._say(f"{origin} is the upstream '{upstream}' of this run: {made.url}")
        return target

    def _say(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._lines.append(line)

    # -- configurations -----------------------------------------------------------------------------------

    def _configuration(
        self, overlay: Overlay, points: Mapping[str, Target], command: Sequence[str]
    ) -> Configuration | None:
        documents = [(str(name), document) for name, document in self._documents(overlay, command)]
        if overlay.required is not None and not documents:
            return None
        entries: dict[Path_, Target] = {}
        for file, document in documents:
            for path, item in self._places.values(document, overlay.at[:-1]):
                member = (*path, overlay.at[-1])
                target = self._entry(overlay, points, file, document, member, item)
                if target is not None:
                    entries[member] = target
        if not overlay.keep:
            for name, point in overlay.points.items():
                path = tuple(name if step == "*" else step for step in overlay.at)
                entries.setdefault(path, points[point])
        return (
            Configuration(overlay=overlay, document=_kept(overlay, documents), entries=entries)
            if entries
            else None
        )

    def _documents(self, overlay: Overlay, command: Sequence[str]) -> Iterator[tuple[Path | str, Any]]:
        """The configurations that are there, a later one over an earlier."""
        files = list(overlay.files)
        if overlay.flag is not None and (given := flagged(command, overlay.flag)) is not None:
            files = [given]
        for file in files:
            if (document := self._places.document(file)) is not None:
                yield self._places.path(file) or file, document
        if overlay.variable is None or overlay.file is not None:
            return
        if inline := self._places.env.get(overlay.variable):
            yield overlay.variable, self._inline(overlay.variable, inline)

    def _inline(self, variable: str, text: str) -> Any:
        try:
            return parsed("inline.jsonc", text)
        except ValueError as fault:
            raise SettingsError("is no JSON", variable, "correct it or unset it") from fault

    def _entry(
        self,
        overlay: Overlay,
        points: Mapping[str, Target],
        file: str,
        document: Any,
        member: Path_,
        item: Any,
    ) -> Target | None:
        name = _named(overlay, member, item)
        url = value_at(document, member)
        point = overlay.points.get(name)
        if isinstance(url, str) and url and "{" not in url and "$" not in url:
            upstream = points[point].upstream if point is not None else _spelt(name)
            origin = f"{file}: {'.'.join(map(str, member))}"
            return self._own(url, origin, self._free(upstream, url)) or points.get(point or "")
        return points[point] if point is not None and isinstance(item, dict) else None

    def _free(self, name: str, url: str) -> str:
        """A name for an upstream at `url`: with a number where another URL has it."""
        tried, number = name, 1
        while self._urls.setdefault(tried, url.strip()) != url.strip():
            number += 1
            tried = f"{name}-{number}"
        return tried


def flagged(command: Sequence[str], flag: str) -> str | None:
    """The value that a command line gives to a flag, None where it does not."""
    for index, word in enumerate(command):
        if word == flag and index + 1 < len(command):
            return command[index + 1]
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return None


def _in_use(point: Point) -> bool:
    """Whether the point is handed over by itself, not by an overlay alone."""
    return bool(point.variables or point.arguments)


def _named(overlay: Overlay, member: Path_, item: Any) -> str:
    if overlay.named_by is not None and isinstance(item, dict):
        return str(item.get(overlay.named_by, ""))
    keys = [key for key, step in zip(member, overlay.at, strict=True) if step == "*" and isinstance(key, str)]
    return keys[-1] if keys else ""


def _kept(overlay: Overlay, documents: Sequence[tuple[str, Any]]) -> Any:
    """What stands under the entries: the newest of the user's configurations, or some of its members, or nothing."""
    inline = overlay.variable is not None and overlay.file is None
    if inline and documents and documents[-1][0] == overlay.variable:
        return documents[-1][1]
    whole = documents[-1][1] if documents and overlay.keep else {}
    if not isinstance(whole, dict) or "*" in overlay.keep:
        return whole
    return {name: whole[name] for name in overlay.keep if name in whole}


def _with(target: Target, arguments: Sequence[str], at: str = "") -> Target:
    return Target(
        upstream=target.upstream,
        url=target.url,
        tail=target.tail,
        named=target.named,
        origin=target.origin,
        arguments=tuple(arguments),
        at=at,
    )


def _tail(url: str) -> str:
    found = _TAIL.search(url.strip())
    return found[0] if found is not None else ""


def _bare(url: str) -> str:
    """A URL without its tail."""
    return _TAIL.sub("", url.strip())


def _upstream(target: Target) -> Upstream:
    """The upstream of a target with a URL. Raises SettingsError where the URL cannot be used."""
    try:
        return upstreams([f"{target.upstream}={target.url}"])[target.upstream]
    except UnusableError as fault:
        raise SettingsError(fault.message, target.origin or "upstream", fault.cure) from fault


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def _dotted(path: Path_) -> str:
    """A path as a TOML key."""
    return ".".join(str(key) if _BARE_KEY.fullmatch(str(key)) else f'"{key}"' for key in path)


def _spelt(name: str) -> str:
    """A provider's name as an upstream may have it."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")
    return plain if re.match(r"(?!stet$|v\d)[a-z]", plain) else f"own-{plain}".rstrip("-")
