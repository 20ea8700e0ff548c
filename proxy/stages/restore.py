"""What the model gave so that it comes back, and a client lost on the way, is put back [F4 F9].

Models sign what they think and the calls that it leads to. Clients lose that: some never keep it, one replaces it by
a stand-in when a session is resumed. Then the provider refuses the request, or reads a history that it has not
cached, and the model has forgotten what it thought. The answer was seen in passing: what came with it is remembered until it
comes back with the next request, and put back where it is missing, to that very part: the same place in the same
history, with the same words or the same tool. What a call was signed with when it was first sent stays with it, also
where the history comes back otherwise, as after a resume, and the call is known by its id and its arguments.

    a call without its signature, or with a stand-in     its signature [A304 A305]
    thinking without its signature, word for word        its signature [A43]
    reasoning that is an id alone, where nothing is kept its encrypted content [A204 A205]
    reasoning that an upstream wants back, and is gone   its words [A400 A410]

A signature is opaque, and bound to what stands before it: nothing is made up, and nowhere else it would be accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw, Struct

from ..answer import Signed, words_digest
from ..branch import SHORT
from ..conversation import Message, Part, Reasoning, Role, ToolCall
from ..edits import Edit, InsertBefore, Sign, target_of
from ..errors import BodyError
from ..identity import digest
from ..rawjson import closed_object, encoded, members
from .reasoning import wanted
from .view import Proposal, View, causal, weight

NAME = "restore"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`signatures`: signatures and encrypted content. `words`: reasoning itself, where an upstream demands it."""

    signatures: bool = True
    words: bool = True


def propose(view: View, config: Config) -> Proposal:
    """Put back what was lost, and remember what calls are signed with."""
    answer = _answer(view)
    given = view.place.branch.signed if view.place.branch is not None else ()
    edits: list[Edit] = []
    if config.signatures:
        edits += _first_signatures(view)
        edits += _known_again(view)
        edits += _signatures(view, answer, given)
    if config.words:
        edits += _words(view, answer, given)
    return causal(NAME, edits)


def _answer(view: View) -> Sequence[Message]:
    """The answer to the last request of this branch, as the client sends it back; none where this is not the next one."""
    branch = view.place.branch
    if branch is None or not branch.signed or view.place.common * SHORT != len(branch.keys):
        return ()
    found: list[Message] = []
    for message in view.conversation.messages[view.start :]:
        if message.role is not Role.ASSISTANT or not any(view.region(part) for part in message.parts):
            if found or any(view.region(part) and not part.nth for part in message.parts):
                break
            continue
        found.append(message)
    return found


def _first_signatures(view: View) -> Iterator[Sign]:
    """A client that signs a call otherwise later on gets this one back: it is what the provider has cached."""
    stand_in = view.rules.stand_in
    for _, part, _ in view.fresh():
        if stand_in and isinstance(part, ToolCall) and part.signature not in ("", stand_in):
            yield _sign(part, part.signature, "a call signed as first sent [A305]")


def _known_again(view: View) -> Iterator[Sign]:
    """Calls of a history that came back otherwise: Gemini CLI resumes with every response twice [A303].

    Nothing stands before them then as it stood. Their ids and what they say tell which calls they are.
    """
    branch, stand_in = view.place.branch, view.rules.stand_in
    if not stand_in or branch is None or not view.place.broke:
        return
    unsigned = [
        part for _, part, _ in view.fresh() if isinstance(part, ToolCall) and part.signature in ("", stand_in)
    ]
    if not unsigned:
        return
    known: dict[str, set[str]] = {}
    for promise in (one for group in branch.promises.values() for one in group if one.stage == NAME):
        for edit in promise.edits:
            if isinstance(edit, Sign) and edit.of:
                known.setdefault(edit.of, set()).add(edit.signature)
    for part in unsigned:
        found = known.get(_says(part), set())
        if len(found) == 1:  # of two calls that say the same nobody knows which one this is
            yield _sign(part, found.pop(), "the signature of this very call [A305 F4]")


def _says(part: Part) -> str:
    """What a call says, by name; "" for what is none."""
    if not isinstance(part, ToolCall):
        return ""
    return digest(
        part.id.encode("utf-8", "surrogatepass"), part.name.encode("utf-8", "surrogatepass"), part.input
    ).hex()


def _signatures(view: View, answer: Sequence[Message], given: Sequence[Signed]) -> Iterator[Sign]:
    """Signatures of the newest answer that are missing."""
    known: dict[tuple[str, int, str], str] = {
        (one.kind, one.place if one.kind == "call" else 0, one.name): one.value for one in given
    }
    calls = 0
    for part in (part for message in answer for part in message.parts):
        if isinstance(part, ToolCall) and not part.server:
            value = known.get(("call", calls, part.name), "")
            calls += 1
            if view.rules.stand_in and value and part.signature in ("", view.rules.stand_in):
                refused = view.facts.model.signed_calls and not part.signature
                yield _sign(part, value, "the signature that the call came with [A304 F4]", required=refused)
        elif isinstance(part, Reasoning) and not part.signature:
            kind, name = _named(part, view.rules.thinking_words)
            if value := known.get((kind, 0, name), ""):
                yield _sign(
                    part, value, "the signature that the thinking came with [A43 A205]", required=True
                )


def _named(part: Reasoning, words: str) -> tuple[str, str]:
    """What the answer knew this thinking as: by its id, or by its words."""
    raw = part.raw or part.base
    name = "id" if part.named else words
    if raw is None or not name:
        return "", ""
    try:
        said = next((_string.decode(value) for key, value in members(raw) if key == name), "")
    except (BodyError, msgspec.MsgspecError, UnicodeDecodeError):
        return "", ""
    return ("item", said) if part.named else ("thinking", words_digest(said))


_string = msgspec.json.Decoder(str)


def _sign(part: Part, signature: str, reason: str, *, required: bool = False) -> Sign:
    return Sign(
        stage=NAME,
        reason=reason,
        target=target_of(part),
        signature=signature,
        of=_says(part),
        required=required,
        tokens_before=weight(part),
        tokens_after=weight(part),
    )


def _words(view: View, answer: Sequence[Message], given: Sequence[Signed]) -> Iterator[InsertBefore]:
    """What was thought in the newest answer, in front of it."""
    thought = next((one.value for one in given if one.kind == "words"), "")
    first = next((message for message in answer if message.parts), None)
    if not thought or first is None or not wanted(view, first):
        return
    member = members(view.rules.lost_reasoning)[0][0]
    raw = closed_object(((member, encoded(thought)),))
    yield InsertBefore(
        stage=NAME,
        reason="reasoning the upstream wants back, as it came [A400 F9]",
        target=target_of(first.parts[0]),
        part=Reasoning(raw=Raw(raw), signature="", size=len(raw)),
        required=True,
        tokens_after=len(raw) // 4,
    )
