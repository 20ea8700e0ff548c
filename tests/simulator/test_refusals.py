"""What the provider refuses, and in which words."""

import gzip

import brotli
import orjson
import pytest

from proxy.simulator import COUNT, Provider, Settings

from tests.simulator.bodies import (
    HOUR,
    MARK,
    READ,
    RUN,
    assistant,
    body,
    call,
    complaint,
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

OPUS_55, SONNET_55, SONNET_45, OPUS_41 = (
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-sonnet-4-5",
    "claude-opus-4-1",
)
PREFILL = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)
UNPAIRED = (
    "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` "
    "block must have a corresponding `tool_result` block in the next message."
)
ORPHAN = (
    "messages.{}: unexpected `tool_use_id` found in `tool_result` blocks: {}. Each `tool_result` block must have "
    "a corresponding `tool_use` block in the previous message."
)
DIRECTIVE = "the directive-only form (content: [] with output_config) is accepted at any position"
EMPTY = "messages: text content blocks must be non-empty"
BLANK = "messages: text content blocks must contain non-whitespace text"
ADAPTIVE = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
TTL_ORDER = (
    "{}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note "
    "that blocks are processed in the following order: `tools`, `system`, `messages`."
)
DEFERRED = {**RUN, "defer_loading": True}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "fan"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
WEB = {"type": "web_search_20250305", "name": "web_search"}
ASKED = (user("Read."), assistant(call("A")))


def without(request, *keys):
    return {key: value for key, value in request.items() if key not in keys}


