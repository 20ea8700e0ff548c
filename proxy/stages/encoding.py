"""Ids that the upstream refuses become ids that it takes: the same id always the same one [A24 A207 A430]. Ids that
nothing refers to leave: those of items, where they are no ids of the item's kind [A207 F18].

Arguments that a model broke off are no JSON; where the upstream reads them in every turn, an object takes their
place that holds what was written, or the session is stuck [A521]. Of arguments that hold half a character only that is
mended.

Lone surrogates and NUL are mended in the bytes before a body is read (`rawjson.repair` [A4]); this stage's
policy switches both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec
from msgspec import Struct, structs

from ..conversation import Part, ToolCall, ToolResult
from ..edits import Edit, Replace, Unname, target_of
from ..identity import digest
from ..rawjson import closed_object, encoded, repair
from .view import Proposal, View, causal, weight

NAME = "encoding"
_WITH_ARGUMENTS = ("", "function", "function_call")
"""Kinds of calls whose input is an object; that of others is text [A201]."""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`text`: mend lone surrogates and NUL. `ids`: map ids that the upstream refuses. `arguments`: arguments that are no
    object."""

    text: bool = True
    ids: bool = True
    arguments: bool = True


def propose(view: View, config: Config) -> Proposal:
    """What of calls and results is refused, where not sent before, in whatever region: without it all is refused."""
    edits: list[Edit] = []
    model, rules = view.facts.model, view.rules
    pattern = model.tool_id_pattern
    longest = model.chat_tool_id_max if rules.short_ids else rules.call_id_max
    if config.ids and model.item_id_prefixes:
        edits += _unnamed(view)
    for _, part, _ in view.fresh():
        renamed = _renamed(part, pattern, longest) if config.ids else None
        made = _whole(renamed or part) if config.arguments and model.parses_arguments else None
        if renamed is not None or made is not None:
            size = weight(part)
            edits.append(
                Replace(
                    stage=NAME,
                    reason="id the upstream refuses"
                    if made is None
                    else "arguments that are no object [A521]",
                    target=target_of(part),
                    part=made or renamed or part,
                    required=True,
                    tokens_before=size,
                    tokens_after=size,
                )
            )
    return causal(NAME, edits)


def _unnamed(view: View) -> Iterator[Edit]:
    messages = view.conversation.messages
    for at, part, _ in view.fresh():
        if messages[at].misnamed and not messages[at].nameless and part is messages[at].parts[0]:
            yield Unname(
                stage=NAME,
                reason="id of another kind of item [A207 F18]",
                target=target_of(part),
                required=True,
            )


def _renamed(part: Part, pattern: str, longest: int) -> Part | None:
    match part:
        case ToolCall(id=call_id, server=False):
            accepted = accepted_id(call_id, pattern, longest)
            return None if accepted == call_id else structs.replace(part, id=accepted)
        case ToolResult(call_id=call_id, server=False):
            accepted = accepted_id(call_id, pattern, longest)
            return None if accepted == call_id else structs.replace(part, call_id=accepted)
        case _:
            return None


def _whole(part: Part) -> ToolCall | None:
    """The call with arguments that are an object, None where they are one."""
    if not isinstance(part, ToolCall) or part.server or part.kind not in _WITH_ARGUMENTS:
        return None
    if _is_object(part.input):
        return None
    mended, _ = repair(part.input)  # half a character is no JSON either [A4]
    if _is_object(mended):
        return structs.replace(part, input=mended)
    # The model reads the name. Changing it invalidates every prompt cache behind it.
    written = encoded(part.input.decode("utf-8", "replace"))
    kept = (("unreadable_arguments", written),) if part.input.strip() else ()
    return structs.replace(part, input=closed_object(kept))


def _is_object(arguments: bytes) -> bool:
    try:
        msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


@lru_cache(maxsize=4096)
def accepted_id(call_id: str, pattern: str, longest: int) -> str:
    """`call_id` itself where it fits, else an id made of it: readable where allowed, and its digest.

    Injective but for a collision of 48 digest bits, and the same in every request and process.
    """
    if re.fullmatch(pattern, call_id) and len(call_id) <= longest:
        return call_id
    name = digest(b"call id", call_id.encode("utf-8", "surrogatepass")).hex()
    readable = re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)[: max(0, min(longest, 40) - 13)] + "_" + name[:12]
    # The last one fits upstreams that want a fixed short length.
    return next((made for made in (readable, name[:24], name[:9]) if re.fullmatch(pattern, made)), name[:9])
