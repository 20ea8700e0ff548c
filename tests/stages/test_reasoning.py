"""Thinking stays as it came, but for what the upstream cannot read."""

from typing import Any

import pytest

from proxy.edits import Remove
from proxy.stages.stale import Config

from tests.simulator.bodies import text, thought, user
from tests.stages.clearing import PLAIN, Work

OFF = Config(keep=100_000)


def worked(*content: dict[str, Any], **facts: Any) -> Work:
    """A history whose only answer has this content, and a person's next message."""
    work = Work(OFF, model=PLAIN, **facts)
    work.messages = [user("Hello."), {"role": "assistant", "content": list(content)}, user("And?")]
    return work


def kinds(work: Work) -> list[str]:
    done = work.rewrite()
    assert done.sent is not None
    return [type(part).__name__ for part in done.sent.messages[1].parts]


def removals(work: Work) -> list[Remove]:
    return [edit for edit in work.rewrite().edits if isinstance(edit, Remove)]


def test_signed_thinking_stays() -> None:
    """Every block of it, wherever it stands."""
    work = worked(thought(), text("Hm."), thought("c2Vjb25k"), text("Yes."))
    assert removals(work) == []
    assert kinds(work) == ["Reasoning", "Text", "Reasoning", "Text"]


def test_unsigned_thinking_leaves_with_the_rest_of_its_run() -> None:
    """A block without a signature is refused, and what follows it in its run would stand behind a gap [A43]."""
    work = worked(thought(), thought(""), thought("bGF0ZXI"), text("Hm."), thought("bmV3"), text("Yes."))
    assert kinds(work) == ["Reasoning", "Text", "Reasoning", "Text"]
    assert [(edit.stage, edit.required, edit.committed) for edit in removals(work)] == [
        ("reasoning", True, False)
    ] * 2


def test_it_stays_away_in_every_later_request() -> None:
    """A decision about a part is made once."""
    work = worked(thought(""), text("Hm."))
    work.say()
    work.say("More.")
    assert [[block["type"] for block in sent["messages"][1]["content"]] for sent in work.sent] == [
        ["text"],
        ["text"],
    ]


def test_where_signatures_are_not_checked_everything_stays() -> None:
    """Other upstreams want thinking back that was never signed."""
    work = worked(thought(""), text("Hm."), reasoning="required")
    assert kinds(work) == ["Reasoning", "Text"]
