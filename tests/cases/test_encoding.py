"""Strings that strict parsers do not read: half an emoji, and NUL."""

import pytest

from proxy.errors import BodyError
from proxy.simulator import divergence
from tests.cases.bodies import Proxy, case, complaint, sent

PLACES = {
    "a result": '{{"role":"user","content":"Check \\ud83c\\udf31."}},'
    '{{"role":"assistant","content":[{{"type":"tool_use","id":"A","name":"run","input":{{"cmd":"ls"}}}}]}},'
    '{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"A","content":"{0}"}}]}}',
    "a result's block": '{{"role":"user","content":"Check \\ud83c\\udf31."}},'
    '{{"role":"assistant","content":[{{"type":"tool_use","id":"A","name":"run","input":{{"cmd":"ls"}}}}]}},'
    '{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"A","content":[{{"type":"text","text":"{0}"}}]}}]}}',
    "what the user says": '{{"role":"user","content":"{0} \\ud83c\\udf31"}}',
    "an older turn": '{{"role":"user","content":"{0} \\ud83c\\udf31"}},{{"role":"assistant","content":"Fine."}},'
    '{{"role":"user","content":"Go on."}}',
    "a call": '{{"role":"user","content":"Check \\ud83c\\udf31."}},'
    '{{"role":"assistant","content":[{{"type":"tool_use","id":"A","name":"run","input":{{"cmd":"{0}"}}}}]}},'
    '{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"A","content":"ok"}}]}}',
    "two places": '{{"role":"user","content":"{0} \\ud83c\\udf31"}},{{"role":"assistant","content":"{0}"}},'
    '{{"role":"user","content":"Go on."}}',
}

TOOLS = '[{"name":"run","input_schema":{"type":"object"}}]'


def raw(place, words, system="Help."):
    messages = PLACES[place].format(words)
    return f'{{"model":"claude-x","max_tokens":1024,"tools":{TOOLS},"system":"{system}","messages":[{messages}]}}'.encode()


def check(place, words, wanted):
    """The faulty units, and nothing else, become U+FFFD; the provider refuses the one body and takes the other."""
    client = raw(place, words)
    assert complaint(client) is not None
    made = Proxy().send(client)
    assert complaint(made.body) is None
    assert made.body == raw(place, wanted)
    assert [(edit.stage, edit.count) for edit in made.edits] == [
        ("encoding", wanted.count("\\ufffd") * PLACES[place].count("{0}"))
    ]


@case("B65")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("trend \\ud83d\\udd25\\ud83d", "trend \\ud83d\\udd25\\ufffd"),
        ("\\ud83d", "\\ufffd"),
        ("\\udd25 trend", "\\ufffd trend"),
        ("\\ud83d\\ud83d\\udd25", "\\ufffd\\ud83d\\udd25"),
        ("\\uD83D x \\uDD25", "\\ufffd x \\ufffd"),
        ("\\udd25\\ud83d", "\\ufffd\\ufffd"),
        ("\\\\ud83d \\ud83d", "\\\\ud83d \\ufffd"),
        ("\\\\\\ud83d", "\\\\\\ufffd"),
    ],
)
def test_half_an_emoji_becomes_a_replacement_character(place, words, wanted):
    """Whole pairs, escaped backslashes and every other byte stay."""
    check(place, words, wanted)


@case("B65")
def test_half_an_emoji_stays_mended_in_later_turns():
    """The client sends it again and again; what was sent for it stands."""
    client = raw("an older turn", "cut \\ud83d")
    proxy = Proxy()
    first = proxy.send(client)
    longer = client[:-2] + b',{"role":"assistant","content":"Yes."},{"role":"user","content":"And?"}]}'
    second = proxy.send(longer)
    assert complaint(second.body) is None
    assert divergence(first.body, second.body) is None


@case("B65", "B67")
@pytest.mark.parametrize("words", ["cut \\ud83d", "head\\u0000tail"])
def test_without_the_policy_the_body_is_not_read_and_we_say_why(words):
    """The caller sends the client's bytes on; the error names what is wrong with them."""
    with pytest.raises(BodyError, match=r"surrogate|U\+0000|not a request|escape"):
        Proxy("transparent").rewrite(raw("a result", words))


@case("B65", "B67")
@pytest.mark.parametrize("words", ["cut \\ud83d", "head\\u0000tail"])
def test_a_fault_in_the_system_prompt(words):
    """Wherever it stands, the whole body would be refused."""
    client = raw("what the user says", "ok", system=words)
    assert complaint(client) is not None
    made = Proxy().send(client)
    assert complaint(made.body) is None
    assert "\ufffd" in sent(made)["system"]


@case("B67")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("head\\u0000\\u0001\\ttail \\ud83c\\udf31", "head\\ufffd\\u0001\\ttail \\ud83c\\udf31"),
        ("\\u0000", "\\ufffd"),
        ("a\\u0000b\\u0000", "a\\ufffdb\\ufffd"),
        ("\\\\u0000\\u0000\\n", "\\\\u0000\\ufffd\\n"),
        ("\\u0000\\ud83d", "\\ufffd\\ufffd"),
    ],
)
def test_nul_becomes_a_replacement_character(place, words, wanted):
    """Tabs, newlines, other control characters and emoji stay, and so does all that stands behind it."""
    check(place, words, wanted)


@case("B65", "B67")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "words", ["s = '\\\\u0000'", "s = '\\\\\\\\u0000'", "s = '\\\\ud83d'", "caf\\u00e9 \\\\\\u00e9"]
)
def test_source_code_that_names_such_a_character_holds_none(place, words):
    """Behind an escaped backslash the letters are letters: the client's own bytes leave."""
    client = raw(place, words)
    assert complaint(client) is None
    assert Proxy().send(client).body is client
