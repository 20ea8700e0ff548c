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
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from .errors import SettingsError
from .shipped import read_shipped
from .yamlfile import Document, parse, read, suggestion

Tokens: TypeAlias = Annotated[int, Meta(ge=0, description="tokens")]
Seconds: TypeAlias = Annotated[int, Meta(ge=1, description="seconds")]
Multiplier: TypeAlias = Annotated[float, Meta(ge=0, le=100, description="in units of the base input price")]
Regime: TypeAlias = Literal["breakpoints", "automatic", "prefix", "none"]
ReasoningRule: TypeAlias = Literal["signed", "required", "free", "as-sent"]
ReasoningTurns: TypeAlias = Literal["all", "calls"]
Reporting: TypeAlias = Literal["always", "optional", "never"]
Breakpoints: TypeAlias = Literal["anthropic", "openai", "none"]

UNKNOWN = "unknown"
"""The profile of an upstream we know nothing about: nothing is added, no cache is ever taken for cold."""


class LongPrompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Dearer prices for the whole request once its prompt is longer than `above` tokens."""

    above: Tokens
    input: Annotated[float, Meta(ge=1, description="factor on input, reads and writes")]
    output: Annotated[float, Meta(ge=1, description="factor on output")]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base prices in dollars per million tokens [B14]."""

    input: Annotated[float, Meta(ge=0)]
    output: Annotated[float, Meta(ge=0)]
    long: LongPrompt | None = None


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All that the pure core knows about one model behind one upstream."""

    upstream: str = UNKNOWN
    model: str = ""
    """The model's name without vendor, region, date and deployment suffixes."""

    window: int = 200_000
    """Tokens of prompt and answer together."""
    max_output: int = 64_000
    """Largest `max_tokens` that is accepted [A5]."""
    tokenizer: float = 1.1
    """Tokens of this model for one token counted with cl100k [B15]; calibration starts here."""

    regime: Regime = "prefix"
    """`breakpoints`: only marked prefixes are cached [B2]. `automatic`: the provider sets marks of its own and also
    takes ours where `marks` holds [B100 B400]. `prefix`: the longest common prefix [B109 B530]. `none`: no cache."""
    minimum: int = 1024
    """Tokens below which a prefix is not cached [B13]."""
    block: int = 1
    """Tokens to which a hit is rounded down [B109 B431 B500]."""
    whole_units: bool = False
    """Is a hit rounded down to the end of a whole turn, so that a changed tail costs all behind the last one [B400]?"""
    slots: bool = False
    """Does the cache hold the last prompts of a few slots only, so that conversations displace each other [B520]?"""
    lookback: int = 20
    """Positions looked at behind a breakpoint, itself included [B6]."""
    ttl_s: int | None = None
    """Seconds from the start of a request to a cold cache [B10]; None: never taken for cold."""
    ttl_long_s: int = 3600
    """Seconds of the longer lifetime a client may ask for."""
    read: float = 0.1
    """Price of a cached token in units of base input [B14]."""
    write_5m: float = 1.25
    """Price of writing a token with the normal lifetime, in units of base input."""
    write_1h: float = 2.0
    """Price of writing a token with the longer lifetime, in units of base input."""
    price: Price | None = None
    """None where nothing is charged or the price is not known."""
    reports_cache: Reporting = "optional"
    """Whether usage names cached tokens; `optional` needs a flag of the server [B501 B510]."""

    marks: bool = False
    """May we add cache marks?"""
    max_marks: int = 4
    """Marks in one request, the client's own included [B3 B103]."""
    breakpoints: Breakpoints = "none"
    """How a mark of ours is spelt: `anthropic` is `cache_control` [B3 B440], `openai` is `prompt_cache_breakpoint`
    [B104]. `none`: either may be refused, so there are only the client's."""
    prompt_cache_key: bool = False
    """May a request be given the field `prompt_cache_key`, which many refuse [B110 B411 B431]?"""
    include_usage: bool = False
    """May a stream be given `stream_options` to ask for its usage? Some refuse the field, others report without it
    [A431 B440]."""

    prefix_check: bool = True
    """Signed thinking is bound to everything before it: preserved thinking [A45]."""
    last_turn_thinking: bool = False
    """The server itself drops thinking before the last turn [A47]."""
    reasoning: ReasoningRule = "as-sent"
    """`signed`: blocks with a signature are checked, those without fail [A43]. `required`: unsigned, and all of it
    must come back [A400 A410]. `free`: may be there or not. `as-sent`: not known, so it leaves as it came."""
    signed_calls: bool = False
    """Must the first call of each step of the current turn be signed [A304]?"""
    redacted_thinking: bool = True
    """Are `redacted_thinking` blocks accepted in the history [A510]?"""

    prefill: bool = True
    """May the last message be the assistant's [A12]?"""
    mid_system: bool | None = None
    """May a `system` message stand among the turns [A60]? None: not known, so it stays where it may be legal."""
    fold_system: bool = False
    """Must `system` messages behind the first turn be folded into a user message [A502 A521]?"""
    single_system: bool = False
    """Must the `system` messages at the head be one [A521]?"""
    merge_same_role: bool = False
    """Must neighbours of the same role be merged [A420 A430 A521]?"""
    calls_alternate: bool = True
    """Is an answer with calls a turn where turns must alternate? Templates skip it with its results [A521]."""
    opens_with_user: bool = False
    """Must the first turn be the user's, whatever the format says [A420 A521]?"""
    needs_user: bool = False
    """Must there be a user message that says something [A420]?"""
    user_after_results: bool = True
    """May a user message stand directly behind tool results [A430]? Else an assistant message goes between."""
    blank_text: bool = True
    """May text be blank and a message empty where the format allows it [A410 A420]?"""
    parses_arguments: bool = False
    """Are the arguments of calls in the history read as JSON objects, so that broken ones fail the request [A521]?"""
    result_images: bool = True
    """May a tool result hold images? Else they belong into a user message behind all results [A105]."""
    reasoning_turns: ReasoningTurns = "all"
    """Where reasoning is `required`: in every answer [A400], or in those with calls [A410]."""
    keep_attribution: bool = False
    """Is a leading attribution block stripped upstream, so that it must leave as it came [D14]? Else it is frozen."""

    tool_id_pattern: str = "^.+$"
    """What a tool call's id must match [A24 A430]."""
    tool_id_max: int = 256
    """Characters of a tool call's id [A207]."""
    chat_tool_id_max: int = 256
    """The same in the chat completions format [A104]."""

    image_tokens: int = 1568
    """Most tokens one image costs [A38]."""
    image_long_edge: int = 1568
    """Pixels of the longer side to which the provider scales an image down before counting [A38]."""
    image_max_count: int = 100
    """Images in one request, history and tool results included [A37]."""
    image_max_bytes: int = 5_242_880
    """Bytes of one image as base64 [A37]."""
    image_max_side: int = 8000
    """Pixels of either side [A37]."""
    image_many: int = 20
    """Above this many images the stricter side limit holds [A37]."""
    image_many_side: int = 2000
    """Pixels of either side when there are many images [A37]."""


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
    blank_text: bool | None = None
    parses_arguments: bool | None = None
    result_images: bool | None = None
    reasoning_turns: ReasoningTurns | None = None
    keep_attribution: bool | None = None
    tool_id_pattern: str | None = None
    tool_id_max: Annotated[int, Meta(ge=1)] | None = None
    chat_tool_id_max: Annotated[int, Meta(ge=1)] | None = None
    image_tokens: Tokens | None = None
    image_long_edge: Annotated[int, Meta(ge=1)] | None = None
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
