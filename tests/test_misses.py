"""What should have come from the cache, and who is to blame where it did not."""

from typing import Any

import orjson
import pytest
from msgspec import structs

from proxy.agents import Agents, VolatileRule
from proxy.answer import Diagnosis
from proxy.dialects.anthropic import Anthropic
from proxy.ledger import Ledger
from proxy.misses import Expected, diagnosed, expected, first_difference, held, miss
from proxy.models import Models
from proxy.policy import Policy, Stages
from proxy.rewrite import Rewrite, rewrite
from proxy.stages import Facts, balance, relocate, stale
from proxy.turns import Miss
from proxy.usage import Usage

Json = dict[str, Any]
MODELS = Models.load()
GENERIC = Agents.load().generic
MODEL = "claude-sonnet-4-5"
HELD = Usage(prompt=10_000, cached=6_000, written=3_000)


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def user(*content: Json | str) -> Json:
    return {"role": "user", "content": [text(part) if isinstance(part, str) else part for part in content]}


def answer(*content: Json | str) -> Json:
    return {**user(*content), "role": "assistant"}


def call(ident: str) -> Json:
    return {"type": "tool_use", "id": ident, "name": "read", "input": {}}


def result(ident: str, content: str) -> Json:
    return {"type": "tool_result", "tool_use_id": ident, "content": content}


PICTURE: Json = {"type": "image", "source": {"type": "url", "url": "https://a.example/"}}
STRANGE: Json = {"type": "hologram"}


class Talk:
    """A client whose requests go out, one every ten seconds."""

    def __init__(self, stages: Stages | None = None) -> None:
        self.policy = Policy(name="test", stages=stages or Stages())
        self.ledger = Ledger()
        self.now = 1_000.0

    def facts(self, upstream: str = "anthropic", model: str = MODEL) -> Facts:
        return Facts(
            now=self.now,
            tenant=b"t",
            model=structs.replace(MODELS.facts(upstream, model), minimum=1024),
            upstream=upstream,
            agent=GENERIC,
            strict=True,
        )

    def send(
        self,
        *messages: Json,
        wait: float = 10.0,
        usage: Usage | None = HELD,
        upstream: str = "anthropic",
        session: str = "",
        observed: bool = False,
        **members: Any,
    ) -> Expected:
        """What is expected of this request before it leaves; then it leaves and is answered."""
        self.now += wait
        body: Json = {"model": MODEL, "max_tokens": 1, "system": "Be brief.", **members}
        body["messages"] = list(messages)
        facts = structs.replace(self.facts(upstream, body["model"]), session=session)
        made = rewrite(orjson.dumps(body), Anthropic(), self.policy, self.ledger, facts)
        before = made.place.branch if made.place and made.place.branch else self.ledger.latest(session)
        recent = self.ledger.recent_of(before.id) if before is not None else None
        found = expected(made, before, recent, facts, observed=observed)
        assert made.commit is not None
        self.ledger.settle(self.ledger.commit(made.commit), usage, (), success=True)
        return found


OPENING = (user("a"), answer("b"), user("c"))
LATER = (*OPENING, answer("d"), user("e"))


def missed(*first: Json, then: tuple[Json, ...], **members: Any) -> Miss | None:
    """What speaks against finding the first request's prompt in the cache with the second."""
    talk = Talk()
    talk.send(*first)
    return talk.send(*then, **members).miss


def test_of_a_new_conversation_nothing_is_expected() -> None:
    """Nobody has seen it."""
    assert Talk().send(*OPENING) == Expected(tokens=0)


def test_of_one_that_goes_on_all_that_was_read_or_written_is_expected() -> None:
    """Nothing speaks against it."""
    talk = Talk()
    talk.send(*OPENING)
    assert talk.send(*LATER) == Expected(tokens=9_000)


@pytest.mark.parametrize(
    ("usage", "tokens"), [(None, None), (Usage(prompt=5), None), (Usage(prompt=5, cached=3), 3)]
)
def test_where_the_provider_does_not_say_nothing_is_known(usage: Usage | None, tokens: int | None) -> None:
    """A missing number is no zero."""
    talk = Talk()
    talk.send(*OPENING, usage=usage)
    assert talk.send(*LATER).tokens == tokens


