"""Which marks leave, told as requests: what the client marked, and where marks stand behind the proxy."""

import pytest

from proxy.agents import Agents
from proxy.stages.breakpoints import Config, Every
from proxy.yamlfile import ConfigErrors, load
from tests.stages.marking import (
    EPHEMERAL,
    HOUR,
    LONG,
    Session,
    answer,
    body,
    call,
    result,
    text,
    thought,
    tool,
    unmarked,
    user,
    where,
)

M = {"cache_control": EPHEMERAL}
H = {"cache_control": HOUR}
TURN = (user("Check."), answer(call("A")), user(result("A")))
CLAUDE = Agents.load().of({"user-agent": "claude-cli/2.1.332 (external, cli)"})


def marks(made, config: Config | None = None, **session):
    """Where marks stand in what leaves, which says what the client said."""
    sent = Session(config, **session).mark(made)
    assert unmarked(sent) == unmarked(made)
    return where(sent)


def only(*place: str | Every, **more) -> Config:
    return Config(place=place, **more)


# -- where marks go -------------------------------------------------------------------------------------------


def test_an_unmarked_agent_gets_the_end_of_system_the_previous_tail_and_the_tail() -> None:
    """A client without marks gets three: what all sessions share, where the last request ended, the end."""
    assert marks(body(*TURN)) == {"system.0": None, "messages.0.0": None, "messages.2.0": None}


def test_a_first_request_has_no_previous_tail() -> None:
    """Nothing was written before, so nothing is marked for it."""
    assert marks(body(user("Check."))) == {"system.0": None, "messages.0.0": None}


def test_tools_are_marked_where_the_system_prompt_cannot_be() -> None:
    """Without a system prompt the tools are what sessions share; a deferred tool carries no mark."""
    tools = (tool("read", description=LONG), tool("late", defer_loading=True))
    assert marks(body(*TURN, system="", tools=tools)) == {
        "tools.0": None,
        "messages.0.0": None,
        "messages.2.0": None,
    }
    assert marks(body(*TURN, tools=tools)) == {"system.0": None, "messages.0.0": None, "messages.2.0": None}


def test_each_word_of_the_policy_places_its_own_mark() -> None:
    """`place` is taken at its word; an empty one adds nothing."""
    tools = (tool("read", description=LONG),)
    made = body(*TURN, tools=tools)
    assert marks(made, only("tools")) == {"tools.0": None}
    assert marks(made, only("system")) == {"system.0": None}
    assert marks(made, only("before_current")) == {"messages.0.0": None}
    assert marks(made, only("tail")) == {"messages.2.0": None}
    assert marks(made, only()) == {}


def test_the_start_of_the_prompt_is_marked_only_where_it_is_long_enough() -> None:
    """A prefix below the model's minimum is never cached [B13], so its slot is not spent."""
    made = body(user(LONG), answer("Yes."), user("Go on."), system="Short.")
    assert marks(made) == {"messages.0.0": None, "messages.2.0": None}


def test_a_bare_string_is_opened_for_its_mark() -> None:
    """A mark needs a block to stand on; the string becomes one and says the same."""
    sent = Session().mark(body(user("Check.")))
    assert sent["messages"] == [user(text("Check.", **M))]


def test_thinking_and_blank_text_are_passed_over() -> None:
    """The tail goes to the last part that can carry it; an answer of thinking alone carries none [A15]."""
    made = body(user("Check."), answer(thought("Hm.")), user(text("Go on."), text("  ")))
    assert marks(made) == {"system.0": None, "messages.0.0": None, "messages.2.0": None}
    only_thinking = body(user("Check."), answer(thought("Hm.")))
    assert marks(only_thinking) == {"system.0": None, "messages.0.0": None}


def test_a_prefill_is_not_the_tail() -> None:
    """What the model goes on with is no part of the next request's prefix."""
    made = body(user("Check."), answer("The pump"))
    assert marks(made, only("tail")) == {"messages.0.0": None}


@pytest.mark.parametrize(
    "last",
    [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "hologram", "data": "new"},
        {"type": "container_upload", "file_id": "f"},
    ],
)
def test_what_may_not_carry_a_mark_is_passed_over(last) -> None:
    """Calls that the server still answers, and blocks this version does not know, get no mark of ours."""
    assert marks(body(user(text("Check."), last)), only("tail")) == {"messages.0.0": None}


