"""Gemini requests through the whole rewrite, judged by the embedded Gemini API."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.simulator import Agent
from proxy.simulator.agent import Read, Shell
from proxy.simulator.gemini import GeminiSettings
from proxy.simulator.gemini.turns import SKIP, sign
from tests.dialects.gemini import (
    PRO3,
    PRO25,
    Json,
    Line,
    body,
    call,
    mended,
    model,
    result,
    text,
    user,
)

ASKED = user(text("Read."))
MISSING = {"error": "No result: the tool call was interrupted before it returned."}


def test_a_missing_response_is_filled_in() -> None:
    """A cancelled call of a batch gets an object that says so, with the function's name [A303 F10]."""
    assert mended(ASKED, model(call(), call("run")), user(result())) == [
        ASKED,
        model(call(), call("run")),
        user(result(), result("run", **MISSING)),
    ]
    assert mended(
        ASKED, model(call(ident="a"), call(ident="b")), user(result(ident="b"), text("Go on."))
    ) == [
        ASKED,
        model(call(ident="a"), call(ident="b")),
        user(result(ident="b"), result(ident="a", **MISSING), text("Go on.")),
    ]
    assert mended(ASKED, model(call())) == [ASKED, model(call()), user(result(**MISSING))]


def test_responses_of_one_step_go_into_one_content() -> None:
    """Responses in several contents are joined; text between them stays [A303 F10]."""
    calls = model(call(ident="a"), call(ident="b"))
    assert mended(ASKED, calls, user(result(ident="a")), user(result(ident="b")), user(text("And?"))) == [
        ASKED,
        calls,
        user(result(ident="a"), result(ident="b")),
        user(text("And?")),
    ]
    assert mended(ASKED, calls, user(text("Wait.")), user(result(ident="a"), result(ident="b"))) == [
        ASKED,
        calls,
        user(result(ident="a"), result(ident="b"), text("Wait.")),
    ]


def test_text_beside_responses_stays_where_it_is() -> None:
    """Text may stand before responses: a body that is taken leaves as it came [A303]."""
    request = body(ASKED, model(text("Hm."), call(), text("So.")), user(text("Here:"), result(), text("x")))
    line = Line()
    raw = orjson.dumps(request)
    assert line.judged(raw) is None
    assert line.sent(request) == request


def test_a_history_that_opens_with_a_call() -> None:
    """A window that was cut there gets a user's text in front; one that opens with text is left alone [A302 F11]."""
    first, *rest = mended(model(call()), user(result()))
    assert first["role"] == "user"
    assert rest == [model(call()), user(result())]
    line = Line()
    request = body(model(text("Hello.")), ASKED)
    assert line.sent(request) == request


def test_a_text_before_a_call_is_joined_to_it() -> None:
    """Neighbouring contents of the model become one, parts apart and signatures where they were [A302 A305 F11]."""
    signed = call(signed=True)
    assert mended(
        ASKED, model(text("Look.", thoughtSignature=sign(text("")))), model(signed), user(result()), name=PRO3
    ) == [ASKED, model(text("Look.", thoughtSignature=sign(text(""))), signed), user(result())]


def test_a_content_without_parts_leaves() -> None:
    """An answer that broke off leaves nothing behind [A301 F30]."""
    assert mended(ASKED, model(), user(text("Again."))) == [ASKED, user(text("Again."))]
    assert mended(ASKED, model(text("")), user(text("Again."))) == [ASKED, user(text("Again."))]
    assert mended(ASKED, model(text("Hm."), text("")), ASKED) == [ASKED, model(text("Hm.")), ASKED]


def test_blank_and_signed_texts_stay() -> None:
    """A text of blanks is taken, and a signature on a text without words must come back [A301 A305]."""
    request = body(ASKED, model(text("\n"), text("", thoughtSignature=sign(text("")))), ASKED)
    line = Line(PRO3)
    assert line.sent(request) == request
    assert line.judged(orjson.dumps(request)) is None


