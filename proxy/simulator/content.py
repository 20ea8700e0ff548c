"""Content that is there but empty, or too much of it: text, tools, images."""

import base64
import binascii

from . import tokens
from .blocks import SERVER_RESULTS
from .refusal import Refusal, refuse
from .request import Json, Request, blocks, every_block, nested

MANY = 20
_EMPTY = "messages: text content blocks must be non-empty"
_BLANK = "messages: text content blocks must contain non-whitespace text"


def check_tools(request: Request) -> None:
    """Refuse tool lists that name a tool twice or defer everything [A25 A29].

    Raises:
        Refusal: duplicate names, all deferred, or a reference to a tool that is not there.
    """
    tools = request.body.get("tools") or []
    names = [tool["name"] for tool in tools if "name" in tool]
    if len(set(names)) < len(names):
        refuse("tools: Tool names must be unique.")
    if tools and all(tool.get("defer_loading") for tool in tools):
        refuse("At least one tool must have defer_loading=false. All tools cannot be deferred.")
    known = set(names)
    for _i, _j, _message, block in every_block(request.messages):
        inner = [*nested(block)] if block.get("type") == "tool_result" else []
        for item in inner:
            if item.get("type") == "tool_reference" and item["tool_name"] not in known:
                refuse(f"Tool reference '{item['tool_name']}' not found in available tools")


def check_empty(request: Request) -> None:
    """Refuse empty system blocks, messages and texts [A8 A13 A14].

    By default the forms a live probe found accepted pass; `Settings.strict_empty` refuses them.

    Raises:
        Refusal: the first empty thing.
    """
    system = request.body.get("system")
    for block in system if isinstance(system, list) else []:
        if not block["text"]:
            refuse("system: text content blocks must be non-empty")
    messages = request.messages
    strict = request.settings.strict_empty
    for i, message in enumerate(messages):
        if message["role"] == "system":
            continue
        final = i == len(messages) - 1 and message["role"] == "assistant"
        if not message["content"] and not final and (strict or message["role"] == "user"):
            refuse(
                f"messages.{i}: all messages must have non-empty content except for the optional final "
                "assistant message"
            )
        _texts(message, strict=strict)


def _texts(message: Json, *, strict: bool) -> None:
    content = blocks(message) if message["content"] else []
    texts = [block["text"] for block in content if block.get("type") == "text"]
    texts_inside = [
        item["text"]
        for block in content
        if block.get("type") == "tool_result"
        for item in nested(block)
        if item.get("type") == "text"
    ]
    if "" in texts or "" in texts_inside:
        refuse(_EMPTY)
    blank = [text for text in texts if not text.strip()]
    if blank and (strict or len(blank) == len(content)):
        refuse(_BLANK)


def check_results(request: Request) -> None:
    """A failed result holds text only [A26].

    Raises:
        Refusal: an image or document in a result with `is_error`.
    """
    for i, j, _message, block in every_block(request.messages):
        if block.get("type") == "tool_result" and block.get("is_error"):
            if any(item.get("type") != "text" for item in nested(block)):
                refuse(
                    f"messages.{i}.content.{j}.tool_result: all content must be type `text` if `is_error` is true"
                )
        elif block.get("type") in SERVER_RESULTS and block.get("content") is None:
            refuse(f"messages.{i}.content.{j}.{block['type']}.content: Field required")


def images(messages: list[Json]) -> list[tuple[str, Json]]:
    """All images with their paths, those inside tool results too."""
    found = []
    for i, j, _message, block in every_block(messages):
        if block.get("type") == "image":
            found.append((f"messages.{i}.content.{j}.image", block["source"]))
        elif block.get("type") == "tool_result":
            found += [
                (f"messages.{i}.content.{j}.tool_result.content.{k}.image", item["source"])
                for k, item in enumerate(nested(block))
                if item.get("type") == "image"
            ]
    return found


def check_images(request: Request) -> None:
    """Refuse images that are too many, too big, too wide or not what they say [A37].

    Raises:
        Refusal: the count, then image by image bytes, type and dimensions.
    """
    found = images(request.messages)
    if len(found) > request.model.max_images:
        refuse(f"messages: Too many images: {len(found)} > {request.model.max_images}")
    many = len(found) > MANY
    side, rule = (2000, " for many-image requests") if many else (8000, "")
    wide = []
    for path, source in found:
        if source["type"] != "base64":
            continue
        _bytes(request, path, source)
        if max(tokens.dimensions(tokens.decoded(source))) > side:
            wide.append(path)
    if wide:
        raise Refusal(
            f"{wide[0]}.source.base64.data: At least one of the image dimensions exceed max allowed size{rule}: "
            f"{side} pixels",
            details={
                "error_code": "image_dimensions_too_large",
                "max_side_length_pixels": side,
                "paths": wide,
            },
        )


def _bytes(request: Request, path: str, source: Json) -> None:
    data, limit = source["data"], request.settings.max_image_bytes
    if len(data) > limit:
        refuse(
            f"{path}.source.base64: image exceeds {limit // 1024**2} MB maximum: {len(data)} bytes > {limit} bytes"
        )
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        refuse(f"{path}.source.base64.data: Invalid base64 data")
    shown = tokens.media_type(tokens.decoded(source))
    if shown is None or not min(tokens.dimensions(tokens.decoded(source))):
        refuse(f"{path}.source.base64.data: Could not process image")
    if shown != source["media_type"]:
        refuse(
            f"{path}.source.base64.data: Image does not match the provided media type {source['media_type']}"
        )
