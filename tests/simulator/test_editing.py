"""Context editing and compaction blocks on the provider's side."""

from proxy.simulator import COUNT, Provider, Settings, prompt

from tests.simulator.bodies import (
    MARK,
    Client,
    assistant,
    body,
    call,
    complaint,
    result,
    send,
    system,
    text,
    user,
)
from tests.simulator.test_binding import conversation

BETA = "context-management-2025-06-27"
COMPACT = "compact-2026-01-12"
LONG = "output line\n" * 200


def session(turns, **members):
    """A session of tool turns, each result long."""
    messages = [user("Check.")]
    for n in range(turns):
        messages += [assistant(call(f"t{n}")), user(result(f"t{n}", LONG))]
    return body(*messages, **members)


def clearing(**edit):
    return {"context_management": {"edits": [{"type": "clear_tool_uses_20250919", **edit}]}}


def test_old_results_are_cleared_once_the_trigger_is_reached():
    """Below the trigger nothing happens; above it all but the newest three results go, and are reported [E1 E2]."""
    provider = Provider()
    few = clearing(trigger={"type": "tool_uses", "value": 5})
    under = send(provider, session(5, **few), BETA).json
    assert under["context_management"] == {"applied_edits": []}
    over = send(provider, session(6, **few), BETA)
    (edit,) = over.json["context_management"]["applied_edits"]
    plain = sum(position.tokens for position in prompt(session(6)))
    assert (edit["type"], edit["cleared_tool_uses"]) == ("clear_tool_uses_20250919", 3)
    assert edit["cleared_input_tokens"] == plain - over.exchange.total > 3 * len(LONG) // 8


def test_what_clearing_spares():
    """Excluded tools stay, and too little to gain clears nothing [E1]."""
    few = {"trigger": {"type": "tool_uses", "value": 1}}
    for edit in (
        clearing(**few, exclude_tools=["read_file"]),
        clearing(**few, clear_at_least={"type": "input_tokens", "value": 10**6}),
    ):
        answer = send(Provider(), session(6, **edit), BETA).json
        assert answer["context_management"] == {"applied_edits": []}


def test_clearing_costs_the_cache_from_the_cleared_point():
    """What stands before the first cleared result is still read, nothing behind it [E2 B12]."""
    provider = Provider()

    def asked(turns):
        request = session(turns, **clearing(trigger={"type": "tool_uses", "value": 4}))
        request["messages"][0] = user(text("Check. " * 900, cache_control=MARK))
        request["messages"][-1]["content"][-1]["cache_control"] = MARK
        return send(provider, request, BETA).exchange

    first, second, third = asked(3), asked(4), asked(5)
    assert second.read == first.total
    assert 0 < third.read < first.read + first.written
    assert third.read == sum(p.tokens for p in prompt(session(0) | {"messages": [user("Check. " * 900)]}))


def test_counting_tells_both_totals():
    """count_tokens gives the tokens after clearing and before [A70]."""
    request = session(6, **clearing(trigger={"type": "tool_uses", "value": 1}))
    del request["max_tokens"]
    counted = send(Provider(), request, BETA, path=COUNT).json
    assert counted["input_tokens"] < counted["context_management"]["original_input_tokens"]


def test_clearing_is_no_edit_for_preserved_thinking():
    """The prefix check looks at what the client sent [E2]."""
    client = conversation(turns=6, settings=Settings(binding="error"))
    request = {**client.body(), **clearing(trigger={"type": "tool_uses", "value": 1})}
    answer = send(client.provider, request, BETA)
    assert answer.json["context_management"]["applied_edits"][0]["cleared_tool_uses"] == 3


def test_keeping_a_number_of_thinking_turns():
    """clear_thinking keeps as many turns of thinking as it says [E1]."""
    client = Client(Provider(), BETA, model="claude-opus-5-5")
    for words in ("One.", "Two.", "Three."):
        client.send(words)
    client.messages.append(user("Four."))

    def total(keep):
        edit = {"type": "clear_thinking_20251015", "keep": keep}
        return send(
            client.provider, {**client.body(), "context_management": {"edits": [edit]}}, BETA
        ).exchange.total

    one, two, everything = (
        total(k)
        for k in ({"type": "thinking_turns", "value": 1}, {"type": "thinking_turns", "value": 3}, "all")
    )
    assert one < two < everything == send(client.provider, client.body()).exchange.total


SUMMARY = {"type": "compaction", "content": "All is well."}
EDIT = {"context_management": {"edits": [{"type": "compact_20260112"}]}}


def test_compaction_blocks_need_their_beta_and_their_edit():
    """Replaying a block without the beta or without the strategy is refused [E3 E4]."""
    request = body(assistant(SUMMARY), user("Go on."))
    assert complaint(request).startswith(
        "messages.0.content.0: Input tag 'compaction' found using 'type' does not match any of the expected tags"
    )
    assert complaint(request, COMPACT) == (
        "`compaction` blocks require a `compact_20260112` strategy in `context_management.edits`."
    )
    assert complaint({**request, **EDIT}, COMPACT) is None
    low = {
        "context_management": {
            "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 100}}]
        }
    }
    assert complaint({**request, **low}, COMPACT) == (
        "context_management.edits.0.compact_20260112: trigger.value must be at least 50000"
    )


def test_what_stands_before_a_compaction_block_is_ignored():
    """Kept or dropped, the history before the newest summary is not in the prompt [E3]."""
    tail = [assistant(SUMMARY, text("Fine.")), user("Go on.")]
    kept = body(user("Check."), assistant("Yes."), user("More."), *tail, **EDIT)
    dropped = body(*tail, **EDIT)
    provider = Provider()
    assert send(provider, kept, COMPACT).exchange.total == send(provider, dropped, COMPACT).exchange.total


def test_a_summary_on_demand_is_not_to_be_had():
    """On-demand compaction answers as an overloaded provider does [A90]."""
    answer = send(Provider(), body(compaction={"type": "summarize"}), "compact-2026-09-04")
    assert (answer.status, answer.json["error"]["details"]) == (529, {"error_code": "compaction_unavailable"})


def test_turn_scoped_system_messages_cost_nothing_later():
    """Once a user message follows, a turn-scoped message weighs nothing [A61]."""
    beta = "mid-conversation-system-clear-at-2026-08-21"
    note = system(text("Answer in one word. " * 20), clear_at="next_user_message")
    now = body(user("Hi."), note)
    later = body(user("Hi."), note, assistant("Yes."), user("Go on."))
    without = body(user("Hi."), assistant("Yes."), user("Go on."))
    assert complaint(now) == "messages.1.clear_at: Extra inputs are not permitted"
    provider = Provider()
    totals = [send(provider, request, beta).exchange.total for request in (now, later, without)]
    assert totals[1] == totals[2] < totals[0]
