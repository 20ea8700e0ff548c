"""Run the embedded providers of all formats on one port: `python -m proxy.simulator --port N`."""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from .agent import tour
from .chat import COMPLETIONS, FLAVOURS, OPENAI, ChatProvider
from .gemini import GeminiProvider, GeminiSettings
from .host import Host
from .provider import MESSAGES, Provider
from .reply import Script, echo
from .responses import RESPONSES, ResponsesProvider, chatgpt
from .server import Server, Service
from .settings import Settings


async def serve(options: argparse.Namespace) -> None:
    """Serve until cancelled; the first line on stdout is the URL."""
    server = await Server(Host(services_of(options)), options.host, options.port).start()
    sys.stdout.write(server.url + os.linesep)
    sys.stdout.flush()
    try:
        await asyncio.Event().wait()
    finally:
        await server.stop()


def services_of(options: argparse.Namespace) -> dict[str, Service]:
    """A provider for each format, by the beginning of its paths."""
    settings = Settings(binding=options.binding, latency_s=options.latency, event_delay_s=options.event_delay)
    script = script_of(options.tour, options.turns)
    delays = GeminiSettings(latency_s=options.latency, event_delay_s=options.event_delay)
    gemini: Any = GeminiProvider(delays, script)
    responses = ResponsesProvider(settings, script)
    return {
        MESSAGES: Provider(settings, script),
        COMPLETIONS: ChatProvider(FLAVOURS[options.chat], settings, script),
        RESPONSES: responses,
        chatgpt.PATH: responses,
        "/v1beta/": gemini,
        "/v1/projects/": gemini,
        "/v1internal:": gemini,
    }


def script_of(folder: str | None, turns: int) -> Script:
    """The model's part: a tour of this folder, or an echo."""
    if folder is None:
        return echo
    root = Path(folder).resolve()
    return tour(str(root), sorted(str(path) for path in root.iterdir() if path.is_file()), turns)


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m proxy.simulator", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument(
        "--chat", choices=FLAVOURS, default=OPENAI.name, help="the service behind chat completions"
    )
    parser.add_argument("--binding", choices=("unenforced", "error"), default="unenforced")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds to the first byte")
    parser.add_argument("--event-delay", type=float, default=0.0, help="seconds between events")
    parser.add_argument("--tour", help="play an agent that looks around in this folder")
    parser.add_argument("--turns", type=int, default=16, help="tool steps of the tour")
    try:
        asyncio.run(serve(parser.parse_args()))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