def test_a_response_without_a_call_becomes_text() -> None:
    """What nobody asked for any more is kept as text [A302]."""
    (asked, said, last) = mended(ASKED, model(text("Hm.")), user(result(rows=[1, 2]), text("Go on.")))
    assert (asked, said) == (ASKED, model(text("Hm.")))
    assert last["parts"][1] == text("Go on.")
    assert '{"rows":[1,2]}' in last["parts"][0]["text"]


def test_calls_of_another_model_go_with_the_stand_in() -> None:
    """The first call of each step of the current turn, and no other; a signature is never copied [A304 A306 F4]."""
    old = (ASKED, model(call()), user(result()), model(text("Fine.")))
    step = (model(call(), call("run")), user(result(), result("run")))
    stand_in = {**call(), "thoughtSignature": SKIP[0]}
    assert mended(*old, ASKED, *step, *step, name=PRO3) == [
        *old,
        ASKED,
        model(stand_in, call("run")),
        step[1],
        model(stand_in, call("run")),
        step[1],
    ]
    line = Line(PRO25)
    request = body(*old, ASKED, *step)
    assert line.sent(request) == request


def test_the_stand_in_stays_in_later_turns() -> None:
    """What a call was once sent with it is sent with for ever: the prefix stands."""
    line = Line(PRO3)
    first = body(ASKED, model(call()), user(result()))
    line.send(first)
    sent = line.sent(body(*first["contents"], model(text("Done.")), user(text("Thanks."))))
    assert sent["contents"][1] == model({**call(), "thoughtSignature": SKIP[0]})


def test_a_signed_call_keeps_its_signature_beside_every_repair() -> None:
    """Two model contents, a signed call, an empty text: the part passes untouched, the text leaves [A305]."""
    first = call(signed=True)
    signed = text("Both fine.", thoughtSignature=sign(text("")))
    contents = (
        ASKED,
        model(first, call(path="fan.py")),
        user(result(output="a"), result(output="b")),
        model(signed),
        user(text(""), text("Go on.")),
    )
    assert mended(*contents, name=PRO3) == [*contents[:4], user(text("Go on."))]


def test_ids_that_come_again_in_a_later_step_are_left_alone() -> None:
    """Ids pair within their step; nothing asks that they be unique in a request [A303]."""
    step = (model(call(ident="call_0")), user(result(ident="call_0")))
    request = body(ASKED, *step, *step, model(call(ident="call_0", path="b")), user(result(ident="call_0")))
    line = Line()
    assert line.judged(orjson.dumps(request)) is None
    assert line.sent(request) == request
    lost = body(ASKED, *step, model(call(ident="call_0", path="b")), ASKED)
    sent = Line().sent(lost)
    assert sent["contents"][4] == user(result(ident="call_0", **MISSING), text("Read."))


def test_a_request_with_a_cache_passes() -> None:
    """What stands in an explicit cache is not seen: nothing is judged [B304]."""
    request = {"cachedContent": "cachedContents/x", "contents": [model(call()), user()]}
    assert Line().sent(request) == request


# -- many turns ------------------------------------------------------------------------------------------


def play(line: Line, words: str, contents: list[Json]) -> None:
    """Ask, run calls, until the model answers in words."""
    contents.append(user(text(words)))
    while True:
        said = line.send(body(*contents, systemInstruction={"parts": [text("Be careful. " * 2_000)]}))
        contents.append(said)
        calls = [part["functionCall"] for part in said["parts"] if "functionCall" in part]
        if not calls:
            return
        lines = "".join(f"{len(contents)} {at:04d}\n" for at in range(400))
        contents.append(user(*(result(one["name"], ident=one.get("id"), output=lines) for one in calls)))


