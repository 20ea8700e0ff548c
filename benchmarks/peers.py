"""What sessions cost through Stet and through two other proxies, on the same load.

    python benchmarks/peers.py --headroom VENV/bin/headroom --lightfoot VENV/bin/python [--quick]

`pip install 'headroom-ai[proxy]' lightfoot` in a venv of its own; either may be left out. Each proxy runs as a process of
its own with its defaults (lightfoot: `mode = "live"`, which is what saves), in an empty home and without a network, so
that what it would download is not there. The demo's clean client plays its forty turns through it against the embedded
provider, once as it is and once with outputs of 25 kB. Pauses are left out, for a proxy that looks at the time looks
at the machine's. Costs are the provider's own count of each prompt in base input tokens.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from report import Table, save

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from proxy.demo.client import SECONDS_A_TURN, CodingAgent, headers  # noqa: E402
from proxy.demo.plan import TURNS, model  # noqa: E402
from proxy.demo.project import result  # noqa: E402
from proxy.demo.running import BEGINS  # noqa: E402
from proxy.demo.sessions import SESSIONS  # noqa: E402
from proxy.demo.wire import Wire  # noqa: E402
from proxy.simulator import Clock, Exchange, Provider, Server, Settings  # noqa: E402
from tests.processes import STARTED, await_port, free_port, running  # noqa: E402

OUTPUTS = {"as they are": 0, "25 kB": 25_000}
ROOT = Path(__file__).resolve().parents[1]

Way = Callable[[str, Path], Any]
"""From the provider's URL and a folder to a context with the URL for the client."""


@contextmanager
def direct(provider: str, folder: Path) -> Iterator[str]:
    """Nothing between client and provider."""
    yield provider


@contextmanager
def stet(policy: str, provider: str, folder: Path) -> Iterator[str]:
    """`stet serve` with a policy."""
    command = [sys.executable, "-m", "proxy", "serve", "--listen", "127.0.0.1:0", "--admin", "off"]
    command += ["--upstream", f"anthropic={provider},profile=anthropic", "--policy", policy]
    command += ["--log", "json", "--state", str(folder / "state")]
    with running(command, STARTED, folder / "log", _alone(folder) | {"PYTHONPATH": str(ROOT)}) as listen:
        yield f"http://{listen}"


@contextmanager
def headroom(program: Path, provider: str, folder: Path) -> Iterator[str]:
    """Headroom with its defaults, but for its limit of requests a minute."""
    port = free_port()
    command = [str(program), "proxy", "--port", str(port), "--no-rate-limit", "--anthropic-api-url", provider]
    quiet = {"HEADROOM_TELEMETRY": "off", "HF_HUB_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with running(command, "", folder / "log", _alone(folder) | quiet):
        await_port(port)
        yield f"http://127.0.0.1:{port}"


@contextmanager
def lightfoot(python: Path, provider: str, folder: Path) -> Iterator[str]:
    """Lightfoot, which rewrites in live mode only."""
    port = free_port()
    (folder / ".lightfoot").mkdir()
    (folder / ".lightfoot" / "config.toml").write_text(f'mode = "live"\nupstream = "{provider}"\n')
    command = [str(python), "-m", "lightfoot", "serve", "--port", str(port)]
    with running(command, "", folder / "log", _alone(folder)):
        await_port(port)
        yield f"http://127.0.0.1:{port}"


def _alone(home: Path) -> dict[str, str]:
    """An environment with nothing of ours in it."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "DO_NOT_TRACK": "1"}


def played(way: Way, least: int) -> tuple[list[Exchange], int]:
    """What the provider noted of a session, and how many turns the client saw refused."""
    clock, session = Clock(BEGINS, frozen=True), SESSIONS[0]
    provider = Provider(Settings(keep_bodies=False), model)
    refused = 0
    with (
        tempfile.TemporaryDirectory(prefix="stet-peers-") as name,
        Server(provider, clock=clock) as server,
        way(server.url, Path(name)) as url,
    ):
        address = urlsplit(url)
        assert address.hostname is not None
        assert address.port is not None
        wire = Wire(address.hostname, address.port, headers(session, "a-key"))
        agent = CodingAgent(session, wire, clock, partial(result, least=least))
        for _ in range(TURNS):
            clock.advance(SECONDS_A_TURN)
            refused += agent.turn().status != 200
        wire.close()
    return provider.log, refused


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="writes nothing")
    parser.add_argument("--headroom", type=Path, metavar="PROGRAM")
    parser.add_argument("--lightfoot", type=Path, metavar="PYTHON")
    given = parser.parse_args()
    ways: dict[str, Way] = {
        "direct": direct,
        "stet, default": partial(stet, "default"),
        "stet, frugal": partial(stet, "frugal"),
    }
    if given.headroom:
        ways["headroom-ai"] = partial(headroom, given.headroom)
    if given.lightfoot:
        ways["lightfoot"] = partial(lightfoot, given.lightfoot)
    table = Table(
        f"The same client through several proxies, {TURNS} turns",
        ("outputs, through", "refused", "requests", "prompt", "cached", "cost", "of direct"),
        "cost: of all prompts in base input tokens, by the provider's count. requests: those that reached the provider. "
        "refused: turns that the client saw refused.",
    )  # fmt: skip
    numbers: dict[str, Any] = {}
    for outputs, least in OUTPUTS.items():
        base = 0.0
        for name, way in ways.items():
            log, refused = played(way, least)
            cost, total = sum(one.cost for one in log), sum(one.total for one in log)
            read = sum(one.read for one in log)
            base = base or cost
            numbers[f"{outputs}, {name}"] = {"cost": cost, "prompt": total, "read": read, "refused": refused}
            table.add(
                f"{outputs}, {name}",
                refused,
                len(log),
                total,
                f"{read / total:.1%}",
                round(cost),
                f"{cost / base:.2f}",
            )
    save("peers", [table], numbers, quick=given.quick)


if __name__ == "__main__":
    main()
