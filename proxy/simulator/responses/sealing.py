"""Encrypted content: reasoning and summaries that the client keeps and cannot read [A205 E100].

It says for whom and by which model it was made, and behind which conversation. That it is sealed and not in fact
secret is all the difference to the real one.
"""

import base64
import binascii
import hashlib

import msgspec

from ..chat.refusal import ChatRefusal

_KEY = b"embedded responses provider"
_HEAD = "gAAAAAB"
"""Real ones are Fernet tokens, which begin like this."""


class Sealed(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What is inside. `prefix` names the conversation before it."""

    kind: str
    account: str
    model: str
    prefix: bytes
    text: str


def _mac(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, key=_KEY, digest_size=16).digest()


def seal(content: Sealed) -> str:
    """The token that stands for this content."""
    payload = msgspec.msgpack.encode(content)
    return _HEAD + base64.urlsafe_b64encode(payload + _mac(payload)).decode()


def unseal(token: str) -> Sealed | None:
    """What a token says; None where it is not one of ours, or not whole."""
    if not token.startswith(_HEAD):
        return None
    try:
        raw = base64.b64decode(token[len(_HEAD) :].encode(), b"-_", validate=True)
        payload, mac = raw[:-16], raw[-16:]
        return msgspec.msgpack.decode(payload, type=Sealed) if mac == _mac(payload) else None
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        return None


def unverified(token: str, item_id: str | None, reason: str) -> ChatRefusal:
    """The refusal of a token [A205]."""
    shown = token if len(token) <= 8 else f"{token[:4]}...{token[-4:]}"
    named = f"for item {item_id}" if item_id else shown
    return ChatRefusal(
        f"The encrypted content {named} could not be verified. Reason: {reason}",
        None,
        "invalid_encrypted_content",
    )


PARSING = "Encrypted content could not be decrypted or parsed."
FOREIGN = "Encrypted content organization_id did not match the target organization."
