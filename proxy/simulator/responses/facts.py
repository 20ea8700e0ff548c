"""What differs between models of OpenAI here, and between accounts and dates."""

import re
from typing import Literal

import msgspec

from ..chat.flavours import BREAKPOINTS, CLASSIC, Caching, version

STEPS = Caching(regime="longest", minimum=1024, block=2048, output=False, ttl_s=86_400.0)
"""GPT-5.5: a breakpoint every 2048 tokens, kept for a day [B100]."""

DAY_S = 86_400.0


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Where accounts, hosts and dates differ."""

    foreign_reasoning: Literal["refuse", "remove", "adopt"] = "refuse"
    """Reasoning of another organization: 400 as seen in 2025 [A205], or left out and reported [A206]. `adopt`: what was
    sealed elsewhere is taken for one's own, made where it stands."""
    withhold_moved: bool = True
    """Leave out reasoning whose prefix has changed, and report it [A206]."""
    window: int = 1_000_000
    """Tokens that a prompt may have."""


def caching_of(model: str, *, retention: str | None = None, ttl: str | None = None) -> Caching:
    """The cache that serves this model. `retention` and `ttl` as the request has them [B100 B104].

    What a request asks to keep for longer is a cache of its own here.
    """
    number = version(model)
    if number >= (5, 6):
        read = 0.05 if re.search(r"gpt-6\.1-(sol|terra)", model) else 0.1
        write, lives = (2.5, 43_200.0) if ttl == "12h" else (1.25, 1800.0)
        return msgspec.structs.replace(BREAKPOINTS, read=read, write=write, ttl_s=lives)
    if number >= (5, 5):
        return STEPS
    read = 0.1 if number >= (5, 0) else 0.25 if number >= (4, 1) else 0.5
    lives = DAY_S if retention == "24h" else 600.0
    return msgspec.structs.replace(CLASSIC, read=read, ttl_s=lives)


def has_marks(model: str) -> bool:
    """Whether the model takes explicit breakpoints and options [B104]."""
    return version(model) >= (5, 6)


def reasons(model: str) -> bool:
    """Whether it is a reasoning model [A106]."""
    return version(model) >= (5, 0) or re.match(r"o\d", model) is not None


def shows_phase(model: str) -> bool:
    """Whether its messages say if they comment or answer [A209]."""
    return version(model) >= (5, 3)


def reasoning_context(model: str, asked: str | None) -> Literal["all_turns", "current_turn"]:
    """Whose reasoning the model is shown again: of all turns from 5.6 on, else of the current one [A206]."""
    if asked == "all_turns" or (asked in (None, "auto") and version(model) >= (5, 6)):
        return "all_turns"
    return "current_turn"
