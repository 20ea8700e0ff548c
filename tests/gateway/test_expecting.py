"""What is expected of each service's cache comes true, turn by turn, and a change of the client's is named as one."""

import json
from itertools import pairwise
from typing import Any

import pytest

from proxy.answer import READERS, Answer
from proxy.dialects import DIALECTS
from proxy.gateway.conversations import Conversations
from proxy.gateway.exchange import Incoming, Outcome
from proxy.policy import load_policy
from proxy.simulator.chat import FLAVOURS, ChatProvider
from proxy.simulator.gemini import GeminiProvider
from proxy.turns import NOISE_TOKENS, Miss

Json = dict[str, Any]
TEXT = "The quick brown fox jumps over the lazy dog. "
HEADERS = (("authorization", "Bearer k"), ("x-goog-api-key", "k"))
TURNS = 8


class Talk:
    """A client of one service through the rewriter; the history grows by an answer and a question a turn."""

    def __init__(self, provider: Any, dialect: str, profile: str, model: str) -> None:
        self.provider, self.dialect, self.profile, self.model = provider, dialect, profile, model
        self.rewriter = Conversations(load_policy("careful"), strict=True)
        self.history: list[Json] = []
        self.system = "Be brief."
        self.now = 1_000.0

    def turn(self) -> tuple[Answer, int | None, Miss | None]:
        """The answer to the next question, what was expected of the cache, and why it missed."""
        text = TEXT * (60 if self.history else 400) + str(len(self.history))
        self.now += 20
        path, body = self._asked(text)
        raw = json.dumps(body).encode()
        headers = tuple((name.encode(), value.encode()) for name, value in HEADERS)
        made = self.rewriter.prepare(
            Incoming("POST", path, "", headers, raw, "up", self.dialect, self.now, self.profile)
        )
        reply = self.provider.answer(HEADERS, made.body, self.now, path)
        assert reply.status == 200, reply.body
        reader = READERS[self.dialect]()
        reader.document(reply.body)
        answer = reader.answer()
        miss = self.rewriter.settle(made, Outcome("ok", 200, None, answer))
        said = json.loads(reply.body)
        gemini = self.dialect == "gemini"
        self.history.append(said["candidates"][0]["content"] if gemini else said["choices"][0]["message"])
        assert made.report is not None
        return answer, made.report.expected_cached, miss

    def _asked(self, text: str) -> tuple[str, Json]:
        if self.dialect == "gemini":
            self.history.append({"role": "user", "parts": [{"text": text}]})
            system = {"parts": [{"text": self.system}]}
            path = f"/v1beta/models/{self.model}:generateContent"
            return path, {"systemInstruction": system, "contents": self.history}
        self.history.append({"role": "user", "content": text})
        messages = [{"role": "system", "content": self.system}, *self.history]
        return "/v1/chat/completions", {"model": self.model, "messages": messages}


SERVICES = {
    "openai": ("openai", "gpt-5.1"),
    "openai at breakpoints": ("openai", "gpt-6-sol"),
    "deepseek": ("deepseek", "deepseek-v4-pro"),
    "kimi": ("moonshot", "kimi-k3"),
    "zai": ("glm", "glm-5.3"),
    "mistral": ("mistral", "devstral-2"),
    "llama.cpp": ("llama.cpp", "qwen3"),
    "gemini": ("gemini", "gemini-3-pro"),
}


def talk(service: str) -> Talk:
    profile, model = SERVICES[service]
    if service == "gemini":
        return Talk(GeminiProvider(), "gemini", profile, model)
    return Talk(ChatProvider(FLAVOURS[service.split()[0]]), "openai_chat", profile, model)


SERVED = [name for name in SERVICES if name != "gemini" or "gemini" in DIALECTS]


@pytest.mark.parametrize("service", SERVED)
def test_what_is_expected_comes_true(service: str) -> None:
    """To within a block or so: the provider read what it was taken to hold, and no miss is reported."""
    client = talk(service)
    turns = [client.turn() for _ in range(TURNS)]
    assert turns[0][1] == 0
    for (before, _, _), (answer, foreseen, miss) in pairwise(turns):
        assert answer.usage and before.usage and answer.usage.cached is not None and before.usage.prompt
        assert foreseen is not None and miss is None
        assert abs(foreseen - answer.usage.cached) < NOISE_TOKENS
        assert foreseen > 0.9 * before.usage.prompt


@pytest.mark.parametrize("service", SERVED)
def test_a_changed_system_prompt_is_the_clients(service: str) -> None:
    """The miss is seen, also where the provider never says what it wrote, and its place is named."""
    client = talk(service)
    for _ in range(3):
        assert client.turn()[2] is None
    client.system = "Be quick."
    answer, foreseen, miss = client.turn()
    assert answer.usage and foreseen and (answer.usage.cached or 0) < 0.1 * foreseen
    assert miss == Miss("client", "system.0 changed at byte 3 of 9")


def test_a_server_that_does_not_report_is_not_judged() -> None:
    """Nothing is expected of figures nobody has."""
    client = Talk(ChatProvider(FLAVOURS["vllm"]), "openai_chat", "vllm", "qwen3")
    for at in range(3):
        client.system = f"It is {at} o'clock."
        answer, foreseen, miss = client.turn()
        assert answer.usage and answer.usage.prompt and answer.usage.cached is None
        assert miss is None and not foreseen
