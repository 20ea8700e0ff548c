"""Huge outputs leave the prompt on arrival; what they were is kept, and stays as it was first said."""

import re

import orjson
import pytest

from proxy.agents import Agents
from proxy.dialects import DIALECTS
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.policy import Policy, Stages
from proxy.rewrite import Rewrite, rewrite
from proxy.spool import HANDLE, Spool, Spooled
from proxy.stages import Facts, balance, externalize
from proxy.stores.memory import MemoryStore

SPOOL = Spool(key=b"secret", directory="/spool", url="http://127.0.0.1:8787")
CONFIG = externalize.Config(threshold=2048, head=100, tail=100, errors=100)
MODELS, AGENTS = Models.load(), Agents.load()
LOG = "".join(f"unit {at} is built\n" for at in range(200))


def rewritten(
    body: dict,
    ledger: Ledger,
    config: externalize.Config = CONFIG,
    spool: Spool | None = SPOOL,
    dialect: str = "anthropic",
) -> Rewrite:
    """One request sent and answered."""
    policy = Policy(name="test", stages=Stages(balance=balance.Config(), externalize=config))
    facts = Facts(
        now=1000.0,
        tenant=b"t",
        model=MODELS.facts("anthropic", body["model"]),
        upstream="anthropic",
        agent=AGENTS.generic,
        spool=spool,
        strict=True,
    )
    made = rewrite(orjson.dumps(body), DIALECTS[dialect], policy, ledger, facts)
    assert made.commit is not None
    ledger.keep_policy(made.policy.digest, made.policy.encoded)
    ledger.settle(ledger.commit(made.commit), None, (), success=True)
    return made


def asked(content: object = LOG, name: str = "Bash", **arguments: object) -> dict:
    """A request with one result."""
    call = {"type": "tool_use", "id": "c1", "name": name, "input": arguments}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": content}
    return {
        "model": "claude-opus-5",
        "max_tokens": 10,
        "messages": [
            {"role": "user", "content": "Build."},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ],
    }


def shown(made: Rewrite) -> str:
    return orjson.loads(made.body)["messages"][2]["content"][0]["content"]


def test_what_is_taken_out_is_kept_whole() -> None:
    """The rewrite says what to keep under the handle that the note names: all of the output, as text."""
    made = rewritten(asked(), Ledger())
    (kept,) = made.spooled
    assert kept == Spooled(handle=SPOOL.handle(LOG.encode()), data=LOG.encode())
    assert set(HANDLE.findall(shown(made))) == {kept.handle}
    assert f"- file /spool/{kept.handle}.txt " in shown(made)
    assert f"- GET http://127.0.0.1:8787/stet/spool/{kept.handle}?lines=" in shown(made)
    assert "(200 lines, " in shown(made)


def test_a_note_names_the_ways_there_are() -> None:
    """Who shares no disk gets the address alone, who has no address the path."""
    away = rewritten(asked(), Ledger(), spool=Spool(key=b"secret", url="https://stet.internal"))
    assert "- file" not in shown(away)
    assert "- GET https://stet.internal/stet/spool/spool-" in shown(away)
    here = rewritten(asked(), Ledger(), spool=Spool(key=b"secret", directory="/"))
    assert "- file /spool-" in shown(here)
    assert "GET" not in shown(here)


def test_the_threshold_is_of_the_text_however_it_is_spelt() -> None:
    """Escapes make a body longer and an output not."""
    text = "é" * 1023
    body = orjson.dumps(asked(text)).replace("é".encode(), b"\\u00e9")
    policy = Policy(name="test", stages=Stages(externalize=CONFIG))
    facts = Facts(
        now=1.0, tenant=b"t", model=MODELS.facts("anthropic", "x"), upstream="anthropic", spool=SPOOL
    )
    assert rewrite(body, DIALECTS["anthropic"], policy, Ledger(), facts).body is body
    assert rewritten(asked(text + "é"), Ledger()).spooled


@pytest.mark.parametrize(
    ("content", "name", "arguments"),
    [
        ("short", "Bash", {}),
        (LOG, "Skill", {}),
        (LOG, "Read", {"file_path": "a", "offset": 10}),
        (LOG, "read_file", {"path": "a", "start_line": 1, "end_line": 900}),
        (LOG, "Grep", {"pattern": "x", "head_limit": 500}),
        (LOG, "Bash", {"command": "cd src && sed -n 1,400p a.py"}),
        (LOG, "shell", {"command": ["bash", "-lc", "tail -n 400 log"]}),
        (LOG, "Read", {"file_path": f"/spool/{SPOOL.handle(b'x')}.txt"}),
        (f"{SPOOL.handle(b'x')}.txt:1: {LOG}", "Bash", {"command": "grep -r unit ."}),
        ([{"type": "text", "text": LOG}, {"type": "tool_reference", "tool_name": "late"}], "Search", {}),
        ([{"type": "text", "text": LOG, "citations": [1]}], "Search", {}),
        ([], "Search", {}),
    ],
)
def test_what_was_asked_for_as_it_came_stays(content: object, name: str, arguments: dict) -> None:
    """Short, protected, a range, read back from a spool, or more than text: the client's own bytes go out."""
    config = externalize.Config(threshold=2048, head=100, tail=100, errors=100, protect=("Sk*",))
    made = rewritten(asked(content, name, **arguments), Ledger(), config)
    assert (made.edits, made.spooled, made.held) == ((), (), ())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Read", {"file_path": "a", "offset": None}),
        ("Bash", {"command": "overhead --all; unsed -n"}),
        ("Bash", {}),
    ],
)
def test_a_call_that_names_no_range_is_none(name: str, arguments: dict) -> None:
    """A null asks for nothing, and words that only look like a command are none."""
    assert rewritten(asked(LOG, name, **arguments), Ledger()).spooled


