"""The laws of the rewrite, each a property of whole sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import zip_longest
from typing import TypeAlias

import orjson
import pytest
from hypothesis import currently_in_test_context, given, note
from hypothesis import strategies as st
from msgspec import structs

from proxy.conversation import Conversation, Part, Reasoning, Reminder, Text, ToolCall
from proxy.edits import (
    AddMember,
    Edit,
    JoinSystem,
    InsertAfter,
    Mend,
    Move,
    PlaceMark,
    Remove,
    Replace,
    Target,
    apply,
    target_of,
)
from proxy.ledger import Ledger
from proxy.rawjson import encoded, members, repair
from proxy.rewrite import Rewrite, rewrite
from proxy.simulator import COUNT
from proxy.spool import HANDLE
from proxy.stages.question import QUESTION
from proxy.stages.telling import is_brief
from proxy.stores.memory import MemoryStore
from proxy.wellformed import faults
from tests.laws.driver import SPOOL, Forgetful, Sent, World, once, policies, run_again
from tests.laws.sessions import APPENDING, Session, Step, play, steps, worlds
from tests.laws.wires import WIRES, canonical

OPENED = frozenset(
    {"messages", "input", "contents", "tools", "system", "instructions", "systemInstruction"}
    | {"system_instruction", "request"}
)
"""The members of a request that hold parts."""

Law: TypeAlias = Callable[[World, list[Step]], None]

stories = st.one_of(
    st.lists(steps(), min_size=1, max_size=8),
    st.lists(steps(people=1, busy=True), min_size=4, max_size=9),
)
appending = st.one_of(
    st.lists(steps(moves=APPENDING, people=1, tools=False), min_size=2, max_size=8),
    st.lists(steps(moves=APPENDING, people=1, tools=False, busy=True), min_size=4, max_size=9),
)


def law(sessions: st.SearchStrategy[list[Step]]) -> Callable[[Law], Callable[[str], None]]:
    """A law over sessions in every wire format."""

    def over(asked: Law) -> Callable[[str], None]:
        @pytest.mark.parametrize("wire", list(WIRES))
        @wraps(asked, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        def test(wire: str) -> None:
            given(worlds(wire), sessions)(asked)()

        del test.__wrapped__  # pytest would look for the fixtures of the law itself
        test.law = asked
        return test

    return over


def tell(words: str) -> None:
    """A note where hypothesis is running; the laws are asked elsewhere too."""
    if currently_in_test_context():
        note(words)


def told(sent: Sent) -> None:
    """For people who read a failure."""
    tell(f"client {sent.body.decode()}")
    tell(f"ours   {sent.out.decode()}")
    for edit in sent.rewrite.edits if sent.rewrite else ():
        tell(f"  {edit}")


# -- 1 deterministic -------------------------------------------------------------------------------------


@law(stories)
def test_the_same_requests_give_the_same_bytes_in_another_process(world, story):
    """Bytes, policy, ledger and facts determine what is sent."""
    driver = play(world, story)
    again = run_again(driver, Ledger(), lambda ledger, _: ledger)
    assert [sent.out for sent in driver.sent] == [
        sent.body if made is None else made.body for sent, made in zip(driver.sent, again, strict=True)
    ]


@law(stories)
def test_a_rewrite_changes_nothing_it_was_given(world, story):
    """Rewriting twice before the commit gives the same bytes and the same edits."""
    driver = play(world, story)
    for sent in driver.sent[-2:]:
        policy = policies(world.policy).choose(
            sent.facts.upstream, sent.facts.agent.name, sent.facts.model.model
        )
        if sent.rewrite is not None:
            one, two = (
                rewrite(sent.body, world.speaks.dialect, policy, driver.ledger, sent.facts) for _ in "ab"
            )
            assert (one.body, one.edits, one.commit) == (two.body, two.edits, two.commit)


@law(stories)
def test_what_is_remembered_of_the_last_request_only_saves_time(world, story):
    """Without the memory of recent requests the same bytes come out, and the same edits."""

    driver = play(world, story)
    again = run_again(driver, Forgetful(), lambda ledger, _: ledger)
    for sent, made in zip(driver.sent, again, strict=True):
        told(sent)
        if made is not None:
            for edit in made.edits:
                tell(f"  forgot {edit}")
            assert made.body == sent.out
            assert sent.rewrite is not None
            assert by_target(made.edits) == by_target(sent.rewrite.edits)
            assert made.held == sent.rewrite.held


def by_target(edits: Sequence[Edit]) -> dict[Target, list[Edit]]:
    """The edits of each part, in their order: which of two parts is named first changes nothing."""
    found: dict[Target, list[Edit]] = {}
    for edit in edits:
        found.setdefault(edit.target, []).append(edit)
    return found


# -- 2 identity ------------------------------------------------------------------------------------------


@law(stories)
def test_nothing_to_do_gives_the_clients_own_object(world, story):
    """No edits: the very bytes object. Edits: other bytes, for an edit that changes nothing is none."""
    for sent in play(world, story).sent:
        made = sent.rewrite
        if made is not None and not made.broken:
            told(sent)
            assert (made.body is sent.body) == (not made.edits)


@law(stories)
def test_a_policy_that_is_off_changes_nothing(world, story):
    """`transparent` is the identity on every request."""
    for sent in play(World(**{**_members(world), "policy": "transparent"}), story).sent:
        assert sent.rewrite is None or sent.rewrite.body is sent.body


def _members(world: World) -> dict[str, object]:
    return {name: getattr(world, name) for name in world.__struct_fields__}


# -- 3 verbatim ------------------------------------------------------------------------------------------


def emptied(made: Rewrite) -> set[int]:
    """`id()` of parts that say nothing, in messages of which all that says something was taken out: they leave as well."""
    gone = {edit.target for edit in made.edits if isinstance(edit, Remove) and edit.blanks}
    moved = {edit.target for edit in made.edits if isinstance(edit, Move)}
    return {
        id(part)
        for message in made.read.messages
        if gone & {target_of(one) for one in message.parts}
        if {target_of(one) for one in message.parts if not one.nth} <= gone | moved
        for part in message.parts
        if part.nth
    }


@law(stories)
def test_a_part_that_no_edit_names_leaves_as_the_clients_bytes(world, story):
    """Number literals, escapes, key order, unknown keys: all but what an edit names is the client's slice."""
    for sent in play(world, story).sent:
        made = sent.rewrite
        if made is None or made.read is None or made.broken:
            continue
        told(sent)
        named = {edit.target for edit in made.edits if not isinstance(edit, Move)}
        ours = world.speaks.slices(sent.out)
        mended = any(isinstance(edit, Mend) for edit in made.edits)
        blank = emptied(made)
        joined = any(isinstance(edit, JoinSystem) for edit in made.edits)
        for part in parts_of(made.read):
            if target_of(part) in named or part.raw is None or id(part) in blank:
                continue
            if joined and any(part is other for other in made.read.system):
                continue  # the texts of them all are one string
            for raw in world.speaks.pieces(bytes(part.raw)):
                assert mended or raw in sent.body
                assert raw in sent.out
                if ours is not None:
                    assert ours[raw] > 0, raw
                    ours[raw] -= 1
        mine, theirs = None if mended else dict(members(sent.body)), dict(members(sent.out))
        if mine is not None:
            added = [edit.name for edit in made.edits if isinstance(edit, AddMember)]
            assert [*mine, *added] == list(theirs)
            for name in mine.keys() - OPENED:
                assert mine[name] == theirs[name]


