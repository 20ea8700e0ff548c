"""What can be set on the Gemini provider, and what it knows of its models."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from ..models import Model


class GeminiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How this provider behaves where backends differ.

    The defaults are the lenient side of each conflict, so that a refusal is always meant.
    """

    backend: Literal["studio", "vertex"] = "studio"
    """Whose words refusals are in [A301 A304 A305]."""
    require_auth: bool = False
    known_models_only: bool = False
    strict_text: bool = False
    """Refuse an empty text, as Vertex does; one with a signature is taken everywhere [A301 A305]."""
    strict_schemas: bool = False
    """Refuse what OpenAPI 3.0 has no name for in `parameters` [A309]."""
    strict_ids: bool = False
    """Refuse a response whose id is that of no call before it, where the calls have ids [A303]."""
    foreign_signatures: Literal["refuse", "accept"] = "refuse"
    """Signatures that this provider did not make."""
    bound_signatures: bool = False
    """Refuse a signature on another call than it came on [A305]."""
    cache_block: int = 32
    """Tokens to which a hit is rounded down; the real number is not known [B306]."""
    cache_ttl_s: float = 300.0
    """Seconds until a prompt is no longer found; nothing is promised [B300]."""
    overflow_status: Literal[400, 500] = 400
    """Status of a prompt that is too long: sources differ."""
    think: bool = True
    """Answer with a thought where the request asks to see thoughts."""
    latency_s: float = 0.0
    """Seconds from a request to the first byte of its answer, kept by the server."""
    event_delay_s: float = 0.0
    """Seconds between two chunks of a stream, kept by the server."""
    max_body_bytes: int = 20 * 1024 * 1024
    keep_bodies: bool = True
    """Keep request bodies in the log; off for runs of many thousand turns."""


def _model(name: str, **facts: object) -> Model:
    basis = Model(
        name=name,
        min_prefix=4096,
        window=1_048_576,
        max_output=65_536,
        tokens_per_byte=0.26,
        image_tokens=1120,
        read=0.1,
        write_5m=1.0,
        write_1h=1.0,
        input_price=2.0,
        output_price=12.0,
    )
    return msgspec.structs.replace(basis, **facts)


_CATALOGUE = (
    _model("gemini-4-argon", read=0.05, output_price=10.0),
    _model("gemini-4-hydrogen", read=0.05, input_price=1.5, output_price=7.5),
    _model("gemini-3.8-flash", input_price=0.75, output_price=3.75),
    _model("gemini-3.7-flash", input_price=0.75, output_price=3.75),
    _model("gemini-3.6-flash", input_price=0.75, output_price=3.75),
    _model("gemini-3.5-flash", input_price=1.5, output_price=9.0),
    _model("gemini-3.1-pro"),
    _model("gemini-3-pro"),
    _model(
        "gemini-2.5-pro",
        image_tokens=258,
        min_prefix=2048,
        input_price=1.25,
        output_price=10.0,
        checks_signatures=False,
    ),
    _model(
        "gemini-2.5-flash",
        image_tokens=258,
        min_prefix=2048,
        input_price=0.3,
        output_price=2.5,
        checks_signatures=False,
    ),
)
MODELS = {model.name: model for model in _CATALOGUE}
"""By name. `checks_signatures`: Gemini 3 and later, which also name their calls [A303 A304 A307]."""

PERMISSIVE = _model("*", min_prefix=2048, checks_signatures=False, known=False)
"""What holds for a name that the catalogue does not list."""

_SUFFIX = re.compile(r"-(?:latest|preview(?:-[0-9-]+)?|[0-9]{3}|exp.*)$")


def find(name: str) -> Model:
    """Facts of the model of this name, without preview and version suffixes."""
    name = name.rpartition("/")[2]
    return MODELS.get(_SUFFIX.sub("", name)) or msgspec.structs.replace(PERMISSIVE, name=name)
