"""Stories that once broke a law, each as small as it gets, told again under all laws."""

from __future__ import annotations

import orjson

from proxy.conversation import Reasoning
from proxy.dialects.anthropic import Anthropic
from proxy.edits import Remove, apply, target_of
from tests.laws import test_laws as laws
from tests.laws.client import Shown, text
from tests.laws.driver import Driver, World
from proxy.stages import budget
from tests.laws.sessions import EAGER, NARROW, Session, Shown, Step, play
from tests.laws.spelling import Style

PLAIN = World()
CHECKED = World(model="claude-opus-5-5")
LOCAL = World(model="qwen3", upstream="llama.cpp")
GEMINI = World(model="gemini-2.5-pro", upstream="gemini", wire="gemini")
EMPTIES = Style(empties=True)
MISSING = "No result: the tool call was interrupted before it returned."


def told_again(world: World, *story: Step, appends: bool = True) -> Driver:
    """Act a story out under every law; `appends` says that the client only adds."""
    for name, law in vars(laws).items():
        if name.startswith("test_") and (appends or name not in APPENDING):
            law.law(world, list(story))
    return play(world, list(story))


APPENDING = (
    "test_what_was_sent_past_us_is_left_alone",
    "test_what_was_sent_stands",
    "test_thinking_stays_bound_to_what_was_sent",
    "test_the_fallback_is_bound_to_nothing_it_lacks",
)


def sent(driver: Driver, turn: int = -1) -> list[dict]:
    """The messages that went out in a turn."""
    return orjson.loads(driver.sent[turn].out)["messages"]


def texts(message: dict) -> list[str]:
    """The texts of a message; a string is one."""
    content = message["content"]
    return [content] if isinstance(content, str) else [b["text"] for b in content if b["type"] == "text"]


# -- known from the start --------------------------------------------------------------------------------


def test_a_string_that_gets_company_becomes_a_block():
    """Content that was a bare string and gets a part beside it is a list of blocks, the string one of them."""
    driver = told_again(PLAIN, Step(answer=(3,)), Step(results=("lost",)))
    assert orjson.loads(driver.sent[-1].body)["messages"][-1]["content"] == "Check the pump."
    filled, said = sent(driver)[-1]["content"]
    assert (filled["type"], filled["content"]) == ("tool_result", MISSING)
    assert said == text("Check the pump.")


def test_a_history_spelt_otherwise_keeps_what_was_promised_to_it():
    """Strings and lists, marks, key order, escapes and spaces are no meaning: the placeholder stands all the same."""
    first = Step(answer=(4, 5))
    for style in (
        Style(flip=True),
        Style(order=1),
        Style(order=2, escape=True),
        Style(spaces=True, marks=15),
        EMPTIES,
    ):
        driver = told_again(PLAIN, first, Step(results=("ok", "lost")), Step(style=style, says=(1,)))
        results = [block["content"] for block in sent(driver)[2]["content"] if block["type"] == "tool_result"]
        assert results[1] == MISSING


def test_what_was_repaired_is_not_repaired_again():
    """A replayed repair reads like any other history: the next turn finds nothing to do in it."""
    driver = told_again(PLAIN, Step(answer=(3, 4)), Step(results=("lost",)), Step(), Step())
    fills = [[edit for edit in one.rewrite.edits if edit.stage == "balance"] for one in driver.sent]
    assert [len(one) for one in fills] == [0, 2, 2, 2]
    assert fills[1] == fills[2] == fills[3]
    assert sum(block["type"] == "tool_result" for block in sent(driver)[2]["content"]) == 2


# -- results that come late, or in another branch --------------------------------------------------------


def test_a_late_result_stays_where_it_stands():
    """Its slot was sent filled, so it is told as text; the placeholder stays for good."""
    driver = told_again(PLAIN, Step(answer=(3,)), Step(results=("late",)), Step(), Step())
    assert sent(driver)[2]["content"][0]["content"] == MISSING
    late = texts(sent(driver)[4])[0]
    assert late.startswith("[Result of the earlier tool call") and late.endswith("late at last é")


