"""Where agents say that they work, by what real ones sent."""

import json

import pytest

from proxy.agents import Agents
from proxy.dialects import DIALECTS, Dialect
from proxy.gateway.routes import route
from proxy.gateway.settings import Upstream
from proxy.gateway.workplace import workplace
from tests.agents.recordings import load

AGENTS = Agents.load()
UPSTREAMS = {name: Upstream(name, f"https://{name}") for name in ("anthropic", "openai", "gemini")}


def places(name: str) -> set[str]:
    """What is found in the requests of a recording that offer tools."""
    found = set[str]()
    for request in load(name):
        dialect = route("POST", request.path, (), UPSTREAMS, "anthropic").dialect
        if dialect is not None and json.loads(request.body).get("tools"):
            opened = DIALECTS[dialect].open(request.body.encode())
            agent = AGENTS.of(request.headers, opened.preface)
            found.add(workplace(opened, DIALECTS[dialect], agent))
    return found


@pytest.mark.parametrize(
    ("recording", "place"),
    [
        ("claude-code-2.0.53-sonnet", "/home/dev/shop"),
        ("claude-code-2.1.332-opus", "/home/dev/shop"),
        ("claude-code-2.1.332-sonnet-modes", "/home/dev/shop"),
        ("cline-3.0.65", "/work/shop"),
        ("continue-1.5.47", "/work/shop"),
        ("gemini-cli-0.61.0", "/work/shop"),
        ("opencode-1.18.33-responses", "/work/shop"),
        ("pi-1.6.0", "/work/shop"),
        ("qwen-code-0.24.4", "/work/shop"),
    ],
)
def test_agents_say_where_they_work(recording: str, place: str) -> None:
    """The same in every turn."""
    assert places(recording) == {place}


def said(dialect: Dialect, **body: object) -> str:
    headers = {"user-agent": "codex_cli_rs/0.171.0"}
    opened = dialect.open(json.dumps({"model": "m", **body}).encode())
    return workplace(opened, dialect, AGENTS.of(headers))


def test_codex_says_it_in_a_message_of_its_own() -> None:
    """Not so a person, nor a file that was read."""
    responses = DIALECTS["openai_responses"]
    told = "<environment_context>\n  <cwd>/work/shop</cwd>\n</environment_context>"
    assert said(responses, input=[{"role": "user", "content": told}]) == "/work/shop"
    assert said(responses, input=[{"role": "user", "content": "<cwd>/work/shop</cwd>"}]) == ""
    output = {"type": "function_call_output", "call_id": "a", "output": "Working directory: /work/shop"}
    assert said(responses, input=[output]) == ""


def test_a_body_that_cannot_be_read_says_nothing() -> None:
    """It goes on as it came; a path that is none is none."""
    assert workplace(None, DIALECTS["anthropic"], AGENTS.generic) == ""
    broken = DIALECTS["anthropic"].open(b'{"system":{},"messages":[1]}')
    assert workplace(broken, DIALECTS["anthropic"], AGENTS.generic) == ""
    system = "Working directory: the shop's"
    assert said(DIALECTS["openai_chat"], messages=[{"role": "system", "content": system}]) == ""
