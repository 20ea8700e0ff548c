"""The Dockerfile, the compose file and the Kubernetes manifest agree with each other and with the program.

No container engine runs here. The Dockerfile is read as text, and what it does is done step by step in a folder of
its own: install by the lock, install the checkout, start the entry point, ask the health check, stop.
"""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import time
import tomllib
import venv
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from proxy.gateway.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "config" / "deploy"


class Instruction(NamedTuple):
    word: str
    rest: str

    @property
    def command(self) -> list[str]:
        """The command of RUN, CMD or ENTRYPOINT, in either of its forms."""
        return json.loads(self.rest) if self.rest.startswith("[") else shlex.split(self.rest)


def stages() -> list[list[Instruction]]:
    """The instructions of the Dockerfile, one list for each stage; what stands before the first is left out."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.M)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    instructions = [Instruction(*line.split(maxsplit=1)) for line in lines if line.strip()]
    arguments = dict(one.rest.split("=", 1) for one in instructions if one.word == "ARG")
    found: list[list[Instruction]] = []
    for word, rest in instructions:
        filled = re.sub(r"\$\{(\w+)\}", lambda match: arguments.get(match[1], match[0]), rest)
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append(Instruction(word, filled))
    return found


BUILD, FINAL = stages()


def only(word: str) -> Instruction:
    """The one instruction of that word in the stage that is shipped."""
    [found] = [one for one in FINAL if one.word == word]
    return found


def options(command: list[str]) -> dict[str, str]:
    """The options of a `stet serve` command line, as `--name value` or `--name=value`."""
    assert command[:2] == ["stet", "serve"]
    pairs = " ".join(command[2:]).replace("=", " ").split()
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def port(address: str) -> int:
    return int(address.rpartition(":")[2])


def health_check() -> list[str]:
    """The command of HEALTHCHECK, behind its own options."""
    return json.loads(only("HEALTHCHECK").rest.partition(" CMD ")[2])


SERVED = options(only("ENTRYPOINT").command)
USER = only("USER").rest.partition(":")[0]
[STATE] = json.loads(only("VOLUME").rest)


# The image


def test_every_base_is_pinned_and_slim() -> None:
    """A rebuild a year from now starts from the same base."""
    bases = {stage[0].rest.partition(" AS ")[0] for stage in (BUILD, FINAL)}
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", bases.pop())


def test_nothing_is_fetched_but_by_pip_in_the_build_stage() -> None:
    """What is shipped was checked against the lock's hashes; the last stage reaches no network."""
    everything = [*BUILD, *FINAL]
    assert [one for one in everything if one.word == "ADD"] == []
    runs = [one.rest for one in everything if one.word == "RUN"]
    assert [run for run in runs if re.search(r"\b(curl|wget|apt-get|apt|git|npm)\b|https?://", run)] == []
    assert [one for one in FINAL if one.word == "RUN" and "pip" in one.rest] == []
    locked = [run for run in runs if "-r " in run]
    assert len(locked) == 1
    assert "--require-hashes" in locked[0]


def test_the_image_runs_as_nobody_in_particular() -> None:
    """The user is set by number, so that Kubernetes can see it is not root, and nothing is run after it as root."""
    assert USER.isdigit()
    assert int(USER) > 0
    words = [one.word for one in FINAL]
    assert "RUN" not in words[words.index("USER") :]
    assert f"--uid {USER}" in " ".join(one.rest for one in FINAL if one.word == "RUN")


def test_the_health_check_asks_the_admin_listener_with_what_python_brings() -> None:
    """No curl in the image, no proxy variable in the way."""
    command = health_check()
    assert command[:2] == ["python", "-c"]
    assert set(re.findall(r"import ([\w., ]+)", command[2])) == {"http.client as h, sys"}
    assert f"'127.0.0.1', {port(SERVED['--admin'])}" in command[2]


def test_ports_and_folders_agree() -> None:
    """What is exposed is what is served, and the state is kept in the volume, where the user may write."""
    assert {int(number) for number in only("EXPOSE").rest.split()} == {
        port(SERVED[one]) for one in ("--listen", "--admin")
    }
    assert SERVED["--listen"].startswith("0.0.0.0:")
    assert SERVED["--state"] == STATE
    assert f"-o stet -g stet -m 0700 {STATE}" in " ".join(one.rest for one in FINAL if one.word == "RUN")


