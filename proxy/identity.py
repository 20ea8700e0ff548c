"""What a part says, however it is spelt, and the chained keys made of it.

Wire bytes and identity are two things. A client respells its history all the time: marks move, a string
becomes a list of one text block and back, keys of an object change their order, empty texts come and go,
reasoning is stripped. The *identity* of a part ignores all that; two parts with one identity say the same
to the model. Number literals are compared as text, for a parser may read a long integer as a float.

`key_n = H(key_(n-1) || identity(part_n))` names the whole prefix that ends with part n. The chain starts
from the tenant and runs over the turns alone: a changed date in the system prompt must not orphan what is
remembered about the turns. Forks, rewinds, resumes and sub-agents need no code: they are other chains.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from hashlib import blake2b
from typing import assert_never

from msgspec import structs

from .conversation import (
    Image,
    Key,
    Message,
    Opaque,
    Part,
    Reasoning,
    Reminder,
    Role,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)

KEY_BYTES = 16

Mask = Callable[[Reminder], str]
"""Text of a reminder with its volatile fields masked."""


class _Number(str):
    """A number literal, kept as the text it was."""

    __slots__ = ()


def digest(*pieces: bytes) -> bytes:
    """16 bytes naming the pieces; their boundaries count."""
    state = blake2b(digest_size=KEY_BYTES)
    for piece in pieces:
        state.update(len(piece).to_bytes(8, "big"))
        state.update(piece)
    return state.digest()


def derived(parent: Key, name: str) -> Key:
    """Key of something we made at a place: never a random id, or replay would not find it."""
    return digest(b"derived", parent, name.encode())


def turn_end(key: Key) -> Key:
    """Names a turn that *ended* with the part of `key`: another part behind it makes it another turn."""
    return digest(b"turn end", key)


def origin(tenant: bytes) -> Key:
    """Where the chain of a tenant's conversations starts."""
    return digest(b"tenant", tenant)


def canonical(raw: bytes) -> bytes:
    """A JSON value with sorted keys, without null members, number literals as they stand.

    Raises ValueError where `raw` is not JSON.
    """
    return _canonical(json.loads(raw, parse_int=_Number, parse_float=_Number, parse_constant=_Number))


def _canonical(value: object) -> bytes:
    return json.dumps(_ordered(value), ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def _ordered(value: object) -> object:
    match value:
        case dict():
            return {
                key: _ordered(inner)
                for key, inner in sorted(value.items())
                if inner is not None and key != "cache_control"
            }
        case list():
            return [_ordered(inner) for inner in value]
        case _Number():
            return ["number", str(value)]
        case _:
            return value


def content_says(raw: bytes | None) -> bytes:
    """Identity of a tool result's content: a string and a list of one text block say the same [A13 A45]."""
    if raw is None:
        return b""
    value = json.loads(raw, parse_int=_Number, parse_float=_Number)
    match value:
        case str(text) | [{"type": "text", "text": str(text)}]:
            return text.encode("utf-8", "surrogatepass")
        case list():
            kept = [block for block in value if not (isinstance(block, dict) and block.get("text") == "")]
            return b"" if not kept else b"blocks" + _canonical(kept)
        case _:
            return _canonical(value)


def says(part: Part, mask: Mask) -> bytes | None:
    """What `part` says, as bytes; None for parts that say nothing of their own (reasoning, empty text)."""
    match part:
        case Text(text=text):
            return b"text" + text.encode("utf-8", "surrogatepass") if text.strip() else None
        case Reminder():
            return b"reminder" + mask(part).encode("utf-8", "surrogatepass")
        case ToolCall(id=call_id, name=name, input=arguments):
            return digest(b"call", call_id.encode(), name.encode(), _lenient(arguments))
        case ToolResult(call_id=call_id, content=content, is_error=is_error):
            return digest(b"result", call_id.encode(), b"error" if is_error else b"", content_says(content))
        case Reasoning():
            return None
        case Image() | Opaque() | ToolDefinition():
            return b"block" + _lenient(bytes(part.raw if part.raw is not None else part.base or b"null"))
        case _:
            assert_never(part)


def _lenient(raw: bytes) -> bytes:
    try:
        return canonical(raw)
    except (
        ValueError
    ):  # call arguments a model broke off in the middle are no JSON; they are compared as they are
        return raw


class _Silent(IntEnum):
    """Kinds of parts that say nothing. Each is counted on its own: a blank text that comes or goes, as clients have
    it, must never be taken for a thought."""

    SIGNED = 1
    UNSIGNED = 2
    BLANK = 3


Counts = tuple[int, int, int]
"""How many silent parts of each kind stand behind the last part that said something."""

_NONE: Counts = (0, 0, 0)


def _counted(part: Part, counts: Counts) -> tuple[int, Counts]:
    """The number of a silent part among those that share its key, and the counts with it."""
    kind = _Silent.BLANK
    if isinstance(part, Reasoning):
        kind = _Silent.SIGNED if part.signature else _Silent.UNSIGNED
    before = counts[kind - 1]
    return before * len(_Silent) + kind, (*counts[: kind - 1], before + 1, *counts[kind:])  # type: ignore[return-value]  # three again


def chained(message: Message, key: Key, counts: Counts, mask: Mask) -> tuple[Message, Key, Counts]:
    """`message` with keys on its parts, going on from `key`; and the key and counts to go on with."""
    role = message.role.value.encode()
    parts: list[Part] = []
    for part in message.parts:
        said = says(part, mask)
        if said is None:
            nth, counts = _counted(part, counts)
        else:
            key, nth, counts = digest(key, role, said), 0, _NONE
        parts.append(structs.replace(part, key=key, nth=nth))
    return structs.replace(message, parts=tuple(parts)), key, counts


def chain(
    messages: tuple[Message, ...], start: Key, mask: Mask, known: tuple[Message, ...] = ()
) -> Iterator[Message]:
    """`messages` with keys, from `start`; `known` are the keyed messages of an equal beginning."""
    yield from known
    key, counts = _standing(known, start)
    for message in messages[len(known) :]:
        keyed, key, counts = chained(message, key, counts, mask)
        yield keyed


def _standing(known: Sequence[Message], start: Key) -> tuple[Key, Counts]:
    """The key at the end of keyed messages, and the counts of the silent parts that share it."""
    counts = _NONE
    for message in reversed(known):
        for part in reversed(message.parts):
            if not part.nth:
                return part.key, counts
            _, counts = _counted(part, counts)
    return start, counts


def end_of_turn(messages: Sequence[Message], at: int) -> Key:
    """The key of the end of the turn that message `at` belongs to: the model's, or everybody else's."""
    model = messages[at].role is Role.ASSISTANT
    while at + 1 < len(messages) and (messages[at + 1].role is Role.ASSISTANT) == model:
        at += 1
    return turn_end(messages[at].parts[-1].key)


def is_user_side(role: Role) -> bool:
    """Whether the role speaks in the user's turn: people and tools [A10 A20]."""
    return role in (Role.USER, Role.TOOL)
