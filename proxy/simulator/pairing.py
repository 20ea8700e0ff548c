"""Every call has its result where it must stand, and every result its call."""

from .blocks import SERVER_CALLS, SERVER_RESULTS
from .refusal import refuse
from .request import Json, Request, blocks

_THOUGHTS = ("text", "thinking", "redacted_thinking")


def check(request: Request) -> None:
    """Refuse unpaired client and server tool blocks, on the array as sent [A20-A23 A30-A32].

    Raises:
        Refusal: for each message in turn: repeated ids, results without a call, calls without
            their result; then server tools.
    """
    messages = request.messages
    seen: set[str] = set()
    for i, message in enumerate(messages):
        if message["role"] == "assistant":
            _unique(message, i, seen)
            _answered(messages, i)
        elif message["role"] == "user":
            _called(messages, i)
    _server(request)


def _ids(message: Json, kind: str, key: str) -> list[str]:
    return [block[key] for block in blocks(message) if block.get("type") == kind]


def _unique(message: Json, i: int, seen: set[str]) -> None:
    for j, block in enumerate(blocks(message)):
        if block.get("type") == "tool_use":
            if block["id"] in seen:
                refuse(f"messages.{i}.content.{j}: `tool_use` ids must be unique")
            seen.add(block["id"])


def _answered(messages: list[Json], i: int) -> None:
    """All calls of message `i` have a result at the head of the next message [A20 A21]."""
    calls = _ids(messages[i], "tool_use", "id")
    if not calls:
        return
    after = messages[i + 1] if i + 1 < len(messages) else None
    where = i + 1 if after is not None and after["role"] == "user" else i
    missing = calls
    if after is not None and after["role"] == "user" and not _talks_behind_calls(messages[i]):
        leading = set()
        for block in blocks(after):
            if block.get("type") != "tool_result":
                break
            leading.add(block["tool_use_id"])
        missing = [call for call in calls if call not in leading]
    if missing:
        refuse(
            f"messages.{where}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in "
            "the next message."
        )


def _talks_behind_calls(message: Json) -> bool:
    """Text or thinking behind a client call: the call no longer ends the turn, its results come too late."""
    called = False
    for block in blocks(message):
        kind = block.get("type")
        if kind == "tool_use":
            called = True
        elif kind in SERVER_CALLS or kind in SERVER_RESULTS:
            called = False
        elif called and kind in _THOUGHTS:
            return True
    return False


def _called(messages: list[Json], i: int) -> None:
    """Each result in user message `i` answers one call of the message before it, once [A22 A23]."""
    before = messages[i - 1] if i else None
    calls = (
        set(_ids(before, "tool_use", "id")) if before is not None and before["role"] == "assistant" else set()
    )
    answered: set[str] = set()
    for j, block in enumerate(blocks(messages[i])):
        if block.get("type") != "tool_result":
            continue
        call = block["tool_use_id"]
        if call in answered:
            refuse(
                f"messages.{i}.content.{j}: each tool_use must have a single result. Found multiple "
                f"`tool_result` blocks with id: {call}"
            )
        if call not in calls:
            refuse(
                f"messages.{i}.content.{j}: unexpected `tool_use_id` found in `tool_result` blocks: {call}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        answered.add(call)


def _server(request: Request) -> None:
    """Server calls and results pair by id inside assistant content [A30 A32]."""
    open_calls: dict[str, tuple[int, str]] = {}
    known: set[str] = set()
    for i, message in enumerate(request.messages):
        if message["role"] != "assistant":
            continue
        for j, block in enumerate(blocks(message)):
            kind = block.get("type")
            if kind in SERVER_CALLS:
                known.add(block["id"])
                open_calls[block["id"]] = (i, block["name"])
            elif kind in SERVER_RESULTS:
                call = block["tool_use_id"]
                if call not in known:
                    refuse(
                        f"messages.{i}.content.{j}: unexpected `tool_use_id` found in `{kind}` blocks: {call}. "
                        f"Each `{kind}` block must have a corresponding `server_tool_use` block before it."
                    )
                open_calls.pop(call, None)
    for call, (i, name) in open_calls.items():
        if not _still_running(request.messages, i):
            refuse(_unresolved(request, call, i, name))


def _still_running(messages: list[Json], i: int) -> bool:
    """Whether the server may still answer: the turn was paused, or waits for client results only [A31 A33]."""
    rest = [message for message in messages[i + 1 :] if message["role"] != "system"]
    if any(message["role"] == "assistant" for message in rest):
        return False
    return all(block.get("type") == "tool_result" for message in rest for block in blocks(message))


def _unresolved(request: Request, call: str, i: int, name: str) -> str:
    text = (
        f"messages.{i}: `{name}` tool use with id `{call}` was found without a corresponding "
        f"`{name}_tool_result` block"
    )
    if not any(tool.get("name") == name for tool in request.body.get("tools") or []):
        text += f", but no `{name}` tool was provided"
    return text
