"""All checks on one page, in the order the provider makes them; the first that fails answers."""

from . import binding, capability, content, marks, pairing, roles, schema, thinking
from .binding import Memory, Verdict
from .refusal import refuse
from .request import Request

CHECKS = (
    schema.check,
    capability.check_known,
    capability.check,
    roles.check,
    content.check_tools,
    pairing.check,
    marks.check_placement,
    content.check_empty,
    content.check_results,
    content.check_images,
    marks.check,
)


def validate(request: Request, memory: Memory) -> Verdict:
    """Check a request, up to and with its thinking.

    Raises:
        Refusal: of the first check that fails.
    """
    for check in CHECKS:
        check(request)
    thinking.check(request, memory)
    return binding.judge(request, memory)


def check_length(request: Request, tokens: int) -> None:
    """Refuse a prompt of so many tokens that does not fit the window [A9].

    Raises:
        Refusal: with the wording of the model's generation.
    """
    window, wanted = request.model.window, request.body.get("max_tokens") or 0
    if request.model.overflow_by_sum and tokens + wanted > window:
        refuse(
            f"input length and `max_tokens` exceed context limit: {tokens} + {wanted} > {window}, decrease input "
            "length or `max_tokens` and try again"
        )
    if tokens > window:
        refuse(f"prompt is too long: {tokens} tokens > {window} maximum")


def reports_transformations(request: Request) -> bool:
    """Whether the answer lists what was done to thinking blocks: only under the binding beta [A45]."""
    return request.has_beta(schema.BINDING)
