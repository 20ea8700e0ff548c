"""One `prompt_cache_key` a conversation, and marks beside those that a provider sets itself."""

from __future__ import annotations

import json
from typing import Any

from proxy.dialects import DIALECTS
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.policy import load_policy
from proxy.rewrite import rewrite
from proxy.simulator.chat import ChatProvider
from proxy.stages import Facts

MODELS = Models.load()
SYSTEM = {"role": "system", "content": "You look after a greenhouse. " * 400}
OPENING = {"role": "user", "content": "Check the pump."}
ANSWER = {"role": "assistant", "content": "It runs."}
MORE = {"role": "user", "content": "And the fan?"}


class Conversation:
    """Requests to one upstream through one ledger."""

    def __init__(self, upstream: str = "openai", model: str = "gpt-5.6", policy: str = "careful") -> None:
        self.upstream, self.model, self.policy = upstream, model, load_policy(policy)
        self.ledger = Ledger()

    def send(self, *messages: dict[str, Any], **members: Any) -> dict[str, Any]:
        """What leaves."""
        body = json.dumps({"model": self.model, "messages": list(messages), **members}).encode()
        facts = Facts(
            now=1_000.0,
            tenant=b"me",
            model=MODELS.facts(self.upstream, self.model),
            upstream=self.upstream,
            strict=True,
        )
        policy = self.policy.choose(self.upstream, "", self.model)
        made = rewrite(body, DIALECTS["openai_chat"], policy, self.ledger, facts)
        if made.commit is not None:
            self.ledger.settle(self.ledger.commit(made.commit), None, (), success=True)
        self.untouched = made.body is body
        return json.loads(made.body)


def test_a_conversation_keeps_the_key_it_began_with():
    """All requests carry the same key, made of the opening alone."""
    one = Conversation(model="gpt-5.1")
    first = one.send(SYSTEM, OPENING)["prompt_cache_key"]
    assert first.startswith("stet-") and len(first) <= 64
    assert one.send(SYSTEM, OPENING, ANSWER, MORE)["prompt_cache_key"] == first
    assert Conversation(model="gpt-5.1").send(SYSTEM, OPENING)["prompt_cache_key"] == first
    assert Conversation(model="gpt-5.1").send(SYSTEM, MORE)["prompt_cache_key"] != first


def test_where_a_key_is_a_cache_of_its_own_none_is_given():
    """Sessions and sub-agents go on reading the tools and the system prompt that another one wrote [B106]."""
    provider = ChatProvider()
    marked = {"type": "text", "text": SYSTEM["content"], "prompt_cache_breakpoint": {"mode": "explicit"}}
    for system in (SYSTEM, {"role": "system", "content": [marked]}):
        reads = []
        for task in ("Check the pump.", "Check the fan.", "Check the lamps."):
            sent = Conversation().send(system, {"role": "user", "content": task})
            provider.answer([("authorization", "Bearer k")], json.dumps(sent).encode(), 0.0)
            reads.append(provider.log[-1].read)
            assert "prompt_cache_key" not in sent
        assert min(reads[1:]) > 1024


def test_a_key_that_a_conversation_began_with_is_kept_whatever_the_model_becomes():
    """Going without would leave the cache that it has."""
    one = Conversation(model="gpt-5.1")
    first = one.send(SYSTEM, OPENING)["prompt_cache_key"]
    one.model = "gpt-5.6"
    assert one.send(SYSTEM, OPENING, ANSWER, MORE)["prompt_cache_key"] == first


def test_a_key_of_the_client_is_the_key():
    """A client that names its conversations is left to it."""
    sent = Conversation(model="gpt-5.1").send(OPENING, prompt_cache_key="ses_1")
    assert sent["prompt_cache_key"] == "ses_1"


def test_a_conversation_met_in_its_middle_goes_on_without():
    """Another key would be another cache [B106]."""
    one = Conversation(model="gpt-5.1")
    assert "prompt_cache_key" not in one.send(SYSTEM, OPENING, ANSWER, MORE)
    assert "prompt_cache_key" not in one.send(SYSTEM, OPENING, ANSWER, MORE, ANSWER, MORE)


def test_nobody_gets_a_field_it_is_not_known_to_take():
    """Strict services refuse the field."""
    for upstream in ("unknown", "vllm", "llama.cpp", "deepseek", "openrouter"):
        one = Conversation(upstream, "some-model")
        assert "prompt_cache_key" not in one.send(OPENING)
        assert one.untouched


def test_the_end_of_the_system_prompt_is_marked_where_the_model_takes_it():
    """Other sessions share it; the tail is the provider's own to mark [B101 B104]."""
    sent = Conversation().send(SYSTEM, OPENING)
    (part,) = sent["messages"][0]["content"]
    assert part == {
        "type": "text",
        "text": SYSTEM["content"],
        "prompt_cache_breakpoint": {"mode": "explicit"},
    }
    assert sent["messages"][1] == OPENING


def test_models_that_know_no_marks_get_none():
    """Before 5.6 a mark is refused."""
    assert Conversation(model="gpt-5.1").send(SYSTEM, OPENING)["messages"] == [SYSTEM, OPENING]


def test_a_client_that_says_how_it_is_cached_is_left_to_it():
    """With options of its own, or marks."""
    options = {"prompt_cache_options": {"mode": "explicit"}}
    assert Conversation().send(SYSTEM, OPENING, **options)["messages"] == [SYSTEM, OPENING]


def test_a_tail_that_is_no_end_of_a_turn_is_marked():
    """A system message behind the user's is no boundary of the provider's [B105]."""
    late = {"role": "system", "content": "Plan mode is on."}
    sent = Conversation().send(SYSTEM, OPENING, late)
    assert sent["messages"][2]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}