def parts_of(conversation: Conversation) -> list[Part]:
    """All parts of a conversation."""
    return [
        *conversation.tools,
        *conversation.system,
        *(part for message in conversation.messages for part in message.parts),
    ]


# -- 4 prefix, 5 causal or committed ---------------------------------------------------------------------


@law(appending)
def test_what_was_sent_stands(world, story):
    """Where the client only adds, what was sent is a prefix of what is sent next, but for a committed batch; and of what
    the model is asked, without any."""
    session = Session(world)
    before: Sent | None = None
    heard = True
    committed = (
        False  # since the last request that was taken: one that was refused makes its batch all the same
    )
    for step in story:
        heard = heard and step.move != "empty_answer"
        sent = session.step(step)
        if sent.rewrite is None:
            continue
        if before is not None:
            told(before)
            told(sent)
            where = broken(world, before, sent, heard=heard)
            if sent.asked:
                tell(f"asked  {sent.asked.decode()}")
                question = structs.replace(sent, out=sent.asked)
                assert broken(world, before, question, heard=heard) is None
            made = sent.rewrite.commit.promises if sent.rewrite.commit is not None else ()
            committed |= any(edit.committed for promise in made for edit in promise.edits)
            assert where is None or committed, where
        if sent.status == 200:
            before, heard, committed = sent, step.fate != "unheard", False


