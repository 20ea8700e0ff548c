"""What the model asked for cannot do, and says so before it looks at the conversation."""

from .refusal import Refusal, refuse
from .request import Request, every_block

_ADAPTIVE_HINT = (
    'is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control '
    "thinking behavior."
)
_MANUAL_HINT = (
    'is not supported for this model. Use "thinking.type.enabled" with "budget_tokens" for extended thinking.'
)
_SAMPLING = ("temperature", "top_p", "top_k")


def check_known(request: Request) -> None:
    """404 for a name outside the catalogue, where only known models are served."""
    if request.settings.known_models_only and not request.model.known:
        raise Refusal(f"model: {request.body['model']}", 404)


def check(request: Request) -> None:
    """Refuse parameters this model does not take [A5 A6 A28 A40 B30].

    Raises:
        Refusal: in the order output cap, sampling, forced tools, thinking, pre-warm.
    """
    _output(request)
    _sampling(request)
    _choice(request)
    _thinking(request)
    _prewarm(request)
    _editing(request)


def _output(request: Request) -> None:
    asked, cap = request.body.get("max_tokens"), request.model.max_output
    if asked is not None and asked > cap:
        refuse(
            f"max_tokens: {asked} > {cap}, which is the maximum allowed number of output tokens for "
            f"{request.body['model']}"
        )


def _sampling(request: Request) -> None:
    given = {key: request.body[key] for key in _SAMPLING if request.body.get(key) is not None}
    if request.model.sampling == "default_only":
        if given.get("temperature", 1) != 1:
            refuse("`temperature` may only be set to 1 for this model.")
        if given.get("top_p", 1) < 0.99:
            refuse("`top_p` must be greater than or equal to 0.99 for this model.")
        if "top_k" in given:
            refuse("`top_k` is not supported for this model.")
    elif request.thinking.get("type") in ("enabled", "adaptive"):
        if given.get("temperature", 1) != 1:
            refuse(
                "`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation "
                "at https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
                "#important-considerations-when-using-extended-thinking"
            )
        if "top_k" in given:
            refuse("`top_k` must be unset when thinking is enabled.")
        if not 0.95 <= given.get("top_p", 1) <= 1:
            refuse("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.")


def _choice(request: Request) -> None:
    choice = (request.body.get("tool_choice") or {}).get("type")
    if choice not in ("any", "tool"):
        return
    if not request.model.forced_tools:
        refuse('tool_choice: type "tool" and "any" are not supported for this model.')
    if request.manual:
        refuse("Thinking may not be enabled when tool_choice forces tool use.")
    name = request.body["tool_choice"].get("name")
    if choice == "tool" and name not in {tool.get("name") for tool in request.body.get("tools") or []}:
        refuse(f"tool_choice: Tool '{name}' not found in provided tools")


def _thinking(request: Request) -> None:
    model, thinking = request.model, request.thinking
    effort = (request.body.get("output_config") or {}).get("effort")
    match thinking.get("type"):
        case "enabled" if not model.enabled:
            refuse(f'"thinking.type.enabled" {_ADAPTIVE_HINT}')
        case "adaptive" if not model.adaptive:
            refuse("adaptive thinking is not supported on this model")
        case "disabled" if model.disabled == "no":
            hint = _MANUAL_HINT if model.enabled else _ADAPTIVE_HINT
            refuse(f'"thinking.type.disabled" {hint}')
        case "disabled" if model.disabled == "up_to_high" and effort in ("xhigh", "max"):
            refuse(f'"thinking.type.disabled" {_ADAPTIVE_HINT}')
        case "between_tools" if not model.between_tools:
            refuse(f'"thinking.type.between_tools" {_ADAPTIVE_HINT}')
        case "enabled":
            cap = request.body.get("max_tokens")
            if cap is not None and thinking["budget_tokens"] >= cap:
                refuse(
                    "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our "
                    "documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
                    "#max-tokens-and-context-window-size"
                )
        case _:
            pass


def _prewarm(request: Request) -> None:
    """A request for no output warms the cache and nothing else [B30]."""
    if request.body.get("max_tokens") != 0:
        return
    if request.body.get("stream"):
        refuse("max_tokens: 0 is not supported with `stream`")
    if request.manual:
        refuse("max_tokens: 0 is not supported with thinking enabled")
    if (request.body.get("output_config") or {}).get("format"):
        refuse("max_tokens: 0 is not supported with `output_config.format`")
    if (request.body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        refuse('max_tokens: 0 is not supported with tool_choice type "tool" or "any"')


def _editing(request: Request) -> None:
    """Strategies of context editing, and compaction blocks that need one [E1 E3 E4]."""
    if request.body.get("compaction") is not None:
        # Summaries on demand are not made here; this is what an overloaded provider says.
        raise Refusal("Compaction is temporarily unavailable.", 529, {"error_code": "compaction_unavailable"})
    edits = (request.body.get("context_management") or {}).get("edits") or []
    for index, edit in enumerate(edits):
        if edit["type"] == "clear_thinking_20251015":
            if index:
                refuse(
                    "context_management: `clear_thinking_20251015` must be the first strategy in "
                    "`context_management.edits` when provided"
                )
            if not request.thinks:
                refuse("`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive")
        if edit["type"] == "compact_20260112":
            trigger = edit.get("trigger") or {}
            if trigger.get("value", 150_000) < 50_000:
                refuse(
                    f"context_management.edits.{index}.compact_20260112: trigger.value must be at least 50000"
                )
    kinds = {edit["type"] for edit in edits}
    for _i, _j, _message, block in every_block(request.messages):
        unsigned = block.get("type") == "compaction" and not block.get("signature")
        if unsigned and "compact_20260112" not in kinds:
            refuse("`compaction` blocks require a `compact_20260112` strategy in `context_management.edits`.")
