"""Responses and items kept at the server: for `previous_response_id`, references, and ids alone [A204 A210]."""

from itertools import pairwise
from typing import Any

import msgspec

from ..chat.refusal import ChatRefusal
from .items import kind_of

Json = dict[str, Any]
_MOST = 1000
"""Responses kept for one account: the real one keeps them for 30 days."""


class Shelf(msgspec.Struct, frozen=True):
    """What one account has stored. `requires`: the reasoning an item came behind, by the item's id."""

    responses: dict[str, tuple[Json, ...]]
    items: dict[str, Json]
    requires: dict[str, str]


class Store:
    """Everything that was answered with `store` on, by account."""

    def __init__(self) -> None:
        self._shelves: dict[str, Shelf] = {}

    def of(self, account: str) -> Shelf:
        """What this account has stored."""
        return self._shelves.setdefault(account, Shelf({}, {}, {}))

    def keep(self, account: str, response_id: str, before: list[Json], output: list[Json]) -> None:
        """Store a response with the whole conversation before it."""
        shelf = self.of(account)
        shelf.responses[response_id] = (*before, *output)
        if len(shelf.responses) > _MOST:
            del shelf.responses[next(iter(shelf.responses))]
        for item in (*before, *output):
            if item.get("id") is not None:
                shelf.items[item["id"]] = item
        for item, following in pairwise(output):
            if kind_of(item) == "reasoning" and kind_of(following) != "reasoning":
                shelf.requires[following["id"]] = item["id"]


def history(shelf: Shelf, response_id: str | None) -> list[Json]:
    """The conversation that a response ended.

    Raises:
        ChatRefusal: it is not stored [A210].
    """
    if response_id is None:
        return []
    known = shelf.responses.get(response_id)
    if known is None:
        raise ChatRefusal(
            f"Previous response with id '{response_id}' not found.",
            "previous_response_id",
            "previous_response_not_found",
        )
    return list(known)


def resolved(shelf: Shelf, items: list[Json], *, storing: bool) -> list[Json]:
    """Items in full: references and reasoning without its content are looked up.

    Raises:
        ChatRefusal: 404 where one is not there [A204].
    """
    return [_resolved(shelf, item, storing=storing) for item in items]


def _resolved(shelf: Shelf, item: Json, *, storing: bool) -> Json:
    kind = kind_of(item)
    bare = kind == "reasoning" and item.get("encrypted_content") is None
    if kind != "item_reference" and not bare:
        return item
    known = shelf.items.get(item["id"])
    if known is not None:
        return known
    hint = (
        ""
        if storing
        else " Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove "
        "this item from your input."
    )
    raise ChatRefusal(f"Item with id '{item['id']}' not found.{hint}", "input", status=404)