def briefs(sent: Sent) -> int:
    """How many parts of a request are the policy's for one turn only."""
    return sum(
        isinstance(edit, InsertAfter) and isinstance(edit.part, Reminder) and is_brief(edit.part)
        for edit in (sent.rewrite.edits if sent.rewrite is not None else ())
    )


def broken(world: World, before: Sent, after: Sent, *, heard: bool) -> str | None:
    """Where the prompt of `after` stops repeating that of `before`; a vendor takes its own attribution block out.

    A turn whose answer the client never took over is still open: a result that comes in it after all takes its
    place, so of such a request only what stands up to the model's last word is asked for. Nor is what the policy put
    behind the last mark for one turn only, the end of the prompt.
    """
    hidden = before.facts.model.keep_attribution
    first, second = (world.speaks.prompt(sent.out, hidden=hidden) for sent in (before, after))
    first = first[: len(first) - briefs(before)]
    if not heard:
        last = world.speaks.last_answer(before.out)
        first = [spot for spot in first if spot.turn <= last]
    for left, right in zip_longest(first, second):
        if left is None:
            return None
        if right is None or left.chain != right.chain:
            return f"{left.path} / {'the end' if right is None else right.path}"
    return None


@law(appending)
def test_what_was_sent_past_us_is_left_alone(world, story):
    """A conversation first met in its middle: the provider has seen it raw, and only what is required may change it, or a
    batch that pays."""
    session = Session(world)
    middle = len(story) // 2
    before = [session.step(step, past=True) for step in story[:middle]]
    if not before or before[-1].status != 200 or story[middle - 1].fate == "unheard":
        return
    if story[middle].move == "empty_answer":
        return
    sent = session.step(story[middle])
    told(before[-1])
    told(sent)
    edits = () if sent.rewrite is None else sent.rewrite.edits
    if sent.rewrite is not None and not any(e.required or e.committed for e in edits):
        if _front(world, before[-1].out) == _front(world, sent.out) or (
            _front(world, before[-1].body) == _front(world, sent.body)
        ):
            # A client that spells its arguments anew breaks it itself, and what it wrote first we never saw.
            theirs = broken(world, before[-1], structs.replace(sent, out=sent.body), heard=True)
            assert broken(world, before[-1], sent, heard=True) in (None, theirs)


def _front(world: World, body: bytes) -> list[bytes]:
    """System and tools, in their order and spelling."""
    return [spot.chain for spot in world.speaks.prompt(body, hidden=False) if spot.turn < 0]


@law(appending)
def test_thinking_stays_bound_to_what_was_sent(world, story):
    """A provider that checks prefixes never refuses what a client that only adds sends through us."""
    session = Session(world)
    for step in story:
        sent = session.step(step)
        told(sent)
        if sent.facts.model.prefix_check:
            assert "bound to a different" not in (sent.error or "")


# -- 6 well-formed ---------------------------------------------------------------------------------------


@law(stories)
def test_what_leaves_is_no_worse_than_what_came(world, story):
    """The provider's checks find nothing in our body that they do not find in the client's."""
    for sent in play(world, story).sent:
        made = sent.rewrite
        if made is None:
            continue
        told(sent)
        assert made.broken == ""
        # A check stops at the first thing it finds: where it found one in the client's body, ours may show the next.
        theirs, ours = (
            world.speaks.complaints(body, sent.facts.upstream, sent.facts.model.model)
            for body in (repair(sent.body)[0], sent.out)
        )
        checks = {words.split(":")[0] for words in theirs}
        assert {words for words in ours if words.split(":")[0] not in checks} == set()
        assert faults(made.sent.messages, world.speaks.dialect.rules, sent.facts.model) <= faults(
            made.read.messages, world.speaks.dialect.rules, sent.facts.model
        )


