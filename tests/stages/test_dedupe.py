"""An output that stands earlier already becomes a pointer; what it points at stays, and asked for again it comes whole."""

from typing import Any

import orjson
import pytest

from proxy.ledger import Ledger
from proxy.policy import Policy, Stages
from proxy.spool import Spool
from proxy.stages import balance, breakpoints, externalize, label, reasoning, stale
from proxy.stages.dedupe import Config
from proxy.stores.memory import MemoryStore

from tests.stages.clearing import Work, is_placeholder, lines, results
from tests.stages.passing import request, sent, shown

CONFIG = Config(min_bytes=1024)
BLOCKS = Config(min_bytes=1024, blocks=True, block_bytes=1024)
FILE = lines("row", 300)
READ = ("read_file", {"path": "a.py"}, FILE)
CAT = ("bash", {"cmd": "cat a.py"}, FILE)
OTHER = ("bash", {"cmd": "ls"}, lines("entry", 300))


def is_pointer(content: Any) -> bool:
    return isinstance(content, str) and content.startswith("[Note on this output: it is the same, ")


# -- as a whole --------------------------------------------------------------------------------------------------


def test_the_same_output_again_points_at_the_first() -> None:
    """The note names the call by what stands in it, which no later turn changes; nothing before it is touched."""
    made = sent(request(READ, OTHER, CAT), Ledger(), dedupe=CONFIG)
    *before, note = shown(made)
    assert before == [FILE, OTHER[2]]
    assert note == (
        "[Note on this output: it is the same, byte for byte, as that of the most recent earlier read_file call "
        '({"path":"a.py"}), which stands above, and is left out here to save space (2700 bytes). This is no error.]'
    )
    (edit,) = made.edits
    assert (edit.stage, edit.required, edit.committed) == ("dedupe", False, False)
    assert edit.rests_on is not None
    assert edit.tokens_after < edit.tokens_before // 5


def test_a_pointer_is_for_ever() -> None:
    """Each later request has the same bytes there, also by a ledger from its store and under another policy."""
    store = MemoryStore()
    ledger = Ledger(store)
    first = sent(request(READ, OTHER, CAT), ledger, dedupe=CONFIG)
    more = request(READ, OTHER, CAT, ("bash", {"cmd": "date"}, "Monday"))
    for known in (ledger, Ledger(store)):
        assert shown(sent(more, known))[:3] == shown(first)


def test_who_asks_again_gets_the_whole() -> None:
    """A pointer in answer to the very same call did not do: the output comes, and a later one points at that."""
    asked = [READ]
    ledger, pointers = Ledger(), []
    for _ in range(5):
        pointers.append(is_pointer(shown(sent(request(*asked), ledger, dedupe=CONFIG))[-1]))
        asked.append(READ)
    assert pointers == [False, True, False, True, False]


def test_outputs_of_one_turn_point_at_the_first_of_them() -> None:
    """Calls made at once: their results arrive together, and only the first is shown."""
    body = request(READ)
    body["messages"][1]["content"].append(
        {"type": "tool_use", "id": "c9", "name": "bash", "input": {"cmd": "cat a.py"}}
    )
    body["messages"][2]["content"].append({"type": "tool_result", "tool_use_id": "c9", "content": FILE})
    assert [*map(is_pointer, shown(sent(body, Ledger(), dedupe=CONFIG)))] == [False, True]


def test_where_the_words_of_a_note_could_mean_another_output_there_is_none() -> None:
    """The file was read, changed, read again and changed back: the most recent read is not the one with these lines."""
    changed = ("read_file", {"path": "a.py"}, lines("changed", 300))
    assert not is_pointer(shown(sent(request(READ, changed, CAT), Ledger(), dedupe=CONFIG))[-1])
    elsewhere = ("read_file", {"path": "b.py"}, lines("changed", 300))
    assert is_pointer(shown(sent(request(READ, elsewhere, CAT), Ledger(), dedupe=CONFIG))[-1])


