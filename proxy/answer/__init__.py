"""What an answer said about itself, read in passing: usage, ids, why it stopped, whether it is whole.

Each dialect has a reader that takes the events of a stream or the one JSON document. A reader looks only at the
events that can hold something of interest and never changes what the client gets. What it cannot read it leaves
out: an answer with unknown figures is an honest one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ..sse import Event
from .anthropic import AnthropicReader
from .gemini import GeminiReader
from .openai import OpenAIChatReader, OpenAIResponsesReader
from .seen import Answer, Diagnosis, Signed, signature_digest, words_digest
from .words import Words


class AnswerReader(Protocol):
    """Reads one answer: either events as they come or one whole document."""

    def event(self, event: Event) -> None:
        """Take the next event of a stream."""
        ...

    def document(self, body: bytes) -> None:
        """Take a whole JSON body."""
        ...

    def answer(self) -> Answer:
        """Return what was seen so far."""
        ...


READERS: Mapping[str, Callable[[], AnswerReader]] = {
    "anthropic": AnthropicReader,
    "openai_chat": OpenAIChatReader,
    "openai_responses": OpenAIResponsesReader,
    "gemini": GeminiReader,
}

__all__ = [
    "READERS",
    "Answer",
    "AnswerReader",
    "AnthropicReader",
    "Diagnosis",
    "GeminiReader",
    "OpenAIChatReader",
    "OpenAIResponsesReader",
    "Signed",
    "Words",
    "signature_digest",
    "words_digest",
]
