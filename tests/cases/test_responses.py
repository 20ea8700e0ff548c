"""Flat lists of items whose halves lost each other, as clients of the Responses API were seen to send them."""

import json
import re
from pathlib import Path

import pytest

from proxy.answer import READERS, Signed
from proxy.dialects import DIALECTS
from proxy.ledger import Ledger, Ticket
from proxy.models import Models
from proxy.policy import load_policy
from proxy.rewrite import Rewrite, rewrite
from proxy.simulator import Call, Reply, Think
from proxy.simulator.responses import Behaviour, ResponsesProvider
from proxy.simulator.responses.sealing import Sealed, seal
from proxy.stages import Facts
from tests.cases.bodies import case

DIALECT = DIALECTS["openai_responses"]
HEADERS = (("authorization", "Bearer sk-test"), ("content-type", "application/json"))
MISSING = "No result: the tool call was interrupted before it returned."

Item = dict[str, object]


def said(role: str, text: str, **members: object) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **members}


def call(call_id: str, **members: object) -> Item:
    return {"type": "function_call", "call_id": call_id, "name": "exec", "arguments": "{}", **members}


def custom(call_id: str) -> Item:
    return {"type": "custom_tool_call", "call_id": call_id, "name": "patch", "input": "*** Begin Patch"}


def output(call_id: str, text: object = "ok", kind: str = "function_call") -> Item:
    return {"type": f"{kind}_output", "call_id": call_id, "output": text}


def thought(name: str) -> Item:
    token = seal(Sealed(kind="reasoning", account="other", model="gpt-5.5", prefix=b"", text="t"))
    return {"type": "reasoning", "id": name, "summary": [], "encrypted_content": token}


USER = said("user", "go")
EXEC = {"type": "function", "name": "exec", "parameters": {"type": "object", "properties": {}}}


def body(*items: Item, **members: object) -> bytes:
    return json.dumps({"model": "gpt-5.5", **members, "input": items}).encode()


class Session:
    """One ledger: what leaves of each request, and what the provider has against it."""

    def __init__(self, policy: str | Path = "careful", upstream: str = "openai") -> None:
        self.ledger = Ledger()
        self.upstream = upstream
        self.policy = load_policy(policy)
        self.provider = ResponsesProvider(behaviour=Behaviour(foreign_reasoning="remove"))
        self.now = 0.0
        self.ticket: Ticket | None = None

    def refuses(self, *items: Item, **members: object) -> bool:
        """Whether the provider refuses what the client sends."""
        return self.provider.answer(HEADERS, body(*items, **members), self.now).status != 200

    def rewritten(self, *items: Item, signed: tuple[Signed, ...] = (), **members: object) -> Rewrite:
        """What leaves. `signed`: what the answer before it gave to come back."""
        self.settle(signed)
        self.now += 1
        facts = Facts(
            now=self.now,
            tenant=b"tenant",
            model=Models.load().facts(self.upstream, "gpt-5.5", "openai_responses"),
            upstream=self.upstream,
            strict=True,
        )
        policy = self.policy.choose(self.upstream, "", facts.model.model)
        made = rewrite(body(*items, **members), DIALECT, policy, self.ledger, facts)
        self.ticket = self.ledger.commit(made.commit) if made.commit is not None else None
        return made

    def settle(self, signed: tuple[Signed, ...]) -> None:
        if self.ticket is not None:
            self.ledger.settle(self.ticket, None, (), success=True, signed=signed)
        self.ticket = None

    def sent(self, *items: Item, **members: object) -> list[Item]:
        made = self.rewritten(*items, **members)
        told = self.provider.answer(HEADERS, made.body, self.now)
        assert told.status == 200, told.body
        leaves: list[Item] = json.loads(made.body)["input"]
        return leaves


