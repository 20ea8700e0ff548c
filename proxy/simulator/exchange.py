"""What comes in and what goes out: the record of an exchange, and the answer to it."""

import msgspec
import orjson

from .cache import Lookup
from .refusal import envelope
from .request import Json
from .usage import Usage


class Canned(msgspec.Struct, frozen=True):
    """An answer given instead of the provider's own: a failure to inject."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def error(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> "Canned":
        """A failure in the provider's own envelope."""
        return Canned(status, envelope(status, message), headers)


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it arrived and what was answered. Keys stand as fingerprints.

    Tokens are the provider's own count; `cost` is the prompt's price in base input tokens, zero
    where nothing was answered. For count_tokens only `total` is set.
    """

    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    started: float
    status: int
    model: str = ""
    error: str | None = None
    usage: Usage = Usage()
    cost: float = 0.0
    total: int = 0
    dropped: tuple[str, ...] = ()
    message_id: str | None = None

    @property
    def read(self) -> int:
        """Tokens read from the cache."""
        return self.usage.cache_read_input_tokens

    @property
    def written(self) -> int:
        """Tokens written to the cache."""
        return self.usage.written

    @property
    def json(self) -> Json:
        """The body as the provider parsed it."""
        return orjson.loads(self.body)  # type: ignore[no-any-return]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What goes back: a body, or the events of a stream and then no body.

    `abort` says that the connection breaks behind the last event; `exchange` is the record.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    events: tuple[bytes, ...] | None = None
    abort: bool = False
    exchange: Exchange
    lookup: Lookup | None = None

    @property
    def json(self) -> Json:
        """The body, parsed."""
        return orjson.loads(self.body)  # type: ignore[no-any-return]
