"""What the embedded Responses API keeps: responses, items, sealed reasoning, compacted conversations."""

import pytest

from proxy.simulator import Call, Reply, Say, Think
from proxy.simulator.responses import COMPACT, INPUT_TOKENS, RESPONSES, Behaviour
from proxy.simulator.responses.sealing import Sealed, seal, unseal

from .responses import (
    TEXT,
    Json,
    Service,
    body,
    call,
    custom,
    developer,
    events,
    output,
    reasoning,
    says,
    text,
    tool,
    user,
)

HINT = (
    " Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item "
    "from your input."
)


def reading(ask: object) -> Reply:
    """A model that calls once, and then speaks."""
    called = any(
        block["type"] == "tool_use" for message in ask.body["messages"] for block in message["content"]
    )  # type: ignore[attr-defined]
    return Reply(blocks=(Say("done"),) if called else (Think("hm"), Call("read", {"path": "/a"})))


def withheld(answer: Json) -> list[str]:
    """Why reasoning was withheld, item by item."""
    return [one["reason"] for one in answer.get("input_transformations", ())]


# -- stored responses ------------------------------------------------------------------------------------


def test_a_response_is_continued_by_its_id() -> None:
    """Its conversation stands before the input, calls pair across, the next one continues that; instructions are
    not inherited [A201 A210]."""
    service = Service(script=reading)
    first = service.taken(body(user("look"), tools=[tool("read")], instructions="I"))
    call_id = first["output"][-1]["call_id"]
    missing = service.error(body(user("now"), previous_response_id=first["id"]))
    assert missing[1]["message"] == f"No tool output found for function call {call_id}."
    second = service.taken(body(output(call_id), previous_response_id=first["id"], tools=[tool("read")]))
    assert second["previous_response_id"] == first["id"]
    assert second["instructions"] is None
    third = body(user("more"), previous_response_id=second["id"], tools=[tool("read")])
    written = body(
        user("look"), *first["output"], output(call_id), *second["output"], user("more"), tools=[tool("read")]
    )
    assert service.post(third).exchange.total == Service(script=reading).post(written).exchange.total


def test_one_that_was_not_stored_is_not_found() -> None:
    """Nor one of another account [A204 A210]."""
    service = Service()
    unstored = service.taken(body(user(), store=False))
    stored = service.taken(body(user()))
    for sent, key in ((unstored["id"], "k"), (stored["id"], "other")):
        status, fault = service.error(body(user(), previous_response_id=sent), key)
        assert (status, fault["code"]) == (400, "previous_response_not_found")
    assert (unstored["store"], stored["store"]) == (False, True)


def test_items_are_found_by_id() -> None:
    """A reference or reasoning without its content is looked up; where nothing was stored it is a 404 [A204]."""
    service = Service(script=reading)
    sent = body(user(), tools=[tool("read")])
    stored = service.taken(sent)["output"]
    bare = {name: value for name, value in stored[0].items() if name != "encrypted_content"}
    done = output(stored[1]["call_id"])
    full = service.post(body(user(), *stored, done, tools=[tool("read")])).exchange.total
    for items in (
        [bare, stored[1]],
        [{"type": "item_reference", "id": one["id"]} for one in stored],
        [{"id": one["id"]} for one in stored],
    ):
        assert service.post(body(user(), *items, done, tools=[tool("read")])).exchange.total == full
    other = Service(script=reading)
    unstored = other.taken({**sent, "store": False})["output"]
    for item in ({"type": "reasoning", "id": unstored[0]["id"], "summary": []}, {"id": unstored[0]["id"]}):
        status, fault = other.error(body(user(), item, unstored[1], done, store=False))
        assert (status, fault) == (
            404,
            {
                "message": f"Item with id '{unstored[0]['id']}' not found.{HINT}",
                "type": "invalid_request_error",
                "param": "input",
                "code": None,
            },
        )
    assert other.error(body(user(), {"id": "rs_x"}))[1]["message"] == "Item with id 'rs_x' not found."