def test_a_fork_that_brings_the_result_has_no_placeholder():
    """The same call, answered in time in another branch, carries its own result there, and the placeholder here."""
    driver = told_again(
        PLAIN,
        Step(answer=(3,)),
        Step(results=("lost",), says=(1,)),
        Step(move="rewind", pick=2),
        appends=False,
    )
    session = Session(PLAIN)
    session.step(Step(answer=(3,)))
    main = session.clients[0]
    here = [dict(message) for message in main.messages]
    session.step(Step(results=("lost",), says=(1,)))
    there, main.messages = main.messages, here
    session.step(Step(results=("ok",), says=(1,)))
    fork, main.messages = main.messages, there
    session.step(Step())
    assert sent(session.driver)[2]["content"][0]["content"] == MISSING
    main.messages = fork
    session.step(Step())
    assert sent(session.driver)[2]["content"][0]["content"].startswith("ok")
    assert driver.sent[-1].status == 200


def test_what_changed_is_announced_once_and_stands():
    """A new date is told at the tail, in the turn that has it; the system prompt keeps the first one."""
    driver = told_again(
        PLAIN, Step(), Step(shown=Shown(date=2)), Step(shown=Shown(date=2)), Step(shown=Shown(date=1))
    )
    systems = {orjson.dumps(orjson.loads(one.out)["system"][0]["text"]) for one in driver.sent}
    assert len(systems) == 1
    announced = [
        [words for words in texts(m) if "date is now" in words] for m in sent(driver) if m["role"] == "user"
    ]
    assert [len(one) for one in announced] == [0, 1, 0, 1]
    assert "2026-11-02" in announced[1][0] and "2026-11-01" in announced[3][0]


def test_announcements_stand_behind_results_and_before_words():
    """Results first, then what the proxy has to say, then the person."""
    driver = told_again(PLAIN, Step(answer=(3,)), Step(shown=Shown(date=3)))
    kinds = [block["type"] for block in sent(driver)[-1]["content"]]
    assert kinds == ["tool_result", "text", "text"]
    assert "date is now" in sent(driver)[-1]["content"][1]["text"]
    assert sent(driver)[-1]["content"][2]["text"] == "Check the pump."


# -- parts that say nothing ------------------------------------------------------------------------------


def test_a_thought_is_not_taken_for_the_blank_that_stood_in_its_place():
    """A blank text left behind the prompt; next time the signed thought stands there, and stays."""
    driver = told_again(CHECKED, Step(style=EMPTIES), Step(), Step())
    assert [block["type"] for block in sent(driver)[1]["content"]] == ["thinking", "text"]


def test_a_blank_added_to_a_message_sent_before_leaves_too():
    """Clients add an empty text to old turns as well as to new ones."""
    driver = told_again(PLAIN, Step(), Step(style=EMPTIES), Step())
    assert all(words for message in sent(driver, 1) for words in texts(message))


def test_a_blank_answer_and_a_blank_prompt_share_a_key_but_are_two_turns():
    """The placeholder for a lost result belongs to the end of the user's turn, not to that of the call."""
    driver = told_again(PLAIN, Step(answer=(6,)), Step(results=("late",), says=(6,)), Step())
    assert [block["type"] for block in sent(driver)[2]["content"]] == ["tool_result", "text"]


def test_the_last_turn_of_the_user_is_kept_before_a_blank_system_message():
    """The system message leaves, so the blank prompt before it is the last turn and must say something."""
    driver = told_again(World(model="claude-opus-4-7"), Step(), Step(says=(6,), reminder="system_empty"))
    assert [message["role"] for message in sent(driver)] == ["user", "assistant", "user"]
    assert texts(sent(driver)[-1]) == ["(empty message)"]


