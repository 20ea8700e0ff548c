"""Gemini histories as clients were seen to send them: what the model signed stays signed."""

from __future__ import annotations

import pytest

from proxy.simulator.gemini.turns import sign
from tests.cases.bodies import case
from tests.dialects.gemini import PRO3, Json, Line, body, call, mended, model, result, text, user

SIGNED, BESIDE = call(signed=True, path="pump.py"), call(path="fan.py")
ANSWERS = user(result(output="on"), result(output="off"))
DONE = model(text("Both fine.", thoughtSignature=sign(text("Both fine."))))


def signatures(contents: list[Json]) -> list[Json]:
    """The parts that carry a signature, in order."""
    return [part for content in contents for part in content["parts"] if "thoughtSignature" in part]


@case("B52")
def test_a_signature_stays_with_its_call_beside_a_repair() -> None:
    """An empty text leaves; the first of two calls alone is signed, and so it stays [A304]."""
    history = [user(text("Read both.")), model(SIGNED, BESIDE), ANSWERS, DONE]
    asked = text("Go on.")
    assert mended(*history, user(text(""), asked), name=PRO3) == [*history, user(asked)]


@case("B52")
@pytest.mark.parametrize(
    ("turns", "joined"),
    [
        ([model(SIGNED), model(BESIDE)], [SIGNED, BESIDE]),
        ([model(text("I look.")), model(SIGNED, BESIDE)], [text("I look."), SIGNED, BESIDE]),
        ([model(text("I look.")), model(SIGNED), model(BESIDE)], [text("I look."), SIGNED, BESIDE]),
    ],
)
def test_turns_of_the_model_that_are_joined_keep_the_signed_call_first(
    turns: list[Json], joined: list[Json]
) -> None:
    """No signature is lost, made up or given to another part, and the next turn says the same."""
    history = [user(text("Read both.")), *turns, ANSWERS]
    sent = mended(*history, name=PRO3)
    assert sent == [history[0], model(*joined), ANSWERS]
    line = Line(PRO3)
    line.send(body(*history))
    later = line.sent(body(*history, DONE, user(text("Thanks."))))["contents"]
    assert later == [*sent, DONE, user(text("Thanks."))]
    assert signatures(later) == [SIGNED, *DONE["parts"]]