@pytest.mark.parametrize(
    "last",
    [
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "tool_result", "tool_use_id": "A", "content": ""},
    ],
)
def test_blocks_known_to_carry_marks_get_them(last) -> None:
    """Images, documents, search results and results of tools, empty ones too [B3]."""
    assert marks(body(*TURN[:2], user(last)), only("tail")) == {"messages.2.0": None}


def test_turn_scoped_system_messages_carry_no_mark() -> None:
    """They leave the prompt with the next turn, and a mark on them is refused [A61]."""
    scoped = {"role": "system", "clear_at": "next_user_message", "content": [text("Hurry.")]}
    assert marks(body(user("Check."), scoped), only("tail")) == {"messages.0.0": None}
    marked = {**scoped, "content": [text("Hurry.", **M)]}
    assert marks(body(user("Check."), marked), only("tail")) == {"messages.0.0": None}


def test_messages_of_no_known_role_and_without_a_carrier_are_passed_over() -> None:
    """The mark walks back to what is known to carry it; where nothing does, none is set."""
    strange = {"role": "director", "content": [text("Action.")]}
    new = {"type": "hologram", "data": "new"}
    assert marks(body(user("Check."), user(new), strange), only("tail")) == {"messages.0.0": None}
    assert marks(body(user(new)), only("tail")) == {}


def test_the_attribution_block_stays_unmarked() -> None:
    """Upstream it is taken out if it comes unchanged, alone in its block [D14]."""
    billing = text("x-anthropic-billing-header: cc_version=2.1.332.893; cc_entrypoint=sdk-cli;")
    made = body(*TURN, system=[billing, text(LONG), text("Be kind.")])
    assert marks(made, only("system"), agent=CLAUDE) == {"system.2": None}
    assert marks(body(*TURN, system=[billing]), only("system", "tail"), agent=CLAUDE) == {}


def test_nothing_behind_a_part_that_always_changes_is_marked_as_system() -> None:
    """A nonce in a system part makes every prefix behind it new, unless another stage keeps it still."""
    generic = Agents.load().generic
    nonces = [
        f for f in generic.fields if f.rule.kind in ("nonce", "clock", "counter") and "system" in f.rule.where
    ]
    if not nonces:
        pytest.fail("the generic recogniser knows no changing field of a system prompt")
    changing = "Session id: 0f8fad5b-d9cb-469f-a165-70867728950e\nCurrent time: 2026-11-30T12:00:00Z\nrequest_id=req_011CSHoEeqs5C35K2UUqR7Fy"
    assert any(f.pattern.search(changing) for f in nonces)
    made = body(*TURN, system=[text(LONG), text(changing), text("Be kind.")])
    assert marks(made, only("system"), agent=generic) == {"system.0": None}


# -- where they are not worth their price -----------------------------------------------------------------------


def test_a_side_call_gets_no_mark() -> None:
    """A first request without tools (a title, a count) is never read again."""
    assert marks(body(user(LONG), tools=None)) == {}
    assert marks(body(user(LONG), answer("Yes."), user("Go on."), tools=None)) != {}


def test_a_prompt_below_the_minimum_gets_no_mark() -> None:
    """Nothing of it would be cached [B13]."""
    assert marks(body(*TURN, system="Short.")) == {}


def test_a_tail_left_out_on_purpose_stays_out() -> None:
    """The client's last mark on the last answer says that the turn behind it will not come again."""
    compaction = body(
        user("Check."),
        answer(call("A")),
        user(result("A")),
        answer(text("Done.", **M)),
        user("Summarise it all."),
    )
    assert marks(compaction) == {"system.0": None, "messages.2.0": None, "messages.3.0": None}


def test_a_client_that_marks_answers_and_the_tail_is_not_mistaken_for_that() -> None:
    """The last two messages marked: the tail is there."""
    made = body(user("Check."), answer(call("A", **M)), user(result("A", **M)))
    assert marks(made, only("tail")) == {"messages.1.0": None, "messages.2.0": None}


def test_an_upstream_without_marks_gets_none_and_loses_none() -> None:
    """Where we may not set marks, the client's are its own business, wrong ones too."""
    wrong = body(user("Check."), answer(thought("Hm.", **M)), user("Go on."))
    for profile in ("llama.cpp", "vllm", "deepseek"):
        session = Session(profile=profile)
        assert session.mark(body(*TURN)) == body(*TURN)
        assert session.mark(wrong) == wrong


def test_a_thread_passes_as_it_came() -> None:
    """The history of a continued thread cannot be seen [A65]."""
    made = body(user(text("Go on.", **M)), thread={"type": "continue", "previous_message_id": "msg_1"})
    assert Session().mark(made) == made


