"""The two servers of these tests, each a process of its own on a free port: the engine, and `stet serve`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import STARTED, free_port, running

_SERVE = Path(__file__).with_name("serve.py")
_ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def engine(model: Path, log: Path, *, threads: int = 1) -> Iterator[str]:
    """The URL of a running llama.cpp with a model. Threads wait for each other busily: more than one needs idle cores."""
    command = [sys.executable, str(_SERVE), str(model), str(threads)]
    with running(command, r"listening on (http://127\.0\.0\.1:\d+)$", log, dict(os.environ)) as url:
        yield url


@contextmanager
def vllm(python: Path, model: Path, log: Path) -> Iterator[str]:
    """The URL of a running vLLM, installed for an interpreter of its own (it brings 3.5 GB), with a model's folder."""
    port = free_port()
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "random"]
    command += ["--enable-prefix-caching", "--enable-prompt-tokens-details", "--block-size", "32"]
    command += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    command += ["--max-model-len", "32768", "--max-num-seqs", "2", "--enforce-eager", "--dtype", "bfloat16"]
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    environment = {**os.environ, **offline, "VLLM_CPU_KVCACHE_SPACE": "1"}
    with running(command, r"(Application startup complete)", log, environment, seconds=300):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def stet(upstream: str, state: Path, *, policy: str = "local", profile: str = "llama.cpp") -> Iterator[str]:
    """The URL of a running proxy below which `/local` leads to the engine; its log is `state/log`."""
    state.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "proxy", "serve", "--listen", "127.0.0.1:0", "--admin", "off"]
    command += ["--upstream", f"local={upstream},profile={profile}", "--policy", policy]
    command += ["--log", "json", "--state", str(state / "ledger")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STET_")}
    environment = {**kept, "HOME": str(state), "PYTHONPATH": str(_ROOT)}
    with running(command, STARTED, state / "log", environment) as listen:
        yield f"http://{listen}"
