"""A policy: which stages run, and how, as read from a YAML file.

Each stage is a mapping or `off`. A file may extend another one (a shipped name or a path beside it), key by key.
`when:` entries change stages for some upstreams, agents or models; all that match apply, in order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, structs

from .agents import Agent, Field, VolatileRule, merged
from .errors import ConfigError, PolicyError, StetError
from .identity import digest
from .shipped import config_dir, read_shipped
from .stages import (
    alternate,
    balance,
    breakpoints,
    budget,
    cache_key,
    compact,
    dedupe,
    encoding,
    externalize,
    inject,
    label,
    media,
    noise,
    normalize,
    reasoning,
    relocate,
    restore,
    stale,
    steady,
)
from .yamlfile import Document, parse, read, schema, suggestion

Off = Literal["off"]


class Stages(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting a stage, in the order of `stages.ORDER`: a mapping of its options, or `off`. None: not named."""

    encoding: encoding.Config | Off | None = None
    normalize: normalize.Config | Off | None = None
    restore: restore.Config | Off | None = None
    steady: steady.Config | Off | None = None
    balance: balance.Config | Off | None = None
    reasoning: reasoning.Config | Off | None = None
    media: media.Config | Off | None = None
    alternate: alternate.Config | Off | None = None
    noise: noise.Config | Off | None = None
    label: label.Config | Off | None = None
    relocate: relocate.Config | Off | None = None
    inject: inject.Config | Off | None = None
    externalize: externalize.Config | Off | None = None
    dedupe: dedupe.Config | Off | None = None
    stale: stale.Config | Off | None = None
    compact: compact.Config | Off | None = None
    budget: budget.Config | Off | None = None
    cache_key: cache_key.Config | Off | None = None
    breakpoints: breakpoints.Config | Off | None = None


STAGES = Stages.__struct_fields__


