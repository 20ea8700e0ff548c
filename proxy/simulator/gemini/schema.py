"""The shape of a Gemini request: which members there are and of which type; unknown names are refused [A301 A309].

Every member has two spellings. `canonical` checks a body and gives it back in camelCase, with lists where a list of
one stood bare, so that nothing behind it has to know of either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..refusal import Refusal, refuse

Json = dict[str, Any]
Shape = Callable[[Any, str], Any]
"""Takes a value and where it stands, refuses it or gives its canonical form."""


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def snake(name: str) -> str:
    """How refusals spell a member: paths name fields as the API defines them."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def _wrong(path: str, kind: str, value: Any) -> Refusal:
    shown = f'"{value}"' if isinstance(value, str) else value
    return Refusal(f"Invalid value at '{path}' ({kind}), {shown}")


def anything(value: Any, _path: str) -> Any:
    return value


def string(value: Any, path: str) -> Any:
    if not isinstance(value, str):
        raise _wrong(path, "TYPE_STRING", value)
    return value


def boolean(value: Any, path: str) -> Any:
    if not isinstance(value, bool):
        raise _wrong(path, "TYPE_BOOL", value)
    return value


def struct(value: Any, path: str) -> Any:
    """An object of the caller's own: arguments, a response [A309]."""
    if not isinstance(value, dict):
        raise _wrong(path, "type.googleapis.com/google.protobuf.Struct", value)
    return value


def listed(item: Shape) -> Shape:
    """A list; one value may stand for a list of one."""

    def check(value: Any, path: str) -> Any:
        values = value if isinstance(value, list) else [value]
        return [item(one, f"{path}[{at}]") for at, one in enumerate(values)]

    return check


def message(kind: str, table: Mapping[str, Shape], one_of: frozenset[str] = frozenset()) -> Shape:
    """An object with these members and no others, null as good as absent, and of `one_of` one at most."""

    def check(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(path, f"type.googleapis.com/google.ai.generativelanguage.v1beta.{kind}", value)
        made: Json = {}
        for name, inner in value.items():
            known = camel(name)
            if known not in table:
                at = f" at '{path}'" if path else ""
                refuse(f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.')
            if inner is None:
                continue
            if known in one_of and any(other in one_of for other in made):
                refuse(
                    f"Invalid value at '{path}' (oneof), oneof field 'data' is already set. Cannot set '{known}'"
                )
            made[known] = table[known](inner, f"{path}.{snake(known)}" if path else snake(known))
        return made

    return check


_BLOB = message("Blob", {"mimeType": string, "data": string, "displayName": string})
_FILE = message("FileData", {"mimeType": string, "fileUri": string, "displayName": string})
_CALL = message(
    "FunctionCall",
    {"id": string, "name": string, "args": struct, "partialArgs": anything, "willContinue": boolean},
)
_RESPONSE = message(
    "FunctionResponse",
    {
        "id": string,
        "name": string,
        "response": struct,
        "willContinue": boolean,
        "scheduling": string,
        "parts": listed(message("FunctionResponsePart", {"inlineData": _BLOB, "fileData": _FILE})),
    },
)
DATA = frozenset(
    {
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
    }
)
"""The members of a part that are what it says: exactly one."""

_PART = message(
    "Part",
    {
        "text": string,
        "inlineData": _BLOB,
        "fileData": _FILE,
        "functionCall": _CALL,
        "functionResponse": _RESPONSE,
        "executableCode": struct,
        "codeExecutionResult": struct,
        "toolCall": struct,
        "toolResponse": struct,
        "thought": boolean,
        "thoughtSignature": string,
        "videoMetadata": struct,
        "mediaResolution": anything,
        "partMetadata": struct,
    },
    DATA,
)
_CONTENT = message("Content", {"role": string, "parts": listed(_PART)})
_DECLARATION = message(
    "FunctionDeclaration",
    {
        "name": string,
        "description": string,
        "parameters": struct,
        "parametersJsonSchema": anything,
        "response": struct,
        "responseJsonSchema": anything,
        "behavior": string,
    },
)
_OTHER_TOOLS = (
    "googleSearch",
    "googleSearchRetrieval",
    "enterpriseWebSearch",
    "codeExecution",
    "urlContext",
    "googleMaps",
    "computerUse",
    "fileSearch",
    "retrieval",
    "mcpServers",
)
_TOOL = message(
    "Tool", {"functionDeclarations": listed(_DECLARATION)} | dict.fromkeys(_OTHER_TOOLS, anything)
)
_REQUEST: Mapping[str, Shape] = {
    "model": string,
    "contents": listed(_CONTENT),
    "systemInstruction": _CONTENT,
    "tools": listed(_TOOL),
    "toolConfig": struct,
    "safetySettings": listed(struct),
    "generationConfig": struct,
    "cachedContent": string,
    "labels": struct,
    "serviceTier": string,
    "store": boolean,
    "sessionId": string,
}
GENERATE = message("GenerateContentRequest", _REQUEST)
COUNT = message(
    "CountTokensRequest",
    {**_REQUEST, "generateContentRequest": message("GenerateContentRequest", _REQUEST)},
)

_SCHEMA_NAMES = frozenset(
    {
        *("type", "format", "title", "description", "nullable", "enum", "default", "example"),
        *("properties", "required", "minProperties", "maxProperties", "propertyOrdering"),
        *("items", "minItems", "maxItems", "anyOf"),
        *("minLength", "maxLength", "pattern", "minimum", "maximum"),
    }
)
"""What a schema in `parameters` may say: OpenAPI 3.0 as far as the API has it [A309]."""


def check_schema(schema: Any, path: str) -> None:
    """Refuse what a strict backend has no name for, at any depth.

    Raises:
        Refusal: of the first unknown name.
    """
    if not isinstance(schema, dict):
        return
    for name, inner in schema.items():
        if camel(name) not in _SCHEMA_NAMES:
            refuse(f"Invalid JSON payload received. Unknown name \"{name}\" at '{path}': Cannot find field.")
        match camel(name), inner:
            case "properties", dict():
                for at, (_, value) in enumerate(inner.items()):
                    check_schema(value, f"{path}.properties[{at}].value")
            case "items", _:
                check_schema(inner, f"{path}.items")
            case "anyOf", list():
                for at, value in enumerate(inner):
                    check_schema(value, f"{path}.any_of[{at}]")
            case _:
                pass
