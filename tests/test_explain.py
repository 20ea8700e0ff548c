"""A rewrite explained, as a user sees it in a terminal and as a program reads it."""

from typing import Any

import msgspec
import orjson
import pytest
from msgspec import Raw

from proxy.conversation import (
    Image,
    Opaque,
    Part,
    Reasoning,
    Reminder,
    Role,
    Source,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    source_of,
)
from proxy.dialects.anthropic import Anthropic
from proxy.edits import AddMember, Held, JoinSystem, Mend, Sign, Target, Unname
from proxy.explain import EditLine, Explanation, HeldLine, explain, structure, text
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.policy import Policy, Stages, load_policy
from proxy.rewrite import Rewrite, rewrite
from proxy.stages import Facts

FACTS = Facts(
    now=0.0,
    tenant=b"t",
    model=Models.load().facts("anthropic", "claude-opus-5-5"),
    upstream="anthropic",
    strict=True,
)
OFF = Policy(name="off", stages=Stages())


def body(*messages: dict[str, Any], **members: Any) -> bytes:
    return orjson.dumps({"model": "claude-opus-5-5", "max_tokens": 1, **members, "messages": list(messages)})


def explained(raw: bytes, policy: str = "careful") -> Explanation:
    chosen = load_policy(policy).choose("anthropic", "", "claude-opus-5-5")
    return explain(rewrite(raw, Anthropic(), chosen, Ledger(), FACTS), raw)


MENDED = body(
    {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "Go."}]},
    {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "a.1", "name": "run", "input": {}},
            {"type": "text", "text": "Running NULL."},
        ],
    },
    {"role": "user", "content": "Never mind."},
    tools=[{"name": "run", "input_schema": {"type": "object"}}],
).replace(b"NULL", rb"\u0000")


def test_a_terminal_shows_what_was_done_where_and_why() -> None:
    """One line an edit: stage, place, what, why, and what it costs."""
    assert text(explained(MENDED)) == (
        "policy careful: 365 bytes in, 522 out\n"
        "\n"
        "edits\n"
        "  encoding     body                     mend 1: lone surrogate or NUL [A4] (required)\n"
        "  encoding     messages[1].content[0]   replace: id the upstream refuses (required)\n"
        "  normalize    messages[0].content[0]   remove: blank text [A14] (-6 tokens, required)\n"
        "  balance      messages[1].content[1]   move before messages[1].content[0]: text before calls [A20 F1]"
        " (required)\n"
        "  balance      messages[2].content[0]   insert before: call without a result [A20 F1]"
        " (+15 tokens, required)\n"
        "\n"
        "what is sent is made of\n"
        "  tool_result        24.8%  ##########\n"
        "  tool_call          22.3%  #########\n"
        "  tools              19.4%  ########\n"
        "  user               16.9%  #######\n"
        "  assistant          16.5%  #######\n"
        "  a tool result is 60 bytes on average"
    )


def test_a_sound_body_is_said_to_be_unchanged() -> None:
    """By the object, not by its bytes."""
    raw = body({"role": "user", "content": "Go."})
    assert text(explained(raw)) == (
        f"policy careful: {len(raw)} bytes in, {len(raw)} out, unchanged\n"
        "\n"
        "no edits\n"
        "\n"
        "what is sent is made of\n"
        "  user              100.0%  ########################################"
    )


def lined(place: str, stage: str = "stale", *, after: int = 20) -> EditLine:
    return EditLine(
        stage=stage,
        action="replace",
        place=place,
        reason="12 newer results",
        tokens_before=1_000,
        tokens_after=after,
        required=False,
        committed=True,
    )


def told(*edits: EditLine) -> Explanation:
    return Explanation(
        policy="default",
        changed=True,
        bytes_before=9,
        bytes_after=8,
        edits=list(edits),
        held=[],
        structure={"user": 1.0},
        tool_result_mean_chars=None,
        broken="",
    )


