"""What can be set on the embedded provider."""

from typing import Literal

import msgspec

from .models import PERMISSIVE, Model


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How this provider behaves where deployments, dates or reports differ.

    The defaults are the lenient side of each conflict, so that a refusal is always meant.
    """

    binding: Literal["unenforced", "error"] = "unenforced"
    """Preserved thinking where a request does not set `prefix_mismatch_behavior` [A45]."""
    foreign_thinking: Literal["refuse", "adopt"] = "refuse"
    """Thinking that this provider did not make: refused where the model checks signatures [A43], or taken for its own,
    made where it is first seen, so that from then on it is bound to what stood before it."""
    hash_billing_header: bool = True
    """True as on third-party hosts: the attribution block is part of the cache key [D14]."""
    require_auth: bool = False
    known_models_only: bool = False
    otherwise: Model = PERMISSIVE
    """Facts of models the catalogue does not list."""
    models: tuple[Model, ...] = ()
    """Facts that take the place of the catalogue's, by name: a price or minimum sources disagree on."""
    latency_s: float = 0.0
    """Seconds from a request to the first byte of its answer, kept by the server."""
    event_delay_s: float = 0.0
    """Seconds between two events of a stream, kept by the server."""
    max_body_bytes: int = 32 * 1024 * 1024
    max_image_bytes: int = 5 * 1024 * 1024
    """Of base64. 5 MB as most hosts and the older API have it; api.anthropic.com allows 10 [A37]."""
    strict_empty: bool = False
    """Refuse the empty forms that a live probe found accepted: an assistant message without
    content, a whitespace-only text beside other blocks [A13 A14]."""
    strict_system_content: bool = False
    """Refuse string content in a message of role system [A60]."""
    strict_thinking_text: bool = False
    """Refuse a changed visible text in a thinking block of the latest turn [A42]."""
    refuse_nul: bool = True
    """Refuse an escaped NUL in any string, as hosts do that cut the body there."""
    think: bool = True
    """Answer with a thinking block where the request asks a thinking model for it."""
    lookback: int = 20
    """Positions a breakpoint looks back, itself counted [B6]."""
    collapse_runs: bool = True
    """A run of calls, or of results, is one position of the lookback; False as before autumn 2026 and on
    other hosts [B6]."""
    keep_bodies: bool = True
    """Keep request bodies in the log; off for runs of many thousand turns."""
