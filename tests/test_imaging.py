"""Images made smaller: within the limits, by the same bytes the same bytes, and nothing raised by what is none."""

import zlib
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from proxy.images import image_size, media_type
from proxy.imaging import KEPT_BYTES, MAX_PIXELS, Picture, smaller


def drawn(mode: str, size: tuple[int, int], kind: str = "PNG", **options: object) -> bytes:
    """A picture with something on it."""
    image = Image.radial_gradient("L").resize(size).convert(mode)
    made = BytesIO()
    image.save(made, kind, **options)
    return made.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        drawn("RGB", (300, 90)),
        drawn("RGBA", (90, 300)),
        drawn("P", (300, 300)),
        drawn("LA", (300, 300)),
        drawn("1", (300, 300)),
        drawn("I;16", (300, 300)),
        drawn("CMYK", (300, 90), "JPEG"),
        drawn("P", (300, 90), "GIF"),
        drawn("RGBA", (300, 90), "WEBP"),
    ],
)
def test_every_kind_of_image_is_made_smaller(data: bytes) -> None:
    """Within the side, in proportion, by the same bytes the same bytes."""
    made = smaller(data, 100, 1_000_000)
    assert made is not None
    assert made.media_type == media_type(made.data)
    (width, height), old = image_size(made.data) or (0, 0), image_size(data) or (0, 0)
    assert max(width, height) == 100
    assert abs(width * old[1] / (height * old[0]) - 1) < 0.05
    assert smaller(data, 100, 1_000_000) == made


def test_a_photograph_fits_into_the_bytes_there_are() -> None:
    """As a JPEG if it is too long for a PNG, and smaller if it is too long for that."""
    noise = Image.effect_noise((1200, 1200), 90).convert("RGB")
    file = BytesIO()
    noise.save(file, "PNG")
    made = smaller(file.getvalue(), 2000, 100_000_000)
    assert made is not None
    assert (made.media_type, len(made.data) <= KEPT_BYTES) == ("image/jpeg", True)
    tiny = smaller(file.getvalue(), 2000, 20_000)
    assert tiny is not None
    assert len(tiny.data) <= 20_000
    assert smaller(file.getvalue(), 2000, 100) is None


def test_an_image_stays_upright() -> None:
    """A camera writes how it was held, which the new file no longer says."""
    exif = Image.Exif()
    exif[0x0112] = 6
    made = smaller(drawn("RGB", (400, 200), "JPEG", exif=exif), 100, 1_000_000)
    assert made is not None
    assert image_size(made.data) == (50, 100)


def test_a_bomb_is_not_decoded() -> None:
    """A few kilobytes may say that they are gigabytes of pixels."""
    data = bytearray(drawn("1", (8, 8)))
    data[16:24] = (60_000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    assert image_size(bytes(data)) == (60_000, 60_000)
    assert 60_000**2 > MAX_PIXELS
    assert smaller(bytes(data), 100, 1_000_000) is None


PICTURES = [drawn("RGB", (200, 90), kind) for kind in ("PNG", "JPEG", "GIF", "WEBP")]


@settings(deadline=None)
@given(st.sampled_from(PICTURES), st.data())
def test_a_damaged_file_is_no_error(data: bytes, draw: st.DataObject) -> None:
    """Whatever is wrong with it: there is a smaller picture or none."""
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        damaged[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    cut = bytes(damaged[: draw.draw(st.integers(0, len(data)))])
    assert isinstance(smaller(cut, 50, 1_000_000), Picture | None)
