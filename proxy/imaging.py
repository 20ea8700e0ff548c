"""Images made smaller, with Pillow where it is installed (`stet-proxy[media]`).

Bytes in, bytes out, nothing else: the same bytes by one version of Pillow. Other versions may give others, so what was
made once is kept, not made again. Nothing is decoded that would take more than `MAX_PIXELS` in memory.
"""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .images import image_size

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 50_000_000
"""Of what is decoded: 200 MB at four bytes each."""

KEPT_BYTES = 786_432
"""Most bytes of a file that is made: it is kept for as long as the conversation, and 1 MB as base64."""

FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
QUALITY = 85
SMALLEST = 64
"""Pixels of a side below which nothing is made smaller to save bytes."""


class Picture(Struct, frozen=True):
    """A file of an image."""

    media_type: str
    data: bytes


def available() -> bool:
    """Whether Pillow is installed."""
    try:
        import PIL.Image  # noqa: F401, PLC0415  an extra, and slow to load: only where an image is to be made
    except ImportError:
        return False
    return True


def smaller(data: bytes, side: int, size: int) -> Picture | None:
    """The image within `side` pixels either way and `size` bytes, the first frame of several.

    None where Pillow is not installed, where it is too large to be decoded, or no image at all.
    """
    found = image_size(data)
    if found is None or found[0] * found[1] > MAX_PIXELS or not available():
        return None
    try:
        return _fitted(_opened(data, side), side, min(size, KEPT_BYTES))
    # What Pillow raises on damaged files, by format: none of it says more than that this is one.
    except (OSError, SyntaxError, ValueError, TypeError, EOFError, LookupError, struct.error, zlib.error):
        return None


def _opened(data: bytes, side: int) -> Image:
    """The pixels, upright, in a mode that every encoder takes."""
    from PIL import Image, ImageOps  # noqa: PLC0415  see `available`

    image: Image.Image = Image.open(BytesIO(data), formats=FORMATS)
    image.draft(None, (side, side))  # a JPEG is decoded no larger than need be
    image.load()
    image = ImageOps.exif_transpose(image)
    opaque = image.mode in ("1", "L", "RGB", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "I;16") and (
        "transparency" not in image.info
    )
    return image.convert("RGB" if opaque else "RGBA")


def _fitted(image: Image, side: int, size: int) -> Picture | None:
    from PIL import Image as Pillow  # noqa: PLC0415  see `available`

    while side >= SMALLEST:
        shrunk = image.copy()
        shrunk.thumbnail((side, side), Pillow.Resampling.LANCZOS)
        for made in (_saved(shrunk, "PNG"), _saved(_flat(shrunk), "JPEG", quality=QUALITY)):
            if len(made.data) <= size:
                return made
        side = min(side, max(shrunk.size)) * 3 // 4
    return None


def _flat(image: Image) -> Image:
    """On white, for formats that know no transparency."""
    from PIL import Image as Pillow  # noqa: PLC0415  see `available`

    if image.mode == "RGB":
        return image
    white = Pillow.new("RGBA", image.size, "white")
    return Pillow.alpha_composite(white, image).convert("RGB")


def _saved(image: Image, kind: str, **options: Any) -> Picture:
    made = BytesIO()
    image.save(made, kind, **options)
    return Picture(f"image/{kind.lower()}", made.getvalue())
