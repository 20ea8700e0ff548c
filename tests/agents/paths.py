"""What stands between an agent and the embedded provider: nothing, a running `stet serve`, a lossy client."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import aiohttp
import orjson
from aiohttp import web

from tests.processes import STARTED, running

from .threads import Loop

Way = Literal["direct", "stet"]

_HOP = {"host", "content-length", "transfer-encoding", "connection", "keep-alive"}


@contextmanager
def base_url(
    way: Way, provider: str, state: Path, *, policy: str = "default", profile: str = "anthropic"
) -> Iterator[str]:
    """The base URL for an agent so that its requests reach `provider` this way; `profile` is what it is for Messages."""
    if way == "direct":
        yield provider
    else:
        with stet(provider, state, policy=policy, profile=profile) as url:
            yield url


@contextmanager
def stet(provider: str, state: Path, *, policy: str = "default", profile: str = "anthropic") -> Iterator[str]:
    """A `stet serve` process of its own, its state below `state`, its log in `state/log`."""
    state.mkdir(parents=True, exist_ok=True)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(state),
        "STET_LISTEN": "127.0.0.1:0",
        "STET_ADMIN": "off",
        "STET_UPSTREAMS": f"anthropic={provider}#{profile},openai={provider}#openai,gemini={provider}#gemini",
        "STET_STATE": str(state / "promises"),
        "STET_POLICY": policy,
        "STET_LOG": "json",
        **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
    }
    command = [str(Path(sys.executable).with_name("stet")), "serve"]
    with running(command, STARTED, state / "log", environment) as listen:
        yield f"http://{listen}"


Edit = Callable[[dict[str, Any]], dict[str, Any]]


@contextmanager
def between(url: str, edit: Edit) -> Iterator[str]:
    """A client gone wrong: every JSON body on its way to `url` is changed by `edit`; answers pass as they come."""
    with Loop() as loop:
        edited = _Edited(url, edit)
        loop.run(edited.start())
        try:
            yield edited.url
        finally:
            loop.run(edited.stop())


class _Edited:
    def __init__(self, upstream: str, edit: Edit) -> None:
        self._upstream = upstream
        self._edit = edit
        self._runner: web.ServerRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.url = ""

    async def start(self) -> None:
        self._session = aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=120))
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self._session is not None
        body = await request.read()
        if request.method == "POST":
            body = orjson.dumps(self._edit(orjson.loads(body)))
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        call = self._session.request(
            request.method, self._upstream + request.raw_path, data=body, headers=headers
        )
        async with call as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


def losing(nth: int) -> Edit:
    """Loses the result of the `nth` tool call of a history, the same in every request.

    A message that held nothing else goes with it, as in a client that drops what it cannot restore.
    """

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        calls = [block["id"] for block in blocks(body) if block["type"] == "tool_use"]
        if len(calls) <= nth:
            return body
        messages = []
        for message in body["messages"]:
            content = message["content"]
            if message["role"] == "user" and isinstance(content, list):
                left = [block for block in content if block.get("tool_use_id") != calls[nth]]
                if content and not left:
                    continue
                messages.append({**message, "content": left})
            else:
                messages.append(message)
        return {**body, "messages": messages}

    return edit


def blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    """All content blocks of a body's messages, in order."""
    return [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
