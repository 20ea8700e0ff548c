"""What the Gemini API asks of contents: roles, parts, the order of function turns, signatures [A300-A305].

Checks stand in the order in which the API makes them; the first that fails answers.
"""

from __future__ import annotations

import re
from itertools import pairwise

import orjson

from ..refusal import refuse
from ..signature import seal, unseal
from .request import Request
from .schema import DATA, Json, check_schema
from .settings import GeminiSettings

SKIP = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Signatures that stand for calls no Gemini made [A306]."""

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_CALL_FIRST = "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
_RESPONSE_FIRST = "Please ensure that function response turn comes immediately after a function call turn."
_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of "
    "the function call turn."
)
_PARTS = (
    "Unable to submit request because it must include at least one parts field, which describes the prompt "
    "input. Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"
)
_TEXT = "Unable to submit request because it must have a text parameter."
_URL_SAFE = str.maketrans("-_", "+/")
_SIGNATURES = "https://ai.google.dev/gemini-api/docs/thought-signatures"


def check(request: Request) -> None:
    """Refuse what the API would refuse.

    Raises:
        Refusal: of the first check that fails.
    """
    # Counting asks for no answer, so not for a turn that can be answered either.
    for one in CHECKS[:2] if request.target.counts else CHECKS:
        one(request)


def calls(content: Json) -> list[Json]:
    """The function calls of a content."""
    return [part["functionCall"] for part in content.get("parts", ()) if "functionCall" in part]


def responses(content: Json) -> list[Json]:
    """The function responses of a content."""
    return [part["functionResponse"] for part in content.get("parts", ()) if "functionResponse" in part]


def is_model(content: Json) -> bool:
    return bool(content.get("role") == "model")


def tools(request: Request) -> None:
    """Refuse names of functions that are none, or stand twice."""
    names: set[str] = set()
    for at, tool in enumerate(request.body.get("tools", ())):
        for number, one in enumerate(tool.get("functionDeclarations", ())):
            where = f"tools[{at}].function_declarations[{number}]"
            name = one.get("name", "")
            if not _NAME.fullmatch(name):
                refuse(
                    f"* GenerateContentRequest.{where}.name: Invalid function name. Must start with a letter or an "
                    "underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or "
                    "dashes (-), with a maximum length of 128.\n"
                )
            if name in names:
                refuse(f"Duplicate function declaration found: {name}")
            names.add(name)
            if request.settings.strict_schemas:
                check_schema(one.get("parameters"), f"{where}.parameters")


def parts(request: Request) -> None:
    """Refuse contents without anything in them, and parts that say nothing."""
    if not request.contents:
        refuse("* GenerateContentRequest.contents: contents is not specified\n")
    for at, content in enumerate(request.contents):
        if content.get("role", "user") not in ("", "user", "model", "function"):
            refuse("Please use a valid role: user, model.")
        said = content.get("parts", ())
        if not said:
            refuse(_PARTS)
        for number, part in enumerate(said):
            _part(request, part, f"GenerateContentRequest.contents[{at}].parts[{number}]")


def _part(request: Request, part: Json, where: str) -> None:
    signed = "thoughtSignature" in part
    if not DATA & part.keys() and not signed:
        refuse(f"* {where}.data: required oneof field 'data' must have one initialized field\n")
    if request.settings.strict_text and part.get("text") == "" and not signed:
        refuse(_TEXT)
    for kind, field in (("functionCall", "function_call"), ("functionResponse", "function_response")):
        if kind in part and not part[kind].get("name"):
            refuse(f"* {where}.{field}.name: Name cannot be empty.\n")
    if "functionResponse" in part and "response" not in part["functionResponse"]:
        refuse(f"* {where}.function_response.response: Response cannot be empty.\n")


def order(request: Request) -> None:
    """Function turns are positional, and as many responses as calls stand in one content [A302 A303]."""
    contents = request.contents
    for at, content in enumerate(contents):
        before = contents[at - 1] if at else {}
        wanted = calls(before) if is_model(before) else []
        given = [] if is_model(content) else responses(content)
        if given and not wanted:
            refuse(_RESPONSE_FIRST)
        if len(given) != len(wanted):
            refuse(_COUNT)
        if is_model(content) and calls(content) and (not before or is_model(before)):
            refuse(_CALL_FIRST)
    if contents and is_model(contents[-1]) and calls(contents[-1]):
        refuse(_COUNT)


def ids(request: Request) -> None:
    """Where backends compare ids, a response names a call of the content before it, or one that has no id."""
    for before, content in pairwise(request.contents) if request.settings.strict_ids else ():
        named = [call.get("id", "") for call in calls(before)]
        for response in responses(content) if any(named) else ():
            if response.get("id", "") not in named:
                refuse(f"Function response id `{response.get('id', '')}` does not match any function call.")


def current_turn(contents: list[Json]) -> int:
    """Where the current turn begins: the last content in which the user says something [A304]."""
    for at in range(len(contents) - 1, -1, -1):
        parts = contents[at].get("parts", ())
        if not is_model(contents[at]) and any("functionResponse" not in part for part in parts):
            return at
    return 0


def signatures(request: Request) -> None:
    """In the current turn the first call of each step is signed, and what is signed is sound [A304 A305]."""
    if not request.model.checks_signatures:
        return
    vertex = request.settings.backend == "vertex"
    for at in range(current_turn(request.contents), len(request.contents)):
        content = request.contents[at]
        for part in content.get("parts", ()):
            if "thoughtSignature" in part and not _is_sound(part, request.settings):
                refuse("Invalid thought signature." if vertex else "Corrupted thought signature.")
        first = next((part for part in content.get("parts", ()) if "functionCall" in part), None)
        if is_model(content) and first is not None and "thoughtSignature" not in first:
            refuse(_unsigned(first["functionCall"]["name"], at + 1, vertex=vertex))


CHECKS = (tools, parts, order, ids, signatures)
"""All checks, in the order in which the API makes them."""


def _unsigned(name: str, position: int, *, vertex: bool) -> str:
    if vertex:
        return (
            f"Unable to submit request because function call `{name}` in the {position}. content block is missing a "
            f"`thought_signature`. Learn more: {_SIGNATURES}"
        )
    return (
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
        "correctly, and missing thought_signature may lead to degraded model performance. Additional data, function "
        f"call `default_api:{name}` , position {position}. Please refer to {_SIGNATURES} for more details."
    )


def sign(part: Json) -> str:
    """The signature of a part of an answer: bound to what a call says, to nothing else."""
    call = part.get("functionCall")
    said = {} if call is None else {"name": call["name"], "args": call.get("args", {})}
    return seal(orjson.dumps(said, option=orjson.OPT_SORT_KEYS), 64)


def _is_sound(part: Json, settings: GeminiSettings) -> bool:
    signature = part["thoughtSignature"]
    if signature in SKIP or settings.foreign_signatures == "accept":
        return True
    # Google's own SDK sends the bytes back in the alphabet for URLs, which JSON of protocol buffers takes as well.
    signature = signature.translate(_URL_SAFE)
    return unseal(signature) is not None and (not settings.bound_signatures or signature == sign(part))