def test_what_is_copied_exists_and_reaches_the_builder() -> None:
    """Every source of COPY is in the checkout and not kept back by .dockerignore."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert lines[0] == "*"
    let_through = [line[1:] for line in lines if line.startswith("!")]
    copies = [
        one.rest.split() for one in [*BUILD, *FINAL] if one.word == "COPY" and "--from=" not in one.rest
    ]
    sources = [source for copy in copies for source in copy[:-1]]
    assert {"requirements.lock", "proxy", "config"} <= set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if not any(fnmatch(source, kept) for kept in let_through)] == []


# The lock


def locked() -> dict[str, str]:
    """What the lock pins: version by name."""
    text = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    pins = {}
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            spec, _, hashes = line.partition("--hash=")
            requirement = Requirement(spec)
            assert re.fullmatch(r"sha256:[0-9a-f]{64}", hashes.split()[0]), line
            [pin] = requirement.specifier
            assert pin.operator == "=="
            pins[canonicalize_name(requirement.name)] = pin.version
    return pins


def test_the_lock_names_no_registry() -> None:
    """Whoever builds the image chooses where packages come from; the hashes say which."""
    text = (ROOT / "requirements.lock").read_text()
    assert re.findall(r"https?://|--(?:extra-)?index-url|--find-links|--trusted-host", text) == []


def test_the_lock_holds_what_the_project_asks_for() -> None:
    """Each dependency, and those for media, is pinned at a version that the project allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = locked()
    for text in [*project["dependencies"], *project["optional-dependencies"]["media"]]:
        asked = Requirement(text)
        assert asked.specifier.contains(pins[canonicalize_name(asked.name)]), text


# Compose and Kubernetes


def read_yaml(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def test_compose_publishes_the_agents_port_on_loopback_only() -> None:
    """Whoever reaches the port spends other people's keys."""
    [compose] = read_yaml("compose.yaml")
    service = compose["services"]["stet"]
    agents = port(SERVED["--listen"])
    assert service["ports"] == [f"127.0.0.1:{agents}:{agents}"]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])


def test_compose_finds_its_files() -> None:
    """The build context holds the Dockerfile, the policy's folder is mounted where the command reads it."""
    [compose] = read_yaml("compose.yaml")
    service = compose["services"]["stet"]
    assert (DEPLOY / service["build"] / "Dockerfile").is_file()
    policies, state = (volume.split(":") for volume in service["volumes"])
    given = dict(pairwise(service["command"]))
    assert PurePosixPath(given["--policy"]).parent == PurePosixPath(policies[1])
    assert (DEPLOY / policies[0] / PurePosixPath(given["--policy"]).name).is_file()
    assert policies[2] == "ro"
    assert state[1] == STATE
    assert state[0] in compose["volumes"]


def test_a_neighbour_reaches_the_service_by_its_name() -> None:
    """The name that the compose network gives it is one of those that it serves."""
    [compose] = read_yaml("compose.yaml")
    [name] = compose["services"]
    assert dict(pairwise(compose["services"][name]["command"]))["--allowed-host"] == name


@pytest.fixture(scope="module")
def pod() -> dict[str, Any]:
    [job] = [one for one in read_yaml("kubernetes.yaml") if one["kind"] == "Job"]
    return job["spec"]["template"]["spec"]


def test_the_sidecar_listens_on_the_loopback_that_the_agent_uses(pod: dict[str, Any]) -> None:
    """The agent's base URL is the sidecar's address, on the ports of the image."""
    [stet], [agent] = pod["initContainers"], pod["containers"]
    served = options(stet["command"])
    assert served["--listen"] == f"127.0.0.1:{port(SERVED['--listen'])}"
    assert served["--admin"] == SERVED["--admin"]
    [base] = [one["value"] for one in agent["env"] if one["name"] == "ANTHROPIC_BASE_URL"]
    assert base == f"http://{served['--listen']}"
    assert [one["containerPort"] for one in stet["ports"]] == [
        port(served["--listen"]),
        port(served["--admin"]),
    ]


def test_the_sidecar_starts_first_and_does_not_outlive_the_agent(pod: dict[str, Any]) -> None:
    """An init container that always restarts is what Kubernetes calls a sidecar."""
    [stet] = pod["initContainers"]
    assert (stet["restartPolicy"], pod["restartPolicy"]) == ("Always", "Never")
    assert "startupProbe" in stet


def test_the_sidecar_has_no_rights_it_does_not_need(pod: dict[str, Any]) -> None:
    """Not root, by the image's own number; nothing writable but the mounts; no token of the cluster."""
    [stet] = pod["initContainers"]
    context = stet["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"]) == (True, int(USER))
    assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["fsGroup"] == int(USER)


def test_the_sidecar_is_asked_on_its_admin_port_from_inside(pod: dict[str, Any]) -> None:
    """Liveness is the image's own health check; a sidecar is ready when it says so."""
    [stet] = pod["initContainers"]
    assert stet["livenessProbe"]["exec"]["command"] == health_check()
    ready = [part.replace("/healthz", "/readyz") for part in health_check()]
    assert ready != health_check()
    assert stet["startupProbe"]["exec"]["command"] == ready
    assert stet["readinessProbe"]["exec"]["command"] == ready


