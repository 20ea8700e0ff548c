"""Whatever arrives, the provider answers it; and it stands apart from what it tests."""

import ast
import copy
from pathlib import Path

import orjson
from hypothesis import given
from hypothesis import strategies as st

import proxy.simulator
from proxy.simulator import COUNT, Provider, divergence

from tests.simulator.bodies import (
    MARK,
    READ,
    RUN,
    assistant,
    body,
    call,
    headers,
    image,
    png,
    result,
    send,
    system,
    text,
    thought,
    user,
)

BETAS = (
    "context-management-2025-06-27",
    "compact-2026-01-12",
    "message-threads-2026-08-12",
    "thinking-binding-controls-2026-08-01",
    "mid-conversation-output-config-2026-07-01",
    "mid-conversation-tool-changes-2026-07-01",
)
RICH = body(
    user(text("Check the pump.", cache_control=MARK), image(png(8, 8))),
    system(text("Today is Monday."), {"type": "tool_addition", "tool": {"name": "late"}}),
    assistant(thought(), text("Reading."), call("A"), call("B")),
    user(result("A", "40 lines"), result("B", [text("22 lines"), image(png(8, 8))])),
    assistant({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
    assistant({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}),
    user("Go on."),
    system=[text("Rules."), text("More rules.", cache_control=MARK)],
    tools=[READ, {**RUN, "defer_loading": True}, {"type": "web_search_20250305", "name": "web_search"}],
    thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
    tool_choice={"type": "auto"},
    metadata={"user_id": "u"},
    output_config={"effort": "high"},
    context_management={
        "edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 1}}]
    },
    diagnostics={"previous_message_id": None},
    cache_control=MARK,
)
ODD = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        1.5,
        "",
        " ",
        "x",
        [],
        {},
        [[]],
        [None],
        {"type": None},
        {"type": "text"},
        {"type": []},
    ]
)


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from places(child, (*path, key))


PLACES = [path for path in places(RICH) if path]


def test_the_rich_request_is_legal():
    """What the next tests spoil is accepted as it stands."""
    assert send(Provider(), RICH, *BETAS).status == 200


@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES), ODD, st.sampled_from(["set", "drop", "twice"])),
        min_size=1,
        max_size=3,
    )
)
def test_any_spoilt_request_is_answered(changes):
    """A request spoilt anywhere is refused or answered, by both endpoints, and can be compared: nothing raises."""
    request = copy.deepcopy(RICH)
    for path, value, kind in changes:
        place = request
        try:
            for key in path[:-1]:
                place = place[key]
            if kind == "set":
                place[path[-1]] = copy.deepcopy(value)
            elif kind == "drop":
                del place[path[-1]]
            elif isinstance(place, list):
                place.append(copy.deepcopy(place[path[-1]]))
        except (KeyError, IndexError, TypeError):
            continue
    raw = orjson.dumps(request)
    provider = Provider()
    answer = send(provider, raw, *BETAS)
    assert answer.status in (200, 400, 404)
    assert (answer.exchange.error is None) == (answer.status == 200)
    counted = provider.answer(headers(*BETAS), raw, 0.0, COUNT)
    assert counted.status in (200, 400)
    if answer.status == 200:
        assert divergence(raw, raw) is None


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_answered(raw):
    """Bytes that are no request are refused."""
    assert send(Provider(), raw).status == 400


def test_the_provider_imports_nothing_of_the_proxy():
    """Every import is of the library, a dependency, or the simulator itself."""
    folder = Path(proxy.simulator.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.level <= 1, path
                assert node.level == 1 or not (node.module or "").startswith("proxy"), path
            elif isinstance(node, ast.Import):
                assert not any(name.name.startswith("proxy") for name in node.names), path
        if path.name != "server.py":
            assert "aiohttp" not in path.read_text(), path
