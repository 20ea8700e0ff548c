"""`stet report`: the same sums from the admin page of a proxy that runs and from the log it wrote."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from tests.gateway.rig import LAST, SSE_HEAD, START, STOP, chunk, post, respond, rig, run

BODY = (
    b'{"model":"claude-opus-5","max_tokens":9,"messages":[{"role":"user","content":"Hello."}],"stream":true}'
)


def test_the_page_and_the_log_tell_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests, endings, tokens and cost, over real sockets."""
    log = tmp_path / "stet.log"

    async def scene() -> None:
        async with rig() as played:
            for _ in range(2):
                played.provider.play(SSE_HEAD, chunk(START), chunk(STOP), LAST)
                await played.ask(post(BODY))
            played.provider.play(respond(b'{"type":"error"}', "529 Overloaded"))
            await played.ask(post(BODY))
            await played.turns(3)
            log.write_text(played.log.getvalue())
            assert played.gateway.admin_address is not None
            monkeypatch.setenv("STET_ADMIN", str(played.gateway.admin_address))
            assert await asyncio.to_thread(main, ["report", "--json"]) == 0
            assert await asyncio.to_thread(main, ["report"]) == 0

    run(scene())
    raw = capsys.readouterr().out
    page, end = json.JSONDecoder().raw_decode(raw)
    assert (page["tally"]["turns"], page["tally"]["endings"]) == (3, {"ok": 2, "refused": 1})
    assert (page["tally"]["prompt"], page["tally"]["cached"], page["tally"]["output"]) == (206, 120, 18)
    said = raw[end:].splitlines()
    assert said[1].startswith("stet: http://127.0.0.1:")
    assert "3 (" in said[2]
    assert said[2].endswith("1 refused")
    assert "206 in, 58% of them from cache; 18 out" in said[3]
    assert main(["report", str(log), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tally"] == page["tally"]


def test_a_log_says_what_stood_behind_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prices are those of the upstream at the time; what is no line of a log is passed over."""
    log = tmp_path / "stet.log"
    turn: dict[str, Any] = {
        "event": "turn",
        "outcome": "ok",
        "dialect": "openai_chat",
        "upstream": "house",
        "model": "kimi-k2.5",
        "prompt": 1000,
        "input": 200,
        "cached": 800,
        "output": 10,
    }
    events: list[dict[str, Any]] = [
        {"event": "started", "policy": "careful", "upstreams": {"house": {"url": "x", "profile": "vllm"}}},
        {**turn, "time": "2026-11-30T12:00:00.000Z"},
        {**turn, "time": "2026-11-30T12:10:30.000Z", "miss": "client"},
    ]
    log.write_text("not a line\n" + "".join(f"{json.dumps(event)}\n" for event in events))
    assert main(["report", str(log)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"stet: {log}, 10 min 30 s, policy careful"
    assert said[1] == "  requests   2 (kimi-k2.5)"
    assert said[-1] == "  missed     1x the client changed what was sent before"


def test_where_there_is_nothing_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with the cure."""
    empty = tmp_path / "e.log"
    empty.write_text("12:31:07 ok  200\n")
    monkeypatch.setenv("STET_ADMIN", "127.0.0.1:1")
    assert [main(["report", *logs]) for logs in ([], [str(empty)], [str(tmp_path / "none")])] == [1, 1, 1]
    assert capsys.readouterr().err.splitlines() == [
        "stet: report: no proxy answers at http://127.0.0.1:1; start one, or name a log that it wrote with --log json",
        f"stet: {empty}: holds no line of a log in JSON; start stet serve with --log json",
        f"stet: {tmp_path / 'none'}: cannot be read (No such file or directory); give the path of a log",
    ]
    monkeypatch.setenv("STET_ADMIN", "off")
    assert main(["report"]) == 1
    assert "the proxy has no admin page" in capsys.readouterr().err
