"""The embedded chat services: chat completions as OpenAI and those who speak it serve them.

`ChatProvider` is one of them without a socket; which one is a `Flavour`. It takes the scripts, settings and faults
of the Anthropic one, and the same server serves it.

    bytes -> schema -> pairing -> reasoning -> render.prompt -> cache.lookup -> script -> stream -> bytes
"""

from .cache import Hit
from .flavours import (
    BLOCKS,
    BREAKPOINTS,
    CLASSIC,
    DEEPSEEK,
    FLAVOURS,
    KIMI,
    LLAMA,
    MISTRAL,
    OPENAI,
    SLOTS,
    TOKENS,
    UNITS,
    VLLM,
    ZAI,
    Caching,
    Flavour,
)
from .provider import COMPLETIONS, ChatProvider
from .refusal import ChatRefusal, envelope
from .render import Piece, prompt
from .serving import ChatAnswer

__all__ = [
    "BLOCKS",
    "BREAKPOINTS",
    "CLASSIC",
    "COMPLETIONS",
    "DEEPSEEK",
    "FLAVOURS",
    "KIMI",
    "LLAMA",
    "MISTRAL",
    "OPENAI",
    "SLOTS",
    "TOKENS",
    "UNITS",
    "VLLM",
    "ZAI",
    "Caching",
    "ChatAnswer",
    "ChatProvider",
    "ChatRefusal",
    "Flavour",
    "Hit",
    "Piece",
    "envelope",
    "prompt",
]
