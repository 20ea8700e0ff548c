"""A Gemini request as scripts see one: the same script plays the model behind every wire format."""

from __future__ import annotations

from collections.abc import Iterator

from ..reply import Ask
from .request import Request
from .schema import Json


def asked(request: Request, digest: str) -> Ask:
    """What a script may know of a valid request, in the words scripts are written in."""
    tools = [
        {
            "name": one["name"],
            "input_schema": one.get("parametersJsonSchema") or one.get("parameters") or {"type": "object"},
        }
        for tool in request.body.get("tools", ())
        for one in tool.get("functionDeclarations", ())
    ]
    body: Json = {
        "tools": tools,
        "messages": [
            {
                "role": "assistant" if content.get("role") == "model" else "user",
                "content": [*_blocks(content)],
            }
            for content in request.contents
        ],
    }
    config = request.body.get("generationConfig", {})
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    if isinstance(schema, dict):
        body["output_format"] = {"type": "json_schema", "schema": _lowered(schema)}
    return Ask(body=body, tools=frozenset(tool["name"] for tool in tools), digest=digest)


def _blocks(content: Json) -> Iterator[Json]:
    for part in content.get("parts", ()):
        if part.get("text") and not part.get("thought"):
            yield {"type": "text", "text": part["text"]}
        elif "functionCall" in part:
            call = part["functionCall"]
            yield {
                "type": "tool_use",
                "id": call.get("id", ""),
                "name": call["name"],
                "input": call.get("args", {}),
            }
        elif "functionResponse" in part:
            response = part["functionResponse"]
            yield {
                "type": "tool_result",
                "tool_use_id": response.get("id", ""),
                "content": str(response.get("response")),
            }


def _lowered(schema: Json) -> Json:
    """A schema with the names of types in lower case, as JSON Schema has them."""
    made: Json = {}
    for name, value in schema.items():
        if name == "type" and isinstance(value, str):
            made[name] = value.lower()
        elif name == "properties" and isinstance(value, dict):
            made[name] = {key: _lowered(inner) for key, inner in value.items()}
        elif name == "items" and isinstance(value, dict):
            made[name] = _lowered(value)
        else:
            made[name] = value
    return made