@law(stories)
def test_a_question_to_the_model_is_no_worse_than_what_came(world, story):
    """Nor is it refused where the request itself is taken; and it leaves the very request that was to go out alone."""
    for sent in play(world, story).sent:
        if not sent.asked:
            continue
        told(sent)
        tell(f"asked  {sent.asked.decode()}")
        theirs, ours = (
            world.speaks.complaints(body, sent.facts.upstream, sent.facts.model.model)
            for body in (repair(sent.body)[0], sent.asked)
        )
        checks = {words.split(":")[0] for words in theirs}
        assert {words for words in ours if words.split(":")[0] not in checks} == set()
        assert sent.refused is None or sent.status != 200 or theirs
        assert sent.asked.count(encoded(QUESTION)) == 1


# -- 7 lossless for people -------------------------------------------------------------------------------


@law(stories)
def test_people_lose_nothing(world, story):
    """Text of people and of the model, calls and signed reasoning all leave, under `careful` and `default`."""
    if world.policy not in ("careful", "default"):
        return
    for sent in play(world, story).sent:
        if sent.rewrite is None or any(edit.committed for edit in sent.rewrite.edits):
            continue
        told(sent)
        mended = any(isinstance(edit, Mend) for edit in sent.rewrite.edits)
        unread = said_behind_unsigned(sent.rewrite.read)
        assert said(sent.rewrite.read) - unread <= world.speaks.said(sent.out) or mended


def said(conversation: Conversation) -> set[object]:
    """What people and the model said, in a conversation as read."""
    found: set[object] = set()
    for message in conversation.messages:
        for part in message.parts:
            match part:
                case Text(text=words) if words.strip():
                    found.add((message.role.value, words))
                case ToolCall(name=name, input=arguments, signature=signature, server=False):
                    found.add((name, canonical(arguments)))
                    if signature:
                        found.add((name, canonical(arguments), signature))
                case Reasoning(signature=signature) if signature:
                    found.add(signature)
                case _:
                    pass
    return found


def said_behind_unsigned(conversation: Conversation) -> set[object]:
    """Signatures of thinking that goes with the unsigned block before it: the whole rest of the run fails with it [A43]."""
    found: set[object] = set()
    for message in conversation.messages:
        broken = False
        for part in message.parts:
            broken = isinstance(part, Reasoning) and (broken or not part.signature)
            if broken and isinstance(part, Reasoning):
                found.add(part.signature)
    return found


# -- 8 explained -----------------------------------------------------------------------------------------


@law(stories)
def test_the_edits_explain_every_difference(world, story):
    """The listed edits, applied to the client's conversation, give what was sent."""
    for sent in play(world, story).sent:
        made = sent.rewrite
        if made is None or made.broken or not made.edits:
            continue
        told(sent)
        rebuilt, done = apply(made.read, [edit for edit in made.edits if not isinstance(edit, Mend)])
        assert len(done) == sum(not isinstance(edit, Mend) for edit in made.edits)
        assert orjson.loads(world.speaks.dialect.write(rebuilt)) == orjson.loads(sent.out)


# -- 9 fail open -----------------------------------------------------------------------------------------


@law(stories)
def test_the_fallback_is_what_the_client_would_have_sent(world, story):
    """The client's bytes; without its signed thinking where that is bound to what we sent."""
    for sent in play(world, story).sent:
        made = sent.rewrite
        if made is None:
            continue
        readable, count = repair(sent.body)
        if made.fallback != readable:
            assert sent.facts.model.prefix_check
            assert b'"signature"' not in made.fallback
            assert said_without_thinking(readable) == said_without_thinking(made.fallback)
        elif not count:
            assert made.fallback is sent.body


@law(appending)
def test_the_fallback_is_bound_to_nothing_it_lacks(world, story):
    """Whatever was sent before, a provider that checks prefixes takes the fallback's thinking, or there is none."""
    driver = play(world, story)
    for sent in driver.sent:
        if sent.rewrite is not None and sent.facts.model.prefix_check:
            told(sent)
            answer = driver.provider.answer(
                world.speaks.headers, sent.rewrite.fallback, sent.facts.now, path=COUNT
            )
            assert "bound to a different" not in (answer.exchange.error or "")


