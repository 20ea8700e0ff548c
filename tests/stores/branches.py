"""Branches to store: one that is easy to read, and a strategy for all there can be."""

from collections.abc import Sequence

from hypothesis import strategies as st
from msgspec import Raw

from proxy.conversation import (
    Image,
    Mark,
    Opaque,
    Reasoning,
    Reminder,
    Role,
    Source,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from proxy.edits import (
    AddMember,
    InsertAfter,
    InsertBefore,
    JoinSystem,
    Mend,
    Move,
    PlaceMark,
    Remove,
    Replace,
    Target,
    Sign,
    Unname,
)
from proxy.answer import Signed
from proxy.branch import Branch, Frontier, Frozen, Promise, Spelling
from proxy.usage import Usage

NOW = 1_800_000_000.0


def key(name: object) -> bytes:
    """A key that reads as its name, 16 bytes long."""
    return str(name).encode().ljust(16, b".")[:16]


def promise(anchor: object, stage: str = "relocate", text: str = "the date is frozen") -> Promise:
    """A promise of one replacement, made from a part that the client sent."""
    part = Text(text=text, base=Raw(b'{"type":"text","text":"today","x":1.10}'))
    return Promise(
        anchor=key(anchor),
        stage=stage,
        edits=(Replace(stage=stage, reason="volatile", target=Target(key(anchor)), part=part),),
        announces=(("date", "2027-01-15"),),
    )


def branch(
    name: object = "branch",
    *,
    root: object = "root",
    promises: Sequence[Promise] = (),
    touched: float = NOW,
    keys: int = 3,
    tools: bytes = b'{"name":"Read"}',
) -> Branch:
    """A branch of `keys` parts that was sent rewritten."""
    grouped: dict[bytes, tuple[Promise, ...]] = {}
    for one in promises:
        grouped[one.anchor] = (*grouped.get(one.anchor, ()), one)
    return Branch(
        id=key(name),
        root=key(root),
        session="session",
        keys=b"".join(n.to_bytes(8, "big") for n in range(1, keys + 1)),
        policy=key("policy"),
        touched=touched,
        turns=2,
        promises=grouped,
        frozen=Frozen(values={"date": ("2027-01-15",)}, tools=(Spelling("Read", b"says", tools),)),
        frontiers=(
            Frontier(
                upstream="anthropic",
                model="opus",
                setting=key("setting"),
                at=touched,
                parts=keys,
                estimate=900,
                usage=Usage(prompt=1000, cached=990),
                tail=Target(key("tail"), 1),
                ttl_s=300.0,
            ),
        ),
        answers=("toolu_1",),
        answered=True,
        rewritten=True,
    )


keys = st.binary(min_size=16, max_size=16)
texts = st.text(max_size=6)
blobs = st.binary(max_size=12)
counts = st.integers(0, 2**40)
raws = st.none() | st.sampled_from(
    [
        b"1.10",
        b'"\\ud800"',
        b'{"a":1,"a":2}',
        b'{"n":123456789012345678901234567890}',
        b'{"\xc3\xa9": [ ]}',
        b"",
    ]
).map(Raw)
marks = st.none() | st.builds(Mark, ttl=st.none() | st.just("1h"))
targets = st.builds(Target, key=keys, nth=st.integers(0, 5))
piece = {
    "raw": raws,
    "base": raws,
    "key": keys | st.just(b""),
    "nth": st.integers(0, 5),
    "mark": marks,
    "size": counts,
}
PARTS = {
    Text: st.builds(Text, text=texts, **piece),
    Reminder: st.builds(Reminder, text=texts, source=st.sampled_from(Source), name=texts, **piece),
    Image: st.builds(Image, media_type=texts, data_bytes=counts, **piece),
    ToolCall: st.builds(ToolCall, id=texts, name=texts, input=blobs, server=st.booleans(), **piece),
    ToolResult: st.builds(
        ToolResult, call_id=texts, content=st.none() | blobs, is_error=st.booleans(), images=counts, **piece
    ),
    Reasoning: st.builds(Reasoning, signature=texts, redacted=st.booleans(), **piece),
    ToolDefinition: st.builds(ToolDefinition, name=texts, deferred=st.booleans(), **piece),
    Opaque: st.builds(Opaque, kind=texts, **piece),
}
parts = st.one_of(*PARTS.values())
change = {
    "stage": texts,
    "reason": texts,
    "target": targets,
    "tokens_before": counts,
    "tokens_after": counts,
    "required": st.booleans(),
    "committed": st.booleans(),
}
roles = st.none() | st.sampled_from(Role)
EDITS = {
    Replace: st.builds(Replace, part=parts, **change),
    InsertBefore: st.builds(InsertBefore, part=parts, role=roles, **change),
    InsertAfter: st.builds(InsertAfter, part=parts, role=roles, **change),
    Remove: st.builds(Remove, **change),
    Move: st.builds(Move, to=targets, before=st.booleans(), **change),
    PlaceMark: st.builds(PlaceMark, mark=marks, **change),
    JoinSystem: st.builds(JoinSystem, **change),
    Unname: st.builds(Unname, led=st.tuples(texts, texts), **change),
    Sign: st.builds(Sign, signature=texts, **change),
    Mend: st.builds(Mend, count=counts, **change),
    AddMember: st.builds(AddMember, name=texts, value=st.binary(max_size=20), **change),
}
edits = st.one_of(*EDITS.values())
promises = st.builds(
    Promise,
    anchor=keys,
    stage=texts,
    nth=st.integers(0, 5),
    number=counts,
    edits=st.lists(edits, max_size=4).map(tuple),
    announces=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
)
times = st.floats(0, 2**33)
usages = st.none() | st.builds(Usage, prompt=st.none() | counts, cached=st.none() | counts, output=counts)
frontiers = st.builds(
    Frontier,
    upstream=texts,
    model=texts,
    setting=keys,
    at=times,
    parts=counts,
    estimate=counts,
    usage=usages,
    tail=st.none() | targets,
    tail_parts=counts,
    ttl_s=st.none() | times,
)
frozens = st.builds(
    Frozen,
    values=st.dictionaries(texts, st.lists(texts, max_size=2).map(tuple), max_size=3),
    tools=st.lists(st.builds(Spelling, texts, st.binary(max_size=9), st.binary(max_size=9)), max_size=3).map(
        tuple
    ),
)


@st.composite
def branches(draw: st.DrawFn) -> Branch:
    """Any branch: promises of all edits, several under an anchor, one for each stage there."""
    made = draw(st.lists(promises, max_size=5, unique_by=lambda one: one.id))
    grouped: dict[bytes, tuple[Promise, ...]] = {}
    for one in made:
        grouped[one.anchor] = (*grouped.get(one.anchor, ()), one)
    return draw(
        st.builds(
            Branch,
            id=keys,
            root=keys,
            session=texts,
            keys=st.binary(min_size=8, max_size=64),
            policy=keys,
            touched=times,
            turns=counts,
            made=counts,
            promises=st.just(grouped),
            frozen=frozens,
            frontiers=st.lists(frontiers, max_size=3).map(tuple),
            answers=st.lists(texts, max_size=2).map(tuple),
            signed=st.lists(
                st.builds(
                    Signed,
                    kind=st.sampled_from(("call", "thinking", "item", "words")),
                    place=st.integers(0, 9),
                    name=texts,
                    value=texts,
                ),
                max_size=2,
            ).map(tuple),
            answered=st.booleans(),
            rewritten=st.booleans(),
        )
    )


def all_promises(one: Branch) -> tuple[Promise, ...]:
    """The promises of a branch, as a store is told them when it is new."""
    return tuple(promise for group in one.promises.values() for promise in group)
