"""One request as the provider sees it: parsed body, headers that matter, model and account."""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from .models import Model
from .settings import Settings

Json = dict[str, Any]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose body is JSON; nothing else about it is known to be right."""

    body: Json
    version: str
    betas: frozenset[str]
    organization: str
    workspace: str
    model: Model
    settings: Settings
    counting: bool
    """True for count_tokens."""

    def has_beta(self, *prefixes: str) -> bool:
        """Whether a beta value that starts with one of these was sent."""
        return any(beta.startswith(prefixes) for beta in self.betas)

    @property
    def messages(self) -> list[Json]:
        return self.body["messages"]  # type: ignore[no-any-return]

    @property
    def thinking(self) -> Json:
        """The thinking parameter, empty where absent."""
        return self.body.get("thinking") or {}

    @property
    def thinks(self) -> bool:
        """Whether the model thinks in its answer to this request [A40]."""
        kind = self.thinking.get("type")
        if kind is None:
            return self.model.thinks_by_default
        return kind in ("adaptive", "enabled")

    @property
    def manual(self) -> bool:
        return self.thinking.get("type") == "enabled"


def fingerprint(secret: str) -> str:
    """What stands for a key in records: keys themselves are not kept."""
    return "sha256:" + hashlib.sha256(secret.encode()).hexdigest()[:16]


def blocks(message: Json) -> list[Json]:
    """The content of a message as blocks; a string is one text block [A13]."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def every_block(messages: list[Json]) -> Iterator[tuple[int, int, Json, Json]]:
    """All content blocks as (message index, block index, message, block)."""
    for i, message in enumerate(messages):
        for j, block in enumerate(blocks(message)):
            yield i, j, message, block


def nested(block: Json) -> list[Json]:
    """The blocks inside a tool result; a string is one text block, nothing is none."""
    content = block.get("content")
    if isinstance(content, list):
        return [item for item in content if isinstance(item, dict)]
    return []
