"""A huge output on its way through the proxy, and how an agent gets the rest of it: all over real sockets."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.gateway.app import Gateway
from proxy.gateway.callers import reached_at
from proxy.gateway.conversations import Conversations
from proxy.gateway.projectfiles import ProjectFiles
from proxy.gateway.spool import Bounds, SpoolDirectory
from proxy.gateway.spooled import cut
from proxy.policy import load_policy
from proxy.simulator import Call, Provider, Reply, Say, Server, Settings, prompt
from proxy.spool import HANDLE, Spooled
from proxy.stores.memory import MemoryStore
from tests.gateway.rig import Answer, Client, post, run, settings
from tests.simulator.bodies import READ, RUN, assistant, result, user

LOG = "".join(
    f"unit {at:05d} is built\n" if at % 500 else f"unit {at:05d}: error: é\n" for at in range(1, 4001)
)
KEYS = (b"anthropic-version: 2023-06-01", b"x-api-key: sk-test")
HANDLE_OF_NOTHING = "spool-" + "0" * 32


class Bench:
    """A provider with a strict check and a cache, the proxy before it, and an agent that keeps its conversation."""

    def __init__(self, state: Path, policy: str = "frugal", mode: str = "apply", **bounds: float) -> None:
        self.state = state
        self.warned: list[str] = []
        self.log = io.StringIO()
        self.now = 1_764_547_200.0
        self.provider = Provider(Settings(binding="error"), lambda _: self.reply)
        self.server = Server(self.provider, clock=lambda: self.now)
        self.reply = Reply(blocks=(Say("Fine."),))
        self.store = MemoryStore()
        self.bounds = Bounds(**bounds)
        self.policy, self.mode = policy, mode
        self.messages: list[dict[str, Any]] = []
        self.system = ""

    async def start(self, *, shown: bool = True, **changes: Any) -> None:
        """Start the proxy, or start it again."""
        spool = SpoolDirectory(
            self.state / "spool",
            self.state,
            lambda fault: self.warned.append(str(fault)),
            shown=str(self.state / "spool") if shown else "",
            bounds=self.bounds,
            clock=lambda: self.now,
        )
        rewriter = Conversations(
            load_policy(self.policy),
            store=self.store,
            mode=self.mode,  # type: ignore[arg-type]
            upstreams={"anthropic": "https://api.anthropic.com"},
            strict=True,
            spool=spool,
            project=ProjectFiles(self.state, lambda fault: self.warned.append(str(fault))),
        )
        self.gateway = Gateway(
            settings(self.server.url, **changes),
            rewriter,
            stream=self.log,
            env={},
            clock=lambda: self.now,
            spool=spool,
        )
        await self.gateway.start()

    async def say(self, *content: Any, then: Call | None = None) -> dict[str, Any]:
        """The next turn; what the provider got of it."""
        self.now += 10
        self.messages.append(user(*content))
        self.reply = Reply(blocks=(then or Say("Fine."),))
        body = {"model": "claude-opus-5", "max_tokens": 100, "tools": [READ, RUN], "messages": self.messages}
        if self.system:
            body["system"] = self.system
        answer = await self.ask(post(orjson.dumps(body), "/v1/messages", *KEYS))
        assert answer.status == 200, answer.body
        self.messages.append(assistant(*answer.json["content"]))
        return json.loads(self.provider.log[-1].body)

    async def give(self, output: object, then: Call | None = None, **members: Any) -> dict[str, Any]:
        """The result of the last call."""
        return await self.say(result(self.messages[-1]["content"][-1]["id"], output, **members), then=then)

    async def get(self, target: str, *headers: str, method: str = "GET") -> Answer:
        lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", *headers]
        return await self.ask("".join(f"{line}\r\n" for line in [*lines, ""]).encode(), method)

    async def ask(self, raw: bytes, method: str = "POST") -> Answer:
        client = await Client.connect(self.gateway.port)
        try:
            await client.send(raw)
            return await client.answer(method=method)
        finally:
            client.close()

    def keep(self, data: bytes) -> str:
        """Put something into the spool without a conversation."""
        spool = self.gateway._handler._spool  # the one that serves
        assert spool is not None
        seen = spool.seen_from("http://x")
        assert seen is not None
        handle = seen.handle(data)
        assert spool.hold([Spooled(handle=handle, data=data)])
        return handle


@contextlib.asynccontextmanager
async def bench(
    state: Path, policy: str = "frugal", mode: str = "apply", **bounds: float
) -> AsyncIterator[Bench]:
    made = Bench(state, policy, mode, **bounds)
    await made.server.start()
    await made.start()
    try:
        yield made
    finally:
        await made.gateway.stop(drain=0)
        await made.server.stop()


def output(sent: dict[str, Any], place: int = 2) -> str:
    return sent["messages"][place]["content"][0]["content"]


MAKE = Call("run", {"cmd": "make"})


def test_reading_an_output_back_is_a_regret_of_its_tool(tmp_path: Path) -> None:
    """The log line of the turn says which tool's output was fetched again."""

    async def scene() -> None:
        async with bench(tmp_path) as work:
            await work.say("Build it.", then=MAKE)
            name = HANDLE.search(output(await work.give(LOG, then=MAKE)))
            assert name is not None
            ask = Call("run", {"cmd": f"sed -n 40,60p {tmp_path}/spool/{name[0]}.txt"})
            await work.give("built", then=ask)
            await work.give("unit 00040 is built\n" * 20)
            await asyncio.sleep(0.05)
            turns = map(json.loads, work.log.getvalue().splitlines())
            assert [turn.get("regrets") for turn in turns if turn["event"] == "turn"] == [
                None,
                None,
                None,
                {"run": 1},
            ]

    run(scene())


