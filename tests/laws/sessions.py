"""Sessions of a coding agent, drawn at random: a list of `Step`s, small enough to shrink, and `play` to act them out."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st
from msgspec import Struct, structs

from proxy.simulator import Call, Say
from proxy.simulator.reply import Block

from tests.laws.client import INPUTS, TOOLS, WORDS, Client, Shown, blocks, image, result, text
from tests.laws.driver import NARROW, Driver, Sent, World
from tests.laws.spelling import PLAIN, Num, Style
from tests.laws.wires import WIRES

EAGER = str(Path(__file__).with_name("eager.yaml"))
WAITS = (1, 20, 400, 5000)
RESULTS = (
    "ok",
    "lost",
    "late",
    "twice",
    "other_twice",
    "error",
    "blocks",
    "image",
    "empty",
    "blank",
    "absent",
    "big",
    "big_blocks",
    "again",
    "nearly",
    "noisy",
    "null",
)
SAME = "".join(f"line {at} of what is read é again and again\n" for at in range(120))
"""An output that several calls have."""
LAYOUTS = ("first", "behind_text", "split", "split_by_text", "interleaved")
MOVES = (
    "none",
    "rewind",
    "fork",
    "resume",
    "compact",
    "strip_thinking",
    "call_again",
    "text_behind",
    "server_tool",
    "server_tool_open",
    "unsigned",
    "split_answer",
    "foreign_id",
    "same_id",
    "empty_answer",
    "unknown_block",
    "unknown_key",
    "drop_result",
    "prefill",
    "answer_twice",
    "other_model",
    "other_upstream",
)
APPENDING = tuple(
    move
    for move in MOVES
    if move
    not in ("rewind", "fork", "compact", "strip_thinking", "drop_result", "other_model", "other_upstream")
)
"""Moves that leave what was sent before as it was."""
SPECIAL = frozenset({"server_tool", "server_tool_open", "unsigned", "strip_thinking"})
"""Moves that not every format has."""
REMINDERS = (
    "none",
    "date",
    "left",
    "plain",
    "system_behind",
    "system_before",
    "system_after_answer",
    "system_empty",
)
FATES = ("ok", "overloaded", "slow", "unheard")


class Step(Struct, frozen=True, kw_only=True):
    """One request and what leads to it; numbers are taken modulo what there is to choose from."""

    who: int = 0
    wait: int = 0
    move: str = "none"
    pick: int = 0
    results: tuple[str, ...] = ()
    layout: str = "first"
    says: tuple[int, ...] = (0,)
    reminder: str = "none"
    picture: bool = False
    style: Style = PLAIN
    shown: Shown = Shown()
    answer: tuple[int, ...] = (0,)
    fate: str = "ok"
    full: bool = False


styles = st.builds(
    Style,
    marks=st.integers(0, 15),
    flip=st.booleans(),
    order=st.integers(0, 2),
    tools=st.integers(0, 3),
    empties=st.booleans(),
    escape=st.booleans(),
    spaces=st.booleans(),
)


def surroundings(tools: bool) -> st.SearchStrategy[Shown]:
    """What stands in the system prompt; with `tools` the list of tools differs from request to request."""
    return st.builds(
        Shown,
        date=st.integers(1, 3),
        clock=st.integers(0, 3),
        nonce=st.integers(0, 3),
        left=st.integers(0, 3).map(lambda n: 100_000 - n),
        more_tools=st.booleans() if tools else st.just(False),
    )


def steps(
    moves: tuple[str, ...] = MOVES,
    fates: tuple[str, ...] = FATES,
    people: int = 3,
    *,
    tools: bool = True,
    busy: bool = False,
) -> st.SearchStrategy[Step]:
    """Steps with these moves and fates; `people` clients share the process; a `busy` model calls tools all the time
    and gets big results."""
    kinds = (
        st.sampled_from(("big", "big", "big_blocks", "again", "again", "nearly", "ok", "lost", "error"))
        if busy
        else st.sampled_from(RESULTS)
    )
    return st.builds(
        Step,
        who=st.integers(0, people - 1),
        wait=st.integers(0, len(WAITS) - 1),
        move=st.one_of(st.just("none"), st.sampled_from(moves)),
        pick=st.integers(0, 5),
        results=st.lists(kinds, min_size=int(busy), max_size=3).map(tuple),
        layout=st.sampled_from(LAYOUTS),
        says=st.lists(st.integers(0, len(WORDS) - 1), max_size=2).map(tuple),
        reminder=st.sampled_from(REMINDERS),
        picture=st.booleans(),
        style=styles,
        shown=surroundings(tools),
        answer=st.lists(st.integers(3 if busy else 0, 9), min_size=1, max_size=4).map(tuple),
        fate=st.one_of(st.just("ok"), st.sampled_from(fates)),
        full=st.sampled_from((False, False, False, True)),
    )


def worlds(wire: str) -> st.SearchStrategy[World]:
    """Worlds that speak one format."""
    speaks = WIRES[wire]
    places = [(upstream, model) for upstream in speaks.upstreams for model in speaks.models(upstream)]
    return st.builds(
        lambda place, **members: World(upstream=place[0], model=place[1], **members),
        st.sampled_from(places),
        policy=st.sampled_from(("careful", "default", "frugal", EAGER, NARROW)),
        agent=st.sampled_from(("", "claude-code")),
        thinks=st.booleans(),
        wire=st.just(wire),
    )


class Session:
    """A driver, its clients, and the clock between them."""

    def __init__(self, world: World, driver: Driver | None = None) -> None:
        self.driver = driver or Driver(world)
        self.now = 1_000_000.0
        self.slow: Sent | None = None
        # What a vendor takes out itself differs for nobody; that thinking is bound to it is not known.
        self.nonces = not self.driver.facts(0.0, "", world.model).model.keep_attribution
        openings = ((WORDS[0], "s0"), ("You are a sub-agent.", "s0"), (WORDS[0], ""))
        self.clients = [
            Client(world.model, opening, thinks=world.thinks, session=session, agent=world.agent)
            for opening, session in openings
        ]

    def step(self, step: Step, *, past: bool = False) -> Sent:
        """Act one step out; `past` the proxy it goes straight to the provider."""
        self.now += WAITS[step.wait]
        client = self.clients[step.who]
        if step.move == "other_upstream":
            first = self.driver.world.speaks.upstreams[0]
            self.driver.upstream = "unknown" if self.driver.upstream != "unknown" else first
        _move(client, step, self.driver.world)
        _turn(client, step)
        shown = step.shown if self.nonces else structs.replace(step.shown, nonce=0)
        style = step.style
        if any(blocks(message) and _is_empty(message) for message in client.messages):
            # Which of several empty texts is the turn that somebody left empty, nobody can say.
            style = structs.replace(style, empties=False)
        sent = self.driver.send(
            self.driver.world.speaks.body(client.asked(style, shown), style),
            _answer(step.answer),
            now=self.now,
            session=client.session,
            model=client.model,
            who=step.who,
            overloaded=step.fate == "overloaded",
            past=past,
            full=step.full,
        )
        late, self.slow = self.slow, None
        if late is not None:
            self.driver.settle(late)
        if step.fate == "slow":
            self.slow = sent
        else:
            self.driver.settle(sent)
        if sent.status == 200 and step.fate != "unheard":
            client.answered(_whole(_served(client), _heard(self.driver.content)))
        return sent


def play(world: World, story: list[Step]) -> Driver:
    """A whole session."""
    session = Session(world)
    for step in story:
        session.step(step)
    return session.driver


def _is_empty(message: dict[str, object]) -> bool:
    return all(block["type"] == "text" and not block["text"] for block in blocks(message))


# -- what the model says ---------------------------------------------------------------------------------


def _answer(numbers: tuple[int, ...]) -> tuple[Block, ...]:
    """Texts first, then calls, as models answer."""
    said = [Say(f"I will look. {number} é") for number in numbers if number < 3]
    calls = [Call(TOOLS[number % 3], {"number": number}) for number in numbers if number >= 3]
    return (*said, *calls) or (Say("Done."),)


def _heard(content: list[dict[str, object]]) -> list[dict[str, object]]:
    """The answer as the client keeps it: arguments with the literals the model wrote."""
    kept = []
    for block in content:
        if block["type"] == "tool_use":
            arguments = block["input"]
            assert isinstance(arguments, dict)
            block = {**block, "input": dict(INPUTS[arguments["number"] % len(INPUTS)])}
        kept.append(block)
    return kept


def _whole(served: list[dict[str, object]], heard: list[dict[str, object]]) -> list[dict[str, object]]:
    """Results that the provider's own tools gave first; thinking behind them would have been bound to them."""
    thought = ("thinking", "redacted_thinking") if served else ()
    return [*served, *(block for block in heard if block["type"] not in thought)]


