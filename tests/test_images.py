"""The size of an image is read from its head, and gives its price in tokens."""

from __future__ import annotations

import base64
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from proxy.images import base64_image_size, image_size, image_tokens


def picture(form: str, size: tuple[int, int], **options: object) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, (200, 30, 30)).save(out, form, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("PNG", {}), ("GIF", {}), ("JPEG", {}), ("JPEG", {"progressive": True}),
        ("JPEG", {"icc_profile": b"x" * 150_000, "comment": b"y" * 999}), ("WEBP", {}), ("WEBP", {"lossless": True}),
        ("WEBP", {"icc_profile": b"x" * 500}),
    ],
)  # fmt: skip
def test_the_size_is_read_from_files_of_a_real_encoder(form: str, options: dict[str, object]) -> None:
    data = picture(form, (321, 123), **options)
    assert image_size(data) == (321, 123)
    assert base64_image_size(base64.b64encode(data)) == (321, 123)
    assert base64_image_size(base64.b64encode(data).decode()) == (321, 123)


@pytest.mark.parametrize("form", ["PNG", "GIF", "JPEG", "WEBP"])
def test_a_file_cut_anywhere_has_a_size_or_none_and_never_a_wrong_one(form: str) -> None:
    data = picture(form, (321, 123))
    assert {image_size(data[:end]) for end in range(min(len(data), 900))} <= {None, (321, 123)}
    assert image_size(data[:9]) is None


@given(
    st.binary(max_size=64),
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff", b"RIFF0000WEBPVP8 "]),
)
def test_any_bytes_are_answered(tail: bytes, head: bytes) -> None:
    size = image_size(head + tail)
    assert size is None or (size[0] > 0 and size[1] > 0)


def test_what_is_no_base64_has_no_size() -> None:
    assert base64_image_size("abc\N{SNOWMAN}") is None
    assert base64_image_size("") is None
    assert base64_image_size("https://example.invalid/a.png") is None


@pytest.mark.parametrize(
    ("size", "cap", "edge", "tokens"),
    [
        ((28, 28), 1568, 1568, 1), ((29, 28), 1568, 1568, 2), ((1000, 1000), 1568, 1568, 36 * 36),
        ((1568, 1568), 1568, 1568, 1568), ((4000, 1000), 1568, 1568, 56 * 14), ((8000, 1), 1568, 1568, 56),
        ((2576, 2576), 4784, 2576, 4784), ((2576, 1000), 4784, 2576, 92 * 36), (None, 4784, 2576, 4784),
    ],
)  # fmt: skip
def test_an_image_costs_its_patches_after_scaling_down_to_the_cap(
    size: tuple[int, int] | None, cap: int, edge: int, tokens: int
) -> None:
    """A38"""
    assert image_tokens(size, cap, edge) == tokens


def test_padding_and_bare_markers_before_the_frame_of_a_jpeg_are_passed_over() -> None:
    frame = b"\xff\xc0\x00\x11\x08" + (123).to_bytes(2, "big") + (321).to_bytes(2, "big") + b"\x03"
    assert image_size(b"\xff\xd8\xff\xd0" + b"\xff" + frame) == (321, 123)
    assert image_size(b"\xff\xd8\x00" + frame) is None