# -- clients that mark badly --------------------------------------------------------------------------------------


def test_a_client_that_marks_only_its_first_message_is_helped() -> None:
    """Cline's layout: the rest of the history would be paid in full on every turn."""
    made = body(
        user(text("Task.", **M)), answer(call("A")), user(result("A")), answer(call("B")), user(result("B"))
    )
    assert marks(made) == {"system.0": None, "messages.0.0": None, "messages.2.0": None, "messages.4.0": None}


def test_a_client_that_marks_no_tool_turns_is_helped() -> None:
    """Continue's layout: system, tools and the last text of a person; one slot is free, for the tail."""
    tools = (tool("read"), tool("run", **M))
    made = body(
        user(text("Task.", **M)),
        answer(call("A")),
        user(result("A")),
        answer(call("B")),
        user(result("B")),
        system=[text(LONG, **M)],
        tools=tools,
    )
    found = {"tools.1": None, "system.0": None, "messages.0.0": None}
    assert marks(made) == found | {"messages.4.0": None}
    assert marks(made, Config(replace=True)) == {
        "system.0": None,
        "messages.0.0": None,
        "messages.2.0": None,
        "messages.4.0": None,
    }


def test_marks_of_the_client_stay_where_they_are() -> None:
    """Four valid marks are four decisions of the client, and there is nothing to do."""
    made = body(
        user(text("Task.", **M)),
        answer(call("A")),
        user(result("A", **M)),
        system=[text(LONG, **M), text("b", **M)],
    )
    session = Session()
    assert session.rewrite(made).edits == ()


def test_a_mark_may_be_replaced_where_the_policy_says_so() -> None:
    """`replace`: older marks in the turns go first, then the tools', then the first ones of many in system."""
    made = body(
        user(text("Task.", **M)),
        answer(call("A")),
        user(result("A")),
        answer(call("B")),
        user(result("B")),
        system=[text(LONG, **M), text("b", **M), text("c", **M)],
    )
    assert marks(made) == {"system.0": None, "system.1": None, "system.2": None, "messages.0.0": None}
    assert marks(made, Config(replace=True)) == {
        "system.2": None,
        "messages.0.0": None,
        "messages.2.0": None,
        "messages.4.0": None,
    }


# -- repairs --------------------------------------------------------------------------------------------------------


def test_a_mark_on_thinking_moves_to_what_can_carry_it() -> None:
    """A mark on thinking is refused [A15]; the request gets its tail elsewhere."""
    made = body(user("Check."), answer(thought("Hm.", **M)), user("Go on."))
    assert marks(made) == {"system.0": None, "messages.0.0": None, "messages.2.0": None}


def test_marks_on_empty_text_and_deferred_tools_go() -> None:
    """Both are refused [A15 A29]."""
    tools = (tool("read"), tool("late", defer_loading=True, **M))
    made = body(user(text("Check."), text("", **M)), tools=tools)
    assert marks(made, only()) == {}


def test_too_many_marks_lose_the_oldest_in_the_turns() -> None:
    """Marks pile up in a stored history; the newest and those of system are what is read [B3]."""
    made = body(
        user(text("1", **M)),
        answer(text("2", **M)),
        user(text("3", **M)),
        answer(text("4", **M)),
        user(text("5", **M)),
        system=[text(LONG, **M)],
    )
    assert marks(made) == {"system.0": None, "messages.2.0": None, "messages.3.0": None, "messages.4.0": None}


def test_marks_inside_results_count() -> None:
    """They use slots [B3]: here all four, so that nothing is added."""
    inner = [text(str(at), **M) for at in range(3)]
    made = body(user("Check."), answer(call("A")), user(result("A", inner)), system=[text(LONG, **M)])
    assert Session().rewrite(made).edits == ()


def test_too_many_marks_inside_a_result_are_taken_out() -> None:
    """Their blocks stay as spelt, and the free slots are used."""
    inner = [text(str(at), **M) for at in range(5)]
    made = body(user("Check."), answer(call("A")), user(result("A", inner)))
    assert marks(made) == {"system.0": None, "messages.0.0": None, "messages.2.0": None}


def test_a_longer_lifetime_behind_a_shorter_one_is_lowered() -> None:
    """Lifetimes may only fall in prompt order [B9]; asking for less never fails."""
    made = body(user(text("Check.", **H)), system=[text(LONG, **M)], tools=(tool("read", **H),))
    assert marks(made) == {"tools.0": "1h", "system.0": None, "messages.0.0": None}


