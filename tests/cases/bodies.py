"""Small bodies as clients were seen to send them, the proxy they go through, and the provider that judges them.

The provider is the embedded one. It shares no code with the rewrite: what it refuses and what it takes is a second
opinion on both the client's body and ours.
"""

import copy
from collections.abc import Callable
from typing import Any

import orjson
from msgspec import structs

from proxy.agents import Agent, Agents
from proxy.dialects.anthropic import Anthropic
from proxy.ledger import Ledger
from proxy.models import ModelFacts, Models
from proxy.policy import Policies, load_policy
from proxy.rewrite import Rewrite, rewrite
from proxy.simulator import Provider, Settings
from proxy.stages import Facts
from proxy.usage import Usage

Json = dict[str, Any]

MODELS = Models.load()
AGENTS = Agents.load()
DIALECT = Anthropic()

READ = {
    "name": "read_file",
    "description": "Read a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
RUN = {
    "name": "run",
    "description": "Run a command.",
    "input_schema": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
}
MARK = {"cache_control": {"type": "ephemeral"}}
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 8192}


def case(*names: str) -> Callable[[Any], Any]:
    """The test stands for these rows of the table in README.md."""

    def named(test: Any) -> Any:
        test.cases = names
        return test

    return named


def text(words: str, **members: Any) -> Json:
    return {"type": "text", "text": words, **members}


def thought(words: str = "Look at it.", signature: str = "c2lnLW9uZQ==") -> Json:
    return {"type": "thinking", "thinking": words, "signature": signature}


def call(ident: str, name: str = "read_file", **arguments: Any) -> Json:
    return {"type": "tool_use", "id": ident, "name": name, "input": arguments or {"path": "pump.py"}}


def result(ident: str, content: Any = "40 lines", **members: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": ident, "content": content, **members}


def search(number: int) -> Json:
    return {
        "type": "server_tool_use",
        "id": f"srvtoolu_{number}",
        "name": "web_search",
        "input": {"query": "fan"},
    }


def found(number: int) -> Json:
    return {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{number}", "content": []}


def user(*content: Any) -> Json:
    bare = len(content) == 1 and isinstance(content[0], str)
    return {"role": "user", "content": content[0] if bare else list(content)}


def assistant(*content: Any) -> Json:
    return user(*content) | {"role": "assistant"}


def body(*messages: Json, **members: Any) -> Json:
    """A request; members may be replaced, None leaves one out."""
    whole = {
        "model": "claude-x",
        "max_tokens": 1024,
        "tools": [READ, RUN],
        "system": "You look after a small greenhouse.",
        "messages": list(messages),
        **members,
    }
    return {name: value for name, value in whole.items() if value is not None}


def later(*messages: Json) -> tuple[Json, ...]:
    """The same messages as the second turn of a conversation."""
    return user("Good morning."), assistant("Good morning. What shall I do?"), *messages


def listed(message: Json) -> Json:
    """The message with its content as a list of blocks."""
    content = message["content"]
    return message | {"content": [text(content)] if isinstance(content, str) else content}


def bytes_of(request: Json) -> bytes:
    """A body as clients spell it: compact, not escaped; lone surrogates as escapes."""
    try:
        return orjson.dumps(request)
    except TypeError:
        import json

        return json.dumps(request, separators=(",", ":")).encode()


def complaint(request: Json | bytes, **settings: Any) -> str | None:
    """What the provider refuses a body for; None where it answers."""
    raw = request if isinstance(request, bytes) else bytes_of(request)
    answer = Provider(Settings(**settings)).answer([("anthropic-version", "2023-06-01")], raw, 0.0)
    return answer.exchange.error


class Proxy:
    """The rewrite with its ledger, for a client that sends one body after the other."""

    def __init__(
        self, policy: Any = "careful", *, upstream: str = "anthropic", agent: str = "", **facts: Any
    ) -> None:
        self.policies: Policies = load_policy(policy)
        self.upstream = upstream
        self.agent: Agent = next((a for a in AGENTS.known if a.name == agent), AGENTS.generic)
        self.ledger = Ledger()
        self.now = 1_764_547_200.0
        self._facts = facts

    def facts(self, model: str) -> Facts:
        found: ModelFacts = MODELS.facts(self.upstream, model)
        return Facts(
            now=self.now,
            tenant=b"greenhouse",
            model=structs.replace(found, **self._facts),
            upstream=self.upstream,
            agent=self.agent,
            strict=True,
        )

    def rewrite(self, request: Json | bytes) -> Rewrite:
        """What would be sent; nothing is remembered."""
        raw = request if isinstance(request, bytes) else bytes_of(request)
        model = request["model"] if isinstance(request, dict) else "claude-x"
        policy = self.policies.choose(self.upstream, self.agent.name, model)
        return rewrite(raw, DIALECT, policy, self.ledger, self.facts(model))

    def send(self, request: Json | bytes, wait: float = 5.0, usage: Usage | None = None) -> Rewrite:
        """Send, with success. No member of the envelope ever comes or goes."""
        self.now += wait
        made = self.rewrite(request)
        assert made.broken == ""
        if made.commit is not None:
            self.ledger.keep_policy(made.policy.digest, made.policy.encoded)
            self.ledger.settle(self.ledger.commit(made.commit), usage, (), success=True)
        if isinstance(request, dict):
            assert list(sent(made)) == list(request)
        return made


def sent(made: Rewrite) -> Json:
    """What leaves, parsed."""
    return orjson.loads(made.body)


def mended(request: Json, **settings: Any) -> Json:
    """What leaves for a body that the provider refuses, and takes then; in both cases of it being asked twice."""
    assert complaint(request, **settings) is not None, "the client's own body is fine"
    proxy = Proxy()
    made = proxy.send(request)
    assert complaint(made.body, **settings) is None
    assert all(edit.reason and edit.stage for edit in made.edits)
    again = proxy.send(request)
    assert again.body == made.body
    fed = Proxy().send(sent(made))
    assert not [edit for edit in fed.edits if edit.required], "our own output needs no repair"
    return sent(made)


def blocks(request: Json) -> list[Json]:
    """All content blocks of the turns, in order."""
    return [block for message in request["messages"] for block in listed(message)["content"]]


def unmarked(value: Any) -> Any:
    """A JSON value without cache marks."""
    if isinstance(value, list):
        return [unmarked(item) for item in value]
    if isinstance(value, dict):
        return {name: unmarked(item) for name, item in value.items() if name != "cache_control"}
    return value


def marks(request: Json) -> list[str]:
    """Paths of everything that carries a cache mark."""
    return [path for path, value in walk(request) if isinstance(value, dict) and "cache_control" in value]


def walk(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Every value in a body with its path."""
    found = [(path, value)]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        found += walk(inner, f"{path}.{name}".lstrip("."))
    return found


def turns(request: Json, *replies: Json) -> Json:
    """The body of the next turn: the same history and what comes behind it."""
    longer = copy.deepcopy(request)
    longer["messages"] += replies
    return longer
