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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from hashlib import blake2b
from typing import assert_never

from msgspec import structs

from .conversation import (
    Conversation,
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
    text_of,
)
from .memo import Memo

KEY_BYTES = 16

Mask = Callable[[Reminder], str]
"""Text of a reminder with its volatile fields masked."""


_ALIEN = "\ud800"
"""Begins what no string of a body can begin with: half a pair is never read [A4]."""


def plainly(reminder: Reminder) -> str:
    """A mask that hides nothing."""
    return reminder.text


MARKS = ("cache_control", "prompt_cache_breakpoint")
"""Members by which a block is marked; no part of what it says [B3 B104]."""


class _Number(str):
    """A number literal, kept as the text it was."""

    __slots__ = ()


class _Twins(list[tuple[str, object]]):
    """The members of an object that names a key twice: which of the two is meant is not ours to say."""

    __slots__ = ()


def _object(pairs: list[tuple[str, object]]) -> object:
    made = dict(pairs)
    return made if len(made) == len(pairs) else _Twins(pairs)


_decoder = json.JSONDecoder(
    parse_int=_Number, parse_float=_Number, parse_constant=_Number, object_pairs_hook=_object
)


def _parsed(raw: bytes) -> object:
    return _decoder.decode(raw.decode("utf-8", "surrogatepass"))


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


def turn_end(key: Key, *, model: bool) -> Key:
    """Names a turn, the model's or not, that *ended* with the part of `key`: another part behind it makes it another.

    Whose turn it was counts: a message that says nothing shares the key of the turn before it.
    """
    return digest(b"turn end", b"model" if model else b"", key)


def origin(tenant: bytes) -> Key:
    """Where the chain of a tenant's conversations starts."""
    return digest(b"tenant", tenant)


def canonical(raw: bytes, unsaid: Collection[str] = ()) -> bytes:
    """A JSON value with sorted keys, without null members and cache marks, number literals as they stand.

    `unsaid`: members of the outermost object that are left out. Raises ValueError where `raw` is not JSON, or nested too deep to look into.
    """
    try:
        value = _parsed(raw)
        if unsaid and isinstance(value, dict):
            value = {name: inner for name, inner in value.items() if name not in unsaid}
        return _canonical(value)
    except RecursionError:
        raise ValueError("nested too deep") from None


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
                if inner is not None and not (key in MARKS and _is_mark(inner))
            }
        case _Twins():
            return [f"{_ALIEN}twins", *([key, _ordered(inner)] for key, inner in value)]
        case list():
            return [_ordered(inner) for inner in value]
        case _Number():
            return _ALIEN + value
        case _:
            return value


def _is_mark(value: object) -> bool:
    """Whether it is a mark [B3 B104]: a tool may have an argument of that name."""
    return isinstance(value, dict) and (value.get("type") == "ephemeral" or value.get("mode") == "explicit")


def content_says(raw: bytes | None) -> bytes:
    """Identity of a tool result's content: a string and a list of one text block say the same [A13 A45]."""
    if raw is None:
        return b""
    try:
        value = _parsed(raw)
        if isinstance(value, list):
            value = [block for block in value if not (isinstance(block, dict) and block.get("text") == "")]
        match value:
            case []:
                return b""
            case str(text) | [{"type": "text" | "input_text" | "output_text", "text": str(text)}]:
                return text.encode("utf-8", "surrogatepass")
            case _:
                return b"blocks" + _canonical(value)
    except RecursionError:  # nested too deep to look into: compared as it is
        return raw


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
        case Reasoning() | Opaque(void=True):
            return None
        case Opaque(unsaid=unsaid):
            return b"block" + _lenient(_origin(part), unsaid)
        case Image() | ToolDefinition():
            return b"block" + _lenient(_origin(part))
        case _:
            assert_never(part)


def _origin(part: Part) -> bytes:
    return bytes(part.raw if part.raw is not None else part.base or b"null")


def _lenient(raw: bytes, unsaid: Collection[str] = ()) -> bytes:
    try:
        return canonical(raw, unsaid)
    except ValueError:  # arguments a model broke off in the middle are no JSON: compared as they are
        return raw


class _Silent(IntEnum):
    """Kinds of parts that say nothing. Each is counted on its own: an empty text that comes or goes, as clients have
    it, must not be taken for a thought, nor for the blank turn of somebody else, nor for blanks that a person typed."""

    SIGNED = 1
    UNSIGNED = 2
    BLANK_ANSWER = 3
    BLANK_PROMPT = 4
    BLANK_SYSTEM = 5
    VOID = 6
    EMPTY_ANSWER = 7
    EMPTY_PROMPT = 8
    EMPTY_SYSTEM = 9


