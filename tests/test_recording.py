"""A recording is read back as it was written, and a damaged one is told by its line."""

import gzip
from pathlib import Path

import pytest

from proxy.recording import Recorded, RecordingError, kept_headers, kept_path, line, read, spelt
from proxy.usage import Usage

WHOLE = Recorded(
    path="/v1/messages?beta=true",
    headers={"user-agent": "claude-cli/2.1"},
    body='{"a": 1e0}',
    at=1_764_547_200.25,
    dialect="anthropic",
    upstream="anthropic",
    profile="anthropic",
    status=200,
    usage=Usage(prompt=9, uncached=2, cached=7),
    calls=("toolu_1",),
)


@pytest.mark.parametrize("packed", [False, True])
def test_what_was_written_is_read_back(tmp_path: Path, packed: bool) -> None:
    """Plain and gzip, with every member and with those alone that must be there; blank lines are nothing."""
    least = Recorded(path="/v1/messages", headers={}, body="{}")
    raw = line(WHOLE) + b"\n" + line(least)
    file = tmp_path / "session.jsonl"
    file.write_bytes(gzip.compress(raw) if packed else raw)
    assert read(file) == [WHOLE, least]


@pytest.mark.parametrize("body", [b'{"text":"\xc3\xa9\\ud83d"}', b'{"text":"\xff"}'])
def test_a_body_comes_back_byte_for_byte(tmp_path: Path, body: bytes) -> None:
    """Also one that is no text."""
    file = tmp_path / "session.jsonl"
    file.write_bytes(line(Recorded(path="/", headers={}, **spelt(body))))
    assert [one.wire for one in read(file)] == [body]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (
            b'{"path": "/", "headers": {}, "body": "{',
            ":2: is no JSON (Input data was truncated); delete this",
        ),
        (
            b'{"path": "/", "body": "{}"}\n',
            ":2: is no recorded request: Object missing required field `headers`",
        ),
        (b'{"path": "/", "headers": {}, "base64": "!"}\n', ":2: its body is no base64; delete this line"),
        (b'{"path": "/", "headers": {}}\n', ":2: has no body; delete this line"),
        (b"[]\n", ":2: is no recorded request: Expected `object`, got `array`; stet serve --record writes"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, raw: bytes, said: str) -> None:
    """File, line, what is wrong, what to do."""
    file = tmp_path / "session.jsonl"
    file.write_bytes(line(WHOLE) + raw)
    with pytest.raises(RecordingError) as fault:
        read(file)
    assert str(fault.value).startswith(f"{file}{said}")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """One that is not there, and one that was cut."""
    with pytest.raises(RecordingError, match="cannot be read"):
        read(tmp_path / "none.jsonl")
    file = tmp_path / "cut.jsonl.gz"
    file.write_bytes(gzip.compress(line(WHOLE))[:-20])
    with pytest.raises(RecordingError, match="is cut short or damaged"):
        read(file)


def test_only_what_is_listed_is_kept() -> None:
    """A header that nobody has thought of stays out, and a secret one does even where an agent's file asks for it."""
    headers = [
        ("User-Agent", "pi/1"),
        ("X-Api-Key", "sk-1"),
        ("Authorization", "Bearer sk-2"),
        ("X-Session-Id", "ses_1"),
        ("X-New-Secret", "sk-3"),
    ]
    asked = frozenset({"x-session-id", "authorization"})
    assert kept_headers(headers, asked) == {"user-agent": "pi/1", "x-session-id": "ses_1"}
    assert kept_path("/v1beta/models/m:streamGenerateContent", "alt=sse&key=AIza&x=y") == (
        "/v1beta/models/m:streamGenerateContent?alt=sse"
    )
    assert kept_path("/v1/messages", "key=AIza") == "/v1/messages"