@case("B10")
@pytest.mark.parametrize(
    "items",
    [
        [call("a"), call("b"), output("b"), output("a")],
        [call("a"), said("user", "quick"), output("a")],
        [call("a"), call("b"), output("a"), said("assistant", "x"), call("c"), output("c"), output("b")],
        [call("a"), said("assistant", "behind a call"), output("a")],
        [
            thought("rs_1"),
            call("a", id="fc_1"),
            output("a"),
            thought("rs_2"),
            said("assistant", "x", id="msg_1"),
        ],
        [said("assistant", "x"), said("developer", "note"), said("assistant", "y")],
    ],
)
def test_what_the_format_allows_is_left_alone(items: list[Item]) -> None:
    """Outputs in any order and at any distance, and whatever else stands between them [A201]."""
    made = Session().rewritten(USER, *items)
    assert made.edits == ()
    assert made.body == body(USER, *items)


def test_a_lost_output_is_filled_in_for_ever() -> None:
    """In the form its call asks for, at the place where it was first missed [A201 F15]."""
    session = Session()
    history = [USER, call("a"), custom("b"), output("a")]
    lost = output("b", MISSING, "custom_tool_call")
    assert session.sent(*history) == [*history, lost]
    more = [said("assistant", "done"), said("user", "next")]
    assert session.sent(*history, *more) == [*history, lost, *more]


def test_a_lost_output_at_the_end_is_filled_in_for_ever() -> None:
    """Also where the next answer continues the model's turn as the client has it."""
    session = Session()
    history = [USER, thought("rs_1"), call("a", id="fc_1")]
    assert session.sent(*history) == [*history, output("a", MISSING)]
    more = [thought("rs_2"), call("b", id="fc_2"), output("b")]
    assert session.sent(*history, *more) == [*history, output("a", MISSING), *more]


def test_an_output_that_comes_late_is_kept_as_text() -> None:
    """Its slot was sent filled; what it says is not lost."""
    session = Session()
    history = [USER, call("a"), call("b"), output("b")]
    session.sent(*history)
    more = [said("assistant", "x"), output("a", "late")]
    *sent, last = session.sent(*history, *more)
    assert sent == [*history, output("a", MISSING), said("assistant", "x")]
    assert last == said("user", "[Result of the earlier tool call exec (a), which arrived late]\nlate")


def test_an_output_without_a_call_is_kept_as_text() -> None:
    """With its pictures [A201 F15]."""
    picture = {"type": "input_image", "image_url": "https://x/y.png"}
    orphan = output("gone", [{"type": "input_text", "text": "found"}, picture])
    *_, last = Session().sent(USER, orphan)
    label = "[Result of an earlier tool call (gone) that is no longer part of this conversation]\nfound"
    content = [{"type": "input_text", "text": label}, picture]
    assert last == {"type": "message", "role": "user", "content": content}


@case("B11")
def test_an_output_without_a_call_beside_a_call_without_an_output() -> None:
    """Each is mended where it stands; the pair between them, and what the person said, are as they were [A201]."""
    lone, whole, lost = output("old"), [call("a"), output("a")], call("b")
    history = [USER, lone, *whole, lost, said("user", "Stop.")]
    session = Session()
    assert session.refuses(*history)
    sent = session.sent(*history)
    label = "[Result of an earlier tool call (old) that is no longer part of this conversation]\nok"
    mended = [USER, said("user", label), *whole, lost, output("b", MISSING), said("user", "Stop.")]
    assert sent == mended
    more = [said("assistant", "Stopped."), said("user", "Thanks.")]
    assert session.sent(*history, *more) == [*mended, *more]


def test_items_that_stand_twice_stand_once() -> None:
    """Told by their ids, or by what they say where they have none [A207 F18]."""
    turn = [thought("rs_1"), said("assistant", "x", id="msg_1"), call("a", id="fc_1"), output("a")]
    assert Session().sent(USER, *turn, *turn) == [USER, *turn]
    bare = [call("a"), output("a")]
    assert Session().sent(USER, *bare, said("user", "more"), *bare) == [USER, *bare, said("user", "more")]


def test_reasoning_that_led_to_nothing_goes() -> None:
    """The turn was cut off behind it; in one that goes on it stays [A202 F16]."""
    session = Session()
    history = [USER, thought("rs_1"), said("user", "again")]
    assert session.sent(*history) == [USER, said("user", "again")]
    assert session.sent(*history, said("assistant", "x")) == [
        USER,
        said("user", "again"),
        said("assistant", "x"),
    ]
    whole = [USER, thought("rs_1"), call("a", id="fc_1"), output("a")]
    assert session.sent(*whole) == whole


