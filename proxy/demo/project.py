"""What the scripted agent works with: a made-up project, its system prompt, its tools, and what tools return.

Everything is made from names and counters, so that each run of the demo says the same, byte for byte. The sizes
are those of real sessions: a system prompt of 7 kB, tools of 30 kB, results of 0.5 to 12 kB.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

ROOT = "/srv/billing"

_NOUNS = (
    *("invoice", "ledger", "currency", "rounding", "customer", "discount", "balance", "receipt", "period"),
    *("account", "tariff", "payment", "refund", "voucher", "schedule", "register", "quota", "contract"),
)
_VERBS = ("apply", "settle", "post", "reverse", "convert", "allocate", "match", "close", "split", "carry")
_SENTENCES = (
    "Before you {verb} a {noun}, look at how the {other} next to it is handled.",
    "A {noun} belongs to one {other}; never {verb} it twice.",
    "Where the {noun} is not known, ask for the {other} instead of guessing.",
    "Keep changes to the {noun} small, and {verb} the {other} in a step of its own.",
    "Every {noun} that you {verb} needs a test beside the one of the {other}.",
    "Say in one line why the {noun} changed; the {other} follows from that.",
)
_CODE = (
    "def {verb}_{noun}({other}: Decimal, places: int = 2) -> Decimal:",
    '    """Return the {noun} of a {other}, in the currency of the account."""',
    "    {noun} = self._{other}s.get({other}_id)",
    "    if {noun} is None:",
    '        raise LookupError(f"no {noun} for {other} {{key}}")',
    "    for entry in {noun}.entries:",
    "        total += entry.{other}.quantize(self.places, ROUND_HALF_EVEN)",
    "    return {verb}({noun}, {other})",
    "",
)
_LOG = (
    "INFO  billing.{noun}: {verb} {other} batch={count} rows={rows} in {rows} ms",
    "DEBUG billing.{noun}: {other} {count} has {rows} entries, nothing to {verb}",
    "tests/test_{noun}.py::test_{verb}_{other} PASSED [{count}%]",
)
_LONG = {
    "Read": 7500,
    "Bash": 3600,
    "Grep": 3000,
    "Glob": 1500,
    "WebFetch": 9000,
    "Edit": 650,
    "TodoWrite": 520,
}
"""Bytes that a result of a tool has in the middle; one result may have 0.4 to 1.6 times as many."""

LOOKS = frozenset({"Read", "Bash", "Grep", "Glob", "WebFetch"})
"""Tools that look at something and change nothing."""

TOOLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Bash", ("command", "description")),
    ("Edit", ("file_path", "old_string", "new_string")),
    ("Glob", ("pattern", "path")),
    ("Grep", ("pattern", "path")),
    ("KillShell", ("shell_id",)),
    ("NotebookEdit", ("notebook_path", "new_source")),
    ("Read", ("file_path",)),
    ("Task", ("description", "prompt")),
    ("TodoWrite", ("todos",)),
    ("WebFetch", ("url", "prompt")),
    ("WebSearch", ("query",)),
    ("Write", ("file_path", "content")),
)
"""Names of the tools, and of their parameters: all of them text, all of them required."""


def _number(seed: str, at: int, below: int) -> int:
    return zlib.crc32(f"{seed}/{at}".encode()) % below


def _filled(patterns: Sequence[str], seed: str, at: int) -> str:
    return patterns[_number(seed, at, len(patterns))].format(
        noun=_NOUNS[_number(f"{seed} noun", at, len(_NOUNS))],
        other=_NOUNS[_number(f"{seed} other", at, len(_NOUNS))],
        verb=_VERBS[_number(f"{seed} verb", at, len(_VERBS))],
        count=_number(f"{seed} count", at, 100),
        rows=_number(f"{seed} rows", at, 9000),
    )


def _lines(patterns: Sequence[str], seed: str, size: int) -> Iterator[str]:
    """Lines from patterns, different for each seed, about `size` bytes in all."""
    at = 0
    while size > 0:
        line = _filled(patterns, seed, at)
        yield line
        size -= len(line) + 1
        at += 1


def prose(seed: str, size: int) -> str:
    """About `size` bytes of sentences."""
    return " ".join(_lines(_SENTENCES, seed, size))


def system_prompt() -> str:
    """The part of the system prompt that never changes."""
    topics = ("Tone", "Doing tasks", "Tools", "Version control", "Tests", "Security")
    sections = "\n\n".join(f"# {topic}\n{prose(topic, 1120)}" for topic in topics)
    return f"You are a coding agent that works in {ROOT}.\n\n{sections}"


def tools() -> list[Json]:
    """Definitions of all tools."""
    return [
        {
            "name": name,
            "description": prose(f"tool {name}", 2100),
            "input_schema": {
                "type": "object",
                "properties": {
                    key: {"type": "string", "description": prose(f"{name}.{key}", 90)} for key in keys
                },
                "required": list(keys),
                "additionalProperties": False,
            },
        }
        for name, keys in TOOLS
    ]


def result(call: Json, least: int = 0) -> Json:
    """What a tool returns for a call: text, an image for a picture, an error for tests that fail.

    Texts of tools that look at something have at least about `least` bytes.
    """
    name, arguments = str(call["name"]), " ".join(str(value) for value in call["input"].values())
    answer: Json = {"type": "tool_result", "tool_use_id": call["id"]}
    if arguments.endswith(".png"):
        return answer | {"content": [image(arguments)]}
    text = output(name, arguments, least)
    if "--last-failed" in arguments:
        return answer | {"content": f"Exit code 1\n{text}", "is_error": True}
    return answer | {"content": text}


def output(tool: str, arguments: str, least: int = 0) -> str:
    """The text a tool returns, of at least about `least` bytes where it looks at something; the same for the same arguments."""
    seed = f"{tool} {arguments}"
    size = _LONG.get(tool, 1000) * (40 + _number(seed, -1, 121)) // 100
    if tool in LOOKS:
        size = max(size, least)
    match tool:
        case "Read":
            found = _lines(_CODE, seed, size - size // 6)
            return "\n".join(f"{at:>6}\t{line}" for at, line in enumerate(found, 1))
        case "Grep":
            found = _lines(_CODE, seed, size - size // 3)
            return "\n".join(
                f"billing/{_NOUNS[at % 18]}.py:{at * 7 + 3}:{line}" for at, line in enumerate(found)
            )
        case "Glob":
            return "\n".join(f"{ROOT}/{line}.py" for line in _lines(("{verb}/{noun}_{other}",), seed, size))
        case "Bash":
            return "\n".join(_lines(_LOG, seed, size))
        case _:
            return prose(seed, size)


def image(seed: str) -> Json:
    """A picture: a bar chart of 640 by 400 pixels."""
    width, height = 640, 400
    bars = [_number(seed, bar, height) for bar in range(16)]
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for bar in bars:
            rows += bytes([60 if height - y <= bar else 240]) * (width // len(bars))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(rows), 9)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png).decode()}
    return {"type": "image", "source": source}


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
