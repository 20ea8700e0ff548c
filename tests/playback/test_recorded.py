"""From `stet serve --record` to `stet replay`: what is replayed is what was charged."""

import json
import os
import sys
from pathlib import Path

from proxy.cli import main
from proxy.demo.client import CodingAgent, headers
from proxy.demo.plan import model
from proxy.demo.sessions import SESSIONS
from proxy.demo.wire import Wire
from proxy.simulator import Clock, Provider, Server, Settings
from tests.processes import STARTED, running

import pytest

TURNS = 30


@pytest.mark.parametrize("name", ["clean client", "broken history", "prefix-checked model"])
def test_a_session_is_replayed_as_it_was_charged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """An agent plays through a proxy that records; under the same policy the replay costs the same, to the token.

    A client that breaks its own history is refused directly, in the replay too, though live it was answered.
    """
    session = next(one for one in SESSIONS if one.name == name)
    provider = Provider(Settings(binding="error", keep_bodies=False), model)
    clock = Clock(1_796_082_840.0, frozen=True)
    folder = tmp_path / "recorded"
    with Server(provider) as server:
        command = [sys.executable, "-m", "proxy", "serve", "--listen", "127.0.0.1:0", "--admin", "off"]
        command += ["--upstream", f"anthropic={server.url}#anthropic", "--state", "memory"]
        command += ["--log", "json", "--record", str(folder)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STET_")}
        with running(command, STARTED, tmp_path / "log", environment) as listen:
            host, _, port = listen.rpartition(":")
            wire = Wire(host, int(port), headers(session, "key"))
            agent = CodingAgent(session, wire, clock)
            statuses = []
            for _ in range(TURNS):
                clock.advance(agent.pause)
                statuses.append(agent.turn().status)
            wire.close()
    assert statuses == [200] * TURNS
    (file,) = folder.iterdir()
    assert main(["replay", str(file), "--json"]) == 0
    (replayed,) = json.loads(capsys.readouterr().out)["sessions"]
    rows = {line["path"]: line for line in replayed["lines"]}
    assert rows["default"]["cost"] == pytest.approx(sum(one.cost for one in provider.log), abs=0.1)
    assert (rows["default"]["requests"], rows["default"]["refused"]) == (TURNS, 0)
    assert (rows["direct"]["refused"] > 0) is (name != "clean client")
    assert not any("not counted" in note for note in replayed["notes"])