def test_an_agent_works_with_a_huge_output(tmp_path: Path) -> None:
    """It is shortened on arrival and for ever, read again over HTTP and by path, and the cache holds all along."""

    async def scene() -> None:
        async with bench(tmp_path) as b:
            await b.say("Build it. " * 1000, then=MAKE)
            first = await b.give(LOG, then=Call("run", {"cmd": "curl"}))
            shown = output(first)
            (handle,) = set(HANDLE.findall(shown))
            assert len(shown) < 8000
            assert f"- GET http://127.0.0.1/stet/spool/{handle}?lines=" in shown
            assert "\n500: unit 00500: error: é\n" in shown
            assert (tmp_path / "spool" / f"{handle}.txt").read_text() == LOG

            got = await b.get(f"/stet/spool/{handle}?lines=400-2600")
            assert (got.status, got.body.decode()) == (200, "".join(LOG.splitlines(True)[399:2600]))
            b.messages[-1]["content"][-1]["input"] = {
                "cmd": f"curl -s http://127.0.0.1/stet/spool/{handle}?lines=400-2600"
            }
            second = await b.give(got.body.decode(), then=Call("read_file", {"path": "x"}))
            assert output(second) == shown
            assert output(second, 4) == got.body.decode()

            path = str(tmp_path / "spool" / f"{handle}.txt")
            b.messages[-1]["content"][-1]["input"] = {"path": path}
            third = await b.give(Path(path).read_text(), then=MAKE)
            assert output(third, 6) == LOG
            fourth = await b.give("done")
            before, after = (
                [spot.chain for spot in prompt(orjson.dumps(sent), as_sent=True)] for sent in (third, fourth)
            )
            assert after[: len(before)] == before
            assert all(one.read > 0 for one in b.provider.log[1:])
            assert [one.error for one in b.provider.log] == [None] * 5

    run(scene())


def test_what_was_said_once_is_said_after_a_restart_and_the_loss_of_the_secret(tmp_path: Path) -> None:
    """The ledger has the bytes. The same output later has another handle, and both can be read."""

    async def scene() -> None:
        async with bench(tmp_path) as b:
            await b.say("Build it.", then=MAKE)
            first = await b.give(LOG, then=MAKE)
            await b.gateway.stop(drain=0)
            (tmp_path / "spool.key").unlink()
            await b.start()
            second = await b.give(LOG)
            assert output(second) == output(first)
            handles = set(HANDLE.findall(output(second))) | set(HANDLE.findall(output(second, 4)))
            assert len(handles) == 2
            for handle in handles:
                assert (await b.get(f"/stet/spool/{handle}")).body.decode() == LOG

    run(scene())


