"""Facts about models and upstreams, read from `config/models.yaml`.

Two tables meet here. `models` says what a model is (window, prices, prefix check), `upstreams` says how a service
serves it (kind of cache, lifetime, what it accepts). One request sees the two as a single frozen `ModelFacts`.

Where both tables state the same fact, the upstream wins: a local server that answers to a vendor's model name has
neither its prices nor its checks. A fact from the user's own file beats any shipped one. What nobody states gets the
most careful value, the defaults of `ModelFacts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from .errors import SettingsError
from .modelfacts import (
    UNKNOWN,
    Breakpoints,
    LongPrompt,
    ModelFacts,
    Multiplier,
    Price,
    ReasoningRule,
    ReasoningTurns,
    Regime,
    Reporting,
    Seconds,
    Tokens,
    Told,
)
from .shipped import read_shipped
from .yamlfile import Document, parse, read, suggestion

__all__ = [
    "UNKNOWN",
    "LongPrompt",
    "ModelFacts",
    "Models",
    "ModelsFile",
    "Price",
    "canonical",
    "unknown_profile",
]


class _Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What either table may state; None is not stated."""

    window: Tokens | None = None
    max_output: Tokens | None = None
    tokenizer: Annotated[float, Meta(ge=0.1, le=10)] | None = None
    regime: Regime | None = None
    minimum: Tokens | None = None
    block: Annotated[int, Meta(ge=1)] | None = None
    whole_units: bool | None = None
    slots: bool | None = None
    lookback: Annotated[int, Meta(ge=1)] | None = None
    ttl_s: Seconds | Literal["never"] | None = None
    ttl_long_s: Seconds | None = None
    read: Multiplier | None = None
    write_5m: Multiplier | None = None
    write_1h: Multiplier | None = None
    price: Price | Literal["free"] | None = None
    reports_cache: Reporting | None = None
    marks: bool | None = None
    max_marks: Annotated[int, Meta(ge=0, le=50)] | None = None
    breakpoints: Breakpoints | None = None
    prompt_cache_key: bool | None = None
    include_usage: bool | None = None
    warms: bool | None = None
    prefix_check: bool | None = None
    last_turn_thinking: bool | None = None
    reasoning: ReasoningRule | None = None
    signed_calls: bool | None = None
    redacted_thinking: bool | None = None
    prefill: bool | None = None
    mid_system: bool | None = None
    fold_system: bool | None = None
    single_system: bool | None = None
    merge_same_role: bool | None = None
    calls_alternate: bool | None = None
    opens_with_user: bool | None = None
    needs_user: bool | None = None
    user_after_results: bool | None = None
    told_behind_results: Told | None = None
    blank_text: bool | None = None
    parses_arguments: bool | None = None
    result_images: bool | None = None
    reasoning_turns: ReasoningTurns | None = None
    keep_attribution: bool | None = None
    tool_id_pattern: str | None = None
    tool_id_max: Annotated[int, Meta(ge=1)] | None = None
    chat_tool_id_max: Annotated[int, Meta(ge=1)] | None = None
    item_id_prefixes: bool | None = None
    image_tokens: Tokens | None = None
    image_flat: bool | None = None
    image_long_edge: Annotated[int, Meta(ge=1)] | None = None
    image_checked: bool | None = None
    image_max_count: Annotated[int, Meta(ge=0)] | None = None
    image_max_bytes: Annotated[int, Meta(ge=1)] | None = None
    image_max_side: Annotated[int, Meta(ge=1)] | None = None
    image_many: Annotated[int, Meta(ge=0)] | None = None
    image_many_side: Annotated[int, Meta(ge=1)] | None = None


