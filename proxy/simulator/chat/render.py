"""The prompt a chat request becomes: pieces in the order the model reads them, chained, four bytes a token.

Tools first, then the messages, each part of a content a piece of its own. A string and a list of one text part are
one prompt; marks are not in it. A token never spans two pieces, so counts add up.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import orjson

from .flavours import Flavour

Json = dict[str, Any]
BYTES_PER_TOKEN = 4
_IMAGE_BYTES = 765 * BYTES_PER_TOKEN
_MARKS = ("cache_control", "prompt_cache_breakpoint")


class Piece(msgspec.Struct, frozen=True):
    """A piece of the prompt. `chain` names all of it up to and with this piece.

    `marked`: the lifetime that an explicit breakpoint on it asks for, "" for the usual one, None without one.
    `eligible`: an implicit breakpoint may stand at its end [B101].
    """

    text: bytes
    chain: bytes
    marked: str | None = None
    eligible: bool = False
    opening: bool = False
    """The end of the initial block of system and developer messages."""

    @property
    def tokens(self) -> int:
        return -(-len(self.text) // BYTES_PER_TOKEN)


class _Loose(msgspec.Struct, frozen=True):
    text: bytes
    marked: str | None = None
    eligible: bool = False
    opening: bool = False


def prompt(body: Json, flavour: Flavour) -> list[Piece]:
    """Render a valid request."""
    messages = body["messages"]
    loose = [_Loose(b"<|tool|>" + orjson.dumps(_unmarked(tool))) for tool in body.get("tools") or []]
    if body.get("response_format"):
        loose.append(_Loose(b"<|format|>" + orjson.dumps(body["response_format"])))
    last_user = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
    for at, message in enumerate(messages):
        thinks = flavour.renders == "all" or (flavour.renders == "last_turn" and at > last_user)
        pieces = [*_message(message, thinks=thinks)]
        last = msgspec.structs.replace(
            pieces[-1], eligible=_is_eligible(messages, at), opening=_is_opening_end(messages, at)
        )
        loose += [*pieces[:-1], last]
    return chained(loose)


def answer(message: Json, flavour: Flavour, before: list[Piece]) -> list[Piece]:
    """An answer of the model as it will stand in the next prompt, behind the prompt it answers."""
    start = before[-1].chain if before else b""
    return chained(_message(message, thinks=flavour.renders != "none"), start)


def chained(loose: Iterable[_Loose], chain: bytes = b"") -> list[Piece]:
    """Pieces, each named with all that stands before it."""
    pieces = []
    for one in loose:
        chain = hashlib.blake2b(chain + len(one.text).to_bytes(8, "big") + one.text, digest_size=16).digest()
        pieces.append(Piece(one.text, chain, one.marked, one.eligible, one.opening))
    return pieces


def weight(pieces: Iterable[Piece]) -> int:
    """Tokens of some pieces."""
    return sum(piece.tokens for piece in pieces)


def _message(message: Json, *, thinks: bool) -> Iterator[_Loose]:
    head = f"<|{message['role']}|>{message.get('name') or ''}{message.get('tool_call_id') or ''}\n".encode()
    yield _Loose(head)
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning and thinks:
        yield _Loose(f"<think>{reasoning}</think>".encode())
    content = message.get("content")
    if isinstance(content, str) and content:
        yield _Loose(content.encode())
    for part in content if isinstance(content, list) else ():
        if part.get("text") != "" or _marked(part) is not None:
            yield _Loose(_part(part), _marked(part))
    if message.get("refusal"):
        yield _Loose(message["refusal"].encode())
    for call in message.get("tool_calls") or ([] if not message.get("function_call") else [message]):
        inner = call.get("function") or call.get("custom") or call.get("function_call")
        given = inner.get("arguments", inner.get("input", ""))
        yield _Loose(f"<|call|>{call.get('id', '')} {inner['name']} {given}".encode())


def _part(part: Json) -> bytes:
    if part.get("type") == "text":
        return str(part["text"]).encode()
    if part.get("type") == "image_url":  # weighs as much whatever its file does
        named = hashlib.blake2b(orjson.dumps(_unmarked(part)), digest_size=24).hexdigest()
        return (f"<|image|>{named}" * 64)[:_IMAGE_BYTES].encode()
    return orjson.dumps(_unmarked(part))


def _unmarked(part: Json) -> Json:
    return {name: value for name, value in part.items() if name not in _MARKS}


def _marked(part: Json) -> str | None:
    mark = part.get("prompt_cache_breakpoint")
    return str(mark.get("ttl") or "") if isinstance(mark, dict) and mark.get("mode") == "explicit" else None


def _is_eligible(messages: list[Json], at: int) -> bool:
    role = messages[at]["role"]
    following = messages[at + 1]["role"] if at + 1 < len(messages) else ""
    return role == "user" or (role == "tool" and following != "tool") or _is_opening_end(messages, at)


def _is_opening_end(messages: list[Json], at: int) -> bool:
    block = ("system", "developer")
    return all(message["role"] in block for message in messages[: at + 1]) and (
        at + 1 == len(messages) or messages[at + 1]["role"] not in block
    )