class When(Stages, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stages for requests that match all conditions given: globs on upstream, agent and model names."""

    upstream: str | None = None
    agent: str | None = None
    model: str | None = None

    def matches(self, upstream: str, agent: str, model: str) -> bool:
        """Whether all conditions hold."""
        pairs = ((self.upstream, upstream), (self.agent, agent), (self.model, model))
        return all(glob is None or fnmatchcase(name, glob) for glob, name in pairs)


class PolicyFile(Stages, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The shape of a policy file."""

    name: Annotated[str, Meta(min_length=1, description="what logs call this policy")] = "policy"
    about: str = ""
    extends: Annotated[str | None, Meta(description="a shipped policy, or a file beside this one")] = None
    when: list[When] = []


class Policy(Struct, frozen=True, kw_only=True):
    """A policy for one request: stages chosen, `when` applied. Equal policies have equal digests."""

    name: str
    stages: Stages

    def config(self, stage: str) -> object | None:
        """The stage's settings, None where it is off."""
        found = getattr(self.stages, stage)
        return None if found in ("off", None) else found

    @property
    def idle(self) -> bool:
        """Whether all stages are off: what comes leaves as it came."""
        return all(self.config(stage) is None for stage in STAGES)

    @property
    def injected(self) -> tuple[str, ...]:
        """Names of the project files that are told to the model."""
        found = self.config(inject.NAME)
        return found.files if isinstance(found, inject.Config) else ()

    def encoded(self) -> bytes:
        """The policy as bytes, for the branches pinned to it."""
        return msgspec.json.encode(self)

    @property
    def digest(self) -> bytes:
        """Names what the policy does; its name is not part of that."""
        return _digest(self)

    def fields(self, agent: Agent) -> tuple[Field, ...]:
        """The volatile fields to look for: the policy's own rules, then the recognisers'."""
        relocate_config = self.config("relocate")
        if not isinstance(relocate_config, relocate.Config):
            return ()
        own = tuple(Field(rule=rule, pattern=re.compile(rule.pattern)) for rule in relocate_config.rules)
        every = merged(own, agent.fields) if relocate_config.agents else own
        return tuple(field for field in every if field.rule.name not in relocate_config.off)


_DIGESTS: dict[int, tuple[Policy, bytes]] = {}


def _digest(policy: Policy) -> bytes:
    known = _DIGESTS.get(id(policy))
    if known is None or known[0] is not policy:
        if len(_DIGESTS) > 256:
            _DIGESTS.clear()
        known = _DIGESTS[id(policy)] = (policy, digest(b"policy", msgspec.json.encode(policy.stages)))
    return known[1]


def decode_policy(encoded: bytes) -> Policy | None:
    """A policy as it was encoded; None where this version no longer knows what it says."""
    try:
        return msgspec.json.decode(encoded, type=Policy)
    except msgspec.DecodeError:
        return None


class Policies:
    """A policy file, ready to choose from. `files`: the paths it was read from, those it extends included. `injects`:
    whether some request is told of project files."""

    def __init__(self, file: PolicyFile, files: tuple[str, ...] = ()) -> None:
        self.file = file
        self.files = files
        self._chosen: dict[tuple[str, str, str], Policy] = {}
        self.injects = any(
            isinstance(table.inject, inject.Config) and table.inject.files for table in (file, *file.when)
        )

    def choose(self, upstream: str, agent: str, model: str) -> Policy:
        """The policy for a request. The same request gets the same object."""
        asked = (upstream, agent, model)
        if asked not in self._chosen:
            if len(self._chosen) > 512:
                self._chosen.clear()
            self._chosen[asked] = self._choose(*asked)
        return self._chosen[asked]

    def _choose(self, upstream: str, agent: str, model: str) -> Policy:
        settings = {stage: getattr(self.file, stage) for stage in STAGES}
        for entry in self.file.when:
            if entry.matches(upstream, agent, model):
                settings |= {stage: value for stage in STAGES if (value := getattr(entry, stage)) is not None}
        chosen = Policy(name=self.file.name, stages=Stages(**settings))
        return next((known for known in self._chosen.values() if known == chosen), chosen)


def load_policy(source: str | Path) -> Policies:
    """A policy by shipped name (`default`) or path. Raises ConfigErrors with every mistake and its place."""
    document = _named(str(source)) if _is_shipped(str(source)) else _file(Path(source))
    files = [document.name]
    checked = _checked(_extended(document, (), files))
    # What a file is called and says of itself is its own, not of what it extends.
    name, about = (document.plain((key,)) for key in ("name", "about"))
    own = structs.replace(checked, name=name or Path(document.name).stem, about=about or "")
    return Policies(own, tuple(files))


def unmatched(source: str | Path, agents: Sequence[str], upstreams: Sequence[str]) -> list[ConfigError]:
    """Conditions of `when` that none of these agents, or upstreams, meets: often a slip, but a server may know more."""
    document = _named(str(source)) if _is_shipped(str(source)) else _file(Path(source))
    whole = _extended(document, (), [])
    found = []
    for at, entry in enumerate(whole.convert(PolicyFile).when):
        for kind, glob, known in (("agent", entry.agent, agents), ("upstream", entry.upstream, upstreams)):
            if glob is not None and not any(fnmatchcase(name, glob) for name in known):
                words = f"no {kind} that comes with Stet is called {glob!r}{suggestion(glob, known)}"
                found.append(whole.error(("when", at, kind), words))
    return found


def parent_of(source: str | Path) -> Policies | None:
    """The policy that a policy extends, None where it stands alone. Raises ConfigErrors as `load_policy` does."""
    document = _named(str(source)) if _is_shipped(str(source)) else _file(Path(source))
    base = document.plain(("extends",))
    if not isinstance(base, str):
        return None
    return load_policy(base if _is_shipped(base) else Path(document.name).parent / base)


def _file(path: Path) -> Document:
    """The file at `path`; a bare word that is no file was meant as a name."""
    if len(path.parts) == 1 and not path.suffix and not path.exists():
        raise StetError(
            f"no such policy{suggestion(path.name, shipped_policies())}",
            f"policy {path.name!r}",
            "or give the path of a file",
        )
    return read(path)


def shipped_policies() -> list[str]:
    """The names of the policies that come with the product."""
    folder = config_dir() / "policies"
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def policy_schema() -> dict[str, object]:
    """JSON Schema of a policy file, for editors."""
    return schema(PolicyFile)


def _is_shipped(name: str) -> bool:
    return name in shipped_policies()


def _named(name: str) -> Document:
    place, text = read_shipped(f"policies/{name}.yaml")
    return parse(text, place)


def _extended(document: Document, above: Sequence[str], files: list[str]) -> Document:
    """The document over what it extends, over what that extends."""
    base = document.plain(("extends",))
    if base is None:
        return document
    if not isinstance(base, str):
        raise document.error(("extends",), "the name of a policy or the path of a file is wanted here")
    if base in above or len(above) > 8:
        raise document.error(("extends",), f"{base!r} extends itself: {' -> '.join((*above, base))}")
    below = _base(document, base)
    files.append(below.name)
    return document.over(_extended(below, (*above, base), files))


def _base(document: Document, base: str) -> Document:
    if _is_shipped(base):
        return _named(base)
    beside = Path(document.name).parent / base
    if not beside.is_file():
        raise document.error(("extends",), f"no policy {base!r}{suggestion(base, shipped_policies())}")
    return read(beside)


def _checked(document: Document) -> PolicyFile:
    """What a type cannot say. Raises PolicyError pointing at the place."""
    file = _filled(document, document.convert(PolicyFile))
    tables: list[tuple[tuple[str | int, ...], Stages | When]] = [((), file)]
    tables += [(("when", at), entry) for at, entry in enumerate(file.when)]
    for place, table in tables:
        if isinstance(table.relocate, relocate.Config):
            for at, rule in enumerate(table.relocate.rules):
                _check_rule(document, (*place, "relocate", "rules", at), rule)
        for at, name in enumerate(table.inject.files if isinstance(table.inject, inject.Config) else ()):
            if not inject.PLAIN_NAME.fullmatch(name):
                raise document.error(
                    (*place, "inject", "files", at),
                    "a path below the project's folder is wanted here: no `..`, no `/`",
                )
        if isinstance(table.externalize, externalize.Config):
            _check_shares(document, (*place, "externalize"), table.externalize)
        if isinstance(table.stale, stale.Config) and table.balance == "off":
            raise document.error(
                (*place, "stale"), "`stale` needs `balance`: a placeholder stands for the result of a call"
            )
    for at, entry in enumerate(file.when):
        if entry.upstream is None and entry.agent is None and entry.model is None:
            raise document.error(
                ("when", at), "an entry of `when` needs a condition: upstream, agent or model"
            )
    return file


def _filled(document: Document, file: PolicyFile) -> PolicyFile:
    """The file with `off` for stages it does not name. One named without a word about it was meant to do something."""
    unnamed = [stage for stage in STAGES if getattr(file, stage) is None]
    written = document.plain()
    for stage in unnamed:
        if stage in written:
            raise document.error((stage,), f"say what `{stage}` does: options, {{}} for its defaults, or off")
    return structs.replace(file, **dict.fromkeys(unnamed, "off"))


def _check_shares(document: Document, place: tuple[str | int, ...], config: externalize.Config) -> None:
    stays = config.head + config.tail + config.errors
    if 2 * stays > config.least:
        raise document.error(
            place,
            f"`head`, `tail` and `errors` are {stays} bytes together: at most half of the lowest threshold "
            f"({config.least}) may stay",
        )


def _check_rule(document: Document, place: tuple[str | int, ...], rule: VolatileRule) -> None:
    try:
        pattern = re.compile(rule.pattern)
    except re.error as error:
        raise document.error((*place, "pattern"), f"not a regular expression: {error}") from None
    if "value" not in pattern.groupindex:
        raise document.error(
            (*place, "pattern"), "the pattern needs a group (?P<value>...) around what changes"
        )
    if rule.mode == "constant" and rule.value is None:
        raise document.error((*place, "mode"), "mode `constant` needs a `value` to put there")
    if rule.mode == "constant" and rule.announce != "never":
        raise document.error(
            (*place, "announce"), "a constant field hides its changes: `announce` must be `never`"
        )


__all__ = [
    "Off",
    "Policies",
    "Policy",
    "PolicyError",
    "PolicyFile",
    "Stages",
    "When",
    "decode_policy",
    "load_policy",
    "parent_of",
    "policy_schema",
    "shipped_policies",
    "structs",
    "unmatched",
]