def test_thresholds_by_tool() -> None:
    """By name, else by the first glob that fits, else the one for all."""
    config = externalize.Config(threshold=2048, tools={"mcp__*": 1_000_000, "Bash": 4096})
    assert [config.threshold_of(tool) for tool in ("Bash", "mcp__db", "Read")] == [4096, 1_000_000, 2048]
    assert config.least == 2048


def grown(body: dict, *more: dict) -> dict:
    return {**body, "messages": [*body["messages"], *more]}


def test_it_stands_for_ever() -> None:
    """Without a spool, with another secret, after a restart: what was said once is said again, and nothing new kept."""
    store = MemoryStore()
    first = rewritten(asked(), Ledger(store))
    later = grown(asked(), {"role": "assistant", "content": "Built."}, {"role": "user", "content": "Go on."})
    for spool in (None, Spool(key=b"another", url="http://elsewhere"), SPOOL):
        made = rewritten(later, Ledger(store), spool=spool)
        assert shown(made) == shown(first)
        assert made.spooled == ()


def test_without_a_spool_nothing_is_taken_out_then_or_later() -> None:
    """What went out whole has been seen whole: it is said to be held, and stays."""
    ledger = Ledger()
    made = rewritten(asked(), ledger, spool=None)
    assert shown(made) == LOG
    (held,) = made.held
    assert (held.stage, held.targets) == ("externalize", 1)
    later = grown(asked(), {"role": "assistant", "content": "Built."}, {"role": "user", "content": "Go on."})
    made = rewritten(later, ledger)
    assert (made.edits, made.held) == ((), ())


def test_a_part_of_what_was_externalized_stays_and_its_equal_does_not() -> None:
    """The model got hold of a range of it by whatever way: that is what it wanted. The same run again is another output."""
    ledger = Ledger()
    rewritten(asked(), ledger)

    def again(text: str, ident: str) -> list[dict]:
        call = {"type": "tool_use", "id": ident, "name": "Bash", "input": {"command": "x"}}
        return [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": ident, "content": text}]},
        ]

    part = grown(asked(), *again(LOG[200:], "c2"))
    assert rewritten(part, ledger).spooled == ()
    whole = grown(part, *again(LOG, "c3"))
    assert [one.handle for one in rewritten(whole, ledger).spooled] == [SPOOL.handle(LOG.encode())]


def test_our_own_output_is_never_externalized_again() -> None:
    """Behind another proxy with a lower threshold the note stays what it is."""
    config = externalize.Config(threshold=20_000, head=4000, tail=3000, errors=3000)
    first = rewritten(asked(LOG * 20), Ledger(), config)
    assert len(shown(first)) > 4096
    again = rewritten(orjson.loads(first.body), Ledger())
    assert (again.edits, again.spooled) == ((), ())


def test_chat_results_go_the_same_way() -> None:
    """The stage knows results, not wire formats."""
    call = {"id": "c1", "type": "function", "function": {"name": "Bash", "arguments": "{}"}}
    body = {
        "model": "gpt-5",
        "messages": [
            {"role": "user", "content": "Build."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": LOG},
        ],
    }
    made = rewritten(body, Ledger(), dialect="openai_chat")
    assert [one.data for one in made.spooled] == [LOG.encode()]
    assert orjson.loads(made.body)["messages"][2]["content"] == shown(rewritten(asked(), Ledger()))


def test_blocks_become_one_of_their_kind() -> None:
    """Formats name their text blocks otherwise; a mark among them is no content, and goes."""
    blocks = [
        {"type": "input_text", "text": "Script completed\nOutput:\n"},
        {"type": "input_text", "text": LOG, "prompt_cache_breakpoint": {"type": "ephemeral"}, "x": None},
    ]
    made = rewritten(asked(blocks, "exec"), Ledger())
    (kept,) = made.spooled
    assert kept.data.decode() == f"Script completed\nOutput:\n\n{LOG}"
    (block,) = shown(made)
    assert block["type"] == "input_text"
    assert block["text"].startswith("Script completed\nOutput:\n\nunit 0 is built\n")


def test_handles_tell_nothing_without_the_secret() -> None:
    """Another secret gives another handle; neither secret nor content is in what is printed of them."""
    other = Spool(key=b"other", directory="/spool")
    assert other.handle(b"x") != SPOOL.handle(b"x")
    assert re.fullmatch(HANDLE, SPOOL.handle(b"x"))
    assert "secret" not in repr(SPOOL)
    assert "built" not in repr(Spooled(handle="h", data=LOG.encode()))
