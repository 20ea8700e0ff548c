"""What a script says, as the items of an output [A205 A209 C101]."""

from typing import Any

import msgspec
import orjson

from ..reply import Call, Reply, Say, Think, derived_id
from . import render
from .asking import offered
from .facts import reasons, shows_phase
from .items import kind_of
from .reading import Read
from .sealing import Sealed, seal

Json = dict[str, Any]


class Made(msgspec.Struct, frozen=True):
    """The items of an output, and what its reasoning says, item by item."""

    items: list[Json]
    thoughts: list[str]


def composed(reply: Reply, body: Json, read: Read, account: str, history: str, *, compacts: bool) -> Made:
    """The output for a reply. Ids derive from the history; a reasoning model begins with reasoning.

    `compacts`: a summary of the conversation so far stands in front [E101].
    """
    blocks = list(reply.blocks)
    if thinks(body) and not any(isinstance(block, Think) for block in blocks):
        blocks.insert(0, Think(f"The next step follows from what is known so far ({history[:12]})."))
    tools = {_name(tool): tool for tool in offered(body, read.items)}
    calls = any(isinstance(block, Call) for block in blocks)
    made = Made([], [])
    chain = read.chain
    if compacts:
        made.items.append(compacted(body, read, account, history))
        chain = render.extended(chain, made.items[0])
    for nth, block in enumerate(blocks):
        match block:
            case Think(words):
                if not thinks(body):
                    continue
                made.thoughts.append(words)
                item = _reasoning(words, body, account, chain, derived_id("rs", history, str(nth)))
            case Say(words):
                item = _message(words, body, derived_id("msg", history, str(nth)), comments=calls)
                if reply.stop_reason == "refusal":
                    item["content"] = [{"type": "refusal", "refusal": words}]
            case Call():
                tool = tools.get(block.name, {"type": "function", "name": block.name})
                item = _call(block, tool, history, nth)
        made.items.append(item)
        chain = render.extended(chain, item)
    return made


def thinks(body: Json) -> bool:
    """Whether the model reasons in its answer."""
    return reasons(body["model"]) and (body.get("reasoning") or {}).get("effort") != "none"


def compacted(body: Json, read: Read, account: str, history: str) -> Json:
    """The compaction item that stands for the conversation so far [E100]."""
    said = f"Summary of {len(read.items)} items ({history[:12]})."
    content = Sealed(kind="compaction", account=account, model=body["model"], prefix=read.chain, text=said)
    return {
        "type": "compaction",
        "id": derived_id("cmp", history),
        "encrypted_content": seal(content),
    }


def _name(tool: Json) -> str:
    return str(tool.get("name") or tool["type"])


def _reasoning(words: str, body: Json, account: str, chain: bytes, name: str) -> Json:
    asked = (body.get("reasoning") or {}).get("summary") or (body.get("reasoning") or {}).get(
        "generate_summary"
    )
    content = Sealed(kind="reasoning", account=account, model=body["model"], prefix=chain, text=words)
    summary = [{"type": "summary_text", "text": words}] if asked else []
    return {"id": name, "type": "reasoning", "summary": summary, "encrypted_content": seal(content)}


def _message(words: str, body: Json, name: str, *, comments: bool) -> Json:
    phase = {"phase": "commentary" if comments else "final_answer"} if shows_phase(body["model"]) else {}
    return {
        "id": name,
        "type": "message",
        "status": "completed",
        "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": words}],
        "role": "assistant",
        **phase,
    }


def _call(call: Call, tool: Json, history: str, nth: int) -> Json:
    call_id = call.id or derived_id("call", history, str(nth))
    space = {"namespace": tool["namespace"]} if "namespace" in tool else {}
    common = {"status": "completed", "call_id": call_id}

    def item(kind: str, prefix: str, members: Json) -> Json:
        return {"id": derived_id(prefix, history, str(nth)), "type": kind, **common, **members}

    match tool["type"]:
        case "custom":
            given = call.input.get("input")
            text = given if isinstance(given, str) else orjson.dumps(call.input).decode()
            return item("custom_tool_call", "ctc", {"input": text, "name": call.name, **space})
        case "local_shell":
            action = {"type": "exec", "env": {}, **call.input}
            return item("local_shell_call", "lsh", {"action": action})
        case "shell":
            return item("shell_call", "sh", {"action": dict(call.input)})
        case "apply_patch":
            return item("apply_patch_call", "apc", {"operation": dict(call.input)})
        case _:
            arguments = orjson.dumps(call.input).decode()
            return item("function_call", "fc", {"arguments": arguments, "name": call.name, **space})


def user_words(items: list[Json], history: str) -> list[Json]:
    """What the users said, as a compacted conversation keeps it [E100]."""
    return [
        {
            "id": derived_id("msg", history, str(at)),
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_text", "text": item["content"]}]
            if isinstance(item["content"], str)
            else item["content"],
        }
        for at, item in enumerate(items)
        if kind_of(item) == "message" and item["role"] == "user"
    ]
