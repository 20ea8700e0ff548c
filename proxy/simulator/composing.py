"""From what a script says to the blocks on the wire: derived ids, and thinking that is signed."""

import orjson

from . import tokens
from .binding import Issued, Memory
from .bound import Trail
from .reply import Block, Call, Say, Think, derived_id
from .request import Json, Request
from .signature import seal, unseal


def compose(
    request: Request, said: tuple[Block, ...], memory: Memory, history: str, number: int
) -> tuple[Json, ...]:
    """The content of an answer; each thinking block is remembered with all that stands before it.

    `history` identifies the prompt: call ids depend on it and on nothing else. `number` tells two
    answers to the same prompt apart, so that no signature is issued twice.
    """
    signatures = {
        j: seal(f"{history}/{j}/{number}".encode(), max(1, tokens.of_text(block.text, request.model)))
        for j, block in enumerate(said)
        if isinstance(block, Think)
    }
    trail = Trail(request.body)
    for index, message in enumerate(request.messages if signatures else ()):
        trail.pass_message(message, index)
    content: list[Json] = []
    for j, block in enumerate(said):
        made = _wire(block, request, derived_id("toolu", history, str(j)), signatures.get(j, ""))
        if isinstance(block, Think):
            run = _run(j, signatures)
            issued = Issued(request.model.name, request.organization, trail.here(), run, made["thinking"])
            memory.remember(signatures[j], issued)
        trail.pass_by(made, "assistant", f"messages.{len(request.messages)}.content.{j}")
        content.append(made)
    return tuple(content)


def _wire(block: Block, request: Request, call_id: str, signature: str) -> Json:
    match block:
        case Say(text):
            return {"type": "text", "text": text}
        case Call(name, arguments, given):
            return {"type": "tool_use", "id": given or call_id, "name": name, "input": arguments}
        case Think(text):
            shown = "" if request.thinking.get("display") == "omitted" else text
            return {"type": "thinking", "thinking": shown, "signature": signature}


def _run(j: int, signatures: dict[int, str]) -> tuple[str, ...]:
    """The signatures of the uninterrupted run of thinking that block `j` is in [A42]."""
    first = last = j
    while first - 1 in signatures:
        first -= 1
    while last + 1 in signatures:
        last += 1
    return tuple(signatures[k] for k in range(first, last + 1))


def weigh(content: tuple[Json, ...], request: Request) -> int:
    """Output tokens of an answer; thinking counts by what was thought, shown or not [C2]."""
    return sum(_weight(block, request) for block in content)


def _weight(block: Json, request: Request) -> int:
    if block["type"] == "thinking" and (sealed := unseal(block["signature"])) is not None:
        return sealed.tokens
    return tokens.of_bytes(len(orjson.dumps(block)), request.model)
