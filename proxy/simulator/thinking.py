"""Thinking blocks that come back: signed by this provider, whole, and where manual mode wants one."""

from .binding import Memory
from .bound import THINKING, signature_of
from .refusal import refuse
from .render import is_human
from .request import Json, Request, blocks, every_block
from .signature import unseal

_DOCS = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"


def check(request: Request, memory: Memory) -> None:
    """Refuse thinking the model cannot have made, or that came back changed [A41 A42 A43].

    A model that does not check signatures takes any non-empty one.

    Raises:
        Refusal: the missing leading block of manual mode, then signatures, then the latest run.
    """
    if request.manual:
        _leads(request)
    for i, j, _message, block in every_block(request.messages):
        if block.get("type") in THINKING and not _genuine(request, memory, block):
            refuse(f"messages.{i}.content.{j}: Invalid `signature` in `thinking` block")
    _latest_run(request, memory)


def _genuine(request: Request, memory: Memory, block: Json) -> bool:
    signature = signature_of(block)
    if not request.model.checks_signatures or request.settings.foreign_thinking == "adopt":
        return bool(signature)
    return memory.get(signature) is not None and unseal(signature) is not None


def _leads(request: Request) -> None:
    """In manual mode the turn that is still in tool use starts with thinking [A41]."""
    turn: list[tuple[int, Json]] = []
    for i, message in enumerate(request.messages):
        if is_human(message):
            turn = []
        elif message["role"] == "assistant" and blocks(message):
            turn.append((i, message))
    if not turn or not any(block.get("type") == "tool_use" for block in blocks(turn[-1][1])):
        return
    if any(blocks(message)[0].get("type") in THINKING for _, message in (turn[0], turn[-1])):
        return
    i, message = turn[-1]
    refuse(
        f"messages.{i}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
        f"`{blocks(message)[0].get('type')}`. When `thinking` is enabled, a final `assistant` message must start "
        "with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We "
        "recommend you include thinking blocks from previous turns. To avoid this requirement, disable "
        f"`thinking`. Please consult our documentation at {_DOCS}"
    )


def _latest_run(request: Request, memory: Memory) -> None:
    """Each run of thinking in the latest assistant message is one the model answered with [A42]."""
    if not request.model.checks_signatures or request.settings.foreign_thinking == "adopt":
        return
    latest = next(
        ((i, m) for i, m in reversed(list(enumerate(request.messages))) if m["role"] == "assistant"), None
    )
    if latest is None:
        return
    i, message = latest
    for start, run in _runs(blocks(message)):
        issued = memory.get(signature_of(run[0]))
        found = tuple(signature_of(block) for block in run)
        expected = issued.run if issued is not None else found
        whole = found == expected and not (request.settings.strict_thinking_text and _edited(run, memory))
        if not whole:
            at = next((k for k, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), 0)
            refuse(
                f"messages.{i}.content.{start + at}: `thinking` or `redacted_thinking` blocks in the latest "
                "assistant message cannot be modified. These blocks must remain as they were in the original "
                "response."
            )


def _runs(content: list[Json]) -> list[tuple[int, list[Json]]]:
    """Uninterrupted runs of thinking blocks with the index of their first."""
    runs: list[tuple[int, list[Json]]] = []
    before = False
    for j, block in enumerate(content):
        thinking = block.get("type") in THINKING
        if thinking and before:
            runs[-1][1].append(block)
        elif thinking:
            runs.append((j, [block]))
        before = thinking
    return runs


def _edited(run: list[Json], memory: Memory) -> bool:
    for block in run:
        issued = memory.get(signature_of(block))
        if issued is not None and block.get("type") == "thinking" and block["thinking"] != issued.text:
            return True
    return False