@case("B48")
@pytest.mark.parametrize("cut", [[thought("rs_1")], [thought("rs_1"), thought("rs_2")]])
def test_reasoning_that_stands_alone_goes_and_the_next_stays(cut: list[Item]) -> None:
    """What is left of a turn that was trimmed leaves; reasoning before its call stays, ids and all [A202 F16]."""
    whole = [thought("rs_3"), call("a", id="fc_3"), output("a")]
    history = [USER, *cut, said("user", "again"), *whole]
    session = Session()
    assert session.refuses(*history)
    assert session.sent(*history) == [USER, said("user", "again"), *whole]


def named(name: str, **members: object) -> Item:
    """Reasoning that is there by its id alone."""
    return {"type": "reasoning", "id": name, "summary": [], **members}


class Stored:
    """A provider that keeps what it answers, and a client that sends it back, but for what a filter takes out."""

    def __init__(self) -> None:
        self.session = Session()
        self.session.provider.script = lambda _: Reply(
            blocks=(Think("Look."), Call("exec", {}), Call("exec", {}))
        )
        self.items: list[Item] = [USER]
        self.signed: tuple[Signed, ...] = ()

    def filtered(self) -> list[Item]:
        """All that was said, without reasoning."""
        return [item for item in self.items if item["type"] != "reasoning"]

    def answered(self, items: list[Item], **members: object) -> Rewrite:
        """A request with these items, and its answer, which is one more turn of the client's."""
        made = self.session.rewritten(*items, signed=self.signed, tools=[EXEC], **members)
        told = self.session.provider.answer(HEADERS, made.body, self.session.now)
        assert told.status == 200, told.body
        reader = READERS["openai_responses"]()
        reader.document(told.body)
        self.signed = reader.answer().signed
        came: list[Item] = json.loads(told.body)["output"]
        self.items += [*came, *(output(str(item["call_id"])) for item in came if "call_id" in item)]
        return made


def ids(made: Rewrite) -> list[object]:
    """The ids of the calls that leave."""
    return [item.get("id") for item in json.loads(made.body)["input"] if item["type"] == "function_call"]


def mended(made: Rewrite) -> list[str]:
    return [edit.reason for edit in made.edits if edit.required]


def calls(items: list[Item]) -> list[object]:
    return [item["id"] for item in items if item["type"] == "function_call"]


def test_a_call_whose_stored_reasoning_was_lost_leaves_without_its_id() -> None:
    """By its id the provider asks for reasoning that the client never sends; without it the call stands alone. The
    same in every turn, and nothing else changes [A202 F16]."""
    client = Stored()
    client.answered(client.items)
    assert client.session.refuses(*client.filtered(), tools=[EXEC])
    made = client.answered(client.filtered())
    assert mended(made) == ["its reasoning is gone [A202 F16]"]
    first, second = calls(client.items)[:2]
    assert ids(made) == [None, second]
    again = client.answered([*client.filtered(), said("user", "more")])
    assert ids(again) == [None, second, None, calls(client.items)[3]]
    assert first not in json.dumps(json.loads(again.body))


def test_a_call_whose_reasoning_is_filtered_later_leaves_without_its_id() -> None:
    """What stood together in an earlier request is known to belong together, also where no answer was seen."""
    client = Stored()
    client.answered(client.items)
    client.signed = ()
    whole = client.answered(client.items)
    assert mended(whole) == []
    assert ids(whole) == calls(client.items)[:2]
    client.signed = ()
    kept = client.items[-5:]
    older = [item for item in client.items[:-5] if item["type"] != "reasoning"]
    assert client.session.refuses(*older, *kept, tools=[EXEC])
    made = client.answered([*older, *kept])
    assert ids(made) == [None, *calls(client.items)[1:4]]
    assert ids(client.answered(client.items)) == calls(client.items)[:6]


