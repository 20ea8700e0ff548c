"""Usage on chat streams: asked for on the client's behalf, and taken out of the answer again [C100].

A chat stream says what it used only when `stream_options.include_usage` asks. Then there is an extra chunk that
clients which did not ask do not expect (many read `choices[0]` of every chunk), and `"usage": null` in all others.
`asked` writes the question into a body, `UsageFilter` takes both out of the stream. All other bytes stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from .errors import BodyError
from .rawjson import closed_object, members

Went: TypeAlias = Literal["out", "held", "gone"]
"""Where a line went."""

_MIB = 1024 * 1024
_ASKED = b'{"include_usage":true}'
_OPTIONS = re.compile(rb'"stream_options"\s*:\s*')


def asked(body: bytes) -> bytes | None:
    """Return a chat request with usage asked for.

    None where there is nothing to ask: the request is no stream, asks itself, or cannot be read without guessing.
    """
    try:
        request = dict(members(body))
        options = bytes(request.get("stream_options", b""))
        if bytes(request.get("stream", b"")) != b"true":
            return None
        given = dict(members(options)) if options not in {b"", b"null"} else {}
    except BodyError:
        return None
    if bytes(given.get("include_usage", b"")) == b"true":
        return None
    if not options:
        end = body.rindex(b"}")
        return b'%s,"stream_options":%s%s' % (body[:end], _ASKED, body[end:])
    return _replaced(body, options, closed_object({**given, "include_usage": b"true"}.items()))


def _replaced(body: bytes, then: bytes, now: bytes) -> bytes | None:
    """`body` with another value for its own `stream_options`: the same words may stand further in."""
    wanted = [(name, now if name == "stream_options" else bytes(value)) for name, value in members(body)]
    for match in _OPTIONS.finditer(body):
        start, stop = match.end(), match.end() + len(then)
        if body[start:stop] != then:
            continue
        made = body[:start] + now + body[stop:]
        if [(name, bytes(value)) for name, value in members(made)] == wanted:
            return made
    return None


_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_NULL_USAGE = re.compile(rb'"usage"\s*:\s*null')
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]', re.DOTALL)
_COMMA = re.compile(rb"\s*,\s*")


class UsageFilter:
    """Takes usage out of one stream. What belongs to a finished event is never held back.

    An event goes out when its last empty line is seen, which is when a client may read it; lines that carry no data
    (comments that keep a connection alive) go out at once. `limit` bounds, in bytes, what an unfinished event may
    hold; beyond it the stream passes unchanged.
    """

    def __init__(self, limit: int = 32 * _MIB) -> None:
        self._limit = limit
        self._line = bytearray()
        """A line without its end."""
        self._lines: list[bytes] = []
        """The lines of an event from its first data on, with their ends."""
        self._size = 0
        self._told = False
        """Whether a line of this event that says something has gone out."""
        self._at_start = True
        self._cr_went: Went | None = None
        """Where a carriage return at the end of the last chunk went: a line feed that completes it goes there too."""
        self._given_up = False

    def feed(self, chunk: bytes) -> bytes:
        """Return what goes out now. Never raises."""
        if self._given_up:
            return chunk
        if b"usage" not in chunk and chunk.endswith(b"\n\n") and self._idle:
            self._told = self._at_start = False
            return chunk
        out: list[bytes] = []
        at = self._completed(chunk, out)
        for end in _LINE_END.finditer(chunk, at):
            went = self._end_line(bytes(self._line) + chunk[at : end.end()], out)
            self._line.clear()
            at = end.end()
            if end[0] == b"\r" and at == len(chunk):
                self._cr_went = went
        self._line += chunk[at:]
        if self._size + len(self._line) > self._limit:
            self._given_up = True
            out.append(self.release())
        return b"".join(out)

    def finish(self) -> bytes:
        """Return what goes out when the stream has come to its end: some leave out the last empty line."""
        out: list[bytes] = []
        if self._line:
            self._lines.append(bytes(self._line))
            self._line.clear()
        self._end_event(b"", out)
        return b"".join(out)

    def release(self) -> bytes:
        """Return all that is held, as it came: the stream broke off."""
        held = b"".join([*self._lines, self._line])
        self._lines.clear()
        self._line.clear()
        return held

    @property
    def _idle(self) -> bool:
        return not self._line and not self._lines and self._cr_went is None

    def _completed(self, chunk: bytes, out: list[bytes]) -> int:
        """Complete the carriage return at the end of the last chunk; return how much of this one that took."""
        went, self._cr_went = self._cr_went, None if chunk else self._cr_went
        if went is None or not chunk.startswith(b"\n"):
            return 0
        if went == "held":
            self._lines.append(b"\n")
        elif went == "out":
            out.append(b"\n")
        return 1

    def _end_line(self, line: bytes, out: list[bytes]) -> Went:
        bare = line.rstrip(b"\r\n")
        if self._at_start:
            self._at_start = False
            bare = bare.removeprefix(_BOM)
        if not bare:
            return self._end_event(line, out)
        if self._lines or _name(bare) == b"data":
            self._lines.append(line)
            self._size += len(line)
            return "held"
        self._told = self._told or not bare.startswith(b":")
        out.append(line)
        return "out"

    def _end_event(self, empty: bytes, out: list[bytes]) -> Went:
        lines, told = self._lines, self._told
        self._lines, self._size, self._told = [], 0, False
        if any(b"usage" in line for line in lines):
            data = [at for at, line in enumerate(lines) if _name(line.removeprefix(_BOM)) == b"data"]
            chunk = _chunk(b"\n".join(_value(lines[at]) for at in data))
            if _is_extra(chunk):
                # A name already given to this event must not go on to the next one.
                out += [empty] if told else []
                return "out" if told else "gone"
            if len(data) == 1 and "usage" in chunk and chunk["usage"] is None:
                lines[data[0]] = _without_null(lines[data[0]])
        out += [*lines, empty]
        return "out"


def _name(line: bytes) -> bytes:
    return line.rstrip(b"\r\n").partition(b":")[0]


def _value(line: bytes) -> bytes:
    return line.rstrip(b"\r\n").partition(b":")[2].removeprefix(b" ")


def _chunk(data: bytes) -> Mapping[str, object]:
    try:
        return msgspec.json.decode(data, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _is_extra(chunk: Mapping[str, object]) -> bool:
    return isinstance(chunk.get("usage"), dict) and not chunk.get("choices") and "error" not in chunk


def _without_null(line: bytes) -> bytes:
    """A data line without its chunk's own `"usage": null`, and without the comma that joined it."""
    if _NULL_USAGE.search(line) is None:
        return line
    depth, comma, key_next = 0, -1, False
    for token in _TOKEN.finditer(line):
        match token[0]:
            case b"{" | b"[":
                depth += 1
                key_next = depth == 1
            case b"}" | b"]":
                depth -= 1
            case b",":
                if depth == 1:
                    comma, key_next = token.start(), True
            case _:
                found = _NULL_USAGE.match(line, token.start()) if depth == 1 and key_next else None
                key_next = False
                if found is not None:
                    return _cut(line, token.start(), found.end(), comma)
    return line


def _cut(line: bytes, start: int, stop: int, comma: int) -> bytes:
    if comma >= 0:
        return line[:comma] + line[stop:]
    joined = _COMMA.match(line, stop)
    return line[:start] + line[joined.end() if joined else stop :]
