"""What the provider knows about each of its models: what it accepts, caches and costs."""

import re
from typing import Literal

import msgspec

Sampling = Literal["free", "default_only"]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of one model.

    Prices are in dollars for a million tokens; `read` and the write factors are multiples of
    the base input price [B14]. `min_prefix` is the smallest prefix, in tokens, that is cached
    [B13]. `tokens_per_byte` is the density of the tokenizer [B15].
    """

    name: str
    adaptive: bool = True
    enabled: bool = False
    disabled: Literal["yes", "no", "up_to_high"] = "no"
    between_tools: bool = False
    thinks_by_default: bool = True
    prefill: bool = False
    system_messages: bool = True
    forced_tools: bool = True
    sampling: Sampling = "default_only"
    min_prefix: int = 512
    window: int = 1_000_000
    max_output: int = 128_000
    overflow_by_sum: bool = False
    checks_signatures: bool = True
    checks_prefix: bool = False
    keeps_thinking: bool = True
    tokens_per_byte: float = 0.325
    image_tokens: int = 4784
    image_edge: int = 2576
    max_images: int = 600
    input_price: float = 5.0
    output_price: float = 25.0
    read: float = 0.1
    write_5m: float = 1.25
    write_1h: float = 2.0
    reads: tuple[str, ...] | None = None
    """Names of models whose thinking this one can use; None is all [A44]."""
    known: bool = True


OLD = msgspec.structs.replace(
    Model(name="old"),
    adaptive=False,
    enabled=True,
    disabled="yes",
    thinks_by_default=False,
    prefill=True,
    system_messages=False,
    sampling="free",
    window=200_000,
    max_output=64_000,
    tokens_per_byte=0.25,
    image_tokens=1568,
    image_edge=1568,
    max_images=100,
)


def _old(name: str, **facts: object) -> Model:
    return msgspec.structs.replace(OLD, name=name, **facts)


_EARLIER = (
    "claude-opus-5",
    "claude-opus-4-8",
    "claude-opus-4-7",
    "claude-opus-4-6",
    "claude-opus-4-5",
    "claude-opus-4-1",
    "claude-opus-4",
    "claude-sonnet-5",
    "claude-sonnet-4-6",
    "claude-sonnet-4-5",
    "claude-sonnet-4",
    "claude-haiku-5-5",
    "claude-haiku-4-5",
    "claude-3-5-haiku",
)
_MYTHIC = (
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-mythos-5-1",
    "claude-mythos-5-2",
    "claude-fable-5",
    "claude-mythos-5",
    "claude-opus-5-5",
    *_EARLIER,
)
_NOT_LOCKED = ("claude-fable-5", "claude-mythos-5", *_EARLIER)


def _big(name: str, **facts: object) -> Model:
    return msgspec.structs.replace(Model(name=name, input_price=10.0, output_price=50.0), **facts)


_CATALOGUE = (
    _big("claude-fable-5-2", checks_prefix=True, reads=_MYTHIC, read=0.1),
    _big("claude-fable-5-1", checks_prefix=True, reads=_MYTHIC, read=0.025, forced_tools=False),
    _big("claude-fable-5", reads=_NOT_LOCKED),
    _big("claude-mythos-5-2", checks_prefix=True, reads=_MYTHIC),
    _big("claude-mythos-5-1", reads=_MYTHIC, read=0.025, forced_tools=False),
    _big("claude-mythos-5", reads=_NOT_LOCKED),
    _big(
        "claude-mythos-preview",
        enabled=True,
        system_messages=False,
        forced_tools=False,
        min_prefix=2048,
        reads=_NOT_LOCKED,
    ),
    Model(
        name="claude-opus-5-5",
        checks_prefix=True,
        forced_tools=False,
        input_price=4.0,
        output_price=20.0,
        read=0.05,
        reads=("claude-opus-5-5", *_EARLIER),
    ),
    Model(
        name="claude-sonnet-5-5",
        checks_prefix=True,
        forced_tools=False,
        between_tools=True,
        input_price=2.0,
        output_price=10.0,
        reads=("claude-sonnet-5-5", *_EARLIER),
    ),
    Model(
        name="claude-haiku-5-5",
        checks_prefix=True,
        disabled="yes",
        input_price=0.1,
        output_price=0.5,
        reads=("claude-haiku-5-5",),
    ),
    Model(name="claude-opus-5", disabled="up_to_high", reads=_NOT_LOCKED),
    Model(
        name="claude-sonnet-5",
        disabled="yes",
        min_prefix=1024,
        input_price=2.0,
        output_price=10.0,
        reads=_NOT_LOCKED,
    ),
    Model(
        name="claude-opus-4-8",
        disabled="yes",
        thinks_by_default=False,
        min_prefix=1024,
        reads=_NOT_LOCKED,
    ),
    Model(
        name="claude-opus-4-7",
        disabled="yes",
        thinks_by_default=False,
        system_messages=False,
        min_prefix=2048,
        reads=_NOT_LOCKED,
    ),
    _old(
        "claude-opus-4-6", adaptive=True, prefill=False, min_prefix=4096, window=1_000_000, max_output=128_000
    ),
    _old(
        "claude-sonnet-4-6",
        adaptive=True,
        prefill=False,
        min_prefix=1024,
        window=1_000_000,
        input_price=3.0,
        output_price=15.0,
    ),
    _old("claude-opus-4-5", min_prefix=4096),
    _old("claude-sonnet-4-5", min_prefix=1024, keeps_thinking=False, input_price=3.0, output_price=15.0),
    _old("claude-haiku-4-5", min_prefix=4096, keeps_thinking=False, input_price=1.0, output_price=5.0),
    _old(
        "claude-opus-4-1",
        min_prefix=1024,
        keeps_thinking=False,
        overflow_by_sum=True,
        max_output=32_000,
        input_price=15.0,
        output_price=75.0,
    ),
    _old(
        "claude-opus-4",
        min_prefix=1024,
        keeps_thinking=False,
        overflow_by_sum=True,
        max_output=32_000,
        input_price=15.0,
        output_price=75.0,
    ),
    _old(
        "claude-sonnet-4",
        min_prefix=1024,
        keeps_thinking=False,
        overflow_by_sum=True,
        input_price=3.0,
        output_price=15.0,
    ),
    _old(
        "claude-3-5-haiku",
        enabled=False,
        min_prefix=2048,
        keeps_thinking=False,
        overflow_by_sum=True,
        max_output=8192,
        input_price=0.8,
        output_price=4.0,
    ),
)
MODELS = {model.name: model for model in _CATALOGUE}

PERMISSIVE = Model(
    name="*",
    enabled=True,
    disabled="yes",
    between_tools=True,
    thinks_by_default=False,
    sampling="free",
    min_prefix=1024,
    tokens_per_byte=0.25,
    checks_signatures=False,
    known=False,
)
"""What holds for a name the catalogue does not list: everything but prefill, nothing checked."""

_DATED = re.compile(r"-20\d{6}$")


def canonical(name: str) -> str:
    """The catalogue's name of a model: without date, `-latest`, and the context suffix `[1m]`."""
    name = name.removesuffix("[1m]").removesuffix("-latest")
    return _DATED.sub("", name).removesuffix("-0")


def find(name: str, otherwise: Model = PERMISSIVE) -> Model:
    """Facts of the model of this name, else those of `otherwise` under the name asked for."""
    return MODELS.get(canonical(name)) or msgspec.structs.replace(otherwise, name=name)
