"""The laws, where what the policy adds stands for one turn only.

Of a request then all but that is a prefix of the next one, and it stands behind the last mark: nothing is cached that
holds it.
"""

from pathlib import Path

import pytest
from hypothesis import given, settings
from msgspec import structs

from proxy.conversation import Reminder
from proxy.stages.marks import Zone, standing
from proxy.stages.telling import is_brief
from tests.laws import test_laws as laws
from tests.laws.driver import Sent, World
from tests.laws.sessions import Step, play, worlds
from tests.laws.test_laws import appending

BRIEF = str(Path(__file__).with_name("brief.yaml"))


@pytest.mark.parametrize(
    "name",
    [
        "test_the_same_requests_give_the_same_bytes_in_another_process",
        "test_what_is_remembered_of_the_last_request_only_saves_time",
        "test_a_part_that_no_edit_names_leaves_as_the_clients_bytes",
        "test_what_was_sent_stands",
        "test_thinking_stays_bound_to_what_was_sent",
        "test_what_leaves_is_no_worse_than_what_came",
        "test_the_edits_explain_every_difference",
        "test_our_own_output_needs_no_further_repair",
        "test_a_ledger_read_from_its_store_gives_the_same_bytes",
    ],
)
def test_a_law_holds(name: str) -> None:
    """At every upstream, those that cannot forget among them."""

    @settings(max_examples=25)
    @given(worlds("anthropic"), appending)
    def holds(world: World, story: list[Step]) -> None:
        getattr(laws, name).law(structs.replace(world, policy=BRIEF), story)

    holds()


def brief(sent: Sent) -> list[tuple[int, int]]:
    """Message and place of what stands in a request for one turn only."""
    conversation = sent.rewrite.sent if sent.rewrite is not None else None
    return [
        (at, nth)
        for at, message in enumerate(conversation.messages if conversation is not None else ())
        for nth, part in enumerate(message.parts)
        if isinstance(part, Reminder) and is_brief(part)
    ]


@settings(max_examples=25)
@given(worlds("anthropic"), appending)
def test_no_mark_holds_what_stands_for_one_turn(world: World, story: list[Step]) -> None:
    """It is the end of the request, and each mark stands in front of it."""
    for sent in play(structs.replace(world, policy=BRIEF), story).sent:
        found = brief(sent)
        if found and sent.rewrite is not None and sent.rewrite.sent is not None:
            conversation = sent.rewrite.sent
            last = max(at for at, message in enumerate(conversation.messages) if message.written)
            end = len(conversation.messages[last].parts)
            assert found == [(last, nth) for nth in range(end - len(found), end)]
            assert conversation.automatic_mark is None
            marked = [one.spot for one in standing(conversation) if one.spot.zone is Zone.TURNS]
            assert all((spot.at, spot.nth) < found[0] for spot in marked)
            assert not sent.facts.model.prefix_check
            assert sent.facts.model.regime in ("breakpoints", "none")


def test_a_session_in_which_it_stands() -> None:
    """The laws above speak of something."""
    sent = play(World(policy=BRIEF, model="claude-opus-4-5"), [Step(answer=(5,)), Step()]).sent
    assert all(brief(one) for one in sent)