@pytest.mark.parametrize("how", ["tiny", "in the way"])
def test_where_it_cannot_be_kept_it_stays_in_the_prompt(tmp_path: Path, how: str) -> None:
    """The client's own bytes go out, one warning says why, and no later turn takes out what was seen whole."""

    async def scene() -> None:
        if how == "in the way":
            (tmp_path / "spool").write_text("a file")
        async with bench(tmp_path, bytes=10_000 if how == "tiny" else 1 << 30) as b:
            await b.say("Build it.", then=MAKE)
            sent = await b.give(LOG, then=MAKE)
            assert output(sent) == LOG
            assert len(b.warned) == 1 and "they stay in the prompt" in b.warned[0]
            b.gateway._handler._spool.bounds = Bounds()  # type: ignore[union-attr]
            if how == "in the way":
                (tmp_path / "spool").unlink()
            sent = await b.give(LOG + "again\n")
            assert output(sent) == LOG
            assert "[Note on this output" in output(sent, 4)
            told = [json.loads(line) for line in b.log.getvalue().splitlines()]
            assert told[1]["held"] == {"externalize": 1}
            assert told[2]["edits"]["externalize"] == 1
            assert told[2]["reclaimed_tokens"] > 10_000

    run(scene())


@pytest.mark.parametrize(("policy", "mode"), [("default", "apply"), ("frugal", "observe")])
def test_nothing_is_kept_where_nothing_is_taken_out(tmp_path: Path, policy: str, mode: str) -> None:
    """By a policy without the stage, and where requests are only observed."""

    async def scene() -> None:
        async with bench(tmp_path, policy, mode) as b:
            await b.say("Build it.", then=MAKE)
            assert output(await b.give(LOG)) == LOG
            assert not (tmp_path / "spool").exists()
            told = [json.loads(line) for line in b.log.getvalue().splitlines()]
            assert ("externalize" in told[1].get("edits", {})) == (mode == "observe")

    run(scene())


def test_counting_tokens_keeps_nothing(tmp_path: Path) -> None:
    """It counts what would be sent, and sends nothing to a model."""

    async def scene() -> None:
        async with bench(tmp_path) as b:
            messages = [user("Go."), assistant({"type": "tool_use", "id": "t1", "name": "run", "input": {}})]
            body = {"model": "claude-opus-5", "messages": [*messages, user(result("t1", LOG))]}
            answer = await b.ask(post(orjson.dumps(body), "/v1/messages/count_tokens", *KEYS))
            assert answer.json["input_tokens"] < 4000
            assert not (tmp_path / "spool").exists()

    run(scene())


def test_a_note_names_the_host_that_the_agent_calls_us_by(tmp_path: Path) -> None:
    """And no path where agents do not share the disk; a name that is none names nothing."""

    async def scene() -> None:
        async with bench(tmp_path) as b:
            await b.gateway.stop(drain=0)
            await b.start(shown=False, allowed_hosts=("*",))
            body = {
                "model": "claude-opus-5",
                "max_tokens": 9,
                "messages": [
                    user("Go."),
                    assistant({"type": "tool_use", "id": "t1", "name": "run", "input": {"cmd": "make"}}),
                    user(result("t1", LOG)),
                ],
            }
            for number, (host, says) in enumerate(
                [
                    ("stet.internal:80", "http://stet.internal:80/stet/spool/"),
                    ("[::1]:9", "http://[::1]:9/stet/spool/"),
                ]
            ):
                body["messages"][0] = user(f"Go {number}.")
                await b.ask(
                    post(orjson.dumps(body), "/v1/messages", *KEYS).replace(
                        b"Host: 127.0.0.1", f"Host: {host}".encode()
                    )
                )
                assert says in output(json.loads(b.provider.log[-1].body))
                assert "- file" not in output(json.loads(b.provider.log[-1].body))
            body["messages"][0] = user("Go on.")
            await b.ask(
                post(orjson.dumps(body), "/v1/messages", *KEYS).replace(b"Host: 127.0.0.1", b'Host: a"b')
            )
            assert output(json.loads(b.provider.log[-1].body)) == LOG

    run(scene())


