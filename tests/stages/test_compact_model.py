"""A summary that the model writes: what it is asked, what becomes of its answer, and what there is without one."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from msgspec import structs

from proxy.ledger import Ledger
from proxy.rewrite import Question, Rewrite
from proxy.simulator import Reply, Say
from proxy.stages import NOBODY, Heard, compact
from proxy.stages.question import QUESTION
from proxy.stages.summary import FOUND, OPENING, TOLD

from tests.simulator.bodies import image, png, result, send, text
from tests.stages.clearing import OPUS, Json, lines
from tests.stages.test_compact import Long, filled, said, summary

WORDS = "The fan in bay 3 has a worn bearing; part 608-2RS is ordered."


class Asking(Long):
    """A session whose model is asked before a request goes out, by the same provider."""

    def __init__(self, **members: Any) -> None:
        super().__init__(**members)
        config = self.policy.stages.compact
        assert isinstance(config, compact.Config)
        self.policy = structs.replace(
            self.policy,
            stages=structs.replace(self.policy.stages, compact=structs.replace(config, mode="model")),
        )
        self.words = WORDS
        self.asked: list[Json] = []

    def rewrite(self) -> Rewrite:
        self.heard = None
        made = super().rewrite()
        if made.question is None:
            return made
        assert made.commit is None
        assert (made.body, made.edits) == (orjson.dumps(self.body()), ())
        self.heard = self.told(made.question)
        return super().rewrite()

    def told(self, question: Question) -> Heard:
        """What the provider answers to the question."""
        reply, self.reply = self.reply, Reply(blocks=(Say(self.words),))
        answer = send(self.provider, question.body, now=self.now)
        assert answer.status == 200, answer.json
        self.reply = reply
        self.asked.append(orjson.loads(question.body))
        return Heard(text="".join(block.get("text", "") for block in answer.json["content"]))


def last(body: Json) -> list[Json]:
    """The blocks of the last message."""
    content = body["messages"][-1]["content"]
    return [text(content)] if isinstance(content, str) else content


@pytest.mark.parametrize(("model", "thinks"), [("claude-opus-5", False), (OPUS, True)])
def test_a_session_goes_on_past_its_window_with_the_models_words(model: str, thinks: bool) -> None:
    """One question for each compaction, read from the cache; its answer stands in every later request as it came."""
    work = Asking(model=model, thinks=thinks)
    work.say("The fan in bay 3 is loud. Never touch bay 1.")
    for at in range(30):
        work.does("read_file", {"path": f"f{at}.py"}, lines(f"f{at}", 900))
    asked = [one for one in work.provider.log if QUESTION.encode() in one.body]
    sent = [one for one in work.provider.log if QUESTION.encode() not in one.body]
    made = [done for done in work.done if any(promise.broke for promise in done.commit.promises)]
    assert len(asked) == len(made) > 1
    assert max(one.total for one in sent) < 30_000
    assert all(one.read / one.total > 0.9 for one in asked)
    assert all(WORDS in summary(orjson.loads(one.body)) for one in sent[-10:])
    assert all(said(body, "user")[0] == "The fan in bay 3 is loud. Never touch bay 1." for body in work.sent)


def test_the_question_is_the_request_with_other_last_words() -> None:
    """Tools, system and all that was sent stand as they stood; the new words of the person are not in it."""
    work = Asking()
    work.say("Look after the fan.")
    filled(work, times=9)
    (first, *_) = work.asked
    at = next(at for at, done in enumerate(work.done) if any(p.broke for p in done.commit.promises))
    before = work.sent[at - 1]

    def bare(body: Json) -> list[Any]:
        content = [one["content"] for one in body["messages"]]
        blocks = [[text(one)] if isinstance(one, str) else one for one in content]
        return [
            [{k: v for k, v in part.items() if k != "cache_control"} for part in part_] for part_ in blocks
        ]

    assert [first[name] for name in ("model", "system")] == [before[name] for name in ("model", "system")]
    assert [tool["name"] for tool in first["tools"]] == [tool["name"] for tool in before["tools"]]
    assert bare(first)[: len(before["messages"])] == bare(before)
    assert [part["text"] for part in last(first)] == [QUESTION]
    assert first["max_tokens"] == 2_048
    assert len(said(first, "user")) == len(said(before, "user")) + 1


def test_the_models_words_stand_for_its_conclusions_and_the_lists_stay() -> None:
    """What was asked, tasks, files and failures are not left to what the model remembers."""
    work = Asking()
    work.say("Mend pump and fan.")
    work.does("TodoWrite", {"todos": [{"content": "mend the fan", "status": "pending"}]}, "ok")
    work.does("run", {"cmd": "make fan"}, "error: no rule to make fan", is_error=True)
    filled(work)
    words = summary(work.sent[-1])
    sections = {part.splitlines()[0]: part.splitlines()[1:] for part in words.split("\n\n")[1:]}
    assert [*sections][:2] == [TOLD, "What the user asked since the first message, oldest first:"]
    assert sections[TOLD] == [WORDS]
    assert sections["Still open:"] == ["- mend the fan"]
    assert sections["Failed, and not seen to succeed since:"] == ["- make fan: error: no rule to make fan"]
    assert "- f0.py" in sections["Files read:"]
    assert FOUND not in words


@pytest.mark.parametrize(
    ("heard", "why"),
    [
        (Heard(fault="no answer in 60 s"), "no answer in 60 s"),
        (Heard(text=" \n"), "the model said nothing"),
        (Heard(text="word " * 50_000), "the model's summary is too long for what it is of"),
        (NOBODY, "no model is asked here"),
    ],
)
def test_without_words_the_history_speaks(heard: Heard, why: str) -> None:
    """The same summary as without a model, at once, and each edit says why."""
    work, plain = Asking(), Long()
    work.told = lambda _: heard
    for one in (work, plain):
        one.say("Look after the fan.")
        filled(one, times=9)
    assert summary(work.sent[-1]) == summary(plain.sent[-1])
    assert work.sent == plain.sent
    reason = next(edit.reason for edit in work.last.edits if edit.stage == "compact")
    assert reason.endswith(f"become a summary of the history's own words: {why}")


def test_where_nobody_can_be_asked_nothing_is() -> None:
    """As in a replay or on the command line, where the facts say so from the beginning."""
    work = Asking()
    work.rewrite = lambda: Long.rewrite(work)
    work.say("Look after the fan.")
    filled(work, times=9)
    assert FOUND in summary(work.sent[-1])
    assert all(done.question is None for done in work.done)


def test_what_was_heard_before_it_was_asked_for_is_not_used() -> None:
    """Facts may hold words where the history is compacted by its own."""
    work = Long()
    work.heard = Heard(text=WORDS)
    work.say("Look after the fan.")
    filled(work, times=9)
    assert WORDS not in summary(work.sent[-1])


@pytest.mark.parametrize(
    "members",
    [
        {"tool_choice": {"type": "any"}},
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
    ],
)
def test_a_request_that_may_not_be_answered_in_words_asks_nothing(members: Json) -> None:
    """A forced call or a demanded form would come instead of a summary, and taking them out would break the cache."""
    work = Asking()
    work.say("Look after the fan.")
    filled(work, times=5)
    work.members |= members
    filled(work, times=5)
    assert work.asked == []
    assert FOUND in summary(work.sent[-1])
    reason = next(edit.reason for edit in work.last.edits if edit.stage == "compact")
    assert "leaves no room for a question" in reason


def test_results_stay_in_the_question_and_all_else_that_is_new_leaves() -> None:
    """A person speaks beside the results of calls and an image: the calls stay answered."""
    work = Asking()
    work.policy = structs.replace(work.policy, stages=structs.replace(work.policy.stages, breakpoints="off"))
    work.say("Look after the fan.")
    filled(work, times=6)
    work.ask("f6")
    ident = work.messages[-1]["content"][-1]["id"]
    marked = text("And the rest?") | {"cache_control": {"type": "ephemeral"}}
    picture = image(png(8, 8))
    work.say(
        result(ident, lines("f6", 1_500)), text("See this. " + "x" * 9_000), picture, marked, text("Now.")
    )
    (first,) = work.asked
    assert [part["type"] for part in last(first)] == ["tool_result", "text"]
    assert last(first)[1]["text"] == QUESTION
    assert last(first)[1]["cache_control"] == {"type": "ephemeral"}
    assert said(work.sent[-1], "user")[-1] == "Now."


def test_the_same_facts_give_the_same_question() -> None:
    """It depends on body, policy, ledger and facts alone, and asking leaves no trace in the ledger."""
    work = Asking()
    work.say("Look after the fan.")
    filled(work, times=5)
    work.messages.append({"role": "user", "content": "And the rest? " + "x" * 60_000})
    work.heard = None
    one, two = Long.rewrite(work), Long.rewrite(work)
    assert one.question is not None
    assert one.question == two.question
    assert one.question.seconds == 60
    again = Asking()
    again.ledger = Ledger()
    assert one.commit is two.commit is None


def test_what_a_question_cost_is_part_of_what_the_compaction_cost() -> None:
    """Other batches are not to spend the same again."""

    def cost(spent: float) -> float:
        work = Asking()
        work.told = lambda _: Heard(text=WORDS, cost=spent)
        work.say("Look after the fan.")
        filled(work, times=9)
        return next(p.broke.cost for done in work.done for p in done.commit.promises if p.broke)

    assert cost(500.0) - cost(0.0) == pytest.approx(500.0)


def test_the_opening_still_says_how_much_is_gone() -> None:
    """The model's words come behind it."""
    work = Asking()
    work.say("Look after the fan.")
    filled(work, times=9)
    opening, rest = summary(work.sent[-1]).split("\n\n", 1)
    assert opening.startswith(OPENING[:40])
    assert rest.startswith(f"{TOLD}\n{WORDS}")
