"""Caches that are kept alive while a person pauses: over real sockets, with a clock and a sleep that tests move."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from proxy.gateway.app import Gateway
from proxy.gateway.conversations import Conversations
from proxy.gateway.settings import resolve
from proxy.gateway.values import KeepWarm
from proxy.gateway.warm import warming
from proxy.policy import load_policy
from proxy.simulator import Canned, Exchange, Provider, Server, Settings
from tests.gateway.rig import Answer, Client, post, run, settings
from tests.simulator.bodies import READ, RUN, assistant, user

KEYS = (b"anthropic-version: 2023-06-01", b"x-api-key: sk-secret")
CLAUDE = (
    *KEYS,
    b"user-agent: claude-cli/2.1.332 (external, cli)",
    b"x-claude-code-session-id: 11111111-0000-4000-8000-000000000001",
)
LONG = "The rules of this house. " * 2000


class Bench:
    """A provider with a cache, the proxy before it, and an agent; time goes on only where a test says so."""

    def __init__(
        self, setting: KeepWarm | None, *, model: str = "claude-opus-5", mode: str = "apply"
    ) -> None:
        self.now = 1_764_547_200.0
        self.model = model
        self.sleeping: list[tuple[float, asyncio.Future[None]]] = []
        self.slept = asyncio.Event()
        self.provider = Provider(Settings(binding="error"))
        self.server = Server(self.provider, clock=lambda: self.now)
        self.setting, self.mode = setting, mode
        self.log = io.StringIO()
        self.messages: list[dict[str, Any]] = []

    async def start(self) -> None:
        rewriter = Conversations(
            load_policy("careful"),
            mode=self.mode,  # type: ignore[arg-type]
            upstreams={"anthropic": "https://api.anthropic.com"},
            strict=True,
        )
        self.rewriter = rewriter
        self.gateway = Gateway(
            settings(self.server.url, keep_warm=self.setting),
            rewriter,
            stream=self.log,
            env={},
            clock=lambda: self.now,
            sleep=self.sleep,
        )
        await self.gateway.start()

    async def sleep(self, seconds: float) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sleeping.append((seconds, done))
        self.slept.set()
        await done

    async def wake(self, late: float = 0.0) -> float:
        """Let the time pass that is slept for, and `late` seconds more; how long that was."""
        while not (waiting := [one for one in self.sleeping if not one[1].done()]):
            self.slept.clear()
            await self.slept.wait()
        seconds, done = waiting[-1]
        self.now += seconds + late
        done.set_result(None)
        return seconds

    async def say(self, text: str, *headers: bytes, **members: Any) -> Exchange:
        """The next turn, ten seconds after whatever was before; what the provider noted of it."""
        self.now += 10
        self.messages.append(user(text))
        body = {
            "model": self.model,
            "max_tokens": 100,
            "system": [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}],
            "tools": [READ, RUN],
            "messages": self.messages,
            **members,
        }
        answer = await self.ask(post(orjson.dumps(body), "/v1/messages", *(headers or KEYS)))
        assert answer.status == 200, answer.body
        exchange = self.provider.log[-1]
        if not members.get("stream"):
            self.messages.append(assistant(*answer.json["content"]))
        return exchange

    async def ask(self, raw: bytes) -> Answer:
        client = await Client.connect(self.gateway.port)
        try:
            await client.send(raw)
            return await client.answer()
        finally:
            client.close()

    @property
    def pauses(self) -> int:
        return len(self.gateway._handler.warm._pauses)

    async def turns(self, number: int) -> list[dict[str, Any]]:
        while len(found := [one for one in map(json.loads, self.log.getvalue().splitlines())]) < number:
            await asyncio.sleep(0.002)
        return found

    async def over(self) -> None:
        while self.pauses:
            await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def bench(setting: KeepWarm | None, **changes: Any) -> AsyncIterator[Bench]:
    made = Bench(setting, **changes)
    await made.server.start()
    await made.start()
    try:
        yield made
    finally:
        await made.gateway.stop(drain=0)
        await made.server.stop()


ON = KeepWarm(dollars=100.0)


def test_after_a_long_pause_the_cache_is_still_there() -> None:
    """Two refreshes bridge thirteen minutes of a cache that lives for five; the next turn reads all of it, and the
    ledger knows that it will."""

    async def scene() -> None:
        async with bench(ON) as b:
            await b.say("One.")
            second = await b.say("Two.", stream=True)
            assert [await b.wake(), await b.wake()] == [270.0, 270.0]
            found = await b.turns(4)
            warm = b.provider.log[-1]
            assert json.loads(warm.body)["max_tokens"] == 0
            assert {**json.loads(warm.body), "max_tokens": 100, "stream": True} == json.loads(second.body)
            assert (warm.read, warm.written) == (second.read + second.written, 0)
            assert [line.get("warm") for line in found] == [None, None, True, True]
            assert (found[3]["outcome"], found[3]["cached"], found[3]["output"]) == ("ok", warm.read, 0)
            assert found[3]["conversation"] == found[1]["conversation"]
            b.messages.append(assistant({"type": "text", "text": "Fine."}))
            b.now += 230
            third = await b.say("Three.")
            assert third.read == warm.read
            last = (await b.turns(5))[4]
            assert "miss" not in last
            assert last["expected_ratio"] > 0.9
            (branch,) = [branch for root in b.rewriter.ledger._roots.values() for branch in root.values()]
            assert branch.frontiers[-1].at == b.now

    run(scene())


def test_without_the_setting_nothing_is_sent() -> None:
    """It is off unless asked for."""

    async def scene() -> None:
        async with bench(None) as b:
            await b.say("One.")
            await b.say("Two.")
            assert (b.pauses, b.sleeping, len(b.provider.log)) == (0, [], 2)

    run(scene())


def test_no_more_refreshes_than_can_pay() -> None:
    """Eleven where a read costs a tenth and a write 1.25; fewer where the setting says so, none beyond the money."""

    async def bridged(setting: KeepWarm) -> int:
        async with bench(setting) as b:
            await b.say("One.")
            await b.say("Two.")
            while b.pauses:
                waking = asyncio.ensure_future(b.wake())
                over = asyncio.ensure_future(b.over())
                await asyncio.wait({waking, over}, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0.02)
                waking.cancel()
                over.cancel()
            sent = [one for one in b.provider.log if json.loads(one.body)["max_tokens"] == 0]
            assert all(one.status == 200 and one.written == 0 for one in sent)
            return len(sent)

    assert run(bridged(ON)) == 11
    assert run(bridged(KeepWarm(refreshes=3, dollars=100.0))) == 3
    # Some 13,000 tokens at a tenth of five dollars a million: 0.7 cents a refresh.
    assert run(bridged(KeepWarm(dollars=0.02))) == 2


def test_the_clients_return_ends_the_pause() -> None:
    """Its own request refreshes the cache; the next pause begins with the next answer."""

    async def scene() -> None:
        async with bench(ON) as b:
            await b.say("One.")
            await b.say("Two.")
            await b.say("Three.")
            assert b.pauses == 1
            await asyncio.sleep(0)
            assert [one.cancelled() for _, one in b.sleeping] == [True, False]
            await b.wake()
            await b.turns(4)
            assert len(b.provider.log) == 4

    run(scene())


def test_too_late_is_not_at_all() -> None:
    """A machine that slept through the end of the lifetime writes nothing anew for nobody."""

    async def scene() -> None:
        async with bench(ON) as b:
            await b.say("One.")
            await b.say("Two.")
            await b.wake(late=31)
            await b.over()
            assert len(b.provider.log) == 2

    run(scene())


def test_a_refused_refresh_is_the_last() -> None:
    """Also for other conversations with that model where the provider does not take such requests."""

    async def scene() -> None:
        async with bench(ON) as b:
            await b.say("One.")
            await b.say("Two.")
            b.provider.canned.append(Canned.error(400, "max_tokens must be positive"))
            await b.wake()
            await b.over()
            refused = (await b.turns(3))[2]
            assert (refused["warm"], refused["status"], refused["outcome"]) == (True, 400, "refused")
            await b.say("Three.")
            assert b.pauses == 0

    run(scene())


def test_a_lost_cache_is_not_kept_warm() -> None:
    """Where a refresh finds nothing it has written all anew, once; then it is left to the client."""

    async def scene() -> None:
        async with bench(ON) as b:
            await b.say("One.")
            await b.say("Two.")
            b.provider.cache.__init__(b.provider.settings.lookback)  # type: ignore[misc]
            await b.wake()
            await b.over()
            assert (b.provider.log[-1].read, len(b.provider.log)) == (0, 3)

    run(scene())


@pytest.mark.parametrize(
    ("members", "headers"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}, ()),
        ({"tool_choice": {"type": "any"}}, ()),
        ({}, (b"x-claude-code-agent-id: agent-1",)),
    ],
)
def test_who_is_not_waited_for(members: dict[str, Any], headers: tuple[bytes, ...]) -> None:
    """Requests that cannot be asked for no answer, and sub-agents, who do not come back."""
    model = "claude-sonnet-4-5" if "thinking" in members else "claude-opus-5"

    async def scene() -> None:
        async with bench(ON, model=model) as b:
            await b.say("One.", *CLAUDE, *headers, **members)
            await b.say("Two.", *CLAUDE, *headers, **members)
            assert b.pauses == 0

    run(scene())


def test_a_session_has_one_conversation_that_is_waited_for() -> None:
    """A first request alone is no conversation; what an agent begins anew takes the place of what it had."""

    async def scene() -> None:
        async with bench(ON) as b:
            await b.say("One.", *CLAUDE)
            assert b.pauses == 0
            await b.say("Two.", *CLAUDE)
            assert b.pauses == 1
            b.messages.clear()
            await b.say("Begin again.", *CLAUDE)
            await b.say("Go on.", *CLAUDE)
            assert b.pauses == 1
            await asyncio.sleep(0)
            assert [one.cancelled() for _, one in b.sleeping] == [True, False]

    run(scene())


def test_observing_sends_nothing() -> None:
    """Mode observe changes nothing, so it sends nothing of its own either."""

    async def scene() -> None:
        async with bench(ON, mode="observe") as b:
            await b.say("One.")
            await b.say("Two.")
            assert b.pauses == 0

    run(scene())


def test_a_drain_ends_all_pauses() -> None:
    """A server that stops keeps nothing alive, and forgets whose keys it kept."""

    async def scene() -> None:
        async with bench(ON) as b:
            await b.say("One.")
            await b.say("Two.")
            assert b.pauses == 1
            await b.gateway.stop(drain=0)
            assert b.pauses == 0
            await asyncio.sleep(0)
            assert all(one.cancelled() for _, one in b.sleeping)
            assert "sk-secret" not in b.log.getvalue()

    run(scene())


def test_refreshes_are_counted_apart() -> None:
    """Metrics of the agent's requests do not have them."""

    async def scene() -> None:
        async with bench(ON) as b:
            await b.say("One.")
            await b.say("Two.")
            await b.turns(2)
            before = lines(b, "stet_tokens_total", "stet_requests_total")
            await b.wake()
            await b.turns(3)
            assert lines(b, "stet_tokens_total", "stet_requests_total") == before
            read = b.provider.log[-1].read
            assert lines(b, "stet_warm") >= {
                'stet_warm_total{outcome="ok",upstream="anthropic"} 1.0',
                f'stet_warm_tokens_total{{kind="cached",upstream="anthropic"}} {float(read)}',
            }

    run(scene())


