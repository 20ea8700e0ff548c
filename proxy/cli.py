"""The command line: `stet serve`, `run`, `doctor`, `report`, `demo`, `replay`, `explain`, `check`, `schema`, `rewrite`.

Every command returns an exit code: 0 done, 1 the input is wrong (one clear line on standard error), 2 the command
line is.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

import msgspec

from . import policy as policies
from .agents import Agents
from .dialects import DIALECTS, likely
from .errors import SettingsError, StetError
from .explain import explain, text
from .gateway.projectfiles import ProjectFiles, environment
from .gateway.routes import FAMILY
from .gateway.workplace import workplace
from .launch.arguments import add_doctor, add_report, add_run
from .ledger import Ledger
from .models import Models
from .outline import outline
from .rewrite import Rewrite, rewrite
from .spool import Spool
from .stages import Facts
from .tokens import estimate, exact

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if not hasattr(given, "run"):
        parser.print_help()
        return 2
    run: Command = given.run
    try:
        return run(given)
    except StetError as error:
        print("\n".join(f"stet: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stet",
        description="A transparent LLM proxy for coding agents. It repairs what a provider would refuse, keeps the prompt's "
        "prefix standing so that it is read from cache, and says why the rest was not. `stet run -- claude` is all it takes.",
    )
    parser.add_argument("--version", action="version", version=f"stet {version('stet-proxy')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _serve_parser(commands)
    add_run(commands)
    add_doctor(commands)
    add_report(commands)
    demo = commands.add_parser(
        "demo", help="play coding sessions against an embedded provider, directly and through stet"
    )
    demo.add_argument("--json", action="store_true", help="print the figures as JSON")
    demo.add_argument(
        "--policy", default="default", help="policy file or shipped name (default: %(default)s)"
    )
    demo.set_defaults(run=_demo)
    replayed = commands.add_parser(
        "replay", help="say what a recorded session would have cost under other policies"
    )
    replayed.add_argument(
        "recordings", metavar="SESSION.jsonl", nargs="+", help="what stet serve --record wrote, also gzipped"
    )
    replayed.add_argument(
        "--policy",
        metavar="FILE",
        action="append",
        help="policy file or shipped name; may be given several times",
    )
    replayed.add_argument(
        "--models", metavar="FILE", type=Path, help="your own facts about models and upstreams"
    )
    replayed.add_argument("--turns", action="store_true", help="show each request too")
    replayed.add_argument("--json", action="store_true", help="print the figures as JSON")
    replayed.set_defaults(run=_replay)
    explained = commands.add_parser("explain", help="say what would be done to a request body, and why")
    _body_arguments(explained, "BODY", "a request body as JSON, - for standard input")
    explained.add_argument("--all", action="store_true", help="list each edit, also of long runs")
    explained.add_argument("--json", action="store_true", help="print it as JSON")
    explained.set_defaults(run=_explain)
    checked = commands.add_parser(
        "check", help="validate a policy file, and show what it sets otherwise than what it extends"
    )
    checked.add_argument("policy", metavar="FILE", help="policy file or shipped name")
    checked.add_argument("--all", action="store_true", help="show every option of every stage")
    checked.set_defaults(run=_check)
    schema = commands.add_parser("schema", help="print the JSON Schema of a file, for editors")
    schema.add_argument(
        "kind", nargs="?", choices=("policy", "server", "models", "agent", "launch"), default="policy"
    )
    schema.set_defaults(run=_schema)
    rewritten = commands.add_parser(
        "rewrite", help="rewrite a request body from standard input to standard output"
    )
    _body_arguments(rewritten, None, "")
    rewritten.add_argument(
        "--state", metavar="DIR", help="directory of the ledger, so that later calls continue this one"
    )
    rewritten.add_argument("--explain", action="store_true", help="print the edits as JSON on standard error")
    rewritten.set_defaults(run=_rewrite)
    return parser


def _serve_parser(commands: Any) -> None:
    serve = commands.add_parser("serve", help="run the proxy")
    serve.add_argument("--listen", metavar="HOST:PORT", help="where agents connect (default 127.0.0.1:8787)")
    serve.add_argument(
        "--admin", metavar="HOST:PORT|off", help="health, metrics, recent turns (default 127.0.0.1:8788)"
    )
    serve.add_argument(
        "--upstream",
        metavar="NAME=URL[,profile=PROFILE]",
        action="append",
        help="a provider more, or another address for a known one; may be given several times",
    )
    serve.add_argument("--default-upstream", metavar="NAME", help="where paths go that name no provider")
    serve.add_argument("--policy", metavar="FILE", help="policy file or shipped name (default: default)")
    serve.add_argument("--state", metavar="DIR|memory", help="where the ledger outlives the process")
    serve.add_argument(
        "--mode",
        choices=("apply", "observe"),
        help="observe changes nothing and reports what it would have done",
    )
    serve.add_argument("--log", choices=("json", "console"), help="form of the log line (default console)")
    serve.add_argument(
        "--allowed-host", metavar="NAME", action="append", help="a Host header to accept beyond loopback"
    )
    serve.add_argument("--max-body", metavar="SIZE", help="largest request body (default 64MiB)")
    serve.add_argument(
        "--drain", metavar="SECONDS", help="time for answers under way when stopping (default 60)"
    )
    serve.add_argument(
        "--spool",
        metavar="DIR|off",
        help="where huge outputs are kept (default: spool in the state directory)",
    )
    serve.add_argument(
        "--spool-path",
        metavar="DIR|off",
        help="where agents find that directory (default: at the same path, where they connect over loopback)",
    )
    serve.add_argument("--spool-size", metavar="SIZE", help="most that is kept (default 512MiB)")
    serve.add_argument("--spool-age", metavar="SECONDS", help="how long an output is kept (default 30d)")
    serve.add_argument(
        "--project", metavar="DIR|off", help="folder of the files that a policy may inject (default off)"
    )
    serve.add_argument(
        "--record",
        metavar="DIR|off",
        help="write down all that agents send, bodies included and keys not (default off)",
    )
    serve.add_argument("--record-size", metavar="SIZE", help="most that is written (default 1GiB)")
    serve.add_argument(
        "--models", metavar="FILE", type=Path, help="your own facts about models and upstreams"
    )
    serve.add_argument("--config", metavar="FILE", type=Path, help="server file with any of these settings")
    serve.set_defaults(run=_serve)


def _body_arguments(parser: argparse.ArgumentParser, body: str | None, about: str) -> None:
    if body is not None:
        parser.add_argument("body", metavar=body, help=about)
    parser.add_argument(
        "--dialect",
        choices=tuple(DIALECTS),
        help="wire format (default: what the members of the body look like)",
    )
    parser.add_argument(
        "--policy", default="default", help="policy file or shipped name (default: %(default)s)"
    )
    parser.add_argument(
        "--upstream", metavar="PROFILE", help="profile of the upstream (default: the vendor of the format)"
    )
    parser.add_argument("--agent", default="", help="name of a recogniser, such as claude-code")
    parser.add_argument(
        "--project", metavar="DIR", type=Path, help="folder of the files that a policy injects"
    )


def _serve(given: argparse.Namespace) -> int:
    from .gateway.service import run_service  # noqa: PLC0415  the server is not loaded to rewrite one body

    flags = {
        name: getattr(given, name)
        for name in (
            *("listen", "admin", "policy", "state", "mode", "log", "max_body", "drain"),
            *("spool", "spool_path", "spool_size", "spool_age", "project", "record", "record_size"),
        )
    }
    flags |= {
        "upstreams": given.upstream,
        "allowed_hosts": given.allowed_host,
        "default_upstream": given.default_upstream,
    }
    return run_service(flags, given.config, given.models)


def _demo(given: argparse.Namespace) -> int:
    from .demo import run_demo  # noqa: PLC0415  as above

    return run_demo(policy=given.policy, as_json=given.json)


def _replay(given: argparse.Namespace) -> int:
    from .playback import run_replay  # noqa: PLC0415  as above

    policies = given.policy or ()
    return run_replay(given.recordings, policies, models=given.models, turns=given.turns, as_json=given.json)


def _check(given: argparse.Namespace) -> int:
    from .gateway.values import DEFAULT_UPSTREAMS  # noqa: PLC0415  as above

    file, parent = policies.load_policy(given.policy).file, policies.parent_of(given.policy)
    extends = f", extends {parent.file.name}" if parent is not None else ""
    lines = [f"{given.policy}: sound ({file.name}{extends})", *([f"  {file.about}"] if file.about else [])]
    lines += outline(file, parent.file if parent is not None else None, every=given.all)
    if not given.all:
        lines.append("  (--all shows every option)")
    names = [agent.name for agent in Agents.load().known]
    lines += [f"warning: {doubt}" for doubt in policies.unmatched(given.policy, names, [*DEFAULT_UPSTREAMS])]
    columns = _columns()
    for line in lines:
        print(
            line
            if columns is None
            else fill(line, columns, subsequent_indent=" " * 15, break_on_hyphens=False)
        )
    return 0


def _columns() -> int | None:
    """Columns of the terminal that is written to; None where it is none."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def _schema(given: argparse.Namespace) -> int:
    from .agents import AgentFile  # noqa: PLC0415  as above
    from .gateway.settings import FileSettings  # noqa: PLC0415
    from .launch.recipe import Recipe  # noqa: PLC0415
    from .models import ModelsFile  # noqa: PLC0415
    from .yamlfile import schema  # noqa: PLC0415

    kinds = {
        "policy": policies.PolicyFile,
        "server": FileSettings,
        "models": ModelsFile,
        "agent": AgentFile,
        "launch": Recipe,
    }
    print(json.dumps(schema(kinds[given.kind]), indent=2))
    return 0


