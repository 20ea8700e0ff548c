"""What a wire format asks of a history, as data: stages act on these, never on a provider's name."""

from __future__ import annotations

from msgspec import Struct


class Rules(Struct, frozen=True, kw_only=True):
    """One dialect's demands.

    `results_first`: results open the user's turn [A21]. `calls_last`: nothing but calls behind a call in the
    model's turn. `adjacent`: results stand in the message right behind their calls [A20]. `call_id` is what
    ids of calls must match in full [A24]. `blank_text`: whether text without a visible character is accepted
    as a block [A14]. `opens_with_user` [A11]. `system_follows_user`: a system message among the turns stands
    behind a user's turn and before an assistant's or the end [A60]. `marks`: breakpoints a request may
    carry [B3].
    """

    results_first: bool
    calls_last: bool
    adjacent: bool
    call_id: str
    call_id_max: int
    blank_text: bool
    opens_with_user: bool
    system_follows_user: bool
    marks: int