def lines(b: Bench, *names: str) -> set[str]:
    shown = b.gateway.metrics.exposition().decode().splitlines()
    return {line for line in shown if line.startswith(names)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"m","max_tokens":9,"stream":true,"x":1e0}', b'{"model":"m","max_tokens":0,"x":1e0}'),
        (
            b'{"max_tokens":9,"thinking":{"type":"adaptive"}}',
            b'{"max_tokens":0,"thinking":{"type":"adaptive"}}',
        ),
        (
            b'{"max_tokens":9,"tool_choice":{"type":"auto"}}',
            b'{"max_tokens":0,"tool_choice":{"type":"auto"}}',
        ),
        (
            b'{"max_tokens":9,"output_config":{"effort":"low"}}',
            b'{"max_tokens":0,"output_config":{"effort":"low"}}',
        ),
        (b'{"max_tokens":9,"output_config":{"format":{"type":"json_schema"}}}', None),
        (b'{"max_tokens":9,"thinking":{"type":"enabled","budget_tokens":5}}', None),
        (b'{"max_tokens":9,"tool_choice":{"type":"tool","name":"x"}}', None),
        (b'{"model":"m"}', None),
        (b"nonsense", None),
    ],
)
def test_the_same_request_for_no_answer(body: bytes, expected: bytes | None) -> None:
    """All but two members stay as they are spelt, and what the provider would refuse is not sent."""
    assert warming(body) == expected


def test_the_setting(tmp_path: Any) -> None:
    """Off, on, or what it may cost."""
    home = {"HOME": "/h"}
    assert resolve({}, home).keep_warm is None
    assert resolve({}, {**home, "STET_KEEP_WARM": "on"}).keep_warm == KeepWarm(None, 1.0)
    file = tmp_path / "s.yaml"
    file.write_text("keep_warm: {refreshes: 6, dollars: 2}\n")
    assert resolve({}, home, file).keep_warm == KeepWarm(6, 2.0)
    file.write_text("keep_warm: {refreshes: 0}\n")
    with pytest.raises(Exception, match=r"s\.yaml:1:"):
        resolve({}, home, file)
    with pytest.raises(Exception, match="STET_KEEP_WARM: 'maybe' is not one of them; write off or on"):
        resolve({}, {**home, "STET_KEEP_WARM": "maybe"})
