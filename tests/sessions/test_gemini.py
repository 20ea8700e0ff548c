"""Sessions of Gemini clients that do not keep their history as it was sent: they go on, and the prefix stands."""

from __future__ import annotations

import orjson
import pytest

from proxy.simulator import divergence
from proxy.simulator.gemini.turns import SKIP
from tests.dialects.gemini import PRO3, PRO25, Json, Line, body, call, mended, model, result, text, user

CONTEXT = text("<session_context>\nToday's date is Monday.\n</session_context>")
ASKED = user(CONTEXT, text("Look at both files."))


def long(words: str) -> str:
    return f"{words}\n" * (4_000 // len(words))


def worked(*, signed: bool = True, ids: bool = True, stand_in: bool = False) -> list[Json]:
    """What a session of three steps has said so far, as the client first sent it."""

    def named(ident: str) -> str | None:
        return ident if ids else None

    steps = [
        model(call(ident=named("a"), signed=signed, path="a.py"), call(ident=named("b"), path="b.py")),
        user(result(ident=named("a"), output=long("pump")), result(ident=named("b"), output=long("fan"))),
        model(call("run", ident=named("c"), signed=signed, cmd="ls")),
        user(result("run", ident=named("c"), output=long("a.py b.py"))),
    ]
    if stand_in:
        for content in (steps[0], steps[2]):
            content["parts"][0]["thoughtSignature"] = SKIP[0]
    return [ASKED, *steps, model(text("All is done."))]


def resumed(contents: list[Json]) -> list[Json]:
    """The history as the client reads it back from its own file: each response stands twice [A303]."""
    return [
        content | {"parts": [*content["parts"], *_responses(content)]} if _responses(content) else content
        for content in contents
    ]


def _responses(content: Json) -> list[Json]:
    return [part for part in content["parts"] if "functionResponse" in part]


AGAIN = user(text("And once more."))


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("name", [PRO3, PRO25])
def test_a_resumed_session_goes_on(name: str, *, ids: bool) -> None:
    """Responses that are there a second time leave; the API, which refuses the client's body, takes ours."""
    once = [*worked(ids=ids, stand_in=True), AGAIN]
    assert mended(*resumed(once), name=name) == once


@pytest.mark.parametrize("stand_in", [False, True])
def test_a_resumed_session_is_sent_as_it_was_before(*, stand_in: bool) -> None:
    """What was sent before the session was left is sent again, to the byte, and read from the cache.

    Signatures that the client has replaced by the stand-in go with the calls that they came with.
    """
    line = Line(PRO3)
    contents = worked()
    instruction = {"systemInstruction": {"parts": [text("Be careful. " * 2_000)]}}
    before = line.rewritten(body(*contents[:5], **instruction))
    line.send(body(*contents[:5], **instruction))
    again = [*resumed(worked(stand_in=stand_in)), AGAIN]
    after = line.rewritten(body(*again, **instruction))
    assert before.body[: before.body.index(b'],"tools"')] in after.body
    line.send(body(*again, **instruction))
    first, second = line.provider.log[-2:]
    assert second.read >= first.total - 64


def test_two_calls_that_say_the_same_are_told_apart() -> None:
    """Without ids their place among the calls of a resumed history says which is which."""
    line = Line(PRO3)
    first, second = call(signed=True), {**call(), "thoughtSignature": "b3RoZXI="}

    def said(*signed: Json) -> list[Json]:
        return [ASKED, *(one for part in signed for one in (model(part), user(result(output="on"))))]

    line.rewritten(body(*said(first)))
    line.rewritten(body(*said(first, second)))
    lost = [{**part, "thoughtSignature": SKIP[0]} for part in (first, second)]
    sent = orjson.loads(line.rewritten(body(*resumed(said(*lost)), AGAIN)).body)
    calls = [part for content in sent["contents"] for part in content["parts"] if "functionCall" in part]
    assert [part["thoughtSignature"] for part in calls] == [first["thoughtSignature"], "b3RoZXI="]


def test_a_resumed_session_that_is_resumed_again() -> None:
    """New turns come behind, once or twice themselves; nothing that was mended moves."""
    line = Line(PRO3)
    contents = resumed(worked(stand_in=True))
    bodies = []
    for number in range(4):
        contents.append(user(text(f"Turn {number}.")))
        bodies.append(line.rewritten(body(*contents)).body)
        said = line.send(body(*contents))
        contents.append(said)
        step = [
            model(call("run", ident=f"d{number}", signed=True, cmd="pwd")),
            user(result("run", ident=f"d{number}", output=long(f"/home/{number}"))),
        ]
        contents += resumed(step) if number % 2 else step
        bodies.append(line.rewritten(body(*contents)).body)
        contents.append(line.send(body(*contents)))
    for before, after in zip(bodies, bodies[1:], strict=False):
        front = before[: before.index(b'],"tools"')]
        assert after.startswith(front)


def test_a_second_response_that_says_something_else_is_kept_as_text() -> None:
    """Nothing a tool said is lost: only what is there twice leaves."""
    (*_, last) = mended(
        ASKED,
        model(call(ident="a")),
        user(result(ident="a", output="3 l/min"), result(ident="a", output="0 l/min")),
    )
    first, second = last["parts"]
    assert first == result(ident="a", output="3 l/min")
    assert second["text"].endswith("0 l/min")


@pytest.mark.parametrize("ids", [True, False])
def test_equal_responses_of_two_calls_both_stay(*, ids: bool) -> None:
    """Two calls of one tool may well answer the same."""
    line = Line(PRO3)
    request = body(
        ASKED,
        model(call(ident="a" if ids else None, signed=True), call(ident="b" if ids else None, path="b.py")),
        user(
            result(ident="a" if ids else None, output="empty"),
            result(ident="b" if ids else None, output="empty"),
        ),
    )
    assert line.sent(request) == request


def test_outputs_that_the_client_masks_pass() -> None:
    """The client shortens its own old responses: what it wrote leaves, and nothing is mended."""
    line = Line(PRO3)
    contents = worked()
    line.send(body(*contents[:5]))
    masked = "<tool_output_masked>\n…[TRUNCATED]…\n</tool_output_masked>"
    contents[2] = user(result(ident="a", output=masked), result(ident="b", output=long("fan")))
    made = line.rewritten(body(*contents, AGAIN))
    assert made.edits == ()
    assert made.read is not None
