"""Two bodies against each other: what counts as the same prefix, and where two part."""

import copy

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.simulator import common_prefix, divergence, first_break, prompt

from tests.simulator.bodies import (
    HOUR,
    MARK,
    READ,
    RUN,
    assistant,
    body,
    call,
    image,
    png,
    result,
    system,
    text,
    user,
)

BASE = body(
    user(text("Check the pump."), text("<reminder>notes</reminder>")),
    system(text("Today is Monday.")),
    assistant(text("Reading."), call("A"), call("B")),
    user(result("A", "40 lines"), result("B", [text("22 lines"), image(png(8, 8))])),
    system=[text("Rules."), text("More rules.")],
)
MORE = [assistant("Fine."), user("And the fan?")]


def grown(request):
    return {**copy.deepcopy(request), "messages": [*copy.deepcopy(request["messages"]), *MORE]}


def test_positions_of_a_prompt():
    """Tools, system, messages; block by block, with parameters between, as the paths say [B1 B7]."""
    assert [position.path for position in prompt(BASE)] == [
        "tools.0",
        "tools.1",
        "system.0",
        "system.1",
        "parameters",
        "messages.0.content.0",
        "messages.0.content.1",
        "messages.1.content.0",
        "messages.2.content.0",
        "messages.2.content.1",
        "messages.2.content.2",
        "messages.3.content.0",
        "messages.3.content.1",
    ]


def test_an_append_keeps_the_whole_prefix():
    """All positions of turn n stand in turn n+1."""
    positions, weight = common_prefix(BASE, grown(BASE))
    assert positions == len(prompt(BASE)) - 1
    assert weight == sum(position.tokens for position in prompt(BASE))
    assert divergence(BASE, grown(BASE)) is None
    assert divergence(orjson.dumps(BASE), orjson.dumps(grown(BASE))) is None


def at(*path, value):
    def edit(request):
        place = request
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return edit


SAME = {
    "marks": at("messages", 0, "content", 0, "cache_control", value=HOUR),
    "mark on a tool": at("tools", 1, "cache_control", value=MARK),
    "top-level mark": at("cache_control", value=MARK),
    "key order of the body": lambda r: [r.update({k: r.pop(k)}) for k in sorted(r, reverse=True)],
    "order of members of a block": lambda r: r["messages"][2]["content"][1].update(
        {"type": r["messages"][2]["content"][1].pop("type")}
    ),
    "result as blocks": at("messages", 3, "content", 0, "content", value=[text("40 lines")]),
    "max_tokens": at("max_tokens", value=1),
    "thinking": at("thinking", value={"type": "adaptive"}),
    "an image later": lambda r: r["messages"].append(user(image(png(9, 9)))),
}


@pytest.mark.parametrize("edit", SAME.values(), ids=SAME)
def test_what_is_no_difference(edit):
    """Marks, spelling and parameters do not part two conversations."""
    request = grown(BASE)
    edit(request)
    assert divergence(BASE, request) is None


DIFFERENT = {
    "tool": (at("tools", 0, "description", value="Reads."), "tools.0"),
    "order of tools": (lambda r: r["tools"].reverse(), "tools.0"),
    "key order in a schema": (
        at("tools", 1, "input_schema", value=dict(reversed(RUN["input_schema"].items()))),
        "tools.1",
    ),
    "system": (at("system", 1, "text", value="Other rules."), "system.1"),
    "system joined": (at("system", value=[text("Rules.More rules.")]), "system.0"),
    "text": (
        at("messages", 0, "content", 1, "text", value="<reminder>other</reminder>"),
        "messages.0.content.1",
    ),
    "whitespace": (at("messages", 0, "content", 0, "text", value="Check the pump. "), "messages.0.content.0"),
    "role": (at("messages", 1, "role", value="user"), "messages.1.content.0"),
    "block gone": (lambda r: r["messages"][0]["content"].pop(), "messages.0.content.1"),
    "block more": (lambda r: r["messages"][0]["content"].append(text("!")), "messages.1.content.0"),
    "message joined": (
        lambda r: r["messages"].__setitem__(
            slice(0, 2), [user(*r["messages"][0]["content"], *r["messages"][1]["content"])]
        ),
        "messages.1.content.0",
    ),
    "id": (at("messages", 2, "content", 1, "id", value="Z"), "messages.2.content.1"),
    "input": (at("messages", 2, "content", 1, "input", value={"path": "fan.py"}), "messages.2.content.1"),
    "number": (at("messages", 2, "content", 2, "input", value={"path": 1.5}), "messages.2.content.2"),
    "result": (at("messages", 3, "content", 0, "content", value="[cleared]"), "messages.3.content.0"),
    "error flag": (at("messages", 3, "content", 0, "is_error", value=True), "messages.3.content.0"),
    "image in a result": (
        at("messages", 3, "content", 1, "content", 1, value=image(png(9, 9))),
        "messages.3.content.1",
    ),
    "shorter": (lambda r: r.update(messages=r["messages"][:1]), "messages.1.content.0"),
}


@pytest.mark.parametrize(("edit", "where"), DIFFERENT.values(), ids=DIFFERENT)
def test_where_two_part(edit, where):
    """The first position that differs is named by its path."""
    request = grown(BASE)
    edit(request)
    assert divergence(BASE, request) == where


def test_first_break_of_a_conversation():
    """The turn and place of the first break in a list of bodies."""
    second = grown(BASE)
    third = grown(second)
    third["system"] = [text("Rules.")]
    assert first_break([BASE, second]) is None
    assert first_break([BASE, second, third]) == (2, "system.1")


words = st.text(min_size=1, max_size=8)
blocks = st.builds(text, words)
messages = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant"]),
        words | st.lists(blocks, min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=5,
)


def as_blocks(message):
    content = message["content"]
    return {**message, "content": [text(content)] if isinstance(content, str) else content}


@given(messages, messages)
def test_any_append_is_a_prefix(first, more):
    """For every conversation: appending messages keeps the prefix, in either spelling."""
    longer = body(*map(as_blocks, first), *more)
    assert divergence(body(*first), longer) is None


@given(messages, st.data())
def test_any_changed_text_is_found(conversation, data):
    """For every conversation: changing one text names that block."""
    spelt = [as_blocks(message) for message in conversation]
    i = data.draw(st.integers(0, len(spelt) - 1))
    j = data.draw(st.integers(0, len(spelt[i]["content"]) - 1))
    changed = copy.deepcopy(spelt)
    changed[i]["content"][j]["text"] += "x"
    assert divergence(body(*spelt), body(*changed)) == f"messages.{i}.content.{j}"


@given(messages)
def test_tokens_add_up(conversation):
    """The tokens of a prompt are at least those of its text, and the same at every reading."""
    positions = prompt(body(*conversation, tools=[READ]))
    assert positions == prompt(body(*conversation, tools=[READ]))
    assert sum(p.tokens for p in positions if p.section == "messages") >= len(conversation)
