"""The limits on images hold in every format, where the model has them and nowhere else."""

from typing import Any

import orjson
import pytest
from msgspec import structs

from proxy.agents import Agents
from proxy.dialects import DIALECTS
from proxy.inline import Inline, inline
from proxy.images import base64_image_size
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.policy import Policy, Stages
from proxy.rewrite import Rewrite, rewrite
from proxy.stages import Facts, media
from proxy.stores.memory import MemoryStore

from tests.simulator.bodies import png

FACTS = Models.load().facts("anthropic", "claude-opus-5")
WIDE = png(2100, 30)
FORMATS = {
    "anthropic": lambda kind, data: {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look."},
                    {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}},
                ],
            }
        ]
    },
    "openai_chat": lambda kind, data: {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look."},
                    {
                        "type": "image_url",
                        "image_url": {"url": f"data:{kind};base64,{data}", "detail": "high"},
                    },
                ],
            }
        ]
    },
    "openai_responses": lambda kind, data: {
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look."},
                    {"type": "input_image", "image_url": f"data:{kind};base64,{data}"},
                ],
            }
        ]
    },
    "gemini": lambda kind, data: {
        "contents": [
            {"role": "user", "parts": [{"text": "Look."}, {"inlineData": {"mimeType": kind, "data": data}}]}
        ]
    },
}


def sent(dialect: str, body: Any, ledger: Ledger, **facts: Any) -> Rewrite:
    """One request sent and answered."""
    known = Facts(
        now=1_000.0,
        tenant=b"t",
        model=structs.replace(FACTS, **facts),
        upstream="test",
        agent=Agents.load().generic,
        strict=True,
    )
    policy = Policy(name="test", stages=Stages(media=media.Config()))
    raw = orjson.dumps({"model": "claude-opus-5", **body})
    made = rewrite(raw, DIALECTS[dialect], policy, ledger, known)
    assert made.commit is not None
    ledger.keep_policy(made.policy.digest, made.policy.encoded)
    ledger.settle(ledger.commit(made.commit), None, (), success=True)
    return made


def blocks(body: bytes) -> list[Any]:
    """The parts of the one message."""
    read = orjson.loads(body)
    (message,) = read.get("messages") or read.get("input") or read["contents"]
    return message.get("content") or message["parts"]


def shown(made: Rewrite) -> Inline | None:
    return inline(orjson.dumps(blocks(made.body)[-1]))


@pytest.mark.parametrize("dialect", FORMATS)
def test_a_large_image_is_made_smaller(dialect: str) -> None:
    """Its block says the new file and its type; the ledger gives the same bytes again, also from its store."""
    store = MemoryStore()
    ledger = Ledger(store)
    body = FORMATS[dialect]("image/png", WIDE)
    first = sent(dialect, body, ledger)
    found = shown(first)
    assert found is not None
    assert (found.media_type, base64_image_size(found.data)) == ("image/png", (2000, 29))
    (edit,) = first.edits
    assert (edit.stage, edit.required, edit.committed) == ("media", False, False)
    assert sent(dialect, body, Ledger(store)).body == first.body


@pytest.mark.parametrize("dialect", FORMATS)
def test_what_is_no_image_becomes_a_text(dialect: str) -> None:
    """In the form that the format has for one."""
    made = sent(dialect, FORMATS[dialect]("image/png", "aGk="), Ledger())
    said, note = blocks(made.body)
    words = "[Image left out here: image/png, 0 kB. It could not be read. Nothing else was changed.]"
    assert note == said | {"text": words}


@pytest.mark.parametrize("dialect", FORMATS)
def test_a_wrong_type_is_corrected_wherever_it_is(dialect: str) -> None:
    """Also where nobody would refuse it: it is never of use."""
    for checked in (True, False):
        made = sent(dialect, FORMATS[dialect]("image/jpeg", WIDE), Ledger(), image_checked=checked)
        assert [edit.required for edit in made.edits] == [False]
        found = shown(made)
        assert found is not None
        assert found.media_type == "image/png"
        assert (found.data == WIDE) is not checked


@pytest.mark.parametrize("dialect", FORMATS)
def test_a_model_without_limits_gets_what_came(dialect: str) -> None:
    """Large, damaged or neither: the client's own bytes go out."""
    for data in (WIDE, "aGk="):
        made = sent(dialect, FORMATS[dialect]("image/png", data), Ledger(), image_checked=False)
        assert made.edits == ()


def test_the_ledger_weighs_what_it_keeps() -> None:
    """An image in a promise is megabytes: branches are forgotten by that."""
    ledger = Ledger()
    made = sent("anthropic", FORMATS["anthropic"]("image/png", WIDE), ledger)
    assert made.commit is not None
    (branch,) = ledger.branches(made.commit.root).values()
    found = shown(made)
    assert found is not None
    assert branch.bulk >= len(found.data)
