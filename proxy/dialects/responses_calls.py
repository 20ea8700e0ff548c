"""Calls, their outputs and the tools on offer, read and written back [A200 A201].

Every call and every output is an item of its own, and the item is the part's own bytes. There are several forms of
calls; what they have in common is a `call_id` that the output repeats. What a call was given is a string in some
forms and any JSON value in others; what an output says is a string, a list of content parts, or a form of its own.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from ..conversation import Mark, ToolCall, ToolDefinition, ToolResult
from ..rawjson import closed_array, closed_object, encoded, is_array, is_string, items, members
from .chat_marks import ABSENT, Pairs, marked_content, put, says_nothing
from .responses_content import MARK, MEDIA, result_content


class Form(Struct, frozen=True):
    """One form of call. `name` is the tool's where the item names none, `given` the first member there is of those
    that hold what it was called with, `output` the type of the item that answers it, `bound`: that answer has a form
    that no text can take, so it is left to those who made it."""

    output: str
    given: tuple[str, ...]
    name: str = ""
    bound: bool = False


FORMS = {
    "function_call": Form("function_call_output", ("arguments",)),
    "custom_tool_call": Form("custom_tool_call_output", ("input",)),
    # Codex answers its local shell with the output of a function: paired by `call_id`, as all others are.
    "local_shell_call": Form("function_call_output", ("action",), "local_shell"),
    "shell_call": Form("shell_call_output", ("action",), "shell"),
    "apply_patch_call": Form("apply_patch_call_output", ("operation",), "apply_patch"),
    "computer_call": Form("computer_call_output", ("actions", "action"), "computer", bound=True),
}
"""The forms of calls whose answers come from the client, by type of item."""

OUTPUTS = frozenset({*(form.output for form in FORMS.values()), "local_shell_call_output"})
"""Types of the items that answer them."""

_BOUND = frozenset(form.output for form in FORMS.values() if form.bound)


class Call(Struct):
    """The members of a call or an output that are read; all others stay in its bytes."""

    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    status: str | None = None
    arguments: Raw = ABSENT
    input: Raw = ABSENT
    action: Raw = ABSENT
    actions: Raw = ABSENT
    operation: Raw = ABSENT
    output: Raw = ABSENT


class _Tool(Struct):
    type: str = ""
    name: str | None = None
    server_label: str | None = None
    defer_loading: bool | None = None


class _Typed(Struct):
    type: str = ""
    text: str = ""


_call = msgspec.json.Decoder(Call)
_tool = msgspec.json.Decoder(_Tool)
_inner = msgspec.json.Decoder(list[_Typed])
_string = msgspec.json.Decoder(str)


# -- read ------------------------------------------------------------------------------------------------


def read_call(raw: Raw, kind: str) -> ToolCall:
    """A call of a known form. Raises ValidationError where a member is of another type than known."""
    call, form = _call.decode(raw), FORMS[kind]
    return ToolCall(
        raw=raw,
        size=len(raw),
        id=call.call_id or call.id or "",
        name=call.name or form.name,
        input=_argument_bytes(_given(call, form)),
        server=form.bound,
        kind=kind,
    )


def _given(call: Call, form: Form) -> Raw:
    values = (getattr(call, name) for name in form.given)
    return next((raw for raw in values if not says_nothing(raw)), ABSENT)


def _argument_bytes(raw: Raw) -> bytes:
    """What a call was given: what the string says, inner spelling and all; else the value."""
    if says_nothing(raw):
        return b""
    return _string.decode(raw).encode() if is_string(raw) else bytes(raw)


def read_result(raw: Raw, kind: str, call_id: str) -> ToolResult:
    """An output of a known form; `call_id` as found by who knows what stands before it."""
    read = _call.decode(raw)
    content, mark = result_content(read.output)
    return ToolResult(
        raw=raw,
        mark=mark,
        size=len(raw),
        call_id=call_id,
        content=content,
        is_error=kind == "apply_patch_call_output" and read.status == "failed",
        server=kind in _BOUND,
        images=1 if kind in _BOUND else _images(content),
    )


def answered_id(raw: Raw) -> tuple[str, str]:
    """The `call_id` of an output, and its `id`: one form names the call by that alone."""
    read = _call.decode(raw)
    return read.call_id or "", read.id or ""


def _images(content: bytes | None) -> int:
    if content is None or not is_array(content):
        return 0
    try:
        return sum(inner.type in MEDIA for inner in _inner.decode(content))
    except msgspec.ValidationError:
        return 0


def read_tool(raw: Raw) -> ToolDefinition:
    """An element of `tools`; a tool of the provider's own is named by its type, one of a server with its label."""
    tool = _tool.decode(raw)
    name = tool.name or (f"{tool.type} {tool.server_label}" if tool.server_label else tool.type)
    return ToolDefinition(raw=raw, size=len(raw), name=name, deferred=bool(tool.defer_loading))


