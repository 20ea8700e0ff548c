"""Clients that lose what the model gave them to send back: what leaves is what leaves for a client that keeps it."""

import copy
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from proxy.answer import READERS
from proxy.gateway.conversations import Conversations
from proxy.gateway.exchange import Incoming, Outcome
from proxy.policy import load_policy
from proxy.simulator import Call, Reply, Say, Think
from proxy.simulator.gemini.turns import SKIP
from tests.laws.spelling import Style
from tests.laws.wires import WIRES, Asked, Json, text

Lose = Callable[[Json, int], None]

READ = {
    "name": "read",
    "description": "Reads a file of the greenhouse.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
ANSWERS = (
    (
        Think("The pump first, then the fan."),
        Call("read", {"path": "pump.py"}),
        Call("read", {"path": "fan.py"}),
    ),
    (Think("Now the lamp."), Say("One more."), Call("read", {"path": "lamp.py"})),
    (Say("All is well."),),
    (Think("Once more?"), Call("read", {"path": "pump.py"})),
    (Say("It still is."),),
)


class Client:
    """One session; `lose` is done to every body before it is sent."""

    def __init__(self, wire: str, upstream: str, model: str, lose: Lose, policy: str = "careful") -> None:
        self.wire, self.upstream, self.model, self.lose = WIRES[wire], upstream, model, lose
        self.rewriter = Conversations(load_policy(policy), strict=True)
        self.provider = self.wire.provider(upstream)
        self.messages: list[Json] = []
        self.now = 1_764_547_200.0

    def play(self) -> list[Json]:
        """What left, request by request; the provider took each."""
        left = []
        self.messages.append({"role": "user", "content": [text("Check all of it.")]})
        for number, blocks in enumerate(ANSWERS):
            sent, content = self.send(number, Reply(blocks=blocks))
            left.append(sent)
            self.messages.append({"role": "assistant", "content": content})
            calls = [block for block in content if block["type"] == "tool_use"]
            results = [
                {"type": "tool_result", "tool_use_id": one["id"], "content": "on = True"} for one in calls
            ]
            self.messages.append({"role": "user", "content": results or [text("And again.")]})
        return left

    def send(self, number: int, reply: Reply) -> tuple[Json, list[Json]]:
        self.now += 10.0
        asked = Asked(
            model=self.model,
            thinks=True,
            unknown=False,
            system=[text("You look after a greenhouse. " * 300)],
            tools=[copy.deepcopy(READ)],
            messages=copy.deepcopy(self.messages),
        )
        body = orjson.loads(self.wire.body(asked, Style()))
        self.lose(body, number)
        path = self.wire.path(self.model)
        headers = tuple((name.encode(), value.encode()) for name, value in self.wire.headers)
        raw = orjson.dumps(body)
        prepared = self.rewriter.prepare(
            Incoming("POST", path, "", headers, raw, self.upstream, self.wire.name, self.now, self.upstream)
        )
        assert prepared.fault is None
        self.provider.script = lambda _: reply
        told = self.provider.answer(self.wire.headers, prepared.body, self.now, path)
        assert told.status == 200, told.exchange.error
        reader = READERS[self.wire.name]()
        reader.document(told.body)
        self.rewriter.settle(prepared, Outcome("ok", 200, None, reader.answer()))
        return orjson.loads(prepared.body), self.wire.heard(told).content


def nothing(body: Json, number: int) -> None:
    """A client that keeps everything."""
    del body, number


def parts(body: Json) -> list[Json]:
    """The parts that are calls; members have two spellings."""
    found = [part for content in body["contents"] for part in content["parts"]]
    return [part for part in found if "functionCall" in part or "function_call" in part]


def signatures(body: Json) -> list[str | None]:
    return [part.get("thoughtSignature", part.get("thought_signature")) for part in parts(body)]


def no_signatures(body: Json, number: int) -> None:
    del number
    for part in parts(body):
        part.pop("thoughtSignature", None)
        part.pop("thought_signature", None)


def stand_ins_after_a_resume(body: Json, number: int) -> None:
    """As Gemini CLI reads its own history back: all signatures are the stand-in from then on."""
    if number >= 3:
        for part in parts(body)[: 3 if number == 3 else None]:
            for name in {"thoughtSignature", "thought_signature"} & part.keys():
                part[name] = SKIP[0]


def blank_signatures(body: Json, number: int) -> None:
    del number
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "thinking":
                block["signature"] = ""


def no_reasoning(body: Json, number: int) -> None:
    del number
    for message in body["messages"]:
        if "tool_calls" in message:
            message.pop("reasoning_content", None)


def no_encrypted_content(body: Json, number: int) -> None:
    del number
    for item in body["input"]:
        if item.get("type") == "reasoning":
            item.pop("encrypted_content", None)


MANUAL = "claude-opus-4-5"
"""With a budget for thinking the round that is open must begin with it [A41]."""
LOSSES = [
    ("gemini", "gemini", "gemini-3-pro", no_signatures),
    ("gemini", "gemini", "gemini-3-pro", stand_ins_after_a_resume),
    ("anthropic", "anthropic", MANUAL, blank_signatures),
    ("anthropic", "anthropic", "claude-opus-5-5", blank_signatures),
    ("openai_chat", "deepseek", "deepseek-v4-pro", no_reasoning),
    ("openai_chat", "moonshot", "kimi-k3", no_reasoning),
    ("openai_responses", "openai", "gpt-5.5", no_encrypted_content),
    ("openai_responses", "openai", "gpt-6.1-sol", no_encrypted_content),
]


def plain(value: Json) -> bytes:
    """A body whatever the order of its members, and which of its two spellings one of Gemini's has."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).replace(b"thought_signature", b"thoughtSignature")


@pytest.mark.parametrize(("wire", "upstream", "model", "lose"), LOSSES)
def test_what_leaves_is_what_leaves_for_a_client_that_keeps_it(
    wire: str, upstream: str, model: str, lose: Lose
) -> None:
    """Turn by turn: put back once, and in every later request."""
    kept = Client(wire, upstream, model, nothing).play()
    lost = Client(wire, upstream, model, lose).play()
    assert [plain(body) for body in lost] == [plain(body) for body in kept]


@pytest.mark.parametrize(("wire", "upstream", "model", "lose"), [one for one in LOSSES if one[2] != MANUAL])
def test_nothing_is_put_back_where_the_policy_says_so(
    wire: str, upstream: str, model: str, lose: Lose, tmp_path: Path
) -> None:
    """Then the repair that is left takes its place: a stand-in, or what cannot be read leaves."""
    file = tmp_path / "policy.yaml"
    file.write_text("extends: careful\nrestore: off\n")
    kept = Client(wire, upstream, model, nothing, str(file)).play()
    lost = Client(wire, upstream, model, lose, str(file)).play()
    assert plain(lost[0]) == plain(kept[0])
    assert [plain(body) for body in lost] != [plain(body) for body in kept]


def test_what_is_not_that_very_part_gets_nothing() -> None:
    """Other words, another tool: the model did not sign that."""

    def changed(body: Json, number: int) -> None:
        blank_signatures(body, number)
        for message in body["messages"]:
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block["type"] == "thinking":
                    block["thinking"] += " Or not."

    sent = Client("anthropic", "anthropic", "claude-sonnet-4-6", changed).play()
    assert not any(b'"thinking":"' in orjson.dumps(body["messages"]) for body in sent)


def test_another_answer_at_the_same_place_gets_nothing() -> None:
    """The client went on otherwise than with the answer it was given."""
    client = Client("gemini", "gemini", "gemini-3-pro", no_signatures)
    client.messages.append({"role": "user", "content": [text("Check all of it.")]})
    client.send(0, Reply(blocks=(Call("read", {"path": "pump.py"}),)))
    made_up = {"type": "tool_use", "id": "x", "name": "write", "input": {"path": "pump.py"}}
    client.messages += [
        {"role": "assistant", "content": [made_up]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "done"}]},
    ]
    sent, _ = client.send(1, Reply(blocks=(Say("Fine."),)))
    assert signatures(sent) == [SKIP[0]]
