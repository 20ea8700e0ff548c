"""Images that the provider would refuse [A37 F5]: too large, too many, or not what they say.

On arrival, and then for ever: one that is over a limit is made smaller, one that is no image becomes a note, and a
wrong media type is corrected by the file's first bytes. As soon as a request holds many images a stricter limit holds for
all of them, old ones too, so that one large screenshot blocks a session twenty pictures later: what arrives is held
to that limit from the start.

What stands there already can be changed only behind everybody's back and at a price, so it is done where the provider
would refuse the request otherwise: large ones are made smaller once there are many, and of too many the oldest
become notes, a quarter of the limit at once, so that it does not come back with each new one.

A file that is made is kept in the promise: another version of Pillow would make another.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import partial

from msgspec import Raw, Struct, structs

from ..branch import Break, Promise
from ..conversation import Conversation, Image, Message, Part, Text, ToolResult
from ..edits import Edit, Held, Replace, target_of
from ..images import Size, base64_image_size, image_size, media_type
from ..imaging import smaller
from ..inline import ELSEWHERE, Inline, inline, with_inline
from ..modelfacts import ModelFacts
from ..rawjson import closed_array, is_array, items
from ..runs import runs
from .batch import Obstacle, anchor, batch
from .contents import text_block
from .view import Proposal, Region, View, causal, weight

NAME = "media"
MANY = f"{NAME}.many"
"""In whose name old images are changed; an arriving one may be the anchor of both."""

# The model reads these. Changing a word invalidates every prompt cache behind it.
NOTE = "[Image left out here{said}. {why} Nothing else was changed.]"
BROKEN = "It could not be read."
LARGE = "It is larger than what can be sent."
SURPLUS = "The conversation held more images than can be sent; this was one of the oldest."

SPARE = 4
"""One image in so many goes at once where there are too many."""


def arriving(view: View) -> Proposal:
    """What is wrong with images not sent before."""
    edits: list[Edit] = []
    for _, part, region in view.fresh():
        if isinstance(part, Image | ToolResult):
            edit = _changed(part, partial(_mended, model=view.facts.model, region=region))
            if edit is not None:
                edits.append(edit)
    return causal(NAME, edits)


# -- one image ----------------------------------------------------------------------------------------------------


class _Verdict(Struct, frozen=True):
    """What stands in the place of an image: another one, or a note; and why. `required`: as it came it is refused."""

    reason: str
    image: Inline | None = None
    note: str = ""
    required: bool = True


_Judge = Callable[[Inline], _Verdict | None]


def _mended(found: Inline, model: ModelFacts, region: Region) -> _Verdict | None:
    if found is ELSEWHERE:
        return None
    data = _decoded(found.data)
    kind = media_type(data) if data is not None else None
    if not model.image_checked:
        if kind in (None, found.media_type) or region is not Region.NEW:
            return None
        return _renamed(found, str(kind), required=False)
    size = image_size(data) if data is not None else None
    if data is None or kind is None or size is None:
        return _Verdict("no image that can be read [A37]", note=_note(found, None, BROKEN))
    over = len(found.data) > model.image_max_bytes or max(size) > model.image_max_side
    if over or (region is Region.NEW and max(size) > model.image_many_side):
        return _scaled(found, data, model, required=over) or _left(found, kind)
    return _left(found, kind)


def _left(found: Inline, kind: str) -> _Verdict | None:
    return None if kind == found.media_type else _renamed(found, kind, required=True)


def _renamed(found: Inline, kind: str, *, required: bool) -> _Verdict:
    reason = f"the file is {kind}, not {found.media_type or 'without a type'} [A37]"
    return _Verdict(reason, image=Inline(kind, found.data), required=required)


def _scaled(found: Inline, data: bytes, model: ModelFacts, *, required: bool) -> _Verdict | None:
    """Smaller; a note where that cannot be done and it would be refused."""
    made = smaller(data, model.image_many_side, model.image_max_bytes * 3 // 4 - 2)
    if made is not None:
        reason = f"over {model.image_many_side} pixels or {model.image_max_bytes} bytes [A37 F5]"
        new = Inline(made.media_type, b64encode(made.data).decode())
        return _Verdict(reason, image=new, required=required)
    if not required:
        return None
    return _Verdict("larger than what the provider takes [A37]", note=_note(found, image_size(data), LARGE))


def _decoded(data: str) -> bytes | None:
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError):
        return None


def _note(found: Inline, size: Size | None, why: str) -> str:
    kind = found.media_type if found.media_type.isascii() and len(found.media_type) < 64 else ""
    pixels = f"{size[0]}x{size[1]} pixels" if size else ""
    length = f"{len(found.data) * 3 // 4000} kB" if found.data else ""
    said = ", ".join(filter(None, (kind, pixels, length)))
    return NOTE.format(said=f": {said}" if said else "", why=why)


# -- the part it stands in ------------------------------------------------------------------------------------------


def _changed(part: Image | ToolResult, judge: _Judge, *, committed: bool = False) -> Replace | None:
    """The part with each image as judged; None where all stay."""
    new: Part
    if isinstance(part, Image):
        found = next(_images(part), None)
        verdict = judge(found) if found is not None else None
        if verdict is None:
            return None
        verdicts, new = [verdict], _instead(verdict)
    else:
        if not part.images or part.server or part.content is None or not is_array(part.content):
            return None
        blocks = items(part.content)
        judged = [judge(found) if (found := inline(block)) is not None else None for block in blocks]
        verdicts = [verdict for verdict in judged if verdict is not None]
        if not verdicts:
            return None
        pieces = [_block(b, v, blocks) for b, v in zip(blocks, judged, strict=True)]
        content = closed_array(pieces)
        gone = sum(verdict.image is None for verdict in verdicts)
        size = part.size - len(part.content) + len(content)
        new = structs.replace(part, content=content, size=size, images=part.images - gone)
    return Replace(
        stage=NAME,
        reason=verdicts[0].reason,
        target=target_of(part),
        part=new,
        required=any(verdict.required for verdict in verdicts),
        committed=committed,
        tokens_before=weight(part),
        tokens_after=new.size // 4,
    )


def _instead(verdict: _Verdict) -> Part:
    if verdict.image is None:
        return Text(text=verdict.note, size=len(verdict.note))
    made = verdict.image
    return Image(
        media_type=made.media_type, data_bytes=len(made.data), data=made.data, size=len(made.data) + 100
    )


def _block(block: Raw, verdict: _Verdict | None, among: list[Raw]) -> Raw | bytes:
    if verdict is None:
        return block
    return with_inline(block, verdict.image) if verdict.image is not None else text_block(verdict.note, among)


# -- all images of a request ----------------------------------------------------------------------------------------


def standing(view: View) -> Proposal:
    """What has to be done about images that stand there, because of how many they are."""
    model, conversation = view.facts.model, view.conversation
    if not model.image_checked:
        return Proposal()
    shown = (message for run in runs(conversation) if run.media for message in run.messages)
    sides = [side for message in shown for side in _sides(message)]
    if len(sides) <= model.image_many:
        return Proposal()
    surplus = 0
    if len(sides) > model.image_max_count:
        surplus = len(sides) - (model.image_max_count - model.image_max_count // SPARE)
    if not surplus and max(sides) <= model.image_many_side:
        return Proposal()
    edits = [*_thinned(conversation, model, surplus)]
    if not edits:
        return Proposal()
    made = _promised(view, edits)
    if isinstance(made, Promise):
        return Proposal(promises=(made,))
    return Proposal(
        held=(Held(stage=NAME, reason=made.reason, targets=len(edits), breaks_tokens=0, saves_tokens=0),)
    )


def _promised(view: View, edits: list[Edit]) -> Promise | Obstacle:
    """Before the first answer all is new, and nothing is broken: the promise stands under the last part."""
    made = batch(view, MANY, edits, Break(0, 0.0, 0.0), forced=True)
    parts = [part for message in view.client.messages for part in message.parts if not part.nth]
    if isinstance(made, Obstacle) and anchor(view.conversation) is None and parts:
        return Promise(anchor=parts[-1].key, stage=MANY, edits=tuple(edits))
    return made


_SIDES = "sides of images"


def _sides(message: Message) -> tuple[int, ...]:
    """The longer side of each image of a message in pixels, 0 where it is not known; kept with the message."""
    if not message.tally.media:
        return ()
    known: tuple[int, ...] | None = message.__dict__.get(_SIDES)
    if known is None:
        found = (one for part in message.parts for one in _images(part))
        known = message.__dict__[_SIDES] = tuple(map(_side, found))
    return known


def _images(part: Part) -> Iterator[Inline]:
    match part:
        case Image(data=data, media_type=kind) if data:
            yield Inline(kind, data)
        case Image(raw=raw, base=base):
            found = inline(raw if raw is not None else base or b"{}")
            yield from () if found is None else (found,)
        case ToolResult(images=images, content=bytes() as content) if images and is_array(content):
            yield from (found for block in items(content) if (found := inline(block)) is not None)
        case _:
            pass


def _side(found: Inline) -> int:
    return max(base64_image_size(found.data) or (0,))


def _thinned(conversation: Conversation, model: ModelFacts, surplus: int) -> Iterator[Edit]:
    """The oldest `surplus` images become notes, others that are too large for so many smaller."""
    left = [surplus]

    def judge(found: Inline) -> _Verdict | None:
        if left[0] > 0:
            left[0] -= 1
            size = base64_image_size(found.data)
            return _Verdict("more images than the provider takes [A37]", note=_note(found, size, SURPLUS))
        data = _decoded(found.data) if _side(found) > model.image_many_side else None
        return _scaled(found, data, model, required=True) if data is not None else None

    for message in conversation.messages:
        for part in message.parts if message.tally.media else ():
            if isinstance(part, Image | ToolResult):
                edit = _changed(part, judge, committed=True)
                if edit is not None:
                    yield edit