def test_a_request_that_was_not_read_expects_nothing() -> None:
    """There is nothing to compare."""
    made = Rewrite(body=b"", spare=b"", policy=Policy(name="", stages=Stages()))
    assert expected(made, None, None, Talk().facts()) == Expected(tokens=0)


def test_a_failed_conversation_expects_nothing() -> None:
    """Nothing succeeded, so nothing is held."""
    talk = Talk()
    body = orjson.dumps({"model": MODEL, "messages": OPENING})
    made = rewrite(body, Anthropic(), talk.policy, talk.ledger, talk.facts())
    assert made.commit is not None
    talk.ledger.commit(made.commit)
    assert talk.send(*LATER) == Expected(tokens=0)


def test_another_model_has_a_cache_of_its_own() -> None:
    """What the last one held is what was lost."""
    talk = Talk()
    talk.send(*OPENING)
    assert talk.send(*LATER, model="claude-opus-4-5") == Expected(
        tokens=9_000, miss=Miss("model", "last sent to claude-sonnet-4-5 at anthropic")
    )


def test_another_upstream_holds_nothing_yet() -> None:
    """Nothing is expected of it, and that all is paid there again is said; back at the first one all is as it was."""
    talk = Talk()
    talk.send(*OPENING)
    moved = talk.send(*LATER, upstream="vllm", usage=Usage(prompt=500, cached=400, written=0))
    assert moved == Expected(tokens=0, miss=Miss("upstream", "last sent to claude-sonnet-4-5 at anthropic"))
    assert miss(moved, Usage(prompt=9_500, cached=0), talk.facts("vllm")) == moved.miss
    assert miss(moved, Usage(prompt=9_500, cached=9_000), talk.facts("vllm")) is None
    more = (*LATER, answer("f"), user("g"))
    assert talk.send(*more, upstream="vllm").tokens == 400
    assert talk.send(*more, answer("h"), user("i")) == Expected(tokens=9_000)


def test_a_cache_expires() -> None:
    """By the time since the last request, and the lifetime its last mark asked for."""
    assert missed(*OPENING, then=LATER, wait=301.0) == Miss(
        "expired", "301 s since the last request, kept for 300 s"
    )
    marked = user({**text("c"), "cache_control": {"type": "ephemeral", "ttl": "1h"}})
    later = (*OPENING, answer("d"), user({**text("e"), "cache_control": {"type": "ephemeral"}}))
    assert missed(*OPENING[:2], marked, then=later, wait=301.0) is None
    assert missed(*OPENING[:2], marked, then=LATER, wait=3601.0) == Miss(
        "expired", "3601 s since the last request, kept for 3600 s"
    )


RUN, READ = {"name": "run"}, {"name": "read"}


@pytest.mark.parametrize(
    ("before", "after", "detail"),
    [
        ({"system": "Be brief."}, {"system": "Be kind."}, "system.0 changed at byte 3 of 9"),
        ({"system": "Be brief."}, {"system": []}, "system.0 is gone"),
        ({"tools": [RUN]}, {"tools": [RUN, READ]}, "tools.read is new"),
        ({"tools": [RUN, READ]}, {"tools": [RUN]}, "tools.read is gone"),
        (
            {"tools": [RUN]},
            {"tools": [{**RUN, "description": "Runs."}]},
            "tools.run changed at byte 13 of 14",
        ),
        ({"tools": [RUN, READ]}, {"tools": [READ, RUN]}, "the order of tools changed"),
    ],
)
def test_what_stands_before_the_turns_is_named(before: Json, after: Json, detail: str) -> None:
    """The tool or the part of the system prompt that the client changed."""
    talk = Talk()
    talk.send(*OPENING, **before)
    assert talk.send(*LATER, **after).miss == Miss("client", detail)


def test_the_place_of_a_change_is_a_byte() -> None:
    """Of the text the client wrote, from 0; what was only added or cut off begins where the shorter one ends."""
    talk = Talk()
    for system in ("Gärten: 12:00", "Gärten: 12:01", "Gärten: 12:01, and more", "Gärten"):
        found = talk.send(*OPENING, system=system)
    details = []
    for system in ("Garten", "Garten: 12"):
        found = talk.send(*OPENING, system=system)
        assert found.miss is not None
        details.append(found.miss.detail)
    assert details == ["system.0 changed at byte 1 of 7", "system.0 changed at byte 6 of 6"]


