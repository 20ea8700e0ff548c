"""How large an image is and what it costs, from the first bytes of its file [A38]. Nothing is decoded."""

from __future__ import annotations

import base64
import binascii
from typing import TypeAlias

Size: TypeAlias = tuple[int, int]
"""Width and height in pixels."""

_PATCH = 28
_HEAD_CHARS = 1 << 18  # a JPEG may carry a colour profile and a thumbnail before its size
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})


def image_tokens(size: Size | None, cap: int = 1568, long_edge: int = 1568) -> int:
    """Tokens of one image: patches of 28 pixels after it is scaled down to `long_edge` pixels, `cap` at most [A38].

    An unknown size costs `cap`.
    """
    if size is None:
        return cap
    width, height = size
    longer = max(width, height)
    if longer > long_edge:
        width, height = max(1, width * long_edge // longer), max(1, height * long_edge // longer)
    return min(cap, -(-width // _PATCH) * -(-height // _PATCH))


def base64_image_size(data: bytes | str) -> Size | None:
    """As `image_size`, of a file in base64; only its head is decoded."""
    head = data[:_HEAD_CHARS]
    try:
        return image_size(base64.b64decode(head[: len(head) // 4 * 4]))
    except (binascii.Error, ValueError):
        return None


def image_size(data: bytes) -> Size | None:
    """Size of a PNG, JPEG, GIF or WebP file from its head; None for any other or a damaged one."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        size = _png(data)
    elif data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        size = (_le(data, 6, 2), _le(data, 8, 2))
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg(data)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        size = _webp(data)
    else:
        return None
    return size if size[0] > 0 and size[1] > 0 else None


def media_type(data: bytes) -> str | None:
    """What a file is by its first bytes; None where that is none of PNG, JPEG, GIF and WebP."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def _be(data: bytes, start: int, length: int) -> int:
    return int.from_bytes(data[start : start + length], "big")


def _le(data: bytes, start: int, length: int) -> int:
    return int.from_bytes(data[start : start + length], "little")


def _png(data: bytes) -> Size:
    if data[12:16] != b"IHDR" or len(data) < 24:
        return 0, 0
    return _be(data, 16, 4), _be(data, 20, 4)


def _jpeg(data: bytes) -> Size:
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _BARE:
            at += 2
        elif marker in _FRAMES:
            return _be(data, at + 7, 2), _be(data, at + 5, 2)
        else:
            at += 2 + max(2, _be(data, at + 2, 2))
    return 0, 0


def _webp(data: bytes) -> Size:
    match data[12:16]:
        case b"VP8 " if len(data) >= 30:
            return _le(data, 26, 2) & 0x3FFF, _le(data, 28, 2) & 0x3FFF
        case b"VP8L" if len(data) >= 25:
            bits = _le(data, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X" if len(data) >= 30:
            return _le(data, 24, 3) + 1, _le(data, 27, 3) + 1
        case _:
            return 0, 0
