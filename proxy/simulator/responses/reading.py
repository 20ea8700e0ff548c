"""A request in full: its items with all that is stored before them, and the reasoning the model is shown of them."""

from typing import Any

import msgspec

from . import pairing, render, store
from .facts import Behaviour, reasoning_context
from .items import kind_of
from .sealing import FOREIGN, PARSING, Sealed, unseal, unverified
from .store import Shelf

Json = dict[str, Any]


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """What a valid request says.

    `thoughts`: what its sealed items say, by their places. `withheld`: the reasoning the model is not shown, as it is
    reported [A206]. `chain` names the conversation for reasoning that will be made behind it.
    """

    items: list[Json]
    thoughts: dict[int, str]
    withheld: tuple[Json, ...]
    chain: bytes

    @property
    def wants_compaction(self) -> bool:
        """Whether it asks for nothing but a summary [E101]."""
        return bool(self.items) and kind_of(self.items[-1]) == "compaction_trigger"


def said(body: Json) -> list[Json]:
    """The items of the input; a string is what the user says."""
    given = body.get("input") or []
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return list(given)


def read(body: Json, account: str, shelf: Shelf, behaviour: Behaviour) -> Read:
    """Read a request of valid form.

    Raises:
        ChatRefusal: items that are not there, do not belong together, or were sealed elsewhere.
    """
    storing = body.get("store") is not False
    before = store.history(shelf, body.get("previous_response_id"))
    items = before + store.resolved(shelf, said(body), storing=storing)
    pairing.check(items, shelf.requires)
    return _shown(items, body, account, behaviour)


def _shown(items: list[Json], body: Json, account: str, behaviour: Behaviour) -> Read:
    asked = (body.get("reasoning") or {}).get("context")
    context = reasoning_context(body["model"], asked)
    last_user = max((at for at, item in enumerate(items) if item.get("role") == "user"), default=-1)
    thoughts: dict[int, str] = {}
    withheld = []
    chain = b""
    for at, item in enumerate(items):
        kind = kind_of(item)
        token = item.get("encrypted_content")
        if kind in ("reasoning", "compaction") and token is not None:
            content = _opened(token, item, body["model"], account, chain, behaviour)
            past = context == "current_turn" and at < last_user
            reason = _moved(content, body["model"], account, chain, behaviour, past=past)
            if kind == "compaction" or reason is None:
                thoughts[at] = content.text
            else:
                named = item.get("id") or ""
                withheld.append({"type": "reasoning", "id": named, "action": "removed", "reason": reason})
        chain = render.extended(chain, item)
    return Read(items=items, thoughts=thoughts, withheld=tuple(withheld), chain=chain)


def _opened(token: str, item: Json, model: str, account: str, chain: bytes, behaviour: Behaviour) -> Sealed:
    content = unseal(token)
    if content is None and behaviour.foreign_reasoning == "adopt":
        # Three bytes of what is sealed are four of the token.
        said = token[: len(token) * 3 // 4]
        return Sealed(kind=kind_of(item), account=account, model=model, prefix=chain, text=said)
    if content is None or content.kind != kind_of(item):
        raise unverified(token, item.get("id"), PARSING)
    refuses = behaviour.foreign_reasoning == "refuse" or content.kind == "compaction"
    if content.account != account and refuses:
        raise unverified(token, item.get("id"), FOREIGN)
    return content


def _moved(
    content: Sealed, model: str, account: str, chain: bytes, behaviour: Behaviour, *, past: bool
) -> str | None:
    """Why reasoning is not shown to the model; None where it is [A206]."""
    if content.account != account:
        return "organization_mismatch"
    if content.model != model:
        return "model_mismatch"
    if past:
        return "turn_boundary"
    if behaviour.withhold_moved and content.prefix != chain:
        return "prefix_mismatch"
    return None


def without_first(read: Read, count: int) -> Read:
    """The same with its first items cut off, and outputs whose call was among them [A212]."""
    lost = {item.get("call_id") for item in read.items[:count] if kind_of(item) in pairing.CALLS}
    kept = [
        at
        for at in range(count, len(read.items))
        if kind_of(read.items[at]) not in pairing.OUTPUTS or read.items[at].get("call_id") not in lost
    ]
    return msgspec.structs.replace(
        read,
        items=[read.items[at] for at in kept],
        thoughts={new: read.thoughts[old] for new, old in enumerate(kept) if old in read.thoughts},
    )
