"""Threads: the provider keeps the history, the client sends what is new."""

from proxy.simulator import Provider

from tests.simulator.bodies import assistant, body, send, user

BETA = "message-threads-2026-08-12"


def carry_on(previous, *messages, **members):
    return {
        "model": "claude-x",
        "max_tokens": 1024,
        "messages": list(messages),
        "thread": {"type": "continue", "previous_message_id": previous},
        **members,
    }


def opened(provider):
    return send(provider, body(user("Check the pump."), thread={"type": "create"}), BETA)


def test_a_continued_thread_weighs_its_whole_history():
    """Only the new message is sent, and the prompt is the whole conversation [A65]."""
    provider = Provider()
    first = opened(provider)
    second = send(provider, carry_on(first.json["id"], user("And the fan?")), BETA)
    whole = body(
        user("Check the pump."), {"role": "assistant", "content": first.json["content"]}, user("And the fan?")
    )
    assert second.exchange.total == send(provider, whole).exchange.total
    third = send(provider, carry_on(second.json["id"], user("And the lamp?")), BETA)
    assert third.exchange.total > second.exchange.total


def code(answer):
    return answer.status, answer.json["error"]["details"]["error_code"]


def test_a_thread_lives_five_minutes_and_goes_on_once():
    """Unknown, expired or foreign: 404. Continued twice: 400 [A65]."""
    provider = Provider()
    first = opened(provider).json["id"]
    more = carry_on(first, user("More."))
    assert code(send(provider, carry_on("msg_x", user("More.")), BETA)) == (404, "thread_not_found")
    assert code(send(provider, more, BETA, now=300.0)) == (404, "thread_not_found")
    assert code(send(provider, more, BETA, key="sk-other")) == (404, "thread_not_found")
    assert send(provider, more, BETA, now=299.0).status == 200
    assert code(send(provider, more, BETA)) == (400, "thread_already_continued")


def test_what_a_thread_refuses():
    """Another system prompt does not match, and context editing is not for threads [A65]."""
    provider = Provider()
    first = opened(provider).json["id"]
    other = send(provider, carry_on(first, user("More."), system="Other."), BETA)
    assert code(other) == (400, "thread_fingerprint_mismatch")
    assert "differing field(s): system" in other.json["error"]["message"]
    editing = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    refused = send(
        provider,
        carry_on(first, user("More."), context_management=editing),
        BETA,
        "context-management-2025-06-27",
    )
    assert refused.json["error"]["details"] == {
        "error_code": "thread_unsupported_request",
        "unsupported": ["context_management"],
    }


def test_a_thread_is_validated_whole():
    """The new messages must fit the kept ones."""
    provider = Provider()
    refused = send(provider, carry_on(opened(provider).json["id"], assistant("I")), BETA)
    assert refused.json["error"]["message"].startswith(
        "This model does not support assistant message prefill."
    )
