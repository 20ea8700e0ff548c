"""Whatever is sent, the embedded Responses API answers or refuses; it never fails itself."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from .responses import (
    Json,
    Service,
    body,
    call,
    custom,
    custom_output,
    developer,
    output,
    says,
    text,
    tool,
    user,
)

JUNK = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        1.5,
        "",
        "x",
        "message",
        "rs_1",
        [],
        [None],
        [[]],
        ["x"],
        [{}],
        {},
        {"type": "x"},
        {"type": []},
        {"x": {}},
    ]
)


def whole() -> Json:
    """A valid request with a bit of everything."""
    return body(
        {"type": "additional_tools", "role": "developer", "tools": [tool("later")]},
        developer(),
        user([text("u", {"mode": "explicit"}), {"type": "input_image", "image_url": "data:x"}, {"type": "input_file", "file_id": "f"}]),
        says([{"type": "output_text", "text": "a", "annotations": []}], id="msg_1", phase="commentary"),
        call("c1", id="fc_1"),
        custom("c2", id="ctc_1"),
        output("c1", [text("r")]),
        custom_output("c2"),
        {"type": "local_shell_call", "call_id": "c3", "status": "completed", "action": {"type": "exec", "command": ["ls"], "env": {}}},
        output("c3"),
        {"type": "apply_patch_call", "call_id": "c5", "status": "completed", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "apply_patch_call_output", "call_id": "c5", "status": "completed"},
        {"type": "tool_search_call", "call_id": "c6", "arguments": {}, "execution": "client"},
        {"type": "tool_search_output", "call_id": "c6", "tools": [tool("found")]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "configuration_update", "text": {"format": {"type": "text"}}},
        user(),
        instructions="i",
        tools=[
            tool("read", strict=False),
            {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "d"}},
            {"type": "namespace", "name": "n", "description": "d", "tools": [tool("inner")]},
            {"type": "tool_search"},
        ],
        tool_choice={"type": "function", "name": "read"},
        reasoning={"effort": "low", "summary": "auto", "context": "auto"},
        text={"format": {"type": "json_schema", "name": "t", "schema": {"type": "object"}}, "verbosity": "low"},
        include=["reasoning.encrypted_content"],
        prompt_cache_options={"mode": "implicit", "ttl": "30m", "comparison_response_id": "resp_1"},
        context_management=[{"type": "compaction", "compact_threshold": 100_000}],
        truncation="auto",
        metadata={"a": "b"},
    )  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in a value."""
    found = [path] if path else []
    if isinstance(value, dict):
        for name, inner in value.items():
            found += places(inner, (*path, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            found += places(inner, (*path, at))
    return found


PLACES = places(whole())


def test_the_whole_is_accepted() -> None:
    """Streamed and not."""
    service = Service()
    assert service.post(whole()).status == 200
    assert service.post({**whole(), "stream": True}).status == 200


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.one_of(st.just("gone"), JUNK)), min_size=1, max_size=3))
def test_whatever_stands_anywhere(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    """Junk in any place, or nothing, is taken or refused with a message; what is taken streams as well."""
    sent = whole()
    for path, value in changes:
        inner: Any = sent
        try:
            for step in path[:-1]:
                inner = inner[step]
            if value == "gone":
                del inner[path[-1]]
            else:
                inner[path[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            continue
    service = Service()
    answer = service.post(sent)
    assert answer.status in (200, 400, 404)
    if answer.status != 200:
        assert isinstance(answer.json["error"]["message"], str)
    elif "stream" not in sent:
        assert service.post({**sent, "stream": True}).status == 200
    json.dumps(sent)
