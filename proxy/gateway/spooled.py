"""`GET /stet/spool/HANDLE`: what was kept of a huge output, whole or a range of it, as plain text.

    ?lines=10-200    from line 10 to line 200, counted from 1; `10-` to the end, `-50` the last 50
    ?bytes=0-9999    bytes, counted from 0, for texts with very long lines; a character cut in two is left out

Whoever knows the handle may read: it is the one thing a reader has to show, and nobody can guess it. So it is told to
nobody else either, and no log has it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

from aiohttp import web
from msgspec import Struct

from ..spool import HANDLE
from .spool import SpoolDirectory

PATH = "/stet/spool/"

_RANGE = re.compile(r"(\d{1,12})?-(\d{1,12})?|(\d{1,12})")
_HOW = "write lines=A-B (from 1), or bytes=A-B (from 0); A- goes to the end, -N is the last N"
_GONE = "nothing is kept under this handle any more: outputs stay for {days} days or until newer ones need the room. Run the tool again."
_UNKNOWN = "this is no handle: it is spool- and 32 hexadecimal digits, as the note in the conversation has it"


class Text(Struct, frozen=True):
    """An answer in plain text; `range` says what of the whole it is."""

    status: int
    body: bytes
    range: str = ""


def shown_path(path: str) -> str:
    """A path as it may be logged: without the handle."""
    return PATH + "..." if path.startswith(PATH) else path


async def spooled(request: web.Request, path: str, spool: SpoolDirectory) -> web.Response:
    """Answer a request for something kept. `path` is the raw path."""
    if request.method not in {"GET", "HEAD"}:
        found = Text(405, b"only GET and HEAD here")
    else:
        # A spooled output may be as long as a request body: it is read and cut where it holds nobody up.
        found = await asyncio.to_thread(
            answer, path.removeprefix(PATH), request.rel_url.raw_query_string, spool
        )
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "no-store",
    }
    if found.range:
        headers["X-Stet-Range"] = found.range
    if found.status == 405:
        headers["Allow"] = "GET, HEAD"
    body = found.body if found.status == 200 else b"stet: " + found.body + b"\n"
    return web.Response(status=found.status, body=body, headers=headers)


def answer(handle: str, query: str, spool: SpoolDirectory) -> Text:
    """What there is under a handle, cut to the range that the query asks for."""
    if not HANDLE.fullmatch(handle):
        return Text(404, _UNKNOWN.encode())
    data = spool.read(handle)
    if data is None:
        days = spool.bounds.age_s / 86400
        return Text(410, _GONE.format(days=f"{days:.1f}".removesuffix(".0")).encode())
    return cut(data, dict(parse_qsl(query, keep_blank_values=True)))


def cut(data: bytes, asked: Mapping[str, str]) -> Text:
    """The range of `data` that is asked for; all of it where none is."""
    ranges = [(name, asked[name]) for name in ("lines", "bytes") if name in asked]
    if not ranges:
        return Text(200, data)
    (name, written), *more = ranges
    found = _RANGE.fullmatch(written.strip())
    if more or found is None or written.strip() == "-":
        return Text(400, _HOW.encode())
    return _lines(data, found) if name == "lines" else _bytes(data, found)


def _lines(data: bytes, found: re.Match[str]) -> Text:
    lines = _split(data)
    first, last = _bounds(found, 1, len(lines))
    if not 1 <= first <= last:
        return Text(416, f"there are {len(lines)} lines; {_HOW}".encode())
    return Text(200, b"".join(lines[first - 1 : last]), f"lines {first}-{last}/{len(lines)}")


def _split(data: bytes) -> list[bytes]:
    """Lines with their ends: line feeds and nothing else end one."""
    *ended, rest = data.split(b"\n")
    return [line + b"\n" for line in ended] + ([rest] if rest else [])


def _bytes(data: bytes, found: re.Match[str]) -> Text:
    first, last = _bounds(found, 0, len(data))
    if not 0 <= first <= last:
        return Text(416, f"there are {len(data)} bytes; {_HOW}".encode())
    text = data[first : last + 1].decode(errors="ignore")
    return Text(200, text.encode(), f"bytes {first}-{last}/{len(data)}")


def _bounds(found: re.Match[str], begin: int, count: int) -> tuple[int, int]:
    """First and last of `count` things numbered from `begin`, both inclusive; more than there are is all there are.

    A range that holds none comes back as one that ends before it begins.
    """
    first, last, single = found.groups()
    end = begin + count - 1
    if single is not None:
        return (int(single), int(single)) if int(single) <= end else (begin, begin - 1)
    if first is None:
        return (max(begin, end + 1 - int(last)), end) if int(last) else (begin, begin - 1)
    return (int(first), min(end, int(last)) if last is not None else end)
