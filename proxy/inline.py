"""An image that stands in a request as base64, in the block of any format.

`source` of Anthropic's blocks, a data URL in those of OpenAI's two formats, `inlineData` of Gemini's parts. What is read is
the block's own slice; what is put in its place leaves every other member as it is.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from .errors import BodyError
from .rawjson import closed_object, encoded, is_string, members

Pairs = list[tuple[str, Raw | bytes]]

_DATA_URL = re.compile(r"data:(image/[^;,]*)(?:;[^;,]*)*;base64,")
_URLS = ("image_url", "url")
_SOURCES = ("source", "inlineData", "inline_data")
_TYPES = ("media_type", "mimeType", "mime_type")
_string = msgspec.json.Decoder(str)


class Inline(Struct, frozen=True):
    """The file as base64, and the media type it is said to have."""

    media_type: str
    data: str


ELSEWHERE = Inline("", "")
"""An image of which no more is known than that it is one."""

_SHOWN = (b'"image"', b'"image_url"', b'"input_image"')


def inline(block: Raw | bytes) -> Inline | None:
    """The image of a block, `ELSEWHERE` where that is behind a URL or an id; None for documents, sounds and all else."""
    try:
        named = dict(members(block))
        if "type" in named and bytes(named["type"]) not in _SHOWN:
            return None
        found = next((one for name, raw in named.items() if (one := _read(name, raw)) is not None), None)
    except (BodyError, msgspec.DecodeError):
        return None
    return ELSEWHERE if found is None and "type" in named else found


def _read(name: str, raw: Raw | bytes) -> Inline | None:
    if name in _URLS and is_string(raw):
        url = _string.decode(raw)
        head = _DATA_URL.match(url)
        return Inline(head[1], url[head.end() :]) if head else None
    if name in _URLS:
        return next(
            (found for inner, value in members(raw) if (found := _read(inner, value)) is not None), None
        )
    if name not in _SOURCES:
        return None
    inner = dict(members(raw))
    kind = next((_string.decode(inner[one]) for one in _TYPES if one in inner), "")
    if "data" not in inner or (name != "source" and not kind.startswith("image/")):
        return None
    return Inline(kind, _string.decode(inner["data"]))


def with_inline(block: Raw | bytes, image: Inline) -> bytes:
    """The block with another image in its place. Raises BodyError where it has none."""
    pairs: Pairs = [*members(block)]
    for at, (name, raw) in enumerate(pairs):
        if _read(name, raw) is not None:
            pairs[at] = (name, _written(name, raw, image))
            return closed_object(pairs)
    raise BodyError("no image stands in this block")


def _written(name: str, raw: Raw | bytes, image: Inline) -> bytes:
    if name in _URLS and is_string(raw):
        return encoded(f"data:{image.media_type};base64,{image.data}")
    inner: Pairs = [*members(raw)]
    if name in _URLS:
        return closed_object(
            (key, _written(key, value, image) if key in _URLS else value) for key, value in inner
        )
    new = {
        "data": encoded(image.data),
        **{key: encoded(image.media_type) for key, _ in inner if key in _TYPES},
    }
    return closed_object((key, new.get(key, value)) for key, value in inner)


def base_of(base: Raw | None, image: Inline) -> Raw | None:
    """What a part that began as this block leaves as: with `image` in its place, if there is one."""
    return base if base is None or not image.data else Raw(with_inline(base, image))