SCHEMA = {
    "model missing": (without(body(), "model"), "model: Field required"),
    "messages missing": (without(body(), "messages"), "messages: Field required"),
    "max_tokens missing": (without(body(), "max_tokens"), "max_tokens: Field required"),
    "unknown top-level key": (body(colour="red"), "colour: Extra inputs are not permitted"),
    "editing without its beta": (
        body(context_management={"edits": []}),
        "context_management: Extra inputs are not permitted",
    ),
    "thread without its beta": (body(thread={"type": "create"}), "thread: Extra inputs are not permitted"),
    "no messages": ({**body(), "messages": []}, "messages: at least one message is required"),
    "messages no list": ({**body(), "messages": "hi"}, "messages: Input should be a valid list"),
    "unknown role": (
        body({"role": "tool", "content": "x"}),
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
    ),
    "content missing": (body({"role": "user"}), "messages.0.content: Field required"),
    "mark on a message": (
        body({**user("Hi."), "cache_control": MARK}),
        "messages.0.cache_control: Extra inputs are not permitted",
    ),
    "key on a block": (
        body(user(text("Hi.", colour="red"))),
        "messages.0.content.0.text.colour: Extra inputs are not permitted",
    ),
    "text no string": (body(user(text(7))), "messages.0.content.0.text.text: Input should be a valid string"),
    "unknown block": (
        body(user({"type": "movie"})),
        "messages.0.content.0: Input tag 'movie' found using 'type' does not match any of the expected tags: "
        "'text', 'image', 'document', 'search_result', 'tool_result', 'container_upload'",
    ),
    "mark with an odd lifetime": (
        body(user(text("Hi.", cache_control={"type": "ephemeral", "ttl": "2h"}))),
        "messages.0.content.0.text.cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
    ),
    "id of a call": (
        body(user("Read."), assistant(call("functions.read:0")), user(result("functions.read:0"))),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "id of a server call": (
        body(user("Search."), assistant({**SEARCH, "id": "toolu_1"}), user("Go on.")),
        "messages.1.content.0.server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'",
    ),
    "input no object": (
        body(user("Read."), assistant({**call("A"), "input": "x"}), user(result("A"))),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "signature missing": (
        body(user("Hi."), assistant({"type": "thinking", "thinking": "x"}), user("Go on.")),
        "messages.1.content.0.thinking.signature: Field required",
    ),
    "mark on thinking": (
        body(user("Hi."), assistant({**thought(), "cache_control": MARK}), user("Go on.")),
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    ),
    "tool without a schema": (body(tools=[{"name": "x"}]), "tools.0.custom.input_schema: Field required"),
    "name of a tool": (
        body(tools=[READ, {**RUN, "name": "a b"}]),
        "tools.1.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    "budget missing": (body(thinking={"type": "enabled"}), "thinking.enabled.budget_tokens: Field required"),
    "budget too small": (
        body(thinking={"type": "enabled", "budget_tokens": 100}),
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    ),
    "binding without its beta": (
        body(thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}),
        "thinking.adaptive.block_binding: Extra inputs are not permitted",
    ),
    "updates without its beta": (
        body(thinking={"type": "adaptive", "display": "updates"}),
        "thinking.adaptive.display: Input should be 'summarized' or 'omitted'",
    ),
    "effort on a message without its beta": (
        body(user("Hi."), system(text("Be brief."), output_config={"effort": "low"})),
        "messages.1.output_config: Extra inputs are not permitted",
    ),
    "image of an odd kind": (
        body(user(image(png(8, 8), "image/tiff"))),
        "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', "
        "'image/gif' or 'image/webp'",
    ),
}


@pytest.mark.parametrize(("request_body", "wording"), SCHEMA.values(), ids=SCHEMA)
def test_schema(request_body, wording):
    """A body of another shape is refused with the path of the first wrong member [A1 A2 A24 A25]."""
    assert complaint(request_body) == wording


CAPABILITY = {
    "output cap": (
        body(model=SONNET_45, max_tokens=65536),
        "max_tokens: 65536 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
    ),
    "manual thinking": (
        body(model=OPUS_55, max_tokens=9000, thinking={"type": "enabled", "budget_tokens": 2000}),
        f'"thinking.type.enabled" is not supported for this model. {ADAPTIVE}',
    ),
    "adaptive thinking": (
        body(model=SONNET_45, thinking={"type": "adaptive"}),
        "adaptive thinking is not supported on this model",
    ),
    "no thinking": (
        body(model=SONNET_55, thinking={"type": "disabled"}),
        f'"thinking.type.disabled" is not supported for this model. {ADAPTIVE}',
    ),
    "no thinking at high effort": (
        body(model="claude-opus-5", thinking={"type": "disabled"}, output_config={"effort": "max"}),
        f'"thinking.type.disabled" is not supported for this model. {ADAPTIVE}',
    ),
    "no thinking on the preview": (
        body(model="claude-mythos-preview", thinking={"type": "disabled"}),
        '"thinking.type.disabled" is not supported for this model. Use "thinking.type.enabled" with '
        '"budget_tokens" for extended thinking.',
    ),
    "budget over the output": (
        body(model=SONNET_45, thinking={"type": "enabled", "budget_tokens": 2000}),
        "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at "
        "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size",
    ),
    "forced tool": (
        body(model=OPUS_55, tool_choice={"type": "any"}),
        'tool_choice: type "tool" and "any" are not supported for this model.',
    ),
    "forced tool and manual thinking": (
        body(
            model=SONNET_45,
            max_tokens=9000,
            thinking={"type": "enabled", "budget_tokens": 2000},
            tool_choice={"type": "tool", "name": "run"},
        ),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    "temperature": (
        body(model=OPUS_55, temperature=0.5),
        "`temperature` may only be set to 1 for this model.",
    ),
    "clearing thinking that is off": (
        body(context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}),
        "`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive",
    ),
    "clearing thinking second": (
        body(
            model=OPUS_55,
            context_management={
                "edits": [{"type": "clear_tool_uses_20250919"}, {"type": "clear_thinking_20251015"}]
            },
        ),
        "context_management: `clear_thinking_20251015` must be the first strategy in `context_management.edits` "
        "when provided",
    ),
    "pre-warm with a stream": (
        body(max_tokens=0, stream=True),
        "max_tokens: 0 is not supported with `stream`",
    ),
    "system messages": (
        body(user("Hi."), system(text("Be brief.")), model=SONNET_45),
        "messages.1: role 'system' is not supported on this model",
    ),
}


@pytest.mark.parametrize(("request_body", "wording"), CAPABILITY.values(), ids=CAPABILITY)
def test_capability(request_body, wording):
    """A model says what it cannot do [A5 A6 A28 A40 A60 B30 E4]."""
    assert complaint(request_body, "context-management-2025-06-27") == wording


ORDER = {
    "first assistant": (
        body(assistant("Hello."), user("Hi.")),
        'messages: first message must use the "user" role',
    ),
    "prefill": (body(user("Hi."), assistant("I")), PREFILL),
    "prefill on an older model with thinking": (
        body(
            user("Hi."),
            assistant("I"),
            model=SONNET_45,
            max_tokens=9000,
            thinking={"type": "enabled", "budget_tokens": 2000},
        ),
        PREFILL,
    ),
    "prefill with a space behind": (
        body(user("Hi."), assistant("I am "), model=SONNET_45),
        "messages: final assistant content cannot end with trailing whitespace",
    ),
    "system first": (
        body(system(text("Be brief.")), user("Hi.")),
        f"messages.0: use the top-level 'system' parameter for the initial system prompt; {DIRECTIVE}",
    ),
    "system behind an assistant": (
        body(user("Hi."), assistant("Hello."), system(text("Be brief.")), user("Go.")),
        "messages.2: role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool "
        f"result; {DIRECTIVE}",
    ),
    "system before a user": (
        body(user("Hi."), system(text("a")), system(text("b")), user("Go.")),
        f"messages.2: role 'system' must precede an 'assistant' message or end the array; {DIRECTIVE}",
    ),
    "system empty": (
        body(user("Hi."), system()),
        "messages.1: system content must contain at least one block",
    ),
    "system with an image": (
        body(user("Hi."), system(image(png(8, 8)))),
        "messages.1: role 'system' supports text, tool_addition, and tool_removal blocks only",
    ),
    "system between call and result": (
        body(*ASKED, system(text("Be brief.")), user(result("A"))),
        "messages.2: role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool "
        f"result; {DIRECTIVE}",
    ),
}


@pytest.mark.parametrize(("request_body", "wording"), ORDER.values(), ids=ORDER)
def test_order_of_roles(request_body, wording):
    """Roles come in an order, and system messages only where they may stand [A11 A12 A60]."""
    assert complaint(request_body) == wording


PAIRING = {
    "result missing": (
        body(user("Read."), assistant(call("A"), call("B")), user(result("A"))),
        UNPAIRED.format(2, "B"),
    ),
    "all results missing": (
        body(user("Read."), assistant(call("A"), call("B")), user("Well?")),
        UNPAIRED.format(2, "A, B"),
    ),
    "call at the end": (body(*ASKED), UNPAIRED.format(1, "A")),
    "assistant behind the call": (
        body(*ASKED, assistant("Wait."), user(result("A"))),
        UNPAIRED.format(1, "A"),
    ),
    "text before the result": (body(*ASKED, user(text("Here:"), result("A"))), UNPAIRED.format(2, "A")),
    "results in two messages": (
        body(user("Read."), assistant(call("A"), call("B")), user(result("A")), user(result("B"))),
        UNPAIRED.format(2, "B"),
    ),
    "text behind the call": (
        body(user("Read."), assistant(call("A"), text("Reading.")), user(result("A"))),
        UNPAIRED.format(2, "A"),
    ),
    "result without call": (body(user(result("A"), text("Now?"))), ORPHAN.format("0.content.0", "A")),
    "result for an older call": (
        body(*ASKED, user(result("A")), assistant("Fine."), user(result("A"))),
        ORPHAN.format("4.content.0", "A"),
    ),
    "result for a server call": (
        body(user("Search."), assistant(SEARCH, FOUND, text("Found.")), user(result("srvtoolu_1"))),
        ORPHAN.format("2.content.0", "srvtoolu_1"),
    ),
    "two results": (
        body(*ASKED, user(result("A"), result("A"))),
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with "
        "id: A",
    ),
    "id twice in a message": (
        body(user("Read."), assistant(call("A"), call("A")), user(result("A"))),
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    "id twice in a conversation": (
        body(*ASKED, user(result("A")), assistant(text("Again."), call("A")), user(result("A"))),
        "messages.3.content.1: `tool_use` ids must be unique",
    ),
    "server result without call": (
        body(user("Search."), assistant(FOUND, text("Found.")), user("More.")),
        "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: srvtoolu_1. Each "
        "`web_search_tool_result` block must have a corresponding `server_tool_use` block before it.",
    ),
    "server call without result": (
        body(user("Search."), assistant(SEARCH), user("More."), tools=[READ, WEB]),
        "messages.1: `web_search` tool use with id `srvtoolu_1` was found without a corresponding "
        "`web_search_tool_result` block",
    ),
    "text while a server call is open": (
        body(user("Search."), assistant(SEARCH, call("A")), user(result("A"), text("Hurry."))),
        "messages.1: `web_search` tool use with id `srvtoolu_1` was found without a corresponding "
        "`web_search_tool_result` block, but no `web_search` tool was provided",
    ),
}


@pytest.mark.parametrize(("request_body", "wording"), PAIRING.values(), ids=PAIRING)
def test_pairing(request_body, wording):
    """Calls and results pair on the array as sent [A20-A23 A30-A32]."""
    assert complaint(request_body) == wording


CONTENT = {
    "tools named alike": (body(tools=[READ, READ]), "tools: Tool names must be unique."),
    "all tools deferred": (
        body(tools=[DEFERRED]),
        "At least one tool must have defer_loading=false. All tools cannot be deferred.",
    ),
    "reference to nothing": (
        body(*ASKED, user(result("A", [{"type": "tool_reference", "tool_name": "fly"}]))),
        "Tool reference 'fly' not found in available tools",
    ),
    "empty system block": (body(system=[text("")]), "system: text content blocks must be non-empty"),
    "empty user string": (
        body(user(""), assistant("Hello."), user("Hi.")),
        "messages.0: all messages must have non-empty content except for the optional final assistant message",
    ),
    "empty user array": (
        body({"role": "user", "content": []}),
        "messages.0: all messages must have non-empty content except for the optional final assistant message",
    ),
    "empty text": (body(user(text("Hi."), text(""))), EMPTY),
    "empty text in a result": (body(*ASKED, user(result("A", [text("")]))), EMPTY),
    "nothing but blanks": (body(user("Hi."), assistant("Hello."), user(text(" \n"))), BLANK),
    "mark on empty text": (
        body(user(text("", cache_control=MARK))),
        "messages.0.content.0.text: cache_control cannot be set for empty text blocks",
    ),
    "image in a failed result": (
        body(*ASKED, user(result("A", [image(png(8, 8))], is_error=True))),
        "messages.2.content.0.tool_result: all content must be type `text` if `is_error` is true",
    ),
    "image of another kind": (
        body(user(image(png(8, 8), "image/jpeg"))),
        "messages.0.content.0.image.source.base64.data: Image does not match the provided media type image/jpeg",
    ),
    "image in a result of another kind": (
        body(*ASKED, user(result("A", [text("Shot."), image(png(8, 8), "image/webp")]))),
        "messages.2.content.0.tool_result.content.1.image.source.base64.data: Image does not match the provided "
        "media type image/webp",
    ),
    "no image": (
        body(user(image("aGVsbG8gd29ybGQ="))),
        "messages.0.content.0.image.source.base64.data: Could not process image",
    ),
    "image too wide": (
        body(user(image(png(8001, 2)))),
        "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed "
        "size: 8000 pixels",
    ),
    "image too wide among many": (
        body(user(*[image(png(8, 8))] * 20, image(png(2162, 32)))),
        "messages.0.content.20.image.source.base64.data: At least one of the image dimensions exceed max allowed "
        "size for many-image requests: 2000 pixels",
    ),
    "too many images": (
        body(user(*[image(png(8, 8))] * 101), model=SONNET_45),
        "messages: Too many images: 101 > 100",
    ),
    "image too big": (
        body(user(image("A" * 5_346_320))),
        "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum: 5346320 bytes > 5242880 bytes",
    ),
}


@pytest.mark.parametrize(("request_body", "wording"), CONTENT.values(), ids=CONTENT)
def test_content(request_body, wording):
    """Empty, oversized and misnamed content is refused [A8 A13-A15 A25 A26 A29 A37]."""
    assert complaint(request_body) == wording


MARKS = {
    "five": (
        body(
            user(*[text(f"part {n}", cache_control=MARK) for n in range(4)]),
            system=[text("Rules.", cache_control=MARK)],
        ),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "five with one inside a result": (
        body(
            *ASKED,
            user(
                result("A", [text("ok", cache_control=MARK)]),
                *[text(f"part {n}", cache_control=MARK) for n in range(4)],
            ),
        ),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "automatic as the fifth": (
        body(
            user(*[text(f"part {n}", cache_control=MARK) for n in range(4)], text("end")), cache_control=MARK
        ),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "automatic of another lifetime": (
        body(user(text("Hi.", cache_control=HOUR)), cache_control=MARK),
        "cache_control.ttl: the top-level cache_control has ttl='5m', but `messages.0.content.0` already has a "
        "cache_control block with ttl='1h'.",
    ),
    "hour behind five minutes": (
        body(user(text("Hi.", cache_control=HOUR)), system=[text("Rules.", cache_control=MARK)]),
        TTL_ORDER.format("messages.0.content.0"),
    ),
    "hour behind five minutes in system": (
        body(system=[text("Rules.", cache_control=HOUR)], tools=[{**READ, "cache_control": MARK}]),
        TTL_ORDER.format("system.0"),
    ),
    "on a deferred tool": (
        body(tools=[READ, {**DEFERRED, "cache_control": MARK}]),
        "Tool 'run' cannot have both defer_loading=true and cache_control set. Tools with defer_loading cannot "
        "use prompt caching.",
    ),
}


@pytest.mark.parametrize(("request_body", "wording"), MARKS.values(), ids=MARKS)
def test_marks(request_body, wording):
    """At most four marks, long-lived ones first, none where none may stand [A15 B3 B4 B9]."""
    assert complaint(request_body) == wording


ACCEPTED = {
    "adjacent messages of one role": body(user("a"), user("b"), assistant("c"), assistant("d"), user("e")),
    "text behind the results": body(*ASKED, user(result("A"), text("Go on."))),
    "history with calls and no tools": without(body(*ASKED, user(result("A"))), "tools"),
    "empty assistant message": body(user("Hi."), {"role": "assistant", "content": []}, user("Go.")),
    "blank text beside a call": body(user("Hi."), assistant(text("\n\n"), call("A")), user(result("A"))),
    "empty results": body(
        user("Hi."),
        assistant(call("A"), call("B"), call("C")),
        user(result("A", ""), result("B", []), result("C", " ")),
    ),
    "paused server turn": body(user("Search."), assistant(SEARCH), tools=[READ, WEB]),
    "results only while a server call is open": body(
        user("Search."), assistant(SEARCH, call("A")), user(result("A")), tools=[READ, WEB]
    ),
    "server result in a later message": body(
        user("Search."), assistant(SEARCH, call("A")), user(result("A")), assistant(FOUND), user("More.")
    ),
    "system message behind a user": body(
        user("Hi."), system(text("Be brief.")), assistant("Yes."), user("Go.")
    ),
    "system message at the end": body(user("Hi."), system(text("Be brief."))),
    "system message as a string": body(user("Hi."), {"role": "system", "content": "Be brief."}),
    "prefill on an older model": body(user("Hi."), assistant("I am"), model=SONNET_45),
    "four marks": body(user(*[text(f"part {n}", cache_control=MARK) for n in range(4)])),
    "hour before five minutes": body(
        user(text("Hi.", cache_control=MARK)), system=[text("Rules.", cache_control=HOUR)]
    ),
    "null members": body(system=None, tool_choice=None, metadata={"user_id": None}),
    "forced tool with adaptive thinking": body(
        model="claude-opus-5", thinking={"type": "adaptive"}, tool_choice={"type": "any"}
    ),
    "twenty images with a wide one": body(user(*[image(png(8, 8))] * 19, image(png(2162, 32)))),
    "no thinking up to high effort": body(
        model="claude-opus-5", thinking={"type": "disabled"}, output_config={"effort": "high"}
    ),
    "nothing at all to answer": body(max_tokens=0),
}


@pytest.mark.parametrize("request_body", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(request_body):
    """What the API takes is not refused."""
    assert complaint(request_body) is None


STRICT = {
    "empty assistant message": (
        body(user("Hi."), {"role": "assistant", "content": []}, user("Go.")),
        Settings(strict_empty=True),
        "messages.1: all messages must have non-empty content except for the optional final assistant message",
    ),
    "blank text beside a call": (
        body(user("Hi."), assistant(text("\n\n"), call("A")), user(result("A"))),
        Settings(strict_empty=True),
        BLANK,
    ),
    "system message as a string": (
        body(user("Hi."), {"role": "system", "content": "Be brief."}),
        Settings(strict_system_content=True),
        "messages.1.content: Input should be a valid array",
    ),
}


@pytest.mark.parametrize(("request_body", "settings", "wording"), STRICT.values(), ids=STRICT)
def test_strict_settings(request_body, settings, wording):
    """Where reports disagree, a setting takes the strict side."""
    assert complaint(request_body, settings=settings) == wording
    assert complaint(request_body) is None


def test_effort_directive_may_stand_anywhere():
    """A system message without content that sets the effort is exempt from placement [A62]."""
    directive = system(output_config={"effort": "low"})
    request = body(directive, user("Hi."), assistant("Hello."), directive, user("Go."))
    assert complaint(request, "mid-conversation-output-config-2026-07-01") is None


def test_newest_version_drops_sampling():
    """Version 2026-10-21 has no temperature, top_p or top_k [A6]."""
    request = body(model=OPUS_55, temperature=1)
    assert complaint(request, version="2026-10-21") == "temperature: Extra inputs are not permitted"
    assert complaint(request) is None


def test_newest_version_drops_documents_of_the_assistant():
    """Version 2026-10-21 takes no document in an assistant message and no citations of the user's [A7]."""
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
    request = body(user("Hi."), assistant(document), user("Go."))
    assert complaint(request, version="2026-10-21").startswith("messages.1.content.0: Input tag 'document'")
    assert complaint(request) is None
    cited = body(user(text("Hi.", citations=[{"type": "char_location"}])))
    assert (
        complaint(cited, version="2026-10-21")
        == "messages.0.content.0.text.citations: Extra inputs are not permitted"
    )
    assert complaint(cited) is None


def test_count_tokens_takes_no_generation_members():
    """count_tokens refuses max_tokens and pairs like the messages call [A70 A20]."""
    counted = without(body(*ASKED), "max_tokens")
    assert complaint(body(), path=COUNT) == "max_tokens: Extra inputs are not permitted"
    assert complaint(counted, path=COUNT) == UNPAIRED.format(1, "A")


def test_count_is_the_billed_total():
    """count_tokens returns what the same request is billed [A70]."""
    provider = Provider()
    request = body(*ASKED, user(result("A", "x" * 999)))
    counted = send(provider, without(request, "max_tokens"), path=COUNT).json["input_tokens"]
    send(provider, request)
    assert counted == provider.log[-1].usage.total > 0


ARRIVAL = {
    "lone surrogate": (
        b'{"model":"\\ud83d"}',
        400,
        "The request body is not valid JSON: no low surrogate in string: line 1 column 11 (char 10)",
    ),
    "cut off": (
        b'{"model":"cl',
        400,
        "The request body is not valid JSON: unexpected end of data: line 1 column 13 (char 12)",
    ),
    "escaped NUL": (
        b'{"model":"a\\u0000b"}',
        400,
        "The request body is not valid JSON: unexpected end of data: line 1 column 12 (char 11)",
    ),
    "too large": (b" " * (32 * 1024 * 1024 + 1), 413, "Request exceeds the maximum allowed number of bytes."),
}


@pytest.mark.parametrize(("raw", "status", "wording"), ARRIVAL.values(), ids=ARRIVAL)
def test_arrival(raw, status, wording):
    """Size and JSON are looked at first; a lone surrogate is no JSON [A3 A4]."""
    answer = send(Provider(), raw)
    assert (answer.status, answer.json["error"]["message"]) == (status, wording)


def test_an_escaped_backslash_is_no_nul():
    """The text backslash-u0000 is not a NUL."""
    request = orjson.dumps(body(user("PLACE"))).replace(b"PLACE", rb"\\u0000")
    assert send(Provider(), request).status == 200


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("br", brotli.compress)], ids=["gzip", "br"]
)
def test_compressed_bodies_are_opened(coding, pack):
    """A compressed body is read; a broken or unknown one has its own error code [D7]."""
    provider = Provider()
    pairs = [*headers(), ("content-encoding", coding)]
    assert provider.answer(pairs, pack(orjson.dumps(body())), 0.0).status == 200
    broken = provider.answer(pairs, b"no", 0.0).json["error"]
    assert broken["details"] == {"error_code": "request_body_encoding_invalid"}
    unknown = provider.answer([*headers(), ("content-encoding", "rot13")], b"no", 0.0).json["error"]
    assert unknown["details"] == {"error_code": "request_body_encoding_unsupported"}


def test_auth_and_version_come_before_the_schema():
    """Without a key 401, without a version 400, and only then the schema [D1 D2]."""
    provider = Provider(Settings(require_auth=True))
    anonymous = provider.answer([("anthropic-version", "2023-06-01")], b"{}", 0.0)
    assert (anonymous.status, anonymous.json["error"]) == (
        401,
        {"type": "authentication_error", "message": "x-api-key header is required"},
    )
    bearer = provider.answer([("authorization", "Bearer t")], b"{}", 0.0)
    assert bearer.json["error"]["message"] == "anthropic-version: header is required"
    assert provider.answer(headers(), b"{}", 0.0).json["error"]["message"] == "model: Field required"


def test_unknown_models():
    """A name outside the catalogue is served, unless only known ones are: then 404."""
    assert complaint(body(model="claude-x")) is None
    answer = send(Provider(Settings(known_models_only=True)), body(model="claude-x"))
    assert (answer.status, answer.json["error"]["message"]) == (404, "model: claude-x")
    dated = send(Provider(Settings(known_models_only=True)), body(model="claude-sonnet-4-5-20250929"))
    assert dated.status == 200


def test_unknown_betas_pass():
    """Beta values are an open set [D1]."""
    assert complaint(body(), "made-up-2030-01-01", "another-one") is None


def test_error_envelope():
    """An error names its type, and its request id stands in the header too; details come with a code."""
    answer = send(Provider(), body(user(*[image(png(8, 8))] * 20, image(png(2162, 32)))))
    sent = dict(answer.headers)
    assert answer.json == {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": CONTENT["image too wide among many"][1],
            "details": {
                "error_code": "image_dimensions_too_large",
                "max_side_length_pixels": 2000,
                "paths": ["messages.0.content.20.image"],
            },
        },
        "request_id": sent["request-id"],
    }


def test_window():
    """Input over the window is refused; older models count the output in [A9]."""
    long = user("x" * 4 * 200_000)
    new = complaint(body(long, model=SONNET_45))
    total = int(new.split()[4])
    assert new == f"prompt is too long: {total} tokens > 200000 maximum"
    assert 200_000 < total < 200_200
    shorter = user("x" * 4 * 199_000)
    assert complaint(body(shorter, model=SONNET_45, max_tokens=9000)) is None
    old = complaint(body(shorter, model=OPUS_41, max_tokens=9000))
    assert old.startswith("input length and `max_tokens` exceed context limit: 199")
    assert old.endswith(" + 9000 > 200000, decrease input length or `max_tokens` and try again")


BOTH = {
    "schema before capability": (body(colour=1, model=OPUS_55, temperature=0), "colour: Extra"),
    "capability before roles": (body(assistant("x"), model=OPUS_55, temperature=0), "`temperature`"),
    "roles before pairing": (body(assistant(call("A")), user("x")), "messages: first message"),
    "pairing before emptiness": (
        body(user(text("")), assistant(call("A")), user("x")),
        "messages.2: `tool_use`",
    ),
    "emptiness before marks": (
        body(user(text(""), *[text(f"{n}", cache_control=MARK) for n in range(5)])),
        "messages: text content",
    ),
    "marks before thinking": (
        body(
            user(*[text(f"{n}", cache_control=MARK) for n in range(5)]),
            assistant(thought("")),
            user("x"),
        ),
        "A maximum of 4",
    ),
}


@pytest.mark.parametrize(("request_body", "start"), BOTH.values(), ids=BOTH)
def test_only_the_first_failing_check_answers(request_body, start):
    """One message a refusal, in the documented order of checks."""
    assert complaint(request_body).startswith(start)
