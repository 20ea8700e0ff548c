"""The embedded Responses API: strict validation, stored responses, sealed reasoning, and OpenAI's prefix caches.

It takes the scripts, settings and faults of the Anthropic provider, the caches and refusals of the chat one, and the
same server serves it.

    bytes -> schema (parameters, items, tools) -> reading (store, pairing, seals) -> render.prompt -> cache
          -> script -> composing -> stream -> bytes

`Codex` is a client in the shape of the agent of that name, to play sessions with.
"""

from .facts import Behaviour
from .provider import COMPACT, INPUT_TOKENS, RESPONSES, ResponsesProvider

__all__ = ["COMPACT", "INPUT_TOKENS", "RESPONSES", "Behaviour", "ResponsesProvider"]