# -- write -----------------------------------------------------------------------------------------------


def written_call(part: ToolCall) -> Raw | bytes:
    """The item of a call. One that no client made is a function call."""
    if part.raw is not None:
        return part.raw
    if part.base is None:
        return closed_object(
            (
                ("type", b'"function_call"'),
                ("call_id", encoded(part.id)),
                ("name", encoded(part.name)),
                ("arguments", encoded(part.input.decode())),
            )
        )
    pairs: Pairs = [*members(part.base)]
    named = dict(pairs)
    if "call_id" in named or part.id != _text(named.get("id", ABSENT)):
        put(pairs, "call_id", encoded(part.id))
    if "name" in named:
        put(pairs, "name", encoded(part.name))
    form = FORMS.get(_text(named.get("type", ABSENT)))
    for name in form.given if form is not None else ():
        old = named.get(name, ABSENT)
        if not says_nothing(old) or (len(old) and part.input):
            if _argument_bytes(Raw(bytes(old))) != part.input:
                put(pairs, name, encoded(part.input.decode()) if is_string(old) else part.input)
            break
    return closed_object(pairs)


def written_result(part: ToolResult) -> Raw | bytes:
    """The item of an output. One that no client made has the form that its call asks for."""
    if part.raw is not None:
        return part.raw
    if part.base is None:
        form = FORMS.get(part.kind)
        return closed_object(_new_output(form.output if form else "function_call_output", part))
    pairs: Pairs = [*members(part.base)]
    named = dict(pairs)
    kind = _text(named.get("type", ABSENT))
    if "call_id" in named:
        put(pairs, "call_id", encoded(part.call_id))
    old = named.get("output", ABSENT)
    content, mark = result_content(old)
    if content != part.content or mark != part.mark:
        value = part.content if content != part.content else bytes(old)
        put(pairs, "output", _output(kind, value or b'""', part.mark, bytes(old)))
    return closed_object(pairs)


def _new_output(kind: str, part: ToolResult) -> Pairs:
    pairs: Pairs = [("type", encoded(kind)), ("call_id", encoded(part.call_id))]
    if kind == "apply_patch_call_output":
        pairs.append(("status", b'"failed"' if part.is_error else b'"completed"'))
    pairs.append(("output", _output(kind, part.content or b'""', part.mark, b"")))
    return pairs


def _output(kind: str, content: bytes, mark: Mark | None, old: bytes) -> bytes:
    """What an output of this form says: in the form's own words where it has some."""
    match kind:
        case "function_call_output" | "custom_tool_call_output":
            return marked_content(content, mark, "input_text", (MARK,))
        case "shell_call_output" if is_string(content):
            failed = b'{"type":"exit","exit_code":1}'
            said = closed_object((("stdout", content), ("stderr", b'""'), ("outcome", failed)))
            return closed_array([said])
        case "apply_patch_call_output" | "local_shell_call_output" if is_array(content):
            return encoded("\n".join(block.text for block in _inner.decode(content)))
        case kind if kind in _BOUND and old:
            return old
        case _:
            return content


def _text(raw: Raw | bytes) -> str:
    return _string.decode(raw) if len(raw) and is_string(raw) else ""


def kind_of(raw: Raw | bytes) -> str:
    """The type of an item or a content part; "" where it has none."""
    return _text(dict(members(raw)).get("type", ABSENT))


def content_blocks(content: bytes) -> list[Raw]:
    """The content parts of an output, none where it is a string."""
    return items(content) if is_array(content) else []
