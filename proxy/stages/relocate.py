"""Volatile fields leave the prefix: a date in the system prompt must not cost the whole history its cache.

`freeze` (the default): the first value seen in a conversation stays in its place, occurrence by occurrence. A
later value is *announced* in a reminder at the tail when it changed, and that reminder then stays in the history
for ever: taking back what was once sent breaks cache and thinking. `constant` puts one value there in every
conversation, so that sessions share a prefix.

Patterns look into system, tools and recognised reminders. Text of people and tool results are never searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from msgspec import Meta, Raw, Struct, structs

from ..agents import Field, VolatileRule, found, substitute
from ..branch import Frozen, Promise
from ..conversation import Part, Reminder, Role, Source, Text, ToolDefinition, text_of
from ..edits import Edit, Replace, target_of
from ..memo import Memo
from .telling import as_data, tail
from .view import Proposal, View, weight

NAME = "relocate"

# The model reads this. Changing it invalidates prompt caches and thinking blocks.
LINE = "{name} is now: {value} (earlier text of this conversation may still show the value it had before)"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`agents`: fields that the recognisers know. `rules`: further ones. `off`: names of fields left alone.

    `attribution`: touch the agent's attribution block too where the upstream would not take it out itself.
    """

    agents: bool = True
    rules: list[VolatileRule] = []
    off: list[Annotated[str, Meta(min_length=1)]] = []
    attribution: bool = True


class _Ground(Struct):
    """What is frozen and what was seen, while the parts are walked."""

    frozen: Mapping[str, tuple[str, ...]]
    values: dict[str, list[str]]
    counts: dict[str, int]
    seen: dict[str, str]
    told: set[tuple[str, str]]
    adopted: bool
    """Met in its middle: the provider has seen every field as it stands, and even a constant one stays so."""

    def still(self, field: Field, scope: str, value: str) -> str:
        """The value that stands at this occurrence of a field."""
        self.seen[field.rule.name] = value
        name = f"{field.rule.name}\0{scope}"
        if field.rule.mode == "constant" and not self.adopted and name not in self.frozen:
            return field.rule.value or ""
        at = self.counts[name] = self.counts.get(name, -1) + 1
        known = self.values.setdefault(name, list(self.frozen.get(name, ())))
        if at == len(known):
            known.append(value)
        return known[at]


def propose(view: View, config: Config) -> Proposal:
    """Freeze what changes, announce what changed."""
    fields = view.fields
    if not fields:
        return Proposal()
    met = view.place.branch is None and not view.place.broke and view.conversation.last(Role.ASSISTANT) >= 0
    ground = _Ground(view.frozen.values, {}, {}, {}, set(), met)
    edits = [*_tools(view, fields, ground), *_system(view, config, fields, ground)]
    promises = [*_reminders(view, fields, ground)]
    promises += _announce(view, fields, ground)
    values = {**view.frozen.values, **{name: tuple(known) for name, known in ground.values.items()}}
    return Proposal(edits=tuple(edits), promises=tuple(promises), frozen=Frozen(values, view.frozen.tools))


def _of(fields: Iterable[Field], where: str) -> list[Field]:
    return [field for field in fields if where in field.rule.where]


def _system(view: View, config: Config, fields: tuple[Field, ...], ground: _Ground) -> Iterator[Edit]:
    there = _of(fields, "system")
    for part in view.conversation.system:
        text = text_of(part)
        if text is None or not there:
            continue
        attribution = view.facts.agent.attribution
        if (
            attribution is not None
            and attribution.match(text)
            and (view.facts.model.keep_attribution or not config.attribution)
        ):
            continue  # the vendor takes this block out itself, if it comes as it was [D14]
        still = _still(text, there, "system", ground)
        if still != text:
            yield _frozen(part, Text(text=still, size=len(still)), _why(there))


def _tools(view: View, fields: tuple[Field, ...], ground: _Ground) -> Iterator[Edit]:
    there = _of(fields, "tools")
    for part in view.conversation.tools:
        if not there or not isinstance(part, ToolDefinition):
            continue
        text = _text_of_tool(part)
        still = _still(text, there, f"tool {part.name}", ground)
        if still != text:
            yield _frozen(part, structs.replace(part, base=_raw(still)), _why(there))


_text_of_tool: Memo[ToolDefinition, str] = Memo(
    lambda tool: bytes(tool.raw or tool.base or b"").decode("utf-8", "surrogateescape")
)


def _why(fields: list[Field]) -> str:
    constant = all(field.rule.mode == "constant" for field in fields)
    return "volatile field at its constant value" if constant else "volatile field kept as first sent"


def _raw(text: str) -> Raw:
    return Raw(text.encode("utf-8", "surrogateescape"))


def _still(text: str, fields: list[Field], scope: str, ground: _Ground) -> str:
    if not found(tuple(field.pattern for field in fields), text):
        return text
    for field in fields:
        text = substitute(field.pattern, text, lambda value, field=field: ground.still(field, scope, value))  # type: ignore[misc]  # bound now
    return text


def _frozen(part: Part, still: Part, reason: str) -> Replace:
    return Replace(
        stage=NAME,
        reason=reason,
        target=target_of(part),
        part=still,
        tokens_before=weight(part),
        tokens_after=weight(part),
    )


def _reminders(view: View, fields: tuple[Field, ...], ground: _Ground) -> Iterator[Promise]:
    """A reminder that the client renders anew leaves as first sent; its key leaves volatile values out."""
    there = _of(fields, "reminder")
    if not there:
        return
    for field in there:
        for reminder in view.respelt:
            for match in field.pattern.finditer(reminder.text):
                ground.seen[field.rule.name] = match["value"]
    for _, part, _ in view.fresh():
        if not isinstance(part, Reminder):
            continue
        volatile = False
        for field in there:
            for match in field.pattern.finditer(part.text):
                volatile = True
                ground.told.add((field.rule.name, match["value"]))
        if volatile:
            first = Reminder(text=part.text, source=part.source, name=part.name, size=part.size)
            yield Promise(
                anchor=part.key, stage=f"{NAME}.reminder", edits=(_frozen(part, first, _why(there)),)
            )


def _announce(view: View, fields: tuple[Field, ...], ground: _Ground) -> Iterator[Promise]:
    """Tell the tail what changed since it was last told, once, before what the user says now."""
    place = tail(view)
    if place is None:
        return
    changed: list[tuple[str, str]] = []
    for field in fields:
        name = field.rule.name
        value = ground.seen.get(name)
        if (
            value is None
            or field.rule.announce == "never"
            or (field.rule.announce == "human_turn" and not place.human)
        ):
            continue
        if (
            name in dict(changed)
            or (name, value) in ground.told
            or value == view.announced.get(name, _first(name, ground))
        ):
            continue
        changed.append((name, value))
    if not changed:
        return
    lines = "\n".join(LINE.format(name=name, value=as_data(value)) for name, value in changed)
    about = ", ".join(name for name, _ in changed)
    edit = place.told(NAME, "a volatile field changed", Source.ENVIRONMENT, lines, about)
    yield place.promise(NAME, [edit], changed)


def _first(name: str, ground: _Ground) -> str | None:
    """The value that stands frozen: that of the first occurrence in any scope."""
    return next(
        (known[0] for scope, known in ground.values.items() if scope.startswith(f"{name}\0") and known), None
    )