def test_a_blank_added_to_an_answer_is_not_the_blank_prompt_behind_it():
    """The blank prompt was sent as "(empty message)"; an empty text in the answer before it is another part."""
    driver = told_again(PLAIN, Step(), Step(says=(6,)), Step(style=EMPTIES))
    assert [texts(message) for message in sent(driver)][1:3] == [["I will look. 0 é"], ["(empty message)"]]


def test_a_number_counts_silent_parts_of_its_own_kind():
    """Blank texts that come and go do not shift the thoughts that an edit names."""
    thought = b'{"type":"thinking","thinking":"hm","signature":"c2ln"}'
    with_blank, without = (
        b'{"messages":[{"role":"user","content":[{"type":"text","text":"a"}' + blank + b"]},"
        b'{"role":"assistant","content":[' + thought + b',{"type":"text","text":"b"}]}]}'
        for blank in (b',{"type":"text","text":""}', b"")
    )
    one, other = (_thought(body) for body in (with_blank, without))
    assert target_of(one) == target_of(other)
    assert target_of(one).nth != 0


def _thought(body: bytes) -> Reasoning:
    """The one thought of a body, with its key."""
    driver = Driver(PLAIN)
    sent_ = driver.send(body, (), now=0.0, session="", model="claude-x")
    assert sent_.rewrite is not None and sent_.rewrite.read is not None
    (found,) = (p for m in sent_.rewrite.read.messages for p in m.parts if isinstance(p, Reasoning))
    return found


# -- met in its middle -----------------------------------------------------------------------------------


def test_a_constant_field_stays_as_seen_where_the_conversation_is_met_in_its_middle():
    """The provider has cached the path as the client wrote it: a constant is for conversations that begin with us."""
    session = Session(World(policy=EAGER))
    session.step(Step(), past=True)
    for _ in range(2):
        came = session.step(Step())
        [wrote], [left] = (
            [part["text"] for part in orjson.loads(body)["system"]] for body in (came.body, came.out)
        )
        assert left == wrote
    fresh = play(World(policy=EAGER), [Step()])
    assert "Working directory: .\n" in orjson.loads(fresh.sent[0].out)["system"][0]["text"]


# -- edits on edits --------------------------------------------------------------------------------------


def test_edits_applied_at_once_give_what_they_gave_stage_by_stage():
    """A folded system message and a placeholder want the same place: their order is the same in every turn."""
    driver = told_again(
        PLAIN, Step(answer=(4, 4)), Step(results=("late", "error"), reminder="system_before"), Step()
    )
    kinds = [block["type"] for block in sent(driver)[2]["content"]]
    assert kinds == ["tool_result", "tool_result", "text", "text"]


def test_two_system_messages_folded_into_one_turn_are_one_promise():
    """Both stand in the user's turn for ever, not only the first."""
    driver = told_again(
        PLAIN, Step(reminder="system_behind"), Step(reminder="system_before"), Step(), appends=False
    )
    assert [message["role"] for message in sent(driver)].count("system") == 0


def test_nothing_is_put_behind_a_part_that_leaves():
    """A system message is folded beside what stays, not beside a blank text on its way out."""
    driver = told_again(LOCAL, Step(reminder="system_behind", style=EMPTIES), Step())
    assert [message["role"] for message in sent(driver)] == ["user", "assistant", "user"]


def test_turns_are_merged_across_a_message_that_was_emptied():
    """Where turns must alternate, a folded system message no longer stands between two prompts."""
    driver = told_again(LOCAL, Step(reminder="system_behind", fate="unheard"), Step())
    assert [message["role"] for message in sent(driver)] == ["user"]


