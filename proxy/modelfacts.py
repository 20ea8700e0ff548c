"""What can be known of a model behind an upstream, as the core sees it: one flat, frozen value.

The defaults are the most careful values: with them nothing is added to a request, no cache is taken for cold, and
nothing is repaired that the format itself allows.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

Tokens: TypeAlias = Annotated[int, Meta(ge=0, description="tokens")]
Seconds: TypeAlias = Annotated[int, Meta(ge=1, description="seconds")]
Multiplier: TypeAlias = Annotated[float, Meta(ge=0, le=100, description="in units of the base input price")]
Regime: TypeAlias = Literal["breakpoints", "automatic", "prefix", "none"]
ReasoningRule: TypeAlias = Literal["signed", "required", "free", "as-sent"]
ReasoningTurns: TypeAlias = Literal["all", "calls"]
Told: TypeAlias = Literal["never", "system", "user"]
Reporting: TypeAlias = Literal["always", "optional", "never"]
Breakpoints: TypeAlias = Literal["anthropic", "openai", "none"]

UNKNOWN = "unknown"
"""The profile of an upstream we know nothing about: nothing is added, no cache is ever taken for cold."""


class LongPrompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Dearer prices for the whole request once its prompt is longer than `above` tokens."""

    above: Tokens
    input: Annotated[float, Meta(ge=1, description="factor on input, reads and writes")]
    output: Annotated[float, Meta(ge=1, description="factor on output")]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base prices in dollars per million tokens [B14]."""

    input: Annotated[float, Meta(ge=0)]
    output: Annotated[float, Meta(ge=0)]
    long: LongPrompt | None = None


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All that the pure core knows about one model behind one upstream."""

    upstream: str = UNKNOWN
    model: str = ""
    """The model's name without vendor, region, date and deployment suffixes."""

    window: int = 200_000
    """Tokens of prompt and answer together."""
    max_output: int = 64_000
    """Largest `max_tokens` that is accepted [A5]."""
    tokenizer: float = 1.1
    """Tokens of this model for one token counted with cl100k [B15]; calibration starts here."""

    regime: Regime = "prefix"
    """`breakpoints`: only marked prefixes are cached [B2]. `automatic`: the provider sets marks of its own and also
    takes ours where `marks` holds [B100 B400]. `prefix`: the longest common prefix [B109 B530]. `none`: no cache."""
    minimum: int = 1024
    """Tokens below which a prefix is not cached [B13]."""
    block: int = 1
    """Tokens to which a hit is rounded down [B109 B431 B500]."""
    whole_units: bool = False
    """Is a hit rounded down to the end of a whole turn, so that a changed tail costs all behind the last one [B400]?"""
    slots: bool = False
    """Does the cache hold the last prompts of a few slots only, so that conversations displace each other [B520]?"""
    lookback: int = 20
    """Positions looked at behind a breakpoint, itself included [B6]."""
    ttl_s: int | None = None
    """Seconds from the start of a request to a cold cache [B10]; None: never taken for cold."""
    ttl_long_s: int = 3600
    """Seconds of the longer lifetime a client may ask for."""
    read: float = 0.1
    """Price of a cached token in units of base input [B14]."""
    write_5m: float = 1.25
    """Price of writing a token with the normal lifetime, in units of base input."""
    write_1h: float = 2.0
    """Price of writing a token with the longer lifetime, in units of base input."""
    price: Price | None = None
    """None where nothing is charged or the price is not known."""
    reports_cache: Reporting = "optional"
    """Whether usage names cached tokens; `optional` needs a flag of the server [B501 B510]."""

    marks: bool = False
    """May we add cache marks?"""
    max_marks: int = 4
    """Marks in one request, the client's own included [B3 B103]."""
    breakpoints: Breakpoints = "none"
    """How a mark of ours is spelt: `anthropic` is `cache_control` [B3 B440], `openai` is `prompt_cache_breakpoint`
    [B104]. `none`: either may be refused, so there are only the client's."""
    prompt_cache_key: bool = False
    """May a request be given the field `prompt_cache_key`, which many refuse [B110 B411 B431]?"""
    include_usage: bool = False
    """May a stream be given `stream_options` to ask for its usage? Some refuse the field, others report without it
    [A431 B440]."""

    warms: bool = False
    """Does a request with `max_tokens: 0` renew what is cached of its prompt, for the price of a read [B30]? Others refuse
    it [A501]."""

    prefix_check: bool = True
    """Signed thinking is bound to everything before it: preserved thinking [A45]."""
    last_turn_thinking: bool = False
    """The server itself drops thinking before the last turn [A47]."""
    reasoning: ReasoningRule = "as-sent"
    """`signed`: blocks with a signature are checked, those without fail [A43]. `required`: unsigned, and all of it
    must come back [A400 A410]. `free`: may be there or not. `as-sent`: not known, so it leaves as it came."""
    signed_calls: bool = False
    """Must the first call of each step of the current turn be signed [A304]?"""
    redacted_thinking: bool = True
    """Are `redacted_thinking` blocks accepted in the history [A510]?"""

    prefill: bool = True
    """May the last message be the assistant's [A12]?"""
    mid_system: bool | None = None
    """May a `system` message stand among the turns [A60]? None: not known, so it stays where it may be legal."""
    fold_system: bool = False
    """Must `system` messages behind the first turn be folded into a user message [A502 A521]?"""
    single_system: bool = False
    """Must the `system` messages at the head be one [A420 A521]?"""
    merge_same_role: bool = False
    """Must neighbours of the same role be merged [A420 A430 A521]?"""
    calls_alternate: bool = True
    """Is an answer with calls a turn where turns must alternate? Templates skip it with its results [A521]."""
    opens_with_user: bool = False
    """Must the first turn be the user's, whatever the format says [A420 A521]?"""
    needs_user: bool = False
    """Must there be a user message that says something [A420]?"""
    user_after_results: bool = True
    """May a user message stand directly behind tool results [A430]? Else an assistant message goes between."""
    told_behind_results: Told = "never"
    """Whose message may stand behind tool results that are messages of their own, in the middle of the model's work: the
    `system`'s [A100], or the `user`'s, where all reasoning of the turn stays in the prompt all the same [A400 A410]."""
    blank_text: bool = True
    """May text be blank and a message empty where the format allows it [A410 A420]?"""
    parses_arguments: bool = False
    """Are the arguments of calls in the history read as JSON objects, so that broken ones fail the request [A521]?"""
    result_images: bool = True
    """May a tool result hold images? Else they belong into a user message behind all results [A105]."""
    reasoning_turns: ReasoningTurns = "all"
    """Where reasoning is `required`: in every answer [A400], or in those with calls [A410]."""
    keep_attribution: bool = False
    """Is a leading attribution block stripped upstream, so that it must leave as it came [D14]? Else it is frozen."""

    tool_id_pattern: str = "^.+$"
    """What a tool call's id must match [A24 A430]."""
    tool_id_max: int = 256
    """Characters of a tool call's id [A207]."""
    chat_tool_id_max: int = 256
    """The same in the chat completions format [A104]."""
    item_id_prefixes: bool = False
    """Must the id of an item begin as those of its kind do [A207]?"""

    image_tokens: int = 1568
    """Most tokens one image costs [A38]."""
    image_flat: bool = False
    """Does every image cost about that much, whatever its size? Else by its patches [A38]."""
    image_long_edge: int = 1568
    """Pixels of the longer side to which the provider scales an image down before counting [A38]."""
    image_checked: bool = False
    """Is a request refused with an image that is no image, not of its type, or beyond the following [A37]?"""
    image_max_count: int = 100
    """Images in one request, history and tool results included [A37]."""
    image_max_bytes: int = 5_242_880
    """Bytes of one image as base64 [A37]."""
    image_max_side: int = 8000
    """Pixels of either side [A37]."""
    image_many: int = 20
    """Above this many images the stricter side limit holds [A37]."""
    image_many_side: int = 2000
    """Pixels of either side when there are many images [A37]."""
