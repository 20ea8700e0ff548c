"""The model is asked for a summary: the request as it would leave, with a question in place of what is new in it.

All that the provider has cached stays as it was sent, so the question costs little more than reading it [B1]. Results of
calls stay, for calls need them [A20]; what a person says now, and what a harness says beside it, is not to be answered
yet. This stands where `compact` stands in the order, and in no request of a client's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..conversation import Image, Part, Reminder, Role, Text
from ..edits import Edit, PlaceMark, Remove, Replace, target_of
from .batch import tail
from .view import NOTHING, Proposal, Region, View

NAME = "compact"

# The model reads this. It stands at the end of a request that nobody goes on from: no cache depends on a word of it.
QUESTION = (
    "[Note, not written by the user: this conversation nears the end of what fits, and what you write now will stand in "
    "place of most of it. Do not go on with the work, and call no tool: answer in plain text, in at most 1000 words. Write "
    "down what you need to go on from here without the history: what was found out and decided, and why; what was done, and "
    "how it went; what was tried and failed; what is being worked on, and what comes next. Give names, paths, commands, "
    "numbers and error texts exactly as they are. Lists of what the user asked, of tasks, and of files read and changed are "
    "added without you.]"
)


def propose(view: View, config: object) -> Proposal:
    """The question in place of the newest words of a person, and nothing else beside it that was not sent before."""
    del config
    asked = [
        part
        for message in tail(view.conversation)
        if message.role is Role.USER
        for part in message.parts
        if isinstance(part, Text | Reminder | Image)
    ]
    said = [
        part
        for part in asked
        if isinstance(part, Text) and part.text.strip() and view.region(part) is Region.NEW
    ]
    return Proposal(edits=tuple(_edits(asked, said[-1]))) if said else NOTHING


def _edits(asked: Sequence[Part], last: Part) -> Iterator[Edit]:
    why = "the model is asked for a summary"
    target = target_of(last)
    words = Text(text=QUESTION, size=len(QUESTION.encode()))
    yield Replace(stage=NAME, reason=why, target=target, part=words)
    mark = next((part.mark for part in reversed(asked) if part.mark is not None), None)
    if (
        last.mark is None and mark is not None
    ):  # where the client marks its end, the cache is looked up from there
        yield PlaceMark(stage=NAME, reason=why, target=target, mark=mark)
    for part in asked:
        if part is not last:
            yield Remove(stage=NAME, reason=why, target=target_of(part), blanks=True)
