"""A session played on a socket, and what the engine says that it read."""

import http.client
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson
from msgspec import Struct

from .sessions import FORMATS, Fault, Session, requests

SECONDS = 300


class Turn(Struct, frozen=True):
    """One request as the engine counted it, in tokens, and the seconds to the end of its answer."""

    prompt: int
    cached: int
    seconds: float

    @property
    def processed(self) -> int:
        """Tokens the engine had to read anew."""
        return self.prompt - self.cached


def play(url: str, format: str, fault: Fault, work: Session, turns: slice = slice(None)) -> list[Turn]:
    """Play a session, or some turns of it, in a format below `url`. Raises AssertionError where a request is refused."""
    bodies = [*requests(format, fault, work)]
    return [_asked(f"{url}{FORMATS[format].path}", body) for body in bodies[turns]]


def _asked(url: str, body: dict[str, Any]) -> Turn:
    started = time.perf_counter()
    said = _answer("POST", url, orjson.dumps(body))
    prompt, cached = counted([*events(said)])
    return Turn(prompt, cached, time.perf_counter() - started)


def _answer(method: str, url: str, body: bytes | None = None) -> bytes:
    """The body of an answer; each request has its own connection, for the engine closes them after a stream."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
    try:
        connection.request(method, parts.path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
    finally:
        connection.close()
    assert answer.status == 200, said
    return said


def events(stream: bytes) -> Iterator[dict[str, Any]]:
    """The JSON of each event of a stream."""
    for line in stream.splitlines():
        if line.startswith(b"data: {"):
            yield orjson.loads(line[6:])


def counted(told: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Tokens of the prompt and how many of them were cached, from an answer's events, in the spelling of its format.

    Of several usages the last that says what was cached counts: vLLM begins a message with one that does not.
    """
    for event in reversed(told):
        usage = event.get("usage") or event.get("message", event.get("response", {})).get("usage") or {}
        match usage:
            case {"prompt_tokens": int(prompt), "prompt_tokens_details": {"cached_tokens": int(cached)}}:
                return prompt, cached
            case {"cache_read_input_tokens": int(cached), "input_tokens": int(rest)}:
                return cached + rest + (usage.get("cache_creation_input_tokens") or 0), cached
            case {"input_tokens": int(prompt), "input_tokens_details": {"cached_tokens": int(cached)}}:
                return prompt, cached
    raise AssertionError(f"the answer tells no usage: {told}")


PROCESSED = re.compile(
    r"^(?:llamacpp:prompt_tokens_total|vllm:prompt_tokens_by_source_total\{[^}]*local_compute[^}]*\}) ([0-9.e+]+)",
    re.MULTILINE,
)


def processed_by(url: str) -> int:
    """Prompt tokens the engine at `url` says to have processed since its start, over all requests."""
    [total] = PROCESSED.findall(_answer("GET", f"{url}/metrics").decode()) or ["0"]
    return round(float(total))
