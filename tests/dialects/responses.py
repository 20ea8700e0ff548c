"""What the tests of the Responses dialect share: items, bodies, and short ways to read, edit and write them."""

import json

from msgspec import structs

from proxy.conversation import Conversation, Opaque, Part, Role, Text, ToolCall, ToolResult
from proxy.dialects.openai_responses import OpenAIResponses
from proxy.edits import Edit, apply
from proxy.identity import chain, digest, origin

RESPONSES = OpenAIResponses()
WHY = {"stage": "test", "reason": "test"}

Item = dict[str, object]


def dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def body(*items: object, **members: object) -> bytes:
    return dumped({"model": "gpt-6.1", **members, "input": list(items)})


def said_by(role: str, *texts: str, **members: object) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text} for text in texts]
    return {"type": "message", "role": role, "content": content, **members}


def call(call_id: str, arguments: str = "{}", **members: object) -> Item:
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": "exec",
        "arguments": arguments,
        **members,
    }


def output(call_id: str, said: object = "ok", **members: object) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": said, **members}


def thought(item_id: str = "rs_1", encrypted: str | None = "gAAA") -> Item:
    item: Item = {"type": "reasoning", "id": item_id, "summary": []}
    return item if encrypted is None else {**item, "encrypted_content": encrypted}


USER = said_by("user", "go")


def keyed(conversation: Conversation) -> Conversation:
    """With keys, as the pipeline gives them."""
    return structs.replace(
        conversation,
        messages=tuple(chain(conversation.messages, origin(b"t"), lambda reminder: reminder.text)),
        tools=tuple(
            structs.replace(part, key=digest(b"tool", str(at).encode()))
            for at, part in enumerate(conversation.tools)
        ),
        system=tuple(
            structs.replace(part, key=digest(b"system", str(at).encode()))
            for at, part in enumerate(conversation.system)
        ),
    )


def read(raw: bytes) -> Conversation:
    return keyed(RESPONSES.read(RESPONSES.open(raw)))


def plain(part: Part) -> Part:
    """What a part says, without where it came from and how its form is called."""
    bare = structs.replace(part, raw=None, base=None, key=b"", nth=0, size=0)
    if isinstance(bare, ToolCall | ToolResult):
        return structs.replace(bare, kind="")
    return structs.replace(bare, unsaid=()) if isinstance(bare, Opaque) else bare


def said(conversation: Conversation) -> list[tuple[Role, Part]]:
    """Every part that says something, with who says it, in prompt order."""
    return [
        (message.role, plain(part))
        for message in conversation.messages
        if message.written
        for part in message.parts
        if not (isinstance(part, Text) and not part.text)
    ]


def parts_of(*items: object) -> list[tuple[Role, Part]]:
    return said(read(body(*items)))


def edited(conversation: Conversation, *edits: Edit) -> Conversation:
    changed, done = apply(conversation, edits)
    assert len(done) == len(edits)
    return changed


def sent(conversation: Conversation) -> list[Item]:
    items: list[Item] = json.loads(RESPONSES.write(conversation))["input"]
    return items