@pytest.mark.parametrize(
    ("headers", "url"),
    [
        ({"host": "127.0.0.1:8787"}, "http://127.0.0.1:8787"),
        ({"host": "stet.internal", "x-forwarded-proto": "HTTPS"}, "https://stet.internal"),
        ({"host": "[::1]:1"}, "http://[::1]:1"),
        ({"host": "a/../b"}, ""),
        ({"host": "a b"}, ""),
        ({"host": "a:b@c"}, ""),
        ({"host": "a\nb"}, ""),
        ({"host": ""}, ""),
        ({}, ""),
    ],
)
def test_where_an_agent_reaches_us(headers: dict[str, str], url: str) -> None:
    """By the name it used itself, if that is one."""
    assert reached_at(headers) == url


# -- reading -------------------------------------------------------------------------------------------------


def test_it_is_plain_text_and_nothing_a_browser_would_run(tmp_path: Path) -> None:
    """Whatever a tool printed, also a web page."""

    async def scene() -> None:
        async with bench(tmp_path) as b:
            handle = b.keep(b"<script>alert(1)</script>")
            got = await b.get(f"/stet/spool/{handle}")
            named = dict(got.headers)
            assert (got.status, got.body) == (200, b"<script>alert(1)</script>")
            assert named["Content-Type"] == "text/plain; charset=utf-8"
            assert named["X-Content-Type-Options"] == "nosniff"
            assert "sandbox" in named["Content-Security-Policy"]
            assert named["Cache-Control"] == "no-store"
            head = await b.get(f"/stet/spool/{handle}", method="HEAD")
            assert (head.status, head.body, dict(head.headers)["Content-Length"]) == (200, b"", "25")
            for method in ("POST", "PUT", "DELETE"):
                refused = await b.get(f"/stet/spool/{handle}", "Content-Length: 0", method=method)
                assert (refused.status, dict(refused.headers)["Allow"]) == (405, "GET, HEAD")
            assert b.provider.log == []

    run(scene())


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (HANDLE_OF_NOTHING, 410),
        (HANDLE_OF_NOTHING + "?lines=1-2", 410),
        ("../spool.key", 404),
        ("..%2fspool.key", 404),
        ("%2e%2e/spool.key", 404),
        (HANDLE_OF_NOTHING + ".txt", 404),
        (HANDLE_OF_NOTHING + "/../../spool.key", 404),
        (HANDLE_OF_NOTHING.upper(), 404),
        ("", 404),
        ("//etc/passwd", 404),
    ],
)
def test_only_handles_are_answered(tmp_path: Path, path: str, status: int) -> None:
    """What is no handle names nothing; what could be one and is not there is gone, in words an agent can act on."""

    async def scene() -> None:
        async with bench(tmp_path) as b:
            b.keep(b"x")
            got = await b.get(f"/stet/spool/{path}")
            assert got.status == status
            assert dict(got.headers)["Content-Type"] == "text/plain; charset=utf-8"
            if status == 410:
                assert got.body == (
                    b"stet: nothing is kept under this handle any more: outputs stay for 30 days or until newer ones "
                    b"need the room. Run the tool again.\n"
                )
            assert b.provider.log == []

    run(scene())