@pytest.mark.parametrize("effort", ["medium", "none", None])
def test_a_conversation_met_without_any_reasoning_leaves_without_ids(effort: str | None) -> None:
    """Where the model is told to reason its client must have lost all of it; so the session goes on. What comes later
    and stands with its reasoning keeps its id."""
    asked = {} if effort is None else {"reasoning": {"effort": effort}}
    client = Stored()
    client.session.provider.script = lambda _: Reply(blocks=(Think("Look."), Call("exec", {})))
    for _ in range(2):
        told = client.session.provider.answer(HEADERS, body(*client.items, tools=[EXEC]), 1.0)
        came = json.loads(told.body)["output"]
        client.items += [*came, *(output(str(item["call_id"])) for item in came if "call_id" in item)]
    client.items = client.filtered()
    assert client.session.refuses(*client.items, tools=[EXEC], **asked)
    if effort != "medium":
        made = client.session.rewritten(*client.items, tools=[EXEC], **asked)
        assert mended(made) == []
        return
    assert ids(client.answered(client.items, **asked)) == [None, None]
    assert ids(client.answered(client.items, **asked)) == [None, None, calls(client.items)[2]]


def test_reasoning_that_nobody_stored_is_not_missed() -> None:
    """The provider does not know then what an item came behind."""
    client = Stored()
    client.answered(client.items, store=False)
    made = client.answered(client.filtered(), store=False)
    assert mended(made) == []


@case("B49")
@pytest.mark.parametrize(
    "members", [{}, {"encrypted_content": None}, {"encrypted_content": None, "content": []}]
)
def test_reasoning_that_nobody_kept_goes_with_the_id_of_what_it_led_to(members: Item) -> None:
    """An id finds nothing where nothing is stored; calls and words stay, and so does reasoning that came in full."""
    sealed = [thought("rs_2"), call("b", id="fc_2"), output("b")]
    history = [
        USER,
        named("rs_1", **members),
        call("a", id="fc_1"),
        output("a"),
        *sealed,
        named("rs_3", **members),
        said("assistant", "Done.", id="msg_3"),
        said("user", "more"),
    ]
    session = Session()
    assert session.refuses(*history, store=False)
    sent = session.sent(*history, store=False)
    assert sent == [USER, call("a"), output("a"), *sealed, said("assistant", "Done."), said("user", "more")]
    more = [named("rs_4", **members), call("c", id="fc_4"), output("c")]
    assert session.sent(*history, *more, store=False) == [*sent, call("c"), output("c")]


def test_reasoning_that_may_be_kept_stays() -> None:
    """At a server that stores, its id finds it; and where its words stand in it, nothing has to be found [A204]."""
    history = [named("rs_1"), call("a", id="fc_1"), output("a")]
    assert Session().rewritten(USER, *history).edits == ()
    assert Session().rewritten(USER, *history, store=True).edits == ()
    assert Session().rewritten(*history, store=False, previous_response_id="resp_1").edits == ()
    told = named("rs_1", content=[{"type": "reasoning_text", "text": "Look."}])
    assert Session().rewritten(USER, told, *history[1:], store=False).edits == ()


def test_a_screenshot_that_never_came_takes_its_call_along() -> None:
    """Nothing of ours can stand for a picture of a screen."""
    computer = {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "screenshot"}}
    shot = {
        "type": "computer_call_output",
        "call_id": "c",
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA"},
    }
    assert Session().sent(USER, computer, shot) == [USER, computer, shot]
    assert Session().sent(USER, computer, said("user", "well?")) == [USER, said("user", "well?")]
    assert Session().sent(USER, shot) == [USER]


@pytest.mark.parametrize(
    "members", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}, {"prompt": {"id": "pmpt_1"}}]
)
def test_a_delta_is_not_judged(members: Item) -> None:
    """The call may be at the server [A210]."""
    made = Session().rewritten(output("gone"), **members)
    assert made.edits == ()


def test_a_history_that_names_items_at_the_server_is_not_judged() -> None:
    """The other half may be the one that is named [A204]."""
    made = Session().rewritten(USER, {"type": "item_reference", "id": "fc_1"}, output("a"))
    assert made.edits == ()


# -- ids of items ----------------------------------------------------------------------------------------

