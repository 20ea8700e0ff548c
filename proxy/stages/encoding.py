"""Ids that the upstream refuses become ids that it takes: the same id always the same one [A24 A207 A430].

Lone surrogates and NUL are mended in the bytes before a body is read (`rawjson.repair` [A4]); this stage's
policy switches both.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct, structs

from ..conversation import Part, ToolCall, ToolResult
from ..edits import Edit, Replace, target_of
from ..identity import digest
from .view import Proposal, View, causal, weight

NAME = "encoding"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`text`: mend lone surrogates and NUL. `ids`: map ids that the upstream refuses."""

    text: bool = True
    ids: bool = True


def propose(view: View, config: Config) -> Proposal:
    """New ids for calls and results that were not sent before, in whatever region: without it all is refused."""
    if not config.ids:
        return Proposal()
    edits: list[Edit] = []
    model, rules = view.facts.model, view.rules
    pattern = model.tool_id_pattern
    longest = model.chat_tool_id_max if rules.short_ids else rules.call_id_max
    for _, part, _ in view.fresh():
        renamed = _renamed(part, pattern, longest)
        if renamed is not None:
            size = weight(part)
            edits.append(
                Replace(
                    stage=NAME,
                    reason="id the upstream refuses",
                    target=target_of(part),
                    part=renamed,
                    required=True,
                    tokens_before=size,
                    tokens_after=size,
                )
            )
    return causal(NAME, edits)


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
