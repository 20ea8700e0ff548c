"""The prompt a request becomes: pieces in the order the model reads them, chained, four bytes a token.

Tools first, then the instructions, then the items, each part of a content a piece of its own. Ids of items, marks,
the order of an item's members and the spelling of a content are not in it. Behind a compaction item only what it stands in front of is left, and
the words of the client before it.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import orjson

from ..chat.render import Piece
from .items import kind_of
from .pairing import OUTPUTS
from .tools import flat

Json = dict[str, Any]
_IMAGE_BYTES = 765 * 4
_APART = frozenset(["id", "status", "created_by", "prompt_cache_breakpoint"])


class Loose(msgspec.Struct, frozen=True):
    """A piece of text before it has its place."""

    text: bytes
    marked: str | None = None
    eligible: bool = False
    opening: bool = False


def chained(loose: Iterable[Loose], chain: bytes = b"") -> list[Piece]:
    """Pieces, each named with all that stands before it."""
    pieces = []
    for one in loose:
        chain = hashlib.blake2b(chain + len(one.text).to_bytes(8, "big") + one.text, digest_size=16).digest()
        pieces.append(Piece(one.text, chain, one.marked, one.eligible, one.opening))
    return pieces


def extended(chain: bytes, item: Json) -> bytes:
    """The name of a conversation with one more item; reasoning does not count [A206]."""
    if kind_of(item) == "compaction":
        return hashlib.blake2b(item["encrypted_content"].encode(), digest_size=16).digest()
    if kind_of(item) == "reasoning":
        return chain
    pieces = chained(_item(item, ""), chain)
    return pieces[-1].chain if pieces else chain


def prompt(body: Json, items: list[Json], thoughts: dict[int, str]) -> list[Piece]:
    """Render a valid request. `thoughts`: what sealed items say, by their places; what is not there is withheld."""
    loose = [Loose(b"<|tool|>" + orjson.dumps(tool)) for tool in _offered(body)]
    form = (body.get("text") or {}).get("format") or {}
    if form.get("type", "text") != "text":
        loose.append(Loose(b"<|format|>" + orjson.dumps(form)))
    if body.get("instructions"):
        opens = not items or not _is_developers(items[0])
        text = f"<|developer|>\n{body['instructions']}".encode()
        loose.append(Loose(text, eligible=opens, opening=opens))
    since = max((at for at, item in enumerate(items) if kind_of(item) == "compaction"), default=-1)
    for at, item in enumerate(items):
        if at < since and not (_is_developers(item) or item.get("role") == "user"):
            continue
        pieces = [*_item(item, thoughts.get(at, ""))]
        if pieces:
            opens = _ends_opening(items, at)
            ends = opens or item.get("role") == "user" or _ends_outputs(items, at)
            pieces[-1] = msgspec.structs.replace(pieces[-1], eligible=ends, opening=opens)
        loose += pieces
    return chained(loose)


def answer(output: list[Json], thoughts: list[str], before: list[Piece]) -> list[Piece]:
    """An answer of the model behind the prompt it answers. `thoughts`: of its reasoning items, in order."""
    said = iter(thoughts)
    start = before[-1].chain if before else b""
    return chained(
        (
            piece
            for item in output
            for piece in _item(item, next(said, "") if kind_of(item) == "reasoning" else "")
        ),
        start,
    )


def _offered(body: Json) -> Iterator[Json]:
    """Tools in the prompt: deferred ones are not, until they are found [B106]."""
    return (tool for tool in flat(body.get("tools") or []) if not tool.get("defer_loading"))


def _item(item: Json, thought: str) -> Iterator[Loose]:
    kind = kind_of(item)
    match kind:
        case "message":
            yield Loose(f"<|{item['role']}|>{item.get('phase') or ''}\n".encode())
            yield from _content(item["content"])
        case "reasoning":
            if thought:
                yield Loose(f"<|thought|>{thought}".encode())
        case "compaction":
            yield Loose(f"<|summary|>{thought}".encode())
        case "function_call" | "custom_tool_call":
            given = item["arguments"] if kind == "function_call" else item["input"]
            name = f"{item.get('namespace') or ''} {item['name']}"
            yield Loose(f"<|call|>{item['call_id']} {name} {given}".encode())
        case "function_call_output" | "custom_tool_call_output":
            yield Loose(f"<|output|>{item.get('call_id') or ''}\n".encode())
            yield from _content(item["output"])
        case "compaction_trigger":
            return
        case _:
            shown = {name: value for name, value in item.items() if name not in _APART}
            yield Loose(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS))


def _content(content: str | list[Json]) -> Iterator[Loose]:
    if isinstance(content, str):
        if content:
            yield Loose(content.encode())
        return
    for part in content:
        mark = part.get("prompt_cache_breakpoint")
        marked = str(mark.get("ttl") or "") if mark else None
        match part["type"]:
            case "input_text" | "output_text":
                if part["text"]:
                    yield Loose(part["text"].encode(), marked)
            case "refusal":
                yield Loose(part["refusal"].encode())
            case "input_image":
                yield Loose(_image(part), marked)
            case _:
                shown = {name: value for name, value in part.items() if name not in _APART}
                yield Loose(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS), marked)


def _image(part: Json) -> bytes:
    """An image weighs the same whatever its size in bytes, and differs where it does."""
    source = str(part.get("image_url") or part.get("file_id") or "")
    digest = hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
    return (f"<|image|>{part.get('detail') or 'auto'} " + digest * 100)[:_IMAGE_BYTES].encode()


def _is_developers(item: Json) -> bool:
    return kind_of(item) == "additional_tools" or item.get("role") in ("developer", "system")


def _ends_opening(items: list[Json], at: int) -> bool:
    """The end of the developer's block that opens the input [B101]."""
    return all(_is_developers(item) for item in items[: at + 1]) and (
        at + 1 == len(items) or not _is_developers(items[at + 1])
    )


def _ends_outputs(items: list[Json], at: int) -> bool:
    """The last of a run of outputs [B101]."""
    return kind_of(items[at]) in OUTPUTS and (at + 1 == len(items) or kind_of(items[at + 1]) not in OUTPUTS)
