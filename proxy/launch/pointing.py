"""What the child gets so that its requests come to the proxy: arguments, environment, temporary files.

Nothing of the user's is edited. Temporary files lie in a directory of the run that only its owner can read.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from msgspec import Struct

from ..gateway.values import Upstream
from .places import Places, value_at
from .recipe import Secrets, Setting
from .survey import Configuration, Survey, flagged

_PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_DIRECT = "127.0.0.1,localhost"


class Pointed(Struct, frozen=True):
    """A command line and the variables that are laid over the environment."""

    command: tuple[str, ...]
    variables: Mapping[str, str]


def pointed(
    survey: Survey,
    command: Sequence[str],
    base: str,
    known: Mapping[str, Upstream],
    places: Places,
    folder: Path,
) -> Pointed:
    """The child's command and variables for a proxy at `base` with the upstreams `known`; files go into `folder`."""
    arguments: list[str] = []
    variables: dict[str, str] = {}
    for name, target in survey.points.items():
        url, point = target.through(base), survey.recipe.points[name]
        arguments += [_filled(word, url=url, at=target.at) for word in target.arguments]
        variables |= {variable: _filled(text, url=url) for variable, text in point.variables.items()}
    for setting in survey.recipe.settings:
        if _wanted(setting, survey, known, places):
            variables[setting.variable] = (
                setting.value
                if setting.text is None
                else _written(folder, f"{setting.variable}.json", setting.text)
            )
    program, *rest = command
    if survey.configuration is not None:
        handed = _handed(survey.configuration, base, folder)
        arguments += handed.command
        variables |= handed.variables
        if survey.configuration.overlay.flag is not None:
            rest = _without(rest, survey.configuration.overlay.flag)
    return Pointed((program, *arguments, *rest), variables | _direct(places.env))


def _direct(env: Mapping[str, str]) -> dict[str, str]:
    """An agent behind a forward proxy must not ask that one for this machine."""
    if not any(env.get(name) for name in _PROXIES):
        return {}
    names = [name for name in ("NO_PROXY", "no_proxy") if name in env] or ["NO_PROXY", "no_proxy"]
    return {
        name: ",".join(filter(None, (env.get(name), _DIRECT)))
        for name in names
        if "127.0.0.1" not in env.get(name, "")
    }


def _wanted(setting: Setting, survey: Survey, known: Mapping[str, Upstream], places: Places) -> bool:
    env = places.env
    if setting.variable in env or any(env.get(name) for name in setting.unless_set):
        return False
    if not all(env.get(name) for name in setting.if_set):
        return False
    if any((path := places.path(file)) is not None and path.exists() for file in setting.unless_file):
        return False
    if setting.host is None or setting.point is None:
        return True
    upstream = known.get(survey.points[setting.point].upstream)
    return upstream is not None and urlsplit(upstream.url).hostname == setting.host


def _handed(configuration: Configuration, base: str, folder: Path) -> Pointed:
    overlay = configuration.overlay
    document = copy.deepcopy(configuration.document)
    hidden = _hide(overlay.secrets, document, overlay.at) if overlay.secrets is not None else {}
    entries = {path: target.through(base) for path, target in configuration.entries.items()}
    for path, url in entries.items():
        _set(document, path, url)
    if overlay.file is None:
        assert overlay.variable is not None
        return Pointed((), {overlay.variable: json.dumps(document)})
    if overlay.text is not None:
        named = {str(path[overlay.at.index("*")]): url for path, url in entries.items()}
        text = _filled(overlay.text, entries=json.dumps(named))
    elif overlay.file.endswith((".yaml", ".yml")):
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    else:
        text = json.dumps(document, indent=2)
    file = _written(folder, overlay.file, text)
    variables = {overlay.variable: file} if overlay.variable is not None else {}
    return Pointed(tuple(_filled(word, file=file) for word in overlay.arguments), variables | hidden)


def _hide(secrets: Secrets, document: Any, at: Sequence[str]) -> dict[str, str]:
    """Put references in place of keys that are written out; the keys by variable."""
    nowhere = Places({}, Path(), [])
    hidden: dict[str, str] = {}
    for path, value in list(nowhere.values(document, [*at[:-1], secrets.member])):
        if isinstance(value, str) and value and "${{" not in value:
            variable = f"{secrets.variable}_{len(hidden) + 1}"
            hidden[variable] = value
            _set(document, path, _filled(secrets.written, variable=variable))
    return hidden


def _set(document: Any, path: Sequence[str | int], value: str) -> None:
    """Set a member, making the mappings above it where there are none."""
    for at in range(1, len(path)):
        if value_at(document, tuple(path[:at])) is None:
            parent = value_at(document, tuple(path[: at - 1]))
            assert isinstance(parent, dict)
            parent[path[at - 1]] = {}
    holder: Any = value_at(document, tuple(path[:-1]))
    holder[path[-1]] = value


def _without(rest: Sequence[str], flag: str) -> list[str]:
    """The arguments without the flag and its value."""
    value = flagged(rest, flag)
    if value is None:
        return list(rest)
    joined = f"{flag}={value}"
    if joined in rest:
        at = rest.index(joined)
        return [*rest[:at], *rest[at + 1 :]]
    at = rest.index(flag)
    return [*rest[:at], *rest[at + 2 :]]


def _filled(text: str, **values: str) -> str:
    """Only the braces of a recipe are ours; JSON has its own."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(text)
    return str(path)