@pytest.mark.parametrize("name", [PRO3, PRO25])
def test_a_session_reads_from_the_cache(name: str) -> None:
    """Turn after turn all that was sent before is read from the cache."""
    line = Line(name)
    line.provider.script = Agent([(Read("/a"),), (Read("/b"), Shell("ls"))] * 4, closing="Done.")
    contents: list[Json] = []
    for words in ("Look around.", "And again."):
        play(line, words, contents)
    log = line.provider.log
    assert {record.status for record in log} == {200}
    assert sum(record.read for record in log[1:]) / sum(record.total for record in log[1:]) > 0.85
    for before, record in zip(log, log[1:], strict=False):
        assert record.read >= before.total - 64


def test_old_responses_are_cleared() -> None:
    """Stale results become a placeholder under `output`; ids, names and counts stay, and the API takes it."""
    line = Line(PRO3, "frugal")
    line.provider.script = Agent([(Read("/a"),)] * 12)
    contents: list[Json] = []
    play(line, "Look around.", contents)
    line.now += 100_000
    line.facts = {"window": 12_000}
    play(line, "And again.", contents)
    cleared = [
        part["functionResponse"]
        for content in orjson.loads(line.provider.log[-1].body)["contents"]
        for part in content["parts"]
        if "functionResponse" in part and len(str(part)) < 400
    ]
    assert cleared
    assert all(one.keys() == {"id", "name", "response"} for one in cleared)
    assert all(one["response"].keys() == {"output"} and one["name"] == "read_file" for one in cleared)


# -- any history -----------------------------------------------------------------------------------------

NAMES = st.sampled_from(["read_file", "run"])
IDENTS = st.sampled_from([None, None, "a", "b"])
WORDS = st.sampled_from(["", " ", "Hi.", "Go on."])
MODEL_PARTS = st.one_of(
    st.builds(text, WORDS),
    st.builds(lambda words: text(words, thoughtSignature=sign(text(""))), WORDS),
    st.builds(lambda words: text(words, thought=True), WORDS),
    st.builds(
        lambda name, ident, signed: call(name, ident=ident, signed=signed), NAMES, IDENTS, st.booleans()
    ),
)
USER_PARTS = st.one_of(
    st.builds(text, WORDS), st.builds(lambda name, ident: result(name, ident=ident), NAMES, IDENTS)
)
CONTENTS = st.lists(
    st.one_of(
        st.builds(lambda parts: model(*parts), st.lists(MODEL_PARTS, max_size=3)),
        st.builds(lambda parts: user(*parts), st.lists(USER_PARTS, max_size=3)),
    ),
    min_size=1,
    max_size=7,
)


def says(contents: list[Json]) -> bool:
    """Whether the last content says something: words, a call or a response."""
    return any(part.get("text") != "" for part in contents[-1]["parts"])


SAYING = CONTENTS.filter(says)
ASKING = SAYING.filter(lambda contents: contents[-1]["role"] == "user")


@pytest.mark.parametrize("name", [PRO3, PRO25])
@given(contents=SAYING, last=st.sampled_from([[], [user(text("Go on."))]]))
def test_whatever_comes_the_api_takes_what_leaves(name: str, contents: list[Json], last: list[Json]) -> None:
    """A history in any disorder leaves in one that the API takes; mended once, it needs no more."""
    line = Line(name, settings=GeminiSettings(backend="vertex", strict_text=True))
    request = body(*contents, *last)
    made = line.rewritten(request)
    assert line.judged(made.body) is None, line.answer.json
    again = Line(name).rewritten(orjson.loads(made.body))
    assert orjson.loads(again.body) == orjson.loads(made.body)


@given(contents=ASKING, more=CONTENTS)
def test_what_was_sent_stays(contents: list[Json], more: list[Json]) -> None:
    """A history that goes on is sent with the same beginning, whatever was mended in it."""
    line = Line(PRO3, settings=GeminiSettings(backend="vertex", strict_text=True))
    first = line.sent(body(*contents))["contents"]
    then = line.sent(body(*contents, model(text("Fine.")), *more, user(text("And?"))))["contents"]
    assert then[: len(first)] == first