def test_edits_that_differ_in_place_alone_are_one_line() -> None:
    """With how many they are, from where to where, and what they come to; each is listed where that is asked for."""
    found = told(
        lined("tools[0]", "breakpoints"),
        *(lined(f"messages[{at}].content[0]") for at in (2, 4, 110)),
        *(lined(f"messages[{at}].content[0]", "balance") for at in (3, 5)),
    )
    folded = text(found).splitlines()
    assert folded[3:8] == [
        "  breakpoints  tools[0]                 replace: 12 newer results (-980 tokens, committed)",
        "  stale x3     messages[2]...[110]      replace: 12 newer results (-2,940 tokens, committed)",
        "  balance      messages[3].content[0]   replace: 12 newer results (-980 tokens, committed)",
        "  balance      messages[5].content[0]   replace: 12 newer results (-980 tokens, committed)",
        "  (--all lists each)",
    ]
    every = text(found, every=True).splitlines()
    assert len(every) == len(folded) - 1 + 2
    assert "--all" not in "\n".join(every)


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_are_folded_to_the_terminal(columns: int) -> None:
    """None is longer, none ends in a blank, and no word is lost."""
    found = explained(MENDED)
    lines = text(found, columns=columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert lines == [line.rstrip() for line in lines]
    assert " ".join(" ".join(lines).split()) == " ".join(text(found).split())


def test_an_explanation_is_a_document() -> None:
    """Places are those of the client's body; marks are set and taken away."""
    mark = {"cache_control": {"type": "ephemeral"}}
    raw = body(
        {"role": "user", "content": "Go."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln", **mark},
                {"type": "text", "text": "Yes."},
            ],
        },
        {"role": "user", "content": "More."},
        system=[{"type": "text", "text": "Look after a greenhouse. " * 400}],
    )
    found = explained(raw)
    assert [(edit.place, edit.action) for edit in found.edits] == [
        ("messages[1].content[0]", "unmark"),
        ("messages[0].content[0]", "mark"),
        ("messages[2].content[0]", "mark"),
        ("system[0]", "mark"),
    ]
    assert found.edits[0] == EditLine(
        stage="breakpoints",
        action="unmark",
        place="messages[1].content[0]",
        reason="client mark where none may stand [A15]",
        tokens_before=23,
        tokens_after=23,
        required=True,
        committed=False,
    )
    assert msgspec.json.decode(msgspec.json.encode(found), type=Explanation) == found


def test_what_we_put_in_has_no_place_in_the_clients_body() -> None:
    """An edit of a part of ours says so."""
    raw = body(
        {"role": "assistant", "content": "Hello."},
        {"role": "system", "content": "Be quick."},
        {"role": "user", "content": "Go."},
        tools=[{"name": "run", "description": "Runs. " * 2_000}],
    )
    found = explained(raw)
    assert [(edit.place, edit.action) for edit in found.edits if edit.stage != "breakpoints"] == [
        ("messages[0].content[0]", "insert before"),
        ("messages[1].content[0]", "replace"),
        ("messages[1].content[0]", "move before messages[2].content[0]"),
    ]
    assert "a part of ours" in [edit.place for edit in found.edits if edit.stage == "breakpoints"]


@pytest.mark.parametrize(("targets", "words"), [(1, "1 result:"), (3, "3 results:")])
def test_what_was_held_back_is_told(targets: int, words: str) -> None:
    """With what it would have cost."""
    held = Held(
        stage="stale",
        reason="would break 9000 cached tokens",
        targets=targets,
        breaks_tokens=9,
        saves_tokens=3,
    )
    found = explain(Rewrite(body=b"x", spare=b"x", policy=OFF, held=(held,)), b"x")
    assert found.held == [
        HeldLine(
            stage="stale",
            reason="would break 9000 cached tokens",
            targets=targets,
            breaks_tokens=9,
            saves_tokens=3,
        )
    ]
    assert f"\n\nheld back\n  stale        {words} would break 9000 cached tokens" in text(found)


def test_what_was_a_mistake_to_take_out_is_told() -> None:
    """By the tool whose output was fetched again."""
    found = msgspec.structs.replace(explained(MENDED), regrets={"read_file": 2})
    assert "\n\nfetched again after it was taken out\n  read_file    2\n" in text(found)


