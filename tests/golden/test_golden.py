"""Requests and what is made of them, byte for byte, in folders a reader can open. README.md says what is in them."""

import os
from pathlib import Path

import msgspec
import pytest
import yaml
from msgspec import structs

from proxy.agents import Agents
from proxy.answer import Signed
from proxy.conversation import Conversation, Image, Message, Opaque, Part, ToolCall, ToolResult
from proxy.dialects import DIALECTS
from proxy.errors import BodyError
from proxy.explain import explain
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.policy import load_policy
from proxy.rawjson import repair
from proxy.rewrite import Rewrite, rewrite
from proxy.spool import Spool
from proxy.stages import Facts, Heard
from proxy.usage import anthropic_usage

HERE = Path(__file__).parent
WRITE = os.environ.get("STET_GOLDEN") == "write"
MODELS = Models.load()
AGENTS = Agents.load()
STAGES = HERE / "stages"
SPOOL = Spool(key=b"golden", directory="/home/me/.local/state/stet/spool", url="http://127.0.0.1:8787")

SELDOM = {
    ToolCall: ("kind", "signature"),
    ToolResult: ("kind", "name"),
    Opaque: ("unsaid",),
    Image: ("data",),
}
"""Members that not every format has: listed where they say something."""


class Turn(msgspec.Struct, forbid_unknown_fields=True):
    """What is special about one request: seconds since the one before, how it was answered, what the world was then."""

    wait: float = 10.0
    status: int = 200
    usage: dict[str, int] | None = None
    answers: list[str] = []
    signed: list[Signed] = []
    upstream: str | None = None
    session: str | None = None
    files: dict[str, str] = {}
    environment: dict[str, str] = {}
    heard: Heard | None = None


class World(msgspec.Struct, forbid_unknown_fields=True):
    """What `facts.yaml` may say. `path`: the request's, where it names the model. `spool`: whether there is one.
    `model`: facts of the model that are otherwise here than in config/models.yaml."""

    dialect: str = "anthropic"
    path: str = ""
    upstream: str = "anthropic"
    agent: str = ""
    session: str = ""
    model: dict[str, object] = {}
    turns: dict[int, Turn] = {}
    spool: bool = True


def folders(root: Path) -> list[str]:
    return sorted(str(file.parent.relative_to(HERE)) for file in root.rglob("1.json"))


def requests(case: Path) -> list[Path]:
    found = sorted(case.glob("[0-9].json"))
    assert [file.name for file in found] == [f"{at}.json" for at in range(1, len(found) + 1)]
    return found


def hold(file: Path, made: bytes) -> None:
    """Compare with the expected file, or write it."""
    if WRITE:
        file.write_bytes(made)
    assert file.read_bytes() == made


def expect(file: Path, *suffixes: str) -> None:
    """These files stand beside a request and no others."""
    found = {beside.name for beside in file.parent.glob(f"{file.stem}.*")}
    assert found == {file.name, *(file.with_suffix(suffix).name for suffix in suffixes)}


@pytest.mark.parametrize("name", [name for dialect in DIALECTS for name in folders(HERE / dialect)])
def test_reading_and_writing(name: str) -> None:
    """Each part is what the listing says; opened and closed again, each block leaves in the client's own bytes."""
    case = HERE / name
    dialect = DIALECTS[name.split("/")[0]]
    for file in requests(case):
        body = file.read_bytes()
        try:
            conversation = dialect.read(dialect.open(body))
        except BodyError as error:
            hold(file.with_suffix(".refused.txt"), f"{error}\n".encode())
            expect(file, ".refused.txt")
            continue
        hold(file.with_suffix(".read.txt"), listing(conversation).encode())
        written = dialect.write(opened(conversation))
        hold(file.with_suffix(".out.json"), written)
        assert listing(dialect.read(dialect.open(written))) == listing(conversation)
        expect(file, ".read.txt", ".out.json")