def _served(client: Client) -> list[dict[str, object]]:
    """The results of server calls that the last answer left open: the provider goes on with them first."""
    last = next((message for message in reversed(client.messages) if message["role"] == "assistant"), None)
    told = [] if last is None else blocks(last)
    done = {block["tool_use_id"] for block in told if block["type"] == "web_search_tool_result"}
    return [
        {"type": "web_search_tool_result", "tool_use_id": block["id"], "content": []}
        for block in told
        if block["type"] == "server_tool_use" and block["id"] not in done
    ]


# -- what the client does to its history -----------------------------------------------------------------


def _move(client: Client, step: Step, world: World) -> None:
    if step.move in SPECIAL and step.move not in world.speaks.moves:
        return
    messages = client.messages
    last = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
    people = [at for at, message in enumerate(messages) if message["role"] == "user"]
    match step.move:
        case "rewind" | "fork" if len(people) > 1:
            del messages[people[step.pick % len(people)] or 1 :]
        case "resume" if last is not None:
            client.session = f"r{step.pick}"
        case "compact" if len(messages) > 4:
            messages[:] = [{"role": "user", "content": [text(f"Summary of what was done {step.pick}.")]}]
        case "strip_thinking":
            for message in messages:
                if message["role"] == "assistant":
                    message["content"] = [b for b in blocks(message) if b["type"] != "thinking"] or [
                        text("…")
                    ]
        case "drop_result" if len(people) > 1:
            chosen = messages[people[step.pick % len(people)]]
            chosen["content"] = [b for b in blocks(chosen) if b["type"] != "tool_result"] or [text("gone")]
        case "other_model":
            one, other = world.speaks.models(world.upstream)[:2]
            client.model = one if client.model == other else other
        case "unknown_key":
            client.unknown = not client.unknown
        case "prefill":
            pass
        case _ if last is not None:
            _spoil(client, last, step)
        case _:
            pass