def test_an_agent_may_hold_a_handle_longer_than_the_spool(tmp_path: Path) -> None:
    """The note stands in its prompt for ever; what is behind it goes, and the answer says so."""

    async def scene() -> None:
        async with bench(tmp_path, age_s=3600) as b:
            await b.say("Build it.", then=MAKE)
            shown = output(await b.give(LOG, then=MAKE))
            (handle,) = set(HANDLE.findall(shown))
            b.now += 3700
            got = await b.get(f"/stet/spool/{handle}")
            assert got.status == 410
            assert b"any more" in got.body
            assert output(await b.give("ok")) == shown

    run(scene())


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Origin: https://evil.example", 403),
        ("Origin: http://localhost:3000", 200),
        ("X-Nothing: 1", 200),
    ],
)
def test_web_pages_are_kept_out(tmp_path: Path, header: str, status: int) -> None:
    """The guard of all requests stands before the spool: foreign origins, and names that were rebound."""

    async def scene() -> None:
        async with bench(tmp_path) as b:
            handle = b.keep(b"x")
            assert (await b.get(f"/stet/spool/{handle}", header)).status == status
            rebound = f"GET /stet/spool/{handle} HTTP/1.1\r\nHost: evil.example\r\n{header}\r\n\r\n".encode()
            assert (await b.ask(rebound, "GET")).status == 403

    run(scene())


def test_no_log_has_a_handle(tmp_path: Path) -> None:
    """Who reads the log could read the spool with it."""

    async def scene() -> None:
        async with bench(tmp_path) as b:
            handle = b.keep(b"x")
            await b.get(f"/stet/spool/{handle}?lines=1-2")
            await b.get(f"/stet/spool/{handle}", "Origin: https://evil.example")
            await b.get(f"/stet/spool/{HANDLE_OF_NOTHING}")
            while b.log.getvalue().count('"turn"') < 3:
                await asyncio.sleep(0.005)
            told = [json.loads(line) for line in b.log.getvalue().splitlines()]
            assert [(line["path"], line["outcome"], line["status"]) for line in told] == [
                ("/stet/spool/...", "passed", 200),
                ("/stet/spool/...", "rejected", 403),
                ("/stet/spool/...", "rejected", 410),
            ]
            assert "spool-" not in b.log.getvalue()

    run(scene())


TEXT = "one\ntwo é\r\nthree\x0cstill\n\nfive".encode()


@pytest.mark.parametrize(
    ("asked", "status", "body", "told"),
    [
        ({}, 200, TEXT, ""),
        ({"lines": "1-2"}, 200, "one\ntwo é\r\n".encode(), "lines 1-2/5"),
        ({"lines": "3"}, 200, b"three\x0cstill\n", "lines 3-3/5"),
        ({"lines": "4-"}, 200, b"\nfive", "lines 4-5/5"),
        ({"lines": "-2"}, 200, b"\nfive", "lines 4-5/5"),
        ({"lines": "-99"}, 200, TEXT, "lines 1-5/5"),
        ({"lines": "5-99"}, 200, b"five", "lines 5-5/5"),
        ({"lines": "6-"}, 416, b"", ""),
        ({"lines": "6"}, 416, b"", ""),
        ({"lines": "0-3"}, 416, b"", ""),
        ({"lines": "-0"}, 416, b"", ""),
        ({"lines": "4-3"}, 416, b"", ""),
        ({"bytes": "0-2"}, 200, b"one", "bytes 0-2/29"),
        ({"bytes": "8-8"}, 200, b"", "bytes 8-8/29"),
        ({"bytes": "4-8"}, 200, b"two ", "bytes 4-8/29"),
        ({"bytes": "25-"}, 200, b"five", "bytes 25-28/29"),
        ({"bytes": "29-"}, 416, b"", ""),
        ({"lines": "a-b"}, 400, b"", ""),
        ({"lines": "-"}, 400, b"", ""),
        ({"lines": ""}, 400, b"", ""),
        ({"lines": "1-2,4-5"}, 400, b"", ""),
        ({"lines": "9" * 13}, 400, b"", ""),
        ({"lines": "1-2", "bytes": "1-2"}, 400, b"", ""),
    ],
)
def test_ranges(asked: dict[str, str], status: int, body: bytes, told: str) -> None:
    """Lines end with line feeds and nothing else, as tools that read a file count them; half characters stay out."""
    assert len(TEXT) == 29
    got = cut(TEXT, asked)
    assert (got.status, got.range) == (status, told)
    if status == 200:
        assert got.body == body
    elif status == 416:
        assert got.body.startswith(b"there are ")
    else:
        assert got.body.startswith(b"write lines=A-B")
