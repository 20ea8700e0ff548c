"""Long histories, in which nearly everything is taken over from the request before."""

from __future__ import annotations

import copy
from random import Random

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.ledger import Ledger
from proxy.usage import Usage
from tests.laws.driver import Driver, Forgetful, World, once
from tests.laws.sessions import EAGER

Turn = dict[str, object]
MARK = {"type": "ephemeral"}
TOOLS = [
    {"name": name, "description": f"To {name}.", "input_schema": {"type": "object"}}
    for name in ("read", "run")
]


class Talk:
    """A client's long conversation, and what it does to it between two requests."""

    def __init__(self, seed: int, length: int) -> None:
        self.random = Random(seed)  # noqa: S311  no secret
        self.turns: list[Turn] = [self._user("Mend the pump.")]
        self.calls = 0
        self.date = 1
        while len(self.turns) < length:
            self.on()

    def _user(self, words: str) -> Turn:
        return {"role": "user", "content": [{"type": "text", "text": words}]}

    def on(self) -> None:
        """An answer, and the results of its calls."""
        rng = self.random
        say: list[Turn] = [{"type": "text", "text": rng.choice(["Look.", "Now the other one.", "né 🙂"])}]
        results: list[Turn] = []
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            self.calls += 1
            name, call = rng.choice(["read", "run"]), f"toolu_{self.calls}"
            say.append(
                {
                    "type": "tool_use",
                    "id": call,
                    "name": name,
                    "input": {"path": f"{call[-1]}.py", "limit": 9},
                }
            )
            content = rng.choice(["ok", "x" * 700, "unchanged", [{"type": "text", "text": "y" * 900}]])
            results.append({"type": "tool_result", "tool_use_id": call, "content": content})
        if rng.random() < 0.2:
            results.append(
                {"type": "text", "text": "<system-reminder>\nToday's date: 2026-11-30\n</system-reminder>"}
            )
        if rng.random() < 0.05:
            results.append({"type": "text", "text": " "})
        self.turns += [
            {"role": "assistant", "content": say},
            {"role": "user", "content": results or "Go on."},
        ]

    def change(self, kind: str) -> None:
        """What happens before the next request."""
        turns, rng = self.turns, self.random
        match kind:
            case "rewind":
                del turns[max(1, len(turns) - rng.randrange(1, 200)) :]
                turns += [self._user("Otherwise.")] if turns[-1]["role"] == "assistant" else []
            case "change":
                at = rng.randrange(0, len(turns), 2)
                turns[at] = {**turns[at], "content": [{"type": "text", "text": "Changed."}]}
            case "respell":
                turns[-1] = dict(reversed(turns[-1].items()))
            case "drop":
                del turns[rng.randrange(len(turns))]
            case "date":
                self.date += 1
            case _:
                pass
        for _ in range(rng.choice([0, 1, 1, 1, 20])):
            self.on()

    def body(self, *, tools_first: bool, spaced: bool) -> bytes:
        """The request, marked at its end."""
        turns = copy.deepcopy(self.turns)
        last = turns[-1]["content"]
        if isinstance(last, list) and self.random.random() < 0.9:
            last[-1]["cache_control"] = MARK
        system = [
            {"type": "text", "text": f"Rules.\nToday's date: 2026-12-{self.date:02d}\n" + "Rule. " * 300}
        ]
        front = {"system": system, "tools": TOOLS[:: self.random.choice([1, 1, -1])], "max_tokens": 9}
        model = {"model": "claude-sonnet-4-6"}
        members = (
            {**model, **front, "messages": turns} if tools_first else {**model, "messages": turns, **front}
        )
        body = orjson.dumps(members)
        return body.replace(b',{"role"', b', {"role"') if spaced else body


@settings(max_examples=25)
@given(
    st.integers(0, 2**32),
    st.integers(1, 400),
    st.lists(
        st.sampled_from(["", "", "rewind", "change", "respell", "drop", "date"]), min_size=1, max_size=6
    ),
    st.sampled_from(["careful", "default", EAGER]),
    st.booleans(),
    st.integers(0, 3),
)
def test_a_long_history_is_rewritten_as_if_nothing_were_remembered(
    seed: int, length: int, changes: list[str], policy: str, tools_first: bool, spaced: int
) -> None:
    """Forks, rewinds, changes in its middle, another spelling: the same bytes, edits and promises."""
    world = World(policy=policy, model="claude-sonnet-4-6", agent="claude-code")
    driver, talk = Driver(world), Talk(seed, length)
    ledgers = (Ledger(), Forgetful())
    for number, kind in enumerate(["", *changes]):
        talk.change(kind)
        body = talk.body(tools_first=tools_first, spaced=not spaced)
        facts = driver.facts(20.0 * number, "", "claude-sonnet-4-6")
        found = []
        for ledger in ledgers:
            made, ticket = once(ledger, world, body, facts)
            assert made is not None
            assert ticket is not None
            used = Usage(prompt=len(made.body) // 4, uncached=9, cached=len(made.body) // 4 - 9, output=9)
            ledger.settle(ticket, used, (), success=True)
            found.append((made.body, made.edits, made.held, made.commit.promises if made.commit else ()))
        assert found[0] == found[1]