def test_the_sidecar_has_its_policy_and_its_state(pod: dict[str, Any]) -> None:
    """The ConfigMap's file is where the command reads it; the state is a volume of the pod's own."""
    [stet] = pod["initContainers"]
    served = options(stet["command"])
    [config] = [one for one in read_yaml("kubernetes.yaml") if one["kind"] == "ConfigMap"]
    mounts = {one["mountPath"]: one["name"] for one in stet["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["volumes"]}
    policy = PurePosixPath(served["--policy"])
    assert volumes[mounts[str(policy.parent)]]["configMap"] == {"name": config["metadata"]["name"]}
    assert set(config["data"]) == {policy.name}
    assert served["--state"] == STATE
    assert "emptyDir" in volumes[mounts[STATE]]


# The steps of the image, without an engine


UNREACHABLE = (
    "NewConnectionError",
    "NameResolutionError",
    "Failed to resolve",
    "ConnectTimeoutError",
    "ProxyError",
)


def clean_environment(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "COV", "STET"))}
    return kept | {"PATH": f"{home / 'bin'}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment made by the pip commands of the build stage."""
    home = tmp_path_factory.mktemp("image") / "env"
    venv.create(home, with_pip=True)
    for one in BUILD:
        for command in one.rest.split("&&") if one.word == "RUN" else []:
            words = [
                part.replace("/opt/stet", str(home)).replace("/src", str(ROOT))
                for part in shlex.split(command)
            ]
            if words[1:2] == ["install"]:
                done = subprocess.run(
                    words, env=clean_environment(home), cwd=home, capture_output=True, text=True, timeout=600
                )
                if done.returncode and any(sign in done.stderr + done.stdout for sign in UNREACHABLE):
                    pytest.skip(
                        "no package registry can be reached from here: the image's steps are not tested"
                    )
                assert done.returncode == 0, done.stderr
    return home


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_the_image_holds_what_the_lock_says(image: Path) -> None:
    """Nothing is missing, nothing conflicts, and nothing came that the lock does not name."""
    python = image / "bin" / "python"
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"],
        env=clean_environment(image), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    installed = {canonicalize_name(one["name"]): one["version"] for one in json.loads(listed.stdout)}
    for extra in ("pip", "setuptools", "stet-proxy"):
        installed.pop(extra, None)
    assert installed.items() <= locked().items()
    checked = subprocess.run(
        [python, "-m", "pip", "check"],
        env=clean_environment(image),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert checked.returncode == 0, checked.stdout


def test_the_entry_point_starts_answers_its_health_check_and_stops(image: Path, tmp_path: Path) -> None:
    """The command of ENTRYPOINT serves; the command of HEALTHCHECK is content with it; SIGTERM ends it cleanly."""
    agents, admin = free_port(), free_port()
    moved = {
        SERVED["--listen"]: f"127.0.0.1:{agents}",
        SERVED["--admin"]: f"127.0.0.1:{admin}",
        STATE: str(tmp_path / "state"),
    }
    (tmp_path / "state").mkdir(mode=0o700)
    command = [moved.get(part, part) for part in only("ENTRYPOINT").command]
    ask = [part.replace(str(port(SERVED["--admin"])), str(admin)) for part in health_check()]
    environment = clean_environment(image) | {"HOME": str(tmp_path)}
    log = tmp_path / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [image / "bin" / command[0], *command[1:]],
            env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        until = time.monotonic() + 30
        while (asked := subprocess.run(ask, env=environment, capture_output=True, timeout=30)).returncode:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, asked.stderr.decode() + log.read_text()
            time.sleep(0.1)
        ready = [part.replace("/healthz", "/readyz") for part in ask]
        assert subprocess.run(ready, env=environment, timeout=30).returncode == 0
        with socket.create_connection(("127.0.0.1", agents), timeout=5):
            pass
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0, log.read_text()
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    assert list((tmp_path / "state").iterdir()), "no state was kept in the volume"


def test_the_sidecar_policy_is_one_that_the_image_accepts(image: Path, tmp_path: Path) -> None:
    """What the ConfigMap holds passes `stet check`."""
    [config] = [one for one in read_yaml("kubernetes.yaml") if one["kind"] == "ConfigMap"]
    [(name, text)] = config["data"].items()
    (tmp_path / name).write_text(text)
    checked = subprocess.run(
        [image / "bin" / "stet", "check", name],
        env=clean_environment(image), cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_default_addresses_are_those_of_the_image() -> None:
    """Who runs `stet serve` without options finds it on the same ports, on loopback."""
    defaults = Settings()
    assert (str(defaults.listen), str(defaults.admin)) == (
        f"127.0.0.1:{port(SERVED['--listen'])}",
        f"127.0.0.1:{port(SERVED['--admin'])}",
    )
