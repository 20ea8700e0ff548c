"""A connection to one address: a request goes out, a finished message comes back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
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


Reads = Callable[[bytes, bool], list[Json]]
"""What of an answer a client keeps; the second argument says whether it is a stream."""


class Wire:
    """Sends to one path at one address, over one connection that is kept; `reads` takes what comes."""

    def __init__(
        self,
        host: str,
        port: int,
        headers: Mapping[str, str],
        path: str = "/v1/messages",
        reads: Reads | None = None,
    ) -> None:
        self._connection = HTTPConnection(host, port, timeout=SECONDS)
        self._headers = {"content-type": "application/json", **headers}
        self._path = path
        self._reads = reads or blocks

    def post(self, body: Json) -> Answered:
        """Send a body. Raises OSError where the answer does not come."""
        raw = json.dumps(body).encode()
        started = time.perf_counter()
        self._connection.request("POST", self._path, raw, self._headers)
        response = self._connection.getresponse()
        ttfb = time.perf_counter() - started
        answer = response.read()
        if response.status != 200:
            return Answered(response.status, None, ttfb)
        return Answered(200, self._reads(answer, bool(body.get("stream"))), ttfb)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def blocks(answer: bytes, streams: bool) -> list[Json]:
    """The content blocks of an Anthropic message."""
    return assembled(SseParser().feed(answer)) if streams else json.loads(answer)["content"]


def only_choice(answer: bytes, streams: bool) -> list[Json]:  # noqa: ARG001  these clients do not stream
    """The message of a chat completion."""
    return [json.loads(answer)["choices"][0]["message"]]


def whole_output(answer: bytes, streams: bool) -> list[Json]:  # noqa: ARG001  this one always streams
    """The items of a response, as they are done [C101]."""
    events = [json.loads(event.data) for event in SseParser().feed(answer)]
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


def only_content(answer: bytes, streams: bool) -> list[Json]:  # noqa: ARG001
    """The parts of the only candidate."""
    return list(json.loads(answer)["candidates"][0]["content"]["parts"])


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