def test_the_automatic_mark_is_the_tail_and_takes_a_slot() -> None:
    """A mark at the top of the body falls on the last block that can carry it [B4]."""
    assert marks(body(*TURN, **M)) == {"system.0": None, "messages.0.0": None}
    full = body(
        user(text("1", **M)),
        answer(text("2", **M)),
        user(text("3")),
        system=[text(LONG, **M), text("b", **M)],
        **M,
    )
    assert marks(full) == {"system.0": None, "system.1": None, "messages.1.0": None}


def test_a_mark_that_disagrees_with_the_automatic_one_goes() -> None:
    """Two lifetimes on one block are refused [B4]."""
    made = body(user(text("Check.", **H)), **M)
    assert marks(made, only()) == {}
    same = body(user(text("Check.", cache_control={"type": "ephemeral", "ttl": "5m"})), **M)
    assert marks(same, only()) == {"messages.0.0": "5m"}


def test_marks_before_a_longer_automatic_one_are_raised() -> None:
    """The automatic mark stands last and cannot be changed [B9]; one inside a result goes instead."""
    made = body(
        user("Check."),
        answer(call("A")),
        user(result("A", [text("x", **M)]), text("Go on.")),
        system=[text(LONG, **M)],
        **H,
    )
    assert marks(made, only()) == {"system.0": "1h"}


def test_repairs_are_required_and_additions_are_not() -> None:
    """What the provider would refuse is told apart from what only saves money; all name stage and reason."""
    made = body(user("Check."), answer(thought("Hm.", **M)), user("Go on."))
    done = [
        (e.stage, e.reason, e.required, e.tokens_before == e.tokens_after)
        for e in Session().rewrite(made).edits
    ]
    assert done == [
        ("breakpoints", "client mark where none may stand [A15]", True, True),
        ("breakpoints", "previous tail", False, True),
        ("breakpoints", "tail", False, True),
        ("breakpoints", "system", False, True),
    ]


# -- lifetimes --------------------------------------------------------------------------------------------------------


def test_new_marks_ask_for_what_the_client_asks_for() -> None:
    """In the same section, as the client spells it."""
    made = body(user(text("Check.", **H)), answer(call("A")), user(result("A")), system=[text(LONG, **H)])
    assert marks(made) == {"system.0": "1h", "messages.0.0": "1h", "messages.2.0": "1h"}
    spelt = body(
        user(text("Check.", cache_control={"type": "ephemeral", "ttl": "5m"})),
        answer(call("A")),
        user(result("A")),
    )
    assert marks(spelt, only("tail")) == {"messages.0.0": "5m", "messages.2.0": "5m"}


def test_new_marks_keep_the_order_of_lifetimes() -> None:
    """A mark before a long one is long too; one behind a short one is short [B9]."""
    before_long = body(user(text("Check.", **H)), answer(call("A")), user(result("A")))
    assert marks(before_long) == {"system.0": "1h", "messages.0.0": "1h", "messages.2.0": "1h"}
    behind_short = body(*TURN, system=[text(LONG, **M)])
    assert marks(behind_short, Config(ttl="1h")) == {
        "system.0": None,
        "messages.0.0": None,
        "messages.2.0": None,
    }


def test_the_policy_may_name_the_lifetime() -> None:
    """`ttl: 1h` for pauses longer than five minutes."""
    assert marks(body(*TURN), Config(ttl="1h")) == {
        "system.0": "1h",
        "messages.0.0": "1h",
        "messages.2.0": "1h",
    }


# -- the policy file ----------------------------------------------------------------------------------------------------


def test_the_policy_is_read_from_yaml() -> None:
    """Words and the mapping `every: K` stand in one list."""
    read = load(
        ("p.yaml", "place: [system, before_current, tail, {every: 15}]\nttl: 1h\nreplace: true\n"), Config
    )
    assert read == Config(place=("system", "before_current", "tail", Every(every=15)), ttl="1h", replace=True)


@pytest.mark.parametrize("place", ["[head]", "[{every: 0}]", "[{each: 3}]", "tail"])
def test_a_wrong_policy_is_refused_with_its_place(place: str) -> None:
    """Unknown words, a lag of nothing, and a word that is no list."""
    with pytest.raises(ConfigErrors, match="p.yaml:1:"):
        load(("p.yaml", f"place: {place}\n"), Config)
