"""The command lines of `stet run`, `stet doctor` and `stet report`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_run(commands: Any) -> None:
    """Add `stet run` to the commands."""
    run = commands.add_parser(
        "run",
        help="start an agent so that it speaks to the proxy, and sum up at the end",
        usage="stet run [options] -- AGENT [ARGUMENTS...]",
        description="Starts an agent with what it needs to speak to the proxy, in its environment and arguments alone: no "
        "file is edited. A proxy is started with it, unless one runs at the configured address.",
    )
    run.add_argument("--policy", metavar="FILE", help="policy file or shipped name (default: default)")
    run.add_argument(
        "--upstream",
        metavar="NAME=URL[,profile=PROFILE]",
        action="append",
        help="a provider; beats the base URL that is set for the agent",
    )
    run.add_argument(
        "--port", metavar="PORT", type=_port, help="where the proxy listens (default: a free one)"
    )
    run.add_argument("--mode", choices=("apply", "observe"), help="observe changes nothing")
    run.add_argument("--state", metavar="DIR|memory", help="where the ledger outlives the process")
    run.add_argument("--models", metavar="FILE", type=Path, help="your own facts about models and upstreams")
    run.add_argument("--config", metavar="FILE", type=Path, help="server file with any of these settings")
    run.add_argument(
        "--as", dest="named", metavar="AGENT", help="point it as this agent, whatever the program is called"
    )
    run.add_argument("--quiet", action="store_true", help="say nothing, also not at the end")
    run.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    run.set_defaults(run=_run, refuse=run.error)


def add_doctor(commands: Any) -> None:
    """Add `stet doctor` to the commands."""
    doctor = commands.add_parser(
        "doctor", help="say whether an agent would come through, and what a custom base URL changes in it"
    )
    doctor.add_argument(
        "agent", nargs="?", metavar="AGENT", help="an agent or its program (default: a list of all)"
    )
    doctor.add_argument("--policy", metavar="FILE", help="policy file or shipped name (default: default)")
    doctor.add_argument(
        "--upstream", metavar="NAME=URL[,profile=PROFILE]", action="append", help="a provider"
    )
    doctor.add_argument("--state", metavar="DIR|memory", help="where the ledger outlives the process")
    doctor.add_argument(
        "--models", metavar="FILE", type=Path, help="your own facts about models and upstreams"
    )
    doctor.add_argument("--config", metavar="FILE", type=Path, help="server file with any of these settings")
    doctor.set_defaults(run=_doctor)


def add_report(commands: Any) -> None:
    """Add `stet report` to the commands."""
    report = commands.add_parser("report", help="sum up what a proxy did, out of its admin page or its log")
    report.add_argument(
        "logs",
        nargs="*",
        metavar="LOG",
        help="logs in JSON, - for standard input (default: the running proxy)",
    )
    report.add_argument(
        "--models", metavar="FILE", type=Path, help="your own facts about models and upstreams"
    )
    report.add_argument("--config", metavar="FILE", type=Path, help="the server file of the proxy")
    report.add_argument("--json", action="store_true", help="print the figures as JSON")
    report.set_defaults(run=_report)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)


def _run(given: argparse.Namespace) -> int:
    from .session import Order, run_agent  # noqa: PLC0415  not for `stet explain`

    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        given.refuse("name the agent, as in: stet run -- claude")
    flags = {"policy": given.policy, "upstreams": given.upstream, "mode": given.mode, "state": given.state}
    return run_agent(
        Order(
            command=command,
            named=given.named,
            port=given.port,
            quiet=given.quiet,
            flags=flags,
            config=given.config,
            models=given.models,
        )
    )


def _report(given: argparse.Namespace) -> int:
    from .report import run_report  # noqa: PLC0415  as above

    return run_report(given.logs, config=given.config, models=given.models, as_json=given.json)


def _doctor(given: argparse.Namespace) -> int:
    from .doctor import diagnose  # noqa: PLC0415  as above

    flags = {"policy": given.policy, "upstreams": given.upstream, "state": given.state}
    return diagnose(given.agent, flags, given.config, given.models)
