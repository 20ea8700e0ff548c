"""What a wire format asks of a history, as data: stages act on these, never on a provider's name."""

from __future__ import annotations

from msgspec import Struct

from .conversation import Role


class Rules(Struct, frozen=True, kw_only=True):
    """One dialect's demands.

    `results_first`: results open the user's turn [A21]. `calls_last`: nothing but calls behind a call in the
    model's turn. `adjacent`: results stand in the message right behind their calls [A20]; else anywhere behind
    them, and a turn may be several messages [A201]. `call_id` is what ids of calls must match in full [A24].
    `blank_text`: whether text without a visible character is accepted as a block [A14]. `opens_with_user` [A11]. `system_follows_user`: a system message among the turns stands
    behind a user's turn and before an assistant's or the end [A60]. `marks`: breakpoints a request may
    carry [B3]. `system_marks`: one may stand in the system prompt [B104]. `result_role`: whose message a result of ours is. `results_apart`: messages of results hold nothing
    else and stand right behind the calls [A101 A105]. `unique_ids`: an id names one call in the whole request [A23];
    else one in its turn. `short_ids`: ids keep the model's limit for chat completions [A104]. `reasoning_placed`:
    reasoning stands where the model had it [A42]. `lost_reasoning`: what stands for reasoning that an upstream wants
    back and that is gone [A400 F9]; "" where nothing can. `call_marks`: a mark may stand on a call.
    `calls_follow_user`: a message with calls stands right behind a user's, so a run of the model's with a call in it
    is one message [A302]. `white_text`: of blank texts only an empty one is refused [A301]. `stripped_prefill`: a last
    turn of the model may not end in blanks [A12]. `stand_in`: the signature that a call no such model made goes with,
    "" where calls carry none [A304 A306].
    `thinking_words`: the member of a signed block that holds what was thought, "" where blocks are not signed.
    `reasoning_bound`: reasoning and the model's item behind it come together or not at all [A202].
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
    system_marks: bool = True
    result_role: Role = Role.USER
    results_apart: bool = False
    unique_ids: bool = True
    short_ids: bool = False
    reasoning_placed: bool = True
    lost_reasoning: bytes = b""
    call_marks: bool = True
    reasoning_bound: bool = False
    calls_follow_user: bool = False
    white_text: bool = False
    stripped_prefill: bool = True
    stand_in: str = ""
    thinking_words: str = ""

    def nothing(self, text: str) -> bool:
        """Whether this is a text of nothing: of no character at all, or of none that is seen."""
        return not (text if self.white_text else text.strip())

    def refuses(self, text: str) -> bool:
        """Whether a text part may not say this."""
        return not self.blank_text and self.nothing(text)