def _explain(given: argparse.Namespace) -> int:
    body = _input(given.body)
    spool = Spool(key=b"explain", url="http://127.0.0.1:8787")  # nothing is kept, and nothing sent
    explanation = explain(_rewritten(given, body, Ledger(), spool), body, _counted)
    if given.json:
        print(msgspec.json.format(msgspec.json.encode(explanation), indent=2).decode())
    else:
        print(text(explanation, every=given.all, columns=_columns()))
    return 0


def _counted(raw: bytes) -> int:
    """Tokens by the vocabulary that comes with the install, estimated where there is none."""
    try:
        return exact(raw)
    except (ImportError, OSError, ValueError):
        return estimate(raw)


def _rewrite(given: argparse.Namespace) -> int:
    body = sys.stdin.buffer.read()
    ledger, close = _ledger(given.state)
    try:
        made = _kept(given, body, ledger)
        if made.commit is not None and given.state:
            ledger.keep_policy(made.policy.digest, made.policy.encoded)
            # Nobody tells us how the request went; whoever pipes bodies through sends them.
            ledger.settle(ledger.commit(made.commit), None, (), success=True)
    finally:
        close()
    sys.stdout.buffer.write(made.body)
    sys.stdout.buffer.flush()
    if given.explain:
        print(msgspec.json.encode(explain(made, body)).decode(), file=sys.stderr)
    return 0