MISNAMED: list[list[Item]] = [
    [call("a", id="msg_5"), output("a")],
    [call("a", id="call_a"), output("a", "ok") | {"id": "call_a"}],
    [call("a", id="fc:5"), output("a")],
    [call("a", id="fc_" + "5" * 64), output("a")],
    [custom("a") | {"id": "fc_5"}, output("a", kind="custom_tool_call")],
    [said("assistant", "Done.", id="chatcmpl-5", status="completed")],
    [thought("5"), call("a", id="fc_5"), output("a")],
]


@case("B70")
@pytest.mark.parametrize("items", MISNAMED)
@pytest.mark.parametrize("adopted", [False, True])
def test_an_id_of_another_kind_of_item_leaves(items: list[Item], *, adopted: bool) -> None:
    """The id alone: what a call is answered by stays, and so does every id that is right, now and in later turns."""
    right: list[Item] = [call("z", id="fc_2"), output("z"), said("assistant", "x", id="msg_2")]
    history = [USER, *items, *right, *([said("user", "more")] if adopted else [])]
    session = Session()
    assert session.refuses(*history)
    sent = session.sent(*history)
    wrong = [
        item.get("id") for item in items if item.get("id") != "fc_5" or item["type"] == "custom_tool_call"
    ]
    mended = [
        {name: value for name, value in item.items() if name != "id" or value not in wrong} for item in items
    ]
    assert sent == [USER, *mended, *history[len(items) + 1 :]]
    more = [said("assistant", "y", id="item_9"), said("user", "next")]
    assert session.sent(*history, *more) == [*sent, said("assistant", "y"), said("user", "next")]
    assert Session().rewritten(*sent).edits == ()


@case("B70")
def test_a_service_that_has_ids_of_its_own_gets_them_back() -> None:
    """Some keep in an id what they need: where no rule is known for them, they leave as they came."""
    for items in MISNAMED:
        assert Session(upstream="unknown").rewritten(USER, *items).edits == ()


# -- what is opaque --------------------------------------------------------------------------------------

COMPACTION: Item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "b3BhcXVl"}


@case("B44")
@pytest.mark.parametrize("policy", ["careful", "default", "frugal"])
def test_a_compaction_is_no_text_and_cuts_nothing_off(policy: str) -> None:
    """It stays at its place to the byte, and so does what stands before it, in later turns and beside a repair too."""
    session = Session(policy)
    history = [USER, said("assistant", "Yes."), COMPACTION, said("user", "more")]
    for more in ([], [said("assistant", "Done."), said("user", "next")]):
        history += more
        made = session.rewritten(*history, store=False)
        assert made.body == body(*history, store=False)
    lost = [call("a"), said("user", "Stop.")]
    made = session.rewritten(*history, *lost, store=False)
    assert b",".join(json.dumps(item).encode() for item in history) in made.body
    assert json.loads(made.body)["input"] == [*history, lost[0], output("a", MISSING), lost[1]]


# -- what changes in front -------------------------------------------------------------------------------


@case("B30")
def test_a_list_in_the_instructions_that_changes_is_told_behind_the_history(tmp_path: Path) -> None:
    """The key of the cache goes out as it came; instructions and history are those sent before, to the byte."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "extends: default\nrelocate:\n  rules:\n    - name: plan\n      where: [system]\n"
        "      pattern: '<plan>(?P<value>[^<]*)</plan>'\n      announce: on_change\n"
    )
    session = Session(policy)
    history: list[Item] = []
    sent: list[Item] = []
    for plan in ("pump", "pump done, fan", "fan done"):
        history.append(said("user", f"Go on with: {len(history)}"))
        instructions = f"Greenhouse.\n<plan>{plan}</plan>"
        asked = session.rewritten(*history, instructions=instructions, prompt_cache_key="conv-7")
        made = json.loads(asked.body)
        assert made["instructions"] == "Greenhouse.\n<plan>pump</plan>"
        assert made["prompt_cache_key"] == "conv-7"
        assert made["input"][: len(sent)] == sent
        told = re.findall(r"plan is now: ([^(]*) \(", json.dumps(made["input"][len(sent) :]))
        assert told == ([] if plan == "pump" else [plan])
        sent = made["input"]
        assert sent[-1]["content"][-1] == history[-1]["content"][0]  # type: ignore[index]
        history.append(said("assistant", "Fine."))