def test_stored_items_stay_with_their_reasoning() -> None:
    """A call that came behind reasoning needs it right before it, unless its id is left out [A202]."""
    service = Service(script=reading)
    thought, made = service.taken(body(user(), tools=[tool("read")]))["output"]
    done = output(made["call_id"])
    for items in ([made, done], [thought, call("c", id="fc_9"), output("c"), made, done]):
        status, fault = service.error(body(user(), *items, tools=[tool("read")]))
        assert (status, fault["message"]) == (
            400,
            f"Item '{made['id']}' of type 'function_call' was provided without its required 'reasoning' item: '{thought['id']}'.",
        )
    nameless = {name: value for name, value in made.items() if name != "id"}
    assert service.post(body(user(), nameless, done)).status == 200
    assert service.post(body(user(), thought, made, done)).status == 200


def test_what_was_not_stored_stands_alone() -> None:
    """With `store` off the provider does not know what an item came behind [A202]."""
    service = Service(script=reading)
    _, made = service.taken(body(user(), tools=[tool("read")], store=False))["output"]
    assert service.post(body(user(), made, output(made["call_id"]), store=False)).status == 200


def test_an_item_of_the_stored_conversation_twice() -> None:
    """Sent again beside the response that has it [A207]."""
    service = Service()
    first = service.taken(body(user()))
    item = first["output"][-1]
    _, fault = service.error(body(item, user(), previous_response_id=first["id"]))
    assert (
        fault["message"]
        == f"Duplicate item found with id {item['id']}. Remove duplicate items from your input and try again."
    )


# -- sealed reasoning ------------------------------------------------------------------------------------


def test_a_seal_says_what_was_sealed() -> None:
    """And nothing once a byte of it is another."""
    content = Sealed(kind="reasoning", account="a", model="m", prefix=b"p", text="t" * 300)
    token = seal(content)
    assert token.startswith("gAAAAAB")
    assert unseal(token) == content
    for at in (7, len(token) // 2, len(token) - 3):
        changed = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        assert unseal(changed) is None


def test_reasoning_comes_back_into_the_prompt() -> None:
    """Where nothing before it has changed; it weighs what was thought."""
    service = Service(script=lambda _: Reply(blocks=(Think("t" * 400), Say("s"))))
    thought, said = service.taken(body(user(), store=False))["output"]
    whole = service.post(body(user(), thought, said, user(), store=False))
    bare = service.post(body(user(), said, user(), store=False))
    assert withheld(whole.json) == []
    assert whole.exchange.total - bare.exchange.total == 103  # with its head
    assert thought["summary"] == []


@pytest.mark.parametrize(
    ("first", "reasons"),
    [
        (user(), []),
        (user([text("go")]), []),
        (user([text("go", {"mode": "explicit"})]), []),
        (user(id="msg_1"), []),
        (user("go on"), ["prefix_mismatch"]),
    ],
    ids=["same", "blocks", "mark", "id", "words"],
)
def test_reasoning_behind_another_conversation_is_withheld(first: Json, reasons: list[str]) -> None:
    """Without a refusal, and reported; spelling, marks and ids do not matter [A206]."""
    service = Service()
    made = service.taken(body(user(), store=False))["output"]
    assert withheld(service.taken(body(first, *made, user(), store=False))) == reasons
    assert service.provider.log[-1].dropped == (made[0]["id"],) * len(reasons)


def test_later_reasoning_does_not_suffer_from_lost_reasoning() -> None:
    """What is made behind reasoning is bound to the words before it, not to the reasoning [A206]."""
    service = Service()
    one = service.taken(body(user(), store=False))["output"]
    two = service.taken(body(user(), *one, user(), store=False))["output"]
    assert withheld(service.taken(body(user(), one[-1], user(), *two, user(), store=False))) == []


def test_other_reasons_to_withhold() -> None:
    """Another model, another account where that is not refused, an earlier turn on models before 5.6 [A206]."""
    service = Service(behaviour=Behaviour(foreign_reasoning="remove"))
    made = service.taken(body(user(), model="gpt-5.5", store=False))["output"]

    def again(model: str, key: str = "k", **members: object) -> list[str]:
        sent = body(user(), *made, user(), model=model, store=False, **members)
        return withheld(service.post(sent, key).json)

    assert again("gpt-5.4") == ["model_mismatch"]
    assert again("gpt-5.5", key="other") == ["organization_mismatch"]
    assert again("gpt-5.5") == ["turn_boundary"]
    assert again("gpt-5.5", reasoning={"context": "all_turns"}) == []
    kept = Service(behaviour=Behaviour(withhold_moved=False))
    other = kept.taken(body(user(), store=False))["output"]
    assert withheld(kept.taken(body(user("else"), *other, user(), store=False))) == []
    assert withheld(
        kept.taken(body(user(), *other, user(), store=False, reasoning={"context": "current_turn"}))
    ) == ["turn_boundary"]


# -- compaction ------------------------------------------------------------------------------------------


def test_the_endpoint_that_compacts() -> None:
    """User messages and one sealed item, which open the next input and weigh little [E100]."""
    service = Service()
    sent = body(developer("d"), user("first"), says(TEXT), user([text("second")]), prompt_cache_key="k")
    made = service.taken(sent, path=RESPONSES + COMPACT)
    assert made["object"] == "response.compaction"
    assert [(one["type"], one.get("content")) for one in made["output"]] == [
        ("message", [text("first")]),
        ("message", [text("second")]),
        ("compaction", None),
    ]
    assert made["usage"]["input_tokens"] > 2250
    after = service.post(body(*made["output"], user("third")))
    assert (after.status, after.exchange.total < 60) == (200, True)


def test_a_trigger_compacts_within_a_response() -> None:
    """Its answer is exactly one compaction item [E101]."""
    service = Service()
    sent = body(user("first"), says(TEXT), {"type": "compaction_trigger"}, stream=True, store=False)
    stream = events(service.post(sent))
    assert [one["type"] for one in stream] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.compaction.compacting",
        "response.output_item.done",
        "response.completed",
    ]
    item = stream[4]["item"]
    assert item["type"] == "compaction"
    assert service.post(body(item, user("more"), store=False)).exchange.total < 60