def test_long_arguments_are_cut_in_a_note() -> None:
    """The argument that says most names the call; two that begin alike could be meant both."""
    long = ("bash", {"cmd": f"cat {'a/' * 200}a.py", "timeout": 5}, FILE)
    assert (
        f"bash call (cmd: cat {'a/' * 36}a...), which"
        in shown(sent(request(long, READ), Ledger(), dedupe=CONFIG))[-1]
    )
    alike = ("bash", {"cmd": f"cat {'a/' * 200}b.py", "timeout": 5}, lines("b", 300))
    assert not is_pointer(shown(sent(request(long, alike, READ), Ledger(), dedupe=CONFIG))[-1])


def test_a_list_of_texts_stays_a_list() -> None:
    """Some upstreams want results spelt as they were."""
    content = [{"type": "text", "text": FILE}]
    *_, last = shown(sent(request((*READ[:2], content), (*CAT[:2], content)), Ledger(), dedupe=CONFIG))
    assert [block["type"] for block in last] == ["text"]
    assert is_pointer(last[0]["text"])


@pytest.mark.parametrize(
    ("first", "again", "members"),
    [
        (READ, ("bash", {"cmd": "cat a.py"}, FILE + "x"), {}),
        (("read_file", {}, "short"), ("bash", {}, "short"), {}),
        (READ, ("Todo", {}, FILE), {}),
        (
            READ,
            ("bash", {}, [{"type": "text", "text": FILE}, {"type": "tool_reference", "tool_name": "x"}]),
            {},
        ),
        (READ, CAT, {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}),
    ],
)
def test_what_is_not_the_same_or_not_ours_to_take_stays(first: Any, again: Any, members: Any) -> None:
    """Also where the provider takes results out itself: what a pointer means would go without a word to us."""
    body = orjson.dumps(request(first, again, **members))
    config = Config(min_bytes=1024, protect=("Todo",))
    assert sent(body, Ledger(), dedupe=config).body is body


@pytest.mark.parametrize("place", [2, 4])
def test_errors_are_neither_pointers_nor_pointed_at(place: int) -> None:
    """A call that failed is to be read where it failed."""
    body = request(READ, CAT)
    body["messages"][place]["content"][0]["is_error"] = True
    raw = orjson.dumps(body)
    assert sent(raw, Ledger(), dedupe=CONFIG).body is raw


def test_what_went_out_whole_stays_whole() -> None:
    """A conversation met in mid-life, or before the policy had this: what the provider has seen is not touched."""
    body = request(READ, CAT, ("bash", {"cmd": "date"}, "Monday"))
    raw = orjson.dumps(body)
    assert sent(raw, Ledger(), dedupe=CONFIG).body is raw


# -- in part -----------------------------------------------------------------------------------------------------


def test_of_a_file_read_again_behind_a_change_the_change_is_shown() -> None:
    """Each long block becomes a note with the lines in both outputs; what is new stands between them."""
    rows = FILE.splitlines()
    changed = "\n".join([*rows[:140], "new row", *rows[142:]])
    made = sent(request(READ, OTHER, ("read_file", {"path": "a.py"}, changed)), Ledger(), dedupe=BLOCKS)
    first, middle, last = shown(made)[-1].split("\n")
    assert middle == "new row"
    assert first == (
        "[Note on this output: lines 1 to 140 are left out here to save space (1260 bytes). Byte for byte, the same stands "
        'above, in lines 1 to 140 of the output of the most recent earlier read_file call ({"path":"a.py"}). '
        "This is no error and nothing else was changed.]"
    )
    assert "lines 142 to 299 are left out" in last
    assert "in lines 143 to 300 of the output" in last


def test_a_range_of_what_was_read_is_found_there() -> None:
    """Other arguments of the call may differ: the main one says what it is about."""
    piece = "".join(FILE.splitlines(keepends=True)[100:280])
    made = sent(request(READ, ("read_file", {"path": "a.py", "offset": 101}, piece)), Ledger(), dedupe=BLOCKS)
    assert "in lines 101 to 280 of the output" in shown(made)[-1]