_BLANK = {Role.ASSISTANT: _Silent.BLANK_ANSWER, Role.SYSTEM: _Silent.BLANK_SYSTEM}
_EMPTY = {Role.ASSISTANT: _Silent.EMPTY_ANSWER, Role.SYSTEM: _Silent.EMPTY_SYSTEM}

Counts = tuple[int, ...]
"""How many silent parts of each kind stand behind the last part that said something."""

_NONE: Counts = (0,) * len(_Silent)


def _counted(part: Part, role: Role, counts: Counts) -> tuple[int, Counts]:
    """The number of a silent part among those that share its key, and the counts with it."""
    if isinstance(part, Reasoning):
        kind = _Silent.SIGNED if part.signature else _Silent.UNSIGNED
    elif isinstance(part, Opaque):
        kind = _Silent.VOID
    elif isinstance(part, Text) and not part.text:
        kind = _EMPTY.get(role, _Silent.EMPTY_PROMPT)
    else:
        kind = _BLANK.get(role, _Silent.BLANK_PROMPT)
    before = counts[kind - 1]
    return before * len(_Silent) + kind, (*counts[: kind - 1], before + 1, *counts[kind:])


def chained(message: Message, key: Key, counts: Counts, mask: Mask) -> tuple[Message, Key, Counts]:
    """`message` with keys on its parts, going on from `key`; and the key and counts to go on with."""
    role = message.role.value.encode()
    parts: list[Part] = []
    for part in message.parts:
        said = says(part, mask)
        if said is None:
            nth, counts = _counted(part, message.role, counts)
        else:
            key, nth, counts = digest(key, role, said), 0, _NONE
        parts.append(structs.replace(part, key=key, nth=nth))
    return structs.replace(message, parts=tuple(parts)), key, counts


def chain(
    messages: tuple[Message, ...], start: Key, mask: Mask, known: tuple[Message, ...] = ()
) -> Iterator[Message]:
    """`messages` with keys, from `start`; `known` are the keyed messages of an equal beginning."""
    yield from known
    yield from chained_on(messages[len(known) :], start, mask, known)


def chained_on(
    messages: Iterable[Message], start: Key, mask: Mask, known: Sequence[Message]
) -> Iterator[Message]:
    """`messages` with keys, going on from keyed messages before them."""
    key, counts = _standing(known, start)
    for message in messages:
        keyed, key, counts = chained(message, key, counts, mask)
        yield keyed


def _standing(known: Sequence[Message], start: Key) -> tuple[Key, Counts]:
    """The key at the end of keyed messages, and the counts of the silent parts that share it."""
    counts = _NONE
    for message in reversed(known):
        for part in reversed(message.parts):
            if not part.nth:
                return part.key, counts
            _, counts = _counted(part, message.role, counts)
    return start, counts


def end_of_turn(messages: Sequence[Message], at: int) -> Key:
    """The key of the end of the turn that message `at` belongs to: the model's, or everybody else's."""
    model = messages[at].role is Role.ASSISTANT
    while at + 1 < len(messages) and (messages[at + 1].role is Role.ASSISTANT) == model:
        at += 1
    return turn_end(messages[at].parts[-1].key, model=model)


def is_user_side(role: Role) -> bool:
    """Whether the role speaks in the user's turn: people and tools [A10 A20]."""
    return role in (Role.USER, Role.TOOL)


def head(conversation: Conversation) -> tuple[tuple[str, bytes], ...]:
    """Tools and system as they stand, each by place and text: what a provider caches before the turns [B1]."""
    return (*_tools_head(conversation.tools), *_system_head(conversation.system))


Head = tuple[tuple[str, bytes], ...]

_tools_head: Memo[tuple[Part, ...], Head] = Memo(
    lambda parts: tuple((f"tools.{p.name}", _wire(p)) for p in parts if isinstance(p, ToolDefinition)), 16
)
_system_head: Memo[tuple[Part, ...], Head] = Memo(
    lambda parts: tuple((f"system.{place}", _wire(part)) for place, part in enumerate(parts)), 16
)


def _wire(part: Part) -> bytes:
    said = text_of(part)
    return said.encode("utf-8", "surrogatepass") if said is not None else bytes(part.raw or part.base or b"")


def setting(conversation: Conversation) -> bytes:
    """Digest of tools and system as they stand [B1 B12]."""
    tools = [part for part in conversation.tools if isinstance(part, ToolDefinition)]
    return digest(*map(_digest, (*tools, *conversation.system)))


_digest: Memo[Part, bytes] = Memo(lambda part: digest(_wire(part)))
