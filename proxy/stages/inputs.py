"""What an old call was given: long texts among its arguments become a short note in their place.

A file that was written long ago stands in the prompt twice, as what the call was given and on the disk. The arguments
keep their names, order and kinds, so that they still are what the tool's schema asks for; only texts get shorter.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from ..conversation import ToolCall
from ..economics import BYTES_PER_TOKEN
from ..edits import Replace, target_of
from ..errors import BodyError
from ..rawjson import closed_object, encoded, is_string, members

# Changing a word of this changes every prompt it stands in, and so invalidates prompt caches.
NOTE = "[{size} that stood here are left out of this record to save space; the call was made with all of it]"

LEAST_BYTES = 512
"""Shorter texts stay: they say what the call was about."""

_string = msgspec.json.Decoder(str)


class Shortened(Struct, frozen=True):
    """A call, and its arguments without their long texts; `saves` bytes."""

    call: ToolCall
    arguments: bytes

    @property
    def saves(self) -> int:
        """Bytes that the prompt gets shorter by."""
        return len(self.call.input) - len(self.arguments)

    def edit(self, stage: str, why: str, scale: float) -> Replace:
        """The call with these arguments, as part of a batch."""
        call = self.call
        size = call.size - self.saves
        return Replace(
            stage=stage,
            reason=why,
            target=target_of(call),
            tokens_before=round(call.size / BYTES_PER_TOKEN * scale),
            tokens_after=round(size / BYTES_PER_TOKEN * scale),
            committed=True,
            part=ToolCall(id=call.id, name=call.name, input=self.arguments, kind=call.kind, size=size),
        )


def shortened(call: ToolCall) -> Shortened | None:
    """The call without long texts; None where it has none, is signed [A304] or the provider's own, or is no object."""
    if len(call.input) < LEAST_BYTES or call.signature or call.server:
        return None
    try:
        given = members(Raw(call.input))
        arguments = bytes(closed_object((name, _short(value)) for name, value in given))
    except (BodyError, msgspec.DecodeError):
        return None
    found = Shortened(call, arguments)
    return found if found.saves > 0 else None


def _short(value: Raw) -> Raw | bytes:
    if len(value) < LEAST_BYTES or not is_string(value):
        return value
    size = len(_string.decode(value).encode("utf-8", "surrogatepass"))
    return encoded(NOTE.format(size=f"{size} bytes" if size < 1000 else f"{size / 1000:.1f} kB"))