def test_what_is_mostly_new_is_shown_whole() -> None:
    """Less than half of it stands above, or of another file, or behind a note already."""
    rows = FILE.splitlines()
    mostly = ("read_file", {"path": "a.py"}, "\n".join([*rows[:130], *lines("new", 300).splitlines()]))
    elsewhere = ("read_file", {"path": "b.py"}, "\n".join([*rows, "new"]))
    twice = [("read_file", {"path": "a.py"}, "\n".join([*rows, f"new {at}"])) for at in range(2)]
    for again in ((mostly,), (elsewhere,)):
        assert "[Note" not in str(shown(sent(request(READ, *again), Ledger(), dedupe=BLOCKS))[-1])
    ledger = Ledger()
    assert "[Note" in shown(sent(request(READ, twice[0]), ledger, dedupe=BLOCKS))[-1]
    assert "[Note" not in shown(sent(request(READ, *twice), ledger, dedupe=BLOCKS))[-1]


# -- beside other stages -------------------------------------------------------------------------------------------


def working(config: Config, **options: Any) -> Work:
    """A session before the embedded provider in which results are cleared as well."""
    work = Work(stale.Config(keep=1), **options)
    work.policy = Policy(
        name="test",
        stages=Stages(
            balance=balance.Config(),
            reasoning=reasoning.Config(),
            dedupe=config,
            stale=stale.Config(keep=1),
            breakpoints=breakpoints.Config(),
        ),
    )
    return work


def test_what_is_pointed_at_is_not_cleared() -> None:
    """The cache is cold and all else goes: the first read stays, for the pointer at it and for ever."""
    work = working(CONFIG)
    work.ask("f0")
    for name, then in (("f0", "f1"), ("f0", "f2"), ("f2", "f3"), ("f3", "f4"), ("f4", None)):
        work.give(lines(name), then)
    work.ask("more", wait=1_000.0)
    marks = [(is_placeholder(content), is_pointer(content)) for content in results(work.sent[-1])]
    assert marks == [(False, False), (False, True), (True, False), (True, False), (False, False)]
    work.give(lines("f5"))
    work.ask("more", wait=1_000.0)
    assert results(work.sent[-1])[0] == lines("f0")


def test_what_was_cleared_is_not_pointed_at() -> None:
    """Its content comes whole where it is read again."""
    work = working(CONFIG)
    work.reads(4)
    work.ask("f0", wait=1_000.0)
    assert is_placeholder(results(work.sent[-1])[0])
    work.give(lines("f0"))
    assert results(work.sent[-1])[-1] == lines("f0")


def test_what_went_to_the_spool_twice_is_shown_once() -> None:
    """The excerpt of the second equals that of the first, and becomes a pointer to it."""
    spooling = {
        "externalize": externalize.Config(threshold=2048, head=800, tail=200, errors=0),
        "dedupe": CONFIG,
    }
    spool = Spool(key=b"k", directory="/spool")
    ledger = Ledger()
    assert "spool-" in shown(sent(request(READ), ledger, spool=spool, **spooling))[0]
    first, again = shown(sent(request(READ, CAT), ledger, spool=spool, **spooling))
    assert "spool-" in first
    assert is_pointer(again)


def test_frames_keep_outputs_apart() -> None:
    """Output that is framed as data says in its frame which call it is of: no two are the same."""
    framing = {"label": label.Config(untrusted=["read_file", "bash"]), "dedupe": CONFIG}
    assert not any("[Note" in content for content in shown(sent(request(READ, CAT), Ledger(), **framing)))


def test_a_rewind_to_before_a_pointer_takes_it_back() -> None:
    """Another result at its place is judged by what stands before it there."""
    ledger = Ledger()
    assert is_pointer(shown(sent(request(READ, CAT), ledger, dedupe=CONFIG))[-1])
    other = ("bash", {"cmd": "cat a.py"}, lines("other", 300))
    assert shown(sent(request(READ, other), ledger, dedupe=CONFIG))[-1] == other[2]
    assert is_pointer(shown(sent(request(READ, CAT), ledger, dedupe=CONFIG))[-1])