@pytest.mark.parametrize("name", folders(STAGES))
def test_stages(name: str) -> None:
    """What a stage does in a conversation, turn by turn: the bytes that leave, and the edits that explain them."""
    case = HERE / name
    said = yaml.safe_load((case / "facts.yaml").read_text()) if (case / "facts.yaml").exists() else {}
    world = msgspec.convert(said, World)
    policies, ledger, now = load_policy(case / "policy.yaml"), Ledger(), 1_764_547_200.0
    for number, file in enumerate(requests(case), 1):
        turn = world.turns.get(number, Turn())
        now += turn.wait
        body = file.read_bytes()
        told = [".asked.json"] if turn.heard is not None else []
        if turn.heard is not None:
            asked = sent(body, world, structs.replace(turn, heard=None), now, policies, ledger).question
            assert asked is not None
            hold(file.with_suffix(".asked.json"), asked.body)
        done = sent(body, world, turn, now, policies, ledger)
        shown = explain(done, body)
        hold(file.with_suffix(".out.json"), done.body)
        hold(file.with_suffix(".edits.json"), lines([*shown.edits, *shown.held]))
        expect(file, ".out.json", ".edits.json", *told)
        assert (done.body is body) == (not done.edits)


def sent(body: bytes, world: World, turn: Turn, now: float, policies, ledger: Ledger) -> Rewrite:
    """One request through the pipeline, and its answer into the ledger."""
    upstream = turn.upstream or world.upstream
    dialect = DIALECTS[world.dialect]
    model = dialect.model(dialect.open(repair(body)[0]), world.path)
    agent = next((known for known in AGENTS.known if known.name == world.agent), AGENTS.generic)
    facts = Facts(
        now=now,
        tenant=b"golden",
        model=structs.replace(MODELS.facts(upstream, model, dialect.name), **world.model),
        upstream=upstream,
        session=world.session if turn.session is None else turn.session,
        agent=agent,
        spool=SPOOL if world.spool else None,
        files=turn.files,
        environment=turn.environment,
        heard=turn.heard,
        strict=True,
    )
    done = rewrite(body, dialect, policies.choose(upstream, agent.name, model), ledger, facts)
    if done.commit is not None:
        ticket = ledger.commit(done.commit)
        usage = anthropic_usage(turn.usage) if turn.usage is not None else None
        ledger.settle(
            ticket, usage, tuple(turn.answers), success=turn.status == 200, signed=tuple(turn.signed)
        )
    return done


def opened(conversation: Conversation) -> Conversation:
    """The conversation as if something in each of its containers had been changed."""
    return structs.replace(
        conversation,
        messages=tuple(structs.replace(message, raw=None) for message in conversation.messages),
        tools_changed=bool(conversation.tools),
        system_changed=bool(conversation.system),
    )


def lines(shown: list[object]) -> bytes:
    """A JSON list, one entry a line, without members that say nothing."""
    made = [
        msgspec.json.encode({name: value for name, value in structs.asdict(one).items() if value})  # type: ignore[arg-type]
        for one in shown
    ]
    return b"[" + b",".join(b"\n " + one for one in made) + b"\n]\n" if made else b"[]\n"


def listing(conversation: Conversation) -> str:
    """What was read, one part a line."""
    head = {
        "model": conversation.model,
        "stream": conversation.stream,
        "thinking": conversation.thinking,
        "automatic mark": conversation.automatic_mark and _ttl(conversation.automatic_mark),
        "partial": conversation.partial,
        "system bare": conversation.system_bare,
    }
    made = [f"{name}: {value}" for name, value in head.items() if value]
    made += [f"tools[{at}] {_line(part)}" for at, part in enumerate(conversation.tools)]
    made += [f"system[{at}] {_line(part)}" for at, part in enumerate(conversation.system)]
    for message in conversation.messages:
        made += _message_lines(message, *conversation.named)
    return "\n".join(made) + "\n"


def _message_lines(message: Message, turns: str, blocks: str) -> list[str]:
    further = [name for name, _ in message.frame if name not in ("role", blocks)]
    notes = ["bare"] * message.bare + [f"with {name}" for name in further]
    made = [f"{turns}[{message.index}] {message.role.value}{''.join(f', {note}' for note in notes)}"]
    return made + [f"  [{at}] {_line(part)}" for at, part in enumerate(message.parts)]


def _line(part: Part) -> str:
    hidden = ("raw", "base", "key", "nth", "mark", "size")
    seldom = SELDOM.get(type(part), ())
    fields = {
        name: value
        for name, value in structs.asdict(part).items()
        if name not in hidden and (value or name not in seldom)
    }
    said = " ".join(f"{name}={value!r}" for name, value in fields.items() if value not in (False, 0, None))
    return f"{type(part).__name__} {said}" + (f" marked {_ttl(part.mark)}" if part.mark else "")


def _ttl(mark) -> str:
    return mark.ttl or "default"