def test_a_threshold_compacts_in_front_of_an_answer() -> None:
    """What stood before the item is no longer in the prompt, sent again or not; its reasoning stays valid [E101]."""
    service = Service()
    rule = {"context_management": [{"type": "compaction", "compact_threshold": 1000}], "store": False}
    sent = [user("first"), says(TEXT), user("second")]
    made = service.taken(body(*sent, **rule))["output"]
    assert [one["type"] for one in made] == ["compaction", "reasoning", "message"]
    long = service.post(body(*sent, *made, user("third"), **rule))
    short = service.post(body(*made, user("third"), **rule))
    assert (withheld(long.json), withheld(short.json)) == ([], [])
    assert short.exchange.total < long.exchange.total < 100
    assert [one["type"] for one in service.taken(body(user("small"), **rule))["output"]] == [
        "reasoning",
        "message",
    ]


def test_tokens_are_counted() -> None:
    """As the prompt has them, without an answer."""
    service = Service()
    sent = body(
        user(TEXT),
        call("c"),
        output("c"),
        custom("d"),
        {"type": "custom_tool_call_output", "call_id": "d", "output": "x"},
    )
    counted = service.taken(sent, path=RESPONSES + INPUT_TOKENS)
    assert counted == {"object": "response.input_tokens", "input_tokens": service.post(sent).exchange.total}


def test_words_alone_do_not_stand_for_reasoning() -> None:
    """What models with open weights have in `content` is no substitute for what was sealed or stored."""
    item = reasoning(content=[{"type": "reasoning_text", "text": "t" * 400}], encrypted_content=None)
    _, fault = Service().error(body(user(), item, says()))
    assert fault["message"] == "Item with id 'rs_1' not found."
