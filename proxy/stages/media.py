"""Images: those that the upstream would refuse (`limits.py`), and those in results where it takes text alone [A105].

The latter go, with a line that says whose they are, into a user message behind all results of the turn; the result says
so in their place. All of it is promised under the last result of the turn, behind which they stand.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, structs

from ..branch import Promise
from ..conversation import Message, Part, Reminder, Role, Source, Text, ToolResult
from ..edits import Edit, InsertAfter, Replace, Target, apply, target_of
from ..rawjson import closed_array
from . import limits
from .alternate import BETWEEN
from .contents import images, split, text_block
from .view import Proposal, View, weight

NAME = "media"
APART = f"{NAME}.apart"
"""In whose name images leave results: a result may be the anchor of what is done to an image of its own as well."""

# The model reads these. Changing one invalidates every prompt cache behind it.
ELSEWHERE = "[{count} image(s) of this result: see the user message behind the tool results]"
LABEL = "[Image(s) of the result of tool call {call_id}]"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`results`: move images out of tool results where the upstream refuses them there.

    `limits`: make images smaller that are over the provider's limits, and put a note in the place of those that are
    too many or no images at all.
    """

    results: bool = True
    limits: bool = True


def propose(view: View, config: Config) -> Proposal:
    """What arrived first, then all that stands there, then where it stands."""
    if not config.limits:
        return Proposal(promises=_apart(view, config))
    arriving = limits.arriving(view)
    view = _after(view, arriving)
    standing = limits.standing(view)
    apart = _apart(_after(view, standing), config)
    promises = (*arriving.promises, *standing.promises, *apart)
    return Proposal(promises=promises, held=standing.held)


def _after(view: View, proposal: Proposal) -> View:
    edits = [edit for promise in proposal.promises for edit in promise.edits]
    if not edits:
        return view
    return structs.replace(view, conversation=apply(view.conversation, edits, view.start)[0])


def _apart(view: View, config: Config) -> tuple[Promise, ...]:
    """Results of turns not sent before."""
    if not config.results or view.facts.model.result_images or not view.rules.results_apart:
        return ()
    messages = view.conversation.messages
    places = range(view.start, len(messages))
    return tuple(made for at in places for made in _moved(view, messages[at]))


def _moved(view: View, message: Message) -> Iterator[Promise]:
    new = [part for part in message.parts if isinstance(part, ToolResult) and view.region(part) is not None]
    edits = [edit for part in new for edit in _out_of(view, part, target_of(new[-1]))]
    if edits:
        yield Promise(anchor=new[-1].key, nth=new[-1].nth, stage=APART, edits=tuple(edits))


def _out_of(view: View, part: ToolResult, last: Target) -> Iterator[Edit]:
    texts, media = split(part)
    if not media:
        return
    told = text_block(ELSEWHERE.format(count=len(media)), media)
    bare = structs.replace(part, content=closed_array([*texts, told]))
    yield Replace(
        stage=NAME,
        reason="results hold text alone here [A105]",
        target=target_of(part),
        part=bare,
        required=True,
        tokens_before=weight(part),
        tokens_after=(sum(map(len, texts)) + len(told)) // 4,
    )
    if not view.facts.model.user_after_results:  # [A430]
        yield _behind(last, Text(text=BETWEEN, size=len(BETWEEN)), Role.ASSISTANT)
    label = LABEL.format(call_id=part.call_id)
    shown: list[Part] = [
        Reminder(text=label, source=Source.TOOL_RESULT, name="images", size=len(label)),
        *images(media),
    ]
    for one in shown:
        yield _behind(last, one, Role.USER)


def _behind(last: Target, part: Part, role: Role) -> InsertAfter:
    return InsertAfter(
        stage=NAME,
        reason="images of a result [A105]",
        target=last,
        part=part,
        role=role,
        required=True,
        tokens_after=weight(part),
    )