class ModelRule(_Facts, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Facts of the models whose canonical name matches one of the globs."""

    match: Annotated[list[str], Meta(min_length=1)]


class FormatFacts(_Facts, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Facts of a service that hold for one of its formats only."""


class Formats(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What each format of a service has of its own, by the name of its dialect."""

    anthropic: FormatFacts | None = None
    openai_chat: FormatFacts | None = None
    openai_responses: FormatFacts | None = None
    gemini: FormatFacts | None = None

    def stated(self) -> Iterator[tuple[str, FormatFacts]]:
        """Dialects with facts of their own, and those."""
        for name in self.__struct_fields__:
            facts = getattr(self, name)
            if facts is not None:
                yield name, facts


class Upstream(_Facts, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Facts of a service. `like` names the profile whose facts stand where this one is silent; `formats` holds what
    one format has of its own, and counts more."""

    hosts: list[str] = []
    like: str | None = None
    formats: Formats = Formats()


class ModelsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The shape of a models file: model rules in order, first match wins; upstream profiles by name."""

    models: list[ModelRule] = []
    upstreams: dict[str, Upstream] = {}


class Models:
    """The shipped table with the user's own laid over it. Immutable once loaded; answers are remembered."""

    _REMEMBERED = 1024

    def __init__(self, *layers: ModelsFile) -> None:
        """`layers` from the strongest to the weakest."""
        self._layers = layers
        self._answers: dict[tuple[str, str, str], ModelFacts] = {}

    @classmethod
    def load(cls, path: Path | None = None) -> Models:
        """The shipped table, with the user's file at `path` laid over it.

        Raises ConfigErrors where the file is wrong, ConfigError where it cannot be read.
        """
        place, text = read_shipped("models.yaml")
        shipped = _read(parse(text, place))
        if path is None:
            return cls(shipped)
        return cls(_read(read(path), tuple(shipped.upstreams)), shipped)

    @property
    def profiles(self) -> tuple[str, ...]:
        """The names of all upstream profiles, the user's first."""
        return tuple(dict.fromkeys(name for layer in self._layers for name in layer.upstreams))

    def profile_for(self, url: str, explicit: str | None = None) -> str:
        """The profile of an upstream: the one named in the configuration, else the one its host implies.

        Raises SettingsError for a name that no table has.
        """
        if explicit is not None:
            if explicit not in self.profiles:
                raise SettingsError(unknown_profile(explicit, self.profiles))
            return explicit
        parts = urlsplit(url if "://" in url else f"//{url}")
        host = parts.hostname or ""
        names = (host, f"{host}:{parts.port}") if parts.port else (host,)
        for layer in self._layers:
            for profile, upstream in layer.upstreams.items():
                if any(fnmatchcase(name, glob) for glob in upstream.hosts for name in names):
                    return profile
        return UNKNOWN

    def facts(self, upstream_profile: str, model: str, dialect: str = "") -> ModelFacts:
        """What is known about `model` as the client spells it, behind a profile and in the format of `dialect`.

        Never fails: what is not known is careful. Without a dialect only what holds for all formats counts.
        """
        asked = (upstream_profile, model, dialect)
        found = self._answers.get(asked)
        if found is None:
            if len(self._answers) >= self._REMEMBERED:
                self._answers.clear()
            found = self._answers[asked] = self._merge(upstream_profile, canonical(model), dialect)
        return found

    def _merge(self, profile: str, model: str, dialect: str) -> ModelFacts:
        stated: dict[str, object] = {}
        for source in self._sources(profile, model, dialect):
            for name in _Facts.__struct_fields__:
                value = getattr(source, name)
                if value is not None:
                    stated.setdefault(name, value)
        if stated.get("ttl_s") == "never":
            stated["ttl_s"] = None
        if stated.get("price") == "free":
            stated["price"] = None
        return ModelFacts(upstream=profile, model=model, **stated)  # type: ignore[arg-type]  # same names and types

    def _sources(self, profile: str, model: str, dialect: str) -> Iterator[_Facts]:
        """Statements from the strongest to the weakest: in each layer its upstreams, then its model."""
        chain = (profile, *self._inherited(profile))
        for layer in self._layers:
            for upstream in (layer.upstreams[name] for name in chain if name in layer.upstreams):
                yield from (facts for name, facts in upstream.formats.stated() if name == dialect)
                yield upstream
            rule = next((r for r in layer.models if any(fnmatchcase(model, g) for g in r.match)), None)
            if rule is not None:
                yield rule

    def _inherited(self, profile: str) -> Iterator[str]:
        """The profiles it is like. One that the shipped table has not, and that is like none, is like `unknown`."""
        seen = {profile}
        while True:
            found = (layer.upstreams[profile].like for layer in self._layers if profile in layer.upstreams)
            like = next((name for name in found if name is not None), None)
            if like is None and profile not in self._layers[-1].upstreams:
                like = UNKNOWN
            if like is None or like in seen:
                return
            seen.add(like)
            yield like
            profile = like


def unknown_profile(name: str, known: Iterable[str]) -> str:
    """What to say of a profile that no table has, with all that there are."""
    names = sorted(known)
    close = suggestion(name, names)
    return f"no upstream profile {name!r}{close if close.endswith('?') else ';'} known: {', '.join(names)}"


_DEPLOYMENT = re.compile(r"(?:\[1m\]|@.*|:.*|-v\d+|-latest|-20\d{6})+$")


def canonical(model: str) -> str:
    """A model's name without what gateways add: vendor path, cloud region, date, deployment version, `[1m]`.

    Dots in the version of a Claude model become hyphens, as in its own names. Rules match this form.
    """
    name = model.rsplit("/", 1)[-1].lower()
    start = name.find("claude-")
    if start < 0:
        return name
    return _DEPLOYMENT.sub("", name[start:]).replace(".", "-")


def _read(document: Document, shipped: tuple[str, ...] = ()) -> ModelsFile:
    """The file's tables, checked for what a type cannot say. Raises ConfigErrors."""
    file = document.convert(ModelsFile)
    names = (*file.upstreams, *shipped)
    for profile, upstream in file.upstreams.items():
        if upstream.like is not None and upstream.like not in names:
            raise document.error(("upstreams", profile, "like"), unknown_profile(upstream.like, names))
    for where, facts in _stated(file):
        try:
            re.compile(facts.tool_id_pattern or "")
        except re.error as fault:
            raise document.error((*where, "tool_id_pattern"), f"not a regular expression: {fault}") from fault
    return file


def _stated(file: ModelsFile) -> Iterator[tuple[tuple[str | int, ...], _Facts]]:
    """Everything the file states, and where."""
    for profile, upstream in file.upstreams.items():
        yield ("upstreams", profile), upstream
        for name, facts in upstream.formats.stated():
            yield ("upstreams", profile, "formats", name), facts
    for index, rule in enumerate(file.models):
        yield ("models", index), rule