def test_a_lost_result_before_a_turn_of_our_own():
    """The blank prompt leaves, the system message becomes the user's turn, and the placeholder stands in it."""
    driver = told_again(
        PLAIN, Step(answer=(3,)), Step(results=("lost",), says=(6,), reminder="system_behind"), Step()
    )
    kinds = [block["type"] for block in sent(driver, 1)[-1]["content"]]
    assert kinds == ["tool_result", "text"]
    assert sent(driver)[2] == sent(driver, 1)[-1]


def test_a_turn_that_went_to_an_earlier_one_is_not_missed():
    """Behind an answer that was emptied nothing is left to write, which is no fault of the history."""
    driver = told_again(LOCAL, Step(), Step(move="empty_answer", fate="unheard"), Step())
    assert [message["role"] for message in sent(driver)] == ["user"]


def test_results_lost_at_the_very_end_stand_in_one_message():
    """Two calls end the history: both placeholders are in the message right behind them."""
    session = Session(PLAIN)
    session.step(Step(answer=(5, 3)))
    client = session.clients[0]
    out = session.driver.send(
        session.driver.world.speaks.body(client.asked(Style(), Shown()), Style()),
        (),
        now=2_000_000.0,
        session=client.session,
        model=client.model,
    )
    assert out.status == 200
    assert [len(message["content"]) for message in sent(session.driver)][-2:] == [2, 2]


def test_an_answer_kept_twice_leaves_once():
    """Its thinking goes with the copy of the call, or it would stand behind one."""
    driver = told_again(
        World(thinks=True), Step(answer=(7,)), Step(move="answer_twice", shown=Shown(clock=3))
    )
    assert [message["role"] for message in sent(driver)] == ["user", "assistant", "user"]


def test_applying_nothing_changes_nothing():
    """Edits whose target is not there leave the conversation as it is, the object itself."""
    dialect = Anthropic()
    body = b'{"messages":[{"role":"user","content":"a"}]}'
    conversation = dialect.read(dialect.open(body))
    edit = Remove(stage="x", reason="y", target=target_of(_thought_nowhere()))
    rebuilt, done = apply(conversation, [edit])
    assert rebuilt is conversation and done == ()


def _thought_nowhere() -> Reasoning:
    return Reasoning(signature="s", key=b"nowhere", nth=1)


# -- several on their way --------------------------------------------------------------------------------


def test_two_requests_on_their_way_and_both_refused():
    """What was made for the first goes with it, though the second began behind it: the third makes it again."""
    world = World(upstream="vllm")
    driver = told_again(
        world,
        Step(answer=(7,)),
        Step(move="foreign_id", reminder="system_after_answer"),
        Step(fate="slow"),
        Step(),
        Step(),
    )
    assert [one.status for one in driver.sent] == [200, 400, 400, 400, 400]
    assert all(message["role"] != "system" for message in sent(driver))


def test_a_fold_holds_where_the_results_it_stood_behind_are_gone():
    """A system message was folded into a turn of words and results; a history that lost the results has the words."""
    driver = told_again(
        World(model="claude-opus-4-5"),
        Step(answer=(3,)),
        Step(layout="behind_text", reminder="system_before"),
        Step(move="drop_result", pick=1),
        appends=False,
    )
    said = sent(driver)
    assert [message["role"] for message in said] == ["user", "assistant", "user", "assistant", "user"]
    assert said[2]["content"][0]["content"] == MISSING
    assert texts({"content": said[2]["content"][1:]}) == [
        "<system-message>\nBefore.\n</system-message>",
        "Check the pump.",
    ]


def test_blanks_that_were_typed_are_not_counted_with_empty_texts():
    """A turn of blanks that was sent as a placeholder stays one, whatever empty texts come and go before it."""
    driver = told_again(PLAIN, Step(says=()), Step(says=(6,), style=Style(empties=True)), Step(says=()))
    assert texts(sent(driver)[2]) == texts(sent(driver, 1)[2]) == ["(empty message)"]


# -- Gemini ----------------------------------------------------------------------------------------------