def said_without_thinking(body: bytes) -> object:
    """The request without thinking blocks; a message that was nothing else is not there."""
    parsed = orjson.loads(body)
    for message in parsed["messages"]:
        content = message["content"]
        if isinstance(content, list) and any(block["type"] == "thinking" for block in content):
            message["content"] = [block for block in content if block["type"] != "thinking"] or None
    parsed["messages"] = [message for message in parsed["messages"] if message["content"] is not None]
    return parsed


# -- 10 idempotent ---------------------------------------------------------------------------------------


@law(stories)
def test_our_own_output_needs_no_further_repair(world, story):
    """Fed back in as a new conversation, what we sent gives no required edit."""
    for sent in play(world, story).sent[-3:]:
        if sent.rewrite is None:
            continue
        told(sent)
        made, _ = once(Ledger(), world, sent.out, sent.facts)
        assert made is not None
        assert [edit for edit in made.edits if edit.required] == []


@law(stories)
def test_a_ledger_read_from_its_store_gives_the_same_bytes(world, story):
    """A restart between any two requests, with none on its way, changes nothing that is sent."""
    store = MemoryStore()

    def restart(ledger: Ledger, flying: bool) -> Ledger:
        return ledger if flying else Ledger(store)

    driver = play(world, story)
    again = run_again(driver, Ledger(store), restart)
    for sent, made in zip(driver.sent, again, strict=True):
        told(sent)
        for edit in made.edits if made is not None else ():
            tell(f"  restarted {edit}")
        assert sent.out == (sent.body if made is None else made.body)


# -- what is taken out is kept -----------------------------------------------------------------------------


@law(stories)
def test_what_is_taken_out_is_kept_first(world, story):
    """Each handle in what we put in is that of a whole output, kept before anything names it, or of the client's own words."""
    kept: dict[str, bytes] = {}
    for sent in play(world, story).sent:
        if sent.rewrite is None:
            continue
        told(sent)
        if sent.facts.spool is None:
            assert sent.rewrite.spooled == ()
        for one in sent.rewrite.spooled:
            assert one.handle == SPOOL.handle(one.data)
            kept[one.handle] = one.data
        ours = set(HANDLE.findall(sent.out.decode())) - set(HANDLE.findall(sent.body.decode()))
        assert ours <= kept.keys()
        for edit in sent.rewrite.edits:
            if edit.stage == "externalize":
                (handle,) = set(HANDLE.findall(edit.part.content.decode()))
                assert len(edit.part.content) < len(kept[handle])


@law(stories)
def test_what_is_pointed_at_stands(world, story):
    """Where an output is replaced by a pointer, the one it means stands before it, as it was when the pointer was made."""
    for sent in play(world, story).sent:
        made = sent.rewrite
        if made is None or made.sent is None:
            continue
        told(sent)
        order = [target_of(part) for part in parts_of(made.sent)]
        shown = {target_of(part): part for part in parts_of(made.sent)}
        meant = {target_of(part): part for part in parts_of(made.read)}
        for edit in made.edits:
            if not isinstance(edit, Replace) or edit.rests_on is None:
                continue
            if edit.target not in shown or shown[edit.target].content != edit.part.content:
                continue  # cleared later: it points at nothing any more
            assert order.index(edit.rests_on) < order.index(edit.target)
            other = {e.stage for e in made.edits if e.target in (edit.target, edit.rests_on)}
            assert not any(e.committed for e in made.edits if e.target == edit.rests_on)
            if other == {"dedupe"} and b"as that of the most recent" in edit.part.content:
                assert shown[edit.rests_on].content == meant[edit.target].content


@law(stories)
def test_an_excerpt_is_never_cut_again(world, story):
    """Our own output, fed back in as a new conversation, has its excerpts left as they are."""
    for sent in play(world, story).sent[-3:]:
        if sent.rewrite is None:
            continue
        told(sent)
        made, _ = once(Ledger(), world, sent.out, sent.facts)
        assert made is not None
        cut = {edit.target for edit in made.edits if edit.stage == "externalize"}
        for part in parts_of(made.read):
            if target_of(part) in cut:
                assert not HANDLE.search(part.content.decode())