def test_what_is_only_observed_is_judged_by_what_the_client_wrote() -> None:
    """A date that we would have kept still is the client's miss then, and a batch that was not made is none of ours."""
    talk = Talk(Stages(relocate=relocate.Config()))
    talk.send(*OPENING, system="Today's date: 2025-12-01", observed=True)
    assert talk.send(*LATER, system="Today's date: 2025-12-02", observed=True).miss == Miss(
        "client", "system.0 changed at byte 23 of 24"
    )


def test_what_we_keep_still_is_no_change() -> None:
    """The client changed its date, but what is sent has not."""
    talk = Talk(Stages(relocate=relocate.Config()))
    talk.send(*OPENING, system="Today's date: 2025-12-01")
    assert talk.send(*LATER, system="Today's date: 2025-12-02").miss is None


def test_a_change_of_what_is_sent_alone_is_said() -> None:
    """The client changed nothing, but another policy puts something else there."""
    talk = Talk()
    talk.send(*OPENING)
    rule = VolatileRule(
        name="how", where=["system"], pattern="Be (?P<value>brief)", mode="constant", value="x"
    )
    talk.policy = Policy(name="other", stages=Stages(relocate=relocate.Config(rules=[rule])))
    assert talk.send(*LATER).miss == Miss("client", "tools or system changed in what is sent")


def test_without_the_last_request_less_is_said() -> None:
    """It is remembered only for a while."""
    talk = Talk()
    talk.ledger = Ledger(recent_bytes=1)
    talk.send(*OPENING)
    talk.send(user("z"))
    assert talk.send(*LATER, system="Be kind.").miss == Miss("client", "tools or system changed")
    talk.send(user("z"))
    assert talk.send(*OPENING, answer("x"), user("y"), system="Be kind.").miss == Miss(
        "client", "the history went on otherwise"
    )


@pytest.mark.parametrize(
    ("before", "after", "detail"),
    [
        (
            (user("x", "y"),),
            (user("x", "z"),),
            "messages[0].content[1] (text) changed, 104 bytes stand there and behind",
        ),
        (
            (user("x", "y"),),
            (user("x"),),
            "messages[0].content[1] (text) is missing, 104 bytes stand there and behind",
        ),
        ((user("x", "y", "z"),), (user("x", "z"),), "messages[0].content[1] (text) is missing"),
        (
            (user("x", "y"),),
            (user("x", "n", "y"),),
            "messages[0].content[1] (text) has something new before it",
        ),
        ((user("x", "y", "z"),), (user("x", "z", "y"),), "messages[0].content[1] (text) changed"),
        ((user("x", PICTURE),), (user("x", {**PICTURE, "a": 1}),), "messages[0].content[1] (media) changed"),
        ((user("x", STRANGE),), (user("x", {**STRANGE, "a": 1}),), "messages[0].content[1] (block) changed"),
        (
            (user("x"), answer(call("1")), user(result("1", "o"))),
            (user("x"), answer(call("2")), user(result("2", "o"))),
            "messages[1].content[0] (tool call) changed",
        ),
        (
            (user("x"), answer(call("1")), user(result("1", "o"))),
            (user("x"), answer(call("1")), user(result("1", "p"))),
            "messages[2].content[0] (tool result) changed",
        ),
        (
            (user("x"), answer(call("1")), user(result("1", "o"))),
            (user("x"), answer(call("1")), user(result("1", "o"), result("2", "o"))),
            "messages[2].content[1] (tool result) is new",
        ),
        ((user("x"), answer("y"), user("z")), (user("x"),), "messages[1] and what stood behind it is gone"),
    ],
)
def test_the_first_part_that_is_otherwise_is_named(
    before: tuple[Json, ...], after: tuple[Json, ...], detail: str
) -> None:
    """With its place, its kind and what stands behind it; never with its content."""
    talk = Talk()
    talk.send(*before, answer("a"), user("b"), session="s")
    found = talk.send(*after, session="s").miss
    assert found is not None
    assert (found.reason, found.detail[: len(detail)]) == ("client", detail)


def test_a_plain_append_differs_nowhere() -> None:
    """Nor does anything from nothing, nor thinking that comes or goes."""
    talk = Talk()
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    talk.send(user("a"), answer(thought, "b"), user("c"), session="s")
    branch = talk.ledger.latest("s")
    assert branch is not None
    recent = talk.ledger.recent_of(branch.id)
    assert recent is not None
    body = orjson.dumps({"model": MODEL, "messages": LATER})
    read = rewrite(body, Anthropic(), talk.policy, talk.ledger, talk.facts()).read
    assert read is not None
    assert first_difference(recent, read) is None
    assert first_difference(None, read) is None