def test_a_broken_law_is_told() -> None:
    """The body that would have broken it was not sent; of one that was not read no shares are known."""
    found = explain(Rewrite(body=b"fallback", spare=b"", policy=OFF, broken="call without a result"), b"x")
    assert text(found) == (
        "policy off: 1 bytes in, 8 out\nnot sent, a law would break: call without a result\n\nno edits"
    )
    assert (found.structure, found.tool_result_mean_chars) == ({}, None)


PARTS: list[tuple[Part, Role, Source]] = [
    (Reminder(text="", source=Source.EDITOR, name=""), Role.USER, Source.EDITOR),
    (Text(text=""), Role.USER, Source.USER),
    (Text(text=""), Role.META, Source.USER),
    (Text(text=""), Role.ASSISTANT, Source.ASSISTANT),
    (Text(text=""), Role.SYSTEM, Source.SYSTEM),
    (ToolCall(id="", name="", input=b""), Role.ASSISTANT, Source.TOOL_CALL),
    (ToolResult(call_id="", content=None), Role.USER, Source.TOOL_RESULT),
    (Reasoning(signature=""), Role.ASSISTANT, Source.REASONING),
    (Image(media_type="", data_bytes=0), Role.USER, Source.MEDIA),
    (ToolDefinition(raw=Raw(b"{}"), name=""), Role.META, Source.TOOLS),
    (Opaque(kind=""), Role.USER, Source.OTHER),
]


@pytest.mark.parametrize(("part", "role", "source"), PARTS)
def test_every_part_has_a_source(part: Part, role: Role, source: Source) -> None:
    """People, the model, tools, or one of the harness' injections."""
    assert source_of(part, role) is source


def test_shares_are_of_bytes_and_sum_to_one() -> None:
    """Largest first; of tool results the mean length is told."""
    raw = body(
        {"role": "user", "content": "x" * 18},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "y" * 18},
                {"type": "tool_result", "tool_use_id": "t", "content": "y" * 38},
            ],
        },
        system="z" * 8,
        tools=[{"name": "r"}],
    )
    read = Anthropic().read(Anthropic().open(raw))
    shares, mean = structure(read)
    assert [*shares] == ["tool_result", "user", "tools", "system"]
    assert sum(shares.values()) == pytest.approx(1.0, abs=0.001)
    assert mean == (71 + 91) / 2


def test_tokens_are_told_where_they_can_be_counted() -> None:
    """Of what the model reads: the text, the result's content, the bytes of everything else."""
    raw = body(
        {"role": "user", "content": "x" * 18},
        {"role": "assistant", "content": [{"type": "hologram"}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "y" * 18},
                {"type": "tool_result", "tool_use_id": "t"},
            ],
        },
        tools=[{"name": "r"}],
    )
    policy = Policy(name="off", stages=Stages())
    found = explain(rewrite(raw, Anthropic(), policy, Ledger(), FACTS), raw, len)
    assert found.tokens == {"tool_result": 60, "other": 19, "user": 18, "tools": 12}
    assert text(found).splitlines()[-5:] == [
        "  tool_result        55.0%         60 tokens  ######################",
        "  other              17.4%         19 tokens  #######",
        "  user               16.5%         18 tokens  #######",
        "  tools              11.0%         12 tokens  ####",
        "  a tool result is 56 bytes on average",
    ]


def test_each_kind_of_edit_has_words() -> None:
    """Also those that put nothing into the prompt."""
    why: dict[str, Any] = {"stage": "test", "reason": "test"}
    edits = (
        Unname(target=Target(b"a"), **why),
        JoinSystem(**why),
        Sign(target=Target(b"a"), signature="s", **why),
        AddMember(name="prompt_cache_key", value=b'"k"', **why),
        Mend(target=Target(b""), count=2, **why),
    )
    found = explain(Rewrite(body=b"b", spare=b"", policy=OFF, edits=edits), b"x")
    assert [line.action for line in found.edits] == [
        "drop id",
        "join system",
        "sign",
        "add prompt_cache_key",
        "mend 2",
    ]
