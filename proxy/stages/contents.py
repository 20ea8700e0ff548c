"""What stands inside a tool result: its texts, and its media."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from ..conversation import Image, ToolResult
from ..rawjson import closed_object, encoded, is_array, items

MEDIA = ("image", "document", "image_url", "input_audio", "file", "video_url", "input_image", "input_file")
"""Blocks of a result that are no text, in any format."""

TEXTS = ("text", "input_text", "output_text")
"""Blocks of a result that are text, in any format."""


class _Block(Struct):
    type: str = ""
    text: str | None = None


_block = msgspec.json.Decoder(_Block)


def text_in(block: Raw | bytes) -> str | None:
    """What a text block says; None for any other. Raises ValidationError where its members are of other types."""
    read = _block.decode(block)
    return read.text if read.type in TEXTS else None


def split(part: ToolResult) -> tuple[list[Raw], list[Raw]]:
    """The blocks of a result that are no media, and those that are; a string has neither."""
    if part.content is None or not is_array(part.content):
        return [], []
    blocks = [(block, _block.decode(block).type in MEDIA) for block in items(part.content)]
    return [block for block, shown in blocks if not shown], [block for block, shown in blocks if shown]


def text_block(text: str, among: list[Raw]) -> bytes:
    """A text block as the format of these blocks spells one."""
    kinds = {_block.decode(block).type for block in among}
    name = "input_text" if any(kind.startswith("input_") for kind in kinds) else "text"
    return closed_object((("type", encoded(name)), ("text", encoded(text))))


def text_inside(part: ToolResult) -> str:
    """All texts of a result that say something, each from a line of its own on."""
    if part.content is None:
        return ""
    if not is_array(part.content):
        said = msgspec.json.decode(part.content)
        return said if isinstance(said, str) else part.content.decode()
    return "\n".join(text for block in items(part.content) if (text := _said(block)))


def _said(block: Raw) -> str | None:
    """The text of a block; all of it where it is of a form of its own, of which nothing more is known."""
    return text_in(block) if _block.decode(block).type else bytes(block).decode()


def images(blocks: list[Raw]) -> Iterator[Image]:
    """Media blocks as parts of a message."""
    for block in blocks:
        yield Image(raw=block.copy(), media_type="", data_bytes=len(block), size=len(block))
