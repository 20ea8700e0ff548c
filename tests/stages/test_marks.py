"""What a request's marks say: the last one, its lifetime, and those inside tool results."""

import orjson
import pytest
from msgspec import structs

from proxy.conversation import Mark, ToolResult
from proxy.dialects.anthropic import Anthropic
from proxy.edits import target_of
from proxy.identity import chain, origin
from proxy.models import ModelFacts
from proxy.stages.marks import LastMark, last_mark, lifetime, seconds, standing, without_inner_marks
from tests.stages.marking import EPHEMERAL, HOUR, answer, body, call, result, text, thought, tool, user

M = {"cache_control": EPHEMERAL}
H = {"cache_control": HOUR}


def read(made):
    dialect = Anthropic()
    conversation = dialect.read(dialect.open(orjson.dumps(made)))
    messages = tuple(chain(conversation.messages, origin(b"tenant"), lambda reminder: reminder.text))
    return structs.replace(conversation, messages=messages)


TURN = (user(text("Check."), text("Now.")), answer(thought("Hm."), call("A")), user(result("A")))


def test_the_last_mark_is_found_with_the_parts_before_it() -> None:
    """Counted are parts of the turns that say something, the marked one included; thinking says nothing."""
    conversation = read(body(*TURN[:2], user(result("A", **H), text("Go on."))))
    assert last_mark(conversation) == LastMark(target_of(conversation.messages[2].parts[0]), 4, "1h")


def test_the_automatic_mark_is_the_last() -> None:
    """It falls on the last block that can carry it [B4]."""
    conversation = read(body(user(text("Check.", **H)), answer("Yes."), user(text("Go on."), text("")), **M))
    assert last_mark(conversation) == LastMark(target_of(conversation.messages[2].parts[0]), 3, None)
    nothing_said = read(
        body(user(""), system="", tools=(tool("read"), tool("late", defer_loading=True)), **M)
    )
    assert last_mark(nothing_said) == LastMark(target_of(nothing_said.tools[0]), 0, None)


def test_a_mark_inside_a_result_is_the_result_s() -> None:
    """One position holds one breakpoint."""
    conversation = read(body(*TURN[:2], user(result("A", [text("x", **H)]), text("Go on."))))
    assert last_mark(conversation) == LastMark(target_of(conversation.messages[2].parts[0]), 4, "1h")


def test_marks_outside_the_turns_have_no_parts_before_them() -> None:
    """System before tools, for it comes later in the prompt [B1]."""
    both = read(body(*TURN, system=[text("Be kind.", **M)], tools=(tool("read", **H),)))
    assert last_mark(both) == LastMark(target_of(both.system[0]), 0, None)
    tools = read(body(*TURN, tools=(tool("read", **H), tool("run"))))
    assert last_mark(tools) == LastMark(target_of(tools.tools[0]), 0, "1h")


def test_a_request_without_marks_has_no_last_one() -> None:
    """Nothing of it is cached [B2]."""
    assert last_mark(read(body(*TURN))) is None


@pytest.mark.parametrize(
    ("ttl", "expected"),
    [
        ("5m", 300.0),
        ("1h", 3600.0),
        ("30m", 1800.0),
        ("12h", 43200.0),
        (None, 300.0),
        ("", 300.0),
        ("soon", 300.0),
    ],
)
def test_lifetimes_are_read_as_providers_spell_them(ttl: str | None, expected: float) -> None:
    """A number and a unit; what says nothing asks for the short time [B10]."""
    assert seconds(Mark(ttl)) == expected


def test_an_unspelt_lifetime_is_the_model_s() -> None:
    """None where a cache is never taken for cold."""
    assert [lifetime(ttl, ModelFacts(ttl_s=600)) for ttl in (None, "1h")] == [600, 3600.0]
    assert lifetime(None, ModelFacts(ttl_s=None)) is None


def test_marks_inside_results_are_seen_and_taken_out_verbatim() -> None:
    """Text that only speaks of marks is none; what else a block holds stays as spelt."""
    content = '[{"type":"text","text":"\\u00e9","n":1.0,"cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text", "text":"b","cache_control":null}]'
    conversation = read(
        body(user("Check."), answer(call("A"), call("B")), user(result("A"), result("B", '"cache_control"')))
    )
    spelt = ToolResult(call_id="A", content=content.encode(), size=200)
    turn = structs.replace(conversation.messages[2], parts=(spelt, conversation.messages[2].parts[1]))
    marked = structs.replace(conversation, messages=(turn,))
    assert [(one.marks, one.inner, one.spot.nth) for one in standing(marked)] == [((Mark("1h"),), True, 0)]
    bare = without_inner_marks(spelt)
    assert bare.content == b'[{"type":"text","text":"\\u00e9","n":1.0},{"type":"text","text":"b"}]'
    assert bare.size == 200 - len(content) + len(bare.content)


def test_a_result_that_cannot_be_read_is_left_alone() -> None:
    """Its marks are not ours to judge."""
    conversation = read(
        body(
            user("Check."),
            answer(call("A")),
            user(result("A", [{"type": "text", "text": "x", "cache_control": 3}])),
        )
    )
    assert standing(conversation) == []
