"""Retroactive batches by themselves: where they are anchored, and why one is not made."""

from typing import Any

import orjson
from msgspec import structs

from proxy.conversation import Conversation
from proxy.dialects.anthropic import Anthropic
from proxy.edits import Remove, target_of
from proxy.identity import chain, origin, plainly
from proxy.branch import Branch, Break, Frozen, Place, Promise
from proxy.models import Models
from proxy.stages import Facts, View
from proxy.stages.batch import Obstacle, anchor, batch, terms_of, tokens_before
from proxy.rules import Rules

DIALECT = Anthropic()
BROKE = Break(turn=1, cost=100.0, saves=50.0)
RULES: Rules = DIALECT.rules
FACTS = Facts(
    now=0.0, tenant=b"t", model=Models.load().facts("anthropic", "claude-sonnet-4-5"), upstream="anthropic"
)


def read(*messages: tuple[str, Any], **members: Any) -> Conversation:
    body = {"messages": [{"role": role, "content": said} for role, said in messages], **members}
    conversation = DIALECT.read(DIALECT.open(orjson.dumps(body)))
    return structs.replace(conversation, messages=tuple(chain(conversation.messages, origin(b"t"), plainly)))


def view(conversation: Conversation, **more: Any) -> View:
    made: dict[str, Any] = {
        "rules": RULES,
        "facts": FACTS,
        "place": Place(branch=None, common=0, broke=False),
        "start": 0,
        "regions": {},
        "frozen": Frozen(),
        "announced": {},
    }
    return View(conversation=conversation, client=conversation, **{**made, **more})


def removal(conversation: Conversation) -> Remove:
    target = target_of(conversation.messages[0].parts[0])
    return Remove(stage="stale", reason="", target=target, committed=True)


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
TALK = read(("user", "aaaa"), ("assistant", [THOUGHT, {"type": "text", "text": "b"}]), ("user", "c"))


def test_a_batch_is_one_promise_at_the_last_thing_the_model_said() -> None:
    """A rewind to before it is not bound by it."""
    assert batch(view(TALK), "stale", [removal(TALK)], BROKE) == Promise(
        anchor=TALK.messages[1].parts[1].key, stage="stale", edits=(removal(TALK),), broke=BROKE
    )


def test_before_the_model_said_anything_there_is_no_batch() -> None:
    """Thinking and blank text are nothing to anchor at."""
    silent = read(("user", "a"), ("assistant", [THOUGHT, {"type": "text", "text": ""}]), ("user", "c"))
    assert anchor(silent) is None
    assert batch(view(silent), "stale", [removal(silent)], BROKE) == Obstacle(
        "the model has not answered yet"
    )


def test_each_stage_makes_one_batch_at_a_place() -> None:
    """Promises are write-once: a second one there would be lost."""
    made = batch(view(TALK), "stale", [removal(TALK)], BROKE)
    assert isinstance(made, Promise)
    branch = Branch(
        id=b"",
        root=b"",
        session="",
        keys=b"",
        policy=b"",
        touched=0.0,
        promises={made.anchor: (made,)},
    )
    again = view(TALK, place=Place(branch=branch, common=1, broke=False))
    assert batch(again, "stale", [removal(TALK)], BROKE) == Obstacle("a batch was made at this turn already")
    assert isinstance(batch(again, "compact", [removal(TALK)], BROKE), Promise)


def test_tokens_are_counted_up_to_a_part_that_says_something() -> None:
    """A quarter of the bytes; thinking between counts, though it has no number."""
    sizes = [part.size for message in TALK.messages for part in message.parts]
    assert [tokens_before(view(TALK), number) for number in range(4)] == [
        0.0,
        sum(sizes[:2]) / 4,
        sum(sizes[:3]) / 4,
        sum(sizes) / 4,
    ]


def test_of_a_conversation_met_in_its_middle_what_may_be_cached_is_taken_to_be() -> None:
    """All before its last answer, where the client marks it or the provider needs no mark, and it is long enough."""
    long = read(
        ("user", [{"type": "text", "text": "a" * 8_000, "cache_control": {"type": "ephemeral"}}]),
        ("assistant", "b"),
        ("user", "c"),
    )
    unmarked = read(("user", "a" * 8_000), ("assistant", "b"), ("user", "c"))
    opening = read(("user", "a" * 8_000))

    def cached(conversation: Conversation, **facts: Any) -> float:
        model = structs.replace(FACTS.model, minimum=1024, **facts)
        return terms_of(view(conversation, facts=structs.replace(FACTS, model=model))).cached

    assert cached(long) == long.messages[0].parts[0].size / 4
    assert cached(unmarked) == 0.0
    assert cached(unmarked, regime="prefix") == unmarked.messages[0].parts[0].size / 4
    assert cached(long, regime="none") == 0.0
    assert cached(opening, regime="prefix") == 0.0
    assert cached(read(("user", "a"), ("assistant", "b"), ("user", "c")), regime="prefix") == 0.0
