"""The signature on a thinking block: opaque to clients, readable to the provider that made it."""

import base64
import binascii
import hashlib
import struct

import msgspec

_MAGIC = b"sim\x01"
_FILL = 96


class Seal(msgspec.Struct, frozen=True):
    """What a signature says: a digest that names the block, and how many tokens it weighs."""

    digest: bytes
    tokens: int


def seal(material: bytes, tokens: int) -> str:
    """The signature of a thinking block made from this material."""
    digest = hashlib.blake2b(material, digest_size=24).digest()
    fill = hashlib.shake_128(digest + struct.pack(">I", tokens)).digest(_FILL)
    return base64.b64encode(_MAGIC + struct.pack(">I", tokens) + digest + fill).decode()


def unseal(signature: str) -> Seal | None:
    """What this signature says; None where it is empty, foreign, cut or changed."""
    try:
        raw = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(raw) != 32 + _FILL or raw[:4] != _MAGIC:
        return None
    digest = raw[8:32]
    if raw[32:] != hashlib.shake_128(digest + raw[4:8]).digest(_FILL):
        return None
    return Seal(digest, int.from_bytes(raw[4:8], "big"))
