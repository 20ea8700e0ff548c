"""Usage of chat streams whose clients do not ask for it: the question, and a client that never notices [C100].

Only where the policy in force does anything at all (`transparent` and mode observe leave every byte alone) and the
upstream is known to take the question (`include_usage` in models.yaml). Such a request goes out asking for an
uncompressed answer, for what is to be taken out must be readable; an answer that comes compressed all the same is
opened here, and reaches the client plain.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import BodyEncodingError, BodyTooLarge
from ..streamusage import UsageFilter, asked
from .encoding import Opener, opened, opener_for
from .exchange import RawHeaders
from .headers import Pairs, value_of
from .refusals import LONGEST_REFUSAL
from .upstream import Reply


class Asking:
    """Whom usage may be asked for: an upstream that once refused the question is not asked again."""

    def __init__(self) -> None:
        self._refusers: set[str] = set()

    def body(self, sent: bytes, upstream: str) -> bytes | None:
        """Return what is sent instead, or None where nothing is to be asked."""
        return None if upstream in self._refusers else asked(sent)

    async def refused(self, reply: Reply, upstream: str) -> bool:
        """Whether the upstream does not take the question. What is read of a refusal is kept in `reply`."""
        if reply.status not in {400, 422}:
            return False
        said = plain(await reply.peek(LONGEST_REFUSAL), reply.headers)
        refused = b"stream_options" in said or b"include_usage" in said
        if refused:
            self._refusers.add(upstream)
        return refused


def uncompressed(headers: Pairs) -> Pairs:
    """The headers of a request whose answer is to come as it is."""
    return [
        *(pair for pair in headers if pair[0].lower() != "accept-encoding"),
        ("Accept-Encoding", "identity"),
    ]


class Taking:
    """Takes out of one answer what the client did not ask for. `dropped` are headers that no longer hold.

    `fault` is a fault of ours that was gone past: from there on the answer passes as it comes.
    """

    dropped = frozenset({"content-length", "content-encoding"})

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._filter = UsageFilter()
        self.fault: Exception | None = None

    def feed(self, chunk: bytes) -> bytes:
        """Return what the client gets now. Raises BodyEncodingError."""
        return _joined(self._taken(piece) for piece in self._opener.feed(chunk))

    def _taken(self, piece: bytes) -> bytes:
        if self.fault is None:
            try:
                return self._filter.feed(piece)
            except Exception as fault:  # noqa: BLE001  a bug here must not end somebody's answer
                self.fault = fault
                return self._filter.release() + piece
        return piece

    def finish(self) -> bytes:
        """Return the rest of an answer that came to its end."""
        return self._filter.finish()

    def release(self) -> bytes:
        """Return the rest of an answer that broke off."""
        return self._filter.release()


def taking(reply: Reply) -> Taking | None:
    """What is to be done to an answer: nothing unless it streams, and we asked."""
    streams = "event-stream" in (value_of(reply.headers, "content-type") or "").lower()
    if not (reply.asked and streams and reply.status < 400):
        return None
    try:
        return Taking(opener_for(value_of(reply.headers, "content-encoding") or ""))
    except BodyEncodingError:
        return None  # nobody can read it but, maybe, the client


def plain(body: bytes, headers: RawHeaders) -> bytes:
    """The text of an error body; empty where it cannot be read."""
    encoding = value_of(headers, "content-encoding")
    try:
        return opened(body, encoding, 4 * LONGEST_REFUSAL) if encoding else body
    except (BodyEncodingError, BodyTooLarge):
        return b""


def _joined(pieces: Iterable[bytes]) -> bytes:
    parts = [piece for piece in pieces if piece]
    return parts[0] if len(parts) == 1 else b"".join(parts)
