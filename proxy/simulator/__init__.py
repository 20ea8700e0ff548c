"""The embedded provider: Anthropic Messages with strict validation and a token-accurate prefix cache.

It stands apart from the proxy: it shares no code with it, so that the two can only agree by both
being right. `Provider` is the whole of it without a socket; `Server` puts it on one.

    bytes -> request.read -> validate (schema, model, roles, pairing, content, marks, thinking)
          -> render.prompt -> cache.lookup -> script -> stream -> bytes

Figures about caching and cost come from `Provider.log`, what the provider itself counted.
Rules are cited as [A45]; the numbers are explained in proxy/dialects/RULES.md.
"""

from .agent import Agent, tour
from .clock import Clock
from .compare import common_prefix, divergence, first_break
from .exchange import Answer, Canned, Exchange
from .provider import COUNT, MESSAGES, Provider
from .render import Position, prompt
from .reply import Ask, Call, Reply, Say, Think, echo
from .server import Server
from .settings import Settings
from .usage import Usage, price

__all__ = [
    "COUNT",
    "MESSAGES",
    "Agent",
    "Answer",
    "Ask",
    "Call",
    "Canned",
    "Clock",
    "Exchange",
    "Position",
    "Provider",
    "Reply",
    "Say",
    "Server",
    "Settings",
    "Think",
    "Usage",
    "common_prefix",
    "divergence",
    "echo",
    "first_break",
    "price",
    "prompt",
    "tour",
]
