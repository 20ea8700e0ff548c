"""The survey of a history's results is what a walk over it, part by part, would find."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from proxy.branch import Frozen, Place
from proxy.conversation import Conversation, Image, Message, Role, Text, ToolCall, ToolResult
from proxy.dialects.anthropic import RULES
from proxy.economics import weight
from proxy.models import Models
from proxy.stages.results import Seen, Survey, survey
from proxy.stages.view import Facts, View

MODEL = structs.replace(Models.load().facts("anthropic", "claude-sonnet-4-5"), image_tokens=5)
PARTS = st.one_of(
    st.builds(Text, text=st.just("words"), size=st.integers(1, 99)),
    st.builds(Image, media_type=st.just("image/png"), data_bytes=st.just(9), size=st.integers(1, 99)),
    st.builds(
        ToolCall,
        id=st.sampled_from("abcdef"),
        name=st.sampled_from(["read", "grep"]),
        input=st.just(b"{}"),
        size=st.integers(1, 9),
    ),
    st.builds(
        ToolResult,
        call_id=st.sampled_from("abcdef"),
        content=st.just(b'""'),
        images=st.sampled_from([0, 0, 0, 1]),
        size=st.integers(1, 99),
    ),
)
MESSAGES = st.lists(
    st.builds(
        Message,
        role=st.sampled_from([Role.USER, Role.ASSISTANT]),
        parts=st.lists(PARTS, max_size=4).map(tuple),
    ),
    max_size=100,
).map(tuple)


def walked(messages: tuple[Message, ...]) -> Survey:
    calls: dict[str, ToolCall] = {}
    shelves: defaultdict[str, list[Seen]] = defaultdict(list)
    asked: list[int] = []
    total, previous = 0, None
    for message in messages:
        if message.role is Role.ASSISTANT and previous is not Role.ASSISTANT:
            asked.append(total)
        previous = message.role
        for part in message.parts:
            if isinstance(part, ToolCall):
                calls[part.id] = part
            elif isinstance(part, ToolResult) and part.call_id in calls:
                call = calls[part.call_id]
                shelves[call.name].append(Seen(part, call, total, len(asked)))
            total += weight(part, MODEL)
    return Survey(shelves, total, asked)


@given(MESSAGES)
def test_a_survey_finds_what_a_walk_finds(messages):
    """Each result with its call, the bytes before it and its turn, wherever runs of messages begin and end."""
    conversation = Conversation(envelope=(), tools=(), system=(), messages=messages)
    view = View(
        conversation=conversation,
        client=conversation,
        rules=RULES,
        facts=Facts(now=0.0, tenant=b"", model=MODEL, upstream="anthropic"),
        place=Place(branch=None, common=0, broke=False),
        start=0,
        regions={},
        frozen=Frozen(),
        announced={},
    )
    assert survey(view) == walked(messages)
