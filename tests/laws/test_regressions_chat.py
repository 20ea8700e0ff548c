"""Stories in the chat format that broke a law once, told again under all laws."""

from __future__ import annotations

import orjson
from msgspec import structs

from tests.laws.driver import NARROW, World
from tests.laws.sessions import EAGER, Step, play
from tests.laws.spelling import Style
from tests.laws.test_regressions import EMPTIES, MISSING, sent, told_again

SPACES = Style(spaces=True)


def chat(upstream: str, model: str) -> World:
    """A world that speaks chat completions."""
    return World(wire="openai_chat", upstream=upstream, model=model)


def roles(messages: list[dict]) -> list[str]:
    """Who speaks, behind the system prompt."""
    return [message["role"] for message in messages][1:]


def test_a_blank_added_to_a_prompt_is_not_the_blank_system_message_that_left():
    """An empty system message leaves where systems are folded, and stays away when every text gets an empty one beside it."""
    driver = told_again(
        chat("vllm", "gpt-oss"),
        Step(says=(), reminder="system_empty"),
        Step(says=()),
        Step(says=(), style=EMPTIES),
    )
    assert roles(sent(driver)) == ["user", "assistant", "user", "assistant", "user"]


def test_a_system_message_stays_folded_when_blanks_are_added():
    """The fold stands beside parts that a client sends again, so blanks that come and go do not undo it."""
    driver = told_again(
        chat("vllm", "gpt-oss"),
        Step(answer=(3,), style=EMPTIES),
        Step(results=("ok",), says=(0,), reminder="system_behind"),
        Step(style=EMPTIES),
    )
    assert "system" not in roles(sent(driver))


def test_an_answer_in_several_messages_stays_one_when_blanks_are_added():
    """A blank text is nothing that a call could stand in front of."""
    driver = told_again(
        chat("openai", "gpt-5.1"),
        Step(answer=(0, 3, 3)),
        Step(move="split_answer"),
        Step(style=EMPTIES),
    )
    calls = [len(message.get("tool_calls", ())) for message in sent(driver)]
    assert max(calls) == 2 and sum(calls) == 2


def test_a_folded_system_message_joins_the_words_of_its_turn():
    """Words in front of results go behind them, and what the harness says goes with them: one turn, not two."""
    driver = told_again(
        chat("llama.cpp", "qwen3"), Step(answer=(5,)), Step(layout="behind_text", reminder="system_behind")
    )
    assert roles(sent(driver)) == ["user", "assistant", "tool", "user"]


def test_a_blank_inside_a_result_that_was_sent_without_it():
    """A client that writes results as lists adds an empty text to one that went out as a string."""
    driver = told_again(
        chat("mistral", "mistral-large"), Step(answer=(0, 4)), Step(says=()), Step(style=EMPTIES)
    )
    assert all(
        part["text"]
        for message in sent(driver)[1:]
        if isinstance(message["content"], list)
        for part in message["content"]
    )


def test_a_result_says_something_where_it_must():
    """Where no message may be empty, a tool that printed nothing is said to have printed nothing."""
    driver = told_again(
        chat("glm", "glm-4.6"), Step(answer=(0, 9)), Step(results=("empty",), says=()), Step(style=EMPTIES)
    )
    results = [message["content"] for message in sent(driver) if message["role"] == "tool"]
    assert results == ["(no output)"]


def test_a_placeholder_stands_before_the_late_result_of_another_call():
    """All that came behind a call is the late result of an earlier one: it is told behind the placeholder."""
    driver = told_again(
        chat("openai", "gpt-5.1"),
        Step(answer=(3, 7)),
        Step(results=("ok", "late"), answer=(9,)),
        Step(results=("lost",), style=Style(spaces=True)),
    )
    behind = sent(driver)[-3:]
    assert [message["role"] for message in behind] == ["tool", "user", "user"]
    assert behind[0]["content"] == MISSING
    assert "which arrived late" in behind[1]["content"]


def test_one_word_between_goes_with_the_placeholder_it_stands_behind():
    """The turn went on, so the placeholder is made anew: what stood between it and the person is made anew too."""
    driver = told_again(
        chat("mistral", "devstral"),
        Step(answer=(3,)),
        Step(results=("lost",), says=(), fate="unheard"),
        Step(says=()),
        Step(says=()),
    )
    assert roles(sent(driver, 2)) == ["user", "assistant", "tool", "assistant", "user"]


def test_calls_are_not_joined_with_words_where_templates_skip_them():
    """A strict template counts words as a turn and calls with their results as none: joined, the count is off by one."""
    driver = told_again(chat("llama.cpp", "qwen3"), Step(answer=(0, 3)), Step(move="split_answer"))
    assert roles(sent(driver)) == ["user", "assistant", "assistant", "tool", "user"]


def test_reasoning_taken_out_of_what_was_sent_is_made_up_for():
    """A client strips old reasoning; the service wants it back in every answer, old ones too."""
    driver = told_again(
        chat("deepseek", "deepseek-v4-pro"), Step(), Step(), Step(move="strip_thinking"), appends=False
    )
    assert all("reasoning_content" in one for one in sent(driver) if one["role"] == "assistant")


def test_what_was_told_beside_a_blank_prompt_stays_there():
    """The blank shares its key with the turn before it, and what is said in its place is beside what was told."""
    world = structs.replace(chat("moonshot", "kimi-k3"), policy=EAGER)
    blank = Step(move="empty_answer", says=(7,), style=SPACES)
    driver = play(
        world, [Step(), Step(who=2, says=()), Step(who=1, says=()), blank, Step(says=(), style=SPACES)]
    )
    assert [one.status for one in driver.sent] == [200] * 5
    told, later = sent(driver, 3), sent(driver)
    assert "Today's date" in told[-1]["content"][0]["text"]
    assert later[: len(told)] == told


