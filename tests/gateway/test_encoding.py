"""Content encodings open piece by piece, and no further than the limit."""

import gzip
import random
import zlib

import brotli
import pytest

from proxy.errors import BodyEncodingError, BodyTooLarge
from proxy.gateway.encoding import opened, opener_for, zstd

LIMIT = 2**24


def bare_deflate(data):
    maker = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return maker.compress(data) + maker.flush()


ENCODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate bare": bare_deflate,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "identity": bytes,
}
PLAIN = bytes(random.Random(7).choices(b"abcdefgh \n", k=200_000)) + b"x" * 1_500_000
"""Noise that does not shrink, then a run that does: both ways a piece can end."""


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("step", [1, 7, 1000, 2**30])
def test_any_cut_opens_to_the_same_bytes(encoding, step):
    """However the wire cuts it, and also where one step unfolds to more than a piece."""
    plain = PLAIN if step > 1 else PLAIN[:3000]
    packed = ENCODERS[encoding](plain)
    opener = opener_for(encoding.split()[0])
    pieces = [
        piece for start in range(0, len(packed), step) for piece in opener.feed(packed[start : start + step])
    ]
    opener.finish()
    assert b"".join(pieces) == plain
    if encoding != "identity":
        assert max(map(len, pieces)) < 2**20


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_members_may_follow_one_another(encoding):
    """Two bodies in a row are one body."""
    pack = ENCODERS[encoding]
    assert opened(pack(b"one ") + pack(b"two"), encoding, LIMIT) == b"one two"


def test_layers_come_off_in_reverse():
    """The last encoding applied is the first undone; case and spaces are nothing."""
    assert opened(brotli.compress(gzip.compress(b"x" * 10_000)), "GZIP , br", LIMIT) == b"x" * 10_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "deflate bare", "br", "zstd"])
def test_a_bomb_stops_at_the_limit(encoding):
    """What unfolds a thousandfold is refused before it is held."""
    bomb = ENCODERS[encoding](bytes(2**26))
    with pytest.raises(BodyTooLarge):
        opened(bomb, encoding.split()[0], 2**20)


def test_a_bomb_in_layers_stops_at_the_limit():
    """Layers do not hide it."""
    with pytest.raises(BodyTooLarge):
        opened(gzip.compress(gzip.compress(bytes(2**26))), "gzip, gzip", 2**20)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize(
    "spoil", [lambda b: b[:-3], lambda b: b"junk" + b, lambda b: b"\xff" * 40, lambda b: b[:1]]
)
def test_what_is_broken_is_refused(encoding, spoil):
    """Cut short, or never of that kind."""
    with pytest.raises(BodyEncodingError):
        opened(spoil(ENCODERS[encoding](PLAIN[:5000])), encoding, LIMIT)


@pytest.mark.parametrize("encoding", ["compress", "gzip, lz4", "gzip,gzip,gzip,gzip"])
def test_what_is_unknown_is_refused(encoding):
    """Names outside the table, and towers of names."""
    with pytest.raises(BodyEncodingError, match="is not known"):
        opener_for(encoding)
