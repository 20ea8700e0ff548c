"""A deterministic token count: by bytes, at the density of the model's tokenizer.

A real vocabulary would cost 40 MB and gain nothing here: what a cache needs is that equal text
counts equal, that counts add up, and that they grow with the text.
"""

import base64
import binascii
import math
import struct
from typing import Any

from .models import Model


def of_text(text: str, model: Model) -> int:
    """Tokens of a piece of text; nothing counts nothing."""
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) * model.tokens_per_byte)


def of_bytes(size: int, model: Model) -> int:
    """Tokens of a rendered piece of `size` bytes."""
    return math.ceil(size * model.tokens_per_byte)


def of_image(source: dict[str, Any], model: Model) -> int:
    """Visual tokens of an image: one for 28 by 28 pixels after the downscale, capped [A38]."""
    width, height = dimensions(decoded(source)) if source.get("type") == "base64" else (0, 0)
    if not width or not height:
        return model.image_tokens
    scale = min(1.0, model.image_edge / max(width, height))
    count = math.ceil(width * scale / 28) * math.ceil(height * scale / 28)
    return min(count, model.image_tokens)


def decoded(source: dict[str, Any]) -> bytes:
    """The first bytes of a base64 source, enough for its header; empty if it is none."""
    data = source.get("data")
    if not isinstance(data, str):
        return b""
    head = data[: 4 * 16384]
    try:
        return base64.b64decode(head[: len(head) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def _webp(raw: bytes) -> tuple[int, int]:
    match raw[12:16]:
        case b"VP8X":
            return int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1
        case b"VP8L":
            (bits,) = struct.unpack("<I", raw[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", raw[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return 0, 0


def dimensions(raw: bytes) -> tuple[int, int]:
    """Width and height in pixels of a png, gif, jpeg or webp header; zeros where unreadable."""
    try:
        if raw[:8] == b"\x89PNG\r\n\x1a\n":
            return struct.unpack(">II", raw[16:24])
        if raw[:6] in (b"GIF87a", b"GIF89a"):
            return struct.unpack("<HH", raw[6:10])
        if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
            return _webp(raw)
        if raw[:3] == b"\xff\xd8\xff":
            return _jpeg(raw)
    except struct.error:
        return 0, 0
    return 0, 0


def _jpeg(raw: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 < len(raw) and raw[at] == 0xFF:
        kind = raw[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", raw[at + 2 : at + 4])[0]
    return 0, 0


def media_type(raw: bytes) -> str | None:
    """The media type the bytes themselves show, or None."""
    if raw[:8] == b"\x89PNG\r\n\x1a\n":
        return "image/png"
    if raw[:3] == b"\xff\xd8\xff":
        return "image/jpeg"
    if raw[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp"
    return None