BIG = ("big",)


def full(model: str) -> World:
    """A world in which the window is full after a few outputs, and reasoning is wanted back [A400]."""
    return structs.replace(chat("deepseek", model), policy=NARROW, agent="", thinks=False)


def test_a_second_summary_leaves_nothing_of_the_first():
    """What stands for the reasoning of a summary is as nameless as that of the next one, and is not taken for it."""
    driver = told_again(
        full("deepseek-v4-pro"),
        Step(results=BIG, says=(), picture=True, answer=(3,)),
        Step(results=BIG, reminder="system_before", picture=True, answer=(3,)),
        Step(results=BIG, answer=(3, 3)),
        Step(results=BIG, says=(), picture=True, answer=(3,)),
        Step(results=BIG, says=(), reminder="system_behind", fate="overloaded"),
        Step(results=BIG, says=(), answer=(3,)),
        appends=False,
    )
    answers = [message for message in sent(driver) if message["role"] == "assistant"]
    assert [message["content"][:7] for message in answers] == ["Summary"]
    assert answers[0]["reasoning_content"]


def test_reasoning_stays_with_the_calls_that_a_full_window_leaves():
    """Of two calls in one answer the older output goes: the reasoning before both is wanted back with the other."""
    driver = told_again(
        full("deepseek-v4-flash"),
        Step(results=BIG, says=(), picture=True, answer=(3, 3)),
        Step(results=BIG, answer=(3, 3, 3, 3)),
        Step(results=BIG, answer=(3, 3)),
        Step(results=BIG, answer=(3, 3, 3)),
        Step(results=BIG, answer=(3, 3, 3, 3)),
        Step(results=BIG, answer=(3,)),
        appends=False,
    )
    answers = [message for message in sent(driver) if message.get("tool_calls")]
    assert any(edit.stage == "budget" for edit in driver.sent[-1].rewrite.edits)
    assert all(message.get("reasoning_content") for message in answers)


# -- an upstream that takes no user behind results [A430] -----------------------------------------------------

MISTRAL = structs.replace(chat("mistral", "mistral-large"), policy=EAGER)
LATE = Step(layout="behind_text", says=(), reminder="date", fate="unheard")


def test_an_answer_between_stays_as_long_as_the_result_that_moved() -> None:
    """The result stood behind the words; that the turn goes on changes nothing about either."""
    driver = told_again(MISTRAL, Step(says=(), answer=(3,)), LATE, Step(says=()))
    assert roles(sent(driver)) == ["user", "assistant", "tool", "assistant", "user"]


def test_an_answer_between_goes_with_the_result_that_moved() -> None:
    """A client that goes back to before the result leaves the words behind a call without one."""
    world = chat("mistral", "devstral")
    driver = told_again(
        world,
        Step(says=(), answer=(8,)),
        Step(layout="split_by_text"),
        Step(move="fork", pick=5, says=()),
        appends=False,
    )
    assert roles(sent(driver)) == ["user", "assistant", "tool", "assistant", "user"]


def test_a_turn_that_goes_on_behind_a_lost_result_gets_another_answer_between() -> None:
    """What was told in front of the words is not the client's, and is not where the turn is looked for."""
    lost = Step(results=("lost",), says=(), answer=(3,), fate="unheard")
    driver = told_again(
        MISTRAL,
        Step(says=(), answer=(3,)),
        Step(results=BIG, says=(), answer=(3,)),
        lost,
        Step(says=(), answer=(3,)),
        appends=False,
    )
    assert [one.status for one in driver.sent] == [200] * 4


def test_an_answer_of_ours_is_no_end_of_a_turn() -> None:
    """A call in front of it may have lost its result once more."""
    half = Step(results=("big", "lost"), says=(), picture=True, answer=(3,), fate="unheard")
    driver = told_again(
        MISTRAL,
        Step(says=(), answer=(3,)),
        Step(results=BIG, says=(), answer=(3, 3)),
        half,
        Step(says=(), answer=(3,)),
        appends=False,
    )
    assert [one.status for one in driver.sent] == [200] * 4


def test_arguments_with_half_a_character_keep_the_other_half() -> None:
    """A template reads them in every turn, and half a character is no JSON for it [A4 A521]."""
    driver = play(chat("llama.cpp", "qwen3"), [Step(says=(), answer=(4,)), Step(says=())])
    call = sent(driver)[2]["tool_calls"][0]["function"]
    assert orjson.loads(call["arguments"])["command"] == "ls -la \ufffd"


def test_leading_system_messages_are_one_string_however_they_are_spelt() -> None:
    """A client that writes lists, with an empty text in each, says the same as with strings."""
    driver = told_again(
        chat("llama.cpp", "gpt-oss"),
        Step(says=(), reminder="system_before"),
        Step(says=(), style=EMPTIES),
    )
    assert [message["content"].split("\n\n")[-1] for message in sent(driver)[:1]] == ["Before."]


def test_a_result_that_became_text_is_said_by_the_user() -> None:
    """So it joins the user's words in front of it where turns alternate."""
    driver = told_again(
        structs.replace(MISTRAL, model="devstral"),
        Step(says=(), answer=(9,)),
        Step(results=("late",), says=()),
        Step(move="rewind", says=()),
        appends=False,
    )
    assert roles(sent(driver)) == ["user"]
