"""The response object [C103]."""

from typing import Any

from ..reply import Reply
from .composing import thinks
from .facts import has_marks, reasoning_context, reasons
from .reading import Read

Json = dict[str, Any]

_INCOMPLETE = {"max_tokens": "max_output_tokens", "content_filter": "content_filter"}


def response_of(
    body: Json,
    read: Read,
    said: Reply,
    *,
    name: str,
    created: int,
    output: list[Json],
    usage: Json,
    diagnostics: Json | None,
) -> Json:
    """A finished response. What the request left open stands there as it was taken."""
    reason = _INCOMPLETE.get(said.reason)
    text, asked = body.get("text") or {}, body.get("reasoning") or {}
    made: Json = {
        "id": name,
        "object": "response",
        "created_at": created,
        "status": "incomplete" if reason else "completed",
        "background": False,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": body.get("max_tool_calls"),
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {"effort": asked.get("effort"), "summary": asked.get("summary")},
        "safety_identifier": body.get("safety_identifier"),
        "service_tier": "default",
        "store": body.get("store") is not False,
        "temperature": None if thinks(body) else body.get("temperature", 1.0),
        "text": {"format": {"type": "text"}, "verbosity": "medium"} | text,
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_logprobs": body.get("top_logprobs", 0),
        "top_p": None if thinks(body) else body.get("top_p", 1.0),
        "truncation": body.get("truncation") or "disabled",
        "usage": usage,
        "user": body.get("user"),
        "metadata": body.get("metadata") or {},
    }
    if reasons(body["model"]):
        made["reasoning"]["context"] = reasoning_context(body["model"], asked.get("context"))
    if read.withheld:
        made["input_transformations"] = [*read.withheld]
    if has_marks(body["model"]):
        made["prompt_cache_options"] = {"mode": "implicit", "ttl": "30m"} | (
            body.get("prompt_cache_options") or {}
        )
    if diagnostics is not None:
        made["prompt_cache_diagnostics"] = diagnostics
    return made
