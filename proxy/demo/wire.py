"""A connection to one address: a request goes out, a finished message comes back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from http.client import HTTPConnection

from msgspec import Struct

from ..sse import Event, SseParser
from .project import Json

SECONDS = 60
"""For one answer: what takes longer hangs."""


class Answered(Struct, frozen=True):
    """An answer. `content` is None where the request was refused; `ttfb_s` is seconds to the first byte."""

    status: int
    content: list[Json] | None
    ttfb_s: float


class Wire:
    """Sends to `/v1/messages` at one address, over one connection that is kept."""

    def __init__(self, host: str, port: int, headers: Mapping[str, str]) -> None:
        self._connection = HTTPConnection(host, port, timeout=SECONDS)
        self._headers = {"content-type": "application/json", **headers}

    def post(self, body: Json) -> Answered:
        """Send a body. Raises OSError where the answer does not come."""
        raw = json.dumps(body).encode()
        started = time.perf_counter()
        self._connection.request("POST", "/v1/messages", raw, self._headers)
        response = self._connection.getresponse()
        ttfb = time.perf_counter() - started
        answer = response.read()
        if response.status != 200:
            return Answered(response.status, None, ttfb)
        if body.get("stream"):
            return Answered(200, assembled(SseParser().feed(answer)), ttfb)
        return Answered(200, json.loads(answer)["content"], ttfb)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def assembled(events: Iterable[Event]) -> list[Json]:
    """The content blocks that a stream of events builds up [C2]."""
    blocks: list[Json] = []
    inputs: dict[int, str] = {}
    for event in events:
        data = json.loads(event.data)
        match data["type"]:
            case "content_block_start":
                blocks.append(dict(data["content_block"]))
            case "content_block_delta":
                block, delta = blocks[data["index"]], data["delta"]
                for key in ("text", "thinking", "signature"):
                    if key in delta:
                        block[key] = block.get(key, "") + delta[key]
                if "partial_json" in delta:
                    inputs[data["index"]] = inputs.get(data["index"], "") + delta["partial_json"]
            case _:
                pass
    for index, text in inputs.items():
        blocks[index]["input"] = json.loads(text or "{}")
    return blocks
