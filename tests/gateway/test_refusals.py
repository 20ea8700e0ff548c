"""Refusals that speak of structure are told from all others, in the words providers use."""

import json

import pytest

from proxy.gateway.refusals import structural_class

STRUCTURAL = {
    "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each `tool_use` "
    "block must have a corresponding `tool_result` block in the next message.": "tool_pairing",
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The "
    "following tool_call_ids did not have response messages: call_a": "tool_pairing",
    "Invalid request: an assistant message with 'tool_calls' must be followed by tool messages": "tool_pairing",
    "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'": "tool_pairing",
    "messages: text content blocks must be non-empty": "empty_text",
    "messages: text content blocks must contain non-whitespace text": "empty_text",
    "messages.3.content.0: Invalid `signature` in `thinking` block": "thinking_signature",
    "messages.3.content.0.thinking.signature: Field required": "thinking_signature",
    "messages.5.content.0: … The block is bound to a different conversation …": "thinking_binding",
    "This model does not support assistant message prefill. The conversation must end with a user message.": (
        "ends_with_assistant"
    ),
    "messages.1.content.1: `tool_use` ids must be unique": "duplicate_ids",
    "The request body is not valid JSON: no low surrogate in string: line 1 column 9 (char 8)": "invalid_json",
    "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_9": "tool_pairing",
    "messages.2.content: each tool_use must have a single result. Found multiple": "tool_pairing",
    "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'": "id_pattern",
    "messages.4: role 'system' must follow a 'user' message or an 'assistant' message": "system_position",
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn.": "tool_pairing",
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn.": (
        "tool_pairing"
    ),
    "Please ensure that function response turn comes immediately after a function call turn.": "tool_pairing",
    "Unable to submit request because it must include at least one parts field, which describes the prompt input.": (
        "empty_text"
    ),
    "A maximum of 4 blocks with cache_control may be provided. Found 5.": "cache_marks",
    "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
    "cache_control block.": "cache_marks",
}


@pytest.mark.parametrize("message", STRUCTURAL)
def test_structural_messages(message):
    """In the provider's own body, and inside a router's, where the body is a string in a string."""
    own = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message}})
    wrapped = json.dumps({"error": {"message": "Provider returned error", "metadata": {"raw": own}}})
    assert structural_class(400, own.encode()) == STRUCTURAL[message]
    assert structural_class(400, wrapped.encode()) == STRUCTURAL[message]
    assert structural_class(500, own.encode()) is None


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens",
        "context_management: Extra inputs are not permitted",
        "role 'system' is not supported on this model",
        "Input tag 'advisor_20260301' found using 'type' does not match any of the expected tags",
        "Your credit balance is too low to access the Anthropic API.",
        "model: claude-x",
        "Function call is missing a thought_signature in functionCall parts.",
        "",
    ],
)
def test_other_messages(message):
    """A larger body, or the client's other feature, would not help there."""
    assert structural_class(400, json.dumps({"error": {"message": message}}).encode()) is None


def test_a_huge_body_is_not_searched():
    """No error of a provider is that long."""
    assert structural_class(400, b"x" * 300_000 + b"`tool_use` ids must be unique") is None
