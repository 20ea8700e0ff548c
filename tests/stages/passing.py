"""One request of a coding session, and what leaves: for stages that judge what arrives."""

from __future__ import annotations

from typing import Any

import orjson
from msgspec import structs

from proxy.agents import Agents
from proxy.dialects import DIALECTS
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.policy import Policy, Stages
from proxy.rewrite import Rewrite, rewrite
from proxy.spool import Spool
from proxy.stages import Facts

Json = dict[str, Any]
Asked = tuple[str, Json, Any]
"""Name of a tool, arguments, and the content that came back."""

MODELS, AGENTS = Models.load(), Agents.load()


def request(*asked: Asked, **members: Any) -> Json:
    """A conversation in which the model called one tool after another; the newest result has just come."""
    messages: list[Json] = [{"role": "user", "content": "Look after the greenhouse."}]
    for at, (name, arguments, content) in enumerate(asked):
        call = {"type": "tool_use", "id": f"c{at}", "name": name, "input": arguments}
        result = {"type": "tool_result", "tool_use_id": f"c{at}", "content": content}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return {"model": "claude-opus-5", "max_tokens": 10, "messages": messages, **members}


def sent(
    body: Json | bytes,
    ledger: Ledger,
    *,
    spool: Spool | None = None,
    facts: Json | None = None,
    **stages: Any,
) -> Rewrite:
    """The request sent and answered, with these stages on."""
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    known = Facts(
        now=1_000.0,
        tenant=b"tenant",
        model=structs.replace(MODELS.facts("anthropic", "claude-opus-5"), **(facts or {})),
        upstream="anthropic",
        agent=AGENTS.generic,
        spool=spool,
        strict=True,
    )
    policy = Policy(name="test", stages=Stages(**stages))
    made = rewrite(raw, DIALECTS["anthropic"], policy, ledger, known)
    assert made.commit is not None
    ledger.keep_policy(made.policy.digest, made.policy.encoded)
    ledger.settle(ledger.commit(made.commit), None, (), success=True)
    return made


def shown(made: Rewrite) -> list[Any]:
    """Contents of all results as they leave, in order."""
    return [
        block["content"]
        for message in orjson.loads(made.body)["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