def _spoil(client: Client, last: dict[str, object], step: Step) -> None:
    """What clients and proxies before us do to the newest answer before they send it back."""
    content = blocks(last)
    calls = [block for block in content if block["type"] == "tool_use"]
    match step.move:
        case "call_again" if calls:
            content.append(dict(calls[step.pick % len(calls)]))
        case "text_behind" if calls:
            content.append(text("And then?"))
        case "server_tool":
            content[:] = [*content, *_searched(f"srvtoolu_{len(client.messages)}")]
        case "server_tool_open":
            content.append(_searched(f"srvtoolu_{len(client.messages)}")[0])
        case "unsigned":
            content.insert(0, {"type": "thinking", "thinking": "hm", "signature": ""})
        case "split_answer" if len(content) > 1:
            client.messages[-1:] = [{"role": "assistant", "content": [block]} for block in content]
        case "foreign_id" if calls:
            calls[0]["id"] = f"functions.read:{len(client.messages)}"
        case "same_id" if calls:
            calls[-1]["id"] = "toolu_same"
        case "empty_answer":
            last["content"] = []
        case "unknown_block":
            content.append({"type": "container_upload", "file_id": "file_1", "x": Num("1.50")})
        case "answer_twice":
            client.messages.append({"role": "assistant", "content": [dict(block) for block in content]})
        case _:
            pass