def long(words: str) -> str:
    return words * (2_000 // len(words))


def test_our_own_batch_is_named_once() -> None:
    """In the request that makes it; repeated in the next one it breaks nothing, and a new batch counts alone."""
    eager = stale.Config(keep=0, min_bytes=512, min_batch_bytes=0)
    talk = Talk(Stages(balance=balance.Config(), stale=eager))
    one = (user("a"), answer(call("1")), user(result("1", long("one "))))
    two = (*one, answer(call("2")), user(result("2", long("two "))))
    uncached = Usage(prompt=10_000, cached=0, written=0)
    talk.send(*one, usage=uncached)
    first = talk.send(*two, usage=uncached)
    second = talk.send(*two, answer("b"), user("c"), usage=uncached)
    third = talk.send(*two, answer("b"), user("c"), answer("d"), user("e"))
    assert [found.miss and found.miss.reason for found in (first, second, third)] == ["ours", "ours", None]
    assert first.miss is not None
    assert second.miss is not None
    assert first.miss.detail.startswith("stale: stale result; nothing behind it is cached, about ")
    saved = [int(found.miss.detail.split("about ")[1].split()[0]) for found in (first, second) if found.miss]
    assert saved[0] == pytest.approx(saved[1], rel=0.3)


# -- a session whose history begins otherwise ------------------------------------------------------------------


def begun(*then: Json, **members: Any) -> Expected:
    talk = Talk()
    talk.send(*LATER, session="s")
    return talk.send(*then, session="s", **members)


def test_a_session_that_begins_otherwise_is_the_clients_change() -> None:
    """Its first words are not those that were sent."""
    assert begun(user("x"), *LATER[1:]) == Expected(
        tokens=9_000,
        miss=Miss("client", "messages[0].content[0] (text) changed, 130 bytes stand there and behind"),
    )


@pytest.mark.parametrize(
    ("messages", "members"),
    [
        ((user("x"),), {}),
        ((user("x"), answer("y"), user("z")), {"system": "Give a title."}),
        ((user("x"), answer("y"), user("z")), {"model": "claude-haiku-4-5"}),
    ],
)
def test_a_request_beside_the_conversation_expects_nothing(messages: tuple[Json, ...], members: Json) -> None:
    """A first request, other instructions, another model: it is not the conversation gone wrong."""
    assert begun(*messages, **members) == Expected(tokens=0)


# -- after the answer ------------------------------------------------------------------------------------------

CAUSE = Miss("client", "something changed")


@pytest.mark.parametrize(
    ("foreseen", "usage", "found"),
    [
        (Expected(tokens=10_000, miss=CAUSE), Usage(prompt=12_000, cached=9_000), None),
        (Expected(tokens=10_000, miss=CAUSE), Usage(prompt=12_000, cached=8_999), CAUSE),
        (Expected(tokens=1_000, miss=CAUSE), Usage(prompt=2_000, cached=745), None),
        (Expected(tokens=1_000, miss=CAUSE), Usage(prompt=2_000, cached=744), CAUSE),
        (Expected(tokens=0, miss=CAUSE), Usage(prompt=2_000, cached=0), None),
        (Expected(tokens=None, miss=CAUSE), Usage(prompt=2_000, cached=0), None),
        (Expected(tokens=9_000, miss=CAUSE), Usage(prompt=2_000), None),
        (Expected(tokens=9_000, miss=CAUSE), None, None),
        (
            Expected(tokens=9_000),
            Usage(prompt=1_000, cached=0),
            Miss("small", "1000 tokens, cached from 1024 on"),
        ),
        (
            Expected(tokens=9_000),
            Usage(prompt=9_500, cached=0),
            Miss("unknown", "what was sent goes on from what the provider held"),
        ),
        (
            Expected(tokens=9_000),
            Usage(cached=0),
            Miss("unknown", "what was sent goes on from what the provider held"),
        ),
    ],
)
def test_a_miss_is_less_than_nine_tenths_and_not_a_few_tokens(
    foreseen: Expected, usage: Usage | None, found: Miss | None
) -> None:
    """Providers round, and what is not known is no miss; what was foreseen is the reason."""
    assert miss(foreseen, usage, Talk().facts()) == found


@pytest.mark.parametrize(
    ("upstream", "model", "usage", "tokens"),
    [
        ("anthropic", MODEL, Usage(prompt=10_000, cached=6_000, written=3_000), 9_000),
        ("anthropic", MODEL, Usage(prompt=10_000, cached=6_000), 6_000),
        ("openai", "gpt-5", Usage(prompt=10_000, cached=6_000), 9_984),
        ("openai", "gpt-6-sol", Usage(prompt=10_000, cached=6_000, written=3_000), 9_000),
        ("gemini", "gemini-3-pro", Usage(prompt=10_000, cached=0), 10_000),
        ("gemini", "gemini-3-pro", Usage(prompt=4_000, cached=0), 0),
        ("deepseek", "deepseek-v4-pro", Usage(prompt=10_000, cached=64), 9_984),
        ("vllm", "qwen3", Usage(prompt=1_000, cached=0), 992),
        ("vllm", "qwen3", Usage(prompt=1_000), None),
        ("vllm", "qwen3", Usage(cached=7), 7),
        ("vllm", "qwen3", None, None),
    ],
)
def test_what_a_provider_holds_behind_a_request(
    upstream: str, model: str, usage: Usage | None, tokens: int | None
) -> None:
    """What was read and written where writes are counted; the whole prompt in blocks where all of it is kept unasked."""
    assert held(usage, MODELS.facts(upstream, model)) == tokens


@pytest.mark.parametrize(
    ("found", "diagnosis", "said"),
    [
        (None, None, None),
        (Miss("ours", "stale"), None, Miss("ours", "stale")),
        (
            Miss("ours", "stale"),
            Diagnosis("messages_changed", 4_000),
            Miss("ours", "stale; the provider says: messages_changed, 4000 tokens"),
        ),
        (Miss("unknown"), Diagnosis("model_changed"), Miss("model", "the provider says: model_changed")),
        (
            Miss("unknown", "why"),
            Diagnosis("tools_changed"),
            Miss("unknown", "why; the provider says: tools_changed"),
        ),
        (
            Miss("unknown"),
            Diagnosis(removed=("prefix_mismatch", "turn_boundary")),
            Miss("unknown", "the provider says: reasoning withheld (prefix_mismatch, turn_boundary)"),
        ),
        (
            None,
            Diagnosis("reasoning_effort_changed", 4_000),
            Miss("client", "the provider says: reasoning_effort_changed, 4000 tokens"),
        ),
        (None, Diagnosis("messages_changed", 40), None),
        (None, Diagnosis("unavailable"), None),
        (None, Diagnosis(removed=("prefix_mismatch",)), None),
    ],
)
def test_the_provider_has_a_word_too(
    found: Miss | None, diagnosis: Diagnosis | None, said: Miss | None
) -> None:
    """Beside our own finding; instead of it only where its word alone tells whose the change is."""
    assert diagnosed(found, diagnosis) == said


MARK: Json = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (18, None),
        (19, Miss("lookback", "the next mark stands 21 blocks behind the last one, and 20 are looked back")),
    ],
)
def test_a_mark_finds_the_last_one_within_the_lookback_only(steps: int, found: Miss | None) -> None:
    """The marked block and nineteen before it are looked at [B6]."""
    more = (answer(*map(str, range(steps))), user({**text("go on"), **MARK}))
    assert missed(user({**text("a"), **MARK}), then=(user("a"), *more)) == found


def test_a_run_of_calls_and_one_of_results_are_one_step_each() -> None:
    """Thirty parallel calls are two positions [B6]."""
    calls = answer(*(call(f"toolu_{nth}") for nth in range(30)))
    results = user(*(result(f"toolu_{nth}", "ok") for nth in range(30)))
    then = (user("a"), calls, results, answer("b"), user({**text("c"), **MARK}))
    assert missed(user({**text("a"), **MARK}), then=then) is None


def test_where_the_client_marks_no_further_that_is_its_change() -> None:
    """Nothing looks back."""
    found = missed(user({**text("a"), **MARK}), then=(user("a"), answer("b"), user("c")))
    assert found == Miss("client", "no cache mark where the last request ended, or behind it")
