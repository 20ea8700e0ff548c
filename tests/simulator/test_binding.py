"""Preserved thinking: a signed block is good in the conversation it was made in, and nowhere else."""

import copy

import pytest

from proxy.simulator import COUNT, Call, Provider, Reply, Say, Settings, Think, prompt

from tests.simulator.bodies import (
    HOUR,
    MARK,
    READ,
    RUN,
    Client,
    assistant,
    body,
    call,
    complaint,
    headers,
    image,
    png,
    result,
    send,
    system,
    text,
    thought,
    user,
)

OPUS = "claude-opus-5-5"
BETA = "thinking-binding-controls-2026-08-01"
HEADER = "anthropic-thinking-prefix-mismatch"
LATE = {"name": "late", "input_schema": {"type": "object"}, "defer_loading": True}
HEAD = (
    "messages.{}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove "
    'the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
HINT = f" That setting requires the `{BETA}` value in the `anthropic-beta` header."
UNMODIFIED = (
    "messages.{}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These "
    "blocks must remain as they were in the original response."
)
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def looks_around(ask):
    """Think, say and call in each answer."""
    number = len(ask.body["messages"])
    return Reply(
        blocks=(Think(f"Thought {number}."), Say(f"Step {number}."), Call("run", {"cmd": f"ls {number}"}))
    )


def conversation(*betas, turns=3, settings=None, model=OPUS, script=looks_around, **members):
    """A client with so many answered turns, each a call with its result; the next request stands open."""
    provider = Provider(settings or Settings(binding="error"), script)
    client = Client(provider, *betas, model=model, system="Rules.\n\nBe careful.", **members)
    client.send(user(text("Check the pump."), text("<reminder>notes</reminder>")))
    for number in range(turns - 1):
        client.send(user(result(client.messages[-1]["content"][-1]["id"], f"output {number}")))
    client.messages.append(user(result(client.messages[-1]["content"][-1]["id"], "last output")))
    return client


def edited(client, edit):
    """The client's open request after `edit` worked on a copy of it."""
    request = copy.deepcopy(client.body())
    edit(request)
    return request


def without_thinking(request, *numbers):
    """Leave out the thinking of these answers, counted from 0; none given is all."""
    answers = [m for m in request["messages"] if m["role"] == "assistant"]
    for number, message in enumerate(answers):
        if not numbers or number in numbers:
            message["content"] = [b for b in message["content"] if b["type"] != "thinking"]


def set_in(*path, value):
    def edit(request):
        place = request
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return edit


LEGAL = {
    "nothing": lambda r: None,
    "a mark more": set_in("messages", 0, "content", 0, "cache_control", value=MARK),
    "marks on system": set_in("system", value=[text("Rules.\n\nBe careful.", cache_control=HOUR)]),
    "a deferred tool": lambda r: r["tools"].append(LATE),
    "order of tools": lambda r: r["tools"].reverse(),
    "spelt-out defaults": lambda r: r["tools"].__setitem__(0, {**READ, "type": "custom", "strict": False}),
    "key order": lambda r: r["messages"][1]["content"][2].update(
        {"input": r["messages"][1]["content"][2].pop("input")}
    ),
    "a message behind a user": lambda r: r["messages"].append(system(text("Be brief."))),
    "effort": set_in("output_config", value={"effort": "low"}),
    "max_tokens": set_in("max_tokens", value=77),
    "result as blocks": lambda r: r["messages"][2]["content"][0].update(content=[text("output 0")]),
    "not an error, said so": lambda r: r["messages"][2]["content"][0].update(is_error=False),
    "outer whitespace": set_in("messages", 0, "content", 0, "text", value="  Check the pump.\n"),
    "a blank text more": lambda r: r["messages"][0]["content"].append(text("\n")),
    "null members": set_in("messages", 0, "content", 0, "citations", value=None),
    "oldest thinking gone": lambda r: without_thinking(r, 0),
    "two oldest gone": lambda r: without_thinking(r, 0, 1),
    "newest thinking gone": lambda r: without_thinking(r, 2),
    "all thinking gone": without_thinking,
}


@pytest.mark.parametrize("edit", LEGAL.values(), ids=LEGAL)
def test_legal_edits(edit):
    """What the comparison ignores, and thinking removed at either end, is accepted [A45 A45a]."""
    client = conversation()
    assert complaint(edited(client, edit), provider=client.provider) is None


ILLEGAL = {
    "system": (
        set_in("system", value="Other."),
        "1.content.0",
        " The `system` prompt differs from when this block was created.",
        "kind=system_changed;pattern=system_block_rerendered;sections=system",
    ),
    "description of a tool": (
        set_in("tools", 0, "description", value="Reads."),
        "1.content.0",
        " The `tools` list differs from when this block was created.",
        "kind=tools_changed;pattern=unknown;sections=tools",
    ),
    "a tool that is not deferred": (
        lambda r: r["tools"].append({**LATE, "defer_loading": False}),
        "1.content.0",
        " The `tools` list differs from when this block was created.",
        "kind=tools_changed;pattern=unknown;sections=tools",
    ),
    "first user text": (
        set_in("messages", 0, "content", 0, "text", value="Check the fan."),
        "1.content.0",
        " Content before this block differs from when it was created, first at `messages.0.content.0`.",
        "kind=blocks_modified;pattern=first_message_rewritten;sections=messages",
    ),
    "interior whitespace": (
        set_in("messages", 0, "content", 0, "text", value="Check  the pump."),
        "1.content.0",
        " Content before this block differs from when it was created, first at `messages.0.content.0`.",
        "kind=blocks_modified;pattern=first_message_rewritten;sections=messages",
    ),
    "a tool result": (
        lambda r: r["messages"][2]["content"][0].update(content="[cleared]"),
        "3.content.0",
        "",
        "kind=blocks_modified;pattern=tool_results_rewritten;sections=messages",
    ),
    "an input": (
        lambda r: r["messages"][1]["content"][2].update(input={"cmd": "rm"}),
        "3.content.0",
        " Content before this block differs from when it was created, first at `messages.1.content.2`.",
        "kind=blocks_modified;pattern=tool_use_rewritten;sections=messages",
    ),
    "a reminder gone": (
        lambda r: r["messages"][0]["content"].pop(),
        "1.content.0",
        " Content that preceded this block when it was created is missing from this request, starting at "
        "`messages.0.content.1`.",
        "kind=blocks_removed;pattern=history_block_stripped;sections=messages",
    ),
    "a reminder more": (
        lambda r: r["messages"][0]["content"].insert(1, text("More.")),
        "1.content.0",
        " Content before this block differs from when it was created, first at `messages.0.content.1`.",
        "kind=blocks_inserted;pattern=block_inserted;sections=messages",
    ),
    "the oldest turn gone": (
        lambda r: r.update(messages=[user(r["messages"][0]["content"][1]), *r["messages"][1:]]),
        "1.content.0",
        " A message older than `messages.0.content.0` differs from when this block was created.",
        "kind=blocks_removed;pattern=rolling_truncation;sections=messages",
    ),
    "a middle thinking gone": (
        lambda r: without_thinking(r, 1),
        "5.content.0",
        " The `thinking` block that preceded this one when it was created is missing from this request.",
        "kind=predecessor_missing;pattern=unknown;sections=messages",
    ),
}


@pytest.mark.parametrize(("edit", "block", "sentence", "words"), ILLEGAL.values(), ids=ILLEGAL)
def test_illegal_edits(edit, block, sentence, words):
    """Any other change refuses the first block behind it, says how, and names it in a header [A45]."""
    client = conversation()
    answer = send(client.provider, edited(client, edit))
    assert answer.status == 400
    assert answer.json["error"]["message"] == HEAD.format(block) + HINT + sentence
    assert dict(answer.headers)[HEADER] == f"block=messages.{block};{words}"


def test_the_hint_is_for_clients_without_the_beta():
    """With the beta header the sentence about it is left out [A45]."""
    client = conversation()
    said = complaint(edited(client, set_in("system", value="Other.")), BETA, provider=client.provider)
    assert (
        said == HEAD.format("1.content.0") + " The `system` prompt differs from when this block was created."
    )


def test_counting_runs_the_same_check():
    """count_tokens refuses what the messages call refuses [A45 A70]."""
    client = conversation()
    request = edited(client, set_in("system", value="Other."))
    del request["max_tokens"]
    answer = send(client.provider, request, path=COUNT)
    assert (answer.status, HEADER in dict(answer.headers)) == (400, True)


def test_drop_block():
    """drop_block answers, lists what it dropped, does not bill it, and sets the header too [A45]."""
    client = conversation(BETA, thinking=DROP)
    kept = send(client.provider, client.body(), BETA)
    assert (kept.json["input_transformations"], kept.exchange.dropped) == ([], ())
    request = edited(client, lambda r: r["messages"][2]["content"][0].update(content="output 1"))
    answer = send(client.provider, request, BETA)
    assert answer.json["input_transformations"] == [
        {"type": "thinking_dropped", "path": f"messages.{i}.content.0", "reason": "prefix_binding_mismatch"}
        for i in (3, 5)
    ]
    assert dict(answer.headers)[HEADER].startswith("block=messages.3.content.0;kind=blocks_modified")
    assert answer.exchange.total < kept.exchange.total
    assert "input_transformations" not in send(client.provider, body()).json


def test_drop_block_restarts_the_cache_at_the_dropped_block():
    """What stands before the first dropped block is still read, nothing behind it [A45 B12]."""
    client = conversation(BETA, thinking=DROP, cache_control=MARK)
    long = edited(client, set_in("messages", 2, "content", 0, "content", value="x" * 9000))
    tail = long["messages"]
    tail[2]["content"][0]["cache_control"] = MARK
    send(client.provider, {**long, "messages": tail[:3]}, BETA)
    first = client.provider.log[-1]
    fallen = send(client.provider, long, BETA).exchange
    assert fallen.dropped == ("messages.3.content.0", "messages.5.content.0")
    assert fallen.read == first.written > 0


def test_unenforced_accounts_let_mismatches_through():
    """An older account keeps the block; with the beta header it is told [A45]."""
    client = conversation(settings=Settings(binding="unenforced"))
    request = edited(client, lambda r: r["messages"][2]["content"][0].update(content="x"))
    silent = send(client.provider, request)
    assert (silent.status, HEADER in dict(silent.headers)) == (200, False)
    assert "input_transformations" not in silent.json
    told = send(client.provider, request, BETA)
    assert [t["type"] for t in told.json["input_transformations"]] == ["thinking_mismatch_allowed"] * 2
    assert told.exchange.dropped == ()


def test_an_unenforced_account_may_ask_for_the_check():
    """A request that sets the behavior is checked on any account [A45]."""
    asks = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
    client = conversation(settings=Settings(binding="unenforced"))
    request = edited(client, set_in("system", value="Other."))
    request["thinking"] = asks
    assert complaint(request, BETA, provider=client.provider).startswith(HEAD.format("1.content.0"))


@pytest.mark.parametrize("model", ["claude-sonnet-5", "claude-opus-4-6", "claude-mythos-5-1", "claude-x"])
def test_models_without_the_check(model):
    """Other models take thinking behind an edited prefix [A45]."""
    client = conversation(model=model, thinking={"type": "adaptive"})
    request = edited(client, set_in("system", value="Other."))
    assert complaint(request, provider=client.provider) is None


SIGNATURES = {"foreign": "c2lnLW9uZQ==", "empty": "", "no base64": "%%%"}


@pytest.mark.parametrize("signature", SIGNATURES.values(), ids=SIGNATURES)
@pytest.mark.parametrize("mode", ["error", "drop_block"])
def test_bad_signatures_fail_in_every_mode(signature, mode):
    """A signature the provider did not make is refused, with no word about the conversation [A43]."""
    request = body(
        user("Check."),
        assistant(thought(signature), text("Fine.")),
        user("Go on."),
        model=OPUS,
        thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": mode}},
    )
    assert complaint(request, BETA) == "messages.1.content.0: Invalid `signature` in `thinking` block"


def test_a_tampered_signature_fails():
    """One changed character is enough [A43]."""
    client = conversation(BETA, thinking=DROP)

    def tamper(request):
        block = request["messages"][3]["content"][0]
        block["signature"] = block["signature"][:20] + "AAAA" + block["signature"][24:]

    request = edited(client, tamper)
    assert complaint(request, BETA, provider=client.provider) == (
        "messages.3.content.0: Invalid `signature` in `thinking` block"
    )


def test_unknown_models_take_any_signature_but_an_empty_one():
    """A permissive model does not know what a genuine signature is."""
    request = body(user("Check."), assistant(thought(), text("Fine.")), user("Go on."))
    assert complaint(request) is None
    assert complaint(body(user("Check."), assistant(thought(""), text("Fine.")), user("Go on."))) == (
        "messages.1.content.0: Invalid `signature` in `thinking` block"
    )


def thinks_twice(ask):
    number = len(ask.body["messages"])
    return Reply(blocks=(Think(f"One {number}."), Think("Two."), Call("run", {"cmd": f"ls {number}"})))


LATEST = {
    "a partial run": (lambda r: r["messages"][5]["content"].pop(1), 0),
    "another order": (lambda r: r["messages"][5]["content"].insert(0, r["messages"][5]["content"].pop(1)), 0),
    "two answers joined": (
        lambda r: r["messages"][5]["content"].insert(0, r["messages"][3]["content"][0]),
        1,
    ),
}


@pytest.mark.parametrize(("edit", "block"), LATEST.values(), ids=LATEST)
def test_the_latest_run_comes_back_whole(edit, block):
    """In the latest answer the run of thinking is as it was, or gone altogether [A42]."""
    client = conversation(settings=Settings(), script=thinks_twice)
    refused = complaint(edited(client, edit), provider=client.provider)
    assert refused == UNMODIFIED.format(f"5.content.{block}")
    assert complaint(edited(client, without_thinking), provider=client.provider) is None


def test_visible_text_is_display_only():
    """Changing the visible thinking is accepted and keeps the cache; a strict provider refuses [A42]."""
    edit = set_in("messages", 5, "content", 0, "thinking", value="Something else.")
    client = conversation(cache_control=MARK)
    assert (
        send(client.provider, edited(client, edit)).exchange.read > 0 or client.provider.log[-1].status == 200
    )
    strict = conversation(settings=Settings(strict_thinking_text=True))
    assert complaint(edited(strict, edit), provider=strict.provider) == UNMODIFIED.format("5.content.0")


def test_manual_mode_wants_thinking_first():
    """A turn in tool use that starts without thinking is refused in manual mode only [A41]."""
    manual = {"type": "enabled", "budget_tokens": 2000}
    request = body(
        user("Read."),
        assistant(call("A")),
        user(result("A")),
        model="claude-sonnet-4-5",
        max_tokens=9000,
        thinking=manual,
    )
    assert complaint(request).startswith(
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` "
        "is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
        "`tool_use` and `tool_result` blocks)."
    )
    later = {**request, "messages": [*request["messages"], assistant("Done."), user("And now?")]}
    assert complaint(later) is None
    assert complaint({**request, "model": "claude-opus-4-6", "thinking": {"type": "adaptive"}}) is None


def test_blocks_of_a_model_that_cannot_be_read_are_dropped():
    """Opus 5.5's thinking is not read by Sonnet 5.5: dropped, not billed, reported [A44]."""
    client = conversation(turns=1)
    request = {**client.body(), "model": "claude-sonnet-5-5"}
    answer = send(client.provider, request, BETA)
    assert answer.json["input_transformations"] == [
        {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "model_binding_mismatch"}
    ]


def test_a_regenerated_tail_is_no_edit():
    """Going back and asking again keeps the thinking before the fork [A45a]."""
    client = conversation()
    request = client.body()
    request["messages"] = [
        *request["messages"][:2],
        user(result(request["messages"][1]["content"][-1]["id"], "new")),
    ]
    assert complaint(request, provider=client.provider) is None


def test_binding_holds_images_by_their_bytes_and_urls_by_nothing():
    """Image bytes are bound; the address of a url source is not [A45a]."""

    def with_picture(source):
        provider = Provider(Settings(binding="error"), looks_around)
        client = Client(provider, model=OPUS)
        client.send(user(source, text("Look.")))
        client.messages.append(user(result(client.messages[-1]["content"][-1]["id"])))
        return client

    one = with_picture(image(png(8, 8)))
    changed = edited(one, set_in("messages", 0, "content", 0, value=image(png(9, 9))))
    assert complaint(changed, provider=one.provider) is not None
    url = with_picture({"type": "image", "source": {"type": "url", "url": "https://a/1"}})
    moved = edited(url, set_in("messages", 0, "content", 0, "source", "url", value="https://b/2"))
    assert complaint(moved, provider=url.provider) is None


def test_each_account_has_its_own_sonnet_thinking():
    """Sonnet 5.5 blocks are dropped on another account [A44]."""
    client = conversation(turns=1, model="claude-sonnet-5-5")
    answer = send(client.provider, client.body(), BETA, key="sk-other")
    assert [t["reason"] for t in answer.json["input_transformations"]] == ["organization_binding_mismatch"]


def test_headers_of_a_plain_answer():
    """An answer names its request and account, and no mismatch where there is none."""
    sent = dict(send(Provider(), body()).headers)
    assert set(sent) == {"content-type", "request-id", "anthropic-organization-id"}
    assert headers()[1] == ("x-api-key", "sk-test")
    assert "sk-test" not in str(sent)
