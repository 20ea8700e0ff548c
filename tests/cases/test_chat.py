"""Chat histories as clients were seen to send them, and the services that answer or refuse them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from proxy.dialects import DIALECTS
from proxy.ledger import Ledger
from proxy.policy import load_policy
from proxy.rewrite import Rewrite, rewrite
from proxy.simulator.chat import FLAVOURS, ChatProvider
from proxy.spool import Spool
from proxy.stages import Facts
from tests.cases.bodies import AGENTS, MODELS, case

Json = dict[str, Any]

DIALECT = DIALECTS["openai_chat"]
HEADERS = (("authorization", "Bearer sk-test"), ("content-type", "application/json"))
MISSING = "No result: the tool call was interrupted before it returned."
SPOOL = Spool(key=b"greenhouse", directory="/var/spool/stet", url="http://127.0.0.1:8787")
HOSTS = {
    "openai": ("openai", "gpt-5.1"),
    "deepseek": ("deepseek", "deepseek-v4-pro"),
    "moonshot": ("kimi", "kimi-k3"),
    "mistral": ("mistral", "mistral-large"),
    "glm": ("zai", "glm-5.2"),
    "llama.cpp": ("llama.cpp", "qwen3"),
    "vllm": ("vllm", "qwen3"),
}


def said(role: str, content: Any, **members: Any) -> Json:
    return {"role": role, "content": content, **members}


def called(*ids: str, content: str | None = None, arguments: str = '{"path": "pump.py"}') -> Json:
    calls = [
        {"id": ident, "type": "function", "function": {"name": "read_file", "arguments": arguments}}
        for ident in ids
    ]
    return said("assistant", content, tool_calls=calls)


def result(ident: str, content: str = "40 lines") -> Json:
    return said("tool", content, tool_call_id=ident)


SYSTEM = said("system", "You look after a small greenhouse.")


class Proxy:
    """The rewrite in front of one service, for a client that sends one body after the other."""

    def __init__(self, upstream: str, policy: str = "careful", *, spool: Spool | None = None) -> None:
        flavour, self.model = HOSTS[upstream]
        self.flavour = FLAVOURS[flavour]
        self.upstream = upstream
        self.policy = load_policy(policy).choose(upstream, "", self.model)
        self.spool = spool
        self.ledger = Ledger()
        self.now = 0.0

    def refuses(self, body: bytes) -> bool:
        """Whether the service, asked without reasoning, refuses a body."""
        provider = ChatProvider(structs.replace(self.flavour, thinks=False))
        return provider.answer(HEADERS, body, self.now).status != 200

    def body(self, *messages: Json) -> bytes:
        return json.dumps({"model": self.model, "messages": messages}).encode()

    def rewritten(self, *messages: Json) -> Rewrite:
        self.now += 5
        facts = Facts(
            now=self.now,
            tenant=b"greenhouse",
            model=MODELS.facts(self.upstream, self.model, "openai_chat"),
            upstream=self.upstream,
            agent=AGENTS.generic,
            spool=self.spool,
            strict=True,
        )
        made = rewrite(self.body(*messages), DIALECT, self.policy, self.ledger, facts)
        if made.commit is not None:
            self.ledger.settle(self.ledger.commit(made.commit), None, (), success=True)
        return made

    def sent(self, *messages: Json) -> list[Json]:
        made = self.rewritten(*messages)
        assert not self.refuses(made.body)
        leaves: list[Json] = json.loads(made.body)["messages"]
        return leaves


# -- calls and results -----------------------------------------------------------------------------------


@case("B08")
@pytest.mark.parametrize("upstream", ["openai", "deepseek", "moonshot", "mistral"])
@pytest.mark.parametrize("came", [(), ("abcdefgh1",), ("abcdefgh2",)])
def test_a_call_that_was_interrupted_gets_a_result(upstream: str, came: tuple[str, ...]) -> None:
    """Each call has one result right behind the calls; the one that came and the person's words are as they were."""
    ids = ("abcdefgh1", "abcdefgh2")
    asked = [SYSTEM, said("user", "Read two."), called(*ids)]
    history = [*asked, *map(result, came), said("user", "Leave it.")]
    proxy = Proxy(upstream)
    assert proxy.refuses(proxy.body(*history))
    leaves = proxy.sent(*history)
    behind = leaves[3:5]
    assert {message["tool_call_id"]: message["content"] for message in behind} == {
        ident: "40 lines" if ident in came else MISSING for ident in ids
    }
    assert leaves[-1] == said("user", "Leave it.")
    later = proxy.sent(*history, said("assistant", "Left."), said("user", "Thanks."))
    assert later[: len(leaves)] == leaves


# -- size ------------------------------------------------------------------------------------------------


@case("B37")
def test_a_result_larger_than_the_window_keeps_its_ends() -> None:
    """Beginning and end stay, a note says what is missing; nothing else changes, and the next turn says the same."""
    log = "first line\n" + "step ok\n" * 262_144 + "last line\n"
    history = [said("user", "Show the build log."), called("call_1"), result("call_1", log)]
    proxy = Proxy("openai", "frugal", spool=SPOOL)
    leaves = proxy.sent(*history)
    assert leaves[:2] == history[:2]
    cut = leaves[2]["content"]
    assert leaves[2]["tool_call_id"] == "call_1"
    assert len(cut) < 20_000
    assert cut.count("first line") == 1 and cut.count("last line") == 1
    assert f"{len(log)} bytes" in cut
    later = proxy.sent(*history, said("assistant", "It built."), said("user", "Good."))
    assert later[:3] == leaves


