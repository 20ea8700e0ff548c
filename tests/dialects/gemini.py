"""Gemini requests in a few words, and a line from a client through the whole rewrite to the embedded API."""

from __future__ import annotations

from typing import Any

import orjson
from msgspec import structs

from proxy.dialects.gemini import Gemini
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.policy import Policies, load_policy
from proxy.rewrite import Rewrite, rewrite
from proxy.simulator.gemini import GeminiProvider, GeminiSettings
from proxy.simulator.gemini.turns import sign
from proxy.stages import Facts
from proxy.usage import gemini_usage

Json = dict[str, Any]
MODELS = Models.load()
DIALECT = Gemini()
PRO3, PRO25 = "gemini-3-pro", "gemini-2.5-pro"
STRICT = GeminiSettings(backend="vertex", strict_text=True, strict_ids=True, bound_signatures=True)
READ = {"name": "read_file", "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}}}
RUN = {"name": "run", "parameters": {"type": "OBJECT", "properties": {"cmd": {"type": "STRING"}}}}


def text(words: str, **members: Any) -> Json:
    return {"text": words, **members}


def call(name: str = "read_file", *, ident: str | None = None, signed: bool = False, **args: Any) -> Json:
    part = {"functionCall": {**({"id": ident} if ident else {}), "name": name, "args": args or {"path": "a"}}}
    return {**part, "thoughtSignature": sign(part)} if signed else part


def result(name: str = "read_file", *, ident: str | None = None, **response: Any) -> Json:
    inner = {**({"id": ident} if ident else {}), "name": name, "response": response or {"output": "ok"}}
    return {"functionResponse": inner}


def user(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Json) -> Json:
    return {"role": "model", "parts": list(parts)}


def body(*contents: Json, **members: Any) -> Json:
    return {"contents": list(contents), "tools": [{"functionDeclarations": [READ, RUN]}], **members}


class Line:
    """A client's line through the rewrite to the API, with the ledger between its turns."""

    def __init__(
        self, name: str = PRO25, policy: str = "default", settings: GeminiSettings = STRICT, **facts: Any
    ) -> None:
        self.name = name
        self.policy: Policies = load_policy(policy)
        self.provider = GeminiProvider(settings)
        self.ledger = Ledger()
        self.facts = facts
        self.now = 1_000.0

    def rewritten(self, request: Json) -> Rewrite:
        found = MODELS.facts("gemini", self.name)
        facts = Facts(
            now=self.now,
            tenant=b"t",
            model=structs.replace(found, **self.facts),
            upstream="gemini",
            strict=True,
        )
        policy = self.policy.choose("gemini", "", found.model)
        made = rewrite(orjson.dumps(request), DIALECT, policy, self.ledger, facts)
        self.ticket = self.ledger.commit(made.commit) if made.commit else None
        return made

    def sent(self, request: Json) -> Json:
        """The body that leaves for this request."""
        return orjson.loads(self.rewritten(request).body)  # type: ignore[no-any-return]

    def judged(self, raw: bytes) -> str | None:
        """What the API says no with; None if it answers."""
        self.answer = self.provider.answer((), raw, self.now, f"/v1beta/models/{self.name}:generateContent")
        return None if self.answer.status == 200 else self.answer.json["error"]["message"]

    def send(self, request: Json) -> Json:
        """Send it, learn from the answer, and give the answer's content."""
        self.now += 10.0
        made = self.rewritten(request)
        assert self.judged(made.body) is None, self.answer.json
        usage = gemini_usage(self.answer.json["usageMetadata"])
        if self.ticket is not None:
            self.ledger.settle(self.ticket, usage, (), success=True)
        return self.answer.json["candidates"][0]["content"]  # type: ignore[no-any-return]


def mended(*contents: Json, name: str = PRO25) -> list[Json]:
    """The contents that leave; the API refuses them as they came, and takes them as they leave."""
    line = Line(name)
    assert line.judged(orjson.dumps(body(*contents))) is not None
    sent = line.sent(body(*contents))
    assert line.judged(orjson.dumps(sent)) is None, line.answer.json
    return sent["contents"]  # type: ignore[no-any-return]
