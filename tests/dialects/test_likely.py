"""Which format a body looks like, where no path tells it."""

import json

import pytest

from proxy.dialects import likely

TURN = {"role": "user", "content": "hi"}
CALL = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"model": "m", "max_tokens": 9, "messages": [TURN]}, "anthropic"),
        ({"messages": [TURN, {"role": "system", "content": "late"}]}, "anthropic"),
        ({"tools": [{"name": "read", "input_schema": {}}], "messages": [TURN]}, "anthropic"),
        ({"tools": [{"type": "custom", "name": "read"}], "messages": [TURN]}, "anthropic"),
        ({"messages": [{"role": "system", "content": "x"}, TURN]}, "openai_chat"),
        ({"messages": [TURN, {"role": "assistant", "content": None, "tool_calls": [CALL]}]}, "openai_chat"),
        ({"messages": [TURN, {"role": "tool", "tool_call_id": "a", "content": "r"}]}, "openai_chat"),
        ({"messages": [TURN], "stream_options": {}}, "openai_chat"),
        ({"messages": [TURN], "tools": [{"type": "function", "function": {}}]}, "openai_chat"),
        ({"model": "m", "input": "hi"}, "openai_responses"),
        ({"contents": []}, "gemini"),
        ({"model": "m", "request": {"contents": []}}, "gemini"),
        ([1], "anthropic"),
    ],
)
def test_members_tell(body: object, name: str) -> None:
    """Members that only one of them has; without any it is Anthropic's."""
    assert likely(json.dumps(body).encode()) == name


def test_what_is_no_json_is_nobodys() -> None:
    """Whoever reads it says what is wrong."""
    assert likely(b"{") == "anthropic"
