"""Signed thinking leaves as it came, and nothing is asked for that the request does not have."""

import json

import pytest

from tests.cases.bodies import (
    DIALECT,
    READ,
    RUN,
    THINKING,
    Proxy,
    assistant,
    blocks,
    body,
    bytes_of,
    call,
    case,
    complaint,
    result,
    sent,
    text,
    user,
)

THOUGHT = (
    '{"type":"thinking","thinking":"  Look at caf\\u00e9 pump \\u2026  \\n\\n", "signature":"c2lnLW9uZQ=="}'
)
TURNED = '{ "signature":"c2lnLXR3bw==","thinking":"\\ud83c\\udf31 fan","type":"thinking" }'
OPAQUE = '{"type":"redacted_thinking","data":"b3BhcXVl"}'
CALL = '{"type":"tool_use","id":"A","name":"read_file","input":{"path":"pump.py"}}'
RESULT = '{"role":"user","content":[{"type":"tool_result","tool_use_id":"A","content":"40 lines"}]}'


def raw_body(*messages):
    tools = json.dumps([READ, RUN])
    return (
        '{"model":"claude-x","max_tokens":8192,"thinking":{"type":"enabled","budget_tokens":2048},'
        f'"tools":{tools},"messages":[{",".join(messages)}]}}'
    ).encode()


FAULTS = {
    "an empty text before it": (
        '{"role":"user","content":[{"type":"text","text":"Check."},{"type":"text","text":""}]}',
        "{answer}",
        RESULT,
    ),
    "a lost result behind it": (
        '{"role":"user","content":"Check."}',
        '{{"role":"assistant","content":[{blocks},{call},'
        '{{"type":"tool_use","id":"B","name":"run","input":{{"cmd":"ls"}}}}]}}',
        RESULT,
    ),
    "a text behind its call": (
        '{"role":"user","content":"Check."}',
        '{{"role":"assistant","content":[{blocks},{call},{{"type":"text","text":"Reading."}}]}}',
        RESULT,
    ),
    "a copied call behind it": (
        '{"role":"user","content":"Check."}',
        '{{"role":"assistant","content":[{blocks},{call},{call}]}}',
        RESULT,
    ),
    "an orphan before it": (
        '{"role":"user","content":[{"type":"tool_result","tool_use_id":"Z","content":"z"},'
        '{"type":"text","text":"Check."}]}',
        "{answer}",
        RESULT,
    ),
    "a lone surrogate behind it": (
        '{"role":"user","content":"Check."}',
        "{answer}",
        RESULT.replace("40 lines", "40 \\ud83d"),
    ),
}


@case("B45")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("thinking", [(THOUGHT, OPAQUE), (OPAQUE,), (TURNED,), (THOUGHT, TURNED, OPAQUE)])
@pytest.mark.parametrize("place", ["latest", "earlier"])
def test_thinking_keeps_every_byte_beside_a_repair(fault, thinking, place):
    """Spaces, escapes and key order of each block, and the order of the blocks, are as they came."""
    run = ",".join(thinking)
    answer = f'{{"role":"assistant","content":[{run},{CALL}]}}'
    messages = [
        part.format(answer=answer, blocks=run, call=CALL)
        if "{" in part and "role" in part and ("{answer}" in part or "{blocks}" in part)
        else part.replace("{answer}", answer)
        for part in FAULTS[fault]
    ]
    if place == "earlier":
        messages += ['{"role":"assistant","content":"Fine."}', '{"role":"user","content":"Go on."}']
    raw = raw_body(*messages)
    assert complaint(raw) is not None
    made = Proxy().send(raw)
    assert complaint(made.body) is None
    out = bytes(DIALECT.open(made.body).messages[1]).decode()
    assert f"[{run}," in out
    assert [edit.stage for edit in made.edits if edit.required] != []


@case("B45")
@pytest.mark.parametrize("upstream", ["mistral", "vllm", "llama.cpp"])
def test_turns_are_not_joined_across_thinking(upstream):
    """Two answers in a row stay two where the second one begins with thinking."""
    request = body(
        user("Check."),
        assistant(text("First.")),
        assistant({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, text("Second.")),
        user("Go on."),
        **THINKING,
    )
    made = Proxy(upstream=upstream, merge_same_role=True).send(request)
    assert [block for block in blocks(sent(made)) if block["type"] == "thinking"] == [
        block for block in blocks(request) if block["type"] == "thinking"
    ]
    assert [m["role"] for m in sent(made)["messages"]] == ["user", "assistant", "assistant", "user"]


@case("B54")
@pytest.mark.parametrize("policy", ["transparent", "careful", "default", "frugal", "local"])
@pytest.mark.parametrize(
    "members", [{}, {"tools": None}, {"tools": None, "system": None}, {"metadata": {"user_id": "u"}}]
)
@pytest.mark.parametrize("model", ["claude-x", "claude-sonnet-4-5", "claude-opus-5-5", "claude-haiku-4-5"])
def test_a_plain_request_gets_no_member_it_did_not_have(policy, members, model):
    """No context_management, no thinking, no tool_choice, no cache_control: the very bytes."""
    request = body(user("Reply with one word."), **{"model": model, **members})
    assert Proxy(policy).send(request).body == bytes_of(request)


@case("B54")
@pytest.mark.parametrize("policy", ["careful", "default", "frugal"])
def test_a_repair_adds_no_member_either(policy):
    """A body that is changed keeps its own members, in their order."""
    request = body(
        user("Check."),
        assistant(call("A"), call("B")),
        user(result("A")),
        **{"temperature": 0.5, "stop_sequences": ["X"]},
    )
    assert list(sent(Proxy(policy).send(request))) == list(request)