def _searched(ident: str) -> list[dict[str, object]]:
    return [
        {"type": "server_tool_use", "id": ident, "name": "web_search", "input": {"query": "pump"}},
        {"type": "web_search_tool_result", "tool_use_id": ident, "content": []},
    ]


# -- what it says next -----------------------------------------------------------------------------------


def _turn(client: Client, step: Step) -> None:
    """Answer the open calls, say something, and let the harness have its word."""
    if step.move == "prefill" and client.messages and client.messages[-1]["role"] == "assistant":
        if not client.open_calls:
            return
    results, late = [], client.late
    client.late = []
    for at, call in enumerate(client.open_calls):
        kind = step.results[at % len(step.results)] if step.results else "ok"
        results += _results(call["id"], kind, client)
    results += late
    said = [text(WORDS[number]) for number in step.says]
    if step.picture:
        said.append(image())
    if not client.messages:
        said = [text(client.opening), *said]
    if step.reminder == "system_after_answer" and client.messages:
        client.say(text("The mode has changed."), role="system")
    said = _reminded(step, said)
    _lay(client, step.layout, results, said)
    if step.reminder == "system_before" and client.messages:
        client.messages.insert(len(client.messages) - 1, {"role": "system", "content": [text("Before.")]})
    if step.reminder == "system_behind":
        client.say(text("Plan mode is on."), role="system")
    if step.reminder == "system_empty":
        client.say(text(""), role="system")


def _reminded(step: Step, said: list[dict[str, object]]) -> list[dict[str, object]]:
    told = {
        "date": f"Today's date is 2026-11-{step.shown.date:02d}.",
        "left": f"<total_tokens>{step.shown.left} tokens left</total_tokens>",
        "plain": "Plan mode is active. The user indicated that they do not want you to execute yet",
    }.get(step.reminder)
    return said if told is None else [text(f"<system-reminder>\n{told}\n</system-reminder>"), *said]


def _lay(
    client: Client, layout: str, results: list[dict[str, object]], said: list[dict[str, object]]
) -> None:
    both = [*results, *said] or [text("Go on.")]
    match layout:
        case "behind_text":
            client.say(*said, *results) if both[0] in results or said else client.say(*both)
        case "split" if results:
            for one in results:
                client.say(one)
            if said:
                client.say(*said)
        case "split_by_text" if results and said:
            client.say(*said)
            client.say(*results)
        case "interleaved" if results and said:
            client.say(results[0], *said, *results[1:])
        case _:
            client.say(*both)


def _results(call_id: object, kind: str, client: Client) -> list[dict[str, object]]:
    match kind:
        case "lost":
            return []
        case "late":
            client.late.append(result(call_id, "late at last é"))
            return []
        case "twice":
            return [result(call_id, "same"), result(call_id, "same")]
        case "other_twice":
            return [result(call_id, "one"), result(call_id, "other")]
        case "error":
            return [result(call_id, "failed", is_error=True)]
        case "blocks":
            return [result(call_id, [text("a"), text("b")], is_error=False)]
        case "image":
            return [result(call_id, [text("shot"), image()])]
        case "empty":
            return [result(call_id, "")]
        case "blank":
            return [result(call_id, [text(""), text("x")])]
        case "absent":
            return [{"type": "tool_result", "tool_use_id": call_id, "content": []}]
        case "big":
            return [result(call_id, f"{call_id} line of output\n" * 300)]
        case "big_blocks":
            many = [text(f"{call_id} error é in block {at}\n" * 90) for at in "ab"]
            return [result(call_id, many, is_error=True)]
        case "again":
            return [result(call_id, SAME)]
        case "nearly":
            return [result(call_id, f"{call_id}\n{SAME}")]
        case "noisy":
            return [result(call_id, "".join(f"\r\x1b[1m{call_id} {at}\x1b[m" for at in range(99)) + "  \n")]
        case "null":
            return [result(call_id, "with null", is_error=None)]
        case _:
            return [result(call_id, f"ok \u2028 {call_id}")]
