"""The services that speak chat completions, and where they differ: what they refuse, cache and report."""

import re
from typing import Literal

import msgspec

from .refusal import Envelope

Pairing = Literal["openai", "deepseek", "kimi", "mistral", "zai", "none"]
Regime = Literal["longest", "units", "slots", "breakpoints"]
Reporting = Literal["details", "hits", "top", "timings", "none"]
CallIds = Literal["call", "functions", "nine"]


class Caching(msgspec.Struct, frozen=True, kw_only=True):
    """How a service caches prompts. Tokens, but for `ttl_s` in seconds (None: until it is full).

    `longest`: any common prefix of what came before. `units`: only whole units [B400]. `slots`: what the last
    prompts left in so many slots [B520]. `breakpoints`: message ends and marked parts [B100-B105]. `block`: a hit is
    rounded down to it. `computes_one`: the last token is always computed. `output`: answers are cached too.
    `interval`: a unit every so many tokens, 0 for none. `read` and `write` are prices in base input tokens.
    """

    regime: Regime
    minimum: int = 1
    block: int = 1
    computes_one: bool = False
    output: bool = True
    slots: int = 4
    interval: int = 0
    ttl_s: float | None = None
    read: float = 0.1
    write: float = 1.0


CLASSIC = Caching(regime="longest", minimum=1024, block=128, output=False, ttl_s=600.0)
BREAKPOINTS = Caching(regime="breakpoints", minimum=1024, output=False, ttl_s=1800.0, write=1.25)
UNITS = Caching(regime="units", minimum=64, read=0.02)
BLOCKS = Caching(regime="longest", minimum=16, block=16, computes_one=True, read=0.0)
TOKENS = Caching(regime="longest", computes_one=True, read=0.0)
SLOTS = Caching(regime="slots", computes_one=True, read=0.0)


class Flavour(msgspec.Struct, frozen=True, kw_only=True):
    """One service.

    `strict`: unknown members of the request and of content parts are refused. `reasoning`: whose
    `reasoning_content` must come back: of all answers where tools are on offer [A400], of those with calls [A410],
    or of none. `thinks`: answers carry reasoning unless the request turns it off. `empty_answers`: an assistant
    message may be empty. `call_id`: what ids must match in full. `images_in_results`: tool messages may hold images.
    `template`: roles must alternate, or the server fails with 500 [A521]. `renders`: which reasoning stands in the
    prompt: none, all, or that of the last turn alone, as templates have it that strip it [B530].
    """

    name: str
    caching: Caching
    pairing: Pairing
    envelope: Envelope = "openai"
    reporting: Reporting = "details"
    strict: bool = False
    reasoning: Literal["all", "calls", "none"] = "none"
    thinks: bool = False
    empty_answers: bool = True
    call_id: str = r".*"
    call_id_max: int = 10_000
    call_ids: CallIds = "call"
    images_in_results: bool = True
    custom_tools: bool = False
    template: bool = False
    renders: Literal["none", "all", "last_turn"] = "none"


OPENAI = Flavour(
    name="openai",
    caching=CLASSIC,
    pairing="openai",
    strict=True,
    call_id_max=40,
    images_in_results=False,
    custom_tools=True,
)
DEEPSEEK = Flavour(
    name="deepseek",
    caching=UNITS,
    pairing="deepseek",
    reporting="hits",
    reasoning="all",
    thinks=True,
    images_in_results=False,
    renders="all",
)
KIMI = Flavour(
    name="kimi",
    caching=TOKENS,
    pairing="kimi",
    reporting="top",
    reasoning="calls",
    thinks=True,
    empty_answers=False,
    call_ids="functions",
    renders="all",
)
MISTRAL = Flavour(
    name="mistral",
    caching=msgspec.structs.replace(TOKENS, read=0.1),
    pairing="mistral",
    envelope="mistral",
    call_id=r"[a-zA-Z0-9]{9}",
    call_ids="nine",
    images_in_results=False,
)
ZAI = Flavour(name="zai", caching=TOKENS, pairing="zai", envelope="zai", empty_answers=False)
LLAMA = Flavour(
    name="llama.cpp",
    caching=SLOTS,
    pairing="none",
    envelope="llama",
    reporting="timings",
    template=True,
    renders="last_turn",
)
VLLM = Flavour(name="vllm", caching=BLOCKS, pairing="none", reporting="none", renders="last_turn")
"""Reports cached tokens only where it was started to: replace `reporting` by `details` [B501]."""

FLAVOURS = {one.name: one for one in (OPENAI, DEEPSEEK, KIMI, MISTRAL, ZAI, LLAMA, VLLM)}

_VERSION = re.compile(r"gpt-(\d+)(?:\.(\d+))?")


def version(model: str) -> tuple[int, int]:
    """Major and minor number of a GPT model, zeros for another."""
    found = _VERSION.match(model.rsplit("/", 1)[-1])
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def has_breakpoints(flavour: Flavour, model: str) -> bool:
    """Whether this model of OpenAI caches at breakpoints [B100]."""
    return flavour.name == "openai" and version(model) >= (5, 6)


def reasons(flavour: Flavour, model: str) -> bool:
    """Whether this model of OpenAI is a reasoning model [A106]."""
    return flavour.name == "openai" and (version(model) >= (5, 0) or re.match(r"o\d", model) is not None)


def caching_of(flavour: Flavour, model: str) -> Caching:
    """The cache that serves this model."""
    if flavour.caching is CLASSIC and has_breakpoints(flavour, model):
        return BREAKPOINTS
    return flavour.caching
