"""Which cache a request reads, and what keeps caches apart [B100 B106 B110]."""

from typing import Any

import orjson

from ..chat.cache import Breakpoints, Cache, Scope, cache_of
from ..chat.flavours import Caching
from .facts import caching_of

Json = dict[str, Any]
_HALF_DAY_S = 43_200.0


class HalfDay(Breakpoints):
    """Entries for requests that ask for twelve hours [B104]."""

    LIFETIMES = {"": _HALF_DAY_S, "30m": 1800.0, "12h": _HALF_DAY_S}  # noqa: RUF012  read only


class Caches:
    """The caches of one provider, made as they are needed."""

    def __init__(self) -> None:
        self._caches: dict[Caching, Cache] = {}

    def of(self, caching: Caching) -> Cache:
        """The cache of this kind."""
        if caching not in self._caches:
            lasting = caching.regime == "breakpoints" and caching.ttl_s == _HALF_DAY_S
            self._caches[caching] = HalfDay(caching) if lasting else cache_of(caching)
        return self._caches[caching]


def caching_for(body: Json) -> Caching:
    """How the prompt of this request is cached."""
    options = body.get("prompt_cache_options") or {}
    return caching_of(body["model"], retention=body.get("prompt_cache_retention"), ttl=options.get("ttl"))


def scope_of(body: Json, account: str) -> Scope:
    """What must be the same for two prompts to share a cache.

    Effort, format, verbosity and parallel calls everywhere: they are said to the model in front of the prompt. Key and
    tier only where they keep caches apart; on older models a key is a hint for routing, and all machines are one here.
    """
    text, options = body.get("text") or {}, body.get("prompt_cache_options") or {}
    apart = [
        (body.get("reasoning") or {}).get("effort"),
        text.get("format"),
        text.get("verbosity"),
        body.get("parallel_tool_calls"),
        body.get("context_management"),
    ]
    if caching_for(body).regime == "breakpoints":
        apart += [body.get("prompt_cache_key"), body.get("service_tier")]
    mode = str(options.get("mode") or "implicit")
    return (mode, account, str(body["model"]), orjson.dumps(apart).decode())
