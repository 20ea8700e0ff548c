"""Cache marks: the client's stay where they are valid, free slots go where the next request will read.

Marks are no part of the prompt [B1], so they are decided anew for each request and never promised. A request
writes up to its last mark and pays for that once; marks before the last one cost nothing [B8]. So the only
question about money is the tail, and it is left unmarked where nobody will read it: where the client left its
own tail out, and in a first request without tools, which is a side call.

What makes a read certain is a mark where the request before had its last one. Without it the provider looks
back a fixed number of positions [B6], which a turn of many parallel calls can exceed. Runs of calls count as
one position there, but not everywhere; here every part counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from ..conversation import Mark, Part, Role, ToolResult
from ..edits import Edit, PlaceMark, Replace, target_of
from .landmarks import before_current, end_of_batch, lagging, pays, recorded_tail, system_end, tools_end
from .marks import (
    LastMark,
    Spot,
    Standing,
    Zone,
    automatic_spot,
    is_cleared,
    last_carrier,
    last_mark,
    lifetime,
    refuses,
    seconds,
    standing,
    without_inner_marks,
)
from .view import NOTHING, Proposal, View, weight

__all__ = ["NAME", "Config", "Every", "LastMark", "last_mark", "lifetime", "propose"]

NAME = "breakpoints"

LAGGING = "within the lookback of the previous tail [B6]"

Word: TypeAlias = Literal["tools", "system", "before_current", "tail"]


class Every(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mark that lags at most `every` parts, where without it the lookback would not reach the last request."""

    every: Annotated[int, Meta(ge=1, le=1000, description="parts")]


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where marks go and how long they ask for.

    `place`: `tail` is the end of the prompt; `before_current` the tail of the request before; `system` the end
    of what stands in the system prompt; `tools` the end of the tools where the system prompt can carry no mark.
    `ttl: client` asks for what the client's marks in the same section ask for. `replace`: where the client
    uses up all marks, one of its own may go for `tail` and `before_current`.
    """

    place: tuple[Word | Every, ...] = ("system", "tools", "before_current", "tail", Every(every=15))
    ttl: Literal["client", "5m", "1h"] = "client"
    replace: bool = False


def propose(view: View, config: Config) -> Proposal:
    """Marks for this request; where the provider sets its own, only those it leaves out."""
    if view.facts.model.regime == "automatic" and view.facts.model.breakpoints == "openai":
        return _beside_automatic(view, config)
    model, limit = view.facts.model, min(view.rules.marks, view.facts.model.max_marks)
    if not model.marks or model.regime != "breakpoints" or limit == 0:
        return NOTHING
    plan = _Plan(view, config, limit)
    plan.repair()
    # Where marks began they go on: below the minimum they cost nothing, and nobody knows it to the token.
    if pays(view) or recorded_tail(view) is not None:
        plan.fill()
    return Proposal(edits=tuple(plan.edits)) if plan.edits else NOTHING


def _beside_automatic(view: View, config: Config) -> Proposal:
    """Marks beside the provider's own, which stand at the ends of turns [B101-B104].

    Other sessions of the agent share the system prompt, and find it where it was written to its end. A tail that
    is no end of a turn, as a system message behind the user's, is not written at all. A client that marks, or says
    how it wants to be cached, is left to itself.
    """
    chosen = any(name == "prompt_cache_options" for name, _ in view.client.envelope)
    if not view.facts.model.marks or chosen or standing(view.conversation):
        return NOTHING
    spots: list[tuple[Spot | None, str]] = []
    if "system" in config.place and view.rules.system_marks:
        spots.append((system_end(view), "system"))
    last = next((message for message in reversed(view.conversation.messages) if message.written), None)
    if "tail" in config.place and last is not None and last.role is Role.SYSTEM:
        spots.append((last_carrier(view.conversation.messages, answers=False), "tail"))
    return Proposal(
        edits=tuple(
            PlaceMark(
                stage=NAME,
                reason=reason,
                target=target_of(spot.part),
                tokens_before=weight(spot.part),
                tokens_after=weight(spot.part),
                mark=Mark(explicit=True),
            )
            for spot, reason in spots
            if spot is not None
        )
    )


class _Plan:
    """The marks as they will stand, and the edits that bring them there."""

    def __init__(self, view: View, config: Config, limit: int) -> None:
        self.view = view
        self.conversation = view.conversation
        self.config = config
        self.limit = limit
        self.edits: list[Edit] = []
        self.standing = standing(view.conversation)
        self.automatic = automatic_spot(view.conversation)

    @property
    def free(self) -> int:
        """Marks that may still be added; negative where the client set too many."""
        return self.limit - len(self.all_marks())

    def all_marks(self) -> list[tuple[Spot, Mark]]:
        """Every mark with its spot, in prompt order; an automatic one on a marked part is that part's."""
        found = [(one.spot, mark) for one in self.standing for mark in one.marks]
        automatic = self.conversation.automatic_mark
        if self.automatic is not None and automatic is not None and not self._own_at(self.automatic):
            found.append((self.automatic, automatic))
        return sorted(found, key=lambda pair: pair[0].order)

    def _own_at(self, spot: Spot) -> Standing | None:
        return next((one for one in self.standing if one.spot.order == spot.order and not one.inner), None)

    # -- repairs --------------------------------------------------------------------------------------

    def repair(self) -> None:
        """What the provider would refuse: marks in wrong places, too many, lifetimes that grow [A15 B3 B9]."""
        if not self.standing:
            return
        for one in tuple(self.standing):
            cleared = one.spot.zone is Zone.TURNS and is_cleared(self.conversation.messages[one.spot.at])
            if not one.inner and (cleared or refuses(one.spot.part)):
                self._settle(one, None, "client mark where none may stand [A15]")
        self._agree_with_automatic()
        while self.free < 0 and self.standing:
            self._settle(self._least(), None, f"more than {self.limit} marks [B3]")
        self._order()

    def _agree_with_automatic(self) -> None:
        automatic = self.conversation.automatic_mark
        own = self._own_at(self.automatic) if self.automatic is not None else None
        if own is not None and automatic is not None and seconds(own.marks[0]) != seconds(automatic):
            self._settle(own, None, "the automatic mark asks for another lifetime [B4]")

    def _order(self) -> None:
        """A mark that asks for longer than one before it asks for as long as that; the automatic one cannot."""
        automatic = self.conversation.automatic_mark
        if self.automatic is not None and automatic is not None:
            for one in tuple(self.standing):
                if any(seconds(mark) < seconds(automatic) for mark in one.marks):
                    self._settle(one, automatic, "a shorter lifetime before the automatic mark [B9]")
        shortest: Mark | None = None
        for one in tuple(self.standing):
            for mark in one.marks:
                if shortest is None or seconds(mark) < seconds(shortest):
                    shortest = mark
                elif seconds(mark) > seconds(shortest):
                    self._settle(one, shortest, "a longer lifetime behind a shorter one [B9]")
                    break

    def _least(self, keep: Sequence[Spot] = ()) -> Standing:
        """The mark that is missed least: the oldest in the turns, then of tools, then the first of many."""
        kept = {spot.order for spot in keep}
        turns = [one for one in self.standing if one.spot.zone is Zone.TURNS]
        system = [one for one in self.standing if one.spot.zone is Zone.SYSTEM]
        tools = [one for one in self.standing if one.spot.zone is Zone.TOOLS]
        ranked = (*turns[:-1], *(tools if system else tools[:-1]), *system[:-1], *self.standing)
        return next((one for one in ranked if one.spot.order not in kept), self.standing[0])

    def _settle(self, one: Standing, mark: Mark | None, reason: str, *, required: bool = True) -> None:
        """Change the marks of one part. Marks inside a result are taken away, never rewritten."""
        part, at = one.spot.part, self.standing.index(one)
        before = weight(part)
        if one.inner and isinstance(part, ToolResult):
            self.edits.append(
                Replace(
                    stage=NAME,
                    reason=reason,
                    target=target_of(part),
                    tokens_before=before,
                    tokens_after=before,
                    required=required,
                    part=without_inner_marks(part),
                )
            )
            mark = None
        else:
            self._mark(part, mark, reason, required=required)
        self.standing[at : at + 1] = () if mark is None else (structs.replace(one, marks=(mark,)),)

    def _mark(self, part: Part, mark: Mark | None, reason: str, *, required: bool) -> None:
        size = weight(part)
        self.edits.append(
            PlaceMark(
                stage=NAME,
                reason=reason,
                target=target_of(part),
                tokens_before=size,
                tokens_after=size,
                required=required,
                mark=mark,
            )
        )

    # -- marks of ours --------------------------------------------------------------------------------

    def fill(self) -> None:
        """Free slots in the order of what they are worth: the sure read, the tail, the start, the lag."""
        place, recorded = self.config.place, recorded_tail(self.view)
        before = before_current(self.view, recorded) if "before_current" in place else None
        tail = self._tail() if "tail" in place else None
        if self.config.replace:
            self._make_room([spot for spot in (before, tail) if spot is not None])
        if self.free == 1 and self._is_open(before) and tail is not None and self._is_open(tail):
            self._put_only(tail, recorded)
        self._put(before, "previous tail")
        self._put(tail, "tail")
        self._put(end_of_batch(self.view), "end of a batch")
        self._put_start()
        for word in place:
            if isinstance(word, Every):
                self._put(lagging(self.view, recorded, self._marked(), word.every), LAGGING)

    def _put_only(self, tail: Spot, recorded: Spot | None) -> None:
        """The last free slot goes as far to the end as the lookback allows.

        On the previous tail it would be read, but nothing behind it written, turn after turn.
        """
        reach = self.view.facts.model.lookback - 1
        near = lagging(self.view, recorded, [*self._marked(), tail], reach)
        self._put(near or tail, "tail" if near is None else LAGGING)

    def _marked(self) -> list[Spot]:
        return [spot for spot, _ in self.all_marks()]

    def _is_open(self, spot: Spot | None) -> bool:
        return spot is not None and all(spot.order != other.order for other in self._marked())

    def _tail(self) -> Spot | None:
        """The end of the prompt. None where it is marked automatically, or left out by the client on purpose."""
        if self.automatic is not None or self._left_out():
            return None
        return last_carrier(self.conversation.messages, answers=False)

    def _left_out(self) -> bool:
        """Whether the client's last mark is on the model's last answer, with an unmarked turn behind it."""
        last = self.standing[-1].spot if self.standing else None
        answer = self.conversation.last(Role.ASSISTANT)
        return (
            last is not None
            and last.zone is Zone.TURNS
            and last.at == answer < len(self.conversation.messages) - 1
        )

    def _make_room(self, wanted: list[Spot]) -> None:
        marked = {one.spot.order for one in self.standing}
        missing = {spot.order for spot in wanted} - marked
        while self.free < len(missing) and any(
            one.spot.order not in {s.order for s in wanted} for one in self.standing
        ):
            self._settle(self._least(keep=wanted), None, "its slot is worth more elsewhere", required=False)

    def _put(self, spot: Spot | None, reason: str) -> None:
        if spot is None or self.free <= 0 or not self._is_open(spot):
            return
        mark = self._lifetime_at(spot)
        self._mark(spot.part, mark, reason, required=False)
        self.standing = sorted([*self.standing, Standing(spot, (mark,))], key=lambda one: one.spot.order)

    def _lifetime_at(self, spot: Spot) -> Mark:
        """What a new mark asks for: no longer than those before it, no shorter than those behind it [B9]."""
        marks = self.all_marks()
        if self.config.ttl == "client":
            wanted = next((mark for other, mark in reversed(marks) if other.zone is spot.zone), Mark())
        else:
            wanted = Mark(self.config.ttl)
        before = [mark for other, mark in marks if other.order < spot.order]
        behind = [mark for other, mark in marks if other.order > spot.order]
        wanted = max([wanted, *behind], key=seconds)
        return min([wanted, *before], key=seconds)

    def _put_start(self) -> None:
        """One mark at the end of what every session of this agent shares: the system prompt, else the tools."""
        marked = {one.spot.zone for one in self.standing}
        if Zone.SYSTEM in marked:
            return
        spot = system_end(self.view) if "system" in self.config.place else None
        if spot is None and "tools" in self.config.place and Zone.TOOLS not in marked:
            spot = tools_end(self.view)
        self._put(spot, "end of tools" if spot is not None and spot.zone is Zone.TOOLS else "system")
