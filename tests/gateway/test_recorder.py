"""`record`: what is written, for whom, and that nothing of it can cost a request."""

import asyncio
import contextlib
import gzip
import io
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.agents import Agents
from proxy.errors import SettingsError
from proxy.gateway.app import Gateway
from proxy.gateway.banner import banner
from proxy.gateway.conversations import Conversations
from proxy.gateway.recorder import Recorder
from proxy.gateway.settings import Settings
from proxy.gateway.values import Address
from proxy.policy import load_policy
from proxy.recording import Recorded, read
from proxy.usage import Usage
from tests.gateway.rig import LAST, SSE_HEAD, START, STOP, Provider, Rig, chunk, post, respond, run, settings

SECRET = "sk-ant-very-secret"
BODY = b'{"model":"claude-opus-5","max_tokens":9,"messages":[{"role":"user","content":"%s"}],"stream":true}'
STREAM = (SSE_HEAD, chunk(START), chunk(STOP), LAST)


@contextlib.asynccontextmanager
async def recording(folder: Path, limit: int = 10**9) -> AsyncIterator[tuple[Rig, Recorder, list[str]]]:
    """A proxy that records, in front of a scripted provider; the warnings."""
    provider = Provider()
    base = await provider.start()
    warned: list[str] = []
    recorder = Recorder(
        folder, limit, Agents.load(), lambda fault: warned.append(str(fault)), {"anthropic": "bedrock"}
    )
    log = io.StringIO()
    rewriter = Conversations(load_policy("careful"))
    gateway = Gateway(settings(base), rewriter, stream=log, env={}, clock=lambda: 1000.5, recorder=recorder)
    await gateway.start()
    try:
        yield Rig(provider, gateway, log), recorder, warned
    finally:
        await gateway.stop(drain=0)
        await provider.stop()
        recorder.close()


async def asked(rig: Rig, text: str, *headers: bytes, path: str = "/v1/messages") -> None:
    rig.provider.play(*STREAM)
    answer = await rig.ask(post(BODY % text.encode(), path, *headers))
    assert answer.status == 200


def test_a_session_is_a_file_of_its_requests(tmp_path: Path) -> None:
    """Path, headers that agents are known by, body, time, upstream, and how it went; files and folder are private."""
    folder = tmp_path / "recorded"
    claude = (b"user-agent: claude-cli/2.1.332 (external, cli)", b"x-claude-code-session-id: s1")

    async def scene() -> None:
        async with recording(folder) as (rig, _, warned):
            await asked(rig, "one", *claude, f"x-api-key: {SECRET}".encode(), path="/v1/messages?beta=true")
            await asked(rig, "two", *claude, f"authorization: Bearer {SECRET}".encode())
            await asked(rig, "three", b"user-agent: pi/1.0.0", path=f"/v1/messages?key={SECRET}")
            await rig.turns(3)
            assert warned == []

    run(scene())
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    assert [file.name.rpartition("-")[0] for file in files] == ["claude-code", "pi"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, *files)] == [0o700, 0o600, 0o600]
    assert SECRET not in "".join(file.read_text() for file in files)
    first, second = read(files[0])
    assert first == Recorded(
        path="/v1/messages?beta=true",
        headers={
            "content-type": "application/json",
            "user-agent": "claude-cli/2.1.332 (external, cli)",
            "x-claude-code-session-id": "s1",
        },
        body=(BODY % b"one").decode(),
        at=1000.5,
        dialect="anthropic",
        upstream="anthropic",
        profile="bedrock",
        status=200,
        usage=Usage(prompt=103, uncached=3, cached=60, written=40, output=9),
    )
    assert (second.path, second.body) == ("/v1/messages", (BODY % b"two").decode())


def test_a_packed_body_is_written_plain(tmp_path: Path) -> None:
    """What is recorded can be read, whatever the client packed it with; a count of tokens is not recorded."""

    async def scene() -> None:
        async with recording(tmp_path / "r") as (rig, _, _warned):
            rig.provider.play(*STREAM)
            packed = gzip.compress(BODY % b"hello")
            assert (await rig.ask(post(packed, "/v1/messages", b"content-encoding: gzip"))).status == 200
            rig.provider.play(respond(b'{"input_tokens":3}'))
            await rig.ask(post(BODY % b"hello", "/v1/messages/count_tokens"))
            await rig.turns(2)

    run(scene())
    (file,) = (tmp_path / "r").iterdir()
    assert [one.body for one in read(file)] == [(BODY % b"hello").decode()]


def test_when_the_room_is_used_up_recording_ends(tmp_path: Path) -> None:
    """One warning, whole lines, and the requests go on; what a directory already holds counts."""

    async def scene() -> list[str]:
        async with recording(tmp_path / "r", limit=900) as (rig, recorder, warned):
            for text in ("one", "two", "three", "four"):
                await asked(rig, text)
            await rig.turns(4)
            recorder.close()
            return warned

    (warning,) = run(scene())
    assert warning.startswith(f"{tmp_path}/r: recording ends here: 900 bytes are in it")
    before = {file.name: len(read(file)) for file in (tmp_path / "r").iterdir()}
    assert sum(before.values()) == 2
    (again,) = run(scene())
    assert again == warning
    assert {file.name: len(read(file)) for file in (tmp_path / "r").iterdir()} == before


def test_a_full_disk_costs_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that does not fit is taken back, the rest stays readable, and recording ends with one warning."""
    real, full = os.write, [False]
    claude = (b"user-agent: claude-cli/2.1.332", b"x-claude-code-session-id: s1")

    def write(descriptor: int, data: bytes) -> int:
        if not full[0]:
            return real(descriptor, data)
        if bytes(data[:1]) == b"{":
            return real(descriptor, data[:50])
        raise OSError(28, "No space left on device")

    async def scene() -> list[str]:
        async with recording(tmp_path / "r") as (rig, recorder, warned):
            await asked(rig, "one", *claude)
            while not list((tmp_path / "r").glob("*.jsonl")):
                await asyncio.sleep(0.005)
            await rig.turns(1)
            await asyncio.to_thread(recorder._writing.submit(lambda: None).result)
            full[0] = True
            monkeypatch.setattr("proxy.gateway.recorder.os.write", write)
            await asked(rig, "two", *claude)
            await asked(rig, "three", *claude)
            await rig.turns(3)
            recorder.close()
            return warned

    assert [said.partition("here: ")[2] for said in run(scene())] == [
        "No space left on device; requests go on unrecorded"
    ]
    (file,) = (tmp_path / "r").iterdir()
    assert [one.body for one in read(file)] == [(BODY % b"one").decode()]


def test_a_directory_of_others_is_refused(tmp_path: Path) -> None:
    """Before the server starts, with what to do."""
    tmp_path.chmod(0o755)
    with pytest.raises(SettingsError, match=r"record: .*others may look into it"):
        Recorder(tmp_path, 10**9, Agents.load(), lambda _: None)


def test_recording_is_said_aloud() -> None:
    """The second thing that is said at the start."""
    said = banner(Settings(record="/x/r"), Address("127.0.0.1", 1), None, {})
    assert "RECORDING: all that agents send is written to /x/r, keys aside" in said
    assert not any("RECORDING" in one for one in banner(Settings(), Address("127.0.0.1", 1), None, {}))
