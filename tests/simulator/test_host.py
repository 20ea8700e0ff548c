"""Several services on one address, told apart by path; and the module that serves them all."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest

from proxy.simulator import MESSAGES, Provider, Settings
from proxy.simulator.chat import COMPLETIONS, ChatProvider
from proxy.simulator.host import Host
from proxy.simulator.responses import COMPACT, RESPONSES, ResponsesProvider

Json = dict[str, Any]

TEXT = "The quick brown fox jumps over the lazy dog. " * 200
BODIES: dict[str, Json] = {
    MESSAGES: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}]},
    COMPLETIONS: {"model": "gpt-5.6", "messages": [{"role": "user", "content": TEXT}]},
    RESPONSES: {"model": "gpt-5.6", "input": TEXT},
    RESPONSES + COMPACT: {"model": "gpt-5.6", "input": TEXT},
    "/v1beta/models/gemini-3.1-pro:generateContent": {
        "contents": [{"role": "user", "parts": [{"text": "go"}]}]
    },
}
HEADERS = {"authorization": "Bearer k", "anthropic-version": "2023-06-01", "content-type": "application/json"}


def test_each_path_has_its_service() -> None:
    """Each notes its own requests; a path of nobody's is not found and keeps nothing."""
    services: dict[str, Any] = {
        MESSAGES: Provider(),
        COMPLETIONS: ChatProvider(),
        RESPONSES: ResponsesProvider(Settings(latency_s=1.0)),
    }
    host = Host(services)
    for path, sent in BODIES.items():
        answer = host.prepare(list(HEADERS.items()), json.dumps(sent).encode(), 0.0, path)
        host.begin(answer)
        assert answer.status == (404 if path.startswith("/v1beta") else 200), answer.body
    assert [[one.path for one in service.log] for service in services.values()] == [
        [MESSAGES],
        [COMPLETIONS],
        [RESPONSES, RESPONSES + COMPACT],
    ]
    assert host.settings.latency_s == 0
    assert host.models() == services[MESSAGES].models()


def test_an_answer_can_be_read_from_the_cache_once_it_begins() -> None:
    """Through the host as without it, at the service it came from."""
    host = Host({COMPLETIONS: ChatProvider(), RESPONSES: ResponsesProvider()})

    def read(path: str, *, begins: bool) -> int:
        answer = host.prepare(list(HEADERS.items()), json.dumps(BODIES[path]).encode(), 0.0, path)
        if begins:
            host.begin(answer)
        return answer.exchange.read

    for path in (COMPLETIONS, RESPONSES):
        assert read(path, begins=False) == 0
        assert read(path, begins=True) == 0
        assert read(path, begins=False) > 2000


@pytest.mark.parametrize("chat", ["openai", "deepseek"])
def test_the_module_serves_every_format(chat: str) -> None:
    """On one port, each under its own path; which service answers chat can be chosen."""
    command = [sys.executable, "-m", "proxy.simulator", "--port", "0", "--chat", chat]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = {}
    try:
        url = process.stdout.readline().strip()
        for path, sent in BODIES.items():
            request = urllib.request.Request(url + path, json.dumps(sent).encode(), HEADERS)
            with urllib.request.urlopen(request, timeout=30) as response:
                found[path] = json.loads(response.read())
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(urllib.request.Request(f"{url}/v2/none", b"{}"), timeout=30)
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
    assert [one.get("object", one.get("type", "candidates" in one)) for one in found.values()] == [
        "message",
        "chat.completion",
        "response",
        "response.compaction",
        True,
    ]
    assert ("reasoning_content" in found[COMPLETIONS]["choices"][0]["message"]) is (chat == "deepseek")
