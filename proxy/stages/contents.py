"""What stands inside a tool result: its texts, and its media."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Raw, Struct

from ..conversation import Image, ToolResult
from ..errors import BodyError
from ..identity import MARKS
from ..rawjson import closed_array, closed_object, encoded, is_array, is_string, items, members

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


def saying(part: ToolResult, text: str) -> ToolResult:
    """The result with this text alone in it; where it was a list of blocks it is one still."""
    old = part.content or b""
    content = encoded(text) if is_string(old) else closed_array([text_block(text, items(old))])
    size = part.size - len(old) + len(content)
    return ToolResult(call_id=part.call_id, content=content, is_error=part.is_error, size=size)


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


_string = msgspec.json.Decoder(str)


def text_of(content: bytes) -> str | None:
    """The text of a result's content, blocks that say something joined by line ends; None where it holds anything but text."""
    try:
        if is_string(content):
            return _string.decode(content)
        blocks = [_text_of(block) for block in items(content)] if is_array(content) else []
    except (msgspec.DecodeError, BodyError):
        return None
    texts = [text for text in blocks if text is not None]
    return "\n".join(filter(None, texts)) if texts and len(texts) == len(blocks) else None


def _text_of(raw: Raw) -> str | None:
    """The text of a block that says nothing else; a mark is no content [B1]."""
    more = {name for name, value in members(raw) if bytes(value) != b"null"} - {
        "type",
        "text",
        *MARKS,
    }
    return None if more else text_in(raw)


# -- texts said otherwise -----------------------------------------------------------------------------------


def retold(content: bytes, say: Callable[[str], str | None]) -> bytes | None:
    """The content with each of its texts as `say` gives it, all else as it is; None where `say` changes none."""
    if not is_array(content):
        return _retold(content, say)
    blocks = items(content)
    new = [_retold_block(block, say) for block in blocks]
    if all(one is None for one in new):
        return None
    return closed_array(one or block for one, block in zip(new, blocks, strict=True))


def _retold_block(raw: Raw, say: Callable[[str], str | None]) -> bytes | None:
    """A text block with its text said otherwise, all its other members as they are."""
    try:
        text = text_in(raw)
        opened: Sequence[tuple[str, Raw]] = members(raw)
    except (msgspec.ValidationError, BodyError):
        return None
    new = say(text) if text is not None else None
    if new is None:
        return None
    return closed_object((name, encoded(new) if name == "text" else value) for name, value in opened)


def _retold(raw: bytes, say: Callable[[str], str | None]) -> bytes | None:
    """A JSON string said otherwise; None for what is none."""
    text = msgspec.json.decode(raw)
    new = say(text) if isinstance(text, str) else None
    return None if new is None else encoded(new)
