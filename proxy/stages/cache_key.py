"""One `prompt_cache_key` for all requests of a conversation, where the client sends none [B110 B411 B431].

Services with many machines keep a cache on each: the key brings a request back to the machine that has its prefix.
Where the provider finds boundaries by itself, another key is another cache [B106] and no key is needed: with one a
conversation, tools and system prompt would be written anew for each session and each sub-agent. No conversation begins
with a key there. One that began with a key keeps it everywhere, and one that began without goes on without.
"""

from __future__ import annotations

from msgspec import Struct

from ..branch import Frozen
from ..conversation import Role
from ..edits import AddMember
from ..identity import digest
from ..rawjson import encoded
from .view import NOTHING, Proposal, View

NAME = "cache_key"
MEMBER = "prompt_cache_key"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`add`: send a key where the upstream is known to take one."""

    add: bool = True


def propose(view: View, config: Config) -> Proposal:
    """The key of the conversation, from its first request on."""
    sent = any(name == MEMBER for name, _ in view.client.envelope)
    if not config.add or sent or not view.facts.model.prompt_cache_key:
        return NOTHING
    known = view.frozen.values.get(NAME)
    if known is None and view.facts.model.regime == "automatic":
        return NOTHING
    if known is None:
        first = next((part for message in view.client.messages for part in message.parts if part.key), None)
        begun = view.place.branch is not None or view.conversation.last(Role.ASSISTANT) >= 0
        if first is None or (begun and not view.place.broke):
            return NOTHING
        # Derived from who asks and the opening: the same opening finds the same machine in the next session too.
        known = (f"stet-{digest(NAME.encode(), view.facts.tenant, first.key).hex()}",)
    return Proposal(
        edits=(
            AddMember(stage=NAME, reason="one key, one machine [B110]", name=MEMBER, value=encoded(known[0])),
        ),
        frozen=Frozen({**view.frozen.values, NAME: known}, view.frozen.tools),
    )
