"""What it costs to have Stet in between: waiting, throughput, smoothness of streams, memory, start, size.

    python benchmarks/overhead.py [--quick] [--only PART ...] [--venv PATH]

Provider, proxies and clients are processes of their own. Each figure stands beside the same one taken directly and
through a bare pass-through on aiohttp, turn about, in the same run. Wall-clock times: on a busy machine only the
differences say something.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import Distribution, distributions
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from report import Table, save

HERE = Path(__file__).parent
PARTS = ("latency", "throughput", "streams", "memory", "start", "size")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until somebody answers at the port."""
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise RuntimeError(f"{process.args} ended with {process.returncode}")
        time.sleep(0.001)


@contextmanager
def running(*command: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def stet(port: int, upstream: int, state: str, policy: str = "default") -> list[str]:
    listen, url = f"127.0.0.1:{port}", f"anthropic=http://127.0.0.1:{upstream}#anthropic"
    return [
        sys.executable, "-m", "proxy", "serve", "--listen", listen, "--admin", "off", "--state", state,
        "--policy", policy, "--log", "json", "--upstream", url,
    ]  # fmt: skip


def job(work: str, /, **given: Any) -> Any:
    """Run a client in a process of its own."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        told = subprocess.run(
            [sys.executable, str(HERE / "load.py"), json.dumps({"job": work, **given})],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if told.returncode:
            raise RuntimeError(told.stderr)
        out.seek(0)
        return json.load(out)


def resident(pid: int) -> float:
    """Megabytes of a process in memory."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1024


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used, its threads' included."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def p(values: list[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1]


class Bench:
    """The processes under test, and the tables."""

    def __init__(self, quick: bool, venv: Path) -> None:
        self.quick, self.venv = quick, venv
        self.tables: list[Table] = []
        self.numbers: dict[str, Any] = {}
        self.pids: dict[str, int] = {}

    def table(self, title: str, *columns: str, note: str = "") -> Table:
        self.tables.append(Table(title, columns, note))
        return self.tables[-1]

    @contextmanager
    def ports(self) -> Iterator[dict[str, int]]:
        """Direct, through the pass-through, and through Stet; `pids` has the two proxies meanwhile."""
        with ExitStack() as stack:
            upstream, bare, ours = free_port(), free_port(), free_port()
            state = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(
                running(sys.executable, str(HERE / "upstream.py"), str(upstream), port=upstream)
            )
            plain = [sys.executable, str(HERE / "passthrough.py"), str(bare), f"http://127.0.0.1:{upstream}"]
            self.pids = {
                "bare": stack.enter_context(running(*plain, port=bare)).pid,
                "stet": stack.enter_context(running(*stet(ours, upstream, state), port=ours)).pid,
            }
            yield {"direct": upstream, "bare": bare, "stet": ours}

    def latency(self) -> None:
        table = self.table("Time to first byte, ms", "body", "path", "p50", "p99", "p50 added", "p99 added")
        for size in (5_000, 500_000):
            with self.ports() as ports:
                found = job("first_bytes", ports=ports, size=size, turns=60 if self.quick else 400)
            for name, values in found.items():
                row = {"p50": p(values, 50), "p99": p(values, 99)}
                row |= {
                    "p50_added": row["p50"] - p(found["direct"], 50),
                    "p99_added": row["p99"] - p(found["direct"], 99),
                }
                self.numbers.setdefault("latency", {})[f"{size}.{name}"] = row
                table.add(f"{size // 1000} kB", name, *row.values())

    def throughput(self) -> None:
        table = self.table(
            "Requests a second", "body", "clients", "direct", "bare", "stet", "stet / bare", "bare ms", "stet ms", "ratio",
            note="ms: CPU of the proxy's process per request, which a busy machine does not change much.",
        )  # fmt: skip
        for size in (5_000, 500_000):
            clients, seconds = 16 if size < 100_000 else 4, 3.0 if self.quick else 8.0
            with self.ports() as ports:
                runs: dict[str, list[float]] = {name: [] for name in ports}
                costs: dict[str, list[float]] = {name: [] for name in self.pids}
                for _ in range(1 if self.quick else 3):
                    for name, port in ports.items():
                        before = cpu(self.pids[name]) if name in self.pids else 0.0
                        rate, sent = job("throughput", port=port, size=size, workers=clients, seconds=seconds)
                        runs[name].append(rate)
                        if name in self.pids:
                            costs[name].append((cpu(self.pids[name]) - before) / sent * 1000)
            rates = {name: median(values) for name, values in runs.items()}
            spent = {f"{name}_cpu_ms": median(values) for name, values in costs.items()}
            self.numbers.setdefault("throughput", {})[str(size)] = rates | spent
            table.add(
                f"{size // 1000} kB", clients, *rates.values(), rates["stet"] / rates["bare"],
                *spent.values(), spent["stet_cpu_ms"] / spent["bare_cpu_ms"],
            )  # fmt: skip

    def streams(self) -> None:
        table = self.table(
            "Streams: ms between chunks that are sent 20 ms apart", "streams", "path", "p50", "p99", "max", "p99 added",
        )  # fmt: skip
        with self.ports() as ports:
            for count in (1, 32, 256):
                spread: dict[str, dict[str, float]] = {}
                for name, port in ports.items():
                    values = job(
                        "streams", port=port, count=count, chunks=50 if self.quick else 250, apart=20
                    )
                    spread[name] = {"p50": p(values, 50), "p99": p(values, 99), "max": max(values)}
                    row = spread[name] | {"p99_added": spread[name]["p99"] - spread["direct"]["p99"]}
                    self.numbers.setdefault("streams", {})[f"{count}.{name}"] = row
                    table.add(count, name, *row.values())

    def memory(self) -> None:
        table = self.table("Resident memory of `stet serve`, MB", "after", "requests", "MB")
        turns, conversations = (500, 20) if self.quick else (10_000, 500)
        for policy in ("default",):
            with self._served(policy) as (process, port):
                time.sleep(0.5)
                rows: list[tuple[str, int, float]] = [("idle", 0, resident(process.pid))]
                table.add(*rows[-1])
                sent = 0
                for step in range(4):
                    sent += job(
                        "many_turns",
                        port=port,
                        turns=turns // 4,
                        low=20_000,
                        high=120_000,
                        name=f"long{step}",
                    )
                    rows.append((f"one client, {sent} turns", sent, resident(process.pid)))
                    table.add(*rows[-1])
            with self._served(policy) as (process, port):
                step = conversations // 5
                for first in range(0, conversations, step):
                    sent = job(
                        "many_conversations", port=port, first=first, count=step, size=1_000_000, turns=2
                    )
                    rows.append((f"{first + step} conversations of 1 MB", sent, resident(process.pid)))
                    table.add(*rows[-1])
            self.numbers.setdefault("memory", {})[policy] = rows

    @contextmanager
    def _served(self, policy: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
        with ExitStack() as stack:
            upstream, port = free_port(), free_port()
            state = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(
                running(sys.executable, str(HERE / "upstream.py"), str(upstream), port=upstream)
            )
            yield stack.enter_context(running(*stet(port, upstream, state, policy), port=port)), port

    def start(self) -> None:
        table = self.table("From start to serving, s", "what", "best", "median")
        spent: dict[str, list[float]] = {"python -c pass": [], "stet serve": []}
        for _ in range(3 if self.quick else 9):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            spent["python -c pass"].append(time.perf_counter() - began)
            with tempfile.TemporaryDirectory() as state:
                port = free_port()
                began = time.perf_counter()
                with running(*stet(port, 9, state), port=port):
                    spent["stet serve"].append(time.perf_counter() - began)
        self.numbers["start"] = spent
        for name, values in spent.items():
            table.add(name, min(values), median(values))

    def size(self) -> None:
        table = self.table(
            "Installed, MB",
            "distribution",
            "MB",
            note=f"Files of the distribution and all it needs in {self.venv.name}, without bytecode.",
        )
        sizes = installed(self.venv)
        self.numbers["size"] = {"total": sum(sizes.values()), **sizes}
        for name, size in sorted(sizes.items(), key=lambda pair: -pair[1])[:8]:
            table.add(name, size)
        table.add("all", sum(sizes.values()))


def installed(venv: Path) -> dict[str, float]:
    """Megabytes of stet-proxy and of each distribution it needs."""
    site = next(venv.glob("lib/python*/site-packages"), None) or next(venv.glob("Lib/site-packages"))
    known = {_normal(one.metadata["Name"]): one for one in distributions(path=[str(site)])}
    wanted, sizes = ["stet-proxy"], dict[str, float]()
    while wanted:
        name = wanted.pop()
        if name in sizes or name not in known:
            continue
        sizes[name] = _size(known[name]) / 1e6
        needs = [need for need in known[name].requires or () if "extra ==" not in need]
        wanted += [_normal(re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0]) for need in needs]
    return sizes


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _size(found: Distribution) -> int:
    files = [Path(str(found.locate_file(file))) for file in found.files or ()]
    total = sum(file.stat().st_size for file in files if file.exists() and file.suffix != ".pyc")
    if _normal(found.metadata["Name"]) == "stet-proxy" and not any(file.suffix == ".py" for file in files):
        source = HERE.parent  # an editable install
        total += sum(
            file.stat().st_size
            for folder in ("proxy", "config")
            for file in (source / folder).rglob("*")
            if file.is_file() and "__pycache__" not in file.parts
        )
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short runs, nothing written")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument(
        "--venv", type=Path, default=Path(sys.prefix), help="where the distribution is installed"
    )
    given = parser.parse_args()
    os.environ.setdefault("PYTHONHASHSEED", "0")
    bench = Bench(given.quick, given.venv)
    for part in given.only:
        getattr(bench, part)()
    save("overhead", bench.tables, bench.numbers, quick=given.quick or tuple(given.only) != PARTS)


if __name__ == "__main__":
    main()