def _kept(given: argparse.Namespace, body: bytes, ledger: Ledger) -> Rewrite:
    """The rewrite, with what it takes out kept under the state directory; nothing is taken out where that fails."""
    if given.state:
        from .gateway.spool import SpoolDirectory  # noqa: PLC0415  only where state is asked for

        state = Path(given.state).absolute()
        try:
            directory = SpoolDirectory(state / "spool", state, _warn, shown=str(state / "spool"))
        except StetError as fault:
            _warn(fault)
        else:
            made = _rewritten(given, body, ledger, directory.seen_from(""))
            if not made.spooled or directory.hold(made.spooled):
                return made
    return _rewritten(given, body, ledger, None)


def _warn(fault: StetError) -> None:
    print(f"stet: warning: {fault}", file=sys.stderr)


def _ledger(state: str | None) -> tuple[Ledger, Callable[[], None]]:
    if not state:
        return Ledger(), lambda: None
    from .stores.sqlite import SqliteStore  # noqa: PLC0415  only where state is asked for

    store = SqliteStore(Path(state), warn=_warn)
    return Ledger(store), store.close


def _rewritten(given: argparse.Namespace, body: bytes, ledger: Ledger, spool: Spool | None) -> Rewrite:
    name = given.dialect or likely(body)
    if given.dialect is None and name != "anthropic":
        print(f"stet: read as {name}; --dialect says otherwise", file=sys.stderr)
    dialect = DIALECTS[name]
    models = Models.load()
    agents = Agents.load()
    _must_be(
        "--agent",
        given.agent or agents.generic.name,
        (agents.generic.name, *(one.name for one in agents.known)),
    )
    agent = next((one for one in agents.known if one.name == given.agent), agents.generic)
    upstream = given.upstream or FAMILY[dialect.name]
    _must_be("--upstream", upstream, models.profiles)
    profile = models.profile_for("", upstream)
    opened = dialect.open(body)
    model = models.facts(profile, dialect.model(opened, ""), dialect.name)
    chosen = policies.load_policy(given.policy).choose(profile, agent.name, model.model)
    files: Mapping[str, str] = {}
    if given.project is not None:
        place = workplace(opened, dialect, agent)
        files = ProjectFiles(given.project.absolute(), _warn).texts(chosen.injected, place)
    facts = Facts(
        now=time.time(),
        tenant=b"command line",
        model=model,
        upstream=profile,
        agent=agent,
        spool=spool,
        files=files,
        environment=environment(time.time()),
    )
    return rewrite(body, dialect, chosen, ledger, facts)


def _must_be(option: str, word: str, known: Sequence[str]) -> None:
    """Raise SettingsError for a word that is not known, with the nearest one and all there are."""
    if word in known:
        return
    close = get_close_matches(word, known, n=1, cutoff=0.6)
    meant = f", did you mean {close[0]!r}?" if close else ""
    raise SettingsError(
        f"{word!r} is not known{meant}", option, f"there are {', '.join(filter(None, known))}"
    )


def _input(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise StetError(
            f"cannot be read: {error.strerror}", name, "give the path of a request body"
        ) from None
