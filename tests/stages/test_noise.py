"""What a terminal is told and nobody reads leaves the output of commands, and no visible character with it."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.ledger import Ledger
from proxy.stages.noise import Config, quiet

from tests.stages.passing import request, sent, shown

TERMINAL = Config()
ALL = Config(blanks=True)
PROGRESS = "".join(f"\rbuilding {at:3d} %" for at in range(0, 101, 2)) + "\x1b[K\n"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\n", "plain\n"),
        ("\x1b[1;31merror\x1b[0m: it\x1b[K\n", "error: it\n"),
        ("\x1b[38:2:255:0:0mred\x1b[m", "red"),
        ("\x1b]0;title\x07\x1b]8;;http://a/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\\x1b(B\x1b7\x1b=done", "done"),
        ("\x1b]never ended", "never ended"),
        ("ends in \x1b", "ends in \x1b"),
        ("10 %\r50 %\r100 %\nnext", "100 %\nnext"),
        ("10 %\r\n20 %\r\n", "10 %\r\n20 %\r\n"),
        ("10 %\r20 %\r\r\n", "20 %\r\n"),
        ("working\r", "working\r"),
        ("working\r\x1b[Kdone", "done"),
        ("working\r\x1b[2K\r\n", "\r\n"),
        ("\x1b[32mdone\r\x1b[0m\n", "done\n"),
        ("two  \n  words \t\n", "two  \n  words \t\n"),
    ],
)
def test_a_screen_shows_as_much(text: str, seen: str) -> None:
    """Escape sequences are gone, and of a line drawn again and again the last state stays; line ends stay as they are."""
    assert quiet(text, TERMINAL) == seen


@pytest.mark.parametrize(
    ("text", "seen"),
    [("two  \n  words \t\r\n  ", "two\n  words\r\n"), ("\x1b[1mbold \x1b[0m\n", "bold\n"), ("a b", "a b")],
)
def test_blanks_at_line_ends_go_where_the_policy_says_so(text: str, seen: str) -> None:
    """Those at the beginning of a line and between words stay."""
    assert quiet(text, ALL) == seen


@given(st.text(st.sampled_from("ab \t\r\n\x1b[]0;mK\x07\\(")))
def test_what_is_quiet_has_no_noise(text: str) -> None:
    """Nothing that is visible is lost but earlier states of a line, and once is enough where no sequence was left open."""
    seen = quiet(text, ALL)
    assert len(seen) <= len(text)
    assert not any(line.rstrip("\r").count("\r") for line in seen.split("\n"))
    if "\x1b" not in seen:
        assert quiet(seen, ALL) == seen


def test_the_output_of_a_command_arrives_quiet_and_stays_so() -> None:
    """The same bytes in each later request, also when the policy says otherwise by then."""
    ledger = Ledger()
    first = sent(request(("bash", {"command": "make"}, PROGRESS)), ledger, noise=TERMINAL)
    assert shown(first) == ["building 100 %\n"]
    (edit,) = first.edits
    assert (edit.stage, edit.tokens_before > edit.tokens_after, edit.required) == ("noise", True, False)
    more = request(("bash", {"command": "make"}, PROGRESS), ("bash", {"command": "make test"}, PROGRESS))
    assert shown(sent(more, ledger)) == ["building 100 %\n", "building 100 %\n"]


def test_all_members_of_a_block_but_its_text_stay() -> None:
    """Lists of blocks are opened, each text is changed, and an image beside it is not."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    blocks = [{"type": "text", "text": PROGRESS, "cache_control": {"type": "ephemeral"}}, image]
    (content,) = shown(sent(request(("bash", {}, blocks)), Ledger(), noise=TERMINAL))
    assert content == [{**blocks[0], "text": "building 100 %\n"}, image]


@pytest.mark.parametrize(
    ("name", "content", "config"),
    [
        ("read_file", PROGRESS, TERMINAL),
        ("bash", "\x1b[1mshort\x1b[0m", TERMINAL),
        ("bash", "C:\\run\\new " * 20, TERMINAL),
        ("bash", "blank   \n" * 50, TERMINAL),
        ("bash", PROGRESS, Config(terminal=False)),
        ("bash", PROGRESS, Config(tools=("sh",))),
    ],
)
def test_what_is_exact_or_short_leaves_as_it_came(name: str, content: str, config: Config) -> None:
    """Other tools than those that run commands, and little noise: the client's own bytes go out."""
    body = orjson.dumps(request((name, {}, content)))
    assert sent(body, Ledger(), noise=config).body is body


def test_an_error_is_quiet_too() -> None:
    """It stays an error."""
    body = request(("bash", {}, PROGRESS))
    body["messages"][-1]["content"][0]["is_error"] = True
    made = orjson.loads(sent(body, Ledger(), noise=TERMINAL).body)
    block = made["messages"][-1]["content"][0]
    assert (block["content"], block["is_error"]) == ("building 100 %\n", True)