def contents(driver: Driver, turn: int = -1) -> list[dict]:
    """The contents that went out in a turn."""
    return orjson.loads(driver.sent[turn].out)["contents"]


def test_a_blank_prompt_behind_a_prompt_stands_for_nothing():
    """A turn in which something is said needs no text in the place of a blank one, at its end neither."""
    driver = told_again(GEMINI, Step(says=(), reminder="system_empty", style=EMPTIES), Step(says=()))
    assert contents(driver, 0) == [{"role": "user", "parts": [{"text": "Check the pump."}]}]
    assert contents(driver)[:1] == contents(driver, 0)
    for world in (PLAIN, LOCAL):
        driver = told_again(world, Step(layout="split"), Step(says=(7,), reminder="system_behind"), Step())


def test_blanks_that_are_taken_stay_when_an_empty_text_before_them_goes():
    """Gemini takes blanks and refuses empty texts: the one is never removed in the name of the other."""
    driver = told_again(
        GEMINI,
        Step(says=()),
        Step(says=(), fate="overloaded"),
        Step(says=(6,), style=EMPTIES),
        Step(says=()),
    )
    assert contents(driver)[:4] == contents(driver, 2)
    assert contents(driver, 2)[3]["parts"] == [{"text": "   "}]


# -- the end of the window -------------------------------------------------------------------------------

LOCAL = World(policy=NARROW, model="claude-opus-4-7", upstream="llama.cpp")
FULL = [
    Step(results=("big",), says=(), answer=(3, 3, 3)),
    Step(results=("big_blocks",), says=(), answer=(3, 3)),
    Step(results=("big",), says=(), answer=(3, 3)),
    Step(results=("big",), layout="behind_text", says=(), picture=True, answer=(3,)),
]


def test_a_full_window_leaves_turns_that_alternate():
    """An answer that is calls alone stays where a picture stands behind its results: two users in a row are refused."""
    driver = play(LOCAL, FULL)
    assert [one.status for one in driver.sent] == [200] * 4
    assert [one.rewrite.broken for one in driver.sent] == [""] * 4
    assert any(edit.stage == "budget" for edit in driver.sent[-1].rewrite.edits)


def test_a_batch_that_would_break_something_is_withdrawn_and_the_repairs_stay(monkeypatch):
    """Whatever a stage got wrong about a full window: the request goes out mended, only longer than it need be."""
    monkeypatch.setattr(budget, "_between_words", lambda _: set())
    last = play(LOCAL, FULL).sent[-1]
    assert last.rewrite.broken == ""
    assert last.status == 200
    assert {edit.stage for edit in last.rewrite.edits} >= {"balance"}
    assert not any(edit.stage == "budget" and edit.committed for edit in last.rewrite.edits)
    assert "a batch would leave two turns of one speaker" in [held.reason for held in last.rewrite.held]


def test_thinking_of_an_open_round_stays_where_a_person_speaks_beside_its_results():
    """With manual thinking the last calls must begin with theirs, and the request is refused without [A41]."""
    world = World(policy=EAGER, model="claude-opus-4-5", thinks=True)
    beside = Step(shown=Shown(date=1, clock=0, nonce=1, left=100000, more_tools=False))
    driver = play(world, [Step(says=()), Step(says=(), answer=(5,)), beside, Step(says=())])
    assert [one.status for one in driver.sent] == [200] * 4


def test_a_placeholder_stands_behind_what_a_client_sends_again() -> None:
    """The answer ends in an empty text that the next request does not have."""
    world = World(wire="openai_responses", upstream="openai", model="gpt-5.5")
    driver = told_again(
        world,
        Step(says=(), answer=(3,)),
        Step(move="text_behind", results=("late",), says=(), style=EMPTIES),
        Step(says=()),
    )
    first, second = (orjson.loads(one.out)["input"] for one in driver.sent[1:])
    assert [item.get("output") for item in first].index(MISSING) == [
        item.get("output") for item in second
    ].index(MISSING)
