"""The embedded provider that stands behind a recorded request.

It keeps the rules and the cache of the real one, and takes reasoning that the real one signed: that is bound to where
it is first seen from then on. Each format, upstream and model has a provider of its own, as no cache is shared
between them [B16].
"""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import structs

from ..modelfacts import ModelFacts
from ..simulator import Answer, Provider, Settings, models
from ..simulator.chat import CLASSIC, FLAVOURS, OPENAI, Caching, ChatProvider, Flavour
from ..simulator.gemini import GeminiProvider, GeminiSettings
from ..simulator.models import PERMISSIVE, Model
from ..simulator.responses import ResponsesProvider
from ..simulator.responses.facts import Behaviour
from .requests import Request

Binding = Literal["error", "unenforced"]

KEY = "replay"
"""The key of every request: one session is one account's."""


class Service(Protocol):
    """What all embedded providers have in common."""

    def answer(self, headers: list[tuple[str, str]], body: bytes, now: float, path: str) -> Answer:
        """Answer a POST; what it leaves in the cache can be read at once."""


class Providers:
    """All that a session needs. `binding`: whether preserved thinking is enforced [A45]."""

    def __init__(self, binding: Binding) -> None:
        self._binding: Binding = binding
        self._made: dict[tuple[str, str, str], Service] = {}

    def answer(self, request: Request, body: bytes) -> Answer:
        """What the provider says to a body in the place of the recorded one."""
        incoming, facts = request.incoming, request.facts
        named = (incoming.dialect, facts.upstream, facts.model)
        service = self._made.get(named)
        if service is None:
            service = self._made[named] = _service(incoming.dialect, facts, self._binding)
        headers = {name.decode(): value.decode("latin-1") for name, value in incoming.headers}
        headers |= {"authorization": f"Bearer {KEY}"}
        if incoming.dialect == "anthropic":
            headers.setdefault("anthropic-version", "2023-06-01")
        path = _PATHS.get(incoming.dialect) or f"{incoming.path}?{incoming.query}"
        return service.answer([*headers.items()], body, incoming.started_at, path)


_PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
}
"""Where the embedded providers listen, whatever stands before these on other hosts."""


def _service(dialect: str, facts: ModelFacts, binding: Binding) -> Service:
    match dialect:
        case "anthropic":
            return Provider(
                Settings(
                    binding=binding,
                    foreign_thinking="adopt",
                    keep_bodies=False,
                    lookback=facts.lookback,
                    hash_billing_header=not facts.keep_attribution,
                    max_image_bytes=facts.image_max_bytes,
                    otherwise=_model(facts),
                )
            )
        case "openai_chat":
            return ChatProvider(_flavour(facts), Settings(keep_bodies=False), window=facts.window)
        case "openai_responses":
            behaviour = Behaviour(foreign_reasoning="adopt", window=max(facts.window, 1_000_000))
            return ResponsesProvider(Settings(keep_bodies=False), behaviour=behaviour)
        case _:
            return GeminiProvider(GeminiSettings(foreign_signatures="accept", keep_bodies=False))


def _model(facts: ModelFacts) -> Model:
    """A model that the embedded provider does not know, by what is known of it here."""
    return structs.replace(
        PERMISSIVE,
        min_prefix=facts.minimum,
        window=facts.window,
        max_output=max(facts.max_output, models.PERMISSIVE.max_output),
        checks_prefix=facts.prefix_check and facts.reasoning == "signed",
        prefill=facts.prefill,
        image_tokens=facts.image_tokens,
        read=facts.read,
        write_5m=facts.write_5m,
        write_1h=facts.write_1h,
    )


def _flavour(facts: ModelFacts) -> Flavour:
    """The service of that profile, else one that asks for nothing and caches as is known of it."""
    known = FLAVOURS.get(facts.upstream)
    if known is not None:
        return structs.replace(known, strict=False)
    ttl = None if facts.ttl_s is None else float(facts.ttl_s)
    caching: Caching = structs.replace(
        CLASSIC, minimum=max(1, facts.minimum), block=facts.block, ttl_s=ttl, read=facts.read, write=1.0
    )
    return structs.replace(
        OPENAI, name=facts.upstream, caching=caching, pairing="none", strict=False, call_id_max=10_000
    )