# -- speakers --------------------------------------------------------------------------------------------


@case("B64")
@pytest.mark.parametrize("silence", ["", None])
def test_neighbours_are_joined_and_nothing_is_made_up(silence: str | None) -> None:
    """Both texts of the person are in one message, word for word; an answer of calls alone says nothing still."""
    history = [
        said("user", "Check."),
        said("user", "Be quick."),
        called("call_1", content=silence),
        result("call_1"),
    ]
    for upstream in ("llama.cpp", "glm"):
        first, call, answer = Proxy(upstream).sent(*history)
        assert [part["text"] for part in first["content"]] == ["Check.", "Be quick."]
        assert (call, answer) == (history[2], history[3])


@case("B64")
def test_where_neighbours_are_taken_they_stay_apart() -> None:
    """A service that has no rule for speakers gets the client's own object."""
    proxy = Proxy("vllm")
    made = proxy.rewritten(said("user", "Check."), said("user", "Be quick."))
    assert made.edits == ()


# -- arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upstream", ["llama.cpp", "glm"])
def test_several_leading_system_messages_become_one_where_only_one_may_stand(upstream: str) -> None:
    """In their order, the same in every turn; one is left as it is, and so are several where they may stand."""
    leads = [SYSTEM, said("system", "Answer briefly."), said("developer", "It is winter.")]
    history = [*leads, said("user", "Hello.")]
    proxy = Proxy(upstream)
    assert proxy.refuses(proxy.body(*history))
    leaves = proxy.sent(*history)
    joined = said("system", "You look after a small greenhouse.\n\nAnswer briefly.\n\nIt is winter.")
    assert leaves == [joined, history[-1]]
    later = proxy.sent(*history, said("assistant", "Hi."), said("user", "More."))
    assert later == [*leaves, said("assistant", "Hi."), said("user", "More.")]
    assert Proxy(upstream).rewritten(*leaves).edits == ()
    assert Proxy("vllm").sent(*history) == history


def test_leading_system_messages_in_parts_become_one_list() -> None:
    """Each part as it came; what came as a string is a part."""
    parts = [{"type": "text", "text": "Answer briefly.", "house": 1}]
    history = [said("system", parts, name="a"), SYSTEM, said("user", "Hello.")]
    whole = {"type": "text", "text": "You look after a small greenhouse."}
    assert Proxy("llama.cpp").sent(*history) == [said("system", [*parts, whole], name="a"), history[-1]]


@case("B72")
@pytest.mark.parametrize("broken", ['{"path":"a', "[1]", '"pump.py"', "", "{'path': 1}", '{"a":"é'])
def test_broken_arguments_become_an_object_where_they_are_read(broken: str) -> None:
    """What the model wrote is kept inside; the result stays as it is, and so does the next turn."""
    history = [
        said("user", "Write."),
        called("call_1", arguments=broken),
        result("call_1", "error: unterminated string"),
    ]
    proxy = Proxy("llama.cpp")
    leaves = proxy.sent(*history)
    arguments = json.loads(leaves[1]["tool_calls"][0]["function"]["arguments"])
    assert arguments == ({"unreadable_arguments": broken} if broken else {})
    assert leaves[2] == history[2]
    later = proxy.sent(*history, said("assistant", "I see."), said("user", "Again."))
    assert later[:3] == leaves
    again = Proxy("llama.cpp").rewritten(*leaves)
    assert again.edits == ()


@case("B72")
def test_arguments_that_nobody_reads_leave_as_they_came() -> None:
    """OpenAI does not parse them, and an object keeps its spelling everywhere."""
    broken = [said("user", "Write."), called("call_1", arguments='{"path":"a'), result("call_1")]
    assert Proxy("openai").sent(*broken) == broken
    whole = [said("user", "Write."), called("call_1", arguments='{"n": 1.50 }'), result("call_1")]
    assert Proxy("llama.cpp").sent(*whole) == whole


# -- what is put in --------------------------------------------------------------------------------------


@case("B91")
def test_what_changed_is_told_in_the_turn_of_the_person_and_before_their_words() -> None:
    """No message is added: the question stays the last text, and what is told is a part of its own."""

    def system(day: int) -> Json:
        return said("system", f"Greenhouse helper.\nToday's date: 2026-05-{day:02d}")

    proxy = Proxy("openai", "default")
    first = [system(4), said("user", "Is the pump on?")]
    assert proxy.sent(*first) == first
    history = [said("user", "Is the pump on?"), said("assistant", "Yes."), said("user", "And the fan?")]
    leaves = proxy.sent(system(5), *history)
    assert leaves[:3] == [system(4), *history[:2]]
    assert len(leaves) == 4
    told, asked = leaves[3]["content"]
    assert asked["text"] == "And the fan?"
    assert "2026-05-05" in told["text"] and told["text"].startswith("<")
